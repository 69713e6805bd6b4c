//! M21TCP-A on Linux: a switch's [`Port`] counts flows and writes their number into segments; [`Sockets`] of a host echo it and
//! are capped by it.
//!
//! ```text
//! sender's TCP ──► sockops: leave room ──► port: tc egress (BPF), count and stamp ──► queue ──► receiver's TCP
//!      ▲ clamp, pace                                                                                │ sockops: read
//!      └────── sockops: read ◄──────────────────────────────────────── ACK ◄─── sockops: echo ◄─────┘
//! ```
//!
//! DESIGN NOTES
//! 1. The number travels in two options of RFC 6994 (kind 254, 8 bytes each): one that switches write into, one that echoes it.
//!    One would not do: a segment with payload may carry an ACK as well, and a switch on the way back would overwrite the echo.
//! 2. A window can only be clamped in whole segments. Below one, `control` makes the cap a rate; here the kernel's own pacing
//!    (`SO_MAX_PACING_RATE`) keeps it. What that cannot do is to begin at a random moment ([`ackgate_control::m21::Turns`]).
//! 3. The clamp of a window does not cut it: the next ACK that finds it used up does. A connection that has sent nothing is cut
//!    at once.
//! 4. Everything ends with this process: links of BPF programs. A connection that was capped keeps its last clamp if the process
//!    was killed; if it ended by itself, clamps are taken off.

mod port;
mod sockets;

pub use self::port::{Port, PortOptions, PortStatus};
pub use self::sockets::{Namespace, Sockets, SocketsOptions, SocketsStatus, root_cgroup};

use crate::error::Error;
use crate::load::{Verified, verify_object};

/// The programs, as this kernel's verifier takes them; nothing is attached.
///
/// # Errors
/// When it does not take one.
pub fn verify() -> Result<Vec<Verified>, Error> {
    let objects: [&[u8]; 2] = [
        include_bytes!(concat!(env!("OUT_DIR"), "/switch.skel.o")),
        include_bytes!(concat!(env!("OUT_DIR"), "/m21.skel.o")),
    ];
    let each = objects.map(|object| verify_object("load M21TCP-A's BPF programs", object));
    Ok(each.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

#[cfg(test)]
mod tests;
