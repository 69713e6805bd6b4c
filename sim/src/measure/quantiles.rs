//! Percentiles of any number of samples in bounded memory: a histogram with three significant digits.

use hdrhistogram::Histogram;

use crate::report::Quantiles;

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

    /// In units of `unit` samples; maximum and mean are exact.
    #[expect(clippy::cast_precision_loss, reason = "reports print six digits")]
    pub(crate) fn quantiles(&self, unit: f64) -> Quantiles {
        if self.histogram.is_empty() {
            return Quantiles::default();
        }
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max) as f64 / unit;
        Quantiles {
            p50: at(0.5),
            p99: at(0.99),
            max: self.max as f64 / unit,
            mean: self.sum as f64 / self.histogram.len() as f64 / unit,
        }
    }
}
