//! A sweep in a folder: for job arrays and other engines whose tasks share nothing but a file system.
//!
//! `plan.json` says what the sweep is and how it was cut into tasks; each attempt at a task appends its rows to a file
//! of its own in `rows/`; collected, they are the bytes that one process would have written. Any task may be run any
//! number of times, anywhere, at the same time: what it finds done it leaves, and rows that differ are an error.

mod cut;
mod environment;
mod indices;
mod order;
mod rows;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub use cut::{Sample, deal, estimate, measure, samples};
pub use environment::task_number;
pub use indices::{format_ranges, parse_ranges};
pub use rows::Rows;

use self::order::Order;
use self::rows::{Part, seal};
use super::row::Layout;
use super::{Grid, Output, Plan, Point, SweepError, run_all};
use crate::observer::Until;

/// Seconds of one core that a task is to take, if not told otherwise: long against what a scheduler needs to start it.
const TASK_S: f64 = 60.0;
/// Tasks at most, if not told otherwise: Slurm's arrays end at 1000 (`MaxArraySize`).
const MAX_TASKS: usize = 1_000;

/// A sweep that was cut into tasks.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    tasks: Tasks,
}

/// The tasks of a sweep without their folder: what an engine needs that carries plan and rows itself.
#[derive(Debug)]
pub struct Tasks {
    order: Order,
    grid: Grid,
}

impl Tasks {
    /// Reads the text of a plan, named `file` in messages. `build` is this program's.
    ///
    /// # Errors
    /// When it is none, or was made by another build, whose figures need not be these.
    pub fn read(text: &str, file: &str, build: &str) -> Result<Self, SweepError> {
        let order = Order::parse(text, file)?;
        if order.build != build {
            let problem = format!("{file}: was made by ackgate {}, this is {build}", order.build);
            return Err(SweepError::Foreign(format!("{problem}: run all of a sweep with one build")));
        }
        let grid = order.grid()?;
        Ok(Self { order, grid })
    }

    /// Whether they are the tasks of this sweep.
    #[must_use]
    pub fn are_of(&self, grid: &Grid) -> bool {
        self.order.is_of(grid)
    }

    /// The text of the plan.
    #[must_use]
    pub fn text(&self) -> String {
        self.order.text()
    }

    /// Runs the points of a task, from 1, but for those that are `done` by their fingerprints, and shows each row as it
    /// comes: a line that [`Folder::keep`] takes. Returns how many points that were.
    ///
    /// # Errors
    /// When a run fails or is stopped, or `row` fails.
    pub fn run(
        &self,
        task: usize,
        done: impl Fn(u64) -> bool,
        threads: usize,
        stop: &AtomicBool,
        mut row: impl FnMut(&str) -> Result<(), SweepError> + Send,
    ) -> Result<usize, SweepError> {
        let points = self.order.points(&self.grid, task)?;
        let missing: Vec<&Point> = points.iter().filter(|point| !done(point.fingerprint)).collect();
        let layout = Layout::new(&self.grid.keys(), false);
        let simulate = |point: &Point| {
            crate::run(&point.scenario, &mut Until(stop))
                .map_err(|error| SweepError::Simulation { point: point.values.join(" "), error })
        };
        run_all(&missing, threads, simulate, |point, report| row(&seal(&layout.row(point, &report))))?;
        Ok(missing.len())
    }
}

/// How far a sweep is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Points of the sweep.
    pub points: usize,
    /// Points that have a row.
    pub done: usize,
    /// Tasks that lack points, from 1.
    pub missing: Vec<usize>,
    /// Lines that are not as they were written; their points count as not done.
    pub damaged: usize,
    /// Points run more than once that came out the same.
    pub repeated: usize,
    /// Points whose rows differ, in words.
    pub conflicts: Vec<String>,
}

/// How a sweep was cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Number of tasks.
    pub tasks: usize,
    /// Expected seconds of one core: all, and of the dearest and the cheapest task.
    pub total_s: f64,
    /// Of the dearest task.
    pub most_s: f64,
    /// Of the cheapest task.
    pub least_s: f64,
}

impl Folder {
    /// Cuts a sweep into tasks by what its points cost, and writes the plan. `tasks` of 0 means one for each minute of
    /// work, 1000 at most; there are never so many that one would be dwarfed by the longest point.
    ///
    /// # Errors
    /// When a point is refused, or the folder holds a sweep already or cannot be written.
    pub fn create(
        path: &Path,
        build: &str,
        name: &str,
        grid: &Grid,
        tasks: usize,
        measured: &[Sample],
    ) -> Result<Self, SweepError> {
        let plan = Plan::of(grid)?;
        if let Some(point) = plan.points.iter().find(|point| point.values.iter().any(|value| value.contains('\n'))) {
            return Err(SweepError::Usage(format!("--vary: `{}` has a line break in it", point.values.join(" "))));
        }
        let costs = estimate(&plan.keys, &plan.points, measured);
        #[expect(clippy::cast_sign_loss, reason = "costs are not negative")]
        let by_time = || ((costs.iter().sum::<f64>() / TASK_S).ceil() as usize).min(MAX_TASKS);
        let dealt = deal(&costs, if tasks == 0 { by_time() } else { tasks });
        let order = Order::new(build, name, grid, &plan.points, &dealt, &costs)?;
        let failed =
            |error: std::io::Error| SweepError::Output(format!("{} cannot be written: {error}", path.display()));
        fs::create_dir_all(path.join("rows")).map_err(failed)?;
        let file = fs::OpenOptions::new().write(true).create_new(true).open(path.join("plan.json"));
        match file.and_then(|mut file| std::io::Write::write_all(&mut file, order.text().as_bytes())) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let advice = "`ackgate sim sweep missing` goes on with it; a new one needs another folder";
                return Err(SweepError::Usage(format!("{} holds a sweep already: {advice}", path.display())));
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { path: path.into(), tasks: Tasks { order, grid: grid.clone() } })
    }

    /// Opens a sweep. `build` is this program's.
    ///
    /// # Errors
    /// When there is none, or it was cut by another build, whose figures need not be these.
    pub fn open(path: &Path, build: &str) -> Result<Self, SweepError> {
        let file = path.join("plan.json");
        let text = fs::read_to_string(&file)
            .map_err(|error| SweepError::Usage(format!("{}: no sweep here: {error}", file.display())))?;
        Ok(Self { path: path.into(), tasks: Tasks::read(&text, &file.display().to_string(), build)? })
    }

    /// Its tasks, for engines that carry plan and rows themselves.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The scenario's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.tasks.order.name
    }

    /// The points that it is made of.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.tasks.grid
    }

    /// How it was cut.
    #[must_use]
    pub fn cut(&self) -> Cut {
        let costs = || self.tasks.order.tasks.iter().map(|task| task.cost_s);
        Cut {
            tasks: self.tasks.order.tasks.len(),
            total_s: costs().sum(),
            most_s: costs().fold(0.0, f64::max),
            least_s: costs().fold(f64::INFINITY, f64::min),
        }
    }

    fn rows_folder(&self) -> PathBuf {
        self.path.join("rows")
    }

    /// Runs what is missing of a task, from 1, and appends each row as it comes. `stop` ends it before its time.
    /// Returns how many points that were.
    ///
    /// # Errors
    /// When a run fails or is stopped, or its rows cannot be written; rows that were written by then count.
    pub fn run_task(&self, task: usize, threads: usize, stop: &AtomicBool) -> Result<usize, SweepError> {
        let known = Rows::read(&self.rows_folder(), Some(task))?;
        let mut part = None;
        let write = |line: &str| {
            // Without anything to run there is nothing to write either.
            let part = match &mut part {
                Some(part) => part,
                none => none.insert(Part::create(&self.rows_folder(), task)?),
            };
            part.add(line)
        };
        let run = self.tasks.run(task, |fingerprint| known.has(fingerprint), threads, stop, write)?;
        part.map_or(Ok(()), Part::finish)?;
        Ok(run)
    }

    /// Fingerprints of a task's points that have a row.
    ///
    /// # Errors
    /// When the rows cannot be read.
    pub fn done(&self, task: usize) -> Result<Vec<u64>, SweepError> {
        Ok(Rows::read(&self.rows_folder(), Some(task))?.fingerprints())
    }

    /// Keeps lines that [`Tasks::run`] gave on another machine.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn keep(&self, task: usize, lines: &str) -> Result<(), SweepError> {
        let mut part = Part::create(&self.rows_folder(), task)?;
        part.add(lines)?;
        part.finish()
    }

    /// How far it is.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn status(&self) -> Result<Status, SweepError> {
        let rows = Rows::read(&self.rows_folder(), None)?;
        let tasks = (1..).zip(&self.tasks.order.tasks);
        Ok(Status {
            points: self.tasks.order.tasks.iter().map(|task| task.count).sum(),
            done: rows.len(),
            missing: tasks
                .filter(|(number, task)| rows.of_task(*number) < task.count)
                .map(|(number, _)| number)
                .collect(),
            damaged: rows.damaged,
            repeated: rows.repeated,
            conflicts: rows.conflicts,
        })
    }

    /// All points and their rows, in the order of the sweep: what one process would have.
    ///
    /// # Errors
    /// When points are missing, or two tasks disagree about one.
    pub fn collect(&self) -> Result<(Plan, Output), SweepError> {
        let plan = Plan::of(&self.tasks.grid)?;
        let mut rows = Rows::read(&self.rows_folder(), None)?;
        if !rows.conflicts.is_empty() {
            return Err(SweepError::Conflict(format!(
                "{}: the same point came out differently; one of the nodes or programs is not like the others. {}",
                self.path.display(),
                rows.conflicts.join("; ")
            )));
        }
        let mut output = Output::new(&plan, &plan.points, true, false);
        let mut missing = 0;
        for point in &plan.points {
            match rows.remove(point.fingerprint) {
                Some(row) => output.insert(point, row)?,
                None => missing += 1,
            }
        }
        if missing > 0 {
            let (path, all) = (self.path.display(), plan.points.len());
            let advice = format!("`ackgate sim sweep missing {path}` runs them");
            return Err(SweepError::Missing(format!("{path}: {missing} of {all} points are missing; {advice}")));
        }
        Ok((plan, output))
    }
}
