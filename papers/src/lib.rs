//! The papers' experiments as data, their claims, and the comparison with what we got.
//!
//! One TOML file in `papers/experiments/` for each figure or table: [`experiment`] says what stands in it, [`catalogue`]
//! finds it, [`hosts`] says what the paper's machines or simulator were. [`run`] simulates the sweep, [`judge`] holds each
//! claim against the figures, [`inside`] looks into single runs, [`report`] shows the outcome; [`reproduction`] spreads the
//! runs over many machines.

pub mod catalogue;
pub mod experiment;
pub mod figures;
pub mod headlines;
pub mod hosts;
pub mod inside;
pub mod judge;
pub mod kernel;
pub mod report;
pub mod reproduction;
pub mod run;
