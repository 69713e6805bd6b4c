//! Integers that the packet path and the scheduler share. On Linux the packet path is BPF and the memory is mapped into
//! both; in the simulator they are one thread. Relaxed ordering suffices: each counter is exact by itself, and nothing
//! is inferred from the order in which two of them change, but for [`U32::advance`].

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::seq::SeqNumber;

/// A shared 64-bit integer.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct U64(AtomicU64);

/// A shared 32-bit integer.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct U32(AtomicU32);

macro_rules! shared_integer {
    ($cell:ident, $atomic:ident, $int:ty) => {
        impl $cell {
            /// A cell that holds `value`.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }

            /// The value now.
            #[inline]
            pub fn get(&self) -> $int {
                self.0.load(Relaxed)
            }

            /// Replaces the value.
            #[inline]
            pub fn set(&self, value: $int) {
                self.0.store(value, Relaxed);
            }

            /// Adds, wrapping.
            #[inline]
            pub fn add(&self, n: $int) {
                self.0.fetch_add(n, Relaxed);
            }

            /// Subtracts, wrapping: only for what was added before.
            #[inline]
            pub fn sub(&self, n: $int) {
                self.0.fetch_sub(n, Relaxed);
            }

            /// Takes all of it, leaving zero.
            #[inline]
            pub fn take(&self) -> $int {
                self.0.swap(0, Relaxed)
            }

            /// Replaces `old` by `new` unless somebody was faster; says whether it did.
            #[inline]
            pub fn replace(&self, old: $int, new: $int) -> bool {
                self.0.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
            }

            /// Takes up to `n`, never going below zero; returns what was taken.
            #[inline]
            pub fn take_up_to(&self, n: $int) -> $int {
                let mut now = self.get();
                loop {
                    let taken = now.min(n);
                    match self.0.compare_exchange_weak(now, now - taken, Relaxed, Relaxed) {
                        Ok(_) => return taken,
                        Err(other) => now = other,
                    }
                }
            }
        }
    };
}

shared_integer!(U64, AtomicU64, u64);
shared_integer!(U32, AtomicU32, u32);

impl U32 {
    /// Moves a sequence number forward, never back. Whoever advances one number and then reads another sees what was
    /// advanced before the other way round.
    #[inline]
    pub fn advance(&self, to: SeqNumber) {
        let _ = self.0.fetch_update(SeqCst, SeqCst, |now| to.after(SeqNumber(now)).then_some(to.0));
    }

    /// Sets bits.
    #[inline]
    pub fn raise(&self, bits: u32) {
        self.0.fetch_or(bits, Relaxed);
    }

    /// Clears bits.
    #[inline]
    pub fn lower(&self, bits: u32) {
        self.0.fetch_and(!bits, Relaxed);
    }

    /// Sets or clears bits.
    #[inline]
    pub fn put(&self, bits: u32, on: bool) {
        if on { self.raise(bits) } else { self.lower(bits) }
    }

    /// Whether any of the bits is set.
    #[inline]
    pub fn any(&self, bits: u32) -> bool {
        self.get() & bits != 0
    }
}
