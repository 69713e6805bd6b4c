//! Runs experiments: what is missing of a sweep, then figure, verdicts and report.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ackgate_sim::observer::Until;
use ackgate_sim::sweep::{self, Output, SweepError};

use crate::experiment::Experiment;
use crate::figures::Figures;
use crate::inside;
use crate::judge::Judgement;
use crate::report;

/// Where and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for all files; made when it is not there.
    pub out: PathBuf,
    /// Threads; 0 for one on each core.
    pub jobs: usize,
    /// Ends everything when it is set; rows that are there by then are kept.
    pub stop: Arc<AtomicBool>,
}

/// An experiment that has been run and judged.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The experiment.
    pub experiment: Experiment,
    /// All its figures.
    pub figures: Figures,
    /// One for each claim.
    pub judgements: Vec<Judgement>,
    /// What its views show, one for each of [`Experiment::looks`].
    pub insides: Vec<Vec<inside::Curve>>,
    /// Its drawing.
    pub svg: String,
}

/// Why running failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The sweep or its file.
    #[error("{id}: {error}")]
    Sweep {
        /// Which experiment.
        id: String,
        /// What.
        error: SweepError,
    },
    /// A simulation.
    #[error("{id}, {point}: {error}")]
    Simulation {
        /// Which experiment.
        id: String,
        /// Which point.
        point: String,
        /// What.
        error: ackgate_sim::Error,
    },
    /// A file.
    #[error("{file} cannot be written: {error}")]
    File {
        /// Its name.
        file: String,
        /// Why.
        error: std::io::Error,
    },
}

impl RunError {
    /// Whether what was asked for is wrong, rather than what became of it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Sweep { error, .. } if error.is_refusal())
    }
}

/// What there is to do for an experiment, in bytes of traffic to simulate.
#[must_use]
pub fn work(experiment: &Experiment) -> u128 {
    let looks = experiment.looks.iter().map(|look| &look.point);
    experiment.plan().points.iter().chain(looks).map(sweep::Point::work).sum()
}

/// Runs one experiment, except for points whose rows are in its CSV file already, and writes CSV and SVG.
/// `progress` is told the work of each point that is done.
///
/// # Errors
/// When a simulation fails, a file cannot be written, or the CSV file is of something else.
pub fn run(experiment: Experiment, options: &Options, progress: impl Fn(u128) + Sync) -> Result<Outcome, RunError> {
    make_folder(&options.out)?;
    let id = experiment.id.clone();
    let failed = |error| RunError::Sweep { id: id.clone(), error };
    let csv = options.out.join(format!("{id}.csv"));
    let plan = experiment.plan();
    let mut output = Output::new(plan, &plan.points, true, false).keep_in(&csv).map_err(failed)?;
    let kept = plan.points.iter().filter(|point| output.has(point)).map(sweep::Point::work).sum();
    progress(kept);
    let simulate = |point: &sweep::Point| {
        ackgate_sim::run(&point.scenario, &mut Until(&options.stop))
            .map_err(|error| Stop::Simulation { point: point.values.join(" "), error })
    };
    sweep::run(&plan.points, &mut output, options.jobs, simulate, |point, _| progress(point.work())).map_err(
        |stop| match stop {
            Stop::Sweep(error) => failed(error),
            Stop::Simulation { point, error } => RunError::Simulation { id: id.clone(), point, error },
        },
    )?;
    let insides = look(&experiment, options, &progress)?;
    finish(experiment, &output, insides, &options.out)
}

/// Judges an experiment of which all runs are done, and writes its drawing and what its views show.
pub(crate) fn finish(
    experiment: Experiment,
    output: &Output,
    insides: Vec<Vec<inside::Curve>>,
    out: &Path,
) -> Result<Outcome, RunError> {
    let figures = Figures::new(&experiment, output);
    let judgements = experiment.claims.iter().map(|claim| claim.judge.judge(&experiment, &figures)).collect();
    if !insides.is_empty() {
        write(&out.join(format!("{}.views.csv", experiment.id)), &report::views(&experiment, &insides))?;
    }
    let svg = report::drawing(&experiment, &figures, &insides);
    write(&out.join(format!("{}.svg", experiment.id)), &svg)?;
    Ok(Outcome { experiment, figures, judgements, insides, svg })
}

/// Runs what an experiment's views look into, one list of curves for each of [`Experiment::looks`].
fn look(
    experiment: &Experiment,
    options: &Options,
    progress: &(impl Fn(u128) + Sync),
) -> Result<Vec<Vec<inside::Curve>>, RunError> {
    let points: Vec<&sweep::Point> = experiment.looks.iter().map(|look| &look.point).collect();
    let mut insides = vec![Vec::new(); points.len()];
    // Two views of one point are two runs: a point is known by where it stands.
    let place = |point: &sweep::Point| points.iter().position(|known| std::ptr::eq(*known, point));
    let run = |point: &sweep::Point| {
        let index = place(point).expect("it is one of them");
        let curves = experiment.views[experiment.looks[index].view].look(point, &options.stop);
        curves.map(|curves| (index, curves)).map_err(|error| RunError::Simulation {
            id: experiment.id.clone(),
            point: format!("view {}", experiment.looks[index].view + 1),
            error,
        })
    };
    sweep::run_all(&points, options.jobs, run, |point, (index, curves)| {
        insides[index] = curves;
        progress(point.work());
        Ok(())
    })?;
    Ok(insides)
}

/// Writes the report page and `results.json`. `quick` is whether the experiments were read as quick ones, for the
/// page's heading.
///
/// # Errors
/// When a file cannot be written.
pub fn conclude(outcomes: &[Outcome], out: &Path, quick: bool) -> Result<(), RunError> {
    write(&out.join("results.json"), &report::json(outcomes))?;
    write(&out.join("report.html"), &report::page(outcomes, quick))
}

/// Makes the folder for all files, if it is not there.
pub(crate) fn make_folder(out: &Path) -> Result<(), RunError> {
    fs::create_dir_all(out).map_err(|error| file(out, error))
}

/// Writes a text file whole.
///
/// # Errors
/// When that fails.
pub fn write(path: &Path, text: &str) -> Result<(), RunError> {
    fs::write(path, text).map_err(|error| file(path, error))
}

fn file(path: &Path, error: std::io::Error) -> RunError {
    RunError::File { file: path.display().to_string(), error }
}

/// What ends a sweep before its time.
enum Stop {
    Sweep(SweepError),
    Simulation { point: String, error: ackgate_sim::Error },
}

impl From<SweepError> for Stop {
    fn from(error: SweepError) -> Self {
        Self::Sweep(error)
    }
}
