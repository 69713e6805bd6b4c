//! The ring of held frames, seen by somebody who does not read it: what the daemon has not taken out yet stays where it is.
//!
//! Layout (Linux, kernel/bpf/ringbuf.c, and libbpf): a page with the reader's position, a page with the writer's, then the data,
//! mapped twice in a row. A record begins with its length, in the upper bits of which stands whether it is being written or was
//! given up.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// `BPF_RINGBUF_BUSY_BIT`, `BPF_RINGBUF_DISCARD_BIT`, `BPF_RINGBUF_HDR_SZ`.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// A view of the ring.
#[derive(Debug)]
pub(crate) struct Unread {
    reader: Pages,
    /// The writer's page, and the data.
    writer: Pages,
    page: usize,
    size: u64,
}

#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: only read, and atomically or behind an atomic length.
unsafe impl Send for Pages {}

impl Pages {
    fn new(map: &impl AsFd, offset: usize, length: usize) -> io::Result<Self> {
        let length = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the kernel chooses; it overlaps nothing.
        let start = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, map, offset)? };
        Ok(Self { start: start.cast(), length })
    }

    fn position(&self) -> u64 {
        // SAFETY: the page begins with an `unsigned long`, of 64 bits on all hosts that have BPF maps in memory.
        unsafe { self.start.cast::<AtomicU64>().as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start.cast(), self.length.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Unread {
    /// Looks at a ring of `size` bytes.
    pub(crate) fn new(ring: &impl AsFd, size: u32) -> io::Result<Self> {
        let page =
            nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.and_then(|page| usize::try_from(page).ok());
        let page = page.ok_or(io::ErrorKind::Unsupported)?;
        let reader = Pages::new(ring, 0, page)?;
        let writer = Pages::new(ring, page, page + 2 * size as usize)?;
        Ok(Self { reader, writer, page, size: u64::from(size) })
    }

    /// Calls `each` with every record that has not been read.
    pub(crate) fn records(&self, mut each: impl FnMut(&[u8])) {
        let (mut at, end) = (self.reader.position(), self.writer.position());
        while at < end && end - at <= self.size {
            // SAFETY: below `size`, and the data is mapped twice: a record that begins here ends within the mapping.
            let record = unsafe { self.writer.start.as_ptr().add(self.page + (at % self.size) as usize) };
            // SAFETY: records are aligned to 8 bytes.
            let state = unsafe { &*record.cast::<AtomicU32>() }.load(Ordering::Acquire);
            let length = u64::from(state & !(BUSY | DISCARDED));
            if state & BUSY != 0 || length + HEADER > end - at {
                return;
            }
            if state & DISCARDED == 0 {
                // SAFETY: as above; the writer does not touch it again until it has been read, which this process does not.
                each(unsafe { std::slice::from_raw_parts(record.add(HEADER as usize), length as usize) });
            }
            at += (length + HEADER).next_multiple_of(8);
        }
    }
}
