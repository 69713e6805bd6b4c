//! The adaptive delayed-ACK timer that Vasudevan et al. describe and did not build (§5): how long an ACK waits for a
//! second segment is a function of the smoothed time between arrivals.
//!
//! Decided here: twice the smoothed gap, so that the second segment of a running transfer comes in time and a last
//! segment is acknowledged soon after it is clear that none follows; never longer than the fixed timer would wait.
//! Until there is an estimate the ACK goes at once. Gaps longer than the fixed timer are pauses of the application and
//! count for nothing; shorter ones count as twice the estimate at most. A sender with a small window sends two or three
//! segments and pauses for a round trip or a timeout: counted in full, these pauses would bring the timer to where the
//! fixed one is, and the sender's fine timeout would fire before the ACK has left (incast of 64 servers: 395 Mb/s).

use crate::units::{Span, Time};

/// The arrivals of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptive {
    last: Option<Time>,
    /// Smoothed gap in eighths of a nanosecond; 0 before the first.
    gap_8: u64,
}

impl Adaptive {
    /// A data segment arrived. `longest` is what the fixed timer would wait.
    pub fn handle_arrival(&mut self, now: Time, longest: Span) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last).0;
            if gap <= longest.0 {
                let smoothed = self.gap_8 / 8;
                self.gap_8 = match smoothed {
                    0 => (gap * 8).max(8),
                    _ => self.gap_8 - smoothed + gap.min(2 * smoothed),
                };
            }
        }
    }

    /// How long an ACK may wait for a second segment, at most `longest`.
    #[must_use]
    pub fn delay(&self, longest: Span) -> Span {
        Span(self.gap_8 / 4).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Span = Span::millis(40);

    #[test]
    fn the_timer_follows_the_gap_between_segments() {
        let mut adaptive = Adaptive::default();
        assert_eq!(adaptive.delay(FIXED), Span::ZERO, "nothing known: at once");
        let mut now = Time(1);
        for _ in 0..100 {
            adaptive.handle_arrival(now, FIXED);
            now += Span::micros(12);
        }
        assert_eq!(adaptive.delay(FIXED), Span::micros(24));
        for _ in 0..100 {
            now += Span::micros(500);
            adaptive.handle_arrival(now, FIXED);
        }
        let slower = adaptive.delay(FIXED);
        assert!(slower > Span::micros(990) && slower <= Span::millis(1), "{slower}");
    }

    #[test]
    fn pauses_between_small_windows_hardly_count() {
        let mut adaptive = Adaptive::default();
        let mut now = Time(1);
        for _ in 0..200 {
            // Two segments, then a pause of a millisecond.
            adaptive.handle_arrival(now, FIXED);
            now += Span::micros(12);
            adaptive.handle_arrival(now, FIXED);
            now += Span::millis(1);
        }
        assert!(adaptive.delay(FIXED) < Span::micros(200), "{}", adaptive.delay(FIXED));
    }

    #[test]
    fn pauses_do_not_count_and_the_fixed_timer_is_the_bound() {
        let mut adaptive = Adaptive::default();
        for at in [0, 30_000, 60_000, 1_000_000] {
            adaptive.handle_arrival(Time(1) + Span::micros(at), FIXED);
        }
        assert_eq!(adaptive.delay(FIXED), FIXED, "twice 30 ms is too long");
        assert_eq!(adaptive.gap_8, Span::millis(240).0, "940 ms were a pause");
    }
}
