//! What PAC knows of a flow: its phase, its RTT, and what its next ACK will trigger.

use alloc::vec::Vec;

use super::queue::Held;
use crate::policy::FlowId;
use crate::segment::{Flags, Segment};
use crate::seq::SeqNumber;
use crate::units::{Span, Time};

/// All flows, by number.
#[derive(Debug, Default)]
pub(super) struct Flows(Vec<Flow>);

/// One flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Segment size from the handshake; 0 before it was seen.
    pub(super) mss: u16,
    /// Payload that has arrived.
    pub(super) size: u64,
    /// A FIN or RST was seen: nothing of it is gated any more.
    pub(super) over: bool,
    /// The latest ACK that was released (`ACK_prev` of Eq. 3).
    released: SeqNumber,
    avoidance: bool,
    /// When the SYN or SYN-ACK left, until the handshake is over; then its RTT, and how long the last ACK was held.
    asked: Option<Time>,
    rtt: Option<Span>,
    held: Span,
    /// The present interval, of one RTT: its begin, what has arrived, what arrived in the one before, and how often in
    /// a row that had been too little.
    began: Time,
    bytes: u64,
    before: u64,
    slower: u8,
}

impl Flows {
    /// A flow's state, made when it is new.
    pub(super) fn get(&mut self, flow: FlowId) -> &mut Flow {
        let at = flow.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Flow::default());
        }
        &mut self.0[at]
    }

    /// The mean RTT of all flows that are not over.
    pub(super) fn mean_rtt(&self) -> Option<Span> {
        let rtts = self.0.iter().filter(|flow| !flow.over).filter_map(Flow::rtt);
        let (sum, count) = rtts.fold((0, 0), |(sum, count), rtt| (sum + rtt.0, count + 1));
        (count > 0).then(|| Span(sum / count))
    }
}

impl Flow {
    fn rtt(&self) -> Option<Span> {
        self.rtt.map(|rtt| rtt + self.held)
    }

    /// A segment arrives.
    pub(super) fn handle_arrival(&mut self, now: Time, segment: &Segment, lambda_permille: u64) {
        if segment.flags.has(Flags::SYN) {
            let asked = self.asked.filter(|_| segment.flags.has(Flags::ACK));
            let rtt = asked.map(|asked| now.since(asked));
            *self = Self { mss: segment.mss, began: now, released: segment.end(), rtt, ..Self::default() };
            return;
        }
        if let Some(asked) = self.asked.take() {
            self.rtt = Some(now.since(asked));
            self.began = now;
        }
        self.size += u64::from(segment.payload);
        self.bytes += u64::from(segment.payload);
        self.avoidance |= segment.ce;
        let Some(rtt) = self.rtt() else { return };
        if now.since(self.began) >= rtt {
            let slow = self.before > 0 && self.bytes * 1_000 <= self.before * lambda_permille;
            self.slower = if slow { self.slower + 1 } else { 0 };
            if self.slower >= 2 {
                self.avoidance = true;
                self.slower = 0;
            }
            (self.before, self.bytes, self.began) = (self.bytes, 0, now);
        }
    }

    /// A segment leaves that is not gated.
    pub(super) fn handle_departure(&mut self, now: Time, segment: &Segment) {
        if segment.flags.has(Flags::SYN) {
            self.asked = Some(now);
        } else if segment.flags.has(Flags::ACK) && self.released.before(segment.ack) {
            self.released = segment.ack;
        }
    }

    /// Whether an ACK acknowledges more than has left: others are handshakes, duplicates and window updates.
    pub(super) fn is_new(&self, ack: SeqNumber) -> bool {
        self.released.before(ack)
    }

    /// Eq. 3.
    pub(super) fn trigger(&self, held: &Held) -> u64 {
        let acked = u64::from(held.ack.ahead_of(self.released));
        let mss = u64::from(self.mss);
        let growth = match (held.ece, self.avoidance) {
            (true, _) => 0,
            (false, false) => mss,
            (false, true) => mss * mss / self.before.max(mss),
        };
        acked + growth
    }

    /// A gated ACK leaves.
    pub(super) fn handle_release(&mut self, held: &Held, now: Time) {
        self.held = now.since(held.since);
        if self.released.before(held.ack) {
            self.released = held.ack;
        }
    }

    /// Its sender had a timeout.
    pub(super) fn restart(&mut self) {
        self.avoidance = false;
        self.slower = 0;
    }
}
