//! Work that others run: cut into tasks in a folder, submitted as a job array, looked after and collected. What is
//! common to sweeps and reproductions.

mod slurm;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use ackgate_papers::headlines::board::Board;
use ackgate_papers::reproduction::Reproduction;
use ackgate_sim::output::table::{figure, table};
use ackgate_sim::sweep::folder::{Folder, Status, Work, format_ranges, measure, task_number};
use ackgate_sim::sweep::{Grid, Point, SweepError};
use clap::{ArgMatches, Args, FromArgMatches, Subcommand, ValueEnum};
use serde_json::json;

use crate::BUILD;
use crate::table::{print, print_json};

/// Seconds that the measurement of sample points may take before work is cut.
const MEASURE_S: f64 = 10.0;

/// Who runs the tasks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Slurm, as a job array.
    Slurm,
    /// Any other scheduler with job arrays: only prepare the folder, submit nothing.
    Array,
}

/// How work is handed to an engine.
#[derive(Args)]
pub(crate) struct Submit {
    /// Folder for the tasks and their results, on a file system that all nodes share.
    #[arg(long, value_name = "DIR", requires = "on")]
    dir: Option<PathBuf>,
    /// Maximum number of tasks; 0: chosen by the expected run time, up to 1000. The longest run also bounds it.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "on")]
    tasks: usize,
    /// An option of sbatch, such as --sbatch=--partition=short. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, requires = "on")]
    sbatch: Vec<String>,
    /// Do not submit: print the job script. It stays in DIR, to be edited and submitted by hand.
    #[arg(long, requires = "on")]
    print: bool,
}

/// New work, or what to do with some that was cut into tasks.
pub(crate) enum Either<N, C: Args> {
    /// What to do with tasks that there are.
    Known(Command<C>),
    /// To be run.
    New(Box<N>),
}

/// A subcommand, or else the arguments of new work: clap's derive knows no such choice when arguments are nested.
impl<N: Args, C: Args> Args for Either<N, C> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = Command::<C>::augment_subcommands(N::augment_args(command));
        command.args_conflicts_with_subcommands(true).subcommand_negates_reqs(true).subcommand_required(false)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<N: Args, C: Args> FromArgMatches for Either<N, C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand() {
            Some(_) => Command::from_arg_matches(matches).map(Self::Known),
            None => N::from_arg_matches(matches).map(|new| Self::New(Box::new(new))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What to do with work that was cut into tasks.
#[derive(Subcommand)]
pub(crate) enum Command<C: Args> {
    /// Run one task; called by the script of the job array.
    Task(Task),
    /// Show the progress of the tasks.
    Status(Look),
    /// Resubmit only the tasks that failed or were preempted; without Slurm, list them.
    Missing(Missing),
    /// Merge the results of all tasks; the output is identical to that of a single process.
    Collect(C),
}

#[derive(Args)]
pub(crate) struct Task {
    /// Folder of the tasks (--dir when they were submitted).
    dir: PathBuf,
    /// Number of the task, from 1. Default: the job array's index, from the environment.
    #[arg(long, value_name = "K")]
    task: Option<usize>,
    /// Number of threads; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

#[derive(Args)]
pub(crate) struct Look {
    /// Folder of the tasks (--dir when they were submitted).
    dir: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Missing {
    /// Folder of the tasks (--dir when they were submitted).
    dir: PathBuf,
    /// Do not submit: print the command.
    #[arg(long)]
    print: bool,
}

/// Does what is to be done with tasks that there are; `collect` knows how their rows are put together.
pub(crate) fn run<C: Args>(command: &Command<C>, collect: impl FnOnce(&C) -> anyhow::Result<()>) -> anyhow::Result<()> {
    match command {
        Command::Task(args) => run_task(args),
        Command::Status(args) => status(args),
        Command::Missing(args) => missing(args),
        Command::Collect(args) => collect(args),
    }
}

impl Submit {
    /// Cuts work into tasks and submits them. `points` are all that it has. Where `--tasks` does not say it, there are at
    /// most `usual` tasks, 0 for one for each minute; each has so many `threads`, 0 for one.
    pub(crate) fn begin<W: Work>(
        &self,
        engine: Engine,
        (name, work, points): (&str, &W, &[Point]),
        usual: usize,
        threads: usize,
    ) -> anyhow::Result<()> {
        let Some(dir) = &self.dir else { return Err(SweepError::Usage("--on needs --dir".into()).into()) };
        let measured =
            measure(points, 0, MEASURE_S).map_err(|(point, error)| SweepError::Simulation { point, error })?;
        let tasks = if self.tasks == 0 { usual } else { self.tasks };
        let folder = Folder::create(dir, BUILD, name, work, points, tasks, &measured)?;
        let cut = folder.cut();
        let s = figure;
        say(&format!(
            "{} points in {} tasks; expected, by {} measured points: {} s of one core, {} to {} s per task",
            points.len(),
            cut.tasks,
            measured.len(),
            s(cut.total_s),
            s(cut.least_s),
            s(cut.most_s)
        ))?;
        match engine {
            Engine::Slurm => {
                let script = slurm::write_script(&folder, cut.tasks, threads.max(1), &self.sbatch)?;
                if self.print {
                    return print(&script);
                }
                let job = slurm::submit(&folder, None)?;
                print(&format!("job {job}\n"))
            }
            Engine::Array => print(&format!("ackgate {} task {} --task 1..{}\n", W::COMMAND, dir.display(), cut.tasks)),
        }
    }
}

fn run_task(args: &Task) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let task = args.task.map_or_else(|| task_number(|name| std::env::var(name).ok()), Ok)?;
    let folder = Folder::open(&args.dir, BUILD)?;
    let run = match folder.tasks().kind() {
        Reproduction::KIND => folder.run_task::<Reproduction>(task, args.threads, &stop),
        Board::KIND => folder.run_task::<Board>(task, args.threads, &stop),
        _ => folder.run_task::<Grid>(task, args.threads, &stop),
    }?;
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
        (
            "waiting or running",
            active.as_ref().map_or_else(|| "unknown: not submitted to Slurm".into(), |all| some(all)),
        ),
        ("to be run again", some(&idle(&status, active.as_deref()))),
        ("run more than once", status.repeated.to_string()),
    ];
    if status.damaged > 0 {
        rows.push(("damaged rows", status.damaged.to_string()));
    }
    rows.extend(status.conflicts.iter().map(|conflict| ("CONFLICT", conflict.clone())));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print(&table(&[format!("ackgate {}", folder.tasks().command()), folder.name().into()], &rows))
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
        return say("no task is missing: all are done, running or queued");
    }
    if args.print {
        return print(&slurm::command(&folder, Some(&tasks)));
    }
    let job = slurm::submit(&folder, Some(&tasks))?;
    print(&format!("job {job}: tasks {}\n", format_ranges(&tasks)))
}

/// For people and logs, beside what programs read.
fn say(text: &str) -> anyhow::Result<()> {
    let mut err = std::io::stderr().lock();
    let prefix = if err.is_terminal() { "" } else { "ackgate: " };
    Ok(writeln!(err, "{prefix}{text}")?)
}
