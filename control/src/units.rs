//! Time and rate, in the units that every policy counts in: nanoseconds and bits per second.
//!
//! `core::time::Duration` carries seconds and nanoseconds apart, which costs a division on every comparison with a
//! packet's age; the packet path wants one integer.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// An instant: nanoseconds since an origin that the host chooses (boot for Linux, start of run in the simulator).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// Time from `earlier` to `self`; zero when `earlier` is not earlier (clocks of two CPUs may disagree a little).
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `n` nanoseconds.
    #[must_use]
    pub const fn nanos(n: u64) -> Self {
        Self(n)
    }

    /// `n` microseconds.
    #[must_use]
    pub const fn micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` seconds.
    #[must_use]
    pub const fn secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }
}

impl Add<Span> for Time {
    type Output = Self;
    /// Saturates at [`Time::NEVER`].
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    /// Saturates at zero.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Span {
    /// The largest unit that leaves at least one before the point: `1.500ms`, `200us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{}ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, rest) = (self.0 / unit, self.0 % unit);
        if rest == 0 { write!(f, "{whole}{name}") } else { write!(f, "{whole}.{:03}{name}", rest * 1_000 / unit) }
    }
}

/// A link rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// Time that `bytes` take on a link of this rate, rounded down; [`Span`]'s maximum when the rate is zero.
    #[must_use]
    pub const fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span(u64::MAX);
        }
        let nanos = (bytes as u128 * 8 * 1_000_000_000) / self.0 as u128;
        if nanos > u64::MAX as u128 { Span(u64::MAX) } else { Span(nanos as u64) }
    }

    /// Bytes that pass in `span`, rounded down.
    #[must_use]
    pub const fn bytes_in(self, span: Span) -> u64 {
        let bytes = (self.0 as u128 * span.0 as u128) / (8 * 1_000_000_000);
        if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_12_us_at_a_gigabit() {
        // PAC §III-B: C x RTT of a 1 Gb/s link at 100 us is 12.5 KB.
        assert_eq!(Rate(1_000_000_000).bytes_in(Span::micros(100)), 12_500);
        assert_eq!(Rate(1_000_000_000).time_for(1_500), Span::micros(12));
        assert_eq!(Rate(0).time_for(1), Span(u64::MAX));
    }

    #[test]
    fn spans_print_in_the_unit_a_reader_expects() {
        use alloc::string::ToString;
        assert_eq!(Span::millis(200).to_string(), "200ms");
        assert_eq!(Span::nanos(1_500).to_string(), "1.500us");
        assert_eq!(Span::nanos(12).to_string(), "12ns");
    }
}
