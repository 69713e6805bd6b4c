//! What was cut into tasks, whole: the file from which every task makes its points.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::plan::hash;
use super::super::{Point, SweepError};
use super::Work;
use super::indices::{format_ranges, parse_ranges};

/// Version of the file's form.
const FORMAT: u32 = 2;

/// Work, and how it was cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    format: u32,
    /// Program that made it, and alone may run it.
    pub(super) build: String,
    /// What it is called, for people.
    pub(super) name: String,
    /// See [`Work::KIND`].
    pub(super) kind: String,
    /// See [`Work::COMMAND`].
    pub(super) command: String,
    /// See [`Work::to_plan`].
    pub(super) work: Value,
    pub(super) tasks: Vec<Task>,
}

/// One piece of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// Indices of its points: `0-3,7`.
    points: String,
    /// How many these are.
    pub(super) count: usize,
    /// Expected seconds of one core.
    pub(super) cost_s: f64,
    /// Hash of its points' fingerprints: whether they are still what they were when the sweep was cut.
    check: String,
}

impl Order {
    /// `dealt` are the points of each task, `costs` what each point is expected to cost.
    pub(super) fn new<W: Work>(
        build: &str,
        name: &str,
        work: &W,
        points: &[Point],
        dealt: &[Vec<usize>],
        costs: &[f64],
    ) -> Result<Self, SweepError> {
        let tasks = dealt.iter().map(|indices| {
            let own: Vec<&Point> = indices.iter().map(|index| &points[*index]).collect();
            Task {
                points: format_ranges(indices),
                count: indices.len(),
                cost_s: indices.iter().map(|index| costs[*index]).sum(),
                check: check(own),
            }
        });
        Ok(Self {
            format: FORMAT,
            build: build.into(),
            name: name.into(),
            kind: W::KIND.into(),
            command: W::COMMAND.into(),
            work: work.to_plan()?,
            tasks: tasks.collect(),
        })
    }

    pub(super) fn parse(text: &str, file: &str) -> Result<Self, SweepError> {
        // Another version's file need not have these fields: its version is looked at first.
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let none = |error: serde_json::Error| SweepError::Usage(format!("{file}: is not a task plan: {error}"));
        let Versioned { format } = serde_json::from_str(text).map_err(none)?;
        if format != FORMAT {
            let problem = format!("{file}: has format version {format}; this program supports {FORMAT}");
            return Err(SweepError::Usage(problem));
        }
        serde_json::from_str(text).map_err(none)
    }

    pub(super) fn text(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The points of a task, from 1.
    ///
    /// # Errors
    /// When there is no such task, or its points are no longer what they were: another program, or a traffic file that
    /// has changed.
    pub(super) fn points(&self, work: &impl Work, number: usize) -> Result<Vec<Point>, SweepError> {
        let count = self.tasks.len();
        let task = number
            .checked_sub(1)
            .and_then(|i| self.tasks.get(i))
            .ok_or_else(|| SweepError::Usage(format!("task {number} does not exist: the tasks are 1 to {count}")))?;
        let count = work.count();
        let places = parse_ranges(&task.points, count).filter(|all| all.iter().all(|place| *place < count));
        let places = places.ok_or_else(|| SweepError::Usage(format!("task {number}: its points cannot be read")))?;
        let points = work.points(&places)?;
        if check(&points) != task.check {
            return Err(SweepError::Foreign(format!(
                "task {number}: its scenarios are no longer what they were when the tasks were made: a file that they \
                 name has changed; put it back, or begin anew in another folder"
            )));
        }
        Ok(points)
    }
}

/// Hash of the points' fingerprints, in their order.
fn check<'a>(points: impl IntoIterator<Item = &'a Point>) -> String {
    let prints: Vec<u8> = points.into_iter().flat_map(|point| point.fingerprint.to_le_bytes()).collect();
    format!("{:016x}", hash(&prints))
}
