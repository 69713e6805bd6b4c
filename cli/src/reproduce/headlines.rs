//! `ackgate reproduce --headlines`: the board.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::time::Instant;

use ackgate_papers::headlines::book::Book;
use ackgate_papers::headlines::log;
use ackgate_papers::headlines::report::{self, Circumstances};
use ackgate_papers::headlines::run::{self, HeadlineError, Options};
use ackgate_papers::run::write;

use super::{Arguments, check_markdown, progress, share};
use crate::exit::Refused;

pub(super) fn run(args: &Arguments) -> anyhow::Result<()> {
    check_markdown(args)?;
    let begin = Instant::now();
    let build = build()?;
    let options = Options {
        out: args.out.clone().unwrap_or_default(),
        jobs: args.jobs,
        quick: args.quick,
        alternatives: args.alternatives,
        ids: args.ids.clone(),
        build: build.clone(),
    };
    let bar = progress(0);
    let stage = Mutex::new(String::new());
    let told = |what: &str, done: u128, all: u128| {
        let mut stage = stage.lock().expect("no thread panics while it holds the name");
        if *stage != what {
            what.clone_into(&mut stage);
            bar.set_length(share(all));
            bar.set_message(what.to_owned());
            if bar.is_hidden() && all > 0 {
                // No terminal, no bar: a log wants lines.
                eprintln!("{what}: {} MB of traffic", all / 1_000_000);
            }
        }
        bar.set_position(share(done));
    };
    let outcomes = run::run(Book::all()?, &options, &told).map_err(|error| match error {
        HeadlineError::Unknown { .. } => anyhow::Error::from(Refused(error.into())),
        other => other.into(),
    })?;
    bar.finish_and_clear();
    let how =
        Circumstances { command: command(args), build, seconds: begin.elapsed().as_secs_f64(), memory: peak_memory() };
    let changes = log::entries()?;
    write(&options.out.join("results.json"), &report::json(&outcomes, &how))?;
    write(&options.out.join("report.html"), &report::page(&outcomes, &changes, &how))?;
    if let Some(path) = &args.markdown {
        write(path, &report::markdown(&outcomes, &changes, &how))?;
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{}", report::board(&outcomes))?;
    writeln!(out, "{}", report::summary(&outcomes))?;
    writeln!(out, "{:.0} s, {} MB at most", how.seconds, how.memory / 1_000_000)?;
    writeln!(out, "{}", options.out.join("report.html").display())?;
    Ok(())
}

/// The command that makes the same again, whatever the folders were called.
fn command(args: &Arguments) -> String {
    let mut words = vec!["ackgate reproduce --headlines".to_owned()];
    words.extend(args.ids.iter().cloned());
    words.extend(args.quick.then(|| "--quick".to_owned()));
    words.extend(args.alternatives.then(|| "--alternatives".to_owned()));
    words.push("--out DIR".into());
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
