//! Reads the structs, enums and flags of `core/types.h`, which keeps to a simple form: each member, enumerator or flag stands
//! on a line of its own behind the comment that describes it.

use std::fmt::Write;

/// Structs that the packet path, the scheduler and other processors share: their members are atomic cells.
const SHARED: [&str; 2] = ["gate", "flow"];

/// How these end: they begin cache lines.
const SHARED_END: &str = "} __attribute__((aligned(64)));";

/// Rust source for everything in the header.
pub(crate) fn generate(header: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut flags = String::new();
    let mut doc = String::new();
    let mut block: Option<Block> = None;
    let mut comment = false;
    for (number, line) in header.lines().enumerate() {
        let text = line.trim();
        let wrong = |what: &str| format!("line {}: {what}: `{text}`", number + 1);
        if comment || text.starts_with("/*") {
            if !comment {
                doc.clear();
            }
            let words = text.trim_start_matches("/*").trim_end_matches("*/").trim().trim_start_matches("* ");
            if !words.is_empty() && words != "*" {
                doc.push_str(words);
                doc.push(' ');
            }
            comment = !text.ends_with("*/");
        } else if let Some(current) = &mut block {
            if text == "};" || text == SHARED_END {
                current.end(&mut out);
                block = None;
            } else {
                current.member(text, doc.trim(), &mut out).ok_or_else(|| wrong("not a member"))?;
            }
            doc.clear();
        } else if let Some(name) = text.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {")) {
            block = Some(Block::start_struct(name, doc.trim(), &mut out));
        } else if let Some(name) = text.strip_prefix("enum ").and_then(|rest| rest.strip_suffix(" {")) {
            block = Some(Block::start_enum(name, doc.trim(), &mut out));
        } else if let Some(flag) = text.strip_prefix("#define FLOW_") {
            let (name, value) = flag.split_once(' ').ok_or_else(|| wrong("not a flag"))?;
            let bit = value.strip_prefix("(1u << ").and_then(|rest| rest.strip_suffix(')'));
            let bit = bit.ok_or_else(|| wrong("not a bit"))?;
            write!(flags, "    /// {}\n    pub const {name}: u32 = 1 << {bit};\n", doc.trim())
                .map_err(|e| e.to_string())?;
        } else if text.is_empty() {
            doc.clear();
        }
    }
    write!(out, "/// Bits of [`Flow::flags`].\npub mod flag {{\n{flags}}}\n").map_err(|e| e.to_string())?;
    Ok(out)
}

enum Block {
    Struct { name: String, shared: bool, zero: String },
    Enum { prefix: String, next: u32 },
}

impl Block {
    fn start_struct(name: &str, doc: &str, out: &mut String) -> Self {
        let shared = SHARED.contains(&name);
        let derive = if shared { "Debug" } else { "Clone, Copy, Debug, Default, PartialEq, Eq" };
        let repr = if shared { "C, align(64)" } else { "C" };
        *out += &format!("/// {doc}\n#[derive({derive})]\n#[repr({repr})]\npub struct {} {{\n", camel(name));
        Self::Struct { name: camel(name), shared, zero: String::new() }
    }

    fn start_enum(name: &str, doc: &str, out: &mut String) -> Self {
        *out += &format!("/// {doc}\npub mod {name} {{\n");
        Self::Enum { prefix: String::new(), next: 0 }
    }

    fn member(&mut self, text: &str, doc: &str, out: &mut String) -> Option<()> {
        match self {
            Self::Struct { shared, zero, .. } => {
                let (kind, name) = text.strip_suffix(';')?.split_once(' ')?;
                let (name, length) = match name.strip_suffix(']') {
                    Some(array) => array.split_once('[').map(|(name, length)| (name, Some(length)))?,
                    None => (name, None),
                };
                let kind = match (kind, *shared) {
                    ("__u64", true) => "U64",
                    ("__u32", true) => "U32",
                    ("__u64", false) => "u64",
                    ("__u32", false) => "u32",
                    ("__u16", false) => "u16",
                    ("__u8", false) => "u8",
                    ("bool", false) => "bool",
                    _ => return None,
                };
                let (kind, empty) = match length {
                    Some(length) => (format!("[{kind}; {length}]"), format!("[const {{ {kind}::new(0) }}; {length}]")),
                    None => (kind.to_owned(), format!("{kind}::new(0)")),
                };
                *out += &format!("    /// {doc}\n    pub {name}: {kind},\n");
                *zero += &format!("            {name}: {empty},\n");
            }
            Self::Enum { prefix, next } => {
                let name = text.strip_suffix(',')?;
                if prefix.is_empty() {
                    *prefix = name.split('_').next()?.to_owned() + "_";
                }
                let name = name.strip_prefix(prefix.as_str())?;
                *out += &format!("    /// {doc}\n    pub const {name}: u32 = {next};\n");
                *next += 1;
            }
        }
        Some(())
    }

    fn end(&self, out: &mut String) {
        *out += "}\n\n";
        if let Self::Struct { name, shared: true, zero } = self {
            *out += &format!(
                "impl Default for {name} {{\n    fn default() -> Self {{\n        Self {{\n{zero}        }}\n    }}\n}}\n\n"
            );
        }
    }
}

fn camel(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
