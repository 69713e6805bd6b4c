//! Everything that is counted while a run goes on, and the report that is made of it.
//!
//! Figures that are per time refer to the *window*: from the start of the main workload's first round or flow, or the end
//! of the warm-up, to the end of its last one.

use super::Samples;
use super::party::{Fired, PartyTally};
use crate::engine::Ps;
use crate::net::{Channel, ChannelCounters};
use crate::report::{Distributions, Level, Packets, Quantiles, Report};
use crate::scenario::Scenario;
use crate::tcp::{Endpoint, SenderCounters};

/// State of the measured channels at an instant.
#[derive(Clone)]
struct Snapshot {
    at: Ps,
    bottleneck: ChannelCounters,
    /// Bytes sent on the receivers' links.
    delivered: u64,
    /// Application data, by party.
    bytes: Vec<u64>,
}

/// Counts and samples of a run.
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) dropped: u64,
    /// By the scheme, which had another ACK say the same: no loss.
    pub(crate) discarded: u64,
    pub(crate) data_arrived: u64,
    /// By [`Scenario::parties`].
    pub(crate) parties: Vec<PartyTally>,
    paused: Ps,
    /// The window begins so long after the main workload.
    warm_up: Ps,
    pub(crate) rtt: Samples,
    pub(crate) hold_time: Samples,
    held_max: u64,
    timeouts: u64,
    spurious: u64,
    spurious_while_held: u64,
    /// How long timers had run that fired, in nanoseconds.
    timer: Samples,
    senders: SenderCounters,
    flow: Samples,
    background_flow: Samples,
    /// Time in picoseconds of all flows of each sender of the main workload, and how many there were.
    by_sender: Vec<(u64, u64)>,
    /// Round times in picoseconds.
    rounds: Vec<u64>,
    rounds_with_timeout: u32,
    /// Sum of the rounds' rates in 10^6 bit/s.
    round_rates: f64,
    begin: Option<Snapshot>,
    end: Option<Snapshot>,
}

impl Tally {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            events: 0,
            sent: 0,
            arrived: 0,
            dropped: 0,
            discarded: 0,
            data_arrived: 0,
            parties: PartyTally::all(scenario),
            paused: Ps::ZERO,
            warm_up: Ps::from_span(scenario.warm_up),
            rtt: Samples::new(),
            hold_time: Samples::new(),
            held_max: 0,
            timeouts: 0,
            spurious: 0,
            spurious_while_held: 0,
            timer: Samples::new(),
            senders: SenderCounters::default(),
            flow: Samples::new(),
            background_flow: Samples::new(),
            by_sender: Vec::new(),
            rounds: Vec::new(),
            rounds_with_timeout: 0,
            round_rates: 0.0,
            begin: None,
            end: None,
        }
    }

    pub(crate) fn begin(&mut self, now: Ps, channels: &mut [Channel], bottleneck: u32, last_hops: &[u32]) {
        if self.begin.is_none() {
            self.begin = Some(self.snapshot(now, channels, bottleneck, last_hops));
        }
    }

    pub(crate) fn end(&mut self, now: Ps, channels: &mut [Channel], bottleneck: u32, last_hops: &[u32]) {
        if self.end.is_none() && !self.is_warming_up() {
            self.end = Some(self.snapshot(now, channels, bottleneck, last_hops));
        }
    }

    fn snapshot(&self, now: Ps, channels: &mut [Channel], bottleneck: u32, last_hops: &[u32]) -> Snapshot {
        Snapshot {
            at: now,
            bottleneck: channels[bottleneck as usize].counters_at(now),
            delivered: last_hops.iter().map(|hop| channels[*hop as usize].counters_at(now).bytes).sum(),
            bytes: self.parties.iter().map(|party| party.bytes).collect(),
        }
    }

    pub(crate) fn warm_up(&self) -> Ps {
        self.warm_up
    }

    /// The warm-up goes on: what ends now is not counted.
    fn is_warming_up(&self) -> bool {
        self.warm_up > Ps::ZERO && self.begin.is_none()
    }

    /// The main workload is silent for so long, from now on.
    pub(crate) fn pause(&mut self, length: Ps) {
        if !self.is_warming_up() {
            self.paused += length;
        }
    }

    /// A flow is complete; `sender` is the main workload's, none for other traffic.
    pub(crate) fn flow(&mut self, party: u16, sender: Option<u32>, took: Ps) {
        if self.is_warming_up() {
            return;
        }
        self.parties[usize::from(party)].flow(took);
        let Some(sender) = sender else { return self.background_flow.record(took.0 / 1_000) };
        self.flow.record(took.0 / 1_000);
        let sender = sender as usize;
        if self.by_sender.len() <= sender {
            self.by_sender.resize(sender + 1, (0, 0));
        }
        let (time, flows) = &mut self.by_sender[sender];
        *time += took.0;
        *flows += 1;
    }

    /// A round (or epoch) that brought so many bytes is complete.
    #[expect(clippy::cast_precision_loss, reason = "reports print six digits")]
    pub(crate) fn round(&mut self, bytes: u64, took: Ps, saw_timeout: bool) {
        self.rounds.push(took.0);
        if took > Ps::ZERO {
            self.round_rates += bytes as f64 * 8.0 / took.as_secs_f64() / 1e6;
        }
        self.rounds_with_timeout += u32::from(saw_timeout);
    }

    /// A retransmission timer fired.
    pub(crate) fn timeout(&mut self, party: u16, fired: &Fired) {
        self.timeouts += 1;
        self.timer.record(fired.ran.0 / 1_000);
        self.spurious += u64::from(fired.spurious);
        self.spurious_while_held += u64::from(fired.by_scheme());
        self.parties[usize::from(party)].timeout(fired);
    }

    pub(crate) fn hold(&mut self, held: u64) {
        self.held_max = self.held_max.max(held);
    }

    /// An endpoint's connection is over, or the run is.
    pub(crate) fn retire(&mut self, endpoint: &Endpoint) {
        let SenderCounters { retransmits, fast_retransmits, undone } = endpoint.sender.counters;
        self.senders.retransmits += retransmits;
        self.senders.fast_retransmits += fast_retransmits;
        self.senders.undone += undone;
    }

    /// Fills in all that was counted. `queued` are the packets that are still in the network.
    #[expect(clippy::cast_precision_loss, reason = "reports print six digits")]
    pub(crate) fn report(&mut self, queued: u64, channels: &[Channel], report: &mut Report) {
        let (Some(begin), Some(end)) = (self.begin.take(), self.end.take()) else {
            self.report_counts(queued, channels, report);
            return;
        };
        let time = end.at - begin.at;
        let simulated = time.as_secs_f64();
        let active = (time - self.paused).as_secs_f64();
        let rate = |bytes: u64, secs: f64| if secs > 0.0 { bytes as f64 * 8.0 / secs / 1e6 } else { 0.0 };
        report.simulated_s = simulated;
        let begun: u64 = self.main().map(|(at, _)| begin.bytes[at]).sum();
        report.goodput_mbps = rate(self.main().map(|(_, party)| party.bytes).sum::<u64>() - begun, active);
        report.throughput_mbps = rate(end.delivered - begin.delivered, active);
        let delivered =
            || end.bytes.iter().zip(&begin.bytes).zip(&self.parties).map(|((end, begin), party)| (end - begin, party));
        report.background_goodput_mbps =
            rate(delivered().filter(|(_, party)| !party.main).map(|(bytes, _)| bytes).sum(), simulated);
        if self.parties.len() > 1 {
            report.groups = delivered().map(|(bytes, party)| party.report(rate(bytes, simulated))).collect();
        }
        if simulated > 0.0 {
            let byte_ns = (end.bottleneck.byte_ns - begin.bottleneck.byte_ns) as f64;
            report.queue_bytes = Level { mean: byte_ns / (time.0 as f64 / 1e3), max: end.bottleneck.max_bytes };
            report.link_use = (end.bottleneck.busy - begin.bottleneck.busy).as_secs_f64() / simulated;
        }
        self.report_counts(queued, channels, report);
    }

    /// Those who take part in the main workload, and where they are.
    fn main(&self) -> impl Iterator<Item = (usize, &PartyTally)> {
        self.parties.iter().enumerate().filter(|(_, party)| party.main)
    }

    fn report_counts(&mut self, queued: u64, channels: &[Channel], report: &mut Report) {
        report.rounds = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        report.rounds_with_timeout = self.rounds_with_timeout;
        report.round_goodput_mbps = self.round_rates / f64::from(report.rounds.max(1));
        report.round_ms = nearest_rank(&mut self.rounds);
        report.rto_timeouts = self.timeouts;
        report.spurious_timeouts = self.spurious;
        report.spurious_while_held = self.spurious_while_held;
        report.timeout_us = self.timer.quantiles(1e3);
        report.retransmits = self.senders.retransmits;
        report.fast_retransmits = self.senders.fast_retransmits;
        report.undone_timeouts = self.senders.undone;
        report.drops = self.dropped;
        report.marks = channels.iter().map(|channel| channel.counters().marks).sum();
        report.flow_ms = self.flow.quantiles(1e6);
        let means = self.by_sender.iter().filter(|(_, flows)| *flows > 0).map(|(time, flows)| time / flows);
        let mut means: Vec<u64> = means.collect();
        report.sender_ms = nearest_rank(&mut means);
        report.distributions = Distributions {
            rtt_us: self.rtt.distribution(1e3),
            flow_ms: self.flow.distribution(1e6),
            sender_ms: steps(&means),
            timeout_us: self.timer.distribution(1e3),
        };
        report.background_flow_ms = self.background_flow.quantiles(1e6);
        report.rtt_us = self.rtt.quantiles(1e3);
        report.held_max = self.held_max;
        report.hold_us = self.hold_time.quantiles(1e3);
        report.events = self.events;
        report.packets_delivered = self.data_arrived;
        report.packets =
            Packets { sent: self.sent, arrived: self.arrived, dropped: self.dropped + self.discarded, queued };
    }
}

/// Nearest-rank percentiles of times in picoseconds: a run has few rounds and senders, so theirs are kept exactly.
fn nearest_rank(times: &mut [u64]) -> Quantiles {
    times.sort_unstable();
    let Some(&max) = times.last() else { return Quantiles::default() };
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1);
        millis(times[rank - 1])
    };
    #[expect(clippy::cast_precision_loss, reason = "a number of rounds or senders")]
    let mean = times.iter().copied().map(millis).sum::<f64>() / times.len() as f64;
    Quantiles { p50: at(50), p99: at(99), max: millis(max), mean }
}

/// The cumulative distribution of sorted times in picoseconds, in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a number of senders")]
fn steps(sorted: &[u64]) -> Vec<(f64, f64)> {
    sorted.iter().enumerate().map(|(i, time)| (millis(*time), (i + 1) as f64 / sorted.len() as f64)).collect()
}

fn millis(ps: u64) -> f64 {
    Ps(ps).as_secs_f64() * 1e3
}
