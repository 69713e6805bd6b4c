//! A sweep as work: what of it stands in the plan, and how a point is run.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Grid, Point, SweepError, Vary};
use super::Work;
use crate::observer::Until;
use crate::scenario::Document;

/// What is varied in which scenario.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    /// Where relative paths in the scenario start.
    folder: PathBuf,
    /// The scenario as the text of a file, changes made.
    scenario: String,
    vary: Vec<(String, Vec<String>)>,
    seeds: u32,
}

impl Work for Grid {
    const KIND: &'static str = "sweep";
    const COMMAND: &'static str = "sim sweep";

    fn to_plan(&self) -> Result<Value, SweepError> {
        let unwritten = |error: &dyn std::fmt::Display| SweepError::Output(format!("the plan of the sweep: {error}"));
        let asked = Asked {
            folder: std::path::absolute(self.document().folder().join(".")).map_err(|error| unwritten(&error))?,
            scenario: self.document().to_toml(),
            vary: self.vary().iter().map(|vary| (vary.key.clone(), vary.values.clone())).collect(),
            seeds: self.seeds(),
        };
        serde_json::to_value(asked).map_err(|error| unwritten(&error))
    }

    fn from_plan(name: &str, plan: Value) -> Result<Self, SweepError> {
        let asked: Asked = serde_json::from_value(plan)
            .map_err(|error| SweepError::Usage(format!("{name}: is not the plan of a sweep: {error}")))?;
        let document = Document::parse(name, &asked.scenario)?.within(asked.folder);
        let vary: Vec<Vary> = asked.vary.into_iter().map(|(key, values)| Vary { key, values }).collect();
        Self::new(&document, &vary, asked.seeds)
    }

    fn keys(&self) -> Vec<String> {
        self.keys()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn points(&self, places: &[usize]) -> Result<Vec<Point>, SweepError> {
        self.points_at(places)
    }

    fn run(&self, point: &Point, stop: &AtomicBool) -> Result<Vec<String>, SweepError> {
        let report = crate::run(&point.scenario, &mut Until(stop))
            .map_err(|error| SweepError::Simulation { point: point.values.join(" "), error })?;
        Ok(self.layout().row(point, &report))
    }
}
