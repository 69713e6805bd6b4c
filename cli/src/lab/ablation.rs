//! `ackgate lab ablation`: the table of guards and factors.

use std::io::{self, Write};
use std::time::Duration;

use ackgate_lab::ablation::{AblationConfig, AblationReport, Cell, SCHEMES, run_ablation};
use clap::Args;

use super::{Network, RateArgument};
use crate::exit::Refused;
use crate::load::progress_bar;
use crate::table::print_json;
use crate::units::parse_time;

/// Its arguments.
#[derive(Args)]
pub(crate) struct Ablation {
    /// Numbers of connections; each point runs with each number.
    #[arg(long, short = 'n', value_delimiter = ',', default_values_t = [64, 200])]
    connections: Vec<usize>,
    /// Measured rounds of each run.
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Time limit of a run.
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = parse_time)]
    limit: Duration,
    /// Only these points: base, fresh, push, reno, bbr, dctcp, iw2, 16KB, 256KB, 1MB.
    #[arg(long, value_delimiter = ',', value_name = "POINT")]
    only: Vec<String>,
    #[command(flatten)]
    network: Network,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs and prints it.
pub(super) fn run(args: &Ablation) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    if args.network.rate == RateArgument::Auto {
        return Err(Refused(anyhow::anyhow!(
            "`--rate auto` cannot be used here: give a fixed --rate, so that all points run at the same rate"
        ))
        .into());
    }
    let config = AblationConfig {
        spec: args.network.spec(None),
        connections: args.connections.clone(),
        rounds: args.rounds,
        limit: args.limit,
        only: args.only.clone(),
    };
    let runs = config.points()?.len() * config.connections.len() * SCHEMES.len();
    let bar = progress_bar(runs as u64, args.json);
    let report = run_ablation(&config, &stop, |point, connections, guard| {
        bar.set_message(format!("{point}, {connections} connections, {guard}"));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json { print_json(&report) } else { Ok(io::stdout().lock().write_all(markdown(&report).as_bytes())?) }
}

/// A Markdown table, and what its cells say.
fn markdown(report: &AblationReport) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut head = vec!["point".to_owned(), "connections".into(), "ceiling, Mb/s".into()];
    head.extend(report.guards.iter().map(ToString::to_string));
    let mut text = line(&head) + &line(&vec!["---".into(); head.len()]);
    for row in &report.rows {
        let mut cells = vec![row.point.to_owned(), row.connections.to_string(), format!("{:.0}", row.ceiling_mbps)];
        cells.extend(row.cells.iter().map(cell));
        text += &line(&cells);
    }
    text + &format!(
        "\nCells: goodput as a share of the un-congested ceiling; rounds with an RTO of those complete in time ({} asked); RTOs; \
         drops at the switch.\nPort {} Mb/s, {} bytes. The base point: kept connections, pulled, CUBIC, initial window 10, 64 KB each. {}, \
         {} processors.\n",
        report.rounds_asked, report.rate_mbps, report.buffer, report.machine.kernel, report.machine.cpus
    )
}

fn cell(cell: &Cell) -> String {
    if cell.rounds == 0 {
        return "no round in time".into();
    }
    format!(
        "{:.2}; {}/{}; {}; {}",
        cell.goodput, cell.rounds_with_timeout, cell.rounds, cell.rto_timeouts, cell.switch_drops
    )
}
