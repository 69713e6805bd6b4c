//! Compiles the BPF programs and generates their skeleton.

#[path = "build/clang.rs"]
mod clang;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed=../control/core");
    println!("cargo:rerun-if-changed=src/watch/native.c");
    println!("cargo:rerun-if-changed=src/m21/native.c");
    cc::Build::new()
        .file("src/watch/native.c")
        .flags(["-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .compile("ackgate_watch");
    cc::Build::new()
        .file("src/m21/native.c")
        .flags(["-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .compile("ackgate_m21");
    for name in ["ackgate", "host", "watch", "switch", "m21"] {
        if let Err(reason) = clang::build(&format!("src/bpf/{name}.bpf.c"), &format!("{name}.skel.rs")) {
            // What a build script prints on stderr is what cargo shows.
            eprintln!("ackgate's BPF programs could not be built: {reason}");
            std::process::exit(1);
        }
    }
}
