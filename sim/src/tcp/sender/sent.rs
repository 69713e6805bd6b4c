//! When each segment was sent: what a sender measures round trips by whose timestamps are too coarse for that, as Linux's are
//! (`tcp_clean_rtx_queue`).

use std::collections::VecDeque;

use crate::engine::Ps;

/// Segments that are not acknowledged, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct SentLog {
    segments: VecDeque<Sent>,
}

#[derive(Clone, Debug)]
struct Sent {
    end: u64,
    at: Ps,
    resent: bool,
}

/// What an ACK of new data says about the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// That it took so long.
    Rtt(Ps),
    /// Nothing: some of it was sent more than once (Karn's algorithm, RFC 6298 §3).
    Ambiguous,
    /// Nothing: no segment was acknowledged in full.
    Nothing,
}

impl SentLog {
    /// A segment with new data, up to `end`, leaves.
    pub(super) fn handle_sent(&mut self, now: Ps, end: u64) {
        self.segments.push_back(Sent { end, at: now, resent: false });
    }

    /// `start..end` leaves once more.
    pub(super) fn handle_resent(&mut self, start: u64, end: u64) {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        for segment in self.segments.range_mut(first..) {
            segment.resent = true;
            if segment.end >= end {
                break;
            }
        }
    }

    /// All up to `ack` has arrived: how long ago the first of it was sent.
    pub(super) fn handle_ack(&mut self, now: Ps, ack: u64) -> Measured {
        let mut measured = Measured::Nothing;
        while let Some(segment) = self.segments.front().filter(|segment| segment.end <= ack) {
            if segment.resent {
                measured = Measured::Ambiguous;
            } else if measured == Measured::Nothing {
                measured = Measured::Rtt(now - segment.at);
            }
            self.segments.pop_front();
        }
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_segment_that_an_ack_covers_is_measured() {
        let mut log = SentLog::default();
        log.handle_sent(Ps::micros(0), 1001);
        log.handle_sent(Ps::micros(10), 2001);
        log.handle_sent(Ps::micros(20), 3001);
        assert_eq!(log.handle_ack(Ps::micros(100), 2001), Measured::Rtt(Ps::micros(100)));
        assert_eq!(log.handle_ack(Ps::micros(110), 2500), Measured::Nothing);
        assert_eq!(log.handle_ack(Ps::micros(120), 3001), Measured::Rtt(Ps::micros(100)));
    }

    #[test]
    fn what_was_sent_twice_measures_nothing() {
        let mut log = SentLog::default();
        for end in [1001, 2001, 3001, 4001] {
            log.handle_sent(Ps::ZERO, end);
        }
        log.handle_resent(1001, 2001);
        assert_eq!(log.handle_ack(Ps::micros(90), 1001), Measured::Rtt(Ps::micros(90)));
        assert_eq!(log.handle_ack(Ps::micros(100), 3001), Measured::Ambiguous);
        assert_eq!(log.handle_ack(Ps::micros(110), 4001), Measured::Rtt(Ps::micros(110)));
    }
}
