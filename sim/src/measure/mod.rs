//! What a run is measured by: samples as they come, figures at the end.

mod fairness;
mod party;
mod quantiles;
mod tally;

pub(crate) use fairness::Jain;
pub(crate) use party::Fired;
pub(crate) use quantiles::Samples;
pub(crate) use tally::Tally;
