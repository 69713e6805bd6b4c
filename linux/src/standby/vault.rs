//! Held frames that nobody could write anew (requests, SYN-ACKs, FINs), where the standby finds them if the daemon stops: memory
//! that both processes share. The daemon alone writes.
//!
//! Each slot has a version, even while it holds a frame. A reader copies the frame and looks at the version again: a frame that was
//! taken out meanwhile is none.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of the largest frame: `MAX_FRAME` of `intf.h`, and a tag that travelled beside it.
const LARGEST: usize = 1536 + 4;
/// No slot.
const NONE: u32 = u32::MAX;

#[repr(C)]
struct Head {
    /// Rescues that have begun, and that are done.
    begun: AtomicU64,
    done: AtomicU64,
    /// Frames that were sent to make up for something.
    sent: AtomicU64,
    /// Slots that were ever in use.
    used: AtomicU32,
}

#[repr(C)]
struct Slot {
    /// Odd while there is no frame.
    version: AtomicU32,
    length: AtomicU32,
    bytes: [u8; LARGEST],
}

/// The memory.
#[derive(Debug)]
pub(crate) struct Vault {
    start: NonNull<u8>,
    length: NonZeroUsize,
    slots: u32,
}

// SAFETY: what is in it is read and written atomically, or copied and then found to have been whole.
unsafe impl Send for Vault {}
// SAFETY: as above.
unsafe impl Sync for Vault {}

impl Vault {
    /// Room for so many frames, which takes memory as it is used.
    ///
    /// # Errors
    /// When this process may not have that many addresses.
    pub(crate) fn new(slots: u32) -> io::Result<Self> {
        let length = NonZeroUsize::MIN.saturating_add(size_of::<Head>() + slots as usize * size_of::<Slot>());
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; it overlaps nothing.
        let start =
            unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE)? };
        Ok(Self { start: start.cast(), length, slots })
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping begins with a `Head`, of atomic integers that begin as zeroes.
        unsafe { self.start.cast().as_ref() }
    }

    fn slot(&self, index: u32) -> *mut Slot {
        debug_assert!(index < self.slots);
        // SAFETY: the slots lie behind the head, within the mapping; their alignment divides the head's size.
        unsafe { self.start.as_ptr().add(size_of::<Head>()).cast::<Slot>().add(index as usize) }
    }

    fn version(&self, index: u32) -> &AtomicU32 {
        // SAFETY: an atomic integer within the mapping.
        unsafe { &(*self.slot(index)).version }
    }

    fn length(&self, index: u32) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.slot(index)).length }
    }

    /// Copies every frame that is there into `buffer`, one after the other, and calls `each`.
    pub(crate) fn frames(&self, buffer: &mut Vec<u8>, mut each: impl FnMut(&mut Vec<u8>)) {
        for index in 0..self.head().used.load(Ordering::Acquire).min(self.slots) {
            let version = self.version(index).load(Ordering::Acquire);
            if version == 0 || version % 2 == 1 {
                continue;
            }
            let length = (self.length(index).load(Ordering::Relaxed) as usize).min(LARGEST);
            buffer.clear();
            buffer.reserve(length);
            // SAFETY: `length` bytes of a slot, which is as long, into a buffer that has as much room. The daemon may write to
            // them at the same time; then the version has changed, and what was read is not used.
            unsafe {
                let bytes = (&raw const (*self.slot(index)).bytes).cast::<u8>();
                std::ptr::copy_nonoverlapping(bytes, buffer.as_mut_ptr(), length);
                buffer.set_len(length);
            }
            fence(Ordering::Acquire);
            if self.version(index).load(Ordering::Relaxed) == version {
                each(buffer);
            }
        }
    }

    /// Frames that are there, about.
    pub(crate) fn count(&self) -> u64 {
        let used = self.head().used.load(Ordering::Acquire).min(self.slots);
        let full = |&index: &u32| matches!(self.version(index).load(Ordering::Relaxed), version if version > 0 && version % 2 == 0);
        (0..used).filter(full).count() as u64
    }

    /// Rescues so far, the present one included.
    pub(crate) fn rescues(&self) -> u64 {
        self.head().begun.load(Ordering::Acquire)
    }

    /// Frames that were sent so far to make up for something.
    pub(crate) fn sent(&self) -> u64 {
        self.head().sent.load(Ordering::Relaxed)
    }

    /// One more was.
    pub(super) fn note_sent(&self) {
        self.head().sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether one is going on.
    pub(crate) fn is_rescuing(&self) -> bool {
        self.head().done.load(Ordering::Acquire) != self.rescues()
    }

    /// A rescue begins.
    pub(super) fn begin(&self) {
        self.head().begun.fetch_add(1, Ordering::SeqCst);
    }

    /// It was not needed after all.
    pub(super) fn call_off(&self) {
        self.head().begun.fetch_sub(1, Ordering::SeqCst);
    }

    /// It is done, or nobody is there to go on with it.
    pub(super) fn end(&self) {
        self.head().done.store(self.rescues(), Ordering::Release);
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start.cast(), self.length.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The daemon's end of the vault.
#[derive(Debug)]
pub(crate) struct Keeper {
    vault: std::sync::Arc<Vault>,
    free: Vec<u32>,
    /// Frames that leave with the next batch: here until they have left.
    leaving: Vec<u32>,
}

/// A frame's place in the vault, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u32);

impl Place {
    /// In no vault.
    pub(crate) const NOWHERE: Self = Self(NONE);
}

impl Keeper {
    pub(crate) fn new(vault: std::sync::Arc<Vault>) -> Self {
        Self { vault, free: Vec::new(), leaving: Vec::new() }
    }

    /// Keeps a frame. There are as many slots as frames may be held; one that finds no room is repeated by its TCP.
    pub(crate) fn put(&mut self, frame: &[u8]) -> Place {
        let vault = &self.vault;
        let fresh = vault.head().used.load(Ordering::Relaxed);
        let Some(index) = self.free.pop().or((fresh < vault.slots).then_some(fresh)) else { return Place::NOWHERE };
        let length = frame.len().min(LARGEST);
        // SAFETY: `length` bytes into a slot that is as long, and that nobody else writes to.
        unsafe {
            let bytes = (&raw mut (*vault.slot(index)).bytes).cast::<u8>();
            std::ptr::copy_nonoverlapping(frame.as_ptr(), bytes, length);
        }
        vault.length(index).store(length as u32, Ordering::Relaxed);
        let version = vault.version(index).load(Ordering::Relaxed);
        // 0 was never used; it is skipped when versions start again.
        vault.version(index).store((version | 1).wrapping_add(1).max(2), Ordering::Release);
        if index == fresh {
            vault.head().used.store(fresh + 1, Ordering::Release);
        }
        Place(index)
    }

    /// The frame is about to leave.
    pub(crate) fn leave(&mut self, place: Place) {
        if place.0 != NONE {
            self.leaving.push(place.0);
        }
    }

    /// What was about to leave has left.
    pub(crate) fn settle(&mut self) {
        for index in self.leaving.drain(..) {
            let version = self.vault.version(index);
            version.store(version.load(Ordering::Relaxed) | 1, Ordering::Release);
            // The next tenant's bytes come after the version.
            fence(Ordering::Release);
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn inside(vault: &Vault) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        vault.frames(&mut Vec::new(), |frame| frames.push(frame.clone()));
        frames
    }

    #[test]
    fn a_frame_is_there_until_it_has_left() {
        let vault = Arc::new(Vault::new(2).unwrap());
        let mut keeper = Keeper::new(Arc::clone(&vault));
        let [first, second] = [keeper.put(b"first"), keeper.put(b"second")];
        assert_eq!(keeper.put(b"third").0, NONE, "no room");
        assert_eq!(inside(&vault), [&b"first"[..], b"second"]);
        keeper.leave(first);
        assert_eq!(vault.count(), 2, "it has not been sent yet");
        keeper.settle();
        assert_eq!(inside(&vault), [b"second"]);
        keeper.put(b"fourth");
        assert_eq!(inside(&vault), [&b"fourth"[..], b"second"]);
        keeper.leave(second);
        keeper.leave(Place::NOWHERE);
        keeper.settle();
        assert_eq!(vault.count(), 1);
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_frames_only() {
        let vault = Arc::new(Vault::new(4).unwrap());
        let mut keeper = Keeper::new(Arc::clone(&vault));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                for _ in 0..20_000 {
                    for frame in inside(&vault) {
                        assert!(frame.iter().all(|&byte| byte == frame[0]) && frame.len() == usize::from(frame[0]) + 1);
                        seen += 1;
                    }
                }
                seen
            });
            let mut byte = 0_u8;
            while !reader.is_finished() {
                byte = byte.wrapping_add(1);
                let place = keeper.put(&vec![byte; usize::from(byte) + 1]);
                keeper.leave(place);
                keeper.settle();
            }
            reader.join().unwrap();
        });
    }
}
