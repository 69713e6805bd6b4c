//! Compiles the BPF programs of the emulated switch and of the senders, and generates their skeletons.

#[path = "../linux/build/clang.rs"]
mod clang;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    for name in ["ce", "dctcp", "mark"] {
        if let Err(reason) = clang::build(&format!("src/bpf/{name}.bpf.c"), &format!("{name}.skel.rs")) {
            // What a build script prints on stderr is what cargo shows.
            eprintln!("the lab's BPF program `{name}` could not be built: {reason}");
            std::process::exit(1);
        }
    }
}
