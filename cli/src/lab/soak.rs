//! `ackgate lab soak`: a guard under mixed load for a long time.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use ackgate_lab::harm::RowError;
use ackgate_lab::soak::{self, Sample, SoakConfig};
use ackgate_lab::testbed;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::rows::Rows;
use crate::exit::{Broken, Refused};
use crate::run;
use crate::units::parse_time;

/// Its arguments.
#[derive(Args)]
pub(crate) struct Soak {
    /// Duration of the load.
    #[arg(long, default_value = "30m", value_parser = parse_minutes)]
    time: Duration,
    /// Interval at which the guard is checked.
    #[arg(long, default_value = "5s", value_parser = parse_time)]
    every: Duration,
    /// The guard; it must run on the fast path (BPF).
    #[arg(long, value_name = "GUARD", value_parser = PossibleValuesParser::new(run::guards()), default_value = "credit")]
    guard: String,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Another program than this one to guard with; it is called as `ackgate run` is.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    guard_program: Option<PathBuf>,
}

/// A time; minutes, too, as in `30m`.
fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.strip_suffix('m').and_then(|number| number.parse::<u32>().ok());
    let time =
        minutes.map_or_else(|| parse_time(text).map_err(|e| e.to_string()), |m| Ok(Duration::from_secs(60) * m))?;
    if time.is_zero() { Err("a load of no time tells nothing".into()) } else { Ok(time) }
}

/// Runs and prints it.
pub(super) fn run(args: &Soak) -> anyhow::Result<()> {
    testbed::require_privilege()?;
    let stop = crate::stop::on_signals()?;
    let config = SoakConfig {
        time: args.time,
        every: args.every,
        policy: args.guard.clone(),
        program: args.guard_program.clone(),
    };
    let mut rows = Rows::begin(
        args.json,
        &format!(
            "{:>6} {:>8} {:>7} {:>8} {:>6} {:>10} {:>10}",
            "s", "RSS KiB", "flows", "senders", "held", "in flight", "released"
        ),
    );
    let report = soak::run_soak(&config, &stop, |sample| rows.add(|out| line(out, sample)));
    let report = report.map_err(|error| match error {
        RowError::Impossible(reason) => anyhow::Error::from(Refused(anyhow::anyhow!(reason))),
        error => error.into(),
    })?;
    rows.add(|out| {
        let times = |name: &str| report.guard_summary[name].as_u64().unwrap_or(0);
        let (rescues, aside) = (times("rescues"), times("stepped_aside"));
        let (time, mbps) = (report.time_s, report.incast_mbps);
        writeln!(
            out,
            "{time:.0} s, incast rounds at {mbps:.0} Mb/s; stepped aside {aside} times, rescued {rescues} times"
        )?;
        report.promises.iter().try_for_each(|promise| {
            let verdict = if promise.kept { "ok" } else { "BROKEN" };
            writeln!(out, "{:<13} {verdict:<6} {}", promise.name, promise.seen)
        })
    });
    rows.end(&report)?;
    match report.broken() {
        0 => Ok(()),
        count => Err(Broken(count, "case").into()),
    }
}

/// A look.
fn line(out: &mut impl Write, sample: &Sample) -> io::Result<()> {
    let Sample { at_s, rss_kib, flows, senders, held, in_flight, released } = sample;
    writeln!(out, "{at_s:>6.0} {rss_kib:>8} {flows:>7} {senders:>8} {held:>6} {in_flight:>10} {released:>10}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_a_time_here() {
        assert_eq!(parse_minutes("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(parse_minutes("1500ms"), Ok(Duration::from_millis(1500)));
        assert!(parse_minutes("0s").is_err() && parse_minutes("m").is_err());
    }
}
