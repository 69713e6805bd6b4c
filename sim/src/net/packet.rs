//! Packets on the wire, and the slab that holds them: one cache line each, no allocation per packet.

use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;

use crate::engine::{Ps, prefetch};

/// The end of a list of packets.
pub const NIL: u32 = u32::MAX;

/// SACK blocks that fit beside a timestamp (RFC 2018 §3); also what the simulator sends without one.
pub const SACK_BLOCKS: usize = 3;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that sends the bulk of the data (a storage server, a worker).
    Sender = 0,
    /// The side that receives it (the aggregator), where the ACKs come from.
    Receiver = 1,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// A packet in flight. Sequence numbers are what stands in the header: 32 bits that wrap.
///
/// The first cache line is all that is touched of a packet without SACK blocks.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it reaches the end of the channel it is on.
    pub arrival: Ps,
    /// Next packet on the same channel, held of the same flow, or in the free list.
    pub next: u32,
    /// Connection, by index.
    pub flow: u32,
    /// First sequence number.
    pub seq: SeqNumber,
    /// Acknowledgement number.
    pub ack: SeqNumber,
    /// TSval and TSecr, when `options` says so.
    pub timestamps: (u32, u32),
    /// The channel to take next: where it stands in [`Plan::paths`](super::Plan::paths).
    pub hop: u32,
    /// M21TCP-A's field: what switches wrote, or its echo ([`Packet::is_stamped`] says which); 0 for nothing.
    pub senders: u32,
    /// Payload bytes.
    pub payload: u16,
    /// Window field, unscaled.
    pub window: u16,
    /// Bytes before and behind the payload that a buffer holds: link layer, IP and TCP with options.
    pub header: u8,
    /// TCP flags.
    pub flags: Flags,
    /// IP and option bits: [`Packet::ECT`] and its neighbours.
    pub bits: u8,
    /// Which end sent it.
    pub from: Side,
    /// Life of the connection slot: packets of an earlier life are strangers.
    pub life: u8,
    /// SACK blocks in use.
    pub sack_len: u8,
    /// SACK blocks: first and after-last sequence number.
    pub sack: [(SeqNumber, SeqNumber); SACK_BLOCKS],
}

impl Packet {
    /// ECN-capable transport (RFC 3168 §5).
    pub const ECT: u8 = 1;
    /// Congestion experienced.
    pub const CE: u8 = 2;
    /// Carries the timestamps option.
    pub const TIMESTAMPS: u8 = 4;
    /// Sent before.
    pub const RETRANSMISSION: u8 = 8;
    /// A scheme's probe: IP alone, no TCP.
    pub const PROBE: u8 = 16;
    /// The next segment follows at once, as one burst with this (TSO).
    pub const MORE: u8 = 32;
    /// A datagram: UDP, no TCP.
    pub const DATAGRAM: u8 = 64;
    /// Bytes of a datagram's header (RFC 768).
    pub const UDP_HEADER: u8 = 8;
    /// Is in the slab's free list.
    const FREE: u8 = 128;

    /// Whether a bit is set.
    #[must_use]
    pub const fn is(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Whether M21TCP-A's field is for switches to write. On other packets it is the echo: a switch on the way of the
    /// ACKs must not take it for a count of its own flows.
    #[must_use]
    pub const fn is_stamped(&self) -> bool {
        (self.payload > 0 && !self.is(Self::DATAGRAM)) || self.flags.has(Flags::SYN) && !self.flags.has(Flags::ACK)
    }

    /// Whether it takes up sequence numbers: data, SYN or FIN.
    #[must_use]
    pub const fn is_numbered(&self) -> bool {
        self.payload > 0 || self.flags.any(Flags(Flags::SYN.0 | Flags::FIN.0))
    }

    /// Whether it carries the byte, the SYN or the FIN that `number` stands for.
    #[must_use]
    pub fn carries(&self, number: SeqNumber) -> bool {
        let is_first = self.seq == number;
        let is_further = self.seq.before(number) && (self.seq + u32::from(self.payload)).after(number);
        self.is_numbered() && (is_first || is_further)
    }

    /// Bytes that a buffer holds for it.
    #[must_use]
    pub const fn frame(&self) -> u32 {
        self.payload as u32 + self.header as u32
    }

    /// TCP header length in bytes, options included.
    #[must_use]
    pub const fn tcp_header(&self) -> u8 {
        let timestamps = if self.is(Self::TIMESTAMPS) { 12 } else { 0 };
        let sack = if self.sack_len > 0 { 4 + 8 * self.sack_len } else { 0 };
        // SYN: MSS 4, window scale 3, SACK permitted 2, padded to 12.
        let syn = if self.flags.has(Flags::SYN) { 12 } else { 0 };
        20 + timestamps + sack + syn
    }

    /// Keeps only the acknowledgement, its window and timestamps: as TCP stands after this packet. `header` is what comes before TCP,
    /// `wscale` the shift of its window field, which does not yet hold for a SYN-ACK.
    pub fn become_bare_ack(&mut self, header: u8, wscale: u8) {
        let phantom = u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN));
        self.seq += u32::from(self.payload) + phantom;
        if self.flags.has(Flags::SYN) {
            self.window >>= wscale;
        }
        self.payload = 0;
        self.flags = Flags::ACK;
        self.sack_len = 0;
        self.bits &= !(Self::RETRANSMISSION | Self::ECT | Self::CE);
        self.header = header + self.tcp_header();
    }

    /// What a policy sees of it. `trailer` is what of the header comes behind the payload (the FCS), which hosts do not
    /// see.
    #[must_use]
    pub fn segment(&self, mss: u16, wscale: u8, trailer: u8) -> Segment {
        let syn = self.flags.has(Flags::SYN);
        Segment {
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            payload: u32::from(self.payload),
            frames: 1,
            header: u16::from(self.header - trailer),
            ce: self.is(Self::CE),
            sack: self.sack_len > 0,
            // RFC 2883 §4: a first block that the ACK covers is a report of something that came twice.
            dsack: self.sack_len > 0 && !self.ack.before(self.sack[0].1),
            mss: if syn { mss } else { 0 },
            wscale: if syn { Some(wscale) } else { None },
            timestamps: if self.is(Self::TIMESTAMPS) { Some(self.timestamps) } else { None },
            multipath: false,
        }
    }
}

impl Default for Packet {
    fn default() -> Self {
        Self {
            arrival: Ps::ZERO,
            next: NIL,
            flow: 0,
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            timestamps: (0, 0),
            hop: 0,
            payload: 0,
            header: 0,
            window: 0,
            flags: Flags(0),
            bits: 0,
            from: Side::Sender,
            life: 0,
            sack_len: 0,
            sack: [(SeqNumber(0), SeqNumber(0)); SACK_BLOCKS],
            senders: 0,
        }
    }
}

/// All packets that exist, by handle.
#[derive(Default)]
pub struct Slab {
    packets: Vec<Packet>,
    free: u32,
    live: usize,
}

impl Slab {
    /// An empty slab.
    #[must_use]
    pub fn new() -> Self {
        Self { packets: Vec::new(), free: NIL, live: 0 }
    }

    /// The packet that [`claim`](Self::claim) would give: to be filled in where it will stay, since a copy of something
    /// just written in small pieces is the most expensive thing that could be done with it.
    #[inline]
    pub fn vacant(&mut self) -> &mut Packet {
        if self.free == NIL {
            self.free = u32::try_from(self.packets.len()).expect("fewer than 2^32 packets exist");
            self.packets.push(Packet { bits: Packet::FREE, ..Packet::default() });
        }
        &mut self.packets[self.free as usize]
    }

    /// Takes the vacant packet in, once it is filled in, and gives its handle.
    #[inline]
    pub fn claim(&mut self) -> u32 {
        let handle = self.free;
        self.free = self.packets[handle as usize].next;
        self.live += 1;
        handle
    }

    /// Takes a packet in and gives its handle.
    pub fn insert(&mut self, packet: Packet) -> u32 {
        let vacant = self.vacant();
        let next = vacant.next;
        *vacant = Packet { next, ..packet };
        self.claim()
    }

    /// Ends a packet's life.
    #[inline]
    pub fn remove(&mut self, handle: u32) {
        let packet = &mut self.packets[handle as usize];
        debug_assert!(!packet.is(Packet::FREE), "packet {handle} freed twice");
        packet.bits = Packet::FREE;
        packet.next = self.free;
        self.free = handle;
        self.live -= 1;
    }

    /// Has a packet brought near.
    #[inline]
    pub(crate) fn prefetch(&self, handle: u32) {
        prefetch(&self.packets, handle as usize);
    }

    /// Has the packet brought near that will be claimed next.
    #[inline]
    pub(crate) fn prefetch_vacant(&self) {
        prefetch(&self.packets, self.free as usize);
    }

    /// Packets that exist.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The packets of a list, which begins with `first` and goes on with [`Packet::next`].
    pub fn list(&self, first: u32) -> impl Iterator<Item = &Packet> {
        let at = |handle: u32| self.packets.get(handle as usize);
        std::iter::successors(at(first), move |packet| at(packet.next))
    }

    /// The packets of a ring, of which `one` is one; none where it is [`NIL`].
    pub fn ring(&self, one: u32) -> impl Iterator<Item = &Packet> {
        let mut next = (one != NIL).then_some(one);
        std::iter::from_fn(move || {
            let packet = &self.packets[next? as usize];
            next = (packet.next != one).then_some(packet.next);
            Some(packet)
        })
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Packet;
    #[inline]
    fn index(&self, handle: u32) -> &Packet {
        &self.packets[handle as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, handle: u32) -> &mut Packet {
        &mut self.packets[handle as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_sack_blocks_is_on_one_cache_line() {
        assert!(std::mem::offset_of!(Packet, sack) <= 64);
    }

    #[test]
    fn handles_are_reused_and_the_live_ones_counted() {
        let mut slab = Slab::new();
        let a = slab.insert(Packet { flow: 1, ..Packet::default() });
        let b = slab.insert(Packet { flow: 2, ..Packet::default() });
        slab.remove(a);
        let c = slab.insert(Packet { flow: 3, ..Packet::default() });
        assert_eq!(a, c);
        assert_eq!((slab.len(), slab[b].flow, slab[c].flow), (2, 2, 3));
        slab[b].next = c;
        assert_eq!(slab.list(b).map(|packet| packet.flow).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(slab.list(NIL).count(), 0);
        slab[c].next = b;
        assert_eq!(slab.ring(c).map(|packet| packet.flow).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(slab.ring(NIL).count(), 0);
    }
}
