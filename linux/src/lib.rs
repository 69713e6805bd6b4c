//! The network for real: PAC on an interface of this machine.
//!
//! ```text
//! network ──► tc ingress (BPF): account ──────────────────► TCP, container, VM
//!                   │ shared memory: Gate, Flow                    │
//! network ◄── release ◄── scheduler ◄── hold back-end ◄── tc egress (BPF): pass, or hold
//! ```
//!
//! [`Guard`] is the whole of it: it loads the programs ([`datapath`]), attaches them ([`attach`]), and runs the scheduler
//! of `control` over what they hold ([`hold`]). While nothing is held it sleeps, and no packet reaches it.
//!
//! A scheme that needs no fast path is run by [`Host`] instead: any `Policy` of `control`, with every TCP frame of the device
//! passing through user space.
//!
//! [`m21`] is neither: M21TCP-A's switch is a program at a port, its hosts are asked by the kernel's TCP.
//!
//! Fail open, always: what the programs do not understand passes, what cannot be held passes, and when the daemon
//! shows no sign of life everything passes. However it ends, the device is left as it was.

pub mod attach;
pub mod cost;
pub mod datapath;
pub mod device;
pub mod doctor;
pub mod error;
mod groups;
pub mod guard;
pub mod hold;
pub mod host;
pub mod load;
pub mod m21;
pub mod neighbours;
pub mod netstat;
pub mod observe;
#[doc(hidden)]
pub mod parsers;
pub mod privilege;
mod promptness;
pub mod route;
pub mod rto;
pub mod selection;
pub mod shared;
pub mod statistics;
pub mod status;
pub mod watch;
pub mod watchdog;

mod dormancy;
mod emitter;
mod frames;
mod limits;
mod older;
mod qdisc;
mod skel;
mod standby;
mod sweep;
mod sys;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod fixtures;

pub use dormancy::Follow;
pub use error::Error;
pub use guard::{Change, Guard, Options, Outcome, Preparation, Summary};
pub use host::Host;
pub use neighbours::Notice;
pub use selection::{Rule, Selection};
pub use statistics::Snapshot;
pub use sys::{cpu_seconds, now};
