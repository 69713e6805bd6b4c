//! What is counted inside runs beside the simulator's own figures: only in the settings that ask for it, since looking
//! costs time.

use std::collections::{BTreeMap, HashMap};

use ackgate_control::rto::{Estimator, Rto, RtoConfig};
use ackgate_control::segment::Flags;
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::{Span, Time};
use ackgate_sim::observer::{DropReason, Flow, Interface, InterfaceKind, Observer, Packet, Point, Protocol, Way};
use serde::Deserialize;

use super::figures::Row;

/// Something to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watch {
    /// `rounds_under_10ms`: rounds that took less than 10 ms.
    ShortRounds,
    /// `rounds_with_drop`, `syn_first`: rounds that lost something, and those whose first loss was a SYN.
    FirstDrop,
    /// `last_had_two`: rounds whose last flow had two timeouts or more.
    LastFlow,
    /// `fct_least_ms`, `fct_most_ms` over the means of the senders of all groups; `epoch1_ms` and on: the mean of each epoch.
    Flows,
    /// `calm_queue_bytes`: mean queue at the bottleneck while no short flow is under way.
    CalmQueue,
    /// `phase_mbps`, `phase_jain`: least aggregate and least fairness of the stretches of 10 s between comings and
    /// goings; fairness without the first 2 s of each.
    Phases,
    /// `rto_armed`, `rto_1_to_3ms`, `rto_p50_us`: timeouts that the senders' RTT samples call for when nothing bounds
    /// them, and how many lie between 0.85 and 3.45 ms.
    Timers,
    /// `data_round_goodput_mbps`: the mean over the rounds of their bytes over the time from the first segment of data to
    /// the end.
    DataRounds,
    /// `wire_flow_ms_mean`: the mean time of the main workload's flows since their first SYN was on the wire: what a shim
    /// did before that is not counted.
    WireFlows,
    /// `receiver_rtt_us_p50`, `receiver_rtt_us_p99`: age of the timestamps that data brings back to the receiver; needs
    /// `tcp.timestamps`.
    ReceiverRtt,
}

/// Sees a run and counts.
#[derive(Debug, Default)]
pub struct Probe {
    wanted: Vec<Watch>,
    bottleneck: Option<Point>,
    hosts: Vec<bool>,
    counts: Row,
    /// Of the present round: whether something was lost, timeouts of each connection, the last flow's connection.
    lost: bool,
    timeouts: HashMap<u32, u32>,
    last: u32,
    /// Time in ms and number of flows, of each sender of each group and of each epoch.
    senders: BTreeMap<(u32, u32), (f64, f64)>,
    epochs: BTreeMap<u32, (f64, f64)>,
    /// Rounds under way; byte-nanoseconds, nanoseconds and state of the queue while there is none.
    rounds: i32,
    calm: (f64, f64),
    queue: (Time, u64),
    /// Payload of each connection in each second.
    payload: BTreeMap<u32, Vec<f64>>,
    /// What each sender waits for (its end and when it left), and its estimate.
    timers: HashMap<u32, Timer>,
    armed: Vec<f64>,
    /// When the first data of the present round left, and bytes of its flows; goodput of all rounds, and how many.
    data: (Option<Time>, u64),
    data_rounds: (f64, f64),
    /// When the present flow's first SYN left, by the number of the main workload's sender; what each interface is.
    syns: HashMap<u32, Time>,
    senders_at: Vec<Option<u32>>,
    wire_flows: (f64, f64),
    receivers: Vec<bool>,
    ages: Vec<f64>,
}

#[derive(Debug, Default)]
struct Timer {
    asked: Option<(SeqNumber, Time)>,
    highest: SeqNumber,
    rto: Rto,
}

const TEN_MS: Span = Span::millis(10);
/// Seconds of a phase, and how many of them fairness is given to settle.
const PHASE: usize = 10;
const SETTLING: usize = 2;

impl Probe {
    /// Looks for what is wanted.
    #[must_use]
    pub fn new(wanted: &[Watch]) -> Self {
        Self { wanted: wanted.to_vec(), ..Self::default() }
    }

    fn wants(&self, what: Watch) -> bool {
        self.wanted.contains(&what)
    }

    fn add(&mut self, name: &str, by: bool) {
        *self.counts.entry(name.to_owned()).or_default() += f64::from(u8::from(by));
    }

    /// What was counted.
    #[must_use]
    pub fn finish(mut self) -> Row {
        if self.wants(Watch::Flows) {
            let means: Vec<f64> = self.senders.values().map(|(time, flows)| time / flows).collect();
            self.counts.insert("fct_least_ms".into(), means.iter().copied().fold(f64::INFINITY, f64::min));
            self.counts.insert("fct_most_ms".into(), means.iter().copied().fold(0.0, f64::max));
            for (epoch, (time, flows)) in &self.epochs {
                self.counts.insert(format!("epoch{epoch}_ms"), time / flows);
            }
        }
        if self.wants(Watch::CalmQueue) {
            self.counts.insert("calm_queue_bytes".into(), self.calm.0 / self.calm.1.max(1.0));
        }
        if self.wants(Watch::Phases) {
            self.phases();
        }
        if self.wants(Watch::Timers) {
            self.timed();
        }
        if self.wants(Watch::DataRounds) {
            self.counts.insert("data_round_goodput_mbps".into(), self.data_rounds.0 / self.data_rounds.1);
        }
        if self.wants(Watch::WireFlows) {
            self.counts.insert("wire_flow_ms_mean".into(), self.wire_flows.0 / self.wire_flows.1);
        }
        if self.wants(Watch::ReceiverRtt) {
            self.ages.sort_by(f64::total_cmp);
            for (name, percent) in [("receiver_rtt_us_p50", 50), ("receiver_rtt_us_p99", 99)] {
                let age = self.ages.get(self.ages.len() * percent / 100).copied().unwrap_or(f64::NAN);
                self.counts.insert(name.into(), age);
            }
        }
        self.counts
    }

    /// A segment of data, or a SYN, passes a host's interface.
    fn see(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        let (segment, at) = (&packet.segment, at.0 as usize);
        if let Some(sender) = self.senders_at.get(at).copied().flatten()
            && way == Way::Out
            && packet.protocol == Protocol::Tcp
        {
            if segment.payload > 0 {
                self.data.0.get_or_insert(now);
            }
            if segment.flags.has(Flags::SYN) {
                self.syns.entry(sender).or_insert(now);
            }
        }
        if self.wants(Watch::ReceiverRtt)
            && way == Way::In
            && segment.payload > 0
            && self.receivers.get(at).copied().unwrap_or(false)
            && let Some((_, echo)) = segment.timestamps
        {
            #[expect(clippy::cast_possible_truncation, reason = "a timestamp wraps, as TCP's do")]
            let clock = (now.0 / 1_000) as u32;
            self.ages.push(f64::from(clock.wrapping_sub(echo)));
        }
    }

    fn phases(&mut self) {
        let seconds = self.payload.values().map(Vec::len).max().unwrap_or(0);
        let (mut least, mut fairness) = (f64::INFINITY, f64::INFINITY);
        for phase in 0..seconds / PHASE {
            let sum = |of: &Vec<f64>, from: usize| -> f64 {
                (phase * PHASE + from..(phase + 1) * PHASE).map(|second| of.get(second).copied().unwrap_or(0.0)).sum()
            };
            #[expect(clippy::cast_precision_loss, reason = "seconds and flows")]
            let mbps = self.payload.values().map(|of| sum(of, 0)).sum::<f64>() * 8.0 / 1e6 / PHASE as f64;
            least = least.min(mbps);
            // Flows that send in most of the phase.
            let busy = self.payload.values().map(|of| sum(of, SETTLING)).filter(|bytes| *bytes > 0.0);
            let shares: Vec<f64> = busy.collect();
            fairness = fairness.min(jain(&shares));
        }
        self.counts.insert("phase_mbps".into(), least);
        self.counts.insert("phase_jain".into(), fairness);
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of timeouts")]
    fn timed(&mut self) {
        self.armed.sort_by(f64::total_cmp);
        let within = self.armed.iter().filter(|us| (850.0..=3_450.0).contains(*us)).count();
        self.counts.insert("rto_armed".into(), self.armed.len() as f64);
        self.counts.insert("rto_1_to_3ms".into(), within as f64);
        self.counts.insert("rto_p50_us".into(), self.armed.get(self.armed.len() / 2).copied().unwrap_or(f64::NAN));
    }

    fn calm_until(&mut self, now: Time) {
        let (since, bytes) = self.queue;
        if self.rounds == 0 {
            #[expect(clippy::cast_precision_loss, reason = "runs last seconds")]
            let time = now.0.saturating_sub(since.0) as f64;
            #[expect(clippy::cast_precision_loss, reason = "queues are below 2^53 bytes")]
            let filled = bytes as f64 * time;
            self.calm = (self.calm.0 + filled, self.calm.1 + time);
        }
        self.queue.0 = now;
    }

    fn time(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        let segment = &packet.segment;
        if !self.hosts.get(at.0 as usize).copied().unwrap_or(false) || packet.protocol != Protocol::Tcp {
            return;
        }
        let config = RtoConfig { floor: Span::micros(1), estimator: Estimator::Linux, ..RtoConfig::default() };
        let timer = self.timers.entry(packet.connection).or_default();
        if way == Way::Out && segment.payload > 0 && !packet.retransmission && timer.asked.is_none() {
            timer.asked = Some((segment.end(), now));
        } else if way == Way::Out && segment.payload > 0 && packet.retransmission {
            // Karn: what is under way may be answered twice.
            timer.asked = None;
        } else if way == Way::In && segment.flags.has(Flags::ACK) {
            if let Some((end, sent)) = timer.asked
                && !segment.ack.before(end)
            {
                timer.asked = None;
                timer.rto.handle_sample(&config, now.since(sent));
                timer.rto.handle_window();
            }
            if timer.highest.before(segment.ack) {
                timer.highest = segment.ack;
                #[expect(clippy::cast_precision_loss, reason = "timeouts are below 2^53 ns")]
                self.armed.push(timer.rto.timeout(&config, 0).0 as f64 / 1e3);
            }
        }
    }
}

/// Jain's index of fairness: 1 when all shares are the same, 0 when nobody has anything.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|share| share * share).sum());
    if squares == 0.0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of flows")]
    let flows = shares.len() as f64;
    sum * sum / (flows * squares)
}

impl Observer for Probe {
    fn begin(&mut self, interfaces: &[Interface]) {
        let bottleneck = interfaces.iter().position(|interface| interface.bottleneck);
        self.bottleneck = bottleneck.and_then(|i| u32::try_from(i).ok()).map(Point);
        let sender =
            |interface: &Interface| interface.kind == InterfaceKind::Host && interface.name.starts_with("sender");
        self.hosts = interfaces.iter().map(sender).collect();
        let number = |interface: &Interface| interface.name.strip_prefix("sender").and_then(|n| n.parse().ok());
        self.senders_at = interfaces
            .iter()
            .map(|interface| number(interface).filter(|_| interface.kind == InterfaceKind::Host))
            .collect();
        let receiver =
            |interface: &Interface| interface.kind == InterfaceKind::Host && interface.name.starts_with("receiver");
        self.receivers = interfaces.iter().map(receiver).collect();
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        if self.wants(Watch::Timers) {
            self.time(now, at, way, packet);
        }
        if self.wants(Watch::DataRounds) || self.wants(Watch::WireFlows) || self.wants(Watch::ReceiverRtt) {
            self.see(now, at, way, packet);
        }
        if self.wants(Watch::Phases) && Some(at) == self.bottleneck && way == Way::Out && !packet.retransmission {
            let second = usize::try_from(now.0 / 1_000_000_000).unwrap_or(usize::MAX);
            let seconds = self.payload.entry(packet.connection).or_default();
            if seconds.len() <= second {
                seconds.resize(second + 1, 0.0);
            }
            seconds[second] += f64::from(packet.segment.payload);
        }
    }

    fn dropped(&mut self, _now: Time, _at: Point, packet: &Packet, reason: DropReason) {
        if self.wants(Watch::FirstDrop) && !self.lost && reason != DropReason::Scheme {
            self.lost = true;
            self.add("rounds_with_drop", true);
            self.add("syn_first", packet.segment.flags.has(Flags::SYN));
        }
    }

    fn queue(&mut self, now: Time, at: Point, bytes: u64, _packets: u32) {
        if self.wants(Watch::CalmQueue) && Some(at) == self.bottleneck {
            self.calm_until(now);
            self.queue.1 = bytes;
        }
    }

    fn timeout(&mut self, _now: Time, connection: u32) {
        *self.timeouts.entry(connection).or_default() += 1;
    }

    fn round_begins(&mut self, now: Time, _round: u32) {
        self.data = (None, 0);
        self.calm_until(now);
        self.rounds += 1;
        self.lost = false;
        self.timeouts.clear();
    }

    fn round_ends(&mut self, now: Time, _round: u32, took: Span) {
        if let (Some(began), bytes) = self.data {
            #[expect(clippy::cast_precision_loss, reason = "rounds have fewer than 2^53 bytes and last seconds")]
            let mbps = bytes as f64 * 8e3 / now.since(began).0 as f64;
            self.data_rounds = (self.data_rounds.0 + mbps, self.data_rounds.1 + 1.0);
        }
        self.calm_until(now);
        self.rounds -= 1;
        if self.wants(Watch::ShortRounds) {
            self.add("rounds_under_10ms", took < TEN_MS);
        }
        if self.wants(Watch::FirstDrop) {
            self.add("rounds_with_drop", false);
            self.add("syn_first", false);
        }
        if self.wants(Watch::LastFlow) {
            let timeouts = self.timeouts.get(&self.last).copied().unwrap_or(0);
            self.add("last_had_two", timeouts >= 2);
        }
    }

    fn flow_ends(&mut self, now: Time, flow: &Flow) {
        self.last = flow.sender;
        #[expect(clippy::cast_precision_loss, reason = "flows last seconds")]
        let milliseconds = |span: Span| span.0 as f64 / 1e6;
        if flow.background.is_none() {
            self.data.1 += flow.bytes;
            if let Some(left) = self.syns.remove(&flow.sender) {
                self.wire_flows = (self.wire_flows.0 + milliseconds(now.since(left)), self.wire_flows.1 + 1.0);
            }
        }
        if !self.wants(Watch::Flows) {
            return;
        }
        let ms = milliseconds(flow.took);
        let group = flow.background.map_or(0, |group| group + 1);
        let sender = self.senders.entry((group, flow.sender)).or_default();
        *sender = (sender.0 + ms, sender.1 + 1.0);
        if let Some(epoch) = flow.round {
            let epoch = self.epochs.entry(epoch).or_default();
            *epoch = (epoch.0 + ms, epoch.1 + 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn fairness_is_one_for_equal_shares_one_over_n_for_one_alone_and_none_where_nothing_moves() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[0.0, 0.0]), 0.0);
    }
}
