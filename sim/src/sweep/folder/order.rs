//! What a sweep in a folder is, whole: the file from which every task makes its points.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::plan::hash;
use super::super::{Grid, Point, SweepError, Vary};
use super::indices::{format_ranges, parse_ranges};
use crate::scenario::Document;

/// Version of the file's form.
const FORMAT: u32 = 1;

/// A sweep, and how it was cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    format: u32,
    /// Program that made it, and alone may run it.
    pub(super) build: String,
    /// The scenario's name, for people.
    pub(super) name: String,
    /// Where relative paths in the scenario start.
    folder: PathBuf,
    /// The scenario as the text of a file, changes made.
    scenario: String,
    vary: Vec<(String, Vec<String>)>,
    seeds: u32,
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
    pub(super) fn new(
        build: &str,
        name: &str,
        grid: &Grid,
        points: &[Point],
        dealt: &[Vec<usize>],
        costs: &[f64],
    ) -> Result<Self, SweepError> {
        let folder = folder(grid).map_err(|error| SweepError::Output(format!("the working directory: {error}")))?;
        let tasks = dealt.iter().map(|indices| {
            let own: Vec<&Point> = indices.iter().map(|index| &points[*index]).collect();
            Task {
                points: format_ranges(indices),
                count: indices.len(),
                cost_s: indices.iter().map(|index| costs[*index]).sum(),
                check: check(own.into_iter()),
            }
        });
        Ok(Self {
            format: FORMAT,
            build: build.into(),
            name: name.into(),
            folder,
            scenario: grid.document().to_toml(),
            vary: vary(grid),
            seeds: grid.seeds(),
            tasks: tasks.collect(),
        })
    }

    pub(super) fn parse(text: &str, file: &str) -> Result<Self, SweepError> {
        let order: Self = serde_json::from_str(text)
            .map_err(|error| SweepError::Usage(format!("{file}: is not the plan of a sweep: {error}")))?;
        if order.format != FORMAT {
            let problem = format!("{file}: has form {}, this program knows {FORMAT}", order.format);
            return Err(SweepError::Usage(problem));
        }
        Ok(order)
    }

    pub(super) fn text(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Whether this is the plan of such a sweep.
    pub(super) fn is_of(&self, grid: &Grid) -> bool {
        self.scenario == grid.document().to_toml()
            && self.vary == vary(grid)
            && self.seeds == grid.seeds()
            && folder(grid).is_ok_and(|folder| folder == self.folder)
    }

    pub(super) fn grid(&self) -> Result<Grid, SweepError> {
        let document = Document::parse(&self.name, &self.scenario)?.within(self.folder.clone());
        let vary = self.vary.iter().map(|(key, values)| Vary { key: key.clone(), values: values.clone() });
        Grid::new(&document, &vary.collect::<Vec<_>>(), self.seeds)
    }

    /// The points of a task, from 1.
    ///
    /// # Errors
    /// When there is no such task, or its points are no longer what they were: another program, or a traffic file that
    /// has changed.
    pub(super) fn points(&self, grid: &Grid, number: usize) -> Result<Vec<Point>, SweepError> {
        let count = self.tasks.len();
        let task = number
            .checked_sub(1)
            .and_then(|i| self.tasks.get(i))
            .ok_or_else(|| SweepError::Usage(format!("task {number}: this sweep has tasks 1 to {count}")))?;
        let indices = parse_ranges(&task.points, grid.len()).filter(|all| all.iter().all(|index| *index < grid.len()));
        let indices = indices.ok_or_else(|| SweepError::Usage(format!("task {number}: its points cannot be read")))?;
        let points = indices.into_iter().map(|index| grid.point(index)).collect::<Result<Vec<_>, _>>()?;
        if check(points.iter()) != task.check {
            return Err(SweepError::Foreign(format!(
                "task {number}: its scenarios are no longer what they were when the sweep was cut: a file that they \
                 name has changed; put it back, or begin anew in another folder"
            )));
        }
        Ok(points)
    }
}

/// Keys and values that are varied.
fn vary(grid: &Grid) -> Vec<(String, Vec<String>)> {
    grid.vary().iter().map(|vary| (vary.key.clone(), vary.values.clone())).collect()
}

/// Where relative paths in the scenario start, from the root on.
fn folder(grid: &Grid) -> std::io::Result<PathBuf> {
    std::path::absolute(grid.document().folder().join("."))
}

fn check<'a>(points: impl Iterator<Item = &'a Point>) -> String {
    let prints: Vec<u8> = points.flat_map(|point| point.fingerprint.to_le_bytes()).collect();
    format!("{:016x}", hash(&prints))
}
