//! What a load measured, in the units that the papers plot.

use serde::Serialize;

use super::counters::SenderCounters;

/// Percentiles of a set of durations, in milliseconds. All are 0 for an empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half were no longer than this.
    pub p50: f64,
    /// 99 of 100 were no longer than this.
    pub p99: f64,
    /// 999 of 1000 were no longer than this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    /// Exact nearest-rank percentiles of durations in microseconds, which are sorted in place.
    #[must_use]
    pub fn of_micros(micros: &mut [u64]) -> Self {
        micros.sort_unstable();
        let Some(&max) = micros.last() else { return Self::default() };
        let ms = |us: u64| us as f64 / 1e3;
        let sum: u128 = micros.iter().map(|&us| u128::from(us)).sum();
        Self {
            p50: ms(nearest_rank(micros, 500)),
            p99: ms(nearest_rank(micros, 990)),
            p999: ms(nearest_rank(micros, 999)),
            max: ms(max),
            mean: sum as f64 / micros.len() as f64 / 1e3,
        }
    }
}

/// The smallest value that at least `permille` of 1000 of the sorted values do not exceed; 0 when there are none.
#[must_use]
pub fn nearest_rank(sorted: &[u64], permille: u32) -> u64 {
    let rank = (sorted.len() * permille as usize).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// The middle value; the mean of the two middle ones when their number is even; 0 when there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// One barrier-synchronised round.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// From 0, warm-up not counted.
    pub index: u32,
    /// From the first request to the last byte, in milliseconds.
    pub ms: f64,
    /// What the senders counted in it.
    pub senders: SenderCounters,
}

/// What a load measured.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// Connections that took part in every round.
    pub connections: usize,
    /// Addresses they were spread over.
    pub servers: usize,
    /// Rounds measured.
    pub rounds: u32,
    /// Rounds asked for; more than `rounds` when the deadline passed first.
    pub rounds_asked: u32,
    /// Payload received in the measured rounds, in bytes.
    pub bytes: u64,
    /// Length of the measured rounds together, in seconds; what lies between rounds is not counted.
    pub seconds: f64,
    /// `bytes` over `seconds`, in megabits per second.
    pub goodput_mbps: f64,
    /// Measured rounds in which a retransmission timer fired at a sender.
    pub rounds_with_timeout: u32,
    /// Timers that fired at the senders in the measured rounds.
    pub rto_timeouts: u64,
    /// Segments that the senders sent again.
    pub retransmits: u64,
    /// Everything that the senders counted in the measured rounds.
    pub senders: SenderCounters,
    /// Mean congestion window after the last round, in segments.
    pub cwnd_mean: f64,
    /// Mean smoothed round-trip time at the senders after the last round, in microseconds.
    pub srtt_us_mean: f64,
    /// Lengths of the rounds.
    pub round_ms: Quantiles,
    /// Completion times of the single transfers, each from its own request to its last byte.
    pub flow_ms: Quantiles,
    /// Each round.
    pub per_round: Vec<Round>,
}

impl LoadReport {
    /// Puts the rounds together. `flow_micros` has one completion time per connection and round.
    #[must_use]
    pub fn new(
        connections: usize,
        servers: usize,
        rounds_asked: u32,
        bytes_per_round: u64,
        per_round: Vec<Round>,
        flow_micros: &mut [u64],
    ) -> Self {
        let seconds: f64 = per_round.iter().map(|r| r.ms).sum::<f64>() / 1e3;
        let rounds = u32::try_from(per_round.len()).unwrap_or(u32::MAX);
        let bytes = bytes_per_round * u64::from(rounds);
        let state = per_round.last().map_or_else(SenderCounters::default, |r| r.senders);
        let mut senders = per_round.iter().fold(SenderCounters::default(), |sum, r| sum.plus(r.senders, false));
        (senders.connections, senders.cwnd_sum, senders.srtt_us_sum) =
            (state.connections, state.cwnd_sum, state.srtt_us_sum);
        let mean = |sum: u64| if state.connections == 0 { 0.0 } else { sum as f64 / state.connections as f64 };
        let mut round_micros: Vec<u64> = per_round.iter().map(|r| micros(r.ms)).collect();
        Self {
            connections,
            servers,
            rounds,
            rounds_asked,
            bytes,
            seconds,
            goodput_mbps: if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 },
            rounds_with_timeout: per_round.iter().filter(|r| r.senders.rto_timeouts > 0).count() as u32,
            rto_timeouts: senders.rto_timeouts,
            retransmits: senders.retransmits,
            senders,
            cwnd_mean: mean(state.cwnd_sum),
            srtt_us_mean: mean(state.srtt_us_sum),
            round_ms: Quantiles::of_micros(&mut round_micros),
            flow_ms: Quantiles::of_micros(flow_micros),
            per_round,
        }
    }
}

#[expect(clippy::cast_sign_loss, reason = "a round's length is not negative")]
fn micros(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_hundred() {
        let mut micros: Vec<u64> = (1..=100).rev().map(|ms| ms * 1000).collect();
        let quantiles = Quantiles::of_micros(&mut micros);
        assert_eq!(quantiles, Quantiles { p50: 50.0, p99: 99.0, p999: 100.0, max: 100.0, mean: 50.5 });
        assert_eq!(Quantiles::of_micros(&mut []), Quantiles::default());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn goodput_counts_the_rounds_and_not_the_pauses() {
        let round = |index, ms, rto_timeouts| Round {
            index,
            ms,
            senders: SenderCounters { rto_timeouts, connections: 2, cwnd_sum: 20, ..Default::default() },
        };
        let report =
            LoadReport::new(2, 1, 3, 125_000, vec![round(0, 1.0, 0), round(1, 9.0, 2)], &mut [500, 1000, 700, 9000]);
        assert_eq!((report.rounds, report.rounds_asked, report.rounds_with_timeout, report.rto_timeouts), (2, 3, 1, 2));
        assert!((report.goodput_mbps - 200.0).abs() < 1e-9, "{}", report.goodput_mbps);
        assert_eq!((report.cwnd_mean, report.senders.connections), (10.0, 2));
        assert_eq!(report.flow_ms.max, 9.0);
    }

    proptest! {
        #[test]
        fn a_percentile_is_a_member_and_leaves_enough_below(mut values in proptest::collection::vec(any::<u64>(), 1..200), permille in 1u32..=1000) {
            values.sort_unstable();
            let p = nearest_rank(&values, permille);
            prop_assert!(values.contains(&p));
            let below = values.iter().filter(|&&v| v <= p).count();
            prop_assert!(below * 1000 >= values.len() * permille as usize);
        }
    }
}
