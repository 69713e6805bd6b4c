//! `ackgate lab pairs`: what a guard costs.

use ackgate_lab::load::report::median;
use ackgate_lab::pairs::{Ratio, Side, run_pairs};
use clap::Args;

use super::Measurement;
use crate::load::progress_bar;
use crate::table::{Facts, print_json};

#[derive(Args)]
pub(crate) struct Pairs {
    #[command(flatten)]
    measurement: Measurement,
    /// Pairs of runs.
    #[arg(long, default_value_t = 16)]
    pairs: u32,
}

/// Runs and prints them.
pub(super) fn run(args: &Pairs) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let config = args.measurement.config();
    let json = args.measurement.json;
    let bar = progress_bar(u64::from(args.pairs), json);
    let mut lab = args.measurement.lab(&stop)?;
    let report = run_pairs(&mut lab, &config, args.pairs, &stop, |_| bar.inc(1));
    bar.finish_and_clear();
    let report = report?;
    if json {
        return print_json(&report);
    }
    let spread = |ratio: Ratio| {
        format!("{:.4} (quartiles {:.4} and {:.4})", ratio.median, ratio.lower_quartile, ratio.upper_quartile)
    };
    let both = |of: fn(&Side) -> f64| {
        let middle = |sides: Vec<f64>| median(&sides);
        let unguarded = middle(report.pairs.iter().map(|p| of(&p.unguarded)).collect());
        let guarded = middle(report.pairs.iter().map(|p| of(&p.guarded)).collect());
        format!("{unguarded:.2} unguarded, {guarded:.2} guarded (medians)")
    };
    let mut facts = Facts::default();
    facts
        .add("connections", format!("{}, {} bytes each, {} rounds", report.connections, report.bytes, report.rounds))
        .add("switch port", format!("{} Mb/s", report.rate_mbps))
        .add("goodput, Mb/s", both(|side| side.goodput_mbps))
        .add("CPU, s per GB", both(|side| side.cpu_s_per_gb))
        .add("goodput ratio", spread(report.goodput_ratio))
        .add("CPU ratio", spread(report.cpu_ratio));
    if let Some(programs) = &report.programs {
        let (ingress, egress) = (programs.ingress_ns, programs.egress_ns);
        facts.add("BPF, ns per packet", format!("{ingress} in, {egress} out"));
    }
    if let Some(message) = &report.message {
        facts.add("note", message.clone());
    }
    Ok(facts.print()?)
}
