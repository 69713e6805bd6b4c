//! The papers' experiments.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ackgate_papers::catalogue;
use ackgate_papers::report;
use ackgate_papers::run::{self, Options};
use pyo3::prelude::*;

use crate::{error, interrupt};

/// Names and titles of all experiments.
#[pyfunction]
pub(crate) fn experiments(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let all = catalogue::load(&[], true).map_err(|error| error::catalogue(py, &error))?;
    Ok(all.into_iter().map(|experiment| (experiment.id, experiment.title)).collect())
}

/// Runs experiments, all when none is named, and writes their files into a folder; rows that are there are not run
/// again. Returns the outcomes as JSON.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    ids: Vec<String>,
    out: PathBuf,
    quick: bool,
    threads: usize,
    progress: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let experiments = catalogue::load(&ids, quick).map_err(|error| error::catalogue(py, &error))?;
    let share = |work: u128| u64::try_from(work / 1_000).unwrap_or(u64::MAX >> 20);
    let total: u64 = experiments.iter().map(|experiment| share(run::work(experiment))).sum();
    let (done, ended) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let options = Options { out, jobs: threads, stop: Arc::clone(&ended) };
    let work = |_: &AtomicBool| {
        let add = |work| {
            done.fetch_add(share(work), Ordering::Relaxed);
        };
        let outcomes: Result<Vec<_>, _> =
            experiments.into_iter().map(|experiment| run::run(experiment, &options, add)).collect();
        outcomes.and_then(|outcomes| run::conclude(&outcomes, &options.out, quick).map(|()| report::json(&outcomes)))
    };
    let tick = |py: Python<'_>| {
        let told = py.check_signals().and_then(|()| progress.call1((done.load(Ordering::Relaxed), total)));
        told.map(|_| ()).inspect_err(|_| ended.store(true, Ordering::Relaxed))
    };
    interrupt::beside(py, work, tick)?.map_err(|error| error::reproduce(py, &error))
}
