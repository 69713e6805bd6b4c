//! `ackgate lab faults`: what connections notice when something happens to the guard.

use std::io::{self, Write};
use std::path::PathBuf;

use ackgate_lab::faults::{self, FaultReport, FaultsConfig, May};
use ackgate_lab::guard::Place;
use ackgate_lab::testbed;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};

use super::rows::Rows;
use crate::exit::{Broken, Refused};
use crate::units::parse_rate;

/// Its arguments.
#[derive(Args)]
pub(crate) struct Faults {
    /// Connections under load.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Faults to try. Default: all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    fault: Vec<String>,
    /// Guards to try.
    #[arg(long, value_name = "GUARD", value_parser = PossibleValuesParser::new(guards()), value_delimiter = ',', default_value = "credit")]
    guard: Vec<String>,
    /// The part of the guard that the fault affects. Default: each part alone, then all at once.
    #[arg(long, value_name = "PLACE", value_enum)]
    at: Option<At>,
    /// Only list the faults.
    #[arg(long)]
    list: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Allow `clock`: it sets the wall clock of this whole host an hour forward for a second, then an hour back, and then
    /// restores it (also after Ctrl-C, not after kill -9). Best in a virtual machine.
    #[arg(long)]
    step_clock: bool,
    /// Allow `suspend`: it suspends this whole host to RAM for up to 15 s; the real-time clock wakes it. Best in a virtual machine.
    #[arg(long)]
    suspend: bool,
    /// Rate of the switch port towards the receiver.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "500mbit")]
    rate: u64,
    /// Another program than this one to guard with; it is called as `ackgate run` is.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    guard_program: Option<PathBuf>,
}

/// A place where a part of a guard runs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum At {
    /// The part at the receiver.
    Receiver,
    /// The parts at all sender hosts (hwatch, rto).
    Senders,
    /// The part at the switch (m21).
    Switch,
    /// The process that serves all hosts' TCP (m21).
    Hosts,
}

impl At {
    const fn place(self) -> Place {
        match self {
            Self::Receiver => Place::Receiver,
            Self::Senders => Place::Senders,
            Self::Switch => Place::Switch,
            Self::Hosts => Place::Hosts,
        }
    }
}

/// All that can be struck.
fn guards() -> impl Iterator<Item = PossibleValue> {
    super::guards().filter(|guard| guard.get_name() != "none")
}

/// Runs and prints it.
pub(super) fn run(args: &Faults) -> anyhow::Result<()> {
    if args.list {
        let mut out = io::stdout();
        for case in faults::cases() {
            writeln!(out, "{:<10} {}", case.name, case.what)?;
        }
        return Ok(());
    }
    if let Some(unknown) = args.fault.iter().find(|name| !faults::cases().iter().any(|case| case.name == name.as_str()))
    {
        return Err(Refused(anyhow::anyhow!("--fault: there is no fault `{unknown}`; --list shows all")).into());
    }
    testbed::require_privilege()?;
    let stop = crate::stop::on_signals()?;
    let config = FaultsConfig {
        connections: args.connections.into(),
        faults: args.fault.clone(),
        policies: args.guard.clone(),
        at: args.at.map(At::place),
        program: args.guard_program.clone(),
        rate: args.rate,
        may: May { step_clock: args.step_clock, suspend: args.suspend },
    };
    let mut rows = Rows::begin(
        args.json,
        &format!(
            "{:<13} {:<8} {:<10} {:>5} {:>6} {:>9} {:>9} {:>12} {:<6} what it did",
            "guard", "at", "fault", "lost", "bytes", "pause ms", "fault ms", "recovered ms", "left"
        ),
    );
    let report = faults::run_faults(&config, &stop, |row| rows.add(|out| line(out, row)))?;
    rows.end(&report)?;
    match report.broken() {
        0 => Ok(()),
        count => Err(Broken(count, "fault").into()),
    }
}

/// A row of the table.
fn line(out: &mut impl Write, row: &FaultReport) -> io::Result<()> {
    write!(out, "{:<13} {:<8} {:<10} ", row.guard, row.at, row.fault)?;
    if let Some(reason) = &row.skipped {
        return writeln!(out, "skipped: {reason}");
    }
    let recovered = row.recovered_ms.map_or_else(|| "-".into(), |time| format!("{time:.0}"));
    let left = if row.left.is_empty() { "none".into() } else { row.left.len().to_string() };
    writeln!(
        out,
        "{:>5} {:>6} {:>9.0} {:>9.0} {:>12} {:<6} {}",
        row.connections_lost, row.bytes_lost, row.pause_ms, row.fault_ms, recovered, left, row.did
    )?;
    for problem in &row.broken {
        writeln!(out, "{:<33} BROKEN: {problem}", "")?;
    }
    for thing in &row.left {
        writeln!(out, "{:<33} left: {thing}", "")?;
    }
    Ok(())
}
