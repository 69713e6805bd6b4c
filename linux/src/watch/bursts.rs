//! Bursts: stretches of time in which a link is at least half full, and what they lost.

use ackgate_control::units::Span;
use serde::Serialize;

use super::Bin;

/// Bins below the mark that do not end a burst.
const PAUSE: u64 = 1;
/// How long after its end losses still count for a burst: what was lost comes again after a round trip or a timeout.
const AFTERMATH: Span = Span::millis(400);
/// A stretch that lasts longer is told in parts of this length.
const LONGEST: Span = Span::secs(1);

/// One burst.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Burst {
    /// When it began, in seconds after the watch did.
    pub start_s: f64,
    /// How long it lasted, ms.
    pub length_ms: f64,
    /// Wire bytes that arrived.
    pub bytes: u64,
    /// Most connections that data arrived on within one bin.
    pub peak_senders: u64,
    /// Most that arrived within one bin, Mb/s.
    pub peak_mbps: f64,
    /// Frames marked CE.
    pub marked: u64,
    /// Payload bytes that had been lost, in the burst and soon after.
    pub retransmitted_bytes: u64,
    /// Senders that came back as after a retransmission timeout, in the burst and soon after.
    pub stalls: u64,
}

impl Burst {
    /// Whether it lost anything.
    #[must_use]
    pub const fn lost(&self) -> bool {
        self.retransmitted_bytes > 0 || self.stalls > 0
    }
}

/// Finds bursts in a row of bins.
#[derive(Debug)]
pub struct Detector {
    width: Span,
    /// Bytes that half fill a bin, where the link's rate is known.
    given: Option<u64>,
    /// The most that a bin has held.
    most: u64,
    first: Option<u64>,
    /// The burst that is under way, its first bin and its last one above the mark.
    open: Option<(Burst, u64, u64)>,
    /// The burst before, and its last bin.
    past: Option<(Burst, u64)>,
}

impl Detector {
    /// For bins of this width on a link of this rate in Mb/s; without one, the fullest bin so far stands for a full link.
    #[must_use]
    pub fn new(width: Span, rate_mbps: Option<u64>) -> Self {
        let given = rate_mbps.map(|rate| (rate * width.0 / 8000 / 2).max(1));
        Self { width, given, most: 0, first: None, open: None, past: None }
    }

    /// The next bin. Returns a burst when nothing more can be told about it.
    pub fn push(&mut self, bin: &Bin) -> Option<Burst> {
        let first = *self.first.get_or_insert(bin.number);
        self.most = self.most.max(bin.bytes);
        let full = bin.bytes > 0 && bin.bytes >= self.given.unwrap_or(self.most / 2);
        let width = self.width.0;
        let mut done = None;
        if let Some((_, begin, end)) = self.open
            && (bin.number - end > PAUSE + 1 || (bin.number - begin) * width >= LONGEST.0)
        {
            done = self.close();
        }
        // A timeout that ends now began before this burst did.
        if let Some((past, _)) = &mut self.past {
            past.stalls += bin.stalls;
        } else if let Some((open, ..)) = &mut self.open {
            open.stalls += bin.stalls;
        }
        if full {
            let (burst, _, end) = self.open.get_or_insert_with(|| {
                let start_s = ((bin.number - first) * width) as f64 / 1e9;
                (Burst { start_s, ..Burst::default() }, bin.number, bin.number)
            });
            *end = bin.number;
            burst.bytes += bin.bytes;
            burst.marked += bin.marked;
            burst.peak_senders = burst.peak_senders.max(bin.senders);
            burst.peak_mbps = burst.peak_mbps.max(bin.bytes as f64 * 8000.0 / width as f64);
        }
        if let Some((open, ..)) = &mut self.open {
            open.retransmitted_bytes += bin.retransmitted_bytes;
        } else if let Some((past, end)) = &mut self.past {
            past.retransmitted_bytes += bin.retransmitted_bytes;
            if (bin.number - *end) * width >= AFTERMATH.0 {
                done = done.or_else(|| self.past.take().map(|(past, _)| past));
            }
        }
        done
    }

    /// Ends the burst that is under way; returns the one before it.
    fn close(&mut self) -> Option<Burst> {
        let (mut burst, begin, end) = self.open.take()?;
        burst.length_ms = ((end + 1 - begin) * self.width.0) as f64 / 1e6;
        self.past.replace((burst, end)).map(|(past, _)| past)
    }

    /// What is left when no bin follows.
    pub fn finish(&mut self) -> Vec<Burst> {
        let before = self.close();
        before.into_iter().chain(self.past.take().map(|(past, _)| past)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bins of 1 ms of a link of 100 Mb/s: 12 500 bytes are full.
    fn detect(bins: &[Bin]) -> Vec<Burst> {
        let mut detector = Detector::new(Span::millis(1), Some(100));
        let mut found = Vec::new();
        for (number, bin) in bins.iter().enumerate() {
            found.extend(detector.push(&Bin { number: 1000 + number as u64, ..*bin }));
        }
        found.extend(detector.finish());
        found
    }

    const FULL: Bin = Bin {
        number: 0,
        bytes: 12_500,
        frames: 9,
        senders: 7,
        marked: 1,
        stalls: 0,
        retransmitted_bytes: 0,
        out_of_order_bytes: 0,
    };

    fn empty(count: usize) -> Vec<Bin> {
        vec![Bin::default(); count]
    }

    #[test]
    fn a_stretch_of_full_bins_is_one_burst() {
        let bins = [empty(3), vec![FULL; 5], empty(1), vec![FULL; 2], empty(10)].concat();
        let found = detect(&bins);
        assert_eq!(found.len(), 1, "{found:?}");
        let burst = &found[0];
        assert_eq!((burst.start_s, burst.length_ms, burst.bytes), (0.003, 8.0, 7 * 12_500));
        assert_eq!((burst.peak_senders, burst.peak_mbps, burst.marked, burst.lost()), (7, 100.0, 7, false));
    }

    #[test]
    fn what_comes_again_soon_after_was_lost_in_the_burst_before() {
        let again = Bin { retransmitted_bytes: 3000, bytes: 3000, ..Bin::default() };
        let returns = Bin { stalls: 2, ..FULL };
        let bins =
            [vec![FULL; 5], empty(3), vec![again], empty(200), vec![returns, FULL], empty(1000), vec![FULL], empty(9)];
        let found = detect(&bins.concat());
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!((found[0].retransmitted_bytes, found[0].stalls), (3000, 2));
        assert!(!found[1].lost() && !found[2].lost(), "{found:?}");
    }

    #[test]
    fn a_link_that_is_always_full_is_told_in_parts() {
        let found = detect(&vec![FULL; 2500]);
        assert_eq!(found.iter().map(|burst| burst.length_ms).collect::<Vec<_>>(), [1000.0, 1000.0, 500.0]);
    }

    #[test]
    fn without_a_rate_the_fullest_bin_stands_for_a_full_link() {
        let mut detector = Detector::new(Span::millis(1), None);
        let bin = |number, bytes| Bin { number, bytes, ..Bin::default() };
        let found: Vec<Burst> =
            [bin(1, 1000), bin(2, 300), bin(3, 300), bin(4, 600)].iter().filter_map(|bin| detector.push(bin)).collect();
        assert_eq!(found, []);
        let found = detector.finish();
        assert_eq!(found.iter().map(|burst| burst.bytes).collect::<Vec<_>>(), [1000, 600]);
    }
}
