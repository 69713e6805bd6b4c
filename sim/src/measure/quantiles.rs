//! Percentiles of any number of samples in bounded memory: a histogram with three significant digits.

use hdrhistogram::Histogram;

use crate::report::{Quantiles, Tail};

/// Samples in one unit, read out in another.
pub(crate) struct Samples {
    histogram: Histogram<u64>,
    max: u64,
    sum: u128,
}

impl Samples {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new(3).expect("three digits are within the histogram's range");
        Self { histogram, max: 0, sum: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        // A histogram that resizes itself refuses only what does not fit 64 bits.
        self.histogram.record(value).unwrap_or_default();
    }

    /// The cumulative distribution in units of `unit` samples: values by rising order, at most about a thousand, each
    /// with the share of samples that are at most as large.
    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    pub(crate) fn distribution(&self, unit: f64) -> Vec<(f64, f64)> {
        let total = self.histogram.len() as f64;
        let apart = self.histogram.len() / 1_000;
        let (mut seen, mut told) = (0, None);
        let mut points = Vec::new();
        for step in self.histogram.iter_recorded() {
            seen += step.count_since_last_iteration();
            if told.is_none_or(|told| seen - told > apart) || seen == self.histogram.len() {
                points.push((step.value_iterated_to().min(self.max) as f64 / unit, seen as f64 / total));
                told = Some(seen);
            }
        }
        points
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// As [`quantiles`](Self::quantiles), with what one in a thousand exceeds.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    pub(crate) fn tail(&self, unit: f64) -> Tail {
        let Quantiles { p50, p99, max, mean } = self.quantiles(unit);
        let p999 = self.value_at(0.999) as f64 / unit;
        Tail { p50, p99, p999, max, mean }
    }

    /// Zero when there are no samples.
    fn value_at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.max)
    }

    /// In units of `unit` samples; maximum and mean are exact.
    #[expect(clippy::cast_precision_loss, reason = "reports print six digits")]
    pub(crate) fn quantiles(&self, unit: f64) -> Quantiles {
        if self.histogram.is_empty() {
            return Quantiles::default();
        }
        let at = |quantile| self.value_at(quantile) as f64 / unit;
        Quantiles {
            p50: at(0.5),
            p99: at(0.99),
            max: self.max as f64 / unit,
            mean: self.sum as f64 / self.histogram.len() as f64 / unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_rises_to_one_at_the_maximum() {
        let mut samples = Samples::new();
        assert_eq!(samples.distribution(1.0), []);
        [10_000, 20_000, 20_000, 40_000].into_iter().for_each(|value| samples.record(value));
        let points = samples.distribution(1e3);
        let shares: Vec<f64> = points.iter().map(|point| point.1).collect();
        assert_eq!(shares, [0.25, 0.75, 1.0]);
        assert!((points[0].0 - 10.0).abs() < 0.02 && points[2].0 == 40.0, "{points:?}");
        (0..100_000).for_each(|value| samples.record(value));
        let many = samples.distribution(1.0);
        assert!(many.len() < 1_200 && many.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1), "{}", many.len());
        assert_eq!(many.last(), Some(&(99_999.0, 1.0)));
    }
}
