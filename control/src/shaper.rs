//! Constant-rate ACK shaper: what PAC (§II-D) shows not to work. Outgoing ACKs leave at a fixed rate, whatever they
//! trigger and whatever is in flight.
//!
//! The paper gives rates (40 000, 60 000 and 80 000 packets per second) and nothing else. Decided here:
//! - Burst 1: two ACKs are never due closer than one period, or the shaper would itself make the bursts that it is to
//!   prevent. A host that is woken late lets go at once what was due meanwhile, for a millisecond at most: what it is woken
//!   late by would else come off the rate.
//! - What is shaped: pure ACKs and SYN-ACKs of all connections in one first-in-first-out queue. A SYN-ACK triggers a
//!   first window as an ACK triggers the next; were it to pass, the first windows of many new connections would fill the
//!   buffer whatever the rate. SYN, FIN, RST and data pass, since they are not what the rate is about; a pure ACK that a
//!   data segment overtakes is at worst one duplicate.
//! - The queue is bounded; beyond, ACKs pass unshaped. It is never a reason to lose an ACK, and queue / rate bounds
//!   the delay.

use alloc::collections::VecDeque;

use crate::error::ConfigError;
use crate::policy::{Action, FlowId, PacketId, Policy, Verdict};
use crate::segment::{Edit, Flags, Segment};
use crate::units::{Span, Time};

/// A host that polls later than this has stopped, and what was due meanwhile is not made up for.
const LATE: Span = Span::millis(1);

/// The shaper's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// ACKs per second (PAC §II-D: 40 000 to 80 000).
    pub rate: u32,
    /// Most ACKs held at once; beyond, they pass.
    pub queue: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { rate: 60_000, queue: 4_096 }
    }
}

impl Config {
    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first value that does not, with what is allowed.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.rate == 0 {
            return Err(ConfigError("the rate must be at least 1 packet per second"));
        }
        if self.queue > self.rate {
            return Err(ConfigError("the queue would hold ACKs for more than a second: at most `rate` packets"));
        }
        Ok(())
    }
}

/// The shaper of one receiver.
#[derive(Debug)]
pub struct Shaper {
    period: Span,
    limit: usize,
    queue: VecDeque<PacketId>,
    /// When the next ACK may leave.
    next: Time,
    held_max: usize,
}

impl Shaper {
    /// A shaper with these parameters.
    ///
    /// # Errors
    /// When a parameter makes no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            period: Span(1_000_000_000 / u64::from(config.rate)),
            limit: config.queue as usize,
            queue: VecDeque::new(),
            next: Time::ZERO,
            held_max: 0,
        })
    }

    /// ACKs held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// Most ACKs held at once so far.
    #[must_use]
    pub const fn held_max(&self) -> usize {
        self.held_max
    }
}

/// Whether it acknowledges and carries nothing else, which on a SYN-ACK is the SYN.
fn is_shaped(segment: &Segment) -> bool {
    segment.is_pure_ack() || segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK)
}

impl Policy for Shaper {
    fn handle_ingress(&mut self, _: Time, _: FlowId, _: &Segment) -> Edit {
        Edit::NONE
    }

    fn handle_egress(&mut self, now: Time, _: FlowId, segment: &Segment, packet: PacketId) -> Verdict {
        if !is_shaped(segment) || self.queue.len() >= self.limit {
            return Verdict::PASS;
        }
        if self.queue.is_empty() && self.next <= now {
            self.next = now + self.period;
            return Verdict::PASS;
        }
        self.queue.push_back(packet);
        self.held_max = self.held_max.max(self.queue.len());
        Verdict::Hold
    }

    fn edits_ingress(&self) -> bool {
        false
    }

    fn poll_action(&mut self, now: Time) -> Option<Action> {
        if now < self.next {
            return None;
        }
        let packet = self.queue.pop_front()?;
        let due = if now.since(self.next) < LATE.max(self.period) { self.next } else { now };
        self.next = due + self.period;
        Some(Action::Release(packet, Edit::NONE))
    }

    fn poll_timeout(&self) -> Option<Time> {
        (!self.queue.is_empty()).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const ACK: Segment = Segment { flags: Flags::ACK, ..BLANK };
    const BLANK: Segment = Segment {
        seq: crate::seq::SeqNumber(0),
        ack: crate::seq::SeqNumber(0),
        flags: Flags(0),
        window: 0,
        payload: 0,
        frames: 1,
        header: 66,
        ce: false,
        sack: false,
        dsack: false,
        mss: 0,
        wscale: None,
        timestamps: None,
        multipath: false,
    };

    #[test]
    fn acks_leave_at_the_rate_and_in_order() {
        let mut shaper = Shaper::new(Config { rate: 40_000, queue: 100 }).unwrap();
        let passed = (0..5).filter(|&n| shaper.handle_egress(Time(7), FlowId(n), &ACK, PacketId(n)) == Verdict::PASS);
        assert_eq!(passed.count(), 1, "only the first finds the link unused");
        let mut left = Vec::new();
        while let Some(due) = shaper.poll_timeout() {
            assert_eq!(shaper.poll_action(Time(due.0 - 1)), None, "not before its time");
            left.push((due.0, shaper.poll_action(due)));
        }
        let expected = (1..5).map(|n| (7 + u64::from(n) * 25_000, Some(Action::Release(PacketId(n), Edit::NONE))));
        assert!(left.into_iter().eq(expected), "PAC §II-D: 40 000 per second is one in 25 us");
    }

    #[test]
    fn a_host_that_is_woken_late_keeps_the_rate() {
        let mut shaper = Shaper::new(Config { rate: 8_000, queue: 1_000 }).unwrap();
        for n in 0..1_000 {
            shaper.handle_egress(Time(1), FlowId(0), &ACK, PacketId(n));
        }
        let (mut now, mut left) = (Time(1), 1_u64);
        while now < Time(50_000_000) {
            now = shaper.poll_timeout().unwrap() + Span::micros(195);
            while shaper.poll_action(now).is_some() {
                left += 1;
            }
        }
        assert!((395..=402).contains(&left), "8000 per second are 400 in 50 ms, not {left}");
        let stopped = now + Span::secs(1);
        let after = core::iter::from_fn(|| shaper.poll_action(stopped)).count();
        assert_eq!(after, 1, "what was due while it stood still is no burst");
    }

    #[test]
    fn what_acknowledges_and_carries_no_data_is_shaped() {
        let mut shaper = Shaper::new(Config::default()).unwrap();
        let data = Segment { payload: 100, ..ACK };
        let [syn, fin] = [Flags::SYN, Flags::FIN | Flags::ACK].map(|flags| Segment { flags, ..ACK });
        let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, ..ACK };
        for segment in [data, syn, fin, data, syn_ack] {
            assert_eq!(shaper.handle_egress(Time(1), FlowId(0), &segment, PacketId(0)), Verdict::PASS);
        }
        for segment in [ACK, syn_ack] {
            assert_eq!(shaper.handle_egress(Time(1), FlowId(0), &segment, PacketId(0)), Verdict::Hold);
        }
    }

    #[test]
    fn a_full_queue_lets_pass_and_nonsense_is_refused() {
        let mut shaper = Shaper::new(Config { rate: 10, queue: 2 }).unwrap();
        let verdicts: Vec<_> = (0..4).map(|n| shaper.handle_egress(Time(1), FlowId(0), &ACK, PacketId(n))).collect();
        assert_eq!(verdicts, [Verdict::PASS, Verdict::Hold, Verdict::Hold, Verdict::PASS]);
        assert!(Shaper::new(Config { rate: 0, queue: 1 }).is_err());
        assert!(Shaper::new(Config { rate: 10, queue: 11 }).is_err());
    }

    proptest! {
        #[test]
        fn no_more_than_the_rate_in_any_stretch(gaps in proptest::collection::vec(0u64..40_000, 1..300)) {
            let config = Config { rate: 60_000, queue: 300 };
            let mut shaper = Shaper::new(config).unwrap();
            let mut now = Time(0);
            let mut left = Vec::new();
            for (n, gap) in gaps.iter().enumerate() {
                now += Span(*gap);
                while let Some(due) = shaper.poll_timeout().filter(|due| *due <= now) {
                    prop_assert!(shaper.poll_action(due).is_some());
                    left.push(due);
                }
                if shaper.handle_egress(now, FlowId(0), &ACK, PacketId(n as u32)) == Verdict::PASS {
                    left.push(now);
                }
            }
            prop_assert_eq!(left.len() + shaper.held(), gaps.len());
            for pair in left.windows(2) {
                prop_assert!(pair[1].since(pair[0]) >= Span(1_000_000_000 / 60_000));
            }
        }
    }
}
