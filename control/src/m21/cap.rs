//! The sender's part of M21TCP-A: what the number of senders allows (§IV.3, Eq. 1), and whose turn it is when that is
//! less than one segment each.

use core::fmt;

use crate::units::{Span, Time};

/// MHS of Eq. 1: least IP and TCP header, "usually" 42 bytes (§IV.3).
pub const MINIMUM_HEADER: u32 = 42;

/// A value that makes no sense, in words for the person who set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError(pub &'static str);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for ConfigError {}

/// What one sender may have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// No number of senders is known: no cap.
    Unlimited,
    /// At most this many bytes of payload in the congestion window; at least one segment.
    Window(u32),
    /// One segment at a time, and one in every so many round trips; at least 2.
    OneIn(u32),
}

/// The cap of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    buffer: u32,
    header: u32,
    senders: u32,
}

impl Cap {
    /// A cap for a switch port of `buffer` bytes (B) and headers of `header` bytes (MHS).
    ///
    /// # Errors
    /// When no packet would fit.
    pub const fn new(buffer: u32, header: u32) -> Result<Self, ConfigError> {
        if buffer <= header {
            return Err(ConfigError("the buffer must hold more than one header"));
        }
        Ok(Self { buffer, header, senders: 0 })
    }

    /// An ACK echoes this number of senders; 0 when it echoes none. It is "valid for the next RTT" (§IV.1): until the
    /// next ACK says otherwise.
    pub fn handle_ack(&mut self, senders: u32) {
        if senders > 0 {
            self.senders = senders;
        }
    }

    /// Eq. 1: `(B - MHS·N) / N`, in bytes of payload, for segments of `mss` bytes.
    #[must_use]
    pub const fn allowance(&self, mss: u32) -> Allowance {
        if self.senders == 0 {
            return Allowance::Unlimited;
        }
        let share = self.buffer / self.senders;
        if share >= self.header + mss {
            return Allowance::Window(share - self.header);
        }
        // Here (MSS + MHS)·N > B - N, so the quotient is at least 1, and more than 1 unless B barely does not suffice.
        let load = (mss as u64 + self.header as u64) * self.senders as u64;
        let rounds = load.div_ceil(self.buffer as u64);
        match rounds {
            0 | 1 => Allowance::Window(mss),
            2..=0xffff_ffff => Allowance::OneIn(rounds as u32),
            _ => Allowance::OneIn(u32::MAX),
        }
    }
}

/// When a sender below one segment per round trip may send its next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    sent: Option<Time>,
    turn: Option<Time>,
}

impl Turns {
    /// When the next segment may leave, `rounds` round trips of `rtt` after the last; a sender that was silent for longer,
    /// or sends for the first time, gets a random turn within that time. `random` is uniform over all of `u32`. The
    /// answer stays the same until the segment is sent.
    pub fn next(&mut self, now: Time, rtt: Span, rounds: u32, random: u32) -> Time {
        if let Some(turn) = self.turn {
            return turn;
        }
        let period = rtt * u64::from(rounds);
        let turn = match self.sent {
            Some(sent) if now.since(sent) < period => sent + period,
            _ => {
                let part = (u128::from(period.0) * u128::from(random)) >> 32;
                now + Span(u64::try_from(part).unwrap_or(u64::MAX))
            }
        };
        self.turn = Some(turn);
        turn
    }

    /// A new segment left.
    pub fn handle_sent(&mut self, now: Time) {
        *self = Self { sent: Some(now), turn: None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cap(senders: u32) -> Allowance {
        let mut cap = Cap::new(65_536, MINIMUM_HEADER).unwrap();
        cap.handle_ack(senders);
        cap.allowance(576)
    }

    #[test]
    fn equation_1_at_the_papers_settings() {
        // B = 64 KB, MSS = 576 (Fig. 3).
        assert_eq!(cap(0), Allowance::Unlimited);
        assert_eq!(cap(8), Allowance::Window(8_150));
        assert_eq!(cap(16), Allowance::Window(4_054));
        assert_eq!(cap(32), Allowance::Window(2_006));
        assert_eq!(cap(48), Allowance::Window(1_323));
        assert_eq!(cap(64), Allowance::Window(982));
        assert_eq!(cap(106), Allowance::Window(576));
    }

    #[test]
    fn below_one_segment_the_cap_becomes_a_rate() {
        assert_eq!(cap(107), Allowance::OneIn(2));
        assert_eq!(cap(212), Allowance::OneIn(2));
        assert_eq!(cap(213), Allowance::OneIn(3));
        assert_eq!(cap(1_600), Allowance::OneIn(16), "where Eq. 1 is negative");
        assert!(Cap::new(42, 42).is_err());
    }

    #[test]
    fn turns_keep_their_distance_and_begin_at_random() {
        let (rtt, mut turns) = (Span::micros(100), Turns::default());
        let first = turns.next(Time(1_000), rtt, 4, 1 << 31);
        assert_eq!(first, Time(1_000) + Span::micros(200), "half of the period");
        assert_eq!(turns.next(Time(2_000), rtt, 9, 0), first, "it stays");
        turns.handle_sent(first);
        assert_eq!(turns.next(first + Span(1), rtt, 4, u32::MAX), first + Span::micros(400));
        turns.handle_sent(first + Span::micros(400));
        let late = first + Span::millis(9);
        assert_eq!(turns.next(late, rtt, 4, 0), late);
    }

    proptest! {
        /// The purpose of Eq. 1: what all senders may have in the buffer at once fits.
        #[test]
        fn the_shares_fit_the_buffer(buffer in 3_000u32..10_000_000, mss in 88u32..1_461, senders in 1u32..100_000) {
            let mut cap = Cap::new(buffer, MINIMUM_HEADER).unwrap();
            cap.handle_ack(senders);
            match cap.allowance(mss) {
                Allowance::Unlimited => prop_assert!(false, "the number is known"),
                Allowance::Window(bytes) => {
                    prop_assert!(bytes >= mss);
                    prop_assert!(u64::from(bytes + MINIMUM_HEADER) * u64::from(senders) <= u64::from(buffer));
                }
                Allowance::OneIn(rounds) => {
                    let load = u64::from(mss + MINIMUM_HEADER) * u64::from(senders);
                    prop_assert!(rounds >= 2 && load <= u64::from(rounds) * u64::from(buffer));
                }
            }
        }
    }
}
