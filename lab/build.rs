//! Compiles the BPF programs of the emulated switch and of the senders, and generates their skeletons; and a list of the
//! objects, so that whoever tries them finds each one there is.

#[path = "../linux/build/clang.rs"]
mod clang;

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed=../linux/src/bpf/queue.h");
    if let Err(reason) = build() {
        // What a build script prints on stderr is what cargo shows.
        eprintln!("the lab's BPF programs could not be built: {reason}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let mut list = String::new();
    for name in names().map_err(|error| format!("src/bpf: {error}"))? {
        let source = format!("src/bpf/{name}.bpf.c");
        let object =
            clang::build(&source, &format!("{name}.skel.rs")).map_err(|reason| format!("{source}: {reason}"))?;
        // Writing to a string cannot fail.
        let _ = writeln!(list, "    include_bytes!({:?}),", object.display().to_string());
    }
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?;
    let text = format!("/// Every object that the build made.\npub(crate) const OBJECTS: &[&[u8]] = &[\n{list}];\n");
    fs::write(Path::new(&out).join("objects.rs"), text).map_err(|error| format!("objects.rs: {error}"))
}

/// What stands before `.bpf.c`.
fn names() -> io::Result<Vec<String>> {
    let files = fs::read_dir("src/bpf")?.collect::<Result<Vec<_>, _>>()?;
    let names = files.iter().filter_map(|file| file.file_name().to_str()?.strip_suffix(".bpf.c").map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}
