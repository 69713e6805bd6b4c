//! `ackgate reproduce`: the papers' experiments, one command for all of them.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use ackgate_papers::catalogue;
use ackgate_papers::experiment::Experiment;
use ackgate_papers::report;
use ackgate_papers::run::{self, Options};
use ackgate_sim::output::table::table;
use anyhow::anyhow;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Refused;

mod headlines;

/// Which experiments, and where their results go.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Experiments by name, such as PAC-F13; --list shows them. With --headlines, headlines such as PAC-H7.
    #[arg(value_name = "ID", conflicts_with_all = ["all", "file"])]
    ids: Vec<String>,
    /// The papers' 48 headline claims, judged with ten seeds and intervals. What is complete in DIR is not run again.
    #[arg(long, conflicts_with_all = ["all", "file", "list"])]
    headlines: bool,
    /// With --headlines, judges again under each other reading of what the papers leave open. Takes hours.
    #[arg(long, requires = "headlines", conflicts_with = "quick")]
    alternatives: bool,
    /// All experiments. What is complete in DIR is not run again.
    #[arg(long)]
    all: bool,
    /// An experiment in a file of your own.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    file: Option<PathBuf>,
    /// Fewer seeds and points: ten minutes on two cores at most. With --headlines, no verdicts that take long, and no
    /// further seeds.
    #[arg(long)]
    quick: bool,
    /// Folder for figures (SVG), numbers (CSV), report.html and results.json.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Runs at the same time; 0 for one on each core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    /// Write the outcome as a Markdown page too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// List the experiments.
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Arguments) -> anyhow::Result<()> {
    if args.list {
        return list();
    }
    if args.headlines {
        return headlines::run(args);
    }
    let experiments = match &args.file {
        Some(file) => vec![Experiment::read(file, args.quick)?],
        None if args.all || !args.ids.is_empty() => catalogue::load(&args.ids, args.quick)?,
        None => return Err(Refused(anyhow!("which experiments? Name some (--list shows them), or say --all")).into()),
    };
    let out = args.out.clone().unwrap_or_default();
    let options = Options { out, jobs: args.jobs, quick: args.quick, stop: Arc::default() };

    check_markdown(args)?;
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
    run::conclude(&outcomes, &options)?;
    if let Some(path) = &args.markdown {
        run::write(path, &report::markdown(&outcomes, args.quick))?;
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
    let mut out = std::io::stdout().lock();
    write!(out, "{}", table(&head, &rows))?;
    writeln!(out, "{}", report::summary(&outcomes))?;
    writeln!(out, "{}", options.out.join("report.html").display())?;
    Ok(())
}

/// Whether the page can be written: better told now than after all has run.
fn check_markdown(args: &Arguments) -> anyhow::Result<()> {
    let Some(path) = &args.markdown else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let problem = anyhow!("--markdown {}: it must be a file in a folder that exists", path.display());
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

/// A bar on standard error, measured in traffic so that long runs count for more; hidden when that is no terminal.
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
