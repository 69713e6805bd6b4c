//! What single runs look like inside, where a paper's figure has another axis than its sweep: distributions, and courses
//! over time. Each curve is one run, with the scenario's own seed.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use ackgate_control::units::Time;
use ackgate_sim::observer::{Interface, InterfaceKind, Observer, Packet, Point, Until, Way};
use ackgate_sim::sweep;
use serde::{Deserialize, Serialize};

use crate::experiment::Scale;

/// A look inside some of an experiment's runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum View {
    /// The cumulative distribution of something, a curve for each series.
    Distribution {
        /// Of what.
        of: Sampled,
        /// What is on the horizontal axis, with its unit.
        label: String,
        /// How that axis is spaced.
        #[serde(default)]
        scale: Scale,
        /// Value of the experiment's axis.
        x: f64,
        /// Series to look into; all when absent.
        #[serde(default)]
        series: Vec<String>,
        /// Further changes to the scenario, `key=value` each.
        #[serde(default)]
        set: Vec<String>,
    },
    /// Something over time.
    Course {
        /// What.
        of: Flowing,
        /// What is on the vertical axis, with its unit.
        label: String,
        /// Value of the experiment's axis.
        x: f64,
        /// Series to look into; all when absent.
        #[serde(default)]
        series: Vec<String>,
        /// Further changes to the scenario, `key=value` each.
        #[serde(default)]
        set: Vec<String>,
        /// Stretches of time that are taken together, ms.
        bin_ms: f64,
        /// Begin and end of what is drawn, ms since the run began; all when absent.
        span_ms: Option<(f64, f64)>,
    },
}

/// What has a distribution: the report's quantities of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampled {
    /// Round-trip times.
    RttUs,
    /// Flow completion times.
    FlowMs,
    /// Each sender's mean flow completion time.
    SenderMs,
}

/// What has a course.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flowing {
    /// Payload on the bottleneck link in Mb/s, and when the connection with the most timeouts had them.
    BottleneckMbps,
    /// Payload that arrives for each connection, in Mb/s.
    ConnectionMbps,
}

impl View {
    /// Series, x and changes: which runs it looks into.
    #[must_use]
    pub fn runs(&self) -> (&[String], f64, &[String]) {
        match self {
            Self::Distribution { series, x, set, .. } | Self::Course { series, x, set, .. } => (series, *x, set),
        }
    }

    /// What is wrong with its numbers.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self::Course { bin_ms, span_ms, .. } = self else { return Ok(()) };
        if !(*bin_ms >= 0.001 && *bin_ms <= 1e6) {
            return Err(format!("`bin_ms` is {bin_ms}: it must lie between 0.001 and 1000000"));
        }
        match span_ms {
            Some((from, to)) if !(*from >= 0.0 && from < to) => {
                Err(format!("`span_ms` runs from {from} to {to}: it must begin at 0 or later and end after that"))
            }
            _ => Ok(()),
        }
    }

    /// Runs one point and takes from it what is drawn.
    ///
    /// # Errors
    /// When the simulation fails, or `stop` ends it.
    pub fn look(&self, point: &sweep::Point, stop: &AtomicBool) -> Result<Vec<Curve>, ackgate_sim::Error> {
        match self {
            Self::Distribution { of, .. } => {
                let all = ackgate_sim::run(&point.scenario, &mut Until(stop))?.distributions;
                let points = match of {
                    Sampled::RttUs => all.rtt_us,
                    Sampled::FlowMs => all.flow_ms,
                    Sampled::SenderMs => all.sender_ms,
                };
                Ok(vec![Curve { name: String::new(), points, events: false }])
            }
            Self::Course { of, bin_ms, span_ms, .. } => {
                let mut observer = (Until(stop), Recorder::new(*of, *bin_ms));
                ackgate_sim::run(&point.scenario, &mut observer)?;
                Ok(observer.1.curves(span_ms.unwrap_or((0.0, f64::INFINITY))))
            }
        }
    }
}

/// One curve of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What it is beside the name of its series; may be empty.
    pub name: String,
    /// Its points by rising x: value and share, or time in ms and value.
    pub points: Vec<(f64, f64)>,
    /// Whether the points are instants at which something happened, and their y says nothing.
    pub events: bool,
}

/// Records payload over time, and timeouts.
#[derive(Debug)]
struct Recorder {
    of: Flowing,
    /// Nanoseconds of a bin.
    width: u64,
    /// Which interfaces are looked at.
    here: Vec<bool>,
    /// Payload bytes by bin, of each connection or of all together.
    bytes: BTreeMap<u32, Vec<u64>>,
    /// Times of the timeouts of each connection.
    timeouts: BTreeMap<u32, Vec<Time>>,
    last: Time,
}

impl Recorder {
    fn new(of: Flowing, bin_ms: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be small and positive")]
        let width = (bin_ms * 1e6) as u64;
        let (here, bytes, timeouts) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { of, width, here, bytes, timeouts, last: Time::ZERO }
    }

    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    fn curves(self, (from, to): (f64, f64)) -> Vec<Curve> {
        let bin_ms = self.width as f64 / 1e6;
        let within = |ms: &f64| (from..=to).contains(ms);
        let bins = usize::try_from(self.last.0 / self.width).unwrap_or(0) + 1;
        let mut curves: Vec<Curve> = Vec::new();
        for (number, (_, bytes)) in self.bytes.iter().enumerate() {
            let name = if self.of == Flowing::ConnectionMbps { format!("flow {}", number + 1) } else { String::new() };
            let rate = |bin: usize| bytes.get(bin).copied().unwrap_or(0) as f64 * 8.0 / (bin_ms * 1e3);
            let points = (0..bins).map(|bin| ((bin as f64 + 0.5) * bin_ms, rate(bin)));
            curves.push(Curve { name, points: points.filter(|point| within(&point.0)).collect(), events: false });
        }
        if self.of == Flowing::BottleneckMbps {
            let times = |times: &[Time]| -> Vec<f64> {
                times.iter().map(|time| time.0 as f64 / 1e6).filter(|ms| within(ms)).collect()
            };
            // Of several that had as many, the first.
            let worst = self.timeouts.values().map(|all| times(all)).rev().max_by_key(Vec::len).unwrap_or_default();
            let points = worst.into_iter().map(|ms| (ms, 0.0)).collect();
            curves.push(Curve { name: "timeouts of one flow".into(), points, events: true });
        }
        curves
    }
}

impl Observer for Recorder {
    fn begin(&mut self, interfaces: &[Interface]) {
        self.here = interfaces
            .iter()
            .map(|interface| match self.of {
                Flowing::BottleneckMbps => interface.bottleneck,
                Flowing::ConnectionMbps => interface.kind == InterfaceKind::Host,
            })
            .collect();
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        let wanted = match self.of {
            Flowing::BottleneckMbps => Way::Out,
            Flowing::ConnectionMbps => Way::In,
        };
        if way != wanted || packet.segment.payload == 0 || !self.here.get(at.0 as usize).is_some_and(|here| *here) {
            return;
        }
        self.last = now;
        let key = if self.of == Flowing::ConnectionMbps { packet.connection } else { 0 };
        let bins = self.bytes.entry(key).or_default();
        let bin = usize::try_from(now.0 / self.width).unwrap_or(usize::MAX);
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += u64::from(packet.segment.payload);
    }

    fn timeout(&mut self, now: Time, connection: u32) {
        self.timeouts.entry(connection).or_default().push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackgate_sim::observer::Nobody;
    use ackgate_sim::scenario::Document;
    use ackgate_sim::sweep::Plan;

    fn point(text: &str) -> sweep::Point {
        let plan = Plan::new(&Document::parse("mine.toml", text).expect(text), &[], 1).expect(text);
        plan.points[0].clone()
    }

    fn course(of: Flowing, span_ms: Option<(f64, f64)>) -> View {
        View::Course { of, label: String::new(), x: 1.0, series: Vec::new(), set: Vec::new(), bin_ms: 10.0, span_ms }
    }

    #[test]
    fn flows_that_come_one_after_the_other_have_their_own_courses() {
        let text =
            "senders = 2\ntime_limit = \"400ms\"\nworkload = { kind = \"long\", start = \"0\", stagger = \"200ms\" }";
        let curves = course(Flowing::ConnectionMbps, Some((0.0, 400.0)))
            .look(&point(text), &AtomicBool::new(false))
            .expect("it runs");
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["flow 1", "flow 2"]);
        let at = |curve: usize, ms: f64| {
            curves[curve].points.iter().find(|point| point.0 >= ms).map_or(f64::NAN, |point| point.1)
        };
        assert!(at(0, 150.0) > 900.0 && at(1, 150.0) == 0.0, "{curves:?}");
        assert!(at(1, 350.0) > 50.0);
    }

    #[test]
    fn the_bottleneck_idles_while_one_flow_waits_for_its_timer() {
        let text = "senders = 64\nrounds = 1\nworkload.connections = \"fresh\"";
        let curves =
            course(Flowing::BottleneckMbps, None).look(&point(text), &AtomicBool::new(false)).expect("it runs");
        let (link, timeouts) = (&curves[0], &curves[1]);
        assert!(timeouts.events && !timeouts.points.is_empty());
        assert!(timeouts.points[0].0 > 190.0, "RTOmin is 200 ms: {:?}", timeouts.points);
        assert!(link.points.iter().any(|point| point.1 > 900.0) && link.points.iter().any(|point| point.1 == 0.0));
    }

    #[test]
    fn a_distribution_ends_at_the_reports_maximum() {
        let point = point("senders = 8\nrounds = 2");
        let (label, series, set) = (String::new(), Vec::new(), Vec::new());
        let view = View::Distribution { of: Sampled::FlowMs, label, scale: Scale::Linear, x: 8.0, series, set };
        let curves = view.look(&point, &AtomicBool::new(false)).expect("it runs");
        let report = ackgate_sim::run(&point.scenario, &mut Nobody).expect("it runs");
        let (value, share) = *curves[0].points.last().expect("there are flows");
        assert!((value - report.flow_ms.max).abs() < 1e-6 && share == 1.0);
    }

    #[test]
    fn wrong_numbers_are_told() {
        assert!(course(Flowing::BottleneckMbps, Some((5.0, 5.0))).check().is_err_and(|told| told.contains("span_ms")));
        assert!(course(Flowing::BottleneckMbps, None).check().is_ok());
    }
}
