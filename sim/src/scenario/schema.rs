//! Which keys there are and what they take, found by asking the decoder: an unknown key or a value of the wrong type
//! makes it list what it knows, so that this list cannot grow stale.

use super::document::{Assignment, Document};
use super::error::{Problem, ScenarioError, WHOLE_NUMBER};
use super::limits;

/// A key that a scenario may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Dotted path as `--set` takes it.
    pub path: String,
    /// The kind of the table around it that has this key, `kind = "…"`; `None` when all have it.
    pub kind: Option<String>,
    /// What kind of value it takes.
    pub takes: String,
    /// Between what bounds, where there are any that do not hang on other keys.
    pub range: Option<String>,
}

/// All keys, table by table. A group of senders and a change are shown as entry 0 of their lists.
#[must_use]
pub fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    let start = Document::parse("", "[[group]]\n[[background]]\n[[change]]").expect("headers are TOML");
    table(&start, "", None, &mut keys);
    keys
}

/// Lists of groups of senders.
const GROUPS: [&str; 2] = ["group", "background"];

/// The list of changes.
const CHANGES: &str = "change";

/// A word that no key and no kind is called by.
const PROBE: &str = "no such word";

/// Where else a key of this name is known, in words, for a key that stands in the wrong table or under the wrong kind.
pub(super) fn elsewhere(name: &str) -> Option<String> {
    let suffix = format!(".{name}");
    let known = |key: &Key| key.path.ends_with(&suffix) && !GROUPS.contains(&key.path.split('.').next().unwrap_or(""));
    let key = keys().into_iter().find(known)?;
    let with = key.kind.map_or_else(String::new, |kind| format!(", with kind = \"{kind}\""));
    Some(format!("there is a key `{}`{with}", key.path))
}

fn table(document: &Document, path: &str, kind: Option<&str>, keys: &mut Vec<Key>) {
    let join = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
    let Some(Problem::UnknownKey { allowed, .. }) = answer(document, &join(PROBE), "0") else { return };
    for part in allowed {
        let inner = join(part);
        let takes = |takes: String| {
            let range = limits::of(&inner).map(|range| range.to_string());
            let takes = if range.is_some() && takes.starts_with(WHOLE_NUMBER) { WHOLE_NUMBER.into() } else { takes };
            Key { path: inner.clone(), kind: kind.map(str::to_owned), takes, range }
        };
        match answer(document, &inner, &format!("\"{PROBE}\"")) {
            Some(Problem::UnknownName { allowed: kinds, .. }) => {
                keys.push(takes(kinds.iter().map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(" or ")));
                for kind in kinds {
                    let mut chosen = document.clone();
                    if chosen.set(&assignment(&inner, &format!("{{ kind = \"{kind}\" }}"))).is_ok() {
                        table(&chosen, &inner, Some(kind), keys);
                    }
                }
            }
            Some(Problem::WrongType { wanted, .. }) if wanted == "a table" => {
                table(document, &inner, kind, keys);
            }
            _ if GROUPS.contains(part) || *part == CHANGES => table(document, &format!("{part}.0"), kind, keys),
            _ => {
                // What takes an empty list takes a list, of what it wants as an element.
                let list = if answer(document, &inner, "[]").is_some() { "" } else { "a list, each " };
                match answer(document, &inner, "[[]]") {
                    Some(Problem::WrongType { wanted, .. }) => keys.push(takes(format!("{list}{wanted}"))),
                    _ => keys.push(takes("a list".into())),
                }
            }
        }
    }
}

/// What the decoder objects to once `key` is `value`.
fn answer(document: &Document, key: &str, value: &str) -> Option<Problem> {
    let mut changed = document.clone();
    changed.set(&assignment(key, value)).ok()?;
    changed.decode().err().map(ScenarioError::into_problem)
}

fn assignment(key: &str, value: &str) -> Assignment {
    Assignment { option: "", key: key.into(), value: value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_found() {
        let keys = keys();
        let find = |path: &str| keys.iter().find(|key| key.path == path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(find("senders").takes, "a whole number");
        assert_eq!(find("senders").range.as_deref(), Some("1 to 100000"));
        assert_eq!(find("seed").takes, "a whole number from 0 to 9223372036854775807");
        assert_eq!(find("tcp.rto_min").takes, "a time such as \"200ms\"");
        assert_eq!(find("tcp.cc").takes, "\"newreno\" or \"cubic\" or \"dctcp\" or \"bbr\"");
        assert_eq!(find("workload.volume").kind.as_deref(), Some("rounds"));
        assert_eq!(find("background.0.workload.mean_gap").kind.as_deref(), Some("epochs"));
        assert_eq!(find("network.topology.spines").kind.as_deref(), Some("leaf-spine"));
        assert_eq!(find("network.topology.senders_at").takes, "a list, each a string");
        assert!(keys.iter().all(|key| !key.path.contains(PROBE)));
    }
}
