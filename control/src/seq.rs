//! TCP sequence numbers: 32 bits that wrap, so that `<` would be wrong twice a minute at 10 Gb/s.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence or acknowledgement number (RFC 9293 §3.4).
///
/// There is no `Ord`: whether one number is before another depends on the 2^31 window around them, which is not
/// transitive. Ask [`before`](Self::before), [`after`](Self::after) or for the signed distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Whether `self` precedes `other`.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether `self` follows `other`.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// Signed bytes from `origin` to `self`: negative when `self` precedes it.
    #[must_use]
    pub const fn distance_from(self, origin: Self) -> i32 {
        self.0.wrapping_sub(origin.0).cast_signed()
    }

    /// Bytes by which `self` is ahead of `origin`, zero when it is not ahead.
    #[must_use]
    pub const fn ahead_of(self, origin: Self) -> u32 {
        let distance = self.distance_from(origin);
        if distance > 0 { distance.cast_unsigned() } else { 0 }
    }

    /// The later of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl AddAssign<u32> for SeqNumber {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = SeqNumber(u32::MAX - 99);
        let next = last + 200;
        assert_eq!(next, SeqNumber(100));
        assert!(last.before(next) && next.after(last));
        assert_eq!(next.ahead_of(last), 200);
        assert_eq!(last.ahead_of(next), 0);
        assert_eq!(last.max(next), next);
    }

    proptest! {
        #[test]
        fn what_is_added_is_the_distance(start: u32, bytes in 0u32..0x7fff_ffff) {
            let start = SeqNumber(start);
            prop_assert_eq!((start + bytes).ahead_of(start), bytes);
            prop_assert_eq!((start + bytes) - bytes, start);
            prop_assert_eq!((start + bytes).after(start), bytes > 0);
        }
    }
}
