//! `ackgate sim sweep`: every combination of varied keys, in this process or cut into tasks for an engine.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ackgate_sim::observer::Nobody;
use ackgate_sim::output::provenance::Provenance;
use ackgate_sim::output::{parquet, whole};
use ackgate_sim::sweep::folder::Folder;
use ackgate_sim::sweep::{self, Grid, Output, Plan, Point, Shard, SweepError, Vary};
use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Source, save, writable};
use crate::BUILD;
use crate::engine::{self, Either, Engine, Submit};
use crate::table::{print, print_json};

/// A new sweep, or what to do with one that was cut into tasks.
pub(crate) type Sweep = Either<New, Collect>;

/// A sweep to be run.
#[derive(Args)]
pub(crate) struct New {
    #[command(flatten)]
    source: Source,
    /// Vary a parameter over a list (1,2,4), a doubling range (4..256) or a stepped range (10..100:10). May be repeated;
    /// the first one varies slowest.
    #[arg(long, value_name = "KEY=LIST", required = true)]
    vary: Vec<String>,
    /// Number of seeds per combination, counted up from the scenario's seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u32,
    /// Write the rows to this file: CSV, or Parquet if the name ends in .parquet. Rows that a CSV file already contains
    /// are not run again.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Run only part K of N. The outputs of all parts, concatenated in order, equal that of the whole sweep.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    shard: String,
    /// Number of threads; 0: one per core.
    #[arg(long, visible_alias = "jobs", value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Add a column with the wall-clock time of each run. All other columns are identical when a sweep is repeated.
    #[arg(long)]
    wall: bool,
    #[command(flatten)]
    show: Show,
    /// Do not run the sweep in this process: split it into tasks for a cluster and submit them.
    #[arg(long, value_name = "ENGINE", requires = "dir", conflicts_with_all = ["out", "shard", "wall", "csv", "json", "plot"])]
    on: Option<Engine>,
    #[command(flatten)]
    submit: Submit,
}

/// How the rows are shown.
#[derive(Args)]
pub(crate) struct Show {
    /// Print the rows as CSV instead of a table.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print the rows as a JSON array of the objects that `sim run --json` prints.
    #[arg(long)]
    json: bool,
    /// Plot goodput and timeouts over the first varied parameter that is numeric (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Collect {
    /// Folder of the tasks (--dir when they were submitted).
    dir: PathBuf,
    /// Write the rows to this file and replace it atomically: CSV, or Parquet if the name ends in .parquet.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    show: Show,
}

pub(super) fn run(sweep: &Sweep) -> anyhow::Result<()> {
    match sweep {
        Sweep::Known(command) => engine::run(command, collect),
        Sweep::New(new) => new.run(),
    }
}

fn collect(args: &Collect) -> anyhow::Result<()> {
    let folder = Folder::open(&args.dir, BUILD)?;
    let (grid, plan, rows) = folder.collect()?;
    if let Some(path) = &args.out {
        if parquet::is_meant(path) {
            save_parquet(path, &grid, &rows, String::new())?;
        } else {
            whole::write(path, |file| file.write_all(rows.csv().as_bytes()))
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    args.show.show(folder.name(), &plan, &plan.points, &rows)
}

impl New {
    fn run(&self) -> anyhow::Result<()> {
        let document = self.source.document()?;
        let vary = self.vary.iter().map(|text| Vary::parse(text)).collect::<Result<Vec<_>, SweepError>>()?;
        let grid = Grid::new(&document, &vary, self.seeds)?;
        let Some(engine) = self.on else { return self.run_here(&grid) };
        let points = Plan::of(&grid)?.points;
        self.submit.begin(engine, (&self.source.name(), &grid, &points), 0, self.threads)
    }

    fn run_here(&self, grid: &Grid) -> anyhow::Result<()> {
        let shard = Shard::parse(&self.shard)?;
        let plan = Plan::of(grid)?;
        let points = plan.shard(shard);
        super::warn(points.iter().flat_map(|point| point.scenario.warnings()));
        // Before the runs, which may be long.
        if let Some(path) = &self.show.plot {
            let part = if shard.n > 1 {
                format!("; part {} alone cannot be plotted: omit --plot", self.shard)
            } else {
                String::new()
            };
            sweep::check_plot(&plan, points)
                .map_err(|problem| SweepError::Usage(format!("--plot: {problem}{part}")))?;
            writable(path)?;
        }
        let mut rows = Output::new(&plan, points, shard.k == 1, self.wall);
        let files = self.out.as_deref().map(Files::of).transpose()?;
        if let Some(files) = &files {
            rows = rows.keep_in(&files.rows)?;
        }

        let bar = progress(points, &rows);
        sweep::run(
            points,
            &mut rows,
            self.threads,
            |point| {
                let report = ackgate_sim::run(&point.scenario, &mut Nobody);
                report.with_context(|| format!("{} with {}", self.source.name(), point.values.join(" ")))
            },
            |point, _| bar.inc(share(point.work())),
        )?;
        bar.finish_and_clear();

        if let Some(path) = files.as_ref().and_then(|files| files.parquet.as_deref()) {
            let shard = if shard == Shard::WHOLE { String::new() } else { self.shard.clone() };
            save_parquet(path, grid, &rows, shard)?;
            files.as_ref().map_or(Ok(()), |files| fs::remove_file(&files.rows))?;
        }
        self.show.show(&self.source.name(), &plan, points, &rows)
    }
}

/// Where rows are kept while a sweep runs, and in the end.
struct Files {
    /// The CSV file that rows are appended to.
    rows: PathBuf,
    /// The Parquet file that is made of it, if that is meant.
    parquet: Option<PathBuf>,
}

impl Files {
    /// A Parquet file cannot be appended to: its rows stand beside it until all are there.
    fn of(out: &Path) -> Result<Self, SweepError> {
        if !parquet::is_meant(out) {
            return Ok(Self { rows: out.into(), parquet: None });
        }
        if out.exists() {
            let problem = format!("--out {}: exists already; remove it, or choose another name", out.display());
            return Err(SweepError::Usage(problem));
        }
        let mut rows = OsString::from(out);
        rows.push(".rows");
        Ok(Self { rows: rows.into(), parquet: Some(out.into()) })
    }
}

/// Writes the rows of a sweep as a Parquet file.
fn save_parquet(path: &Path, grid: &Grid, rows: &Output, shard: String) -> anyhow::Result<()> {
    let provenance = Provenance { shard, ..Provenance::new(BUILD, grid.document(), grid.vary(), grid.seeds())? };
    parquet::write(path, [rows.frame()], &provenance).with_context(|| format!("{} cannot be written", path.display()))
}

impl Show {
    /// Draws and prints what is asked for.
    fn show(&self, name: &str, plan: &Plan, points: &[Point], rows: &Output) -> anyhow::Result<()> {
        if let Some(path) = &self.plot {
            save(path, &sweep::plot(name, plan, points, rows).map_err(SweepError::Usage)?)?;
        }
        if self.json {
            return print_json(&rows.json());
        }
        if self.csv { print(&rows.csv()) } else { print(&sweep::summary(plan, points, rows)) }
    }
}

/// A bar on standard error, measured in traffic so that long points count for more; hidden when that is no terminal.
fn progress(points: &[Point], rows: &Output) -> ProgressBar {
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
