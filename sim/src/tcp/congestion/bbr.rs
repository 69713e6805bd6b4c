//! BBR, version 1, as Linux has it (`tcp_bbr.c`; draft-cardwell-iccrg-bbr-congestion-control-00): a model of the path, its
//! bottleneck's rate and its shortest round trip, says how fast to send and how much to have in the network. A loss alone
//! is no congestion. Not here: the detection of policers (long-term sampling).

use std::collections::VecDeque;

use super::Window;
use crate::engine::{PS_PER_SEC, Ps, Random};
use crate::tcp::config::TcpConfig;
use crate::tcp::sender::{Delivered, burst};

/// One, as gains are kept.
const ONE: u64 = 256;
/// 2/ln 2: the least gain at which the rate doubles in each round.
const HIGH_GAIN: u64 = 739;
/// Its inverse, to drain what startup has put into the queue.
const DRAIN_GAIN: u64 = 88;
/// Of the window while the rate is probed: an ACK may be late by a round trip.
const WINDOW_GAIN: u64 = 512;
/// More, less, and six times as much as the path carries.
const CYCLE: [u64; 8] = [320, 192, ONE, ONE, ONE, ONE, ONE, ONE];
/// Rounds that the largest rate is remembered for.
const RATE_ROUNDS: u64 = 10;
/// How long the shortest round trip is remembered, and how long its search takes.
const LEAST_RTT_LASTS: Ps = Ps::millis(10_000);
const PROBE_RTT_TAKES: Ps = Ps::millis(200);
/// Segments of the least window.
const LEAST_WINDOW: u32 = 4;
/// The path is full when its rate has not grown by a quarter in three rounds.
const GROWTH: (u64, u64) = (5, 4);
const FULL_AFTER: u8 = 3;
/// Sent at by so much less than what was measured, so that no queue is left.
const MARGIN_PERCENT: u64 = 1;
/// What ACKs told at once beyond the rate is remembered for five rounds or ten, and counts up to 100 ms of the rate.
const AGGREGATE_ROUNDS: u32 = 5;
const LARGEST_AGGREGATE: Ps = Ps::millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Doubles the rate in each round until the path is full.
    Startup,
    /// Lets go of the queue that this made.
    Drain,
    /// Cycles around the rate.
    ProbeRate,
    /// Has next to nothing in the network, to see the shortest round trip.
    ProbeRtt,
}

/// What losses do to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing.
    None,
    /// It repairs what duplicate ACKs told of.
    Recovery,
    /// It goes on after a timeout.
    Timeout,
}

/// An ACK, and the network as it leaves it. Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// When it arrives.
    pub now: Ps,
    /// What it says to have arrived, and how fast.
    pub arrived: Delivered,
    /// A round trip that it measures.
    pub rtt: Option<Ps>,
    /// What it says to be lost.
    pub lost: u64,
    /// In the network before it.
    pub before: u64,
    /// In the network now.
    pub in_flight: u64,
    /// What the sender repairs now.
    pub repair: Repair,
}

/// The model, and what comes of it.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    /// Largest rates of rounds, each larger than what is behind it.
    rates: VecDeque<(u64, u64)>,
    rounds: u64,
    /// A round is over when more than this had arrived as a segment was sent.
    round_end: u64,
    round_start: bool,
    least_rtt: Ps,
    least_rtt_at: Ps,
    /// The search for the shortest round trip ends then, `None` until little is in the network, and after a round.
    probe_rtt_until: Option<Ps>,
    probe_rtt_round: bool,
    /// The rate at which the path seemed full, and for how many rounds; and whether it is.
    full_rate: u64,
    full_rounds: u8,
    full: bool,
    cycle: usize,
    cycle_at: Ps,
    /// Went on after a silence.
    restarted: bool,
    cwnd: u32,
    /// The window before losses or the search for the shortest round trip cut it.
    prior_cwnd: u32,
    repair: Repair,
    /// In the first round of a repair no more is sent than arrives.
    conserves: bool,
    /// Bytes a second.
    pacing: u64,
    /// What ACKs told of beyond the rate: this and the former rounds, and the time since it is counted.
    extra: [u64; 2],
    extra_rounds: u32,
    acked: u64,
    acked_since: Ps,
}

impl Bbr {
    /// A new connection's.
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            mode: Mode::Startup,
            rates: VecDeque::new(),
            rounds: 0,
            round_end: 0,
            round_start: false,
            least_rtt: Ps::NEVER,
            least_rtt_at: Ps::ZERO,
            probe_rtt_until: None,
            probe_rtt_round: false,
            full_rate: 0,
            full_rounds: 0,
            full: false,
            cycle: 0,
            cycle_at: Ps::ZERO,
            restarted: false,
            cwnd: config.initial_window,
            prior_cwnd: 0,
            repair: Repair::None,
            conserves: false,
            pacing: 0,
            extra: [0; 2],
            extra_rounds: 0,
            acked: 0,
            acked_since: Ps::ZERO,
        }
    }

    /// The handshake took `rtt`: the initial window in that, or in a millisecond, times the gain. Returns the pacing rate, bytes a second.
    pub fn begin(&mut self, now: Ps, rtt: Ps) -> u64 {
        self.least_rtt_at = now;
        let rtt = if rtt > Ps::ZERO { rtt } else { Ps::millis(1) };
        let rate = u128::from(self.cwnd) * u128::from(HIGH_GAIN) * u128::from(PS_PER_SEC);
        self.pacing = narrow(rate / (u128::from(ONE) * u128::from(rtt.0)));
        self.pacing
    }

    /// Something is sent after a silence that the application made. Returns the pacing rate.
    pub fn restart(&mut self, now: Ps, random: &mut Random) -> u64 {
        self.restarted = true;
        self.acked_since = now;
        self.acked = 0;
        match self.mode {
            Mode::ProbeRate => self.pace(ONE),
            Mode::ProbeRtt => self.end_probe_rtt(now, random),
            Mode::Startup | Mode::Drain => {}
        }
        self.pacing
    }

    /// Shortest round trip known, zero before the first.
    pub fn least_rtt(&self) -> Ps {
        if self.least_rtt == Ps::NEVER { Ps::ZERO } else { self.least_rtt }
    }

    /// Whether next to nothing is sent, so that samples say nothing of the path.
    pub fn probes_rtt(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    /// A timeout: the window is one segment, and the path is to be filled anew.
    pub(super) fn handle_timeout(&mut self, mss: u32) {
        self.save_window();
        self.repair = Repair::Timeout;
        self.full_rate = 0;
        self.round_start = true;
        self.cwnd = mss;
    }

    /// Duplicate ACKs told of a loss.
    pub(super) fn handle_loss(&mut self) {
        self.save_window();
    }

    /// Takes in an ACK; returns the pacing rate, bytes a second. The window follows.
    pub fn handle_ack(&mut self, window: &mut Window, ack: &Delivery, config: &TcpConfig, random: &mut Random) -> u64 {
        self.note_rate(ack);
        self.note_aggregate(ack);
        if self.mode == Mode::ProbeRate && self.phase_is_over(ack, config) {
            self.next_phase(ack.now);
        }
        self.note_full(ack);
        self.drain(ack, config, random);
        self.note_rtt(ack, config.mss, random);
        let (pacing_gain, window_gain) = self.gains();
        self.pace(pacing_gain);
        self.set_window(ack, window_gain, config);
        window.cwnd = self.cwnd.min(config.max_window);
        self.pacing
    }

    fn gains(&self) -> (u64, u64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeRate => (CYCLE[self.cycle], WINDOW_GAIN),
            Mode::ProbeRtt => (ONE, ONE),
        }
    }

    /// The bottleneck's rate.
    fn rate(&self) -> u64 {
        self.rates.front().map_or(0, |&(_, rate)| rate)
    }

    fn note_rate(&mut self, ack: &Delivery) {
        self.round_start = false;
        let Some(rate) = ack.arrived.rate else { return };
        if ack.arrived.when_sent >= self.round_end {
            self.round_end = ack.arrived.total;
            self.rounds += 1;
            self.round_start = true;
            self.conserves = false;
        }
        if !ack.arrived.limited || rate >= self.rate() {
            let oldest = self.rounds.saturating_sub(RATE_ROUNDS);
            self.rates.retain(|&(round, larger)| round >= oldest && larger > rate);
            self.rates.push_back((self.rounds, rate));
        }
    }

    /// Receivers and what is between tell of much at once, and of nothing for a while: so much more is to be in the network.
    fn note_aggregate(&mut self, ack: &Delivery) {
        if ack.arrived.newly == 0 || ack.arrived.rate.is_none() {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= AGGREGATE_ROUNDS {
                self.extra_rounds = 0;
                self.extra = [0, self.extra[0]];
            }
        }
        let mut expected = carried(self.rate(), ack.now - self.acked_since);
        if self.acked <= expected {
            self.acked = 0;
            self.acked_since = ack.now;
            expected = 0;
        }
        self.acked += ack.arrived.newly;
        let extra = self.acked.saturating_sub(expected).min(u64::from(self.cwnd));
        self.extra[0] = self.extra[0].max(extra);
    }

    fn phase_is_over(&self, ack: &Delivery, config: &TcpConfig) -> bool {
        let long_enough = ack.now - self.cycle_at > self.least_rtt();
        let gain = CYCLE[self.cycle];
        if gain > ONE {
            long_enough && (ack.lost > 0 || ack.before >= self.wanted(gain, config))
        } else if gain < ONE {
            long_enough || ack.before <= self.wanted(ONE, config)
        } else {
            long_enough
        }
    }

    fn next_phase(&mut self, now: Ps) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = now;
    }

    fn note_full(&mut self, ack: &Delivery) {
        if self.full || !self.round_start || ack.arrived.limited {
            return;
        }
        if self.rate() >= self.full_rate * GROWTH.0 / GROWTH.1 {
            self.full_rate = self.rate();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_AFTER;
    }

    fn drain(&mut self, ack: &Delivery, config: &TcpConfig, random: &mut Random) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.wanted(ONE, config) {
            self.probe_rate(ack.now, random);
        }
    }

    /// Begins anywhere in the cycle but where it drains, so that flows do not go together.
    fn probe_rate(&mut self, now: Ps, random: &mut Random) {
        self.mode = Mode::ProbeRate;
        self.cycle = CYCLE.len() - 1 - usize::try_from(random.up_to(6)).unwrap_or(0);
        self.next_phase(now);
    }

    fn note_rtt(&mut self, ack: &Delivery, mss: u32, random: &mut Random) {
        let expired = ack.now > self.least_rtt_at + LEAST_RTT_LASTS;
        if let Some(rtt) = ack.rtt
            && (rtt < self.least_rtt || expired)
        {
            self.least_rtt = rtt;
            self.least_rtt_at = ack.now;
        }
        if expired && !self.restarted && self.mode != Mode::ProbeRtt {
            self.save_window();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_until.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.end_probe_rtt(ack.now, random);
                }
            } else if ack.in_flight <= u64::from(LEAST_WINDOW * mss) {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT_TAKES);
                self.probe_rtt_round = false;
                self.round_end = ack.arrived.total;
            }
        }
        if ack.arrived.newly > 0 {
            self.restarted = false;
        }
    }

    fn end_probe_rtt(&mut self, now: Ps, random: &mut Random) {
        if self.probe_rtt_until.is_some_and(|until| now > until) {
            self.least_rtt_at = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.full {
                self.probe_rate(now, random);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    fn pace(&mut self, gain: u64) {
        let rate = u128::from(self.rate()) * u128::from(gain) * u128::from(100 - MARGIN_PERCENT);
        let rate = narrow(rate / (100 * u128::from(ONE)));
        if self.full || rate > self.pacing {
            self.pacing = rate;
        }
    }

    fn save_window(&mut self) {
        let whole = self.repair == Repair::None && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if whole { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn set_window(&mut self, ack: &Delivery, gain: u64, config: &TcpConfig) {
        let mss = config.mss;
        let acked = bytes(ack.arrived.newly);
        if ack.arrived.newly > 0 && !self.repairs(ack, mss) {
            let target = bytes(self.quantized(self.pipe(gain, config) + self.aggregate(), mss));
            if self.full {
                self.cwnd = self.cwnd.saturating_add(acked).min(target);
            } else if self.cwnd < target || ack.arrived.total < u64::from(config.initial_window) {
                self.cwnd = self.cwnd.saturating_add(acked);
            }
            self.cwnd = self.cwnd.max(LEAST_WINDOW * mss);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(LEAST_WINDOW * mss);
        }
    }

    /// Whether losses are what sets the window: what they took away comes back when they are repaired.
    fn repairs(&mut self, ack: &Delivery, mss: u32) -> bool {
        let before = std::mem::replace(&mut self.repair, ack.repair);
        if ack.lost > 0 {
            self.cwnd = self.cwnd.saturating_sub(bytes(ack.lost)).max(mss);
        }
        let arrives = bytes(ack.in_flight + ack.arrived.newly);
        if ack.repair == Repair::Recovery && before != Repair::Recovery {
            self.conserves = true;
            self.round_end = ack.arrived.total;
            self.cwnd = arrives;
        } else if ack.repair == Repair::None && before != Repair::None {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.conserves = false;
        }
        if self.conserves {
            self.cwnd = self.cwnd.max(arrives);
        }
        self.conserves
    }

    /// What the path holds, times `gain`.
    fn pipe(&self, gain: u64, config: &TcpConfig) -> u64 {
        if self.least_rtt == Ps::NEVER {
            return u64::from(config.initial_window);
        }
        carried(self.rate(), self.least_rtt) * gain / ONE
    }

    /// The same with what hosts need to send and to receive in bursts.
    fn wanted(&self, gain: u64, config: &TcpConfig) -> u64 {
        self.quantized(self.pipe(gain, config), config.mss)
    }

    fn quantized(&self, window: u64, mss: u32) -> u64 {
        let two = 2 * u64::from(mss);
        let bursts = 3 * u64::from(burst(self.pacing, mss)) * u64::from(mss);
        let more = if self.mode == Mode::ProbeRate && self.cycle == 0 { two } else { 0 };
        (window + bursts).div_ceil(two) * two + more
    }

    fn aggregate(&self) -> u64 {
        if self.full { self.extra[0].max(self.extra[1]).min(carried(self.rate(), LARGEST_AGGREGATE)) } else { 0 }
    }
}

/// What a rate carries in a time.
fn carried(rate: u64, time: Ps) -> u64 {
    narrow(u128::from(rate) * u128::from(time.0) / u128::from(PS_PER_SEC))
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn bytes(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
