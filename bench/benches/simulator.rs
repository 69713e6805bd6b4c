//! `make bench`: data packets delivered per second of wall time, events per packet and peak memory of each case.
//!
//! `cargo bench -p ackgate-bench -- 10g` runs the cases whose name contains `10g`; `--runs 9` takes the median of nine.
//! Where senders time out, a delivered packet stands for several that were dropped: events and packets sent (ACKs
//! included) for each that was delivered tell.
//! Times on a busy or throttled machine say little: compare two versions by alternating runs on one core.

use std::env;
use std::process::Command;

use ackgate_bench::{Measured, cases};
use anyhow::{Context, bail, ensure};

/// The argument by which this program asks itself for one run, in a process of its own.
const ONE: &str = "--one-run-of";

fn main() -> anyhow::Result<()> {
    let mut runs = 5;
    let mut filter = None;
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo adds.
            "--bench" => {}
            ONE => return one_run(&arguments.next().context("which case?")?),
            "--runs" => {
                let given = arguments.next().context("--runs takes a number, such as 5")?;
                runs = given.parse().with_context(|| format!("--runs takes a number, not `{given}`"))?;
                ensure!(runs > 0, "--runs must be at least 1");
            }
            flag if flag.starts_with('-') => {
                bail!("unknown option `{flag}`: there is `--runs N`, and a part of a name")
            }
            _ => filter = Some(argument),
        }
    }
    let chosen: Vec<_> = cases::ALL.iter().filter(|case| case.name.contains(filter.as_deref().unwrap_or(""))).collect();
    ensure!(!chosen.is_empty(), "no case has `{}` in its name", filter.unwrap_or_default());

    println!(
        "{:<20} {:>12} {:>12} {:>12} {:>10} {:>9} {:>8} {:>8} {:>8} {:>10}",
        "case", "packets/s", "least", "most", "events/pkt", "ns/event", "sent/pkt", "ns/sent", "wall s", "peak MiB"
    );
    for case in chosen {
        report(case.name, &mut repeat(case.name, runs)?);
    }
    Ok(())
}

fn one_run(name: &str) -> anyhow::Result<()> {
    let case = cases::ALL.iter().find(|case| case.name == name).with_context(|| format!("no case `{name}`"))?;
    println!("{}", serde_json::to_string(&Measured::run(&(case.scenario)())?)?);
    Ok(())
}

fn repeat(name: &str, runs: u32) -> anyhow::Result<Vec<Measured>> {
    let own = env::current_exe().context("finding this program")?;
    (0..runs)
        .map(|_| {
            let output = Command::new(&own).args([ONE, name]).output().context("starting a run")?;
            ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(serde_json::from_slice(&output.stdout)?)
        })
        .collect()
}

fn report(name: &str, measured: &mut [Measured]) {
    measured.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    let (fastest, median, slowest) = (measured[0], measured[measured.len() / 2], measured[measured.len() - 1]);
    let memory = measured.iter().map(|m| m.peak_kib).max().unwrap_or(0);
    println!(
        "{name:<20} {:>12.0} {:>12.0} {:>12.0} {:>10.2} {:>9.1} {:>8.2} {:>8.1} {:>8.3} {:>10.1}",
        median.rate(),
        slowest.rate(),
        fastest.rate(),
        median.events as f64 / median.packets as f64,
        median.wall_s * 1e9 / median.events as f64,
        median.sent as f64 / median.packets as f64,
        median.wall_s * 1e9 / median.sent as f64,
        median.wall_s,
        memory as f64 / 1024.0
    );
}
