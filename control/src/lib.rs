//! Every decision of every incast scheme, as sans-IO state machines.
//!
//! No clock, no sockets, no threads, no logging, no floats on the per-packet path: the same objects are driven by the
//! simulator and by the Linux datapath (see [`policy`]). Start with [`policy::Policy`], then open the scheme you know
//! from its paper.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod budget;
pub mod cell;
pub mod decision;
pub mod delack;
pub mod error;
pub mod flow;
pub mod gate;
pub mod hwatch;
pub mod ictcp;
pub mod letter;
pub mod m21;
pub mod policy;
pub mod resend;
pub mod rto;
pub mod rwnd;
pub mod segment;
pub mod seq;
pub mod shaper;
pub mod spurious;
pub mod units;
pub mod wire;
