//! Pacing: segments leave at a rate, burst by burst, and not as soon as the windows let them, as Linux does inside TCP
//! (`tcp_internal_pacing`) or in the `fq` queueing discipline.

use super::Sender;
use crate::engine::{PS_PER_SEC, Ps};
use crate::tcp::config::TcpConfig;

/// A burst is what the rate carries in 2^-10 s (`tcp_tso_autosize`) ...
const BURSTS_PER_SEC: u64 = 1 << 10;
/// ... and no more than segmentation offload takes at once, bytes.
const LARGEST_BURST: u64 = 65_000;
/// Bytes a second from which on a burst has two segments at least (`bbr_min_tso_segs`).
const SLOW: u64 = 1_200_000 / 8;

/// Segments of a burst at `rate` bytes a second.
pub(in crate::tcp) fn burst(rate: u64, mss: u32) -> u32 {
    let bytes = (rate / BURSTS_PER_SEC).min(LARGEST_BURST);
    let least = if rate < SLOW { 1 } else { 2 };
    u32::try_from(bytes / u64::from(mss.max(1))).unwrap_or(u32::MAX).max(least)
}

/// When a sender may send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Bytes a second; 0 while nothing is known of the path.
    pub(super) rate: u64,
    /// When the next burst may begin.
    next: Ps,
    /// When the present one began, and how many segments it has left.
    began: Ps,
    left: u32,
}

impl Pace {
    /// Whether a segment may leave now.
    fn admits(&mut self, now: Ps, mss: u32) -> bool {
        if self.rate == 0 {
            return true;
        }
        if now >= self.next {
            self.began = now;
            self.left = burst(self.rate, mss);
        }
        self.left > 0 && now == self.began
    }

    /// Bytes leave.
    fn handle_sent(&mut self, now: Ps, bytes: u64) {
        if self.rate > 0 {
            self.left = self.left.saturating_sub(1);
            let takes = u128::from(bytes) * u128::from(PS_PER_SEC) / u128::from(self.rate);
            self.next = self.next.max(now) + Ps(u64::try_from(takes).unwrap_or(u64::MAX));
        }
    }
}

impl Sender {
    /// Whether the pace lets a segment leave now; else it is noted when.
    #[inline(never)]
    pub(super) fn has_pace(&mut self, now: Ps, config: &TcpConfig) -> bool {
        let Some(pace) = &mut self.pace else { return true };
        let admits = pace.admits(now, config.mss);
        self.pace_at = if admits { Ps::NEVER } else { pace.next };
        admits
    }

    /// A segment of `bytes` leaves.
    pub(super) fn note_pace(&mut self, now: Ps, bytes: u64) {
        if let Some(pace) = &mut self.pace {
            pace.handle_sent(now, bytes);
        }
    }

    /// An ACK was taken in by a sender whose congestion control has no rate of its own: twice the window in a round trip while
    /// that doubles, and 1.2 times afterwards (`tcp_update_pacing_rate`). What is in flight counts where losses have cut the window below.
    #[inline(never)]
    pub(super) fn pace_by_window(&mut self, config: &TcpConfig) {
        let (srtt, window) = (self.srtt(), u64::from(self.window.cwnd).max(self.in_flight()));
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
        let Some(pace) = self.pace.as_mut().filter(|_| srtt > Ps::ZERO) else { return };
        let rate = u128::from(window.max(u64::from(config.mss))) * u128::from(PS_PER_SEC) * percent
            / (100 * u128::from(srtt.0));
        pace.rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
    }
}

#[cfg(test)]
mod tests {
    use ackgate_control::units::Span;

    use super::*;
    use crate::scenario::{Scenario, Tcp};
    use crate::tcp::congestion::Window;

    #[test]
    fn a_burst_is_a_millisecond_of_the_rate_within_bounds() {
        assert_eq!(burst(100_000, 1_448), 1);
        assert_eq!(burst(1_000_000, 1_448), 2);
        assert_eq!(burst(25_000_000, 1_448), 16);
        assert_eq!(burst(1_250_000_000, 1_448), 44);
    }

    #[test]
    fn the_rate_is_twice_the_window_in_a_round_trip_and_a_fifth_more_later() {
        let scenario = Scenario::default();
        let tcp = Tcp { pacing: true, ..Tcp::default() };
        let config = TcpConfig::new(&scenario, &tcp);
        let mut sender = Sender::new(&config, 0);
        let rate = |sender: &mut Sender| {
            sender.pace_by_window(&config);
            sender.pace.as_ref().map_or(0, |pace| pace.rate)
        };
        sender.window = Window { cwnd: 100_000, ssthresh: u32::MAX };
        assert_eq!(rate(&mut sender), 0, "no round trip is known");
        sender.rto.handle_sample(&config.rto, Span::millis(10));
        assert_eq!(rate(&mut sender), 20_000_000);
        sender.window.ssthresh = 200_000;
        assert_eq!(rate(&mut sender), 12_000_000);
        // What is in flight counts, and a segment in any case.
        sender.nxt = 50_000;
        sender.window.cwnd = 0;
        assert_eq!(rate(&mut sender), 10_000_000);
        sender.nxt = 0;
        assert_eq!(rate(&mut sender), u64::from(config.mss) * 200);
    }

    #[test]
    fn bursts_follow_each_other_at_the_rate() {
        // 12.5 MB/s: 8 segments of 1448 bytes, which take 926.72 us.
        let mut pace = Pace { rate: 12_500_000, ..Pace::default() };
        let mut sent = |now: Ps| {
            let mut segments = 0;
            while pace.admits(now, 1_448) {
                pace.handle_sent(now, 1_448);
                segments += 1;
            }
            segments
        };
        assert_eq!(sent(Ps::ZERO), 8);
        assert_eq!(sent(Ps::micros(926)), 0);
        assert_eq!(sent(Ps::micros(927)), 8);
    }

    #[test]
    fn what_a_burst_has_left_is_not_sent_later() {
        let mut pace = Pace { rate: 12_500_000, ..Pace::default() };
        assert!(pace.admits(Ps::ZERO, 1_448));
        pace.handle_sent(Ps::ZERO, 1_448);
        assert!(!pace.admits(Ps::micros(50), 1_448));
        assert!(pace.admits(Ps::micros(116), 1_448));
    }
}
