//! Work in a folder: for job arrays and other engines whose tasks share nothing but a file system.
//!
//! `plan.json` says what the work is and how it was cut into tasks; each attempt at a task appends its rows to a file
//! of its own in `rows/`; collected, they are what one process would have made. Any task may be run any number of times,
//! anywhere, at the same time: what it finds done it leaves, and rows that differ are an error.

mod cut;
mod environment;
mod grid;
mod indices;
mod order;
mod rows;
mod work;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub use cut::{Sample, deal, estimate, measure, samples};
pub use environment::task_number;
pub use indices::{format_ranges, parse_ranges};
pub use rows::Rows;
pub use work::Work;

use self::order::Order;
use self::rows::{Part, seal};
use super::{Grid, Output, Plan, Point, SweepError, run_all};

/// Seconds of one core that a task is to take, if not told otherwise: long against what a scheduler needs to start it.
const TASK_S: f64 = 60.0;
/// Tasks at most, if not told otherwise: Slurm's arrays end at 1000 (`MaxArraySize`).
const MAX_TASKS: usize = 1_000;

/// Work that was cut into tasks.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    tasks: Tasks,
}

/// The tasks without their folder: what an engine needs that carries plan and rows itself.
#[derive(Debug)]
pub struct Tasks {
    order: Order,
}

impl Tasks {
    /// Reads the text of a plan, named `file` in messages. `build` is this program's.
    ///
    /// # Errors
    /// When it is none, or was made by another build, whose figures need not be these.
    pub fn read(text: &str, file: &str, build: &str) -> Result<Self, SweepError> {
        let order = Order::parse(text, file)?;
        if order.build != build {
            let problem = format!("{file}: was created by ackgate {}, but this is {build}", order.build);
            return Err(SweepError::Foreign(format!("{problem}: run all tasks with one build")));
        }
        Ok(Self { order })
    }

    /// What kind of work they are of: [`Work::KIND`].
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.order.kind
    }

    /// The words behind the program's name that call it for this work: [`Work::COMMAND`].
    #[must_use]
    pub fn command(&self) -> &str {
        &self.order.command
    }

    /// Whether they are the tasks of this work.
    #[must_use]
    pub fn are_of<W: Work>(&self, work: &W) -> bool {
        self.order.kind == W::KIND && work.to_plan().is_ok_and(|plan| plan == self.order.work)
    }

    /// The text of the plan.
    #[must_use]
    pub fn text(&self) -> String {
        self.order.text()
    }

    /// What was cut.
    ///
    /// # Errors
    /// When it is other work, or makes no sense any more.
    pub fn work<W: Work>(&self) -> Result<W, SweepError> {
        let Order { kind, command, name, work, .. } = &self.order;
        if kind != W::KIND {
            let problem = format!("these are tasks of `ackgate {command}` ({kind}), not of a {}", W::KIND);
            return Err(SweepError::Usage(problem));
        }
        W::from_plan(name, work.clone())
    }

    /// Runs the points of a task, from 1, but for those that are `done` by their fingerprints, and shows each row as it
    /// comes: a line that [`Folder::keep`] takes. Returns how many points that were.
    ///
    /// # Errors
    /// When they are of other work, a run fails or is stopped, or `row` fails.
    pub fn run<W: Work>(
        &self,
        task: usize,
        done: impl Fn(u64) -> bool,
        threads: usize,
        stop: &AtomicBool,
        mut row: impl FnMut(&str) -> Result<(), SweepError> + Send,
    ) -> Result<usize, SweepError> {
        let work: W = self.work()?;
        let points = self.order.points(&work, task)?;
        let missing: Vec<&Point> = points.iter().filter(|point| !done(point.fingerprint)).collect();
        run_all(&missing, threads, |point| work.run(point, stop), |_, cells| row(&seal(&cells)))?;
        Ok(missing.len())
    }
}

/// How far the tasks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Points in all.
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

/// How the work was cut.
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
    /// Cuts work into tasks by what its points cost, and writes the plan. `points` are all that it has, in their order.
    /// `tasks` of 0 means one for each minute of work, 1000 at most; there are never so many that one would be dwarfed by
    /// the longest point.
    ///
    /// # Errors
    /// When the folder holds tasks already or cannot be written.
    pub fn create<W: Work>(
        path: &Path,
        build: &str,
        name: &str,
        work: &W,
        points: &[Point],
        tasks: usize,
        measured: &[Sample],
    ) -> Result<Self, SweepError> {
        if let Some(point) = points.iter().find(|point| point.values.iter().any(|value| value.contains('\n'))) {
            return Err(SweepError::Usage(format!("--vary: `{}` contains a line break", point.values.join(" "))));
        }
        let costs = estimate(&work.keys(), points, measured);
        #[expect(clippy::cast_sign_loss, reason = "costs are not negative")]
        let by_time = || ((costs.iter().sum::<f64>() / TASK_S).ceil() as usize).min(MAX_TASKS);
        let dealt = deal(&costs, if tasks == 0 { by_time() } else { tasks });
        let order = Order::new(build, name, work, points, &dealt, &costs)?;
        let failed =
            |error: std::io::Error| SweepError::Output(format!("{} cannot be written: {error}", path.display()));
        fs::create_dir_all(path.join("rows")).map_err(failed)?;
        let file = fs::OpenOptions::new().write(true).create_new(true).open(path.join("plan.json"));
        match file.and_then(|mut file| std::io::Write::write_all(&mut file, order.text().as_bytes())) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let held = fs::read_to_string(path.join("plan.json")).ok();
                let held = held.and_then(|text| Order::parse(&text, "plan.json").ok());
                let command = held.map_or_else(|| W::COMMAND.to_owned(), |order| order.command);
                let advice =
                    format!("continue them with `ackgate {command} missing`, or choose another folder for new ones");
                return Err(SweepError::Usage(format!("{} holds tasks already: {advice}", path.display())));
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { path: path.into(), tasks: Tasks { order } })
    }

    /// Opens a folder. `build` is this program's.
    ///
    /// # Errors
    /// When it holds no tasks, or they were cut by another build, whose figures need not be these.
    pub fn open(path: &Path, build: &str) -> Result<Self, SweepError> {
        let file = path.join("plan.json");
        let text = fs::read_to_string(&file).map_err(|error| {
            SweepError::Usage(format!("{}: this folder contains no tasks: {error}", file.display()))
        })?;
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

    /// What the work is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.tasks.order.name
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
    pub fn run_task<W: Work>(&self, task: usize, threads: usize, stop: &AtomicBool) -> Result<usize, SweepError> {
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
        let run = self.tasks.run::<W>(task, |fingerprint| known.has(fingerprint), threads, stop, write)?;
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

    /// The rows of these points, in their order.
    ///
    /// # Errors
    /// When points are missing, or two tasks disagree about one.
    pub fn rows(&self, points: &[Point]) -> Result<Vec<Vec<String>>, SweepError> {
        let path = self.path.display();
        let mut rows = Rows::read(&self.rows_folder(), None)?;
        if !rows.conflicts.is_empty() {
            return Err(SweepError::Conflict(format!(
                "{path}: the same point came out differently; one of the nodes or programs is not like the others. {}",
                rows.conflicts.join("; ")
            )));
        }
        let found: Vec<Vec<String>> = points.iter().filter_map(|point| rows.remove(point.fingerprint)).collect();
        if found.len() < points.len() {
            let (missing, all) = (points.len() - found.len(), points.len());
            let advice = format!("run them with `ackgate {} missing {path}`", self.tasks.command());
            return Err(SweepError::Missing(format!("{path}: {missing} of {all} points are missing; {advice}")));
        }
        Ok(found)
    }

    /// A sweep's points and their rows: what one process would have.
    ///
    /// # Errors
    /// When it holds no sweep, points are missing, or two tasks disagree about one.
    pub fn collect(&self) -> Result<(Grid, Plan, Output), SweepError> {
        let grid: Grid = self.tasks.work()?;
        let plan = Plan::of(&grid)?;
        let mut output = Output::new(&plan, &plan.points, true, false);
        for (point, row) in plan.points.iter().zip(self.rows(&plan.points)?) {
            output.insert(point, row)?;
        }
        Ok((grid, plan, output))
    }
}
