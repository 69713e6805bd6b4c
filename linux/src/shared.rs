//! Memory that the BPF programs and the daemon share: reading and writing it is no system call.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

use ackgate_control::cell::U64;
use ackgate_control::flow::FlowKey;
use ackgate_control::gate::{Flow, Gate, State};
use ackgate_control::policy::FlowId;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::skel::guard::types;

/// Entries of the flow table (`MAX_FLOWS` of `intf.h`).
pub const MAX_FLOWS: u32 = 65_536;

/// Entries that leave at once (`MOST_LEAVING` of `intf.h`).
pub(crate) const MOST_LEAVING: usize = 128;

/// Entries that have ended and are not used again before so many others have (`LOBBY` of `table.h`).
#[cfg(test)]
pub(crate) const LOBBY: usize = 256;

/// Books of the datapath itself, beside PAC's (`struct books` of `intf.h`).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Books {
    /// Entries of the flow table that were handed out at least once.
    pub fresh: U64,
    /// Connections that found no room.
    pub unguarded: U64,
    /// Frames that should have been held but passed: the ring was full, the frame too large, or the daemon silent.
    pub overflow: U64,
    /// Frames of other protocols, which pass.
    pub not_tcp: U64,
    /// IP fragments, which pass.
    pub fragments: U64,
    /// Frames whose headers do not add up, which pass.
    pub malformed: U64,
    /// Segments signed by TCP-MD5 or TCP-AO, which pass.
    pub authenticated: U64,
    /// Segments that would have been held, had anything been taken ([`crate::datapath::Take::Nothing`]).
    pub would_hold: U64,
    /// Connections that the rules leave alone ([`crate::selection`]).
    pub excluded: U64,
    /// TCP segments of connections that are not in the flow table, which pass.
    pub untracked: U64,
    /// Connections that were met in mid-stream.
    pub joined: U64,
}

/// Entries of an array map stand at multiples of 8 bytes.
const LEAVING: usize = 8;

/// Memory of a BPF array map.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

impl Mapping {
    /// The first `length` bytes of the map.
    pub(crate) fn new(map: &impl AsFd, length: usize) -> io::Result<Self> {
        let length = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; it overlaps nothing.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, map, 0)? };
        Ok(Self { start: start.cast(), length })
    }

    /// Where a `T` lies, `offset` bytes from the start, all of it within the mapping.
    pub(crate) fn as_ptr<T>(&self, offset: usize) -> *const T {
        debug_assert!(offset + size_of::<T>() <= self.length.get());
        // SAFETY: the callers' offsets lie within the mapping.
        unsafe { self.start.as_ptr().add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start.cast(), self.length.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and everything in it is read and written atomically (or,
// for keys, copied).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The state that the packet path keeps.
#[derive(Debug)]
pub struct Shared {
    variables: Mapping,
    flows: Mapping,
    links: Mapping,
    leaving: Mapping,
    keys: Arc<Keys>,
}

impl Shared {
    /// Maps the programs' variables, their flow states and the keys of those.
    pub(crate) fn new(
        variables: &impl AsFd,
        flows: &impl AsFd,
        keys: &impl AsFd,
        links: &impl AsFd,
        leaving: &impl AsFd,
    ) -> io::Result<Self> {
        let entries = MAX_FLOWS as usize;
        Ok(Self {
            variables: Mapping::new(variables, size_of::<types::bss>())?,
            flows: Mapping::new(flows, entries * size_of::<Flow>())?,
            links: Mapping::new(links, entries * size_of::<types::link>())?,
            leaving: Mapping::new(leaving, (1 + MOST_LEAVING) * LEAVING)?,
            keys: Arc::new(Keys(Mapping::new(keys, entries * size_of::<FlowKey>())?)),
        })
    }

    /// The datapath's books.
    #[must_use]
    pub fn books(&self) -> &Books {
        // SAFETY: the programs' variables hold a `struct books` here, which has the layout of `Books` (tested); all of
        // it is atomic integers.
        unsafe { &*self.variables.as_ptr(std::mem::offset_of!(types::bss, books)) }
    }

    /// The time that a datapath with fixed time goes by.
    #[must_use]
    pub fn fixed_clock(&self) -> &U64 {
        // SAFETY: the programs' variables hold a 64-bit integer here.
        unsafe { &*self.variables.as_ptr(std::mem::offset_of!(types::bss, fixed_clock)) }
    }

    /// The address of an entry's connection; meaningless for entries that are not in use.
    #[must_use]
    pub fn key(&self, id: FlowId) -> Option<FlowKey> {
        self.keys.key(id)
    }

    /// How the entry's frames begin, as `struct link` has it; zeroes where nobody has needed to know yet.
    pub(crate) fn link(&self, id: FlowId) -> Option<types::link> {
        if id.0 >= MAX_FLOWS {
            return None;
        }
        let at = self.links.as_ptr::<types::link>(id.0 as usize * size_of::<types::link>());
        // SAFETY: the entry lies within the mapping and holds plain integers, valid whatever they are. A connection's link
        // changes when its neighbour does; half of each would be a frame for nobody.
        Some(unsafe { at.read_volatile() })
    }

    /// Tells the programs which entries are to be forgotten or given back next, [`MOST_LEAVING`] at most.
    pub(crate) fn list_leaving(&self, ids: &[FlowId]) {
        let ids = &ids[..ids.len().min(MOST_LEAVING)];
        let count = ids.len() as u32;
        for (at, value) in std::iter::once(count).chain(ids.iter().map(|id| id.0)).enumerate() {
            let to = self.leaving.as_ptr::<u32>(at * LEAVING).cast_mut();
            // SAFETY: the entry lies within the mapping and is an integer. The programs that read it are run by who has written it.
            unsafe { to.write_volatile(value) };
        }
    }

    /// Those of the first `count` entries so listed that the programs have left there.
    pub(crate) fn leaving(&self, count: usize) -> impl Iterator<Item = FlowId> {
        (1..=count.min(MOST_LEAVING)).filter_map(|at| {
            let from = self.leaving.as_ptr::<u32>(at * LEAVING);
            // SAFETY: as in `list_leaving`; the programs have run.
            let id = unsafe { from.read_volatile() };
            (id < MAX_FLOWS).then_some(FlowId(id))
        })
    }

    /// The addresses, for whoever needs nothing else.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys)
    }
}

/// The addresses of the flow table's connections.
#[derive(Debug)]
pub(crate) struct Keys(Mapping);

impl Keys {
    /// As [`Shared::key`].
    pub(crate) fn key(&self, id: FlowId) -> Option<FlowKey> {
        if id.0 >= MAX_FLOWS {
            return None;
        }
        let at = self.0.as_ptr::<FlowKey>(id.0 as usize * size_of::<FlowKey>());
        // SAFETY: the entry lies within the mapping and holds plain integers, valid whatever they are. The programs
        // write it before the entry is used and not while it is.
        Some(unsafe { at.read_volatile() })
    }
}

impl State for Shared {
    fn gate(&self) -> &Gate {
        // SAFETY: the programs' variables hold a `struct gate` here, which has the layout of `Gate` (tested); all of it
        // is atomic integers.
        unsafe { &*self.variables.as_ptr(std::mem::offset_of!(types::bss, gate)) }
    }

    fn flow(&self, id: FlowId) -> Option<&Flow> {
        if id.0 >= MAX_FLOWS {
            return None;
        }
        // SAFETY: the entry lies within the mapping, and the map's values have the layout of `Flow` (tested); all of it
        // is atomic integers.
        Some(unsafe { &*self.flows.as_ptr(id.0 as usize * size_of::<Flow>()) })
    }

    fn flow_count(&self) -> u32 {
        u32::try_from(self.books().fresh.get()).map_or(MAX_FLOWS, |fresh| fresh.min(MAX_FLOWS))
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Compares the size of a struct and the offset of each of its members with the C side's.
    macro_rules! same_layout {
        ($rust:ty, $c:ty, $($member:ident),+ $(,)?) => {{
            assert_eq!(size_of::<$rust>(), size_of::<$c>(), stringify!($rust));
            $(assert_eq!(offset_of!($rust, $member), offset_of!($c, $member), stringify!($member));)+
            let zero = <$rust>::default();
            let listed: usize = [$(size_of_val(&zero.$member)),+].iter().sum();
            assert_eq!(listed, size_of::<$rust>(), "every member must be listed");
        }};
    }

    #[test]
    fn both_sides_see_the_same_layout() {
        // Made from one header, but by two compilers.
        assert_eq!(size_of::<Gate>(), size_of::<types::gate>());
        assert_eq!(size_of::<Flow>(), size_of::<types::flow>());
        same_layout!(
            Books,
            types::books,
            fresh,
            unguarded,
            overflow,
            not_tcp,
            fragments,
            malformed,
            authenticated,
            would_hold,
            excluded,
            untracked,
            joined
        );
        assert_eq!(size_of::<FlowKey>(), 40, "struct flow_key");
        assert_eq!(size_of::<types::link>() % 8, 0, "entries of an array map stand at multiples of 8 bytes");
    }
}
