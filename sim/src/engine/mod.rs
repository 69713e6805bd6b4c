//! The event core: an integer picosecond clock, a queue made for network events, and seeded randomness. Nothing here
//! knows about packets.

mod clock;
mod queue;
mod random;

pub use clock::{PS_PER_SEC, Ps};
pub use queue::EventQueue;
pub use random::{Purpose, Random};
