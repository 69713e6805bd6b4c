//! The token bucket that paces SYN-ACKs (§IV-D), kept as the time at which it will be full again.

use crate::units::{Rate, Span, Time};

/// Tokens are bytes of the bursts that SYN-ACKs invite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    depth: Span,
    full_at: Time,
}

impl Bucket {
    /// A full bucket that fills at `rate` and holds what that gives in `depth`.
    pub(super) const fn new(rate: Rate, depth: Span) -> Self {
        Self { rate, depth, full_at: Time::ZERO }
    }

    /// Takes `bytes` out and returns when they are there: `now` if they are. What costs more than the bucket holds goes
    /// when the bucket is full, and the next waits for it.
    pub(super) fn take(&mut self, now: Time, bytes: u32) -> Time {
        let cost = self.rate.time_for(u64::from(bytes));
        let full_at = self.full_at.max(now) + cost;
        let at = Time(full_at.0.saturating_sub(self.depth.0.max(cost.0))).max(now);
        self.full_at = full_at;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_up_to_the_depth_then_the_rate() {
        // 1 Gb/s: 6250 bytes in 50 us.
        let mut bucket = Bucket::new(Rate(1_000_000_000), Span::micros(50));
        let now = Time(1_000_000);
        let waits = [0; 5].map(|_| bucket.take(now, 3_125).since(now));
        assert_eq!(waits, [0, 0, 25, 50, 75].map(Span::micros));
        let later = now + Span::secs(1);
        assert_eq!(bucket.take(later, 3_125), later, "it fills again, but only to its depth");
        assert_eq!(bucket.take(later, 12_500).since(later), Span::micros(25), "more than it holds: when it is full");
        assert_eq!(bucket.take(later, 3_125).since(later), Span::micros(100));
    }
}
