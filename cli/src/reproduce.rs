//! `ackgate reproduce`: the papers' experiments, one command for all of them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ackgate_papers::catalogue;
use ackgate_papers::experiment::Experiment;
use ackgate_papers::headlines::board::Board;
use ackgate_papers::report;
use ackgate_papers::reproduction::Reproduction;
use ackgate_papers::run::{self, Options, Outcome};
use ackgate_sim::output::table::table;
use ackgate_sim::sweep::folder::{Folder, Work};
use anyhow::anyhow;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::BUILD;
use crate::engine::{self, Either, Engine, Submit};
use crate::exit::Refused;

mod headlines;

/// Tasks at most, where it is not said: as many as Slurm's arrays have. There are never more than the longest run
/// allows, so that on a cluster all takes about as long as that.
const TASKS: usize = 1_000;

/// A new reproduction, or what to do with one that was cut into tasks.
pub(crate) type Arguments = Either<New, Collect>;

/// Which experiments, and where their results go.
#[derive(Args)]
pub(crate) struct New {
    /// Experiments such as PAC-F13 (--list shows them); with --headlines, headline claims such as PAC-H7.
    #[arg(value_name = "ID", conflicts_with_all = ["all", "file"])]
    ids: Vec<String>,
    /// Judge the papers' 48 headline claims, each with ten seeds and confidence intervals. Runs that DIR already has are reused.
    #[arg(long, conflicts_with_all = ["all", "file", "list"])]
    headlines: bool,
    /// With --headlines: also judge under alternative interpretations of what the papers leave open. Takes hours.
    #[arg(long, requires = "headlines", conflicts_with = "quick")]
    alternatives: bool,
    /// With --headlines: also run the experiments that explain why claims were not reproduced (those of the named claims, or all).
    #[arg(long, requires = "headlines", conflicts_with = "quick")]
    experiments: bool,
    /// With --headlines: only the named alternatives or experiments, as the report's tables call them, such as M21/6.
    /// Separate several by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "headlines", conflicts_with = "quick")]
    reading: Vec<String>,
    /// With --headlines: run nothing, only judge the runs that DIR has. Claims without complete runs get no verdict.
    #[arg(long, requires = "headlines", conflicts_with_all = ["quick", "on"])]
    judge: bool,
    /// With --headlines: also judge the runs of another simulator, from a file written by `bench/peers/run witness`.
    #[arg(long, value_name = "FILE", requires = "headlines", conflicts_with = "on")]
    witness: Option<PathBuf>,
    /// Run all experiments. Runs that DIR already has are reused.
    #[arg(long)]
    all: bool,
    /// Run an experiment of your own from this file.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    file: Option<PathBuf>,
    /// Fewer seeds and points: at most ten minutes on two cores. With --headlines: skip the slow claims, and never add
    /// seeds.
    #[arg(long)]
    quick: bool,
    /// Folder for figures (SVG), numbers (CSV), report.html and results.json.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["list", "on"])]
    #[arg(required_if_eq("headlines", "true"))]
    out: Option<PathBuf>,
    /// Number of parallel runs; 0: one per core. With --on: parallel runs per task; 0: one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    /// Also write the results as a Markdown page.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Only list the experiments.
    #[arg(long)]
    list: bool,
    /// Do not run in this process: split the work into tasks for a cluster and submit them. `collect` then writes the report.
    #[arg(long, value_name = "ENGINE", requires = "dir", conflicts_with_all = ["markdown", "list"])]
    on: Option<Engine>,
    #[command(flatten)]
    submit: Submit,
}

#[derive(Args)]
pub(crate) struct Collect {
    /// Folder of the tasks (--dir when they were submitted).
    dir: PathBuf,
    /// Folder for figures (SVG), numbers (CSV), report.html and results.json.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Also write the results as a Markdown page.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) fn run(args: &Arguments) -> anyhow::Result<()> {
    match args {
        Either::Known(command) => engine::run(command, collect),
        Either::New(args) if args.list => list(),
        Either::New(args) => match args.on {
            Some(engine) if args.headlines => headlines::submit(args, engine),
            None if args.headlines => headlines::run(args),
            _ => args.run(),
        },
    }
}

impl New {
    fn run(&self) -> anyhow::Result<()> {
        if !self.all && self.ids.is_empty() && self.file.is_none() {
            return Err(Refused(anyhow!("no experiments given: name some (--list shows them), or use --all")).into());
        }
        let all = match &self.file {
            Some(file) => Reproduction::in_file(file, self.quick)?,
            None => Reproduction::named(&self.ids, self.quick)?,
        };
        if self.on.is_some() && self.out.is_some() {
            return Err(
                Refused(anyhow!("--out cannot be combined with --on here: give it to `ackgate reproduce collect` when the tasks are done")).into()
            );
        }
        match self.on {
            Some(engine) => self.submit.begin(engine, (&all.name(), &all, &all.all()), TASKS, self.jobs),
            None => self.run_here(all.into_experiments()),
        }
    }

    fn run_here(&self, experiments: Vec<Experiment>) -> anyhow::Result<()> {
        let out = self.out.clone().unwrap_or_default();
        let options = Options { out, jobs: self.jobs, stop: Arc::default() };
        check_markdown(self.markdown.as_deref())?;
        let count = experiments.len();
        let bar = progress(experiments.iter().map(run::work).sum());
        let mut outcomes = Vec::new();
        for experiment in experiments {
            bar.set_message(experiment.id.clone());
            outcomes.push(run::run(experiment, &options, |work| bar.inc(share(work)))?);
            if bar.is_hidden() && count > 1 {
                // No terminal, no bar: a log wants lines.
                let id = outcomes.last().map_or("", |outcome| outcome.experiment.id.as_str());
                eprintln!("{id}: {} of {count}", outcomes.len());
            }
        }
        bar.finish_and_clear();
        conclude(&outcomes, &options.out, self.quick, self.markdown.as_deref())
    }
}

/// Makes the report of what tasks have run.
fn collect(args: &Collect) -> anyhow::Result<()> {
    check_markdown(args.markdown.as_deref())?;
    let folder = Folder::open(&args.dir, BUILD)?;
    if folder.tasks().kind() == Board::KIND {
        return headlines::collect(args, &folder);
    }
    let all: Reproduction = folder.tasks().work()?;
    let quick = all.is_quick();
    let outcomes = all.collect(&folder, &args.out)?;
    conclude(&outcomes, &args.out, quick, args.markdown.as_deref())
}

/// Writes the report, and shows its verdicts.
fn conclude(outcomes: &[Outcome], out: &Path, quick: bool, markdown: Option<&Path>) -> anyhow::Result<()> {
    run::conclude(outcomes, out, quick)?;
    if let Some(path) = markdown {
        run::write(path, &report::markdown(outcomes, quick))?;
    }
    let head = ["experiment", "verdict", "claim", "paper", "ours"].map(str::to_owned);
    let rows: Vec<Vec<String>> = outcomes
        .iter()
        .flat_map(|outcome| {
            outcome.experiment.claims.iter().zip(&outcome.judgements).map(|(claim, judgement)| {
                let id = outcome.experiment.id.clone();
                let cells = [&claim.id, &claim.paper, &judgement.measured].map(String::clone);
                [id, judgement.verdict.text().to_owned()].into_iter().chain(cells).collect()
            })
        })
        .collect();
    let page = out.join("report.html");
    let mut out = std::io::stdout().lock();
    write!(out, "{}", table(&head, &rows))?;
    writeln!(out, "{}", report::summary(outcomes))?;
    writeln!(out, "{}", page.display())?;
    Ok(())
}

/// Whether the page can be written: better told now than after all has run.
fn check_markdown(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let problem = anyhow!("--markdown {}: must be a file in an existing folder", path.display());
        return Err(Refused(problem).into());
    }
    Ok(())
}

fn list() -> anyhow::Result<()> {
    let head = ["experiment", "paper", "figure", "what it shows"].map(str::to_owned);
    let rows: Vec<Vec<String>> = catalogue::load(&[], true)?
        .into_iter()
        .map(|experiment| {
            let ids: Vec<String> = std::iter::once(experiment.id).chain(experiment.also).collect();
            vec![ids.join(" "), experiment.paper.name().into(), experiment.figure, experiment.title]
        })
        .collect();
    let mut out = std::io::stdout().lock();
    write!(out, "{}", table(&head, &rows))?;
    writeln!(out, "\nNot run:")?;
    for figure in catalogue::not_run()? {
        writeln!(out, "{:<12}  {}: {}", figure.id, figure.what, figure.why)?;
    }
    Ok(())
}

/// A bar on standard error; hidden when that is no terminal. Experiments measure it in traffic, so that long runs count
/// for more.
fn progress(work: u128) -> ProgressBar {
    let bar = ProgressBar::new(share(work));
    let style = ProgressStyle::with_template("{msg:12} {wide_bar} {percent:>3} %  {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Work in the bar's unit: kilobytes, of which there cannot be too many to count.
fn share(work: u128) -> u64 {
    u64::try_from(work / 1_000).unwrap_or(u64::MAX >> 20)
}
