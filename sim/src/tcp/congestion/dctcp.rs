//! DCTCP (RFC 8257): the window is cut in proportion to the fraction of marked bytes.

use super::newreno::NewReno;
use super::{Acked, Window};
use crate::tcp::config::TcpConfig;

/// One, as alpha is kept.
const ONE: u64 = 1 << 16;

/// Estimate of the marked fraction; growth and loss are Reno's (§3.4).
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    pub(super) reno: NewReno,
    /// Smoothed marked fraction in 2^-16.
    alpha: u32,
    acked: u32,
    marked: u32,
    /// An observation window ends when this is acknowledged.
    window_end: u64,
}

impl Default for Dctcp {
    /// Alpha starts at one (§4.2): the first mark halves the window.
    fn default() -> Self {
        Self { reno: NewReno::default(), alpha: ONE as u32, acked: 0, marked: 0, window_end: 0 }
    }
}

impl Dctcp {
    /// §3.3 steps 1 to 8: once per window of data, `alpha = (1 - g) alpha + g F`.
    #[inline]
    pub(super) fn observe(&mut self, acked: &Acked, una: u64, nxt: u64, config: &TcpConfig) {
        self.acked = self.acked.saturating_add(acked.bytes);
        if acked.ece {
            self.marked = self.marked.saturating_add(acked.bytes);
        }
        if una <= self.window_end {
            return;
        }
        let fraction = u64::from(self.marked) * ONE / u64::from(self.acked.max(1));
        let gain = u64::from(config.dctcp_gain);
        let alpha = (u64::from(self.alpha) * (ONE - gain) + fraction * gain) / ONE;
        self.alpha = u32::try_from(alpha.min(ONE)).unwrap_or(u32::MAX);
        self.acked = 0;
        self.marked = 0;
        self.window_end = nxt;
    }

    /// §3.3 step 9: `cwnd * (1 - alpha / 2)`.
    pub(super) fn after_ece(&mut self, window: &Window, config: &TcpConfig) -> u32 {
        let cut = u64::from(window.cwnd) * u64::from(self.alpha) / (2 * ONE);
        window.cwnd.saturating_sub(u32::try_from(cut).unwrap_or(u32::MAX)).max(config.dctcp_min)
    }
}
