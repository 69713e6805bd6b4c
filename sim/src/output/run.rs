//! One run for people: its figures as a table, its course as a plot.

use super::chart::{self, Axis, Chart, Scale, Style};
use super::series::{Count, Level, Series};
use super::table::{figure, table};
use crate::report::{GroupReport, Quantiles, Report};
use crate::scenario::{Capacity, Scenario, Scheme};

/// Points of a curve at most: more than a screen shows.
const MAX_POINTS: usize = 720;

/// The figures of a run, grouped.
#[must_use]
pub fn summary(report: &Report) -> String {
    let whole = |count: u64| {
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let count = count as f64;
        figure(count)
    };
    let spread =
        |times: &Quantiles| format!("p50 {}  p99 {}  max {}", figure(times.p50), figure(times.p99), figure(times.max));
    let mut rows: Vec<(&str, String)> = vec![
        ("senders, scheme, seed", format!("{}, {}, {}", report.senders, report.scheme, report.seed)),
        (
            "goodput",
            format!(
                "{} Mb/s (throughput {}, link use {:.1} %)",
                figure(report.goodput_mbps),
                figure(report.throughput_mbps),
                report.link_use * 100.0
            ),
        ),
        ("timeouts", timeouts(report)),
        ("retransmits", format!("{} ({} fast)", whole(report.retransmits), whole(report.fast_retransmits))),
        ("drops, marks", format!("{}, {}", whole(report.drops), whole(report.marks))),
        ("queue, bytes", format!("mean {}  max {}", figure(report.queue_bytes.mean), whole(report.queue_bytes.max))),
        ("RTT, us", spread(&report.rtt_us)),
        ("fairness", format!("{:.3}", report.fairness)),
    ];
    // Not every workload has rounds, or flows that end.
    if report.rounds > 0 {
        let rounds = format!("{}, of which {} with a timeout", report.rounds, report.rounds_with_timeout);
        rows.insert(2, ("rounds", rounds));
        rows.insert(3, ("round, ms", spread(&report.round_ms)));
    }
    if report.flow_ms.max > 0.0 {
        let after = rows.iter().position(|row| row.0 == "timeouts").unwrap_or(rows.len());
        rows.insert(after, ("flow, ms", spread(&report.flow_ms)));
    }
    if report.background_goodput_mbps > 0.0 {
        rows.push(("background", format!("{} Mb/s", figure(report.background_goodput_mbps))));
    }
    if report.held_max > 0 {
        rows.push(("held", format!("at most {}; us: {}", whole(report.held_max), spread(&report.hold_us))));
    }
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let speed = report.packets_delivered as f64 / report.wall_s.max(1e-9);
    rows.push((
        "simulated",
        format!(
            "{} s, {} data packets, {} events, in {:.3} s ({} packets/s)",
            figure(report.simulated_s),
            whole(report.packets_delivered),
            whole(report.events),
            report.wall_s,
            figure(speed)
        ),
    ));
    if !report.complete {
        rows.push(("INCOMPLETE", "the time limit ended the run before all traffic was through".into()));
    }
    rows.extend(report.warnings.iter().map(|warning| ("WARNING", warning.clone())));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let mut text = table(&["figure".into(), "value".into()], &rows);
    if !report.groups.is_empty() {
        text.push('\n');
        text.push_str(&groups(&report.groups));
    }
    text
}

fn timeouts(report: &Report) -> String {
    let Report { rto_timeouts, spurious_timeouts, spurious_while_held, .. } = report;
    let held = match spurious_while_held {
        0 => String::new(),
        held => format!(", {held} of these while the scheme held a packet of the connection"),
    };
    format!("{rto_timeouts} ({spurious_timeouts} spurious{held})")
}

/// A line for each group of senders, and one for all together.
fn groups(groups: &[GroupReport]) -> String {
    let head = [
        "group",
        "senders",
        "Mb/s",
        "flows",
        "FCT ms p50",
        "p99",
        "p99.9",
        "max",
        "timeouts",
        "spurious",
        "while held",
    ];
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(groups.len() + 1);
    for group in groups {
        let GroupReport { name, senders, goodput_mbps, flows, flow_ms, .. } = group;
        let times = [flow_ms.p50, flow_ms.p99, flow_ms.p999, flow_ms.max];
        let times = times.map(|time| if *flows == 0 { "-".to_owned() } else { figure(time) });
        let counts = [group.rto_timeouts, group.spurious_timeouts, group.spurious_while_held];
        let mut row = vec![name.clone(), senders.to_string(), figure(*goodput_mbps), flows.to_string()];
        row.extend(times);
        row.extend(counts.map(|count| count.to_string()));
        rows.push(row);
    }
    let sum = |of: fn(&GroupReport) -> u64| groups.iter().map(of).sum::<u64>().to_string();
    let goodput: f64 = groups.iter().map(|group| group.goodput_mbps).sum();
    let mut all = vec!["all".to_owned(), sum(|group| group.senders.into()), figure(goodput), sum(|group| group.flows)];
    all.extend(["-"; 4].map(str::to_owned));
    all.extend([sum(|group| group.rto_timeouts), sum(|group| group.spurious_timeouts)]);
    all.push(sum(|group| group.spurious_while_held));
    rows.push(all);
    table(&head.map(str::to_owned), &rows)
}

/// The course of a run as SVG: queue, delivery and timeouts, bytes in flight against what the scheme allows, held
/// packets.
#[must_use]
pub fn plot(scenario: &Scenario, report: &Report, series: &Series) -> String {
    let course = Course::of(series);
    let x = Axis { label: format!("time ({})", course.unit), scale: Scale::Linear, range: Some((0.0, course.end)) };
    let panel = |title: &str, label: &str, series: Vec<chart::Series>, levels: Vec<(String, f64)>| Chart {
        title: title.into(),
        x: x.clone(),
        y: Axis { label: label.into(), scale: Scale::Linear, range: None },
        series,
        levels,
        height: 150.0,
    };
    let curve = |name: &str, style, points| chart::Series { name: name.into(), points, band: Vec::new(), style };
    let kilo = |level, max| course.level(series, level, max, 1e3);

    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    let buffer = match scenario.switch.buffer {
        Capacity::Bytes(bytes) => vec![("buffer".to_owned(), bytes as f64 / 1e3)],
        _ => Vec::new(),
    };
    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    let link = vec![("link".to_owned(), scenario.network.rate.0 as f64 / 1e6)];
    let mut delivered = vec![curve("delivered", Style::Area, course.delivered(series))];
    let timeouts = course.events(series, Count::Timeouts);
    if !timeouts.is_empty() {
        delivered.push(curve("timeouts", Style::Ticks, timeouts));
    }
    let mut flight = vec![curve("unacknowledged", Style::Line, kilo(Level::InFlight, false))];
    let guarded = scenario.scheme != Scheme::None;
    if guarded {
        flight.push(curve("in flight, as the scheme sees it", Style::Line, kilo(Level::GateInFlight, false)));
        flight.push(curve("allowed", Style::Line, kilo(Level::GateThreshold, false)));
    }
    let queue = vec![
        curve("largest", Style::Line, kilo(Level::Queue, true)),
        curve("mean", Style::Area, kilo(Level::Queue, false)),
    ];
    let mut panels = vec![
        panel("Queue at the bottleneck", "queue (KB)", queue, buffer),
        panel("Payload delivered", "rate (Mb/s)", delivered, link),
        panel("In flight, all senders", "bytes (KB)", flight, Vec::new()),
    ];
    if guarded {
        let held = vec![curve("held", Style::Area, course.level(series, Level::Held, true, 1.0))];
        panels.push(panel("ACKs held by the scheme", "packets", held, Vec::new()));
    }
    let title = format!("{} senders, scheme {}", report.senders, report.scheme);
    let timeouts = match report.rounds {
        0 => format!("{} timeouts", report.rto_timeouts),
        rounds => format!("{} of {rounds} rounds with a timeout", report.rounds_with_timeout),
    };
    let goodput = figure(report.goodput_mbps);
    let subtitle = format!("goodput {goodput} Mb/s; {timeouts}; {} drops; seed {}", report.drops, report.seed);
    chart::svg(&title, &subtitle, &panels)
}

/// Bins taken together until they fit a screen.
struct Course {
    bins: usize,
    together: usize,
    unit: &'static str,
    /// Nanoseconds of the unit.
    scale: f64,
    /// End of the run, in the unit.
    end: f64,
}

#[expect(clippy::cast_precision_loss, reason = "for drawing")]
impl Course {
    fn of(series: &Series) -> Self {
        let bins = series.len();
        let nanos = (bins - 1) as f64 * series.width().0 as f64 + series.length(bins - 1);
        let (unit, scale) = if nanos >= 2e9 {
            ("s", 1e9)
        } else if nanos >= 2e6 {
            ("ms", 1e6)
        } else {
            ("us", 1e3)
        };
        Self { bins, together: bins.div_ceil(MAX_POINTS), unit, scale, end: nanos / scale }
    }

    /// One point for each group of bins: its middle, and what `value` makes of it.
    fn points(&self, series: &Series, value: impl Fn(std::ops::Range<usize>, f64) -> f64) -> Vec<(f64, f64)> {
        let width = series.width().0 as f64;
        let groups = (0..self.bins).step_by(self.together);
        let groups = groups.map(|first| {
            let group = first..(first + self.together).min(self.bins);
            let length: f64 = group.clone().map(|bin| series.length(bin)).sum();
            (first, group, length)
        });
        // A remnant at the end would show one packet as a burst.
        let whole = groups.filter(|(first, _, length)| *first == 0 || *length * 2.0 >= width * self.together as f64);
        let points = whole
            .map(|(first, group, length)| ((first as f64 * width + length / 2.0) / self.scale, value(group, length)));
        points.collect()
    }

    fn level(&self, series: &Series, level: Level, max: bool, unit: f64) -> Vec<(f64, f64)> {
        self.points(series, |group, length| {
            let value = if max {
                group.map(|bin| series.max(bin, level)).fold(0.0, f64::max)
            } else {
                group.map(|bin| series.mean(bin, level) * series.length(bin)).sum::<f64>() / length
            };
            value / unit
        })
    }

    /// Payload per time, in Mb/s.
    fn delivered(&self, series: &Series) -> Vec<(f64, f64)> {
        self.points(series, |group, length| {
            let bytes: u64 = group.map(|bin| series.count(bin, Count::Delivered)).sum();
            bytes as f64 * 8e3 / length
        })
    }

    /// A point for each group in which something was counted.
    fn events(&self, series: &Series, count: Count) -> Vec<(f64, f64)> {
        let mut points = self.points(series, |group, _| group.map(|bin| series.count(bin, count) as f64).sum());
        points.retain(|point| point.1 > 0.0);
        points
    }
}
