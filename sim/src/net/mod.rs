//! The network: packets, the channels they travel, and how channels are joined.

mod channel;
mod discipline;
mod packet;
mod topology;

pub use channel::{Channel, Counters as ChannelCounters, Offer, Refusal};
pub use discipline::Queueing;
pub use packet::{NIL, Packet, SACK_BLOCKS, Side, Slab};
pub use topology::{Hop, Plan, Route, Then};
