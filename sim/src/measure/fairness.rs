//! Jain's fairness index: `(sum x)^2 / (n sum x^2)`, 1 when all have the same, 1/n when one has all.

/// Sums of what was shared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jain {
    count: u32,
    sum: f64,
    squares: f64,
}

impl Jain {
    pub(crate) fn add(&mut self, share: f64) {
        self.count += 1;
        self.sum += share;
        self.squares += share * share;
    }

    /// The index; 0 when nothing was shared.
    pub(crate) fn index(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / (f64::from(self.count) * self.squares) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_taker_is_not() {
        let of = |shares: &[f64]| {
            let mut jain = Jain::default();
            shares.iter().for_each(|&share| jain.add(share));
            jain.index()
        };
        assert!((of(&[3.0; 7]) - 1.0).abs() < 1e-12);
        assert!((of(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!(of(&[]).abs() < 1e-12);
    }
}
