//! Small real networks made of network namespaces, real TCP load, measurement.
//!
//! - [`load`]: the papers' client-server application, for real networks and for this crate's own.
//! - [`units`]: sizes, rates and times as people write them.

pub mod load;
pub mod units;
