//! From pairs of measurements to a verdict.

use serde::Serialize;

use super::Unit;
use crate::load::report::median;
use crate::pairs::Ratio;

/// Guarded over unguarded from which on nothing is harmed: what a small machine tells apart.
const HARMLESS: f64 = 0.95;
/// A single run that is worth less than this share of every unguarded run is a stall, which medians hide.
const STALL: f64 = 0.4;

/// What a row says about a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within 5 % of unguarded, or better.
    Ok,
    /// Worse.
    Harm,
    /// Worse, which is the published scheme's own nature.
    Published,
    /// Two unguarded runs differ by more than 5 %: the machine tells no more than that.
    Noise,
    /// It fails with the guard, and not without.
    Failed,
    /// It cannot be run here.
    Skipped,
}

impl Verdict {
    /// As the table shows it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Harm => "HARM",
            Self::Published => "as published",
            Self::Noise => "noise",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// Pairs of measurements, unguarded and guarded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Median without the guard, in the row's unit.
    pub unguarded: f64,
    /// Median with it.
    pub guarded: f64,
    /// What guarded is worth beside unguarded, pair by pair: below 1 the guard harms, whichever way is better.
    pub ratio: Ratio,
    /// Runs with the guard that stood still, beside all runs without it.
    pub stalls: usize,
    /// Every pair: unguarded, guarded.
    pub pairs: Vec<(f64, f64)>,
}

impl Comparison {
    /// Of any number of pairs but none.
    pub(super) fn of(unit: Unit, pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let unguarded: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let guarded: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let ratios: Vec<f64> = pairs.iter().map(|&(unguarded, guarded)| unit.ratio(guarded, unguarded)).collect();
        let stalled = |value: &&f64| unguarded.iter().all(|&bare| unit.ratio(**value, bare) < STALL);
        Some(Self {
            unguarded: median(&unguarded),
            guarded: median(&guarded),
            ratio: Ratio::of(&ratios),
            stalls: guarded.iter().filter(stalled).count(),
            pairs: pairs.to_vec(),
        })
    }

    /// Worse than unguarded by more than 5 % in half of the pairs, or a run that stood still.
    #[must_use]
    pub fn is_harm(&self) -> bool {
        self.ratio.median < HARMLESS || self.stalls > 0
    }

    /// The median says harm, and a quarter of the pairs say otherwise.
    pub(super) fn is_undecided(&self) -> bool {
        self.ratio.median < HARMLESS && self.ratio.upper_quartile >= HARMLESS && self.stalls == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(f64, f64)]) -> Comparison {
        Comparison::of(Unit::Mbps, pairs).expect("there are pairs")
    }

    #[test]
    fn within_five_percent_is_no_harm() {
        assert!(!of(&[(100.0, 96.0), (100.0, 95.5), (100.0, 80.0)]).is_harm());
        assert!(of(&[(100.0, 94.0), (100.0, 93.0), (100.0, 96.0)]).is_harm());
    }

    #[test]
    fn a_stall_is_harm_where_medians_see_none() {
        let comparison = of(&[(100.0, 100.0), (90.0, 30.0), (100.0, 100.0)]);
        assert_eq!((comparison.ratio.median, comparison.stalls), (1.0, 1));
        assert!(comparison.is_harm());
        // Unguarded stalls as well: nobody's fault.
        assert!(!of(&[(100.0, 100.0), (30.0, 30.0), (100.0, 100.0)]).is_harm());
    }

    #[test]
    fn pairs_that_disagree_ask_for_more() {
        assert!(of(&[(100.0, 90.0), (100.0, 101.0), (100.0, 90.0)]).is_undecided());
        assert!(!of(&[(100.0, 50.0), (100.0, 51.0), (100.0, 52.0)]).is_undecided());
        assert!(!of(&[(100.0, 99.0)]).is_undecided());
    }
}
