//! Many runs of one scenario: every combination of the varied keys, in parallel, one CSV row each.
//!
//! The points of a sweep have an order that depends on the command line alone (see [`Plan`]). A shard is a contiguous
//! piece of that order, and only the first shard writes the header: `cat part1.csv part2.csv` *is* the whole sweep.
//! While it runs, rows are appended to the output as they come; when all are there, the file is put in order. Each row
//! carries a fingerprint of its whole scenario, so that an interrupted sweep goes on where it was stopped and rows of
//! another scenario are noticed.

mod file;
pub mod folder;
mod grid;
mod plan;
mod pool;
mod row;
mod summary;
mod vary;

pub use file::Output;
pub use grid::Grid;
pub use plan::{Plan, Point, Shard, hash};
pub use pool::run_all;
pub use row::Layout;
pub use summary::{check_plot, plot, summary};
pub use vary::Vary;

use crate::report::Report;

/// What can go wrong with a sweep as a whole.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A list, range or shard that cannot be read.
    #[error("{0}")]
    Usage(String),
    /// A point whose scenario is refused.
    #[error(transparent)]
    Scenario(#[from] crate::scenario::ScenarioError),
    /// The output holds something that is not of this sweep.
    #[error("{0}")]
    Foreign(String),
    /// The output is being written by another sweep.
    #[error("{0}")]
    Busy(String),
    /// Points have no row yet.
    #[error("{0}")]
    Missing(String),
    /// Two runs of one point differ.
    #[error("{0}")]
    Conflict(String),
    /// A point's simulation failed.
    #[error("{point}: {error}")]
    Simulation {
        /// Values of the varied keys.
        point: String,
        /// Why.
        error: crate::Error,
    },
    /// The output cannot be read or written.
    #[error("{0}")]
    Output(String),
}

impl SweepError {
    /// Whether what was asked for is wrong, rather than what became of it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Usage(_) | Self::Scenario(_) | Self::Foreign(_) | Self::Busy(_) => true,
            Self::Output(_) | Self::Missing(_) | Self::Conflict(_) | Self::Simulation { .. } => false,
        }
    }
}

/// Runs what is missing of `points` and leaves `output` whole and in order.
///
/// `run` simulates one point; `progress` hears of each row as it is added. `threads` of 0 means one for each core.
///
/// # Errors
/// The first run that fails, or the output's own troubles; rows that were finished by then are kept.
pub fn run<E: From<SweepError> + Send>(
    points: &[Point],
    output: &mut Output,
    threads: usize,
    run: impl Fn(&Point) -> Result<Report, E> + Sync,
    mut progress: impl FnMut(&Point, &Report) + Send,
) -> Result<(), E> {
    let missing: Vec<&Point> = points.iter().filter(|point| !output.has(point)).collect();
    pool::run_all(&missing, threads, run, |point, report| {
        output.add(point, &report)?;
        progress(point, &report);
        Ok(())
    })?;
    Ok(output.finish()?)
}
