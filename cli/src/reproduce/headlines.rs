//! `ackgate reproduce --headlines`: the board.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use ackgate_papers::headlines::board::Board;
use ackgate_papers::headlines::book::Book;
use ackgate_papers::headlines::log::Log;
use ackgate_papers::headlines::reading::Readings;
use ackgate_papers::headlines::report::{self, Circumstances};
use ackgate_papers::headlines::run::{self, HeadlineError, Options};
use ackgate_papers::headlines::witness::Witnesses;
use ackgate_papers::run::write;
use ackgate_sim::sweep::folder::Folder;

use super::{Collect, New, TASKS, check_markdown, progress};
use crate::engine::Engine;
use crate::exit::Refused;
use crate::table::print;

/// Runs here what is not in the folder yet, and makes the report.
pub(super) fn run(args: &New) -> anyhow::Result<()> {
    check_markdown(args.markdown.as_deref())?;
    let extras = Extras { markdown: args.markdown.clone(), witness: args.witness.clone() };
    report(&args.options()?, &extras)
}

/// What a report is made of beside the runs, and where else it goes.
struct Extras {
    markdown: Option<PathBuf>,
    witness: Option<PathBuf>,
}

/// Cuts what is not in the folder yet into tasks, and submits these.
pub(super) fn submit(args: &New, engine: Engine) -> anyhow::Result<()> {
    let board = Board::next(&Book::all()?, &args.options()?).map_err(refused)?;
    if board.is_empty() {
        return print("all runs are done: repeat the command without --on and --dir to write the report\n");
    }
    args.submit.begin(engine, ("headlines", &board, &board.all()), TASKS, args.jobs)
}

/// Adds what tasks have run to the folder, and makes the report when nothing is lacking.
pub(super) fn collect(args: &Collect, folder: &Folder) -> anyhow::Result<()> {
    let board: Board = folder.tasks().work()?;
    let (books, options) = (Book::all()?, board.options(args.out.clone(), build()?));
    board.collect(folder, &books, &options).map_err(refused)?;
    let next = Board::next(&books, &options).map_err(refused)?;
    if next.is_empty() {
        return report(&options, &Extras { markdown: args.markdown.clone(), witness: None });
    }
    print(&format!(
        "{} runs more are needed, where an interval lies on a limit. On a cluster, then collect again:\n\
         {} --on ENGINE --dir ANOTHER\n\
         or here, without --on and --dir.\n",
        next.all().len(),
        command(&options, &args.out.display().to_string())
    ))
}

fn refused(error: HeadlineError) -> anyhow::Error {
    match error {
        HeadlineError::Unknown { .. } | HeadlineError::NoReading { .. } | HeadlineError::Witness { .. } => {
            Refused(error.into()).into()
        }
        HeadlineError::Tasks(error) => error.into(),
        other => other.into(),
    }
}

impl New {
    fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            out: self.out.clone().unwrap_or_default(),
            jobs: self.jobs,
            quick: self.quick,
            readings: Readings {
                alternatives: self.alternatives,
                experiments: self.experiments,
                named: self.reading.clone(),
            },
            only_judge: self.judge,
            ids: self.ids.clone(),
            build: build()?,
        })
    }
}

fn report(options: &Options, extras: &Extras) -> anyhow::Result<()> {
    let begin = Instant::now();
    // Read first: a wrong file shows before hours of runs.
    let witnesses = extras.witness.as_deref().map(Witnesses::read).transpose().map_err(refused)?;
    let books = Book::all()?;
    witnesses.iter().try_for_each(|witnesses| witnesses.check(&books)).map_err(refused)?;
    let bar = progress(0);
    let stage = Mutex::new(String::new());
    let told = |what: &str, done: usize, all: usize| {
        let mut stage = stage.lock().expect("no thread panics while it holds the name");
        if *stage != what {
            what.clone_into(&mut stage);
            bar.set_length(all as u64);
            bar.set_message(what.to_owned());
            if bar.is_hidden() && all > 0 {
                // No terminal, no bar: a log wants lines.
                eprintln!("{what}: {all} runs");
            }
        }
        bar.set_position(done as u64);
    };
    let mut outcomes = run::run(books, options, &told).map_err(refused)?;
    bar.finish_and_clear();
    if let Some(witnesses) = &witnesses {
        witnesses.testify(&mut outcomes)?;
    }
    let how = Circumstances {
        command: command(options, "DIR")
            + if witnesses.is_some() { " --witness FILE" } else { "" }
            + if extras.markdown.is_some() { " --markdown PAGE" } else { "" },
        build: options.build.clone(),
        seconds: begin.elapsed().as_secs_f64(),
        memory: peak_memory(),
    };
    let log = Log::read()?;
    write(&options.out.join("results.json"), &report::json(&outcomes, &how))?;
    write(&options.out.join("report.html"), &report::page(&outcomes, &log, &how))?;
    if let Some(path) = &extras.markdown {
        write(path, &report::markdown(&outcomes, &log, &how))?;
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{}", report::board(&outcomes))?;
    writeln!(out, "{}", report::summary(&outcomes))?;
    writeln!(out, "{:.0} s, peak memory {} MB", how.seconds, how.memory / 1_000_000)?;
    writeln!(out, "{}", options.out.join("report.html").display())?;
    Ok(())
}

/// The command that makes the same again in a folder.
fn command(options: &Options, out: &str) -> String {
    let mut words = vec!["ackgate reproduce --headlines".to_owned()];
    words.extend(options.ids.iter().cloned());
    words.extend(options.quick.then(|| "--quick".to_owned()));
    let readings = &options.readings;
    words.extend(readings.alternatives.then(|| "--alternatives".to_owned()));
    words.extend(readings.experiments.then(|| "--experiments".to_owned()));
    words.extend((!readings.named.is_empty()).then(|| format!("--reading {}", readings.named.join(","))));
    words.extend(options.only_judge.then(|| "--judge".to_owned()));
    words.extend(["--out".to_owned(), out.to_owned()]);
    words.join(" ")
}

/// Identifies this program: its version, and a hash of its file.
fn build() -> anyhow::Result<String> {
    let mut file = std::fs::File::open(std::env::current_exe()?)?;
    let (mut hasher, mut piece) = (DefaultHasher::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())),
            n => hasher.write(&piece[..n]),
        }
    }
}

/// Most memory that this process had, in bytes; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")).and_then(|text| text.trim().parse::<u64>().ok());
    kilobytes.map_or(0, |kilobytes| kilobytes * 1_024)
}
