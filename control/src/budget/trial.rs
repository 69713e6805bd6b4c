//! Trials: what two budgets carry in alternating epochs, and which of them is the better one.

/// Pairs of epochs in a trial.
const PAIRS: u32 = 6;
/// Pairs after which a trial may end because its result is clear.
const CLEAR: u32 = 3;
/// Less is good if it costs no more than the first part of the throughput, more if it gains at least the second. Below the
/// bandwidth-delay product, a quarter less costs a quarter, and a quarter more could gain one. Where the buffer is known, less has to
/// cost next to nothing: many small costs could not be told from noise, and would add up. Where it is not, more is a risk.
pub(super) const TOLERANCE: Tolerance = Tolerance { cost: 512, gain: 64 };
pub(super) const TOLERANCE_AUTO: Tolerance = Tolerance { cost: 128, gain: 32 };
/// This part, of what is lost or gained, is clear.
const PLAIN: u64 = 16;

/// What the link carried in some epochs, in all and in the worst of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    sum: u64,
    least: u64,
}

impl Carried {
    pub(super) fn add(&mut self, rate: u64) {
        self.least = if self.sum == 0 { rate } else { self.least.min(rate) };
        self.sum += rate;
    }

    /// In all but the worst, in which a host may have been descheduled.
    pub(super) const fn most(self) -> u64 {
        self.sum - self.least
    }
}

/// Parts of the throughput that two budgets may differ by.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    cost: u64,
    gain: u64,
}

impl Tolerance {
    /// Whether the other budget is the better one, as soon as that is known.
    pub(super) const fn verdict(self, up: bool, epochs: u32, [base, other]: [u64; 2]) -> Option<bool> {
        if !epochs.is_multiple_of(2) || epochs < 2 * CLEAR {
            return None;
        }
        let over = epochs >= 2 * PAIRS;
        let (good, clear) = if up {
            (other > base + base / self.gain, other > base + base / PLAIN)
        } else {
            (other >= base - base / self.cost, other < base - base / PLAIN)
        };
        if over || clear { Some(good) } else { None }
    }
}
