//! Experiments as work for many machines: every run that they need has its place in one order and leaves one row. Put
//! together, the rows become the files and the report that one process would have written.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ackgate_sim::observer::Until;
use ackgate_sim::scenario::ScenarioError;
use ackgate_sim::sweep::folder::{Folder, Work};
use ackgate_sim::sweep::{Layout, Output, Point, SweepError, hash};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::{self, CatalogueError};
use crate::experiment::Experiment;
use crate::inside::Curve;
use crate::run::{self, Outcome, RunError};

/// Some experiments.
#[derive(Clone, Debug)]
pub struct Reproduction {
    asked: Asked,
    experiments: Vec<Experiment>,
    /// The columns of each experiment's rows.
    layouts: Vec<Layout>,
    /// Of each experiment first its sweep, then what its views look into.
    runs: Vec<Run>,
}

/// Which experiments.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    /// Names from the catalogue, all when empty.
    ids: Vec<String>,
    /// Or one experiment's file.
    file: Option<PathBuf>,
    /// Whether with fewer seeds and points.
    quick: bool,
}

/// One run: which experiment, and what of it.
#[derive(Clone, Copy, Debug)]
struct Run {
    experiment: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A point of its sweep.
    Row(usize),
    /// One of [`Experiment::looks`].
    Look(usize),
}

impl Reproduction {
    /// The experiments of these names, or all when there are none.
    ///
    /// # Errors
    /// When a name is unknown, or a file is refused.
    pub fn named(ids: &[String], quick: bool) -> Result<Self, CatalogueError> {
        let asked = Asked { ids: ids.to_vec(), file: None, quick };
        Ok(Self::of(asked, catalogue::load(ids, quick)?))
    }

    /// The experiment in a file, which the tasks read again.
    ///
    /// # Errors
    /// When it is refused.
    pub fn in_file(file: &Path, quick: bool) -> Result<Self, ScenarioError> {
        let experiment = Experiment::read(file, quick)?;
        // Tasks may be run in another folder; without one of their own, they find it nowhere.
        let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
        Ok(Self::of(Asked { ids: Vec::new(), file: Some(file), quick }, vec![experiment]))
    }

    fn of(asked: Asked, experiments: Vec<Experiment>) -> Self {
        let layouts = experiments.iter().map(|experiment| Layout::new(&experiment.plan().keys, false)).collect();
        let runs = experiments.iter().enumerate().flat_map(|(i, experiment)| {
            let rows = (0..experiment.plan().points.len()).map(What::Row);
            let looks = (0..experiment.looks.len()).map(What::Look);
            rows.chain(looks).map(move |what| Run { experiment: i, what })
        });
        let runs = runs.collect();
        Self { asked, experiments, layouts, runs }
    }

    /// What it is called: the experiment's name when there is one, else how many there are.
    #[must_use]
    pub fn name(&self) -> String {
        match self.experiments.as_slice() {
            [experiment] => experiment.id.clone(),
            several => format!("{}-experiments", several.len()),
        }
    }

    /// Whether it has fewer seeds and points.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        self.asked.quick
    }

    /// Its experiments.
    #[must_use]
    pub fn into_experiments(self) -> Vec<Experiment> {
        self.experiments
    }

    /// All runs, in their order.
    #[must_use]
    pub fn all(&self) -> Vec<Point> {
        (0..self.runs.len()).map(|place| self.at(place)).collect()
    }

    /// Puts the rows of a folder together, judges, and writes the files that [`run::run`] writes.
    ///
    /// # Errors
    /// When rows are missing or disagree, or a file cannot be written.
    pub fn collect(self, folder: &Folder, out: &Path) -> Result<Vec<Outcome>, RunError> {
        let id = self.name();
        let failed = |error| RunError::Sweep { id: id.clone(), error };
        let mut rows = folder.rows(&self.all()).map_err(failed)?.into_iter().map(|mut row| {
            // What identifies the run; the rest is what it left.
            row.pop();
            row
        });
        run::make_folder(out)?;
        let mut outcomes = Vec::with_capacity(self.experiments.len());
        for experiment in self.experiments {
            let plan = experiment.plan();
            let mut output = Output::new(plan, &plan.points, true, false);
            for (point, row) in plan.points.iter().zip(&mut rows) {
                output.insert(point, row).map_err(failed)?;
            }
            run::write(&out.join(format!("{}.csv", experiment.id)), &output.csv())?;
            let insides = rows.by_ref().take(experiment.looks.len()).map(|row| read_curves(&row));
            let insides = insides.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            outcomes.push(run::finish(experiment, &output, insides, out)?);
        }
        Ok(outcomes)
    }

    fn at(&self, place: usize) -> Point {
        let Run { experiment: number, what } = self.runs[place];
        let experiment = &self.experiments[number];
        let (point, series, x) = match what {
            What::Row(i) => {
                let point = &experiment.plan().points[i];
                (point, point.values[0].clone(), point.values[1].clone())
            }
            What::Look(i) => {
                let look = &experiment.looks[i];
                (&look.point, experiment.series[look.curve].name.clone(), format!("view {}", look.view + 1))
            }
        };
        // The same scenario may stand in two experiments, in a sweep and in a view.
        let identity = match what {
            What::Row(_) => format!("{} {:016x}", experiment.id, point.fingerprint),
            What::Look(_) => format!("{} {x} {:016x}", experiment.id, point.fingerprint),
        };
        Point {
            index: place,
            values: vec![experiment.id.clone(), series, x],
            scenario: point.scenario.clone(),
            fingerprint: hash(identity.as_bytes()),
        }
    }
}

impl Work for Reproduction {
    const KIND: &'static str = "experiments";
    const COMMAND: &'static str = "reproduce";

    fn to_plan(&self) -> Result<Value, SweepError> {
        serde_json::to_value(&self.asked)
            .map_err(|error| SweepError::Output(format!("the plan of the runs cannot be written: {error}")))
    }

    fn from_plan(name: &str, plan: Value) -> Result<Self, SweepError> {
        let asked: Asked = serde_json::from_value(plan)
            .map_err(|error| SweepError::Usage(format!("{name}: not a plan of experiments: {error}")))?;
        match &asked.file {
            Some(file) => Ok(Self::in_file(file, asked.quick)?),
            None => Self::named(&asked.ids, asked.quick).map_err(|error| match error {
                CatalogueError::File(error) => error.into(),
                other => SweepError::Usage(other.to_string()),
            }),
        }
    }

    fn keys(&self) -> Vec<String> {
        ["experiment", "series", "x"].map(str::to_owned).to_vec()
    }

    fn count(&self) -> usize {
        self.runs.len()
    }

    fn points(&self, places: &[usize]) -> Result<Vec<Point>, SweepError> {
        Ok(places.iter().map(|place| self.at(*place)).collect())
    }

    fn run(&self, point: &Point, stop: &AtomicBool) -> Result<Vec<String>, SweepError> {
        let Run { experiment: number, what } = self.runs[point.index];
        let experiment = &self.experiments[number];
        let failed = |error| SweepError::Simulation { point: point.values.join(" "), error };
        let mut row = match what {
            What::Row(i) => {
                let report = ackgate_sim::run(&point.scenario, &mut Until(stop)).map_err(failed)?;
                self.layouts[number].row(&experiment.plan().points[i], &report)
            }
            What::Look(i) => {
                let view = &experiment.views[experiment.looks[i].view];
                vec![write_curves(&view.look(point, stop).map_err(failed)?)?]
            }
        };
        row.push(format!("{:016x}", point.fingerprint));
        Ok(row)
    }
}

/// Curves as one cell of text, every digit kept.
fn write_curves(curves: &[Curve]) -> Result<String, SweepError> {
    serde_json::to_string(curves)
        .map_err(|error| SweepError::Output(format!("the curves of a view cannot be written: {error}")))
}

fn read_curves(row: &[String]) -> Result<Vec<Curve>, SweepError> {
    let text = row.first().map_or("", String::as_str);
    serde_json::from_str(text)
        .map_err(|error| SweepError::Output(format!("the curves of a view cannot be read: {error}")))
}
