//! `ackgate lab harm`: where a guard harms, case by case.

use std::io::{self, Write};
use std::path::PathBuf;

use ackgate_lab::harm::{self, HarmConfig, Kind, RowReport};
use ackgate_lab::testbed;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::rows::Rows;
use crate::exit::{Harmed, Refused};

/// A machine on which other programs take more than this share of the time is busy.
const BUSY: f64 = 0.2;

/// Its arguments.
#[derive(Args)]
pub(crate) struct Harm {
    /// Guards to compare with the unguarded network.
    #[arg(long, value_parser = guard(), value_delimiter = ',', default_value = "credit,credit-auto,pac,pac-published")]
    guard: Vec<Kind>,
    /// Pairs of runs (guarded, unguarded) for each row. If the pairs of a row disagree, up to three times as many are run.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Rows to measure, by name or prefix. Default: all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    row: Vec<String>,
    /// Congestion control of the senders, except in rows that tell of another.
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    cc: String,
    /// Only list the rows.
    #[arg(long)]
    list: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Another program than this one to guard with; it is called as `ackgate run` is.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    guard_program: Option<PathBuf>,
}

/// Reads a guard by its name.
fn guard() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(|kind| PossibleValue::new(kind.name()).help(kind.what())))
        .try_map(|name| Kind::named(&name).ok_or("no such guard"))
}

/// Runs and prints it.
pub(super) fn run(args: &Harm) -> anyhow::Result<()> {
    let chosen = harm::choose(&args.row).map_err(|problem| Refused(anyhow::anyhow!("--row: {problem}")))?;
    if args.list {
        let mut out = io::stdout();
        for row in chosen {
            writeln!(out, "{:<22} {:>5}  {}", row.name, row.unit.symbol(), row.what)?;
        }
        return Ok(());
    }
    testbed::require_privilege()?;
    harm::offers(&args.cc).map_err(|problem| Refused(anyhow::anyhow!("--cc: {problem}")))?;
    let stop = crate::stop::on_signals()?;
    let config = HarmConfig {
        guards: args.guard.clone(),
        pairs: args.pairs,
        rows: args.row.clone(),
        cc: args.cc.clone(),
        program: args.guard_program.clone(),
    };
    let mut rows = Rows::begin(
        args.json,
        &format!(
            "{:<22} {:<13} {:>10} {:>10} {:<5} {:>6} {:>13}  verdict",
            "row", "guard", "unguarded", "guarded", "", "worth", "quartiles"
        ),
    );
    let report = harm::run_harm(&config, &stop, |row| rows.add(|out| line(out, row)))?;
    rows.end(&report)?;
    if report.busy_before > BUSY {
        let share = 100.0 * report.busy_before;
        eprintln!(
            "ackgate: other programs used {share:.0} % of the CPU time, so rows without a rate limit are unreliable"
        );
    }
    match report.harmed().count() {
        0 => Ok(()),
        count => Err(Harmed(count).into()),
    }
}

/// A row of the table.
fn line(out: &mut impl Write, row: &RowReport) -> io::Result<()> {
    let Some(found) = &row.comparison else {
        let message = row.message.as_deref().unwrap_or("it measured nothing");
        return writeln!(out, "{:<22} {:<13} {}: {message}", row.row, row.guard, row.verdict.text());
    };
    let quartiles = format!("{:.2}..{:.2}", found.ratio.lower_quartile, found.ratio.upper_quartile);
    write!(
        out,
        "{:<22} {:<13} {:>10} {:>10} {:<5} {:>6.2} {quartiles:>13}  {}",
        row.row,
        row.guard,
        figure(found.unguarded),
        figure(found.guarded),
        row.unit.symbol(),
        found.ratio.median,
        row.verdict.text()
    )?;
    if found.stalls > 0 {
        write!(out, " ({} of {} runs under 40 %)", found.stalls, found.pairs.len())?;
    }
    if let Some(message) = &row.message {
        write!(out, " ({message})")?;
    }
    writeln!(out)
}

/// Four digits that tell something.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
