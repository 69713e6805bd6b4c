//! What a run gives, in the columns that the simulator has for the same.

use ackgate_papers::headlines::figures::Row;
use ackgate_papers::kernel::Point;
use ackgate_papers::kernel::experiment::SEEDS;

use crate::incast::IncastReport;
use crate::load::report::Round;
use crate::sockets::Samples;
use crate::web::PagesReport;

/// The rounds of a run as rows, at the paper's rate: one row where the point is run anew several times, else one for each
/// stretch of rounds. `samples` are those of the round-trip time after each round, and before the first.
/// `beside` is the goodput of a long flow meanwhile, in megabits per second.
pub(super) fn of_rounds(point: &Point, report: &IncastReport, samples: &[Samples], beside: Option<f64>) -> Vec<Row> {
    let rounds = &report.load.per_round;
    let stretches = if point.runs > 1 { 1 } else { SEEDS.min(rounds.len()) };
    let bytes = report.load.bytes as f64 / rounds.len().max(1) as f64;
    (0..stretches)
        .map(|i| {
            let (from, to) = (i * rounds.len() / stretches, (i + 1) * rounds.len() / stretches);
            let mut row = stretch(&rounds[from..to], bytes, report.connections);
            if let (Some(before), Some(after)) = (samples.get(from), samples.get(to)) {
                round_trips(&mut row, &after.since(before));
            }
            if let Some(held) = report.held_max {
                row.insert("held_max".into(), held as f64);
            }
            // Rounds that the time was not enough for, and frames that this machine lost, stand on the page.
            row.insert("rounds_missing".into(), f64::from(report.rounds_asked - report.rounds));
            row.insert("backlog_drops".into(), report.backlog_drops as f64);
            row.extend(beside.map(|mbps| ("background_goodput_mbps".to_owned(), mbps)));
            // Bytes cost the processors what they cost; at the paper's rate there are more of them in the same time.
            let share = report.not_idle_s / (report.wall_s * report.machine.cpus as f64);
            row.insert("cpu_points".into(), 100.0 * share * point.motion.factor());
            point.motion.restore(row)
        })
        .collect()
}

/// A run with web pages among long flows.
pub(super) fn of_pages(point: &Point, report: &PagesReport) -> Row {
    let bursts = report.burst_ms.iter().enumerate();
    let mut row: Row = bursts.map(|(i, ms)| (format!("epoch{}_ms", i + 1), *ms)).collect();
    row.insert("flow_ms_mean".into(), report.burst_ms.iter().sum::<f64>() / report.burst_ms.len() as f64);
    row.insert("background_goodput_mbps".into(), report.long_mbps);
    point.motion.restore(row)
}

fn stretch(rounds: &[Round], bytes: f64, connections: usize) -> Row {
    let count = rounds.len() as f64;
    let sum = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
    let ms = sum(&|round| round.ms);
    let mbps = |bytes: f64, ms: f64| bytes * 8.0 / ms / 1e3;
    let columns = [
        ("rounds", count),
        ("rounds_with_timeout", sum(&|round| f64::from(u8::from(round.senders.rto_timeouts > 0)))),
        ("rto_timeouts", sum(&|round| round.senders.rto_timeouts as f64)),
        ("spurious_timeouts", sum(&|round| round.senders.spurious_rtos as f64)),
        ("goodput_mbps", mbps(bytes * count, ms)),
        ("round_goodput_mbps", sum(&|round| mbps(bytes, round.ms)) / count),
        ("round_ms_mean", ms / count),
        ("round_ms_per_sender", ms / count / connections as f64),
    ];
    columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn round_trips(row: &mut Row, samples: &Samples) {
    let columns = [
        ("rtt_us_p50", samples.quantile(0.5)),
        ("rtt_us_p99", samples.quantile(0.99)),
        ("rtt_us_p999", samples.quantile(0.999)),
        ("rtt_us_mean", samples.mean()),
    ];
    row.extend(columns.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
}
