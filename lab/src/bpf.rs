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

mod ce {
    include!(concat!(env!("OUT_DIR"), "/ce.skel.rs"));
}
mod dctcp {
    include!(concat!(env!("OUT_DIR"), "/dctcp.skel.rs"));
}
mod mark {
    include!(concat!(env!("OUT_DIR"), "/mark.skel.rs"));
}
mod sockets {
    include!(concat!(env!("OUT_DIR"), "/sockets.skel.rs"));
}

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

pub(crate) use ce::{CeSkel, CeSkelBuilder};
pub(crate) use dctcp::DctcpSkelBuilder;
pub(crate) use mark::{MarkSkel, MarkSkelBuilder};
pub(crate) use sockets::SocketsSkelBuilder;
