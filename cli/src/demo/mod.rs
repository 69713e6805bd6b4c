//! `ackgate demo`: the same incast with and without the guard, side by side, on this machine's kernel; in the simulator
//! where the kernel may not be used. A table, and a page for the browser.

pub(crate) mod chart;
mod page;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackgate_control::gate;
use ackgate_lab::guard::GuardConfig;
use ackgate_lab::incast::{IncastConfig, IncastReport, Lab, LabError, Progress};
use ackgate_lab::load::LoadError;
use ackgate_lab::load::pull::{Start, Volume};
use ackgate_lab::machine::Machine;
use ackgate_lab::testbed::{Spec, require_privilege};
use ackgate_linux::doctor::{Finding, examine};
use ackgate_sim::observer::Nobody;
use ackgate_sim::output::table::table;
use ackgate_sim::scenario::{Assignment, Document};
use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Refused;
use crate::table::print_json;

/// What is simulated where the kernel may not be used.
const SCENARIO: &str = include_str!("../../../scenarios/incast-1g.toml");
/// Rate of PAC's testbed in bits per second.
const FULL_RATE: u64 = 1_000_000_000;
/// Longest time for one run; a collapsed one shows what it is long before.
const RUN_LIMIT: Duration = Duration::from_secs(9);

/// Arguments of `ackgate demo`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Numbers of connections to try.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32, 64, 100, 200])]
    connections: Vec<usize>,
    /// Rounds of each run.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// What guards the receiver.
    #[arg(long, value_enum, default_value_t = Policy::Credit)]
    guard: Policy,
    /// Use the simulator even where the kernel could be used.
    #[arg(long)]
    simulate: bool,
    /// Where to write the page.
    #[arg(long, value_name = "FILE", default_value = "out/demo.html")]
    html: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Proactive ACK Control, as published.
    Pac,
    /// Exact credit.
    Credit,
}

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::Pac => "pac",
            Self::Credit => "credit",
        }
    }
}

/// One run, reduced to what the demo shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Outcome {
    goodput_mbps: f64,
    rounds: u32,
    rounds_with_timeout: u32,
    rto_timeouts: u64,
    retransmits: u64,
    switch_drops: u64,
    round_p99_ms: f64,
}

/// The two runs of one number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Point {
    connections: usize,
    unguarded: Outcome,
    guarded: Outcome,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
struct Demo {
    /// `kernel` or `simulator`.
    on: &'static str,
    guard: &'static str,
    rate_mbps: f64,
    buffer: u64,
    bytes: u64,
    rounds_asked: u32,
    /// Goodput without congestion, in megabits per second.
    ceiling_mbps: f64,
    points: Vec<Point>,
    machine: Machine,
    /// What a reader should know.
    notes: Vec<String>,
}

/// Runs the demo.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let simulated_because = if arguments.simulate { Some("The simulator was asked for.".into()) } else { hindrance()? };
    let bar = bar(arguments);
    let demo = match simulated_because {
        None => on_the_kernel(arguments, &bar, &stop)?,
        Some(why) => {
            bar.println(format!("{why}\nThe simulator stands in for the kernel."));
            in_the_simulator(arguments, &bar, &stop, &why)?
        }
    };
    bar.finish_and_clear();
    if let Some(folder) = arguments.html.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::write(&arguments.html, page::html(&demo))
        .with_context(|| format!("cannot write {}", arguments.html.display()))?;
    if arguments.json {
        return print_json(&demo);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", heading(&demo))?;
    write!(out, "{}", text_table(&demo))?;
    for note in &demo.notes {
        writeln!(out, "{note}")?;
    }
    writeln!(out, "The page: {}", arguments.html.display())?;
    Ok(())
}

fn bar(arguments: &Arguments) -> ProgressBar {
    let bar = ProgressBar::new(arguments.connections.len() as u64 * 2 * u64::from(arguments.rounds));
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {elapsed}  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    if arguments.json {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    bar
}

/// What keeps the demo from this kernel, if something does: no privilege, or a feature that the kernel was built without.
///
/// # Errors
/// When the guard should work here and does not: a simulation in its place would hide that.
fn hindrance() -> anyhow::Result<Option<String>> {
    if let Err(error) = require_privilege() {
        return Ok(Some(format!("{error}.")));
    }
    let report = examine(None);
    if let Some(fault) = report.fault() {
        let reason = format!(
            "the guard should work here and does not: {}\n(`ackgate doctor` tells more; `ackgate demo --simulate` shows the \
             simulator)",
            fault.detail
        );
        return Err(Refused(anyhow::anyhow!(reason)).into());
    }
    let missing = report.checks.iter().find(|check| check.finding == Finding::Missing);
    Ok(missing.map(|check| format!("{}: {}.", check.name, check.detail)))
}

fn on_the_kernel(arguments: &Arguments, bar: &ProgressBar, stop: &AtomicBool) -> anyhow::Result<Demo> {
    bar.set_message("building the testbed");
    bar.tick();
    let rate = Lab::new(Spec::pac_edge())?.choose_rate(false, stop)?;
    // A port at half the speed with timers twice as long is the same network in slow motion.
    let slower = u32::try_from(FULL_RATE / rate).unwrap_or(1);
    let rto_min = Duration::from_millis(200) * slower;
    let max_hold = Duration::from_nanos(gate::Config::credit(Spec::pac_edge().buffer).max_hold.0) * slower;
    let mut lab = Lab::new(Spec { rate, burst: Spec::burst_for(rate), rto_min: Some(rto_min), ..Spec::pac_edge() })?;
    let config = |connections: usize, guard: Option<GuardConfig>| IncastConfig {
        connections,
        volume: Volume::PerConnection(64_000),
        rounds: arguments.rounds,
        warmup: 1,
        cc: Some("reno".into()),
        mss: None,
        start: Start::Pull,
        fresh: false,
        ipv6: false,
        deadline: RUN_LIMIT,
        guard,
    };
    let ceiling_mbps = lab.ceiling(&config(64, None), stop)?;
    let mut points = Vec::new();
    for (index, &connections) in arguments.connections.iter().enumerate() {
        let mut one = |guard: Option<GuardConfig>| -> anyhow::Result<Outcome> {
            let half = u64::from(guard.is_some());
            bar.set_message(format!("{connections} connections, {}", if half == 1 { "guarded" } else { "unguarded" }));
            let report = lab.run(&config(connections, guard), false, stop, |progress| {
                if let Progress::Round(_) = progress {
                    bar.inc(1);
                }
            });
            bar.set_position((index as u64 * 2 + half + 1) * u64::from(arguments.rounds));
            match report {
                Ok(report) => Ok(Outcome::of(&report)),
                Err(LabError::Load(LoadError::Deadline { .. })) => Ok(Outcome::STALLED),
                Err(e) => Err(e.into()),
            }
        };
        let guard = GuardConfig {
            program: None,
            policy: arguments.guard.name().into(),
            max_hold: Some(max_hold),
            extra: Vec::new(),
        };
        points.push(Point { connections, unguarded: one(None)?, guarded: one(Some(guard))? });
    }
    let mut notes = vec![format!(
        "Kept connections, NewReno with SACK, the kernel's initial window. \
         Least retransmission timeout {} ms, longest hold {} ms.",
        rto_min.as_millis(),
        max_hold.as_millis()
    )];
    if rate < FULL_RATE {
        notes.push(format!(
            "The port runs at {} Mb/s, and timers are slowed down as much, because this machine is all hosts and the switch \
             at once, and that is what it carries without effort now.",
            rate / 1_000_000
        ));
    }
    if points.iter().any(|p| p.unguarded.rounds.min(p.guarded.rounds) < arguments.rounds) {
        notes.push(format!("A run ends after {} s, complete or not.", RUN_LIMIT.as_secs()));
    }
    if points.iter().any(|p| p.unguarded.rounds.min(p.guarded.rounds) == 0) {
        notes.push("Where it says 0 of 0, not one round was complete by then.".into());
    }
    Ok(Demo {
        on: "kernel",
        guard: arguments.guard.name(),
        rate_mbps: rate as f64 / 1e6,
        buffer: lab.testbed().spec().buffer,
        bytes: 64_000,
        rounds_asked: arguments.rounds,
        ceiling_mbps,
        points,
        machine: Machine::this(),
        notes,
    })
}

impl Outcome {
    /// Not one round was complete in time.
    const STALLED: Self = Self {
        goodput_mbps: 0.0,
        rounds: 0,
        rounds_with_timeout: 0,
        rto_timeouts: 0,
        retransmits: 0,
        switch_drops: 0,
        round_p99_ms: 0.0,
    };

    fn of(report: &IncastReport) -> Self {
        Self {
            goodput_mbps: report.goodput_mbps,
            rounds: report.rounds,
            rounds_with_timeout: report.rounds_with_timeout,
            rto_timeouts: report.rto_timeouts,
            retransmits: report.retransmits,
            switch_drops: report.switch_drops,
            round_p99_ms: report.round_ms.p99,
        }
    }

    fn simulated(report: &ackgate_sim::report::Report) -> Self {
        Self {
            goodput_mbps: report.goodput_mbps,
            rounds: report.rounds,
            rounds_with_timeout: report.rounds_with_timeout,
            rto_timeouts: report.rto_timeouts,
            retransmits: report.retransmits,
            switch_drops: report.drops,
            round_p99_ms: report.round_ms.p99,
        }
    }

    /// Percent of the rounds that saw a timeout; no number when there was no round.
    fn timeout_percent(&self) -> f64 {
        if self.rounds == 0 { f64::NAN } else { 100.0 * f64::from(self.rounds_with_timeout) / f64::from(self.rounds) }
    }
}

fn in_the_simulator(arguments: &Arguments, bar: &ProgressBar, stop: &AtomicBool, why: &str) -> anyhow::Result<Demo> {
    let one = |connections: usize, scheme: &str, buffer: &str| -> anyhow::Result<Outcome> {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Stopped.into());
        }
        bar.set_message(format!("{connections} connections, {scheme}"));
        let mut document = Document::parse("scenarios/incast-1g.toml", SCENARIO)?;
        for change in [
            format!("senders={connections}"),
            format!("scheme={scheme}"),
            format!("rounds={}", arguments.rounds),
            format!("switch.buffer={buffer}"),
        ] {
            document.set(&Assignment::parse("--set", &change)?)?;
        }
        let outcome = Outcome::simulated(&ackgate_sim::run(&document.scenario()?, &mut Nobody)?);
        bar.inc(u64::from(arguments.rounds));
        Ok(outcome)
    };
    let mut points = Vec::new();
    for &connections in &arguments.connections {
        points.push(Point {
            connections,
            unguarded: one(connections, "none", "96KB")?,
            guarded: one(connections, arguments.guard.name(), "96KB")?,
        });
    }
    let ceiling_mbps = one(64, "none", "64MB")?.goodput_mbps;
    Ok(Demo {
        on: "simulator",
        guard: arguments.guard.name(),
        rate_mbps: 1000.0,
        buffer: 96_000,
        bytes: 64_000,
        rounds_asked: arguments.rounds,
        ceiling_mbps,
        points,
        machine: Machine::this(),
        notes: vec![format!("Simulated, not measured. {why}")],
    })
}

/// One sentence about what was run.
fn heading(demo: &Demo) -> String {
    format!(
        "{} KB per connection and round over a {:.0} Mb/s port with {} KB of buffer, {}; without congestion {:.0} Mb/s",
        demo.bytes / 1000,
        demo.rate_mbps,
        demo.buffer / 1000,
        if demo.on == "kernel" { "on this machine's kernel" } else { "simulated" },
        demo.ceiling_mbps
    )
}

const HEAD: [&str; 7] = [
    "connections",
    "goodput, unguarded",
    "guarded (Mb/s)",
    "rounds with RTO, unguarded",
    "guarded",
    "slowest rounds (p99), unguarded",
    "guarded (ms)",
];

fn rows(demo: &Demo) -> Vec<Vec<String>> {
    let share = |o: &Outcome| format!("{} of {}", o.rounds_with_timeout, o.rounds);
    let slowest = |o: &Outcome| if o.rounds == 0 { "none ended".into() } else { format!("{:.0}", o.round_p99_ms) };
    demo.points
        .iter()
        .map(|p| {
            vec![
                p.connections.to_string(),
                format!("{:.0}", p.unguarded.goodput_mbps),
                format!("{:.0}", p.guarded.goodput_mbps),
                share(&p.unguarded),
                share(&p.guarded),
                slowest(&p.unguarded),
                slowest(&p.guarded),
            ]
        })
        .collect()
}

fn text_table(demo: &Demo) -> String {
    table(&HEAD.map(str::to_owned), &rows(demo))
}
