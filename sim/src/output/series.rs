//! How a run goes over time: queue, windows, the scheme's gate, losses. In bounded memory whatever the run's length.
//!
//! Time is cut into bins. When there are too many, neighbours are merged and bins are twice as long from then on; mean
//! (weighted by time), maximum and counts survive that exactly.

use std::collections::HashMap;

use ackgate_control::units::{Span, Time};

use super::frame::{Data, Frame};
use crate::observer::{Congestion, DropReason, Gate, Interface, InterfaceKind, Observer, Packet, Point, Way};

/// Bins that are kept at most.
const MAX_BINS: usize = 4_096;
/// Length of the first bins.
const FIRST: u64 = 1_000;

/// What is recorded in each bin as a level: it has a value at every moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Bytes that wait at the bottleneck port.
    Queue,
    /// Sum of all senders' congestion windows, bytes; that of an ended connection counts until its number is used anew.
    Cwnd,
    /// Sum of all senders' bytes in flight, as of each one's last ACK or timeout.
    InFlight,
    /// What the scheme believes is in flight, bytes, over all receivers.
    GateInFlight,
    /// What the scheme allows, bytes, over all receivers.
    GateThreshold,
    /// Packets that the scheme holds.
    Held,
}

/// All levels, in the order of their columns.
pub const LEVELS: [(Level, &str); 6] = [
    (Level::Queue, "queue_bytes"),
    (Level::Cwnd, "cwnd_bytes"),
    (Level::InFlight, "in_flight_bytes"),
    (Level::GateInFlight, "gate_in_flight_bytes"),
    (Level::GateThreshold, "gate_threshold_bytes"),
    (Level::Held, "held_packets"),
];

/// What is recorded in each bin as a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Payload bytes that arrived at receivers.
    Delivered,
    /// Packets dropped anywhere.
    Drops,
    /// Retransmission timeouts.
    Timeouts,
}

/// All counts, in the order of their columns.
pub const COUNTS: [(Count, &str); 3] =
    [(Count::Delivered, "delivered_bytes"), (Count::Drops, "drops"), (Count::Timeouts, "timeouts")];

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Level times nanoseconds, by [`LEVELS`].
    area: [f64; LEVELS.len()],
    /// Largest value of each level.
    max: [f64; LEVELS.len()],
    /// Each count, by [`COUNTS`].
    count: [u64; COUNTS.len()],
}

impl Bin {
    fn merge(&mut self, other: &Self) {
        for i in 0..LEVELS.len() {
            self.area[i] += other.area[i];
            self.max[i] = self.max[i].max(other.max[i]);
        }
        for i in 0..COUNTS.len() {
            self.count[i] += other.count[i];
        }
    }
}

/// Records a run.
#[derive(Debug, Default)]
pub struct Series {
    bins: Vec<Bin>,
    /// Nanoseconds of a bin.
    width: u64,
    now: u64,
    levels: [f64; LEVELS.len()],
    bottleneck: Option<Point>,
    /// Which interfaces are receivers' own.
    receivers: Vec<bool>,
    congestion: HashMap<u32, Congestion>,
    gates: HashMap<u32, Gate>,
    /// Begin of each round.
    rounds: Vec<Span>,
}

impl Series {
    /// Nothing recorded yet.
    #[must_use]
    pub fn new() -> Self {
        Self { width: FIRST, bins: vec![Bin::default()], ..Self::default() }
    }

    /// Length of a bin.
    #[must_use]
    pub fn width(&self) -> Span {
        Span(self.width)
    }

    /// When each round began.
    #[must_use]
    pub fn rounds(&self) -> &[Span] {
        &self.rounds
    }

    /// Number of bins from the begin to the last event.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Whether nothing has been recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.now == 0
    }

    /// Mean of a level in a bin, weighted by time.
    #[must_use]
    pub fn mean(&self, bin: usize, level: Level) -> f64 {
        self.bins[bin].area[level as usize] / self.length(bin)
    }

    /// Largest value of a level in a bin.
    #[must_use]
    pub fn max(&self, bin: usize, level: Level) -> f64 {
        self.bins[bin].max[level as usize]
    }

    /// A count in a bin.
    #[must_use]
    pub fn count(&self, bin: usize, count: Count) -> u64 {
        self.bins[bin].count[count as usize]
    }

    /// Nanoseconds of a bin; the last one may not be over.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
    pub(super) fn length(&self, bin: usize) -> f64 {
        let start = bin as u64 * self.width;
        (self.now.saturating_sub(start)).clamp(1, self.width) as f64
    }

    /// All bins as CSV, one line each.
    #[must_use]
    pub fn csv(&self) -> String {
        let levels = LEVELS.iter().map(|(_, name)| format!("{name}_mean,{name}_max"));
        let counts = COUNTS.iter().map(|(_, name)| (*name).to_owned());
        let head: Vec<String> = std::iter::once("start_us".to_owned()).chain(levels).chain(counts).collect();
        let mut text = head.join(",") + "\n";
        for bin in 0..self.len() {
            let levels =
                LEVELS.iter().map(|(level, _)| format!("{:.1},{:.0}", self.mean(bin, *level), self.max(bin, *level)));
            let counts = COUNTS.iter().map(|(count, _)| self.count(bin, *count).to_string());
            #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
            let start = format!("{}", (bin as u64 * self.width) as f64 / 1e3);
            text += &std::iter::once(start).chain(levels).chain(counts).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }

    /// All bins as typed columns, the same as in [`csv`](Self::csv).
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
    pub fn frame(&self) -> Frame {
        let bins = || 0..self.len();
        let mut frame = Frame::default();
        frame.add("start_us", Data::Float(bins().map(|bin| (bin as u64 * self.width) as f64 / 1e3).collect()));
        for (level, name) in LEVELS {
            frame.add(&format!("{name}_mean"), Data::Float(bins().map(|bin| self.mean(bin, level)).collect()));
            frame.add(&format!("{name}_max"), Data::Float(bins().map(|bin| self.max(bin, level)).collect()));
        }
        for (count, name) in COUNTS {
            frame.add(name, Data::Unsigned(bins().map(|bin| self.count(bin, count)).collect()));
        }
        frame
    }

    /// Lets the levels stand until `now`, and makes sure there is a bin for it.
    fn advance(&mut self, now: Time) {
        let now = now.0.max(self.now);
        while now / self.width >= MAX_BINS as u64 {
            self.halve();
        }
        while self.now < now {
            let bin = self.bin();
            let end = (bin as u64 + 1).saturating_mul(self.width).min(now);
            #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
            let span = (end - self.now) as f64;
            for (i, level) in self.levels.iter().enumerate() {
                self.bins[bin].area[i] += level * span;
                self.bins[bin].max[i] = self.bins[bin].max[i].max(*level);
            }
            self.now = end;
            if self.bin() >= self.bins.len() {
                self.bins.push(Bin::default());
            }
        }
    }

    /// Bin of the present moment; `advance` keeps it below [`MAX_BINS`].
    fn bin(&self) -> usize {
        usize::try_from(self.now / self.width).unwrap_or(MAX_BINS - 1)
    }

    fn halve(&mut self) {
        self.width *= 2;
        self.bins = self
            .bins
            .chunks(2)
            .map(|pair| {
                let mut bin = pair[0];
                pair.iter().skip(1).for_each(|other| bin.merge(other));
                bin
            })
            .collect();
    }

    fn set(&mut self, now: Time, level: Level, value: f64) {
        self.advance(now);
        self.levels[level as usize] = value;
        let bin = self.bin();
        let max = &mut self.bins[bin].max[level as usize];
        *max = max.max(value);
    }

    fn add(&mut self, now: Time, count: Count, value: u64) {
        self.advance(now);
        let bin = self.bin();
        self.bins[bin].count[count as usize] += value;
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^53")]
impl Observer for Series {
    fn begin(&mut self, interfaces: &[Interface]) {
        self.bottleneck = (0u32..).zip(interfaces).find(|(_, interface)| interface.bottleneck).map(|(i, _)| Point(i));
        let receiver =
            |interface: &Interface| interface.kind == InterfaceKind::Host && interface.name.starts_with("receiver");
        self.receivers = interfaces.iter().map(receiver).collect();
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        if way == Way::In && packet.segment.payload > 0 && self.receivers.get(at.0 as usize) == Some(&true) {
            self.add(now, Count::Delivered, packet.segment.payload.into());
        }
    }

    fn dropped(&mut self, now: Time, _at: Point, _packet: &Packet, reason: DropReason) {
        // An ACK that a scheme leaves out is lost nowhere.
        if reason != DropReason::Scheme {
            self.add(now, Count::Drops, 1);
        }
    }

    fn queue(&mut self, now: Time, at: Point, bytes: u64, _packets: u32) {
        if self.bottleneck == Some(at) {
            self.set(now, Level::Queue, bytes as f64);
        }
    }

    fn congestion(&mut self, now: Time, connection: u32, state: &Congestion) {
        let before = self.congestion.insert(connection, *state);
        let (cwnd, in_flight) = before.map_or((0, 0), |before| (before.cwnd, before.in_flight));
        let [_, all_cwnd, all_in_flight, ..] = self.levels;
        self.set(now, Level::Cwnd, all_cwnd - cwnd as f64 + state.cwnd as f64);
        self.set(now, Level::InFlight, all_in_flight - in_flight as f64 + state.in_flight as f64);
    }

    fn timeout(&mut self, now: Time, _connection: u32) {
        self.add(now, Count::Timeouts, 1);
    }

    fn gate(&mut self, now: Time, host: u32, state: &Gate) {
        self.gates.insert(host, *state);
        let sum = |pick: fn(&Gate) -> u64| self.gates.values().map(pick).sum::<u64>() as f64;
        let [in_flight, threshold, held] =
            [sum(|gate| gate.in_flight), sum(|gate| gate.threshold), sum(|gate| gate.held.into())];
        self.set(now, Level::GateInFlight, in_flight);
        self.set(now, Level::GateThreshold, threshold);
        self.set(now, Level::Held, held);
    }

    fn round_begins(&mut self, now: Time, _round: u32) {
        self.advance(now);
        self.rounds.push(Span(now.0));
    }

    fn round_ends(&mut self, now: Time, _round: u32, _took: Span) {
        self.advance(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Vec<Interface> {
        vec![Interface { name: "switch0:receiver".into(), kind: InterfaceKind::Port, rate: 1, bottleneck: true }]
    }

    #[test]
    fn means_are_weighted_by_time_and_peaks_are_kept() {
        let mut series = Series::new();
        series.begin(&port());
        series.queue(Time(500), Point(0), 1_000, 1);
        series.queue(Time(900), Point(0), 9_000, 6);
        series.queue(Time(900), Point(0), 0, 0);
        series.timeout(Time(1_500), 3);
        assert_eq!(series.len(), 2);
        assert_eq!(series.mean(0, Level::Queue), 400.0);
        assert_eq!(series.max(0, Level::Queue), 9_000.0);
        assert_eq!((series.max(1, Level::Queue), series.count(1, Count::Timeouts)), (0.0, 1));
    }

    #[test]
    fn a_long_run_takes_no_more_room_and_loses_nothing() {
        let mut series = Series::new();
        series.begin(&port());
        for step in 0..100_000_u64 {
            series.queue(Time(step * 10_000), Point(0), step % 10 * 100, 1);
            series.timeout(Time(step * 10_000), 0);
        }
        series.round_ends(Time(1_000_000_000), 0, Span::ZERO);
        assert!(series.len() <= MAX_BINS);
        assert!(series.width() >= Span::nanos(1_000_000_000 / MAX_BINS as u64));
        let timeouts: u64 = (0..series.len()).map(|bin| series.count(bin, Count::Timeouts)).sum();
        assert_eq!(timeouts, 100_000);
        let area: f64 = (0..series.len()).map(|bin| series.mean(bin, Level::Queue) * series.length(bin)).sum();
        assert!((area / 1e9 - 450.0).abs() < 1e-6, "{area}");
        assert_eq!(series.csv().lines().count(), series.len() + 1);
        let frame = series.frame();
        let names: Vec<&str> = frame.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((names.join(",").as_str(), frame.len()), (series.csv().lines().next().unwrap(), series.len()));
    }

    #[test]
    fn senders_windows_are_summed() {
        let mut series = Series::new();
        let state = |cwnd| Congestion { cwnd, ssthresh: u64::MAX, in_flight: cwnd / 2 };
        series.congestion(Time(0), 0, &state(1_000));
        series.congestion(Time(0), 1, &state(4_000));
        series.congestion(Time(100), 0, &state(500));
        series.round_ends(Time(200), 0, Span::ZERO);
        assert_eq!((series.max(0, Level::Cwnd), series.mean(0, Level::Cwnd)), (5_000.0, 4_750.0));
        assert_eq!(series.max(0, Level::InFlight), 2_500.0);
    }
}
