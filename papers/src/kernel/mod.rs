//! The papers' figures on a real kernel, with the simulator beside it at the same settings.
//!
//! [`experiment`] says what stands in `papers/kernel.toml`: which curves of the headlines' own settings are measured, and at
//! which x. [`motion`] turns those settings into what one machine carries, and figures back. Whoever has a kernel measures
//! ([`Point`]); [`simulated`] is the same point in the simulator. [`outcome`] holds both against the headlines' rules,
//! [`report`] tells it.

pub mod experiment;
pub mod motion;
pub mod outcome;
pub mod report;
pub mod simulated;

pub use experiment::{Experiment, Plan, Point};
