//! What a watch saw in the course of time, in so many equal slices that a page can draw them: when there are too many, two become one.

use ackgate_control::units::Span;
use ackgate_linux::watch::Bin;
use ackgate_linux::watch::report::Sums;

/// Slices at most.
const MOST: usize = 600;

/// Sums of slices of time.
#[derive(Debug)]
pub(super) struct Course {
    /// Width of a bin.
    width: Span,
    /// Bins of a slice.
    bins: u64,
    /// Bins of the last slice so far.
    last: u64,
    slices: Vec<Sums>,
}

impl Course {
    pub(super) fn new(width: Span) -> Self {
        Self { width, bins: 1, last: 0, slices: Vec::new() }
    }

    /// The next bin.
    pub(super) fn push(&mut self, bin: &Bin) {
        if self.last == self.bins || self.slices.is_empty() {
            if self.slices.len() == MOST {
                self.slices = self.slices.chunks(2).map(joined).collect();
                self.bins *= 2;
            }
            self.slices.push(Sums::default());
            self.last = 0;
        }
        self.last += 1;
        if let Some(slice) = self.slices.last_mut() {
            slice.add(bin, self.width);
        }
    }

    /// Length of a slice, s.
    pub(super) fn slice_s(&self) -> f64 {
        (self.width.0 * self.bins) as f64 / 1e9
    }

    pub(super) fn slices(&self) -> &[Sums] {
        &self.slices
    }
}

fn joined(slices: &[Sums]) -> Sums {
    slices.iter().fold(Sums::default(), |all, slice| Sums {
        bytes: all.bytes + slice.bytes,
        frames: all.frames + slice.frames,
        marked: all.marked + slice.marked,
        retransmitted_bytes: all.retransmitted_bytes + slice.retransmitted_bytes,
        out_of_order_bytes: all.out_of_order_bytes + slice.out_of_order_bytes,
        stalls: all.stalls + slice.stalls,
        peak_senders: all.peak_senders.max(slice.peak_senders),
        peak_mbps: all.peak_mbps.max(slice.peak_mbps),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_long_it_takes_slices_are_few_and_nothing_is_lost() {
        for bins in [1, 600, 601, 5000, 100_001_u64] {
            let mut course = Course::new(Span::millis(1));
            for number in 0..bins {
                course.push(&Bin { number, bytes: 10, senders: number, stalls: 1, ..Bin::default() });
            }
            let slices = course.slices();
            assert!(slices.len() <= MOST && (bins < 600 || slices.len() > MOST / 2 - 1), "{bins}: {}", slices.len());
            let sum = joined(slices);
            assert_eq!((sum.bytes, sum.stalls, sum.peak_senders), (10 * bins, bins, bins - 1));
            let covered = course.slice_s() * slices.len() as f64 * 1000.0;
            assert!(
                covered >= bins as f64 - 0.5 && covered - course.slice_s() * 1000.0 < bins as f64,
                "{bins}: {covered}"
            );
        }
    }
}
