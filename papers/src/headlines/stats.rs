//! Intervals of 95 % confidence over the seeds, each by the method that fits what is measured.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// Share of intervals that hold the truth.
pub const CONFIDENCE: f64 = 0.95;

/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 2_000;

/// Least and largest value that the seeds leave possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { low: f64::NAN, high: f64::NAN };

    /// The mean of normally distributed values: Student's t.
    #[must_use]
    pub fn of_mean(values: &[f64]) -> Self {
        let count = count(values.len());
        if values.len() < 2 {
            return Self::UNKNOWN;
        }
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::NAN, |t| t.inverse_cdf(0.5 + CONFIDENCE / 2.0));
        let half = t * (variance / count).sqrt();
        Self { low: mean - half, high: mean + half }
    }

    /// The median: order statistics of the values, the narrowest pair that holds it with enough confidence.
    #[must_use]
    pub fn of_median(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let Ok(coin) = Binomial::new(0.5, n as u64) else { return Self::UNKNOWN };
        // The k-th from below and above leave 2 P(X < k) out.
        let k = (1..=n / 2).rev().find(|k| 2.0 * coin.cdf(*k as u64 - 1) <= 1.0 - CONFIDENCE);
        k.map_or(Self::UNKNOWN, |k| Self { low: sorted[k - 1], high: sorted[n - k] })
    }

    /// A share of `hits` among `all`, in percent, exactly (Clopper and Pearson).
    #[must_use]
    pub fn of_share(hits: f64, all: f64) -> Self {
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let beta = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |beta| 100.0 * beta.inverse_cdf(p));
        let low = if hits <= 0.0 { 0.0 } else { beta(hits, all - hits + 1.0, tail) };
        let high = if hits >= all { 100.0 } else { beta(hits + 1.0, all - hits, 1.0 - tail) };
        Self { low, high }
    }

    /// Anything else: the percentiles of what resamples of the seeds give, for `count` quantities at once. All quantities
    /// of a resample have the same seeds, so that ratios and differences are paired.
    pub fn of_resamples(seeds: usize, count: usize, mut values: impl FnMut(&[usize]) -> Vec<f64>) -> Vec<Self> {
        if seeds < 2 {
            return vec![Self::UNKNOWN; count];
        }
        // The same resamples for every rule and on every machine.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0x6163_6b67_6174_6521);
        let mut drawn = vec![Vec::with_capacity(RESAMPLES); count];
        for _ in 0..RESAMPLES {
            for (all, value) in drawn.iter_mut().zip(values(&resample(&mut random, seeds))) {
                all.push(value);
            }
        }
        drawn.into_iter().map(Self::of_percentiles).collect()
    }

    fn of_percentiles(mut values: Vec<f64>) -> Self {
        if values.iter().any(|value| value.is_nan()) {
            return Self::UNKNOWN;
        }
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and their number")]
        let at = |share: f64| values[((share * count(values.len())) as usize).min(values.len() - 1)];
        Self { low: at(tail), high: at(1.0 - tail) }
    }
}

fn resample(random: &mut impl Rng, seeds: usize) -> Vec<usize> {
    (0..seeds).map(|_| random.random_range(0..seeds)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a number of seeds or resamples")]
fn count(n: usize) -> f64 {
    n as f64
}

/// The middle of values; of an even number, the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1.0)
    }

    #[test]
    fn a_mean_of_ten_has_students_t_with_nine_degrees() {
        // Values 1 to 10: mean 5.5, s = 3.02765; t(0.975, 9) = 2.26216.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = Interval::of_mean(&values);
        assert!(close(interval.low, 5.5 - 2.262_16 * 3.027_65 / 10.0_f64.sqrt()), "{interval:?}");
        assert!(Interval::of_mean(&[1.0]).low.is_nan(), "one seed says nothing of the spread");
    }

    #[test]
    fn the_median_of_ten_lies_between_the_second_and_the_ninth() {
        // 2 P(X < 2) = 2 * 11 / 1024 = 2.1 %; 2 P(X < 3) = 10.9 %.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(Interval::of_median(&values), Interval { low: 2.0, high: 9.0 });
        let late = [36.0, 36.0, 38.0, 38.0, 38.0, 40.0, 40.0, 40.0, f64::INFINITY, f64::INFINITY];
        assert_eq!(Interval::of_median(&late).high, f64::INFINITY);
    }

    #[test]
    fn no_hit_among_two_hundred_leaves_less_than_two_percent() {
        // 1 - 0.025^(1/200) = 1.8275 %.
        let interval = Interval::of_share(0.0, 200.0);
        assert!(interval.low == 0.0 && close(interval.high, 1.827_5), "{interval:?}");
        let half = Interval::of_share(5.0, 10.0);
        assert!(close(half.low, 18.709) && close(half.high, 81.291), "{half:?}");
    }

    #[test]
    fn pairs_by_seed_cancel_what_seeds_have_in_common() {
        let a: Vec<f64> = (0..10).map(|seed| 100.0 + 10.0 * f64::from(seed)).collect();
        let mean = |pick: &[usize], by: f64| pick.iter().map(|i| by * a[*i]).sum::<f64>();
        let interval = Interval::of_resamples(10, 1, |pick| vec![mean(pick, 2.0) / mean(pick, 1.0)])[0];
        assert!(close(interval.low, 2.0) && close(interval.high, 2.0), "{interval:?}");
    }
}
