//! When a sender gives up waiting: the retransmission timeout of RFC 6298, with the settings that the incast papers
//! change (Vasudevan et al. §5: floor, clock granularity, randomisation). Integers only; the caller brings the random
//! number, so that a real host and the simulator run the same code.

use crate::units::Span;

/// A half, as [`RtoConfig::spread`] counts.
pub const HALF: u32 = 1 << 15;

/// How a retransmission timeout is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// Before the first measurement (RFC 6298 §2.1: 1 s).
    pub initial: Span,
    /// Never shorter than this (RTOmin; 200 ms in Linux and BSD).
    pub floor: Span,
    /// Never longer than this, back-off included (RFC 6298 §2.5: at least 60 s).
    pub ceiling: Span,
    /// Tick of the clock that measures and times out: samples and timeouts are rounded up to whole ticks, and it is
    /// the `G` of RFC 6298 §2.3. At least 1 ns.
    pub granularity: Span,
    /// Least value of the `4 * RTTVAR` term. A kernel that keeps RTTVAR in whole jiffies never goes below four of them,
    /// which is why an RTOmin of one jiffy gave timeouts of five (Vasudevan §6).
    pub variance_floor: Span,
    /// Back-off doubles at most this often (Vasudevan §7: 64 times the RTO, so 6).
    pub max_doublings: u8,
    /// Largest random lengthening of a timeout, in 2^-16 of itself: [`HALF`] gives `RTO + rand(0.5) * RTO`
    /// (Vasudevan §5), so that flows that lost together do not return together. 0 for none, at most 2^16.
    pub spread: u32,
    /// What that lengthens.
    pub spreads: Spreads,
    /// Bimodal operation (Vasudevan §5): what holds where the path is not a data centre's.
    pub coarse: Option<Coarse>,
    /// How the deviation is estimated.
    pub estimator: Estimator,
}

/// Where the random part of a timeout enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spreads {
    /// Every timeout, by a part of what it has backed off to.
    #[default]
    Each,
    /// Only those that have not backed off.
    First,
    /// Every timeout, by a part of what it was before it backed off.
    Base,
}

/// How a sender estimates how much the round-trip time varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimator {
    /// By a moving average (RFC 6298 §2.3); the floor holds for the whole timeout.
    #[default]
    Rfc6298,
    /// As Linux (Sarolahti and Kuznetsov, "Congestion Control in Linux TCP", USENIX 2002, §4): the variance term is the
    /// largest of the last window, comes down by at most a quarter in each window, and itself is never below the floor,
    /// so that a timeout is SRTT and at least RTOmin; a round-trip time far below SRTT hardly counts as deviation. Callers
    /// say when a window is over, by [`Rto::handle_window`].
    Linux,
}

/// Timeouts of connections with a long round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarse {
    /// Smoothed round-trip time from which a connection counts as one.
    pub from: Span,
    /// Their RTOmin.
    pub floor: Span,
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self {
            initial: Span::secs(1),
            floor: Span::millis(200),
            ceiling: Span::secs(60),
            granularity: Span::nanos(1),
            variance_floor: Span::ZERO,
            max_doublings: 6,
            spread: 0,
            spreads: Spreads::Each,
            coarse: None,
            estimator: Estimator::Rfc6298,
        }
    }
}

/// Round-trip estimate and back-off of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rto {
    /// SRTT in eighths of a nanosecond; 0 before the first sample.
    srtt_8: u64,
    /// RTTVAR in quarters of a nanosecond.
    rttvar_4: u64,
    /// With [`Estimator::Linux`]: the largest `rttvar_4` of the present window, and the variance term.
    peak_4: u64,
    held_4: u64,
    doublings: u8,
}

impl Rto {
    /// Takes in a round-trip time. It must not come from a retransmitted segment unless a timestamp tells which copy
    /// was answered (Karn's rule, RFC 6298 §3).
    pub fn handle_sample(&mut self, config: &RtoConfig, rtt: Span) {
        let tick = config.granularity.0.max(1);
        let rtt = if tick == 1 { rtt.0.max(1) } else { rtt.0.div_ceil(tick).max(1) * tick };
        if self.srtt_8 == 0 {
            // §2.2: SRTT = R, RTTVAR = R/2.
            self.srtt_8 = rtt * 8;
            self.rttvar_4 = rtt * 2;
        } else if config.estimator == Estimator::Linux {
            self.deviate(rtt);
        } else {
            // §2.3: beta = 1/4, alpha = 1/8, RTTVAR first.
            let deviation = (self.srtt_8 / 8).abs_diff(rtt);
            self.rttvar_4 = self.rttvar_4 - self.rttvar_4 / 4 + deviation;
            self.srtt_8 = self.srtt_8 - self.srtt_8 / 8 + rtt;
        }
        if config.estimator == Estimator::Linux {
            self.peak_4 = self.peak_4.max(self.rttvar_4);
            self.held_4 = self.held_4.max(self.peak_4);
        }
    }

    /// Gains as in RFC 6298, but what is below SRTT raises the deviation by an eighth of what it else would: an RTT that
    /// falls is no reason for a longer timeout.
    fn deviate(&mut self, rtt: u64) {
        let mean = self.srtt_8 / 8;
        let (deviation, average) = (mean.abs_diff(rtt), self.rttvar_4 / 4);
        self.rttvar_4 = match deviation.checked_sub(average) {
            None => self.rttvar_4 - (average - deviation),
            Some(more) if rtt < mean => self.rttvar_4 + more / 8,
            Some(more) => self.rttvar_4 + more,
        };
        self.srtt_8 = self.srtt_8 - mean + rtt;
    }

    /// What was outstanding when this was last called has been acknowledged; for [`Estimator::Linux`].
    pub fn handle_window(&mut self) {
        self.held_4 -= self.held_4.saturating_sub(self.peak_4) / 4;
        self.peak_4 = 0;
    }

    /// New data was acknowledged: back-off ends.
    pub fn handle_progress(&mut self) {
        self.doublings = 0;
    }

    /// The timer fired: the next timeout is twice as long (§5.5).
    pub fn handle_timeout(&mut self, config: &RtoConfig) {
        self.doublings = (self.doublings + 1).min(config.max_doublings);
    }

    /// Whether the timer has fired since the last progress.
    #[must_use]
    pub fn backed_off(&self) -> bool {
        self.doublings > 0
    }

    /// Smoothed round-trip time, `None` before the first sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Span> {
        (self.srtt_8 > 0).then_some(Span(self.srtt_8 / 8))
    }

    /// Time from now until the timer fires. `random` is uniform over all of `u32`; it is only looked at when
    /// [`RtoConfig::spread`] is not 0.
    #[must_use]
    pub fn timeout(&self, config: &RtoConfig, random: u32) -> Span {
        let coarse = config.coarse.filter(|coarse| self.srtt_8 / 8 >= coarse.from.0);
        let floor = coarse.map_or(config.floor.0, |coarse| coarse.floor.0.max(config.floor.0));
        let variance = match config.estimator {
            Estimator::Rfc6298 => self.rttvar_4,
            Estimator::Linux => self.held_4.max(floor),
        };
        let base = if self.srtt_8 == 0 {
            config.initial.0
        } else {
            self.srtt_8 / 8 + variance.max(config.granularity.0).max(config.variance_floor.0)
        };
        let tick = config.granularity.0.max(1);
        let base = if tick == 1 { base } else { base.div_ceil(tick) * tick };
        let backed_off = base.max(floor).saturating_mul(1 << self.doublings.min(16)).min(config.ceiling.0);
        let lengthened = match config.spreads {
            Spreads::Each => backed_off,
            Spreads::First if self.doublings > 0 => 0,
            Spreads::First | Spreads::Base => base.max(floor),
        };
        if config.spread > 0 {
            let extra = (u128::from(lengthened) * u128::from(config.spread) * u128::from(random)) >> 48;
            Span(backed_off.saturating_add(u64::try_from(extra).unwrap_or(u64::MAX)))
        } else {
            Span(backed_off)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_FLOOR: RtoConfig = RtoConfig {
        initial: Span::secs(1),
        floor: Span::ZERO,
        ceiling: Span::secs(60),
        granularity: Span::nanos(1),
        variance_floor: Span::ZERO,
        max_doublings: 6,
        spread: 0,
        spreads: Spreads::Each,
        coarse: None,
        estimator: Estimator::Rfc6298,
    };

    const LINUX: RtoConfig = RtoConfig { estimator: Estimator::Linux, floor: Span::micros(200), ..NO_FLOOR };

    #[test]
    fn first_sample_gives_three_round_trips() {
        let mut rto = Rto::default();
        assert_eq!(rto.timeout(&NO_FLOOR, 0), Span::secs(1));
        rto.handle_sample(&NO_FLOOR, Span::micros(100));
        assert_eq!(rto.srtt(), Some(Span::micros(100)));
        assert_eq!(rto.timeout(&NO_FLOOR, 0), Span::micros(300));
    }

    #[test]
    fn steady_samples_bring_it_down_to_the_round_trip() {
        let mut rto = Rto::default();
        for _ in 0..100 {
            rto.handle_sample(&NO_FLOOR, Span::micros(100));
        }
        assert!(rto.timeout(&NO_FLOOR, 0) < Span::micros(101));
        assert_eq!(rto.timeout(&RtoConfig::default(), 0), Span::millis(200));
    }

    #[test]
    fn one_jiffy_of_floor_gives_five_jiffies_of_timeout() {
        // Vasudevan §6: HZ = 1000, RTOmin of one jiffy, real round trips far below it.
        let jiffies = RtoConfig {
            floor: Span::millis(1),
            granularity: Span::millis(1),
            variance_floor: Span::millis(4),
            ..NO_FLOOR
        };
        let mut rto = Rto::default();
        for _ in 0..50 {
            rto.handle_sample(&jiffies, Span::micros(100));
        }
        assert_eq!(rto.timeout(&jiffies, 0), Span::millis(5));
    }

    #[test]
    fn the_random_part_is_of_each_timeout_of_the_first_or_of_what_does_not_back_off() {
        let most = |spreads: Spreads| {
            let config = RtoConfig { spread: HALF, spreads, ..RtoConfig::default() };
            let mut rto = Rto::default();
            rto.handle_sample(&config, Span::micros(100));
            [0, 1, 2].map(|_| {
                let timeout = rto.timeout(&config, u32::MAX);
                rto.handle_timeout(&config);
                // To the nearest millisecond: a draw stays just below its bound.
                Span((timeout.0 + 500_000) / 1_000_000 * 1_000_000)
            })
        };
        assert_eq!(most(Spreads::Each), [300, 600, 1_200].map(Span::millis));
        assert_eq!(most(Spreads::First), [300, 400, 800].map(Span::millis));
        assert_eq!(most(Spreads::Base), [300, 500, 900].map(Span::millis));
    }

    #[test]
    fn back_off_doubles_up_to_64_times_and_ends_with_progress() {
        let config = RtoConfig::default();
        let mut rto = Rto::default();
        rto.handle_sample(&config, Span::micros(100));
        let mut seen = [Span::ZERO; 8];
        for slot in &mut seen {
            rto.handle_timeout(&config);
            *slot = rto.timeout(&config, 0);
        }
        assert_eq!(seen, [400, 800, 1_600, 3_200, 6_400, 12_800, 12_800, 12_800].map(Span::millis));
        assert!(rto.backed_off());
        rto.handle_progress();
        assert_eq!(rto.timeout(&config, 0), Span::millis(200));
    }

    #[test]
    fn in_linux_the_floor_is_the_variance_terms() {
        let mut rto = Rto::default();
        for _ in 0..100 {
            rto.handle_sample(&LINUX, Span::micros(100));
            rto.handle_window();
        }
        assert_eq!(rto.timeout(&LINUX, 0), Span::micros(300));
    }

    #[test]
    fn in_linux_a_spike_is_forgotten_by_a_quarter_in_a_window() {
        let mut rto = Rto::default();
        rto.handle_sample(&LINUX, Span::micros(100));
        rto.handle_window();
        rto.handle_sample(&LINUX, Span::millis(4));
        let spike = rto.timeout(&LINUX, 0);
        assert!(spike > Span::millis(4), "{spike:?}");
        // Many samples of the same window change nothing but SRTT; that of RFC 6298 has long forgotten.
        for _ in 0..40 {
            rto.handle_sample(&LINUX, Span::micros(100));
        }
        assert!(rto.timeout(&LINUX, 0) > Span::millis(3), "{:?}", rto.timeout(&LINUX, 0));
        rto.handle_window();
        let mut last = rto.timeout(&LINUX, 0);
        for _ in 0..20 {
            rto.handle_sample(&LINUX, Span::micros(100));
            rto.handle_window();
            let timeout = rto.timeout(&LINUX, 0);
            assert!(timeout <= last && timeout.0 * 4 >= last.0 * 3 - 400_000, "{timeout:?} after {last:?}");
            last = timeout;
        }
        assert!(last < Span::micros(350), "{last:?}");
    }

    #[test]
    fn in_linux_a_falling_round_trip_time_lengthens_nothing() {
        let (mut linux, mut rfc) = (Rto::default(), Rto::default());
        for rtt in [Span::millis(1); 50].into_iter().chain([Span::micros(50)]) {
            linux.handle_sample(&LINUX, rtt);
            linux.handle_window();
            rfc.handle_sample(&NO_FLOOR, rtt);
        }
        assert!(rfc.timeout(&NO_FLOOR, 0) > Span::micros(1_800), "{:?}", rfc.timeout(&NO_FLOOR, 0));
        assert!(linux.timeout(&LINUX, 0) < Span::micros(1_200), "{:?}", linux.timeout(&LINUX, 0));
    }

    #[test]
    fn bimodal_operation_is_fine_in_the_data_centre_and_coarse_beyond() {
        // Vasudevan §5: microseconds for extremely low round-trip times, the usual floor in the wide area.
        let coarse = Some(Coarse { from: Span::millis(1), floor: Span::millis(200) });
        let config = RtoConfig { coarse, ..NO_FLOOR };
        let timeout = |rtt| {
            let mut rto = Rto::default();
            rto.handle_sample(&config, rtt);
            rto.timeout(&config, 0)
        };
        assert_eq!(timeout(Span::micros(100)), Span::micros(300));
        assert_eq!(timeout(Span::millis(1)), Span::millis(200));
        assert_eq!(timeout(Span::millis(100)), Span::millis(300));
    }

    proptest! {
        #[test]
        fn randomised_timeouts_lie_within_half_an_rto(random: u32, sample in 1u64..1_000_000_000) {
            let config = RtoConfig { spread: HALF, ..RtoConfig::default() };
            let mut rto = Rto::default();
            rto.handle_sample(&config, Span(sample));
            let base = rto.timeout(&config, 0);
            let timeout = rto.timeout(&config, random);
            prop_assert!(timeout >= base && timeout.0 < base.0 + base.0.div_ceil(2));
        }

        #[test]
        fn never_outside_floor_and_ceiling(samples in prop::collection::vec(0u64..100_000_000_000, 0..30), fired in 0usize..20) {
            let config = RtoConfig::default();
            let mut rto = Rto::default();
            for sample in samples {
                rto.handle_sample(&config, Span(sample));
            }
            for _ in 0..fired {
                rto.handle_timeout(&config);
            }
            let timeout = rto.timeout(&config, 0);
            prop_assert!(timeout >= config.floor && timeout <= config.ceiling);
        }
    }
}
