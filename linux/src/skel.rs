//! The skeletons that the build script generates from `bpf/`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
#![allow(rust_2018_idioms, dead_code, unsafe_op_in_unsafe_fn)]

/// The guard: `bpf/ackgate.bpf.c`.
pub(crate) mod guard {
    include!(concat!(env!("OUT_DIR"), "/ackgate.skel.rs"));
}
/// The generic host: `bpf/host.bpf.c`.
pub(crate) mod host {
    include!(concat!(env!("OUT_DIR"), "/host.skel.rs"));
}
/// `ackgate watch`: `bpf/watch.bpf.c`.
pub(crate) mod watch {
    include!(concat!(env!("OUT_DIR"), "/watch.skel.rs"));
}
/// M21TCP-A's switch: `bpf/switch.bpf.c`.
pub(crate) mod switch {
    include!(concat!(env!("OUT_DIR"), "/switch.skel.rs"));
}
/// M21TCP-A's hosts: `bpf/m21.bpf.c`.
pub(crate) mod m21 {
    include!(concat!(env!("OUT_DIR"), "/m21.skel.rs"));
}
