//! Seeded randomness: one independent stream for each purpose, so that switching one source of jitter off leaves all
//! other draws as they were. Integers only: the same seed gives the same run on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::clock::Ps;

/// What a stream is for; each purpose has its own.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// When senders start in a round.
    Start = 1,
    /// Processing delay of hosts.
    Processing = 2,
    /// Randomised retransmission timeouts.
    Timeout = 3,
    /// Initial sequence numbers.
    SequenceNumbers = 4,
    /// Which of several equal paths a connection takes.
    Path = 5,
    /// Arrival processes and sizes of a workload.
    Workload = 6,
    /// Random decisions of queue disciplines.
    Queue = 7,
    /// How far hosts are away.
    Distance = 8,
    /// Which packets others overtake.
    Detour = 9,
}

/// How likely something is.
#[derive(Clone, Copy, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From 0, never, to 1: all but one time of 2^64.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of 2^64; all of it saturates")]
    pub fn new(share: f64) -> Self {
        Self((share * 2f64.powi(64)) as u64)
    }

    /// Whether it never happens: then nothing is drawn.
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of a purpose under a seed.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        // Streams of one generator 2^128 draws apart never meet.
        for _ in 0..purpose as u32 {
            generator.jump();
        }
        Self(generator)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Whether what is so likely happens.
    #[inline]
    pub fn hits(&mut self, chance: Chance) -> bool {
        !chance.is_none() && self.bits() < chance.0
    }

    /// Uniform in `0..=max`; the bias of the multiplication is below 2^-32 for every time that occurs here.
    pub fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let range = u128::from(max) + 1;
        ((u128::from(self.0.next_u64()) * range) >> 64) as u64
    }

    /// Exponentially distributed with a mean.
    #[expect(clippy::cast_sign_loss, reason = "neither factor is negative")]
    pub fn exponential(&mut self, mean: Ps) -> Ps {
        // In (0, 1]: the top 53 bits are what a float holds exactly.
        let uniform = ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Ps((mean.0 as f64 * minus_ln(uniform) + 0.5) as u64)
    }
}

/// `-ln(x)` for x in (0, 1], by additions, multiplications and divisions only: libraries differ in the last bits, and
/// then runs would differ between machines.
fn minus_ln(x: f64) -> f64 {
    let exponent = 1_022 - i64::try_from(x.to_bits() >> 52).unwrap_or(0);
    // In [0.5, 1): ln(m) = 2 atanh((m - 1) / (m + 1)).
    let mantissa = f64::from_bits((x.to_bits() & ((1 << 52) - 1)) | 1_022 << 52);
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut term, mut sum) = (z, 0.0);
    for n in 0..20 {
        sum += term / f64::from(2 * n + 1);
        term *= z * z;
    }
    exponent as f64 * std::f64::consts::LN_2 - 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_have_streams_of_their_own_and_a_seed_repeats() {
        let draw = |seed, purpose| Random::new(seed, purpose).bits();
        assert_eq!(draw(1, Purpose::Start), draw(1, Purpose::Start));
        assert_ne!(draw(1, Purpose::Start), draw(1, Purpose::Processing));
        assert_ne!(draw(1, Purpose::Start), draw(2, Purpose::Start));
    }

    #[test]
    fn logarithms_are_those_of_the_library_but_for_the_last_bits() {
        for x in [1.0, 0.999, 0.5, 0.3, 1e-3, 1e-16] {
            assert!((minus_ln(x) + f64::ln(x)).abs() <= 1e-14 * (1.0 - f64::ln(x)), "{x}");
        }
    }

    #[test]
    fn exponential_draws_have_their_mean() {
        let mut random = Random::new(3, Purpose::Workload);
        let mean: u64 = (0..10_000).map(|_| random.exponential(Ps(1_000_000)).0).sum::<u64>() / 10_000;
        assert!((970_000..1_030_000).contains(&mean), "{mean}");
    }

    #[test]
    fn draws_fill_the_closed_range() {
        let mut random = Random::new(7, Purpose::Start);
        let mut seen = [0u32; 5];
        for _ in 0..1_000 {
            seen[usize::try_from(random.up_to(4)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&n| n > 150), "{seen:?}");
        assert_eq!(random.up_to(0), 0);
    }
}
