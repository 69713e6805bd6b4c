//! Compiles the decision core for this process, and makes the Rust types of what it shares from `core/types.h`.

#[path = "build/types.rs"]
mod types;

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=core");
    cc::Build::new()
        .file("core/native.c")
        .flags(["-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function"])
        // The simulator's packets go through here, in tests too.
        .opt_level(2)
        .compile("ackgate_core");
    let header = fs::read_to_string("core/types.h").expect("core/types.h is part of this crate");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let types = types::generate(&header).unwrap_or_else(|problem| panic!("core/types.h: {problem}"));
    fs::write(out.join("types.rs"), types).expect("the build's output directory is writable");
}
