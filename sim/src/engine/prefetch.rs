//! A hint to the processor: with thousands of connections most of a run's time would be spent waiting for memory that
//! was known to be needed some events earlier.

/// Asks for an item's first cache line. Changes nothing but time.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is a reference's; a prefetch neither reads nor writes, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}

/// Asks for all of an item.
#[inline(always)]
pub(crate) fn prefetch_all<T>(items: &[T], index: usize, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let lines = lines.min(size_of::<T>().div_ceil(64));
        for line in 0..lines {
            // SAFETY: as above; the offset stays inside the item.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast::<i8>().add(64 * line)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index, lines);
}
