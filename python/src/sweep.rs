//! Sweeps: in this process, or in a folder for engines.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use ackgate_sim::observer::Until;
use ackgate_sim::output::provenance::Provenance;
use ackgate_sim::sweep::folder::{self, Tasks, measure};
use ackgate_sim::sweep::{self, Grid, Output, Plan, SweepError, Vary};
use pyo3::prelude::*;

use crate::arrow::Table;
use crate::scenario::Scenario;
use crate::{BUILD, error, interrupt};

/// Seconds that the measurement of sample points may take before a sweep is cut.
const MEASURE_S: f64 = 10.0;

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
    fn new(py: Python<'_>, grid: &Grid, plan: &Plan, output: &Output) -> PyResult<Self> {
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

fn grid(py: Python<'_>, scenario: &Scenario, vary: Vec<(String, Values)>, seeds: u32) -> PyResult<Grid> {
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

/// A sweep in a folder, cut into tasks.
#[pyclass(frozen, module = "ackgate._native")]
pub(crate) struct Folder {
    folder: folder::Folder,
}

#[pymethods]
impl Folder {
    /// Cuts a sweep by measured cost; `tasks` of 0 means one for each minute of work.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        scenario: &Scenario,
        vary: Vec<(String, Values)>,
        seeds: u32,
        tasks: usize,
    ) -> PyResult<Self> {
        let refused = |error| error::sweep(py, &error);
        let grid = grid(py, scenario, vary, seeds)?;
        let work = |_: &_| {
            let plan = Plan::of(&grid)?;
            let measured = measure(&plan.points, 0, MEASURE_S)
                .map_err(|(point, error)| SweepError::Simulation { point, error })?;
            folder::Folder::create(&path, BUILD, &scenario.name, &grid, tasks, &measured)
        };
        let folder = interrupt::beside(py, work, |_| Ok(()))?.map_err(refused)?;
        Ok(Self { folder })
    }

    /// Opens one.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let folder = folder::Folder::open(&path, BUILD).map_err(|error| error::sweep(py, &error))?;
        Ok(Self { folder })
    }

    /// Whether it is this sweep.
    fn same(&self, py: Python<'_>, scenario: &Scenario, vary: Vec<(String, Values)>, seeds: u32) -> PyResult<bool> {
        Ok(self.folder.tasks().are_of(&grid(py, scenario, vary, seeds)?))
    }

    /// The plan's text: with a task's number, all that another machine needs.
    fn plan(&self) -> String {
        self.folder.tasks().text()
    }

    /// Number of tasks.
    #[getter]
    fn tasks(&self) -> usize {
        self.folder.cut().tasks
    }

    /// Points, points done, and the numbers of tasks that lack points.
    fn status(&self, py: Python<'_>) -> PyResult<(usize, usize, Vec<usize>)> {
        let status = py.detach(|| self.folder.status()).map_err(|error| error::sweep(py, &error))?;
        Ok((status.points, status.done, status.missing))
    }

    /// Fingerprints of a task's points that are done.
    fn done(&self, py: Python<'_>, task: usize) -> PyResult<Vec<u64>> {
        self.folder.done(task).map_err(|error| error::sweep(py, &error))
    }

    /// Keeps the lines of a task that was run elsewhere.
    fn keep(&self, py: Python<'_>, task: usize, lines: &str) -> PyResult<()> {
        self.folder.keep(task, lines).map_err(|error| error::sweep(py, &error))
    }

    /// Runs a task here.
    fn run(&self, py: Python<'_>, task: usize, threads: usize) -> PyResult<usize> {
        let work = |stop: &_| self.folder.run_task(task, threads, stop);
        interrupt::beside(py, work, |_| Ok(()))?.map_err(|error| error::sweep(py, &error))
    }

    /// Puts all rows together.
    fn collect(&self, py: Python<'_>) -> PyResult<Rows> {
        let (plan, output) = py.detach(|| self.folder.collect()).map_err(|error| error::sweep(py, &error))?;
        Rows::new(py, self.folder.grid(), &plan, &output)
    }
}

/// Runs a task of a plan without its folder, but for the points that are done; returns the lines to keep.
#[pyfunction]
pub(crate) fn run_task(
    py: Python<'_>,
    plan: &str,
    task: usize,
    done: HashSet<u64>,
    threads: usize,
) -> PyResult<String> {
    let refused = |error| error::sweep(py, &error);
    let tasks = Tasks::read(plan, "the plan", BUILD).map_err(refused)?;
    let mut lines = String::new();
    let work = |stop: &_| {
        tasks.run(
            task,
            |fingerprint| done.contains(&fingerprint),
            threads,
            stop,
            |line| {
                lines.push_str(line);
                Ok(())
            },
        )
    };
    interrupt::beside(py, work, |_| Ok(()))?.map_err(refused)?;
    Ok(lines)
}
