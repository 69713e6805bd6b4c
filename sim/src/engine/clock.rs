//! Simulated time: picoseconds, so that one byte lasts a whole number of ticks at every common link rate (800 at
//! 10 Gb/s, 20 at 400 Gb/s) and serialisation never drifts. 64 bits last 213 days.

use std::ops::{Add, AddAssign, Sub};

use ackgate_control::units::{Span, Time};

/// Picoseconds in a second.
pub const PS_PER_SEC: u64 = 1_000_000_000_000;

/// An instant since the start of the run, or a length of time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ps(pub u64);

impl Ps {
    /// The start of the run; no time at all.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// `n` nanoseconds.
    #[must_use]
    pub const fn nanos(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` microseconds.
    #[must_use]
    pub const fn micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// As seconds, for reports only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "reports print six digits")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_SEC as f64
    }

    /// The instant in the unit that policies count in, rounded down.
    #[must_use]
    pub const fn to_time(self) -> Time {
        Time(self.0 / 1_000)
    }

    /// The first tick at which a policy's clock has reached `time`.
    #[must_use]
    pub const fn from_time(time: Time) -> Self {
        Self::nanos(time.0)
    }

    /// A length of time in the unit that policies count in, rounded down.
    #[must_use]
    pub const fn to_span(self) -> Span {
        Span(self.0 / 1_000)
    }

    /// A policy's length of time.
    #[must_use]
    pub const fn from_span(span: Span) -> Self {
        Self::nanos(span.0)
    }
}

impl Add for Ps {
    type Output = Self;
    /// Saturates at [`Ps::NEVER`].
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Ps {
    type Output = Self;
    /// Saturates at zero.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
