//! `ackgate lab web`: nginx and an ordinary client, scheme by scheme.

use std::io::{self, Write};
use std::time::Duration;

use ackgate_lab::testbed;
use ackgate_lab::web::{WebConfig, WebReport, run_web};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use serde::Serialize;

use super::{Guarding, Network, RateArgument, guards};
use crate::exit::Refused;
use crate::load::progress_bar;
use crate::table::print_json;
use crate::units::{parse_bytes, parse_time};

/// Schemes that are settings of the senders, not guards.
const DCTCP: &str = ackgate_lab::dctcp::NAME;

/// Its arguments.
#[derive(Args)]
pub(crate) struct Web {
    /// Numbers of persistent connections.
    #[arg(long, short = 'n', value_delimiter = ',', default_values_t = [16, 64, 200])]
    connections: Vec<usize>,
    /// Bytes of each response.
    #[arg(long, value_name = "SIZE", default_value = "64KB", value_parser = parse_bytes)]
    bytes: u64,
    /// Measured rounds per run.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Runs per scheme. The schemes alternate; the table shows medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Schemes to compare: guards, or dctcp (at the servers, without a guard).
    #[arg(long, value_name = "SCHEME", value_parser = scheme(), value_delimiter = ',', default_value = "none,credit,pac,ictcp,hwatch,rto,m21,dctcp")]
    scheme: Vec<String>,
    /// Congestion control of the servers, except with scheme dctcp.
    #[arg(long, default_value = "cubic")]
    cc: String,
    /// Time limit of a run.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_time)]
    limit: Duration,
    #[command(flatten)]
    network: Network,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A guard of the lab, or DCTCP.
fn scheme() -> PossibleValuesParser {
    let dctcp = PossibleValue::new(DCTCP).help("No guard, but DCTCP at both ends and a port that marks");
    PossibleValuesParser::new(guards().chain(std::iter::once(dctcp)))
}

/// One scheme with one number of connections.
#[derive(Serialize)]
struct Cell {
    scheme: String,
    connections: usize,
    runs: Vec<WebReport>,
}

/// Runs and prints it.
pub(super) fn run(args: &Web) -> anyhow::Result<()> {
    if args.network.rate == RateArgument::Auto {
        return Err(Refused(anyhow::anyhow!(
            "`--rate auto` cannot be used here: give a fixed --rate, so that all schemes run at the same rate"
        ))
        .into());
    }
    testbed::require_privilege()?;
    let stop = crate::stop::on_signals()?;
    let pairs = || args.scheme.iter().flat_map(|scheme| args.connections.iter().map(move |count| (scheme, *count)));
    let mut cells: Vec<Cell> =
        pairs().map(|(scheme, connections)| Cell { scheme: scheme.clone(), connections, runs: Vec::new() }).collect();
    let bar = progress_bar(u64::from(args.runs) * cells.len() as u64, args.json);
    for _ in 0..args.runs {
        for cell in &mut cells {
            bar.set_message(format!("{}, {} connections", cell.scheme, cell.connections));
            match run_web(&args.config(&cell.scheme, cell.connections), &stop) {
                Ok(report) => cell.runs.push(report),
                Err(error) => return Err(error.into()),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if args.json { print_json(&cells) } else { Ok(io::stdout().lock().write_all(markdown(args, &cells).as_bytes())?) }
}

impl Web {
    fn config(&self, scheme: &str, connections: usize) -> WebConfig {
        let cc = if scheme == DCTCP { DCTCP } else { &self.cc };
        let spec = self.network.spec(Some(cc));
        let guard = if scheme == DCTCP { None } else { Guarding::plain(scheme).config() };
        let spec = match &guard {
            Some(guard) => guard.fit(spec),
            None => spec,
        };
        WebConfig { spec, connections, bytes: self.bytes, rounds: self.rounds, cc: cc.into(), limit: self.limit, guard }
    }
}

/// A Markdown table: a scheme in each row.
fn markdown(args: &Web, cells: &[Cell]) -> String {
    let mut text = String::from("| scheme |");
    for count in &args.connections {
        text += &format!(" {count}: Mb/s | p50 / p99 / p99.9, ms | drops / timeouts |");
    }
    text += &format!("\n|---|{}\n", "--:|--:|--:|".repeat(args.connections.len()));
    for scheme in &args.scheme {
        text += &format!("| `{scheme}` |");
        for cell in cells.iter().filter(|cell| cell.scheme == *scheme) {
            text += &figures(cell);
        }
        text.push('\n');
    }
    text
}

fn figures(cell: &Cell) -> String {
    let median = |of: &dyn Fn(&WebReport) -> f64| {
        ackgate_lab::load::report::median(&cell.runs.iter().map(of).collect::<Vec<_>>())
    };
    let missing: u32 = cell.runs.iter().map(|run| run.rounds_asked - run.rounds).sum();
    let asked: u32 = cell.runs.iter().map(|run| run.rounds_asked).sum();
    let mark = if missing > 0 { format!(" ({missing} of {asked} rounds not in time)") } else { String::new() };
    format!(
        " {:.0}{mark} | {:.0} / {:.0} / {:.0} | {:.0} / {:.0} |",
        median(&|run| run.goodput_mbps),
        median(&|run| run.answer_ms.p50),
        median(&|run| run.answer_ms.p99),
        median(&|run| run.answer_ms.p999),
        median(&|run| run.switch_drops as f64),
        median(&|run| run.rto_timeouts as f64)
    )
}
