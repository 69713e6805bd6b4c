//! `ackgate sim`: runs a scenario, or many of them, in the simulator. Needs no privilege.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ackgate_sim::observer::Nobody;
use ackgate_sim::output::flows::Flows;
use ackgate_sim::output::pcap::{Capture, Where};
use ackgate_sim::output::series::Series;
use ackgate_sim::output::{flat, run as output};
use ackgate_sim::report::Report;
use ackgate_sim::scenario::{Assignment, Document, Scenario, schema};
use ackgate_sim::sweep::{self, Output, Plan, Shard, SweepError, Vary};
use anyhow::Context;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Refused;
use crate::table::print_json;

/// What to simulate.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one scenario and show what came of it.
    Run(Run),
    /// Run every combination of varied keys, in parallel, one CSV row each.
    Sweep(Sweep),
    /// List the keys that a scenario may have, what each takes, and in what range.
    Keys,
}

/// Which scenario, and what to change in it.
#[derive(Args)]
struct Source {
    /// The scenario's file; scenarios/ has examples.
    scenario: PathBuf,
    /// Change a key, such as senders=64 or tcp.rto_min=10ms; `ackgate sim keys` lists them.
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
    /// Write a capture that Wireshark opens (pcapng).
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Where to capture: receiver, bottleneck, all, or the name of an interface.
    #[arg(long, value_name = "WHERE", default_value = "receiver", requires = "pcap")]
    pcap_at: String,
    /// Bytes to keep of each captured frame; 96 keeps all headers.
    #[arg(long, value_name = "BYTES", default_value_t = 65_535, requires = "pcap", value_parser = clap::value_parser!(u32).range(14..=65_535))]
    pcap_snap: u32,
    /// Draw the course of the run: queue, delivery, bytes in flight, held ACKs (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the course of the run as numbers (CSV).
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write each flow: when it began, whose it was, its size, how long it took (CSV).
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    source: Source,
    /// Vary a key: values with commas between, 4..256 (doubling), 10..100:10 (in steps). The first varies slowest.
    #[arg(long, value_name = "KEY=LIST", required = true)]
    vary: Vec<String>,
    /// Run each combination with so many seeds, counted up from the scenario's.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u32,
    /// Keep the rows in this file (CSV). Rows that it has already are not run again.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Run only part K of N. Parts put end to end, in order, are the whole sweep.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    shard: String,
    /// Threads to run on; 0 for one on each core.
    #[arg(long, visible_alias = "jobs", value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Add the wall-clock time of each run to the rows: the one figure that differs between equal sweeps.
    #[arg(long)]
    wall: bool,
    /// Print the rows as CSV instead of a table.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print the rows as a JSON array instead, each as `sim run --json` prints one.
    #[arg(long)]
    json: bool,
    /// Draw goodput and timeouts over the first varied key that is a quantity (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => run_one(&args),
        Command::Sweep(args) => run_many(&args),
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
    let scenario = args.source.document()?.scenario()?;
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
        _ => observed(args, &scenario)?,
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
fn observed(args: &Run, scenario: &Scenario) -> anyhow::Result<Report> {
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
        save(path, &flows.csv())?;
    }
    if let Some(series) = observer.1.0 {
        if let Some(path) = &args.plot {
            save(path, &output::plot(scenario, &report, &series))?;
        }
        if let Some(path) = &args.series {
            save(path, &series.csv())?;
        }
    }
    Ok(report)
}

fn run_many(args: &Sweep) -> anyhow::Result<()> {
    let document = args.source.document()?;
    let vary = args.vary.iter().map(|text| Vary::parse(text)).collect::<Result<Vec<_>, SweepError>>()?;
    let shard = Shard::parse(&args.shard)?;
    let plan = Plan::new(&document, &vary, args.seeds)?;
    let points = plan.shard(shard);
    // Before the runs, which may be long.
    if let Some(path) = &args.plot {
        let part = if shard.n > 1 {
            format!("; part {} alone has none to draw: leave --plot out", args.shard)
        } else {
            String::new()
        };
        sweep::check_plot(&plan, points).map_err(|problem| SweepError::Usage(format!("--plot: {problem}{part}")))?;
        writable(path)?;
    }
    warn(points.iter().flat_map(|point| point.scenario.warnings()));
    let mut rows = Output::new(&plan, points, shard.k == 1, args.wall);
    if let Some(path) = &args.out {
        rows = rows.keep_in(path)?;
    }

    let bar = progress(points, &rows);
    sweep::run(
        points,
        &mut rows,
        args.threads,
        |point| {
            let report = ackgate_sim::run(&point.scenario, &mut Nobody);
            report.with_context(|| format!("{} with {}", args.source.name(), point.values.join(" ")))
        },
        |point, _| bar.inc(share(point.work())),
    )?;
    bar.finish_and_clear();

    if let Some(path) = &args.plot {
        save(path, &sweep::plot(&args.source.name(), &plan, points, &rows).map_err(SweepError::Usage)?)?;
    }
    if args.json {
        return print_json(&rows.json());
    }
    if args.csv { print(&rows.csv()) } else { print(&sweep::summary(&plan, points, &rows)) }
}

/// Says once each on standard error what is asking for trouble.
fn warn(warnings: impl IntoIterator<Item = String>) {
    for warning in warnings.into_iter().collect::<BTreeSet<_>>() {
        eprintln!("warning: {warning}");
    }
}

/// A bar on standard error, measured in traffic so that long points count for more; hidden when that is no terminal.
fn progress(points: &[sweep::Point], rows: &Output) -> ProgressBar {
    let total: u64 = points.iter().map(|point| share(point.work())).sum();
    let kept: u64 = points.iter().filter(|point| rows.has(point)).map(|point| share(point.work())).sum();
    let bar = ProgressBar::new(total).with_message(format!("{} points", points.len()));
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(kept);
    bar
}

/// A point's work in the bar's unit: kilobytes, of which a sweep cannot have too many to count.
fn share(work: u128) -> u64 {
    u64::try_from(work / 1_000).unwrap_or(u64::MAX >> 20)
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
    let opened = File::options().create(true).append(true).open(path);
    opened.map(|_| ()).with_context(|| format!("{} cannot be written", path.display()))
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn print(text: &str) -> anyhow::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
