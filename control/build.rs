//! Compiles the decision core for this process, and makes the Rust types of what it shares from `core/types.h`.

#[path = "build/types.rs"]
mod types;

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=core");
    println!("cargo:rerun-if-changed=tests/interleavings.c");
    cc::Build::new()
        .file("core/native.c")
        .flags(["-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function"])
        // The simulator's packets go through here, in tests too.
        .opt_level(2)
        .compile("ackgate_core");
    explorer();
    let header = fs::read_to_string("core/types.h").expect("core/types.h is part of this crate");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let types = types::generate(&header).unwrap_or_else(|problem| panic!("core/types.h: {problem}"));
    fs::write(out.join("types.rs"), types).expect("the build's output directory is writable");
}

/// What `tests/interleavings.rs` calls, and nothing else: the linker leaves it out of whatever does not. It switches stacks by the C
/// library's own means, which only glibc has.
fn explorer() {
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        cc::Build::new()
            .file("tests/interleavings.c")
            .flags(["-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function"])
            .opt_level(2)
            .compile("ackgate_interleavings");
    }
}
