//! Fuzz targets: everything here that reads bytes which others wrote. Each target is a function of the bytes that panics when what it
//! looks at is not as promised.
//!
//! `make test` runs each over its corpus and a fixed number of mutations of it; `make fuzz` runs them under libFuzzer, led by
//! coverage. What a crash taught stays in `corpus/`.
//!
//! There is no target for requests on the status socket: the guard reads none (docs/security.md).

pub mod capture;
pub mod frame;
pub mod host;
pub mod load;
pub mod packet;
pub mod queue;
pub mod scenario;
pub mod sweep;
pub mod units;

mod input;

/// A target: does nothing but panic.
pub type Target = fn(&[u8]);

/// All targets, by the name of their corpus.
pub const TARGETS: [(&str, Target); 9] = [
    ("capture", capture::run),
    ("frame", frame::run),
    ("host", host::run),
    ("load", load::run),
    ("packet", packet::run),
    ("queue", queue::run),
    ("scenario", scenario::run),
    ("sweep", sweep::run),
    ("units", units::run),
];
