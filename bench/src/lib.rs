//! What the benchmarks of the simulator share: the cases, and one measured run of a case.
//!
//! Every run has a process of its own, so that its peak memory is its own. Nothing here asserts a time: a benchmark
//! reports, whoever reads it judges.

pub mod cases;
mod measured;

pub use measured::{Measured, peak_kib};
