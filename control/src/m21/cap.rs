//! The sender's part of M21TCP-A: what the number of senders allows (§IV.3, Eq. 1), and whose turn it is when that is
//! less than one segment each.

use crate::error::ConfigError;
use crate::units::{Rate, Span, Time};

/// MHS of Eq. 1: least IP and TCP header, "usually" 42 bytes (§IV.3).
pub const MINIMUM_HEADER: u32 = 42;

/// What one sender may have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// No number of senders is known: no cap.
    Unlimited,
    /// At most this many bytes of payload in the congestion window; at least one segment.
    Window(u32),
    /// One segment at a time, and only in each so many round trips.
    Every(Rounds),
}

/// A number of round trips above one: the load of all senders, one segment each, in buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    load: u64,
    buffer: u32,
    drain: Span,
}

impl Rounds {
    /// The time between two segments of one sender, with a round-trip time of `rtt`: twice the round trips, so that
    /// half of the buffer is left for what chance puts together, and not so short that all together fill the link.
    #[must_use]
    pub fn period(self, rtt: Span) -> Span {
        let round = rtt.0.saturating_mul(2).max(self.drain.0);
        let time = u128::from(round) * u128::from(self.load) / u128::from(self.buffer);
        Span(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// The cap of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    buffer: u32,
    header: u32,
    drain: Span,
    senders: u32,
}

impl Cap {
    /// A cap for a switch port of `buffer` bytes (B) and headers of `header` bytes (MHS), at a sender whose own link
    /// has `rate`.
    ///
    /// # Errors
    /// When no packet would fit.
    pub const fn new(buffer: u32, header: u32, rate: Rate) -> Result<Self, ConfigError> {
        if buffer <= header {
            return Err(ConfigError("the buffer must hold more than one header"));
        }
        // An eighth more: frames have longer headers than MHS, and a link that is used to the full keeps its queue.
        let drain = rate.time_for(buffer as u64 + buffer as u64 / 8);
        Ok(Self { buffer, header, drain, senders: 0 })
    }

    /// The least time that all senders' segments take for each buffer of them ([`Rounds::period`]).
    #[must_use]
    pub const fn drain(&self) -> Span {
        self.drain
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
        let load = (mss as u64 + self.header as u64) * self.senders as u64;
        if load <= self.buffer as u64 {
            return Allowance::Window(mss);
        }
        Allowance::Every(Rounds { load, buffer: self.buffer, drain: self.drain })
    }
}

/// When a sender below one segment per round trip may send its next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    sent: Option<Time>,
    turn: Option<Time>,
}

impl Turns {
    /// When the next segment may leave: a `period` after the last. A sender that was silent for longer, or sends for
    /// the first time, gets a random turn within that time; `random` is uniform over all of `u32`. The answer stays the
    /// same until the segment is sent.
    pub fn next(&mut self, now: Time, period: Span, random: u32) -> Time {
        if let Some(turn) = self.turn {
            return turn;
        }
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
        let mut cap = Cap::new(65_536, MINIMUM_HEADER, Rate(1_000_000_000)).unwrap();
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

    fn period(senders: u32, rtt: Span) -> Span {
        match cap(senders) {
            Allowance::Every(rounds) => rounds.period(rtt),
            other => panic!("{senders} senders have {other:?}"),
        }
    }

    #[test]
    fn below_one_segment_the_cap_becomes_a_rate() {
        let rtt = Span::millis(1);
        let buffers = |senders: u64, time: Span| Span(senders * 618 * time.0 / 65_536);
        assert_eq!(period(107, rtt), buffers(107, rtt * 2), "twice 1.009 round trips");
        assert_eq!(period(1_600, rtt), buffers(1_600, rtt * 2), "twice 15.1, where Eq. 1 is negative");
        let drain = Rate(1_000_000_000).time_for(65_536 + 8_192);
        assert_eq!(period(212, Span::micros(1)), buffers(212, drain), "no faster than the link");
        assert!(Cap::new(42, 42, Rate(1)).is_err());
    }

    #[test]
    fn turns_keep_their_distance_and_begin_at_random() {
        let (period, mut turns) = (Span::micros(400), Turns::default());
        let first = turns.next(Time(1_000), period, 1 << 31);
        assert_eq!(first, Time(1_000) + Span::micros(200), "half of the period");
        assert_eq!(turns.next(Time(2_000), Span(1), 0), first, "it stays");
        turns.handle_sent(first);
        assert_eq!(turns.next(first + Span(1), period, u32::MAX), first + period);
        turns.handle_sent(first + period);
        let late = first + Span::millis(9);
        assert_eq!(turns.next(late, period, 0), late);
    }

    proptest! {
        /// The purpose of Eq. 1: what all senders may have in the buffer at once fits.
        #[test]
        fn the_shares_fit_the_buffer(buffer in 3_000u32..10_000_000, mss in 88u32..1_461, senders in 1u32..100_000) {
            let mut cap = Cap::new(buffer, MINIMUM_HEADER, Rate(1_000_000_000)).unwrap();
            cap.handle_ack(senders);
            match cap.allowance(mss) {
                Allowance::Unlimited => prop_assert!(false, "the number is known"),
                Allowance::Window(bytes) => {
                    prop_assert!(bytes >= mss);
                    prop_assert!(u64::from(bytes + MINIMUM_HEADER) * u64::from(senders) <= u64::from(buffer));
                }
                Allowance::Every(rounds) => {
                    let load = u64::from(mss + MINIMUM_HEADER) * u64::from(senders);
                    let rtt = Span::secs(1);
                    prop_assert!(load > u64::from(buffer));
                    let per_round = u128::from(load) * u128::from(rtt.0) / u128::from(rounds.period(rtt).0);
                    prop_assert!(per_round <= u128::from(buffer) / 2 + 1);
                }
            }
        }
    }
}
