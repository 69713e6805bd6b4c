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

    /// RFC 5681 Eq. 4.
    pub(super) fn after_loss(&mut self, in_flight: u64, mss: u32) -> u32 {
        self.acked = 0;
        Window::half(in_flight, mss)
    }
}
