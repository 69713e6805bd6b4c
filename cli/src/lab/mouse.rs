//! `ackgate lab mouse`: small requests beside bulk, guard by guard.

use std::io::{self, Write};
use std::time::Duration;

use ackgate_lab::incast::{IncastConfig, Lab};
use ackgate_lab::load::pull::{Start, Volume};
use ackgate_lab::mouse::{MouseReport, run_mouse};
use ackgate_sim::output::table::{figure, table};
use clap::Args;

use super::{Guarding, Network, guard};
use crate::load::progress_bar;
use crate::table::print_json;
use crate::units::{parse_bytes, parse_time};

/// Its arguments.
#[derive(Args)]
pub(crate) struct Mouse {
    /// Number of bulk connections.
    #[arg(long, short = 'n', default_value_t = 100)]
    connections: usize,
    /// Bytes per bulk connection and round.
    #[arg(long, value_name = "SIZE", default_value = "256KB", value_parser = parse_bytes)]
    bytes: u64,
    /// Bytes of each response to a small request.
    #[arg(long, value_name = "SIZE", default_value = "1KB", value_parser = parse_bytes)]
    answer: u64,
    /// Congestion control of all senders.
    #[arg(long, default_value = "cubic")]
    cc: String,
    /// Guards to compare.
    #[arg(long, value_name = "GUARD", value_parser = guard(), value_delimiter = ',', default_value = "none,pac,credit")]
    guard: Vec<String>,
    /// Duration of each run.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: Duration,
    #[command(flatten)]
    network: Network,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs and prints it.
pub(super) fn run(args: &Mouse) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let bar = progress_bar(args.guard.len() as u64, args.json);
    let mut lab = Lab::new(args.network.spec(Some(&args.cc)))?;
    args.network.settle(&mut lab, false, &stop)?;
    let mut reports = Vec::new();
    for guard in &args.guard {
        let bulk = IncastConfig {
            connections: args.connections,
            volume: Volume::PerConnection(args.bytes),
            rounds: 1,
            warmup: 1,
            cc: Some(args.cc.clone()),
            mss: None,
            start: Start::Pull,
            fresh: false,
            ipv6: false,
            deadline: args.time,
            guard: Guarding::plain(guard).config(),
        };
        reports.push(run_mouse(&lab, &bulk, args.answer, &stop)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json { print_json(&reports) } else { Ok(io::stdout().lock().write_all(text(&reports).as_bytes())?) }
}

fn text(reports: &[MouseReport]) -> String {
    const HEAD: [&str; 8] =
        ["guard", "answers", "p50, ms", "p99, ms", "max, ms", "its timeouts", "bulk, Mb/s", "all timeouts"];
    let row = |report: &MouseReport| {
        vec![
            report.guard.clone(),
            report.requests.to_string(),
            figure(report.answer_ms.p50),
            figure(report.answer_ms.p99),
            figure(report.answer_ms.max),
            report.timeouts.to_string(),
            figure(report.bulk_goodput_mbps),
            report.rto_timeouts.to_string(),
        ]
    };
    table(&HEAD.map(str::to_owned), &reports.iter().map(row).collect::<Vec<_>>())
}
