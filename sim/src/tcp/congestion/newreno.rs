//! Congestion avoidance of RFC 5681: one segment per window of acknowledged bytes; half on loss.

use super::Window;

/// Reno's only state: progress towards the next segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    acked: u32,
}

impl NewReno {
    /// Counts acknowledged bytes; each full window of them is worth one segment (RFC 5681 §3.1, byte counting).
    #[inline]
    pub(super) fn avoid(&mut self, window: &mut Window, bytes: u32, mss: u32) {
        self.acked = self.acked.saturating_add(bytes.min(window.cwnd));
        if self.acked >= window.cwnd {
            self.acked -= window.cwnd;
            window.cwnd = window.cwnd.saturating_add(mss);
        }
    }

    /// RFC 5681 Eq. 4: half of what is in flight, at least two segments.
    pub(super) fn after_loss(&mut self, in_flight: u64, mss: u32) -> u32 {
        self.cut(in_flight).max(2 * mss)
    }

    /// Half of what is in flight, however little that is.
    pub(super) fn cut(&mut self, in_flight: u64) -> u32 {
        self.acked = 0;
        u32::try_from(in_flight / 2).unwrap_or(u32::MAX)
    }
}
