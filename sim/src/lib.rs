//! The network in software: a fast packet-level simulator.
//!
//! A [`scenario::Scenario`] says what network, what hosts and what traffic; a run turns it into a [`report::Report`] and
//! shows an [`observer::Observer`] whatever happens on the way.

pub mod observer;
pub mod output;
pub mod report;
pub mod scenario;
pub mod sweep;
