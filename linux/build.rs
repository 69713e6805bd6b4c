//! Compiles the BPF programs and generates their skeleton.

#[path = "build/clang.rs"]
mod clang;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed=../control/core");
    for (source, skeleton) in [("src/bpf/ackgate.bpf.c", "ackgate.skel.rs"), ("src/bpf/host.bpf.c", "host.skel.rs")] {
        if let Err(reason) = clang::build(source, skeleton) {
            // What a build script prints on stderr is what cargo shows.
            eprintln!("ackgate's BPF programs could not be built: {reason}");
            std::process::exit(1);
        }
    }
}
