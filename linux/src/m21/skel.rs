//! The skeletons that the build script generates from `bpf/switch.bpf.c` and `bpf/m21.bpf.c`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
#![allow(rust_2018_idioms, dead_code, unsafe_op_in_unsafe_fn)]

pub(super) mod switch {
    include!(concat!(env!("OUT_DIR"), "/switch.skel.rs"));
}
pub(super) mod m21 {
    include!(concat!(env!("OUT_DIR"), "/m21.skel.rs"));
}
