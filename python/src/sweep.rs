//! Sweeps in this process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use ackgate_sim::observer::Until;
use ackgate_sim::output::provenance::Provenance;
use ackgate_sim::sweep::{self, Grid, Output, Plan, SweepError, Vary};
use pyo3::prelude::*;

use crate::arrow::Table;
use crate::scenario::Scenario;
use crate::{BUILD, error, interrupt};

/// What came of a sweep.
#[pyclass(frozen, get_all, module = "ackgate._native")]
pub(crate) struct Rows {
    /// One row for each point.
    table: Py<Table>,
    /// The bytes that `ackgate sim sweep --out` writes.
    csv: String,
    /// Means over the seeds, for people.
    summary: String,
    /// The varied keys.
    keys: Vec<String>,
}

impl Rows {
    pub(crate) fn new(py: Python<'_>, grid: &Grid, plan: &Plan, output: &Output) -> PyResult<Self> {
        let provenance = Provenance::new(BUILD, grid.document(), grid.vary(), grid.seeds());
        let provenance = provenance.map_err(|error| error::scenario(py, &error))?;
        Ok(Self {
            table: Py::new(py, Table::new(vec![output.frame()], provenance))?,
            csv: output.csv(),
            summary: sweep::summary(plan, &plan.points, output),
            keys: plan.keys.clone(),
        })
    }
}

/// A list of values, or text as `--vary` takes it.
#[derive(FromPyObject)]
pub(crate) enum Values {
    Text(String),
    List(Vec<String>),
}

/// What is varied in which scenario.
pub(crate) fn grid(py: Python<'_>, scenario: &Scenario, vary: Vec<(String, Values)>, seeds: u32) -> PyResult<Grid> {
    let refused = |error| error::sweep(py, &error);
    let vary = vary.into_iter().map(|(key, values)| match values {
        Values::Text(list) => Vary::parse(&format!("{key}={list}")),
        Values::List(values) if values.is_empty() => Err(SweepError::Usage(format!("vary {key}: no values"))),
        Values::List(values) => Ok(Vary { key, values }),
    });
    let vary = vary.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    Grid::new(&scenario.document, &vary, seeds).map_err(refused)
}

/// Runs every combination here. `progress` is called with the work that is done and all work, in bytes of traffic.
/// `out` keeps the rows in a CSV file, where those that it has already are not run again.
#[pyfunction]
#[pyo3(name = "sweep", signature = (scenario, vary, seeds, threads, out, progress))]
pub(crate) fn run_sweep(
    py: Python<'_>,
    scenario: &Scenario,
    vary: Vec<(String, Values)>,
    seeds: u32,
    threads: usize,
    out: Option<PathBuf>,
    progress: &Bound<'_, PyAny>,
) -> PyResult<Rows> {
    let refused = |error| error::sweep(py, &error);
    let grid = grid(py, scenario, vary, seeds)?;
    let plan = py.detach(|| Plan::of(&grid)).map_err(refused)?;
    let mut output = Output::new(&plan, &plan.points, true, false);
    if let Some(out) = &out {
        output = output.keep_in(out).map_err(refused)?;
    }
    let total: u128 = plan.points.iter().map(sweep::Point::work).sum();
    let kept: u128 = plan.points.iter().filter(|point| output.has(point)).map(sweep::Point::work).sum();
    let share = |work: u128| u64::try_from(work / 1_000).unwrap_or(u64::MAX >> 20);
    let done = AtomicU64::new(share(kept));
    let work = |stop: &_| {
        let run = |point: &sweep::Point| {
            ackgate_sim::run(&point.scenario, &mut Until(stop))
                .map_err(|error| SweepError::Simulation { point: point.values.join(" "), error })
        };
        sweep::run(&plan.points, &mut output, threads, run, |point, _| {
            done.fetch_add(share(point.work()), Ordering::Relaxed);
        })
    };
    let tick = |_: Python<'_>| progress.call1((done.load(Ordering::Relaxed), share(total))).map(|_| ());
    interrupt::beside(py, work, tick)?.map_err(refused)?;
    Rows::new(py, &grid, &plan, &output)
}
