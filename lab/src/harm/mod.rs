//! Where does a guard harm? One table: every row is a case that a guard should leave alone or make better, measured with the
//! guard over without it, in pairs whose order turns (ABBA), with a verdict.
//!
//! A row is data ([`Row`]) and a runner in a file of its own; [`rows`] lists them all.

mod beside;
pub(crate) mod churn;
pub(crate) mod exchanges;
mod flood;
mod forge;
mod forged;
mod frozen;
mod long;
mod marks;
mod mixed;
mod moved;
mod mptcp;
mod older;
mod oneway;
mod requests;
pub(crate) mod rounds;
pub(crate) mod row;
mod signed;
mod simulated;
pub(crate) mod streams;
mod variants;
mod verdict;
mod web;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::guard::GuardConfig;
use crate::machine::{CpuTimes, Machine, congestion_controls};
pub use row::{Row, RowError, Unit};
pub use verdict::{Comparison, Verdict};

/// A guard of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: an unguarded run in a guard's place, which shows how far two of them differ on this machine.
    None,
    /// Exact credit that is told buffer and rate.
    Credit,
    /// Exact credit that finds its budget.
    CreditAuto,
    /// Exact credit that is told nothing, on an interface that reports more than the port carries: 10 Gb/s, as a veth does.
    CreditDefault,
    /// The same on an interface that reports no rate.
    CreditUntold,
    /// PAC with requests, long turns and bounded windows.
    Pac,
    /// PAC as published.
    PacPublished,
    /// ICTCP, in user space as the next ones.
    Ictcp,
    /// The ACK shaper.
    Shaper,
    /// HWatch, at both ends.
    Hwatch,
    /// Fine timeouts beside TCP's, at the sender hosts.
    Rto,
    /// M21TCP-A, at the switch and all hosts.
    M21,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::Credit,
        Self::CreditAuto,
        Self::CreditDefault,
        Self::CreditUntold,
        Self::Pac,
        Self::PacPublished,
        Self::Ictcp,
        Self::Shaper,
        Self::Hwatch,
        Self::Rto,
        Self::M21,
    ];

    /// The guard of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::None => "No guard: how much two unguarded runs differ on this machine",
            Self::Credit => "Exact credit, told buffer and rate",
            Self::CreditAuto => "Exact credit that finds its budget",
            Self::CreditDefault => "The defaults, where the interface reports 10 Gb/s whatever the port carries",
            Self::CreditUntold => "The defaults, where the interface reports no rate",
            Self::Pac => "Proactive ACK Control with requests, long turns and bounded windows",
            Self::PacPublished => "Proactive ACK Control as published; where it harms, that is the scheme's own nature",
            Self::Ictcp => "ICTCP; as published, too, as those below",
            Self::Shaper => "The ACK shaper",
            Self::Hwatch => "HWatch, at the receiver and at every sender host",
            Self::Rto => "Fine timeouts beside TCP's, at every sender host",
            Self::M21 => "M21TCP-A: the switch counts senders, and all hosts take part",
        }
    }

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Credit => "credit",
            Self::CreditAuto => "credit-auto",
            Self::CreditDefault => "credit-default",
            Self::CreditUntold => "credit-untold",
            Self::Pac => "pac",
            Self::PacPublished => "pac-published",
            Self::Ictcp => "ictcp",
            Self::Shaper => "shaper",
            Self::Hwatch => "hwatch",
            Self::Rto => "rto",
            Self::M21 => "m21",
        }
    }

    /// What `ackgate run --guard` and the simulator call it.
    const fn policy(self) -> &'static str {
        match self {
            Self::Credit | Self::CreditAuto | Self::CreditDefault | Self::CreditUntold => "credit",
            Self::None
            | Self::Pac
            | Self::PacPublished
            | Self::Ictcp
            | Self::Shaper
            | Self::Hwatch
            | Self::Rto
            | Self::M21 => self.name(),
        }
    }

    /// Whether harm is the scheme's own nature: it is run as its authors describe it, and stays so.
    const fn as_published(self) -> bool {
        matches!(self, Self::PacPublished | Self::Ictcp | Self::Shaper | Self::Hwatch | Self::Rto | Self::M21)
    }

    fn config(self, program: Option<PathBuf>) -> Option<GuardConfig> {
        let options: &[&str] = match self {
            Self::CreditAuto => &["--buffer", "auto"],
            // The lab tells each guard its port: this is what it would do untold.
            Self::CreditDefault => &["--buffer", "auto", "--rate", "10gbit", "--follow", "after-loss"],
            Self::CreditUntold => &["--buffer", "auto", "--rate", "unknown"],
            _ => &[],
        };
        let extra = options.iter().map(|&option| option.to_owned()).collect();
        (self != Self::None).then(|| GuardConfig { program, policy: self.policy().into(), max_hold: None, extra })
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct HarmConfig {
    /// Guards to hold against none.
    pub guards: Vec<Kind>,
    /// Pairs of each row. A row whose verdict they do not tell gets up to [`MOST_TIMES`] as many.
    pub pairs: u32,
    /// Names of the rows, or beginnings of names; none for all.
    pub rows: Vec<String>,
    /// Congestion control of the senders, which this machine's kernel offers.
    pub cc: String,
    /// Another program than this one to guard with.
    pub program: Option<PathBuf>,
}

/// How many times `pairs` a row is measured at most.
pub const MOST_TIMES: u32 = 3;

/// How long is looked at whether the machine is busy.
const LOOK: Duration = Duration::from_millis(300);

/// A row's result under one guard.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// The row's name.
    pub row: &'static str,
    /// What happens in it.
    pub what: &'static str,
    /// What was measured.
    pub unit: Unit,
    /// The guard's name.
    pub guard: &'static str,
    /// The comparison; `None` where there is none, for the reason in `message`.
    #[serde(flatten)]
    pub comparison: Option<Comparison>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why the row was skipped, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The whole table.
#[derive(Clone, Debug, Serialize)]
pub struct HarmReport {
    /// Every row under every guard.
    pub rows: Vec<RowReport>,
    /// Share of the processors' time that other programs took just before, from 0 to 1. Rows that the processors limit (no
    /// rate limit, new connections) tell little where it is not small.
    pub busy_before: f64,
    /// What it was measured on.
    pub machine: Machine,
}

impl HarmReport {
    /// Rows in which a guard of ours harms, or breaks what works without it.
    pub fn harmed(&self) -> impl Iterator<Item = &RowReport> {
        self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Harm | Verdict::Failed))
    }
}

/// All rows, in the order of the table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let files = [
        long::ROWS,
        rounds::ROWS,
        mixed::ROWS,
        moved::ROWS,
        beside::ROWS,
        variants::ROWS,
        signed::ROWS,
        forged::ROWS,
        frozen::ROWS,
        older::ROWS,
        requests::ROWS,
        oneway::ROWS,
        marks::ROWS,
        mptcp::ROWS,
        churn::ROWS,
        web::ROWS,
        flood::ROWS,
        simulated::ROWS,
    ];
    files.into_iter().flatten()
}

/// The rows of these names, or whose names begin so; all where none is given.
///
/// # Errors
/// A name that fits no row.
pub fn choose(names: &[String]) -> Result<Vec<&'static Row>, String> {
    if let Some(unknown) = names.iter().find(|name| !rows().any(|row| row.name.starts_with(name.as_str()))) {
        return Err(format!("no row has the name or prefix `{unknown}`; --list shows all"));
    }
    let exact = |name: &String| rows().any(|row| row.name == name.as_str());
    let chosen = |row: &&Row| {
        names.is_empty()
            || names
                .iter()
                .any(|name| if exact(name) { row.name == name.as_str() } else { row.name.starts_with(name.as_str()) })
    };
    Ok(rows().filter(chosen).collect())
}

/// Whether this machine's kernel offers the congestion control to every program.
///
/// # Errors
/// If it does not, what it offers.
pub fn offers(cc: &str) -> Result<(), String> {
    let all = congestion_controls();
    if all.iter().any(|name| name == cc) {
        return Ok(());
    }
    Err(format!("this kernel offers no congestion control `{cc}`, only {}", all.join(", ")))
}

/// Measures the table; `tell` hears of each row's results as they come.
///
/// # Errors
/// [`RowError::Stopped`] when `stop` is set, and a name in `config.rows` that fits no row. What goes wrong within a row is
/// told in its report.
pub fn run_harm(
    config: &HarmConfig,
    stop: &AtomicBool,
    mut tell: impl FnMut(&RowReport),
) -> Result<HarmReport, RowError> {
    let guards: Vec<(Kind, Option<GuardConfig>)> =
        config.guards.iter().map(|&kind| (kind, kind.config(config.program.clone()))).collect();
    let busy_before = CpuTimes::busy_share(LOOK).map_err(row::io_error("reading /proc/stat"))?;
    let mut reports = Vec::new();
    for row in choose(&config.rows).map_err(RowError::Impossible)? {
        for report in measure_row(row, &guards, config, stop)? {
            tell(&report);
            reports.push(report);
        }
    }
    Ok(HarmReport { rows: reports, busy_before, machine: Machine::this() })
}

/// One guard's part of a row while it is measured.
struct Part<'a> {
    kind: Kind,
    config: Option<&'a GuardConfig>,
    values: Vec<(f64, f64)>,
    failed: Option<String>,
    /// What failed is that the row cannot be run with this guard.
    impossible: bool,
}

/// A row under every guard. An unguarded run and one with each guard stand next to each other; their order turns.
fn measure_row(
    row: &'static Row,
    guards: &[(Kind, Option<GuardConfig>)],
    config: &HarmConfig,
    stop: &AtomicBool,
) -> Result<Vec<RowReport>, RowError> {
    let mut parts: Vec<Part<'_>> = guards
        .iter()
        .map(|(kind, config)| Part {
            kind: *kind,
            config: config.as_ref(),
            values: Vec::new(),
            failed: None,
            impossible: false,
        })
        .collect();
    let pairs = config.pairs;
    for index in 0..pairs * MOST_TIMES {
        let open: Vec<&mut Part<'_>> =
            parts.iter_mut().filter(|part| part.failed.is_none() && (index < pairs || part.undecided(row))).collect();
        if open.is_empty() {
            break;
        }
        match measure_once(row, open, &config.cc, index, stop) {
            Ok(()) => {}
            Err(RowError::Stopped) => return Err(RowError::Stopped),
            // Without a guard it does not work either: the row tells nothing about guards.
            Err(error) => {
                let report = |part: Part<'_>| part.skipped(row, error.to_string());
                return Ok(parts.into_iter().map(report).collect());
            }
        }
    }
    Ok(parts.into_iter().map(|part| part.report(row)).collect())
}

/// One unguarded measurement and one with each guard, guards first in every other pair. An error is the unguarded run's; a
/// guard's is kept in its part.
fn measure_once(row: &Row, parts: Vec<&mut Part<'_>>, cc: &str, index: u32, stop: &AtomicBool) -> Result<(), RowError> {
    let bare = || row.measure.measure(&row::Bench { kind: None, guard: None, cc, index, stop });
    let mut unguarded = if index % 2 == 1 { None } else { Some(bare()?) };
    let mut guarded = Vec::new();
    for part in parts {
        if stop.load(Ordering::Relaxed) {
            return Err(RowError::Stopped);
        }
        let bench = row::Bench { kind: part.config.map(|_| part.kind), guard: part.config, cc, index, stop };
        match row.measure.measure(&bench) {
            Ok(value) => guarded.push((part, value)),
            Err(RowError::Stopped) => return Err(RowError::Stopped),
            Err(error) => {
                part.impossible = matches!(error, RowError::Impossible(_));
                part.failed = Some(error.to_string());
            }
        }
    }
    if unguarded.is_none() {
        unguarded = Some(bare()?);
    }
    for (part, value) in guarded {
        part.values.extend(unguarded.map(|unguarded| (unguarded, value)));
    }
    Ok(())
}

impl Part<'_> {
    fn undecided(&self, row: &Row) -> bool {
        Comparison::of(row.unit, &self.values).is_none_or(|comparison| comparison.is_undecided())
    }

    fn report(self, row: &'static Row) -> RowReport {
        let comparison = Comparison::of(row.unit, &self.values);
        let verdict = match (&self.failed, &comparison) {
            (Some(_), _) if self.impossible || self.kind == Kind::None => Verdict::Skipped,
            (Some(_), _) | (None, None) => Verdict::Failed,
            (None, Some(comparison)) if !comparison.is_harm() => Verdict::Ok,
            _ if self.kind == Kind::None => Verdict::Noise,
            _ if self.kind.as_published() => Verdict::Published,
            _ => Verdict::Harm,
        };
        self.into_report(row, comparison, verdict)
    }

    fn skipped(mut self, row: &'static Row, reason: String) -> RowReport {
        self.failed = Some(reason);
        self.into_report(row, None, Verdict::Skipped)
    }

    fn into_report(self, row: &'static Row, comparison: Option<Comparison>, verdict: Verdict) -> RowReport {
        RowReport {
            row: row.name,
            what: row.what,
            unit: row.unit,
            guard: self.kind.name(),
            comparison,
            verdict,
            message: self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        assert!(rows().all(|row| seen.insert(row.name)));
    }

    #[test]
    fn unguarded_runs_that_differ_are_noise_and_no_harm() {
        let row = rows().next().expect("there are rows");
        let report = |kind| {
            let part = Part { kind, config: None, values: vec![(100.0, 80.0); 3], failed: None, impossible: false };
            part.report(row)
        };
        let rows = [Kind::None, Kind::Credit, Kind::Hwatch].map(report);
        assert_eq!(rows.each_ref().map(|row| row.verdict), [Verdict::Noise, Verdict::Harm, Verdict::Published]);
        let report = HarmReport { rows: rows.into(), busy_before: 0.0, machine: Machine::this() };
        assert_eq!(report.harmed().map(|row| row.guard).collect::<Vec<_>>(), ["credit"]);
    }

    #[test]
    fn a_congestion_control_that_the_kernel_does_not_offer_is_refused_with_those_that_it_does() {
        assert_eq!(offers("reno"), Ok(()), "every kernel has it");
        let refused = offers("renno").expect_err("no kernel has it");
        assert!(refused.contains("renno") && refused.contains("only ") && refused.contains("reno"), "{refused}");
    }

    #[test]
    fn rows_are_chosen_by_name_or_beginning() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
            choose(&names).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["md5"]), Ok(vec!["md5"]));
        assert_eq!(names(&["incast-64"]), Ok(vec!["incast-64"]), "not those that begin so");
        assert_eq!(names(&["forged"]).map(|rows| rows.len()), Ok(4));
        assert_eq!(names(&["slow", "md5"]), Ok(vec!["slow-reader", "md5"]));
        assert_eq!(names(&[]).map(|rows| rows.len()), Ok(rows().count()));
        assert!(names(&["md6"]).is_err_and(|error| error.contains("md6")));
    }
}
