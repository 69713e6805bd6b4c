//! CUBIC (RFC 9438), in integers: the curve of the real algorithm without the platform's floating-point library.

use super::{Acked, Window};
use crate::engine::{PS_PER_SEC, Ps};

/// Time is counted in 2^-14 s (61 us): a cube of it still fits 64 bits.
const TICKS_PER_SEC: u64 = 1 << 14;
/// 64 s; further from the inflection point the curve is not followed.
const MAX_TICKS: i64 = 1 << 20;
/// beta_cubic = 0.7 (§4.6).
const BETA: (u64, u64) = (7, 10);
/// alpha_cubic = 3 (1 - beta) / (1 + beta) = 9/17 (§4.3).
const ALPHA: (u64, u64) = (9, 17);

/// Where a connection is on its curve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// Window at the last reduction, in bytes; 0 before the first.
    w_max: u32,
    /// Window just before the last reduction.
    cwnd_prior: u32,
    /// Start of the present growth, once it has begun.
    epoch: Option<Ps>,
    /// Ticks from the epoch to the inflection point.
    k: i64,
    /// What Reno would have by now, in bytes.
    w_est: u32,
    /// Remainders of growth below a byte or a segment.
    est_acked: u64,
    cwnd_acked: u64,
}

impl Cubic {
    pub(super) fn avoid(&mut self, window: &mut Window, acked: &Acked, mss: u32) {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(window, acked.now, mss);
                acked.now
            }
        };
        let bytes = u64::from(acked.bytes.min(window.cwnd));
        self.follow_reno(window, bytes, mss);
        // §4.2: the target is the curve one RTT from now, within [cwnd, 1.5 cwnd].
        let ticks = ticks(acked.now - epoch + acked.srtt);
        let cubic_now = self.curve(ticks_i64(acked.now - epoch), mss);
        if cubic_now < u64::from(self.w_est) {
            // §4.3: Reno-friendly region.
            window.cwnd = window.cwnd.max(self.w_est);
            return;
        }
        let ahead = self.curve(i64::try_from(ticks).unwrap_or(MAX_TICKS), mss);
        let cwnd = u64::from(window.cwnd);
        let target = ahead.clamp(cwnd, cwnd + cwnd / 2);
        // §4.4, §4.5: by (target - cwnd) / cwnd for each segment acknowledged.
        self.cwnd_acked += (target - cwnd) * bytes;
        let step = self.cwnd_acked / cwnd;
        self.cwnd_acked -= step * cwnd;
        window.cwnd = window.cwnd.saturating_add(u32::try_from(step).unwrap_or(u32::MAX));
    }

    /// A new growth begins (§4.2): K = cbrt((W_max - cwnd) / C) with C = 0.4 segments per s^3.
    fn begin(&mut self, window: &Window, now: Ps, mss: u32) {
        self.epoch = Some(now);
        self.w_max = self.w_max.max(window.cwnd);
        let below = u64::from(self.w_max - window.cwnd);
        let cubed = u128::from(below) * 5 * u128::from(TICKS_PER_SEC).pow(3) / (2 * u128::from(mss.max(1)));
        self.k = i64::try_from(cube_root(cubed)).unwrap_or(MAX_TICKS);
        self.w_est = window.cwnd;
        self.est_acked = 0;
        self.cwnd_acked = 0;
    }

    /// §4.3: W_est grows by alpha segments per window, by one once it has regained what was lost.
    fn follow_reno(&mut self, window: &Window, bytes: u64, mss: u32) {
        let (rise, per) = if self.w_est < self.cwnd_prior { ALPHA } else { (1, 1) };
        self.est_acked += bytes * u64::from(mss) * rise;
        let unit = u64::from(window.cwnd) * per;
        let step = self.est_acked / unit;
        self.est_acked -= step * unit;
        self.w_est = self.w_est.saturating_add(u32::try_from(step).unwrap_or(u32::MAX));
    }

    /// W_cubic(t) = C (t - K)^3 + W_max (§4.2 Eq. 1), in bytes.
    fn curve(&self, ticks: i64, mss: u32) -> u64 {
        let t = (ticks - self.k).clamp(-MAX_TICKS, MAX_TICKS);
        // |t|^3 is below 2^60; shifted by 2 * 14 bits before the multiplication and 14 after it.
        let cubed = (t * t * t) >> 20;
        let bytes = (i128::from(cubed) * i128::from(mss) * 2 / 5) >> 22;
        let window = i128::from(self.w_max) + bytes;
        u64::try_from(window.max(0)).unwrap_or(u64::MAX)
    }

    /// §4.6: multiplicative decrease, to two segments at least.
    pub(super) fn after_loss(&mut self, window: &Window, mss: u32) -> u32 {
        self.cut(window).max(2 * mss)
    }

    /// §4.6 and §4.7: multiplicative decrease with fast convergence, however small the window.
    pub(super) fn cut(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        self.cwnd_prior = window.cwnd;
        self.w_max = if window.cwnd < self.w_max {
            u32::try_from(u64::from(window.cwnd) * (BETA.0 + BETA.1) / (2 * BETA.1)).unwrap_or(u32::MAX)
        } else {
            window.cwnd
        };
        u32::try_from(u64::from(window.cwnd) * BETA.0 / BETA.1).unwrap_or(u32::MAX)
    }

    /// §4.8: as after a loss; growth after slow start begins at the window that slow start reached.
    pub(super) fn after_timeout(&mut self, window: &Window, mss: u32) -> u32 {
        let ssthresh = self.after_loss(window, mss);
        self.w_max = 0;
        ssthresh
    }
}

fn ticks(span: Ps) -> u64 {
    let (secs, rest) = (span.0 / PS_PER_SEC, span.0 % PS_PER_SEC);
    secs * TICKS_PER_SEC + rest / (PS_PER_SEC / TICKS_PER_SEC)
}

fn ticks_i64(span: Ps) -> i64 {
    i64::try_from(ticks(span)).unwrap_or(MAX_TICKS)
}

/// Largest integer whose cube is not above `n`.
fn cube_root(n: u128) -> u64 {
    let mut root = 0u128;
    for bit in (0..42).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= n {
            root = candidate;
        }
    }
    u64::try_from(root).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_460;

    #[test]
    fn cube_roots_are_rounded_down() {
        for (n, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000_000_000, 10_000)] {
            assert_eq!(cube_root(n), root, "{n}");
        }
    }

    /// A reduction from `w_max` segments, then an ACK for a full window every RTT for `secs`.
    fn grow(w_max: u32, rtt: Ps, secs: f64) -> (Cubic, Window) {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: w_max * MSS, ssthresh: 0 };
        window.cwnd = cubic.after_loss(&window, MSS);
        window.ssthresh = window.cwnd;
        let mut now = Ps::ZERO;
        while now.as_secs_f64() < secs {
            for _ in 0..window.cwnd / MSS {
                let acked = Acked { now, bytes: MSS, ece: false, srtt: rtt };
                cubic.avoid(&mut window, &acked, MSS);
            }
            now += rtt;
        }
        (cubic, window)
    }

    #[test]
    fn the_window_follows_the_real_curve() {
        // RFC 9438 §4.2: W_cubic(t) = 0.4 (t - K)^3 + W_max, K = cbrt(W_max (1 - 0.7) / 0.4).
        let w_max = 1_000.0f64;
        let k = (w_max * 0.3 / 0.4).cbrt();
        for secs in [1.0, 4.0, k, 12.0] {
            let (_, window) = grow(1_000, Ps::millis(100), secs);
            let expected = 0.4 * (secs - k).powi(3) + w_max;
            let segments = f64::from(window.cwnd) / f64::from(MSS);
            assert!((segments - expected).abs() < 0.02 * expected, "{segments} is not {expected} after {secs} s");
        }
    }

    #[test]
    fn in_a_data_centre_it_is_as_fast_as_reno() {
        // RFC 9438 §4.3: at 100 us the curve hardly moves in a second; Reno regains 3 segments of 10 in about six RTTs.
        let (_, window) = grow(10, Ps::micros(100), 0.000_9);
        assert!(window.cwnd >= 10 * MSS, "{}", window.cwnd / MSS);
    }

    #[test]
    fn a_second_loss_below_the_first_makes_room() {
        let mut cubic = Cubic::default();
        cubic.after_loss(&Window { cwnd: 100 * MSS, ssthresh: 0 }, MSS);
        cubic.after_loss(&Window { cwnd: 80 * MSS, ssthresh: 0 }, MSS);
        assert_eq!(cubic.w_max / MSS, 80 * 17 / 20);
    }
}
