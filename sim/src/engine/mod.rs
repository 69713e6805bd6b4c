//! The event core: an integer picosecond clock, a queue made for network events, and seeded randomness. Nothing here
//! knows about packets.

mod clock;
mod prefetch;
mod queue;
mod random;

pub use clock::{PS_PER_SEC, Ps};
pub(crate) use prefetch::{prefetch, prefetch_all};
pub use queue::EventQueue;
pub use random::{Chance, Purpose, Random};
