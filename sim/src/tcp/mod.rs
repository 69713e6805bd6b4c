//! TCP endpoints, sans-IO: segments and the time go in, segments and a deadline come out.
//!
//! An [`Endpoint`] is both halves of one end of a connection, a [`Sender`] and a [`Receiver`] (RFC 9293). Inside,
//! positions in a byte stream are 64-bit offsets from the SYN (offset 0; data begins at 1), so that nothing wraps; in
//! headers they are 32 bits from a random start and do.

mod config;
pub mod congestion;
mod endpoint;
mod receiver;
mod sack;
mod sender;

pub use config::TcpConfig;
pub use endpoint::{Arrived, Endpoint, State};
pub use receiver::Receiver;
pub use sender::{Counters as SenderCounters, Sender};

use ackgate_control::seq::SeqNumber;

/// The offset that a sequence number stands for, given one nearby.
#[inline]
fn offset_near(near: u64, start: u32, number: SeqNumber) -> u64 {
    // The low 32 bits of an offset are the distance from the start.
    let distance = number.0.wrapping_sub(start).wrapping_sub(near as u32).cast_signed();
    near.wrapping_add_signed(i64::from(distance))
}

/// The sequence number that stands for an offset.
#[inline]
fn number_of(start: u32, offset: u64) -> SeqNumber {
    SeqNumber(start.wrapping_add(offset as u32))
}
