//! The skeleton that the build script generates from `bpf/watch.bpf.c`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
#![allow(rust_2018_idioms, dead_code, unsafe_op_in_unsafe_fn)]

include!(concat!(env!("OUT_DIR"), "/watch.skel.rs"));
