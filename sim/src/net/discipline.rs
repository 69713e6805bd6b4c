//! What a queue does with an arriving frame: drop-tail, step marking (DCTCP), RED. Decisions are taken on arrival only,
//! which is what lets a channel know a frame's whole future at once.

use crate::engine::{Ps, Random};
use crate::net::Packet;
use crate::scenario::{Capacity, Discipline, Ecn, Red};

/// What becomes of a frame that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Queue,
    Mark,
    Drop,
}

/// A queue discipline with its state.
#[derive(Clone, Debug)]
pub enum Queueing {
    /// Queued if it fits.
    DropTail,
    /// Marked above an instantaneous threshold (RFC 8257 §3.1).
    Step(Ecn),
    /// Random early detection.
    Red(Box<RedState>),
}

impl Queueing {
    /// The discipline of a port whose link takes `frame_time` for a full frame.
    #[must_use]
    pub fn new(discipline: &Discipline, frame_time: Ps) -> Self {
        match discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::Ecn(ecn) => Self::Step(ecn.clone()),
            Discipline::Red(red) => Self::Red(Box::new(RedState::new(red.clone(), frame_time))),
        }
    }

    #[inline]
    pub(super) fn decide(
        &mut self,
        now: Ps,
        packet: &Packet,
        bytes: u64,
        packets: u32,
        idle_since: Option<Ps>,
        random: &mut Random,
    ) -> Decision {
        match self {
            Self::DropTail => Decision::Queue,
            Self::Step(ecn) => {
                let above = match ecn.mark_above {
                    Capacity::Bytes(limit) => bytes > limit,
                    Capacity::Packets(limit) => packets > limit,
                    Capacity::Unlimited => false,
                };
                match (above, packet.is(Packet::ECT)) {
                    (true, true) => Decision::Mark,
                    (true, false) if ecn.drop_not_capable => Decision::Drop,
                    _ => Decision::Queue,
                }
            }
            Self::Red(red) => red.decide(now, packet, packets, idle_since, random),
        }
    }
}

/// RED's average and the spacing of its drops (Floyd and Jacobson 1993, §4).
///
/// Only additions, multiplications and divisions: their IEEE results are the same on every machine.
#[derive(Clone, Debug)]
pub struct RedState {
    red: Red,
    frame_time: Ps,
    average: f64,
    /// Frames since the last drop or mark; `None` while the average is below the lower threshold.
    since: Option<u32>,
}

impl RedState {
    fn new(red: Red, frame_time: Ps) -> Self {
        Self { red, frame_time, average: 0.0, since: None }
    }

    fn decide(
        &mut self,
        now: Ps,
        packet: &Packet,
        packets: u32,
        idle_since: Option<Ps>,
        random: &mut Random,
    ) -> Decision {
        match idle_since {
            // As if so many frames had found an empty queue.
            Some(since) => {
                let missed = (now - since).0 / self.frame_time.0.max(1);
                self.average *= power(1.0 - self.red.weight, missed);
                self.average -= self.red.weight * self.average;
            }
            None => self.average += self.red.weight * (f64::from(packets) - self.average),
        }
        let Red { min, max, max_probability, gentle, ecn, hard_drop, .. } = self.red;
        let can_mark = ecn && packet.is(Packet::ECT) && (!hard_drop || self.average < max);
        let loss = if can_mark { Decision::Mark } else { Decision::Drop };
        if self.average < min {
            self.since = None;
            return Decision::Queue;
        }
        let probability = if self.average < max {
            max_probability * (self.average - min) / (max - min)
        } else if gentle && self.average < 2.0 * max {
            max_probability + (1.0 - max_probability) * (self.average - max) / max
        } else {
            self.since = Some(0);
            return loss;
        };
        // Uniform spacing: p / (1 - count p).
        let count = self.since.map_or(0, |count| count.saturating_add(1));
        let spaced = 1.0 - f64::from(count) * probability;
        // The top 32 bits are a fraction that a float holds exactly.
        let draw = f64::from(u32::try_from(random.bits() >> 32).unwrap_or(u32::MAX)) / 4_294_967_296.0;
        if spaced <= 0.0 || draw < probability / spaced {
            self.since = Some(0);
            loss
        } else {
            self.since = Some(count);
            Decision::Queue
        }
    }
}

/// `base^exponent` by squaring: `powi` and `powf` may differ in the last bit between machines.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}
