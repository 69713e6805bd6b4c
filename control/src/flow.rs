//! Which connection a packet belongs to, and how long a connection is remembered.
//!
//! The table is bounded in every way: a full table, or too many connections that never finished their handshake, means
//! that a new connection is simply not guarded. The kernel's maps keep the same books; this is the model they are held to.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::policy::FlowId;
use crate::segment::{Flags, Segment};
use crate::units::{Span, Time};
use crate::wire::Direction;

/// A connection as seen from the guarded host: the 4-tuple (PAC §IV-A), and the VLAN it lives in.
///
/// The layout is shared with the BPF programs: no padding, 40 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FlowKey {
    /// Address on the guarded side; IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2).
    pub local: [u8; 16],
    /// Address across the network.
    pub remote: [u8; 16],
    /// TCP port on the guarded side.
    pub local_port: u16,
    /// TCP port across the network.
    pub remote_port: u16,
    /// VLAN identifiers, the innermost in the lowest 12 bits; 0 when untagged.
    pub vlan: u32,
}

impl FlowKey {
    /// Whether the addresses are IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.local[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
    }
}

/// Whether a segment makes us remember its connection: a SYN (or the SYN-ACK that answers it from our side) while there is
/// room for half-open connections, or anything that our own side sends in mid-stream. Nobody outside can fill the table
/// with packets that our side does not answer.
#[must_use]
pub fn opens(segment: &Segment, direction: Direction, half_open: u64, most_half_open: u64) -> bool {
    if segment.flags.has(Flags::SYN) {
        half_open < most_half_open && !(direction == Direction::Ingress && segment.flags.has(Flags::ACK))
    } else {
        direction == Direction::Egress && !segment.flags.any(Flags::FIN | Flags::RST)
    }
}

/// Where a connection stands, as far as its lifetime goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// A SYN was seen, and nothing yet from the other side.
    #[default]
    HalfOpen,
    /// Both sides were heard, or the connection was there before us.
    Open,
    /// FIN or RST was seen.
    Closing,
}

/// How long a silent connection is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// No packet for this long removes any connection (PAC §IV-A: five minutes).
    pub idle: Span,
    /// Silence after FIN or RST. Not zero, as the paper has it: bytes still on their way must be accounted to the
    /// connection that triggered them, and the last ACK of the closing handshake must find it.
    pub closing: Span,
    /// Silence of a connection that never got past its SYN, or of which nothing but our own segments has been seen.
    pub half_open: Span,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { idle: Span::secs(300), closing: Span::secs(1), half_open: Span::secs(5) }
    }
}

impl Lifetimes {
    /// Whether a connection at `stage`, last heard at `seen`, is to be forgotten.
    #[must_use]
    pub const fn expired(&self, stage: Stage, seen: Time, now: Time) -> bool {
        let limit = match stage {
            Stage::HalfOpen => self.half_open,
            Stage::Open => self.idle,
            Stage::Closing => self.closing,
        };
        now.since(seen).0 >= limit.0
    }
}

/// Sizes of a [`FlowTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections remembered at once.
    pub flows: u32,
    /// Of these, connections at [`Stage::HalfOpen`]: what a SYN flood can take.
    pub half_open: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { flows: 65_536, half_open: 16_384 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: FlowId,
    stage: Stage,
    seen: Time,
}

/// Connections by address. Indices are dense and reused, the latest freed first (its state is the warmest).
#[derive(Debug)]
pub struct FlowTable {
    limits: Limits,
    lifetimes: Lifetimes,
    entries: BTreeMap<FlowKey, Entry>,
    half_open: u32,
    fresh: u32,
    free: Vec<FlowId>,
}

impl FlowTable {
    /// An empty table.
    #[must_use]
    pub const fn new(limits: Limits, lifetimes: Lifetimes) -> Self {
        Self { limits, lifetimes, entries: BTreeMap::new(), half_open: 0, fresh: 0, free: Vec::new() }
    }

    /// Connections remembered now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no connection is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Connections that never got past their SYN.
    #[must_use]
    pub const fn half_open(&self) -> u32 {
        self.half_open
    }

    /// The connection's index, if it is remembered.
    #[must_use]
    pub fn get(&self, key: &FlowKey) -> Option<FlowId> {
        self.entries.get(key).map(|entry| entry.id)
    }

    /// A packet of the connection was seen, and `stage` is where that packet leaves it (a later stage never goes back,
    /// except that a new SYN reopens a closing connection). Remembers a new connection if there is room; `None` means
    /// that this connection is not guarded.
    pub fn touch(&mut self, key: &FlowKey, stage: Stage, now: Time) -> Option<FlowId> {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.seen = now;
            let next = match (entry.stage, stage) {
                (Stage::Closing, Stage::HalfOpen) => Stage::HalfOpen,
                (Stage::Closing, _) | (_, Stage::Closing) => Stage::Closing,
                (Stage::Open, _) | (_, Stage::Open) => Stage::Open,
                (Stage::HalfOpen, Stage::HalfOpen) => Stage::HalfOpen,
            };
            self.half_open -= u32::from(entry.stage == Stage::HalfOpen);
            self.half_open += u32::from(next == Stage::HalfOpen);
            entry.stage = next;
            return Some(entry.id);
        }
        if stage == Stage::HalfOpen && self.half_open >= self.limits.half_open {
            return None;
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.fresh < self.limits.flows => {
                self.fresh += 1;
                FlowId(self.fresh - 1)
            }
            None => return None,
        };
        self.half_open += u32::from(stage == Stage::HalfOpen);
        self.entries.insert(*key, Entry { id, stage, seen: now });
        Some(id)
    }

    /// A connection that was known by a part of its address (a probe names no local port) is known by all of it now. Returns
    /// the index of the connection that was remembered there before, which is free again.
    pub fn rename(&mut self, from: &FlowKey, to: &FlowKey) -> Option<FlowId> {
        let entry = self.entries.remove(from)?;
        let replaced = self.entries.insert(*to, entry)?;
        self.half_open -= u32::from(replaced.stage == Stage::HalfOpen);
        self.free.push(replaced.id);
        Some(replaced.id)
    }

    /// Forgets what has expired and tells `forgotten` each index before it is reused.
    pub fn sweep(&mut self, now: Time, mut forgotten: impl FnMut(FlowId)) {
        let Self { lifetimes, entries, half_open, free, .. } = self;
        entries.retain(|_, entry| {
            let keep = !lifetimes.expired(entry.stage, entry.seen, now);
            if !keep {
                *half_open -= u32::from(entry.stage == Stage::HalfOpen);
                free.push(entry.id);
                forgotten(entry.id);
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(port: u16) -> FlowKey {
        FlowKey { remote_port: port, ..FlowKey::default() }
    }

    #[test]
    fn the_key_has_no_padding() {
        assert_eq!(core::mem::size_of::<FlowKey>(), 40);
    }

    #[test]
    fn only_a_handshake_or_our_own_side_opens_a_connection() {
        let opens = |flags, direction| opens(&Segment { flags, ..Segment::default() }, direction, 3, 4);
        let cases = [
            (Flags::SYN, true, true),
            (Flags::SYN | Flags::ACK, false, true),
            (Flags::ACK, false, true),
            (Flags::ACK | Flags::FIN, false, false),
            (Flags::RST, false, false),
        ];
        for (flags, ingress, egress) in cases {
            assert_eq!(opens(flags, Direction::Ingress), ingress, "{flags:?} from outside");
            assert_eq!(opens(flags, Direction::Egress), egress, "{flags:?} from our side");
        }
        let full = |direction| super::opens(&Segment { flags: Flags::SYN, ..Segment::default() }, direction, 4, 4);
        assert!(!full(Direction::Ingress) && !full(Direction::Egress), "no room for another half-open connection");
    }

    #[test]
    fn connections_are_forgotten_after_their_lifetime() {
        let mut table = FlowTable::new(Limits::default(), Lifetimes::default());
        table.touch(&key(1), Stage::HalfOpen, Time::ZERO);
        table.touch(&key(2), Stage::Open, Time::ZERO);
        table.touch(&key(3), Stage::Open, Time::ZERO);
        table.touch(&key(3), Stage::Closing, Time::ZERO);
        let mut gone = Vec::new();
        for (seconds, left) in [(0, 3), (1, 2), (5, 1), (299, 1), (300, 0)] {
            table.sweep(Time::ZERO + Span::secs(seconds), |id| gone.push(id.0));
            assert_eq!(table.len(), left, "after {seconds} s");
        }
        assert_eq!(gone, [2, 0, 1]);
        assert_eq!(table.touch(&key(4), Stage::Open, Time::ZERO), Some(FlowId(1)), "the latest freed comes first");
    }

    #[test]
    fn a_syn_flood_takes_its_share_and_no_more() {
        let limits = Limits { flows: 100, half_open: 10 };
        let mut table = FlowTable::new(limits, Lifetimes::default());
        let guarded = (0..1000).filter(|&port| table.touch(&key(port), Stage::HalfOpen, Time::ZERO).is_some()).count();
        assert_eq!((guarded, table.len()), (10, 10));
        assert!(table.touch(&key(2000), Stage::Open, Time::ZERO).is_some(), "others still get in");
        assert!(table.touch(&key(5), Stage::Open, Time::ZERO).is_some());
        assert_eq!(table.half_open(), 9, "a handshake that goes on makes room");
    }

    #[test]
    fn a_connection_gets_its_whole_address_later() {
        let mut table = FlowTable::new(Limits::default(), Lifetimes::default());
        let old = table.touch(&key(1), Stage::HalfOpen, Time::ZERO);
        let probed = table.touch(&key(2), Stage::HalfOpen, Time::ZERO);
        assert_eq!(table.rename(&key(2), &key(1)), old, "what stood there is forgotten");
        assert_eq!((table.get(&key(1)), table.get(&key(2))), (probed, None));
        assert_eq!((table.len(), table.half_open()), (1, 1));
        assert_eq!(table.rename(&key(1), &key(3)), None, "nothing stood there");
        assert_eq!(table.get(&key(3)), probed);
        assert_eq!(table.rename(&key(9), &key(3)), None, "nobody is known by that address");
        assert_eq!(table.touch(&key(4), Stage::Open, Time::ZERO), old, "its index is used again");
    }

    proptest! {
        #[test]
        fn indices_are_dense_unique_and_bounded(steps in proptest::collection::vec((0u16..40, 0u8..3, 0u64..3), 1..300)) {
            let limits = Limits { flows: 16, half_open: 4 };
            let mut table = FlowTable::new(limits, Lifetimes::default());
            let mut now = Time::ZERO;
            for (port, stage, seconds) in steps {
                now += Span::secs(seconds);
                let stage = [Stage::HalfOpen, Stage::Open, Stage::Closing][usize::from(stage)];
                let known = table.get(&key(port));
                let id = table.touch(&key(port), stage, now);
                prop_assert!(known.is_none() || known == id);
                table.sweep(now, |_| {});
                let mut ids: Vec<u32> = table.entries.values().map(|entry| entry.id.0).collect();
                let total = ids.len();
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(ids.len(), total);
                prop_assert!(ids.iter().all(|&id| id < limits.flows));
                let half = table.entries.values().filter(|entry| entry.stage == Stage::HalfOpen).count();
                prop_assert_eq!(half, table.half_open as usize);
            }
        }
    }
}
