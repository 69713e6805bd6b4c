//! Work in a folder, for engines: sweeps and the papers' experiments, cut into tasks.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ackgate_papers::report;
use ackgate_papers::reproduction::Reproduction;
use ackgate_papers::run::{self, RunError};
use ackgate_sim::sweep::folder::{self, Tasks, Work as _, measure};
use ackgate_sim::sweep::{Grid, Plan, Point, SweepError};
use pyo3::prelude::*;

use crate::scenario::Scenario;
use crate::sweep::{Rows, Values, grid};
use crate::{BUILD, error, interrupt};

/// Seconds that the measurement of sample points may take before work is cut.
const MEASURE_S: f64 = 10.0;
/// Tasks of a reproduction at most, where it is not said; there are never more than its longest run allows.
const REPRODUCTION_TASKS: usize = 1_000;

/// What can be cut into tasks.
#[pyclass(frozen, module = "ackgate._native")]
pub(crate) struct Work {
    name: String,
    kind: Kind,
}

enum Kind {
    Sweep(Box<Grid>),
    Reproduction(Box<Reproduction>),
}

#[pymethods]
impl Work {
    /// Every combination of varied keys.
    #[staticmethod]
    fn sweep(py: Python<'_>, scenario: &Scenario, vary: Vec<(String, Values)>, seeds: u32) -> PyResult<Self> {
        let grid = grid(py, scenario, vary, seeds)?;
        Ok(Self { name: scenario.name.clone(), kind: Kind::Sweep(Box::new(grid)) })
    }

    /// The papers' experiments of these names, all when there are none.
    #[staticmethod]
    fn reproduction(py: Python<'_>, ids: Vec<String>, quick: bool) -> PyResult<Self> {
        let all = Reproduction::named(&ids, quick).map_err(|error| error::catalogue(py, &error))?;
        Ok(Self { name: all.name(), kind: Kind::Reproduction(Box::new(all)) })
    }
}

impl Work {
    fn cut(&self, path: &std::path::Path, tasks: usize) -> Result<folder::Folder, SweepError> {
        let measure = |points: &[Point]| {
            measure(points, 0, MEASURE_S).map_err(|(point, error)| SweepError::Simulation { point, error })
        };
        match &self.kind {
            Kind::Sweep(grid) => {
                let points = Plan::of(grid)?.points;
                folder::Folder::create(path, BUILD, &self.name, &**grid, &points, tasks, &measure(&points)?)
            }
            Kind::Reproduction(all) => {
                let points = all.all();
                let tasks = if tasks == 0 { REPRODUCTION_TASKS } else { tasks };
                folder::Folder::create(path, BUILD, &self.name, &**all, &points, tasks, &measure(&points)?)
            }
        }
    }
}

/// Work that was cut into tasks, in a folder.
#[pyclass(frozen, module = "ackgate._native")]
pub(crate) struct Folder {
    folder: folder::Folder,
}

#[pymethods]
impl Folder {
    /// Cuts work by measured cost; `tasks` of 0 means as many as suit it.
    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf, work: &Work, tasks: usize) -> PyResult<Self> {
        let folder = interrupt::beside(py, |_| work.cut(&path, tasks), |_| Ok(()))?;
        Ok(Self { folder: folder.map_err(|error| error::sweep(py, &error))? })
    }

    /// Opens one.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let folder = folder::Folder::open(&path, BUILD).map_err(|error| error::sweep(py, &error))?;
        Ok(Self { folder })
    }

    /// Whether it is this work's.
    fn same(&self, work: &Work) -> bool {
        match &work.kind {
            Kind::Sweep(grid) => self.folder.tasks().are_of(&**grid),
            Kind::Reproduction(all) => self.folder.tasks().are_of(&**all),
        }
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

    /// Puts the rows of a sweep together.
    fn collect(&self, py: Python<'_>) -> PyResult<Rows> {
        let (grid, plan, output) = py.detach(|| self.folder.collect()).map_err(|error| error::sweep(py, &error))?;
        Rows::new(py, &grid, &plan, &output)
    }

    /// Makes the report of a reproduction, with all its files, in a folder; returns the outcomes as JSON.
    fn report(&self, py: Python<'_>, out: PathBuf) -> PyResult<String> {
        let all: Reproduction = self.folder.tasks().work().map_err(|error| error::sweep(py, &error))?;
        let quick = all.is_quick();
        let made = py.detach(|| {
            let outcomes = all.collect(&self.folder, &out)?;
            run::conclude(&outcomes, &out, quick)?;
            Ok::<_, RunError>(report::json(&outcomes))
        });
        made.map_err(|error| error::reproduce(py, &error))
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
    let tasks = Tasks::read(plan, "the plan", BUILD).map_err(|error| error::sweep(py, &error))?;
    let mut lines = String::new();
    let work = |stop: &AtomicBool| {
        let done = |fingerprint| done.contains(&fingerprint);
        let keep = |line: &str| {
            lines.push_str(line);
            Ok(())
        };
        match tasks.kind() {
            Reproduction::KIND => tasks.run::<Reproduction>(task, done, threads, stop, keep),
            _ => tasks.run::<Grid>(task, done, threads, stop, keep),
        }
    };
    interrupt::beside(py, work, |_| Ok(()))?.map_err(|error| error::sweep(py, &error))?;
    Ok(lines)
}
