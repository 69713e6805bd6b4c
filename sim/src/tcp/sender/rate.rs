//! How fast data arrives at the receiver, ACK by ACK (delivery rate sampling, draft-ietf-ccwg-bbr §4.1, as in Linux's
//! `tcp_rate.c`).

use std::collections::VecDeque;

use crate::engine::{PS_PER_SEC, Ps};

/// What was sent and is not acknowledged, with what had arrived by then.
#[derive(Clone, Debug, Default)]
pub(super) struct RateLog {
    segments: VecDeque<Sent>,
    /// Bytes that have arrived, and when the last ACK told of some.
    delivered: u64,
    delivered_at: Ps,
    /// When the segment was sent that the last ACK told of: the start of the sending that the next sample measures.
    first_sent: Ps,
    /// While less than this has arrived, samples say what the application wrote and not what the path carries; 0 when none does.
    limited_until: u64,
    /// What had been found lost lies below.
    pub(super) lost_below: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    at: Ps,
    first_sent: Ps,
    delivered: u64,
    delivered_at: Ps,
    limited: bool,
    /// An ACK has told of it.
    told: bool,
}

/// What one ACK says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Bytes that have arrived until now.
    pub total: u64,
    /// Of these, told of by this ACK.
    pub newly: u64,
    /// What had arrived when the newest segment was sent that it tells of.
    pub when_sent: u64,
    /// Bytes a second since then; `None` when it says nothing.
    pub rate: Option<u64>,
    /// The application had no more to send then.
    pub limited: bool,
}

impl RateLog {
    /// A new segment leaves, up to `end`; `idle` when nothing else is in the network.
    pub(super) fn handle_sent(&mut self, now: Ps, end: u64, idle: bool) {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let Self { delivered, delivered_at, first_sent, .. } = *self;
        let limited = self.limited_until > 0;
        self.segments.push_back(Sent { end, at: now, first_sent, delivered, delivered_at, limited, told: false });
    }

    /// `start..end` leaves once more.
    pub(super) fn handle_resent(&mut self, now: Ps, start: u64, end: u64) {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let Self { delivered, delivered_at, first_sent, .. } = *self;
        let limited = self.limited_until > 0;
        for segment in self.segments.range_mut(first..).take_while(|segment| segment.end <= end) {
            *segment = Sent { at: now, first_sent, delivered, delivered_at, limited, ..*segment };
        }
    }

    /// The application has no more to send, and the window has room, with `in_flight` bytes in the network.
    pub(super) fn handle_limit(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    /// Whether the application is what limits.
    pub(super) fn is_limited(&self) -> bool {
        self.limited_until > 0
    }

    /// An ACK says that all below `una` has arrived, and each of `blocks`, `total` bytes altogether. A rate over less than
    /// `least_rtt` is none: what came in between was told of late.
    pub(super) fn handle_ack(
        &mut self,
        now: Ps,
        una: u64,
        blocks: &[(u64, u64)],
        total: u64,
        least_rtt: Ps,
    ) -> Delivered {
        let mut newest: Option<Sent> = None;
        let mut consider = |sent: &Sent| {
            if newest.is_none_or(|newest| (sent.at, sent.end) > (newest.at, newest.end)) {
                newest = Some(*sent);
            }
        };
        while let Some(sent) = self.segments.front().filter(|sent| sent.end <= una) {
            if !sent.told {
                consider(sent);
            }
            self.segments.pop_front();
        }
        for &(start, end) in blocks {
            let above = self.segments.partition_point(|segment| segment.end <= end);
            for segment in self.segments.range_mut(..above).rev() {
                if segment.end <= start || segment.told {
                    break;
                }
                segment.told = true;
                consider(segment);
            }
        }
        let newly = total.saturating_sub(self.delivered);
        self.delivered = self.delivered.max(total);
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        if newly > 0 {
            self.delivered_at = now;
        }
        let Some(sent) = newest else {
            return Delivered { total: self.delivered, newly, when_sent: 0, rate: None, limited: false };
        };
        self.first_sent = sent.at;
        // The slower of sending and arriving: ACKs that come together say nothing of the path's rate.
        let interval = (sent.at - sent.first_sent).max(now - sent.delivered_at);
        let bytes = self.delivered - sent.delivered;
        let rate = (interval > Ps::ZERO && interval >= least_rtt).then(|| {
            u64::try_from(u128::from(bytes) * u128::from(PS_PER_SEC) / u128::from(interval.0)).unwrap_or(u64::MAX)
        });
        Delivered { total: self.delivered, newly, when_sent: sent.delivered, rate, limited: sent.limited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 1000 bytes at 10 us each, over a path of 100 us.
    fn flight(log: &mut RateLog, from: u64, segments: u64) {
        for k in 0..segments {
            log.handle_sent(Ps::micros(from + 10 * k), 1 + 1000 * (k + 1), k == 0);
        }
    }

    #[test]
    fn the_rate_is_what_arrived_since_the_segment_was_sent() {
        let mut log = RateLog::default();
        flight(&mut log, 0, 4);
        let first = log.handle_ack(Ps::micros(100), 1001, &[], 1000, Ps::ZERO);
        assert_eq!((first.newly, first.rate), (1000, Some(10_000_000)));
        let last = log.handle_ack(Ps::micros(130), 4001, &[], 4000, Ps::ZERO);
        // 4000 bytes in 130 us, since nothing had arrived when the fourth was sent.
        assert_eq!((last.newly, last.when_sent, last.rate), (3000, 0, Some(30_769_230)));
    }

    #[test]
    fn acks_that_come_together_do_not_make_a_path_faster() {
        let mut log = RateLog::default();
        flight(&mut log, 0, 20);
        log.handle_ack(Ps::micros(290), 1001, &[], 1000, Ps::ZERO);
        // 19 000 bytes within 1 us, which took 190 us to send.
        let rest = log.handle_ack(Ps::micros(291), 20_001, &[], 20_000, Ps::ZERO);
        assert_eq!(rest.rate, Some(20_000 * 1_000_000 / 291));
        log.handle_sent(Ps::micros(300), 21_001, true);
        log.handle_sent(Ps::micros(690), 22_001, false);
        log.handle_ack(Ps::micros(695), 21_001, &[], 21_000, Ps::ZERO);
        log.handle_sent(Ps::micros(700), 23_001, false);
        // Sent 400 us after the first of the three, whose ACK was late: 2000 bytes have come in the 100 us since.
        assert_eq!(log.handle_ack(Ps::micros(795), 23_001, &[], 23_000, Ps::ZERO).rate, Some(5_000_000));
    }

    #[test]
    fn what_is_acknowledged_selectively_counts_once() {
        let mut log = RateLog::default();
        flight(&mut log, 0, 3);
        let told = log.handle_ack(Ps::micros(120), 1, &[(2001, 3001)], 1000, Ps::ZERO);
        assert_eq!((told.newly, told.rate), (1000, Some(8_333_333)));
        let again = log.handle_ack(Ps::micros(130), 1, &[(2001, 3001)], 1000, Ps::ZERO);
        assert_eq!((again.newly, again.rate), (0, None));
        log.handle_resent(Ps::micros(130), 1, 1001);
        let rest = log.handle_ack(Ps::micros(240), 3001, &[], 3000, Ps::ZERO);
        // The repair is what was sent last: 1000 bytes had arrived then, 2000 more since, the last of them told of at 120 us.
        assert_eq!((rest.newly, rest.when_sent, rest.rate), (2000, 1000, Some(16_666_666)));
    }

    #[test]
    fn a_sample_is_marked_while_the_application_has_nothing() {
        let mut log = RateLog::default();
        log.handle_limit(0);
        flight(&mut log, 0, 2);
        assert!(log.handle_ack(Ps::micros(100), 1001, &[], 1000, Ps::ZERO).limited);
        assert!(!log.is_limited());
        log.handle_sent(Ps::micros(110), 3001, false);
        assert!(log.handle_ack(Ps::micros(111), 2001, &[], 2000, Ps::ZERO).limited);
        assert!(!log.handle_ack(Ps::micros(210), 3001, &[], 3000, Ps::ZERO).limited);
    }

    #[test]
    fn less_than_a_round_trip_says_nothing() {
        let mut log = RateLog::default();
        flight(&mut log, 0, 1);
        assert_eq!(log.handle_ack(Ps::micros(100), 1001, &[], 1000, Ps::micros(101)).rate, None);
    }
}
