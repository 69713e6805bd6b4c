//! The headline claims of the papers, held against the simulator by rules that were fixed before results were seen.
//!
//! [`book`] says what a file of headlines holds, [`rule`] and [`formula`] what a rule is. [`run`] runs what they need with
//! ten seeds, [`figures`] and [`stats`] make values and intervals of it, [`verdict`] judges, [`witness`] has the runs of
//! other simulators judged.

pub mod board;
pub mod book;
pub mod figures;
pub mod formula;
pub mod log;
pub mod probe;
pub mod reading;
pub mod report;
pub mod rule;
pub mod run;
pub mod stats;
mod store;
pub mod verdict;
pub mod witness;
