//! Rule 1 (§IV-C): a long flow that sees ECN marks is slowed by the receive window that its sender's TCP is shown.
//!
//! What was shown cannot be taken back, and a receiver offers megabytes from the start: a flow could be told to slow
//! down only after it has sent them. So the window is always shown just as far as TCP may need it next, which is twice
//! what is under way (slow start), and marks take effect within two round trips.

/// The window of one flow's sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Throttle {
    /// Rule 1's window; `None` while nothing is marked.
    limit: Option<u32>,
    acked: u32,
    marked: u32,
    /// Bytes acknowledged in the last whole window of data.
    last: u32,
}

impl Throttle {
    /// Bytes that the sender may have under way. `flight` are, beyond the ACK that has just acknowledged `advance`
    /// bytes; a connection that begins may have `initial`.
    pub(super) fn limit(&self, flight: u32, advance: u32, initial: u32) -> u32 {
        let growing = flight.saturating_add(advance.saturating_mul(2));
        let needed = growing.max(self.last.saturating_mul(2)).max(initial);
        self.limit.map_or(needed, |limit| limit.min(needed))
    }

    /// `bytes` were newly acknowledged, with ECN-Echo or without; `flight` are under way beyond them. The first mark
    /// stops growth at once: until the window of data ends, slow start would have doubled once more.
    pub(super) fn handle_ack(&mut self, bytes: u32, echo: bool, flight: u32) {
        self.acked = self.acked.saturating_add(bytes);
        if echo {
            self.marked = self.marked.saturating_add(bytes);
            self.limit.get_or_insert(flight.saturating_add(bytes));
        }
    }

    /// A window of data has been acknowledged. With marks in it, the next window is what the batch law sends first,
    /// X_UM + X_M / 2, or half of what it was where marks `halve`; without, it is one segment more than it was, up to the
    /// `offered` bytes of the receiver's own window.
    pub(super) fn handle_round(&mut self, mss: u32, min_window: u32, offered: u32, halve: bool) {
        if self.marked > 0 {
            let marked = if halve { self.acked } else { self.marked.min(self.acked) };
            self.limit = Some((self.acked - marked / 2).max(min_window * mss));
        } else {
            self.limit = self.limit.map(|limit| limit.saturating_add(mss)).filter(|&limit| limit < offered);
        }
        self.last = self.acked;
        self.acked = 0;
        self.marked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: u32 = 4_000;

    #[test]
    fn marks_take_half_of_what_they_marked_and_their_absence_gives_a_segment() {
        let mut throttle = Throttle::default();
        let mut round = |unmarked, marked| {
            throttle.handle_ack(unmarked, false, 20_000);
            throttle.handle_ack(marked, marked > 0, 20_000);
            throttle.handle_round(1_000, 1, 64_000, false);
            throttle.limit(20_000, 1_000, INITIAL)
        };
        assert_eq!(round(10_000, 0), 22_000, "no mark: as far as slow start may need it");
        assert_eq!(round(6_000, 4_000), 8_000);
        assert_eq!(round(8_000, 0), 9_000);
        assert_eq!(round(0, 1_000), 1_000, "not below one segment");
        assert_eq!(round(500, 0), 2_000);
    }

    #[test]
    fn marks_halve_the_window_where_they_are_told_to() {
        let mut throttle = Throttle::default();
        throttle.handle_ack(6_000, false, 20_000);
        throttle.handle_ack(4_000, true, 20_000);
        throttle.handle_round(1_000, 1, 64_000, true);
        assert_eq!(throttle.limit(20_000, 1_000, INITIAL), 5_000);
    }

    #[test]
    fn the_first_mark_stops_growth_at_once() {
        let mut throttle = Throttle::default();
        throttle.handle_ack(1_000, true, 19_000);
        assert_eq!(throttle.limit(19_000, 1_000, INITIAL), 20_000);
        throttle.handle_round(1_000, 1, 700, false);
        throttle.handle_round(1_000, 1, 700, false);
        assert_eq!(
            throttle.limit(19_000, 1_000, INITIAL),
            21_000,
            "the receiver's own window is the smaller one again"
        );
    }

    #[test]
    fn the_window_is_shown_as_far_as_needed() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.limit(0, 0, INITIAL), INITIAL, "a connection that begins");
        throttle.handle_ack(9_000, false, 0);
        throttle.handle_round(1_000, 1, 64_000, false);
        assert_eq!(throttle.limit(0, 0, INITIAL), 18_000, "after a pause, what was needed before");
        assert_eq!(throttle.limit(30_000, 2_000, INITIAL), 34_000, "slow start");
    }
}
