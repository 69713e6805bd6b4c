//! Small real networks made of network namespaces, real TCP load, measurement.
//!
//! - [`load`]: the papers' client-server application, for real networks and for this crate's own.
//! - [`testbed`]: senders, switch and receiver in network namespaces; made, measured, removed.
//! - [`guard`]: `ackgate run` as a child in the receiver's namespace.
//! - [`incast`]: all of that together, one measurement after another.
//! - [`dctcp`]: for kernels without.
//! - [`ablation`]: every guard, one factor at a time.
//! - [`background`]: the long flow that shares a core link with the incast.
//! - [`faults`]: what connections notice when something happens to the guard.
//! - [`harm`]: where a guard harms, case by case.
//! - [`mouse`]: small requests among bulk.
//! - [`soak`]: a guard under mixed load for a long time.
//! - [`pairs`]: with and without the guard in turn, and what it costs.
//! - [`programs`]: the lab's own BPF programs, as the kernel's verifier takes them.
//! - [`reproduce`]: the papers' figures on this machine's kernel, with the simulator beside it.
//! - [`sockets`]: what the senders' TCP is asked.
//! - [`web`]: short transfers from a real web server.
//! - [`machine`]: what it was measured on, and what its processors did.

pub mod ablation;
pub mod background;
pub mod dctcp;
pub mod faults;
pub mod guard;
pub mod harm;
pub mod incast;
pub mod load;
pub mod machine;
pub mod mouse;
pub mod pairs;
pub mod programs;
pub mod reproduce;
pub mod soak;
pub mod sockets;
pub mod testbed;
pub mod web;

mod bpf;
mod pause;
