//! PAC to the letter (Bai et al.): Algorithm 1 and Eq. 2 to 6 with the ACK queue of §III-D, and nothing else.
//!
//! What [`crate::pac`] adds is left out on purpose, so that a comparison shows why each addition is there: SYN-ACKs and
//! requests pass, charges that bring nothing stay until Eq. 6 corrects them, windows are not bounded, no ACK is let go
//! because of its age, and bytes are payload, as §III-C counts them.
//!
//! Where the paper leaves no choice but to choose:
//! - `Window` of Eq. 3 is what arrived of the flow in its last interval: a receiver does not see the sender's window.
//! - Alpha (Eq. 2, 6) is taken over one control interval, the mean RTT of the flows, and Eq. 2 is applied once in each.
//! - The exponential filter of Eq. 6 has a gain of 1/8. `in_flight` never goes below 0.
//! - An RTT is the handshake's plus the delay of the flow's last held ACK (§IV-A, method 2).
//! - The first ACK of a flow is counted from the handshake. An ACK that says nothing new passes, unless one of its flow
//!   is queued: then it is stale.

mod flow;
mod queue;

use crate::error::ConfigError;
use crate::policy::{Action, FlowId, PacketId, Policy, Verdict};
use crate::segment::{Edit, Flags, Segment};
use crate::units::{Span, Time};

use self::flow::Flows;
use self::queue::{Held, Queue};

/// The parameters of Table I.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The switch port's buffer in bytes: initial threshold and its cap (§III-B). At least 1.
    pub buffer: u64,
    /// Lambda of §III-C in thousandths, 1 to 999.
    pub lambda_permille: u32,
    /// Bytes that a flow sends before its ACKs move to the lower of two priorities (§III-D).
    pub demote_at: u64,
}

impl Config {
    /// Checks that the values make sense.
    ///
    /// # Errors
    /// The first value that does not, with what is allowed.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.buffer == 0 {
            return Err(ConfigError("the threshold must be at least 1 byte"));
        }
        if self.lambda_permille == 0 || self.lambda_permille > 999 {
            return Err(ConfigError("lambda must lie between 0.001 and 0.999"));
        }
        Ok(())
    }
}

/// The gate of one receiver.
#[derive(Debug)]
pub struct Letter {
    config: Config,
    threshold: u64,
    in_flight: u64,
    flows: Flows,
    queue: Queue,
    /// `q` of Algorithm 1, which is dequeued before it may go.
    head: Option<Held>,
    /// ACKs that go at once: what a stale ACK's flow lost, or a flow that is over.
    discarded: alloc::vec::Vec<PacketId>,
    interval: Interval,
}

/// What is measured in one control interval, and what is known of those before (§III-C).
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    began: Time,
    bytes: u64,
    packets: u64,
    marked: u64,
    /// `BW_S` in bytes per second and `in_flight_S` in bytes; 0 before the first interval.
    bandwidth: u64,
    in_flight: u64,
}

/// Gain of the exponential filter: one part in so many.
const FILTER: u64 = 8;

/// A control interval before any RTT is known.
const FIRST_INTERVAL: Span = Span::micros(100);

impl Letter {
    /// A gate without flows.
    ///
    /// # Errors
    /// When the parameters make no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            threshold: config.buffer,
            in_flight: 0,
            flows: Flows::default(),
            queue: Queue::default(),
            head: None,
            discarded: alloc::vec::Vec::new(),
            interval: Interval::default(),
        })
    }

    /// Bytes that it believes to be on their way.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes that it allows.
    #[must_use]
    pub const fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Eq. 2 and 6, once in each control interval.
    fn close_interval(&mut self, now: Time) {
        let length = now.since(self.interval.began);
        let mean = self.flows.mean_rtt().unwrap_or(FIRST_INTERVAL);
        if length < mean || self.interval.packets == 0 {
            return;
        }
        let Interval { bytes, packets, marked, bandwidth, in_flight, .. } = self.interval;
        let alpha = 1_000 * marked / packets;
        // Eq. 2.
        self.threshold = if alpha > 0 {
            self.threshold - self.threshold * alpha / 2_000
        } else {
            (self.threshold * 2).min(self.config.buffer)
        };
        // Eq. 6.
        let now_bandwidth = bytes.saturating_mul(1_000_000_000) / length.0.max(1);
        if bandwidth > 0 && now_bandwidth * 1_000 <= bandwidth * u64::from(self.config.lambda_permille) {
            let kept = u128::from(in_flight) * u128::from(now_bandwidth) * 2_000;
            let by = u128::from(bandwidth) * u128::from(2_000 - alpha);
            let corrected = u64::try_from(kept / by.max(1)).unwrap_or(u64::MAX);
            self.in_flight = self.in_flight.min(corrected);
        }
        let filter = |old: u64, new: u64| if old == 0 { new } else { old - old / FILTER + new / FILTER };
        self.interval = Interval {
            began: now,
            bandwidth: filter(bandwidth, now_bandwidth),
            in_flight: filter(in_flight, self.in_flight),
            ..Interval::default()
        };
    }

    /// The stale-ACK rule (§III-D): out-of-order ACKs of the flow go, the rest moves up, and the flow starts slowly.
    fn handle_stale(&mut self, flow: FlowId) {
        self.discarded.extend(self.queue.promote(flow));
        self.flows.get(flow).restart();
    }
}

impl Policy for Letter {
    fn handle_ingress(&mut self, now: Time, flow: FlowId, segment: &Segment) -> Edit {
        let demote_at = self.config.demote_at;
        let lambda = u64::from(self.config.lambda_permille);
        self.flows.get(flow).handle_arrival(now, segment, lambda);
        if segment.flags.any(Flags(Flags::FIN.0 | Flags::RST.0)) {
            self.flows.get(flow).over = true;
        }
        if segment.payload > 0 {
            // Eq. 5.
            self.in_flight = self.in_flight.saturating_sub(u64::from(segment.payload));
            self.interval.bytes += u64::from(segment.payload);
            self.interval.packets += 1;
            self.interval.marked += u64::from(segment.ce);
            if self.flows.get(flow).size > demote_at {
                self.queue.demote(flow);
            }
        }
        self.close_interval(now);
        Edit::NONE
    }

    fn handle_egress(&mut self, now: Time, flow: FlowId, segment: &Segment, packet: PacketId) -> Verdict {
        let known = self.flows.get(flow);
        if !segment.is_pure_ack() || known.over || known.mss == 0 {
            known.handle_departure(now, segment);
            return Verdict::PASS;
        }
        let held = Held { flow, packet, ack: segment.ack, ece: segment.flags.has(Flags::ECE), since: now };
        let (low, new) = (known.size > self.config.demote_at, known.is_new(segment.ack));
        let waiting = self.queue.last(flow).or(self.head.filter(|head| head.flow == flow));
        if waiting.is_some_and(|last| !last.ack.before(held.ack)) {
            self.handle_stale(flow);
            return Verdict::Discard;
        }
        if !new {
            return Verdict::PASS;
        }
        self.queue.push(held, low);
        Verdict::Hold
    }

    fn handle_forgotten(&mut self, flow: FlowId) {
        self.flows.get(flow).over = true;
    }

    fn edits_ingress(&self) -> bool {
        false
    }

    fn poll_action(&mut self, now: Time) -> Option<Action> {
        if let Some(packet) = self.discarded.pop() {
            return Some(Action::Discard(packet));
        }
        if self.head.is_none() {
            self.head = self.queue.pop();
        }
        let held = self.head?;
        let flow = self.flows.get(held.flow);
        let trigger = if flow.over { 0 } else { flow.trigger(&held) };
        if self.in_flight + trigger > self.threshold {
            return None;
        }
        // Eq. 4.
        self.in_flight += trigger;
        flow.handle_release(&held, now);
        self.head = None;
        Some(Action::Release(held.packet, Edit::NONE))
    }

    fn poll_timeout(&self) -> Option<Time> {
        // Nothing but arrivals lets an ACK go (Algorithm 1).
        None
    }
}

#[cfg(test)]
mod tests;
