//! ICTCP: incast congestion control by the receiver's window (Wu, Feng, Guo, Zhang; CoNEXT 2010).
//!
//! ```text
//! global slots of 2T, T the traffic-weighted mean RTT                   Ictcp::roll_slot
//!   first half:  measure BW_T; quota BW_A = max(0, a·C - BW_T)
//!   second half: windows may grow, the sum of growth within the quota   Ictcp::grow
//! per connection, every 2·RTT_i                                         Ictcp::control
//!   b_m = max(b_s, B·b_m + (1-B)·b_s); b_e = max(b_m, rwnd/RTT_i); d = (b_e - b_m)/b_e
//!   d <= gamma1 or d <= MSS/rwnd:    grow
//!   d > gamma2 for three RTTs:       shrink by one MSS, never below 2 MSS
//! ```
//!
//! DESIGN NOTES, where the publication (as far as BASELINES goes) leaves the choice:
//! 1. A connection whose control falls into the first half of a slot would never grow if its interval kept step with
//!    the slots. Its wish to grow is kept until data arrives in a second half, or until the next control.
//! 2. Three RTTs of `d > gamma2` are two control intervals of two RTTs each.
//! 3. RTT_i follows, by 7/8, the echo of a timestamp that was new when it left. Without timestamps it is the handshake's, and
//!    only ever becomes shorter: the time from a grant to the first byte that only this grant allowed is the RTT if the window
//!    is what limits the sender, and longer if it is not, which the receiver cannot tell. Too short an RTT makes the expected
//!    throughput too high, which errs to the side of small windows.
//! 4. The fairness cut compares with the mean of the windows at their latest control, in this slot or the one before: a
//!    connection alone is never above the mean.
//! 5. Nothing here needs a timer: windows only leave on ACKs, and ACKs only follow data.
//! 6. A decrease takes effect as data arrives, and the window field is scaled: see [`Advertised`].

use alloc::vec::Vec;

use crate::error::ConfigError;
use crate::policy::{Action, FlowId, PacketId, Policy, Verdict};
use crate::rwnd::Advertised;
use crate::segment::{Edit, Flags, Segment};
use crate::seq::SeqNumber;
use crate::units::{Rate, Span, Time};

/// ICTCP's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Capacity C of the interface.
    pub rate: Rate,
    /// a in thousandths: the share of C that is to be used (0.9).
    pub headroom_permille: u32,
    /// B in thousandths: weight of the past in the measured throughput (0.75).
    pub history_permille: u32,
    /// gamma1 in thousandths: below, the window is what limits the connection (0.1).
    pub gamma1_permille: u32,
    /// gamma2 in thousandths: above, the window is wasted on the connection (0.5; PAC's ns-2 runs: 0.15).
    pub gamma2_permille: u32,
    /// Least window in segments, and that of a new connection (2).
    pub min_window: u32,
    /// Windows above the mean shrink while less than this share of C, in thousandths, is available (0.2).
    pub fairness_permille: u32,
    /// A connection silent for this long starts anew. Below it a pause between two requests changes nothing.
    pub idle: Span,
}

impl Config {
    /// The published settings for an interface of this rate.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            headroom_permille: 900,
            history_permille: 750,
            gamma1_permille: 100,
            gamma2_permille: 500,
            min_window: 2,
            fairness_permille: 200,
            idle: Span::millis(200),
        }
    }

    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first value that does not, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok, what| if ok { Ok(()) } else { Err(ConfigError(what)) };
        check(self.rate.0 >= 1_000_000, "the capacity must be at least 1 Mbit/s")?;
        check((1..=1000).contains(&self.headroom_permille), "the usable share of the capacity must lie in (0, 1]")?;
        check(self.history_permille < 1000, "the weight of the past must lie in [0, 1)")?;
        check(self.gamma1_permille < self.gamma2_permille, "gamma1 must be less than gamma2")?;
        check(self.gamma2_permille < 1000, "gamma2 must be less than 1")?;
        check((1..=1000).contains(&self.min_window), "the least window must be 1 to 1000 segments")?;
        check(self.fairness_permille <= 1000, "the share that calls for fairness must lie in [0, 1]")?;
        check(self.idle >= Span::millis(1), "the idle time must be at least 1ms")
    }
}

/// Segment size until a connection has shown its own.
const USUAL_MSS: u32 = 1460;
/// Shortest RTT that is believed: a control interval needs some length to measure throughput in.
const SHORTEST_RTT: u64 = 10_000;
/// Longest RTT that is believed: above, the sample was a pause of the application.
const LONGEST_RTT: u64 = 1_000_000_000;
/// Control intervals of `d > gamma2` that shrink a window: three RTTs, at two RTTs each.
const PATIENCE: u8 = 2;

/// Bytes per 2^20 ns: a throughput in integers.
const fn bandwidth(bytes: u64, elapsed: u64) -> u64 {
    (bytes << 20) / if elapsed == 0 { 1 } else { elapsed }
}

/// State of one connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    open: bool,
    advertised: Advertised,
    mss: u32,
    /// ICTCP's window, bytes.
    window: u32,
    /// Slow start: the window grows by what arrived.
    starting: bool,
    rtt: u64,
    /// When the segment left whose answer completes the handshake.
    handshake_start: Option<Time>,
    /// A grant and the edge before it: the first byte beyond comes a round trip later.
    grant: Option<(SeqNumber, Time)>,
    /// A TSval that is to be echoed, and when it was first used.
    stamp: Option<(u32, Time)>,
    /// The latest TSval that left.
    last_stamp: u32,
    last_data: Time,
    interval_start: Time,
    interval_bytes: u64,
    /// b_m, bytes per 2^20 ns.
    measured: u64,
    wasteful: u8,
    /// Growth in bytes that waits for the second half of a slot.
    wish: u32,
    /// Slot of the latest control, and the window that its mean has of this connection.
    counted: Option<(u64, u32)>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            open: false,
            advertised: Advertised::default(),
            mss: USUAL_MSS,
            window: 0,
            starting: true,
            rtt: 0,
            handshake_start: None,
            grant: None,
            stamp: None,
            last_stamp: 0,
            last_data: Time::ZERO,
            interval_start: Time::ZERO,
            interval_bytes: 0,
            measured: 0,
            wasteful: 0,
            wish: 0,
            counted: None,
        }
    }
}

impl Flow {
    fn restart(&mut self, config: &Config, now: Time) {
        self.window = config.min_window * self.mss;
        self.starting = true;
        self.measured = 0;
        self.wasteful = 0;
        self.wish = 0;
        self.interval_start = now;
        self.interval_bytes = 0;
    }

    fn sample(&mut self, rtt: Span) {
        let rtt = rtt.0.clamp(SHORTEST_RTT, LONGEST_RTT);
        self.rtt = if self.rtt == 0 { rtt } else { self.rtt - self.rtt / 8 + rtt / 8 };
    }
}

/// ICTCP at one receiver.
#[derive(Debug)]
pub struct Ictcp {
    config: Config,
    /// C in bytes per 2^20 ns.
    capacity: u64,
    flows: Vec<Flow>,
    slot: Slot,
}

/// The global slot.
#[derive(Debug, Default)]
struct Slot {
    number: u64,
    start: Time,
    /// Length of one half: T, ns.
    half: u64,
    second: bool,
    bytes: u64,
    /// Sum of bytes times RTT over the slot, for T of the next.
    weighted_rtt: u128,
    weight: u64,
    /// BW_A and what is left of it.
    available: u64,
    quota: u64,
    /// Windows of the connections whose latest control was in this slot, and in the slot before.
    windows: Windows,
    windows_before: Windows,
}

/// Windows of some connections together.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    bytes: u64,
    connections: u64,
}

impl Windows {
    fn add(&mut self, window: u32) {
        self.bytes += u64::from(window);
        self.connections += 1;
    }

    fn remove(&mut self, window: u32) {
        self.bytes -= u64::from(window);
        self.connections -= 1;
    }
}

impl Slot {
    /// Counts the window of a connection that is being controlled; whether it is above the mean.
    fn is_above_mean(&mut self, flow: &mut Flow) -> bool {
        match flow.counted {
            Some((slot, window)) if slot == self.number => self.windows.remove(window),
            Some((slot, window)) if slot + 1 == self.number => self.windows_before.remove(window),
            _ => {}
        }
        self.windows.add(flow.window);
        flow.counted = Some((self.number, flow.window));
        let connections = self.windows.connections + self.windows_before.connections;
        u64::from(flow.window) * connections > self.windows.bytes + self.windows_before.bytes
    }
}

impl Ictcp {
    /// ICTCP with these parameters.
    ///
    /// # Errors
    /// When a parameter makes no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let capacity = bandwidth(config.rate.0 / 8, 1_000_000_000);
        Ok(Self { config, capacity, flows: Vec::new(), slot: Slot::default() })
    }

    /// ICTCP's window of a connection in bytes; `None` while it does not know the connection's handshake.
    #[must_use]
    pub fn window(&self, id: FlowId) -> Option<u32> {
        self.flows.get(id.0 as usize).filter(|flow| flow.open).map(|flow| flow.window)
    }

    fn ensure(&mut self, id: FlowId) {
        let index = id.0 as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, Flow::default);
        }
    }

    /// Moves to the half and slot that `now` lies in.
    fn roll_slot(&mut self, now: Time) {
        let slot = &mut self.slot;
        if slot.half == 0 {
            slot.start = now;
            slot.half = SHORTEST_RTT;
        }
        let elapsed = now.since(slot.start).0;
        if !slot.second && elapsed >= slot.half {
            slot.second = true;
            let usable = self.capacity * u64::from(self.config.headroom_permille) / 1000;
            slot.available = usable.saturating_sub(bandwidth(slot.bytes, elapsed));
            slot.quota = slot.available;
        }
        if elapsed >= 2 * slot.half {
            if slot.weight > 0 {
                let mean = slot.weighted_rtt / u128::from(slot.weight);
                slot.half = u64::try_from(mean).unwrap_or(LONGEST_RTT).clamp(SHORTEST_RTT, LONGEST_RTT);
            }
            *slot = Slot {
                number: slot.number + 1,
                start: now,
                half: slot.half,
                available: slot.available,
                windows_before: slot.windows,
                ..Slot::default()
            };
        }
    }

    /// The control interval of a connection is over: decides on its window.
    fn control(&mut self, index: usize, elapsed: u64) {
        let config = &self.config;
        let (flow, slot) = (&mut self.flows[index], &mut self.slot);
        let sample = bandwidth(flow.interval_bytes, elapsed);
        let history = u64::from(config.history_permille);
        flow.measured = sample.max((history * flow.measured + (1000 - history) * sample) / 1000);
        let expected = flow.measured.max(bandwidth(u64::from(flow.window), flow.rtt)).max(1);
        let difference = expected - flow.measured;
        let (window, mss) = (u64::from(flow.window), u64::from(flow.mss));

        let scarce = slot.available * 1000 < self.capacity * u64::from(config.fairness_permille);
        let above_mean = slot.is_above_mean(flow);
        flow.wish = 0;
        if difference * 1000 <= expected * u64::from(config.gamma1_permille) || difference * window <= mss * expected {
            flow.wasteful = 0;
            if !(scarce && above_mean) {
                let arrived = u32::try_from(flow.interval_bytes).unwrap_or(u32::MAX);
                flow.wish = if flow.starting { arrived.min(flow.window).max(flow.mss) } else { flow.mss };
            }
        } else {
            flow.starting = false;
            if difference * 1000 > expected * u64::from(config.gamma2_permille) {
                flow.wasteful += 1;
                if flow.wasteful >= PATIENCE {
                    flow.wasteful = 0;
                    flow.shrink(config);
                }
            } else {
                flow.wasteful = 0;
            }
        }
        if scarce && above_mean {
            flow.shrink(config);
        }
        flow.interval_bytes = 0;
    }

    /// Second half of a slot: a wish to grow comes true as far as the quota goes.
    fn grow(&mut self, index: usize) {
        let (flow, slot) = (&mut self.flows[index], &mut self.slot);
        if flow.wish == 0 || !slot.second {
            return;
        }
        let cost = |bytes: u32| bandwidth(u64::from(bytes), flow.rtt);
        let mut bytes = flow.wish;
        if cost(bytes) > slot.quota {
            flow.starting = false;
            bytes = flow.mss;
        }
        if cost(bytes) <= slot.quota {
            slot.quota -= cost(bytes);
            flow.window = flow.window.saturating_add(bytes);
        }
        flow.wish = 0;
    }
}

impl Flow {
    fn shrink(&mut self, config: &Config) {
        self.window = self.window.saturating_sub(self.mss).max(config.min_window * self.mss);
    }
}

impl Policy for Ictcp {
    fn handle_ingress(&mut self, now: Time, id: FlowId, segment: &Segment) -> Edit {
        self.ensure(id);
        self.roll_slot(now);
        let index = id.0 as usize;
        let flow = &mut self.flows[index];
        if segment.flags.has(Flags::SYN) {
            if !segment.flags.has(Flags::ACK) {
                *flow = Flow::default();
            }
            flow.advertised.handle_peer_syn(segment);
        }
        if let Some(start) = flow.handshake_start.filter(|_| segment.flags.has(Flags::ACK)) {
            flow.handshake_start = None;
            flow.sample(now.since(start));
            flow.open = true;
            flow.restart(&self.config, now);
            flow.last_data = now;
        }
        if let (Some((value, start)), Some((_, echo))) = (flow.stamp, segment.timestamps)
            && !SeqNumber(echo).before(SeqNumber(value))
        {
            flow.stamp = None;
            flow.sample(now.since(start));
        }
        if !flow.open || segment.payload == 0 {
            return Edit::NONE;
        }
        flow.mss = flow.mss.max(segment.payload / u32::from(segment.frames.max(1)));
        if let Some((_, start)) = flow.grant.filter(|(edge, _)| segment.end().after(*edge)) {
            flow.grant = None;
            if segment.timestamps.is_none() {
                flow.rtt = flow.rtt.min(now.since(start).0.max(SHORTEST_RTT));
            }
        }
        if now.since(flow.last_data) >= self.config.idle {
            flow.restart(&self.config, now);
        }
        flow.last_data = now;
        let bytes = u64::from(segment.wire_bytes());
        flow.interval_bytes += u64::from(segment.payload);
        self.slot.bytes += bytes;
        self.slot.weighted_rtt += u128::from(bytes) * u128::from(flow.rtt);
        self.slot.weight += bytes;
        let elapsed = now.since(flow.interval_start).0;
        if elapsed >= 2 * flow.rtt {
            flow.interval_start = now;
            self.control(index, elapsed);
        }
        self.grow(index);
        Edit::NONE
    }

    fn handle_egress(&mut self, now: Time, id: FlowId, segment: &Segment, _: PacketId) -> Verdict {
        self.ensure(id);
        let flow = &mut self.flows[id.0 as usize];
        if segment.flags.has(Flags::SYN) {
            if !segment.flags.has(Flags::ACK) {
                *flow = Flow::default();
            }
            flow.handshake_start = Some(now);
            if segment.mss > 0 {
                let options = if segment.timestamps.is_some() { 12 } else { 0 };
                flow.mss = u32::from(segment.mss).saturating_sub(options).max(1);
            }
            flow.window = self.config.min_window * flow.mss;
        }
        if let Some((value, _)) = segment.timestamps
            && value != flow.last_stamp
        {
            flow.last_stamp = value;
            flow.stamp.get_or_insert((value, now));
        }
        let before = flow.advertised.edge();
        let limit = (flow.open || segment.flags.has(Flags::SYN)).then_some(flow.window);
        let window = flow.advertised.clamp(segment, limit);
        if let Some(before) = before
            && flow.grant.is_none()
            && flow.advertised.edge().is_some_and(|edge| edge.after(before))
        {
            flow.grant = Some((before, now));
        }
        Verdict::Pass(Edit { window, ..Edit::NONE })
    }

    fn handle_forgotten(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(id.0 as usize) {
            *flow = Flow::default();
        }
    }

    fn edits_ingress(&self) -> bool {
        false
    }

    fn poll_action(&mut self, _: Time) -> Option<Action> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests;
