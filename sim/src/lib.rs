//! The network in software: a fast packet-level simulator.
//!
//! A [`scenario::Scenario`] says what network, what hosts and what traffic; [`run`] turns it into a [`report::Report`]
//! and shows an [`observer::Observer`] whatever happens on the way.

pub mod engine;
mod measure;
pub mod net;
pub mod observer;
pub mod output;
pub mod report;
pub mod scenario;
pub mod settings;
mod shim;
pub mod sweep;
pub mod tcp;
mod watch;
mod workload;
mod world;

pub use world::{Error, run, run_with};
