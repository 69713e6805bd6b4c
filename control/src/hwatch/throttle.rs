//! Rule 1 (§IV-C): a long flow that sees ECN marks is slowed by the receive window that its sender's TCP is shown.

/// The window of one flow's sender, recomputed once per window of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Throttle {
    limit: Option<u32>,
    acked: u32,
    marked: u32,
}

impl Throttle {
    /// Bytes that the sender may have under way; `None` for no limit.
    pub(super) const fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// `bytes` were newly acknowledged, with ECN-Echo or without.
    pub(super) const fn handle_ack(&mut self, bytes: u32, echo: bool) {
        self.acked = self.acked.saturating_add(bytes);
        if echo {
            self.marked = self.marked.saturating_add(bytes);
        }
    }

    /// A window of data has been acknowledged. With marks in it, the next window is what the batch law sends first,
    /// X_UM + X_M / 2; without, one segment more than it was, up to the receiver's own window of `offered` bytes.
    pub(super) fn handle_round(&mut self, mss: u32, min_window: u32, offered: u32) {
        if self.marked > 0 {
            self.limit = Some((self.acked - self.marked.min(self.acked) / 2).max(min_window * mss));
        } else {
            self.limit = self.limit.map(|limit| limit.saturating_add(mss)).filter(|&limit| limit < offered);
        }
        self.acked = 0;
        self.marked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_take_half_of_what_they_marked_and_their_absence_gives_a_segment() {
        let mut throttle = Throttle::default();
        throttle.handle_ack(10_000, false);
        throttle.handle_round(1_000, 1, 64_000);
        assert_eq!(throttle.limit(), None, "no mark, no limit");
        throttle.handle_ack(6_000, false);
        throttle.handle_ack(4_000, true);
        throttle.handle_round(1_000, 1, 64_000);
        assert_eq!(throttle.limit(), Some(8_000));
        throttle.handle_round(1_000, 1, 64_000);
        assert_eq!(throttle.limit(), Some(9_000));
        throttle.handle_ack(1_000, true);
        throttle.handle_round(1_000, 1, 64_000);
        assert_eq!(throttle.limit(), Some(1_000), "not below one segment");
        throttle.handle_round(1_000, 1, 2_000);
        assert_eq!(throttle.limit(), None, "the receiver's own window is the smaller one again");
    }
}
