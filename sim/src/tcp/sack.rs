//! The sender's SACK scoreboard (RFC 6675): what the receiver has beyond the cumulative ACK, what is therefore lost, and
//! how much is in the network.
//!
//! With FACK (Mathis and Mahdavi, SIGCOMM 1996, as in Linux until 3.1) holes count as much as what has arrived above them.
//! With RACK (RFC 8985) a segment is lost when one that was sent later has arrived. RACK compares times and leaves room for
//! reordering; paths keep the order here, so that the order of sending says the same: among first transmissions that of
//! the offsets, in recovery that of [`Scoreboard::note_sent`].

use std::collections::VecDeque;

/// Duplicate ACKs that mean a loss (RFC 5681 §2).
pub(super) const DUP_THRESH: u32 = 3;

/// Ranges that were selectively acknowledged, in order and disjoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    ranges: Vec<(u64, u64)>,
    /// Retransmitted in this recovery up to here (HighRxt).
    pub(super) high_rxt: u64,
    /// The end of what was outstanding in the recovery that had a rescue retransmission (RescueRxt), 0 when none had.
    pub(super) rescue_rxt: u64,
    losses: Losses,
    /// First offset not acknowledged.
    una: u64,
    /// What was sent in this recovery and not heard of, in order of sending; with FACK and RACK.
    sent: VecDeque<Sent>,
    /// First transmissions below this were sent before something that has arrived.
    overtaken: u64,
    /// What is missing below is on its way again.
    repaired: u64,
    /// What blocks have told since this was last settled lies within.
    news: (u64, u64),
}

/// How losses are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Losses {
    /// By counting what has arrived above (RFC 6675).
    #[default]
    Counting,
    /// By the highest that has arrived.
    Fack,
    /// By the order of sending (RFC 8985).
    Rack,
}

/// A piece sent in recovery.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    /// After the highest offset that had been sent by then.
    max: u64,
}

impl Scoreboard {
    /// An empty one.
    pub(super) fn new(losses: Losses) -> Self {
        Self { losses, ..Self::default() }
    }

    /// A recovery begins: nothing has been sent in it. With RACK what was sent in the one before is on its way all the same: its end may have
    /// come while later losses were known and repaired.
    pub(super) fn begin_recovery(&mut self, una: u64) {
        if self.losses == Losses::Rack {
            self.sent.retain(|sent| sent.end > una);
        } else {
            self.begin(una);
        }
    }

    /// Whether what begins at `offset` was sent again, and has not been found lost since.
    pub(super) fn is_sent_again(&self, offset: u64) -> bool {
        self.sent_again(offset).is_some()
    }

    /// As what, the latest first.
    fn sent_again(&self, offset: u64) -> Option<Sent> {
        self.sent.iter().rev().find(|sent| sent.start <= offset && offset < sent.end).copied()
    }

    /// A timeout: all that was sent is lost.
    pub(super) fn begin(&mut self, una: u64) {
        self.high_rxt = una;
        self.rescue_rxt = 0;
        self.overtaken = 0;
        self.repaired = 0;
        self.sent.clear();
    }

    /// Something was sent in recovery, when everything below `max` had been sent once.
    pub(super) fn note_sent(&mut self, start: u64, end: u64, max: u64) {
        if self.tracks() {
            self.sent.push_back(Sent { start, end, max });
        }
    }

    /// After an ACK: what was sent before something that it tells of, and is still missing, was lost (again). Returns
    /// whether there is any.
    pub(super) fn settle(&mut self, una: u64, mss: u32) -> bool {
        // What is not among the news was looked at before.
        let news = std::mem::take(&mut self.news);
        let is_news = |sent: &Sent| sent.start < news.1 && news.0 < sent.end;
        let heard_of =
            |sent: &Sent| sent.end <= una || (is_news(sent) && self.hole(sent.start, sent.end).0 >= sent.end);
        if self.losses == Losses::Fack {
            // As Linux: a segment has arrived that begins above all that had been sent by then.
            let lost = |sent: &Sent| self.highest() > sent.max + u64::from(mss);
            let (before, kept): (usize, VecDeque<Sent>) =
                (self.sent.len(), self.sent.iter().filter(|sent| !heard_of(sent)).copied().collect());
            let left: VecDeque<Sent> = kept.iter().filter(|sent| !lost(sent)).copied().collect();
            let again = left.len() < kept.len();
            if again {
                self.repaired = 0;
            }
            if left.len() < before {
                self.sent = left;
            }
            return again;
        }
        let heard = self.sent.iter().rposition(heard_of).map_or(0, |last| last + 1);
        // What lies above all that had been sent by then was sent later, too, after the recovery perhaps.
        let highest = self.highest();
        let overtaken = heard.max(self.sent.partition_point(|sent| sent.max < highest));
        let Some(last) = overtaken.checked_sub(1) else { return false };
        let lost = self.sent.iter().take(overtaken).filter(|sent| !heard_of(sent)).map(|sent| sent.start).min();
        self.repaired = self.repaired.min(lost.unwrap_or(u64::MAX));
        self.overtaken = self.sent[last].max;
        self.sent.drain(..=last);
        lost.is_some()
    }

    /// The next piece, of at most a segment, that was lost and is not on its way again.
    pub(super) fn next_lost(&mut self, una: u64, mss: u32) -> Option<(u64, u64)> {
        self.next_missing(una, self.lost_below(mss), mss)
    }

    /// The same of what is missing below `limit`, lost or not.
    pub(super) fn next_missing(&mut self, una: u64, limit: u64, mss: u32) -> Option<(u64, u64)> {
        loop {
            let (start, hole_end) = self.hole(self.repaired.max(una), limit);
            if start >= hole_end {
                return None;
            }
            match self.sent_again(start) {
                Some(sent) => self.repaired = sent.end,
                None => return Some((start, hole_end.min(start + u64::from(mss)))),
            }
        }
    }

    /// Whether it is remembered what was sent in recovery.
    pub(super) fn tracks(&self) -> bool {
        self.losses != Losses::Counting
    }

    /// Whether losses are found by FACK.
    pub(super) fn is_fack(&self) -> bool {
        self.losses == Losses::Fack
    }

    /// Whether nothing is known to have arrived out of order.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Takes in a block; returns whether it told anything new.
    pub(super) fn insert(&mut self, una: u64, start: u64, end: u64) -> bool {
        let start = start.max(una);
        if start >= end {
            return false;
        }
        let first = self.ranges.partition_point(|range| range.1 < start);
        let mut merged = (start, end);
        let mut last = first;
        let mut covered = 0;
        while let Some(&range) = self.ranges.get(last) {
            if range.0 > end {
                break;
            }
            covered += range.1 - range.0;
            merged = (merged.0.min(range.0), merged.1.max(range.1));
            last += 1;
        }
        let new = merged.1 - merged.0 > covered;
        if new {
            self.ranges.splice(first..last, [merged]);
            self.news = if self.news.1 == 0 { (start, end) } else { (self.news.0.min(start), self.news.1.max(end)) };
        }
        new
    }

    /// Forgets what the cumulative ACK covers.
    pub(super) fn advance(&mut self, una: u64) {
        self.una = una;
        let gone = self.ranges.partition_point(|range| range.1 <= una);
        self.ranges.drain(..gone);
        if let Some(first) = self.ranges.first_mut()
            && first.0 < una
        {
            first.0 = una;
        }
    }

    /// Bytes selectively acknowledged below `limit`.
    pub(super) fn bytes_below(&self, limit: u64) -> u64 {
        self.ranges.iter().take_while(|range| range.0 < limit).map(|range| range.1.min(limit) - range.0).sum()
    }

    /// The first hole at or after `from`: where it begins and where it ends (`limit` when nothing follows).
    pub(super) fn hole(&self, from: u64, limit: u64) -> (u64, u64) {
        let mut start = from;
        let first = self.ranges.partition_point(|range| range.1 <= from);
        for range in &self.ranges[first..] {
            if range.0 > start {
                return (start, range.0.min(limit));
            }
            start = range.1;
        }
        (start, limit)
    }

    /// The last hole below `limit`, which is empty when all from `una` on was selectively acknowledged.
    pub(super) fn last_hole(&self, una: u64, limit: u64) -> (u64, u64) {
        match self.ranges.as_slice() {
            [.., last] if last.1 < limit => (last.1, limit),
            [.., before, last] => (before.1, last.0),
            [last] => (una, last.0),
            [] => (una, limit),
        }
    }

    /// What is not acknowledged below this is lost (IsLost, RFC 6675 §4): three ranges, or more than two segments'
    /// bytes, lie above it; with FACK, all but the three segments up to the highest that has arrived; with RACK, anything.
    pub(super) fn lost_below(&self, mss: u32) -> u64 {
        match self.losses {
            Losses::Rack => return self.ranges.last().map_or(0, |range| range.0).max(self.overtaken),
            Losses::Fack => {
                let segments = self.highest().saturating_sub(self.una).div_ceil(u64::from(mss));
                let lost = segments.saturating_sub(u64::from(DUP_THRESH));
                return if lost > 0 { self.una + lost * u64::from(mss) } else { 0 };
            }
            Losses::Counting => {}
        }
        let mut above = 0;
        for (count, range) in (1..).zip(self.ranges.iter().rev()) {
            above += range.1 - range.0;
            if count >= DUP_THRESH || above > u64::from((DUP_THRESH - 1) * mss) {
                return range.0;
            }
        }
        0
    }

    /// Highest offset selectively acknowledged; 0 when none.
    pub(super) fn highest(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.1)
    }

    /// Bytes in the network (SetPipe, RFC 6675 §4).
    pub(super) fn pipe(&self, una: u64, max: u64, mss: u32) -> u64 {
        let lost_below = self.lost_below(mss);
        let mut pipe = 0;
        // Where retransmissions are remembered, what is lost counts for nothing.
        let mut at = if self.tracks() { una.max(lost_below) } else { una };
        while at < max {
            let (start, end) = self.hole(at, max);
            if start >= end {
                break;
            }
            // Not lost: still on its way. Retransmitted: on its way (again).
            pipe += end - start.max(lost_below).min(end);
            if !self.tracks() {
                pipe += end.min(self.high_rxt).saturating_sub(start);
            }
            at = end;
        }
        // FACK sends again what is not lost, too: then both are on their way.
        let below = if self.is_fack() { max } else { lost_below };
        pipe + self.sent.iter().map(|sent| sent.end.min(below).saturating_sub(sent.start.max(una))).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 100;

    fn board(ranges: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(start, end) in ranges {
            board.insert(0, start, end);
        }
        board
    }

    #[test]
    fn a_hole_is_lost_when_three_segments_lie_above() {
        assert_eq!(board(&[(200, 300)]).lost_below(MSS), 0);
        assert_eq!(board(&[(200, 500)]).lost_below(MSS), 200);
        assert_eq!(board(&[(200, 210), (300, 310), (400, 410)]).lost_below(MSS), 200);
    }

    #[test]
    fn pipe_counts_what_is_not_lost_and_what_was_sent_again() {
        // Holes: 0..200 lost, 500..600 not.
        let mut board = board(&[(200, 500)]);
        assert_eq!(board.pipe(0, 600, MSS), 100);
        board.high_rxt = 100;
        assert_eq!(board.pipe(0, 600, MSS), 200);
    }

    #[test]
    fn the_last_hole_is_behind_the_last_range_or_before_it() {
        assert_eq!(board(&[]).last_hole(100, 600), (100, 600));
        assert_eq!(board(&[(200, 500)]).last_hole(100, 600), (500, 600));
        assert_eq!(board(&[(200, 600)]).last_hole(100, 600), (100, 200));
        assert_eq!(board(&[(200, 300), (500, 600)]).last_hole(100, 600), (300, 500));
    }

    proptest! {
        /// Against the obvious model: one flag for each byte.
        #[test]
        fn knows_each_byte(blocks in prop::collection::vec((0u64..300, 1u64..60), 0..20), una in 0u64..300, rxt in 0u64..400) {
            let mut board = Scoreboard::default();
            let mut bytes = vec![false; 400];
            for (start, len) in blocks {
                let end = (start + len).min(400);
                let new = board.insert(0, start, end);
                let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                prop_assert_eq!(new, bytes[range.clone()].iter().any(|sacked| !sacked));
                bytes[range].fill(true);
            }
            board.advance(una);
            board.high_rxt = rxt;
            let from = usize::try_from(una).unwrap();
            prop_assert_eq!(board.bytes_below(400), bytes[from..].iter().filter(|sacked| **sacked).count() as u64);
            let lost = board.lost_below(MSS);
            let pipe = (una..400).filter(|at| !bytes[usize::try_from(*at).unwrap()]).map(|at| u64::from(at >= lost) + u64::from(at < rxt)).sum::<u64>();
            prop_assert_eq!(board.pipe(una, 400, MSS), pipe);
        }
    }
}
