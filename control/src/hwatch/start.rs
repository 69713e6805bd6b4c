//! Rule 2 (§IV-C): the receive window of a connection that begins, by the batch law.

use crate::seq::SeqNumber;

/// The start of one connection, as its receiver's host sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// First byte of data; `None` without a limit.
    origin: Option<SeqNumber>,
    /// Bytes of the first and the second burst.
    first: u32,
    second: u32,
}

impl Start {
    /// No probe was marked: the initial window of `first` bytes may come at once, and the window is TCP's own.
    pub(super) const fn unlimited(first: u32) -> Self {
        Self { origin: None, first, second: 0 }
    }

    /// `first` bytes from `origin`, then `second`.
    pub(super) const fn limited(origin: SeqNumber, first: u32, second: u32) -> Self {
        Self { origin: Some(origin), first, second }
    }

    /// Whether the probes have been judged.
    pub(super) const fn is_known(&self) -> bool {
        self.first > 0
    }

    /// Bytes of the first burst.
    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    /// Bytes that the sender may have under way beyond `ack`: the first burst until it is acknowledged, with the second
    /// let go as that happens; then the second, growing from there as slow start does.
    pub(super) fn limit(&mut self, ack: SeqNumber, mss: u32) -> Option<u32> {
        let acked = ack.ahead_of(self.origin?);
        if acked > LONG {
            // Before sequence numbers wrap, and long after the start.
            self.origin = None;
            return None;
        }
        Some(if acked < self.first {
            self.first.min(self.first + self.second - acked).max(mss)
        } else {
            self.second.max(acked - self.first).max(mss)
        })
    }
}

/// Bytes after which a start is over, whatever the window.
const LONG: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_burst_follows_the_acknowledgements_of_the_first() {
        let mut start = Start::limited(SeqNumber(1), 8_000, 2_000);
        let edges =
            [0, 1_000, 2_000, 4_000, 7_000].map(|acked| acked + start.limit(SeqNumber(1 + acked), 1_000).unwrap());
        assert_eq!(edges, [8_000, 9_000, 10_000, 10_000, 10_000]);
        let limits = [8_000, 10_000, 11_000, 14_000].map(|acked| start.limit(SeqNumber(1 + acked), 1_000).unwrap());
        assert_eq!(limits, [2_000, 2_000, 3_000, 6_000], "slow start goes on from the second burst");
        assert_eq!(start.limit(SeqNumber(1 + LONG + 1), 1_000), None);
        assert_eq!(start.limit(SeqNumber(1), 1_000), None, "over is over");
    }

    #[test]
    fn never_less_than_a_segment() {
        let mut start = Start::limited(SeqNumber(1), 1_000, 0);
        assert_eq!(start.limit(SeqNumber(1_001), 1_000), Some(1_000));
    }
}
