//! Sweeps that others run: cut into tasks in a folder, submitted as a job array, looked after and collected.

mod slurm;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use ackgate_sim::output::table::{figure, table};
use ackgate_sim::output::{parquet, whole};
use ackgate_sim::sweep::folder::{Folder, Status, format_ranges, measure, task_number};
use ackgate_sim::sweep::{Grid, Plan, SweepError};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::sweep::{Show, save_parquet};
use super::{BUILD, print};
use crate::table::print_json;

/// Seconds that the measurement of sample points may take before a sweep is cut.
const MEASURE_S: f64 = 10.0;

/// Who runs the tasks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Slurm, as a job array.
    Slurm,
    /// Any scheduler with job arrays: the folder is made, nothing is submitted.
    Array,
}

/// What to do with a sweep that was cut into tasks.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one task: what a job array's script calls.
    Task(Task),
    /// Tell how far a sweep is.
    Status(Look),
    /// Submit again what failed or was pre-empted, and nothing else; without Slurm, list these tasks.
    Missing(Missing),
    /// Put the rows of all tasks together: the bytes that one process would have written.
    Collect(Collect),
}

#[derive(Args)]
pub(crate) struct Task {
    /// The sweep's folder.
    dir: PathBuf,
    /// Which task, from 1. Default: the number that the scheduler gives in the environment.
    #[arg(long, value_name = "K")]
    task: Option<usize>,
    /// Threads to run on; 0 for one on each core.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

#[derive(Args)]
pub(crate) struct Look {
    /// The sweep's folder.
    dir: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Missing {
    /// The sweep's folder.
    dir: PathBuf,
    /// Submit nothing: print the command.
    #[arg(long)]
    print: bool,
}

#[derive(Args)]
pub(crate) struct Collect {
    /// The sweep's folder.
    dir: PathBuf,
    /// Write the rows to this file, which is replaced in one step: CSV, or Parquet when the name ends so.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    show: Show,
}

/// A sweep to be cut and submitted.
pub(super) struct Order<'a> {
    pub(super) engine: Engine,
    pub(super) dir: &'a Path,
    pub(super) name: &'a str,
    pub(super) grid: &'a Grid,
    pub(super) tasks: usize,
    /// Of each task; 0 for one.
    pub(super) threads: usize,
    pub(super) sbatch: &'a [String],
    pub(super) print: bool,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Task(args) => run_task(args),
        Command::Status(args) => status(args),
        Command::Missing(args) => missing(args),
        Command::Collect(args) => collect(args),
    }
}

/// Cuts a sweep into tasks and submits them.
pub(super) fn begin(order: &Order<'_>) -> anyhow::Result<()> {
    let plan = Plan::of(order.grid)?;
    let measured =
        measure(&plan.points, 0, MEASURE_S).map_err(|(point, error)| SweepError::Simulation { point, error })?;
    let folder = Folder::create(order.dir, BUILD, order.name, order.grid, order.tasks, &measured)?;
    let cut = folder.cut();
    let s = figure;
    say(&format!(
        "{} points in {} tasks, {} s of one core by {} measured points; a task {} to {} s",
        plan.points.len(),
        cut.tasks,
        s(cut.total_s),
        measured.len(),
        s(cut.least_s),
        s(cut.most_s)
    ))?;
    match order.engine {
        Engine::Slurm => {
            let script = slurm::write_script(&folder, cut.tasks, order.threads.max(1), order.sbatch)?;
            if order.print {
                return print(&script);
            }
            let job = slurm::submit(&folder, None)?;
            print(&format!("job {job}\n"))
        }
        Engine::Array => print(&format!("ackgate sim sweep task {} --task 1..{}\n", order.dir.display(), cut.tasks)),
    }
}

fn run_task(args: &Task) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let task = args.task.map_or_else(|| task_number(|name| std::env::var(name).ok()), Ok)?;
    let folder = Folder::open(&args.dir, BUILD)?;
    let run = folder.run_task(task, args.threads, &stop)?;
    say(&format!("task {task}: {run} points run"))
}

fn status(args: &Look) -> anyhow::Result<()> {
    let folder = Folder::open(&args.dir, BUILD)?;
    let status = folder.status()?;
    let active = slurm::active(&folder)?;
    let cut = folder.cut();
    if args.json {
        return print_json(&json!({
            "points": status.points,
            "done": status.done,
            "tasks": cut.tasks,
            "tasks_missing": status.missing,
            "tasks_active": active,
            "damaged": status.damaged,
            "repeated": status.repeated,
            "conflicts": status.conflicts,
            "expected_s": cut.total_s,
        }));
    }
    let mut rows = vec![
        ("points done", format!("{} of {}", status.done, status.points)),
        ("tasks done", format!("{} of {}", cut.tasks - status.missing.len(), cut.tasks)),
        ("waiting or running", active.as_ref().map_or_else(|| "not known: not Slurm's".into(), |all| some(all))),
        ("to be run again", some(&idle(&status, active.as_deref()))),
        ("run more than once", status.repeated.to_string()),
    ];
    if status.damaged > 0 {
        rows.push(("damaged rows", status.damaged.to_string()));
    }
    rows.extend(status.conflicts.iter().map(|conflict| ("CONFLICT", conflict.clone())));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print(&table(&["sweep".into(), folder.name().into()], &rows))
}

/// Task numbers, or a dash.
fn some(tasks: &[usize]) -> String {
    if tasks.is_empty() { "-".into() } else { format!("{} ({})", tasks.len(), format_ranges(tasks)) }
}

/// Tasks that lack points and that nobody is running or going to.
fn idle(status: &Status, active: Option<&[usize]>) -> Vec<usize> {
    let busy = |task: &usize| active.is_some_and(|active| active.contains(task));
    status.missing.iter().copied().filter(|task| !busy(task)).collect()
}

fn missing(args: &Missing) -> anyhow::Result<()> {
    let folder = Folder::open(&args.dir, BUILD)?;
    let active = slurm::active(&folder)?;
    let tasks = idle(&folder.status()?, active.as_deref());
    if active.is_none() {
        // A list for a script, empty when there is nothing to do.
        return print(&format!("{}\n", format_ranges(&tasks)));
    }
    if tasks.is_empty() {
        return say("nothing is missing that is not waiting or running");
    }
    if args.print {
        return print(&slurm::command(&folder, Some(&tasks)));
    }
    let job = slurm::submit(&folder, Some(&tasks))?;
    print(&format!("job {job}: tasks {}\n", format_ranges(&tasks)))
}

fn collect(args: &Collect) -> anyhow::Result<()> {
    let folder = Folder::open(&args.dir, BUILD)?;
    let (plan, rows) = folder.collect()?;
    if let Some(path) = &args.out {
        if parquet::is_meant(path) {
            save_parquet(path, folder.grid(), &rows, String::new())?;
        } else {
            whole::write(path, |file| file.write_all(rows.csv().as_bytes()))
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    args.show.show(folder.name(), &plan, &plan.points, &rows)
}

/// For people and logs, beside what programs read.
fn say(text: &str) -> anyhow::Result<()> {
    let mut err = std::io::stderr().lock();
    let prefix = if err.is_terminal() { "" } else { "ackgate: " };
    Ok(writeln!(err, "{prefix}{text}")?)
}
