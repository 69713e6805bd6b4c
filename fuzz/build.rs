//! Compiles the parser of the BPF programs for this process. With `ACKGATE_FUZZ` set it is watched by libFuzzer, too, which takes clang.

use std::env;

fn main() {
    for path in ["src/packet.c", "../linux/src/bpf/packet.h", "../linux/src/bpf/intf.h", "../control/core"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=ACKGATE_FUZZ");
    let mut build = cc::Build::new();
    build.file("src/packet.c").flags([
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Wno-unused-function",
        "-Wno-sign-compare",
    ]);
    if env::var_os("ACKGATE_FUZZ").is_some() {
        build.flag("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
        // What is undefined traps.
        build.flags(["-fsanitize=undefined", "-fsanitize-trap=undefined"]);
    }
    build.opt_level(2).compile("ackgate_packet");
}
