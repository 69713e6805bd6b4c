//! `ackgate sim`: runs a scenario, or many of them, in the simulator. Needs no privilege.

mod sweep;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use ackgate_sim::observer::Nobody;
use ackgate_sim::output::flows::Flows;
use ackgate_sim::output::frame::Frame;
use ackgate_sim::output::pcap::{Capture, Where};
use ackgate_sim::output::provenance::Provenance;
use ackgate_sim::output::series::Series;
use ackgate_sim::output::{flat, parquet, run as output};
use ackgate_sim::report::Report;
use ackgate_sim::scenario::{Assignment, Document, Scenario, schema};
use anyhow::Context;
use clap::{Args, Subcommand};

use crate::BUILD;
use crate::exit::Refused;
use crate::table::{print, print_json};

/// What to simulate.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one scenario and print its results.
    Run(Run),
    /// Run all combinations of the varied parameters in parallel; one row each.
    Sweep(sweep::Sweep),
    /// List all parameters (keys) of a scenario with their type and range.
    Keys,
}

/// Flows in one row group of a Parquet file: some megabytes.
const ROW_GROUP: usize = 1 << 18;

/// Which scenario, and what to change in it.
#[derive(Args)]
struct Source {
    /// Scenario file (TOML); examples are in scenarios/.
    scenario: PathBuf,
    /// Set a parameter, such as senders=64 or tcp.rto_min=10ms; `ackgate sim keys` lists them. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    source: Source,
    /// Print one JSON object instead of a table.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print a CSV header and row instead of a table.
    #[arg(long)]
    csv: bool,
    /// Write a packet capture in pcapng format, for Wireshark.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Capture point: receiver, bottleneck, all, or the name of an interface.
    #[arg(long, value_name = "WHERE", default_value = "receiver", requires = "pcap")]
    pcap_at: String,
    /// Snapshot length: bytes to keep of each captured frame; 96 keeps all headers.
    #[arg(long, value_name = "BYTES", default_value_t = 65_535, requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=65_535))]
    pcap_snap: u32,
    /// Plot queue, goodput, bytes in flight and held ACKs over time (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the same time series as CSV, or as Parquet if the name ends in .parquet.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write one row per flow: start time, connection, size, completion time (CSV, or Parquet if the name ends in .parquet).
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => run_one(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Keys => keys(),
    }
}

impl Source {
    fn document(&self) -> anyhow::Result<Document> {
        let mut document = Document::read(&self.scenario)?;
        for change in &self.changes {
            document.set(&Assignment::parse("--set", change)?)?;
        }
        Ok(document)
    }

    /// The file's name without folder and ending.
    fn name(&self) -> String {
        self.scenario.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn run_one(args: &Run) -> anyhow::Result<()> {
    let document = args.source.document()?;
    let scenario = document.scenario()?;
    // The table has them itself.
    if args.json || args.csv {
        warn(scenario.warnings());
    }
    if args.pcap.is_some() {
        let interfaces = ackgate_sim::net::Plan::new(&scenario.resolved()).interfaces;
        let known = Where::parse(&args.pcap_at).check(&interfaces);
        known.map_err(|problem| Refused(anyhow::anyhow!("--pcap-at {}: {problem}", args.pcap_at)))?;
    }
    // Before the run, which may be long.
    for path in [&args.pcap, &args.plot, &args.series, &args.flows].into_iter().flatten() {
        writable(path)?;
    }
    let report = match (&args.pcap, &args.plot, &args.series, &args.flows) {
        (None, None, None, None) => ackgate_sim::run(&scenario, &mut Nobody)?,
        _ => observed(args, &document, &scenario)?,
    };
    if args.json {
        return print_json(&flat::json(&report));
    }
    let text = if args.csv {
        let (names, values): (Vec<String>, Vec<String>) = flat::columns(&report).into_iter().unzip();
        format!("{}\n{}\n", names.join(","), values.join(","))
    } else {
        output::summary(&report)
    };
    print(&text)
}

/// Runs with a capture, a recording of the course, or both.
fn observed(args: &Run, document: &Document, scenario: &Scenario) -> anyhow::Result<Report> {
    let capture = match &args.pcap {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
            let snap = usize::try_from(args.pcap_snap)?;
            Some(Capture::new(BufWriter::with_capacity(1 << 18, file), Where::parse(&args.pcap_at), snap))
        }
        None => None,
    };
    let series = (args.plot.is_some() || args.series.is_some()).then(Series::new);
    let flows = args.flows.as_ref().map(|_| Flows::default());
    let mut observer = (capture, (series, flows));
    let report = ackgate_sim::run(scenario, &mut observer)?;
    if let (Some(capture), Some(path)) = (observer.0, &args.pcap) {
        capture.finish().with_context(|| format!("{} cannot be captured", path.display()))?;
    }
    if let (Some(flows), Some(path)) = (observer.1.1, &args.flows) {
        save_table(path, document, || flows.csv(), || flows.frames(ROW_GROUP))?;
    }
    if let Some(series) = observer.1.0 {
        if let Some(path) = &args.plot {
            save(path, &output::plot(scenario, &report, &series))?;
        }
        if let Some(path) = &args.series {
            save_table(path, document, || series.csv(), || [series.frame()])?;
        }
    }
    Ok(report)
}

/// Says once each on standard error what is asking for trouble.
fn warn(warnings: impl IntoIterator<Item = String>) {
    for warning in warnings.into_iter().collect::<BTreeSet<_>>() {
        eprintln!("warning: {warning}");
    }
}

fn keys() -> anyhow::Result<()> {
    // What it takes comes last: a list of names may be long.
    let head = ["key", "only with", "range", "takes"].map(str::to_owned);
    let rows: Vec<Vec<String>> = schema::keys()
        .into_iter()
        .map(|key| {
            vec![
                key.path,
                key.kind.map_or_else(String::new, |kind| format!("kind = \"{kind}\"")),
                key.range.unwrap_or_default(),
                key.takes,
            ]
        })
        .collect();
    print(&ackgate_sim::output::table::table(&head, &rows))
}

/// Whether a file can be written, without touching what is in it. Pipes are not tried: their readers would see an end.
fn writable(path: &Path) -> anyhow::Result<()> {
    if fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir()) {
        return Ok(());
    }
    let known = path.exists();
    let opened = File::options().create(true).append(true).open(path);
    // A Parquet file is whole or not there.
    let opened = opened.and_then(|_| if known || !parquet::is_meant(path) { Ok(()) } else { fs::remove_file(path) });
    opened.with_context(|| format!("{} cannot be written", path.display()))
}

/// Writes a table of a run as its name asks for.
fn save_table<F: IntoIterator<Item = Frame>>(
    path: &Path,
    document: &Document,
    csv: impl FnOnce() -> String,
    frames: impl FnOnce() -> F,
) -> anyhow::Result<()> {
    if !parquet::is_meant(path) {
        return save(path, &csv());
    }
    let provenance = Provenance::new(BUILD, document, &[], 1)?;
    parquet::write(path, frames(), &provenance).with_context(|| format!("{} cannot be written", path.display()))
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
