//! A frame in the generic host's hands. Before its bytes stands what tells the kernel, on the way back, that it is an
//! aggregate and that its checksum is still to be done: nothing is cut up and nothing is summed up here.

use ackgate_control::segment::{Edit, Flags};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Time;
use ackgate_control::wire::{self, Direction, Meta, Packet};

/// `struct virtio_net_hdr` (include/uapi/linux/virtio_net.h): flags, kind of aggregate, length of the headers, bytes of
/// payload in each frame, where the checksum begins, where in there it stands.
const VIRTIO_HEADER: usize = 10;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`, `VIRTIO_NET_HDR_GSO_TCPV4`, `VIRTIO_NET_HDR_GSO_TCPV6`, `VIRTIO_NET_HDR_GSO_ECN`.
const NEEDS_CHECKSUM: u8 = 1;
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const WITH_CWR: u8 = 0x80;
/// Where a VLAN tag belongs in a frame: after the two MAC addresses.
const TAG_OFFSET: usize = 12;

/// What the BPF programs saw or took (`enum what` of `intf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It was on its way out, and is ours now.
    Egress,
    /// It was on its way in, and is ours now.
    Ingress,
    /// It is on its way in; these are its headers.
    Seen,
    /// A probe that arrived.
    Probe,
}

/// A record of the ring: `struct taken` of `intf.h`, and the frame's bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken<'a> {
    pub(super) what: What,
    pub(super) time: Time,
    length: u32,
    gso_size: u16,
    gso_segs: u16,
    /// Ethernet type and tag control information of a tag that travels beside the frame.
    tag: Option<[u8; 4]>,
    bytes: &'a [u8],
}

impl<'a> Taken<'a> {
    /// Reads a record; `None` for anything else, which only a mismatch of versions could be.
    pub(super) fn read(record: &'a [u8]) -> Option<Self> {
        let (time, rest) = record.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (copied, rest) = rest.split_first_chunk::<4>()?;
        let (&[s0, s1, n0, n1, t0, t1, p0, p1], rest) = rest.split_first_chunk::<8>()?;
        let (&[what, ..], rest) = rest.split_first_chunk::<8>()?;
        let protocol = u16::from_ne_bytes([p0, p1]);
        let tag = (protocol != 0).then(|| {
            let ([a, b], [c, d]) = (protocol.to_be_bytes(), u16::from_ne_bytes([t0, t1]).to_be_bytes());
            [a, b, c, d]
        });
        let what = match what {
            0 => What::Egress,
            1 => What::Ingress,
            2 => What::Seen,
            3 => What::Probe,
            _ => return None,
        };
        Some(Self {
            what,
            time: Time(u64::from_ne_bytes(*time)),
            length: u32::from_ne_bytes(*length),
            gso_size: u16::from_ne_bytes([s0, s1]),
            gso_segs: u16::from_ne_bytes([n0, n1]),
            tag,
            bytes: rest.get(..u32::from_ne_bytes(*copied) as usize)?,
        })
    }
}

/// A frame, whole or (when it was only seen) its headers.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The virtio header, then the frame.
    bytes: Vec<u8>,
    meta: Meta,
    packet: Option<Packet>,
}

impl Frame {
    /// Takes over what a record holds. A tag that travelled beside the frame is put back into it.
    pub(super) fn new(taken: &Taken<'_>) -> Self {
        let mut bytes = Vec::with_capacity(VIRTIO_HEADER + taken.bytes.len() + 4);
        bytes.resize(VIRTIO_HEADER, 0);
        let mut len = taken.length;
        match (taken.tag, taken.bytes.split_at_checked(TAG_OFFSET)) {
            (Some(tag), Some((addresses, rest))) => {
                bytes.extend_from_slice(addresses);
                bytes.extend_from_slice(&tag);
                bytes.extend_from_slice(rest);
                len = len.saturating_add(4);
            }
            _ => bytes.extend_from_slice(taken.bytes),
        }
        let meta = Meta { len, gso_size: taken.gso_size, gso_segs: taken.gso_segs, vlan: None };
        Self { bytes, meta, packet: None }
    }

    /// A frame that needs nothing from the kernel.
    pub(super) fn plain(frame: &[u8]) -> Self {
        let mut bytes = vec![0; VIRTIO_HEADER];
        bytes.extend_from_slice(frame);
        Self { bytes, meta: Meta::whole(frame), packet: None }
    }

    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The Ethernet frame.
    pub(super) fn frame(&self) -> &[u8] {
        &self.bytes[VIRTIO_HEADER..]
    }

    /// Whether it belongs to a connection of several paths (MPTCP): its window is that of all of them, and to act on one is to
    /// starve the others.
    pub(super) fn is_multipath(&self) -> bool {
        self.packet.is_some_and(|packet| packet.segment.multipath)
    }

    /// Reads the headers, and notes for the kernel what is still to be done; `None` for what is none of a policy's business.
    pub(super) fn understand(&mut self, direction: Direction) -> Option<Packet> {
        let packet = wire::parse(self.frame(), &self.meta, direction).ok()?;
        self.packet = Some(packet);
        let layout = packet.layout;
        let (virtio, frame) = self.bytes.split_at_mut(VIRTIO_HEADER);
        let small = |offset: usize| u16::try_from(offset).unwrap_or(u16::MAX).to_ne_bytes();
        if self.meta.gso_size > 0 {
            wire::leave_to_card(frame, &layout);
            let cwr = if packet.segment.flags.has(Flags::CWR) { WITH_CWR } else { 0 };
            virtio[1] = if layout.ipv6 { TCP_IPV6 } else { TCP_IPV4 } | cwr;
            virtio[2..4].copy_from_slice(&small(layout.payload));
            virtio[4..6].copy_from_slice(&self.meta.gso_size.to_ne_bytes());
        }
        if wire::is_left_to_card(frame, &layout) {
            virtio[0] = NEEDS_CHECKSUM;
            virtio[6..8].copy_from_slice(&small(layout.tcp));
            virtio[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        }
        (!packet.segment.multipath).then_some(packet)
    }

    /// Makes the changes that a policy asked for. A checksum that is still to be done covers only addresses and length so
    /// far, which no change touches.
    pub(super) fn edit(&mut self, edit: &Edit) {
        let Some(Packet { layout, .. }) = self.packet.filter(|_| *edit != Edit::NONE) else { return };
        let (virtio, frame) = self.bytes.split_at_mut(VIRTIO_HEADER);
        wire::apply(frame, &layout, edit);
        if virtio[0] == NEEDS_CHECKSUM {
            wire::leave_to_card(frame, &layout);
        }
    }

    /// The bare ACK that stands where TCP stands after this packet ([`ackgate_control::policy::Action::Split`]).
    pub(super) fn bare_ack(&self) -> Self {
        match &self.packet {
            Some(packet) => {
                let mut bare = Self::plain(&wire::bare_ack(self.frame(), packet));
                bare.understand(Direction::Egress);
                bare
            }
            None => self.clone(),
        }
    }

    /// The first frame's worth of its payload from a sequence number on: itself, if it is no aggregate.
    pub(super) fn first_from(&self, seq: SeqNumber) -> Option<Self> {
        let packet = self.packet.as_ref()?;
        if self.meta.gso_size == 0 && seq == packet.segment.seq {
            return Some(self.clone());
        }
        let most = if self.meta.gso_size == 0 { usize::MAX } else { usize::from(self.meta.gso_size) };
        let mut piece = Self::plain(&wire::piece(self.frame(), packet, seq, most)?);
        piece.understand(Direction::Egress);
        Some(piece)
    }

    /// The frame as the kernel takes it, behind its virtio header.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// All that is done to a record's bytes here: the frame with `edit` done, as the kernel takes it, and its bare ACK.
pub(crate) fn rewrite(record: &[u8], direction: Direction, edit: &Edit) -> Option<[Vec<u8>; 2]> {
    let mut frame = Frame::new(&Taken::read(record)?);
    frame.understand(direction)?;
    frame.edit(edit);
    let bare = frame.bare_ack();
    Some([frame.into_bytes(), bare.into_bytes()])
}

/// A record as the programs write it.
#[cfg(test)]
pub(super) fn record(what: u8, time: Time, frame: &[u8], gso_size: u16, tag: Option<(u16, u16)>) -> Vec<u8> {
    let mut record = time.0.to_ne_bytes().to_vec();
    record.extend_from_slice(&(frame.len() as u32).to_ne_bytes());
    record.extend_from_slice(&(frame.len() as u32).to_ne_bytes());
    let (protocol, tci) = tag.unwrap_or((0, 0));
    for field in [gso_size, 0, tci, protocol] {
        record.extend_from_slice(&field.to_ne_bytes());
    }
    record.extend_from_slice(&[what, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(record.len(), 32, "struct taken");
    record.extend_from_slice(frame);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackgate_control::flow::FlowKey;
    use ackgate_control::segment::{Position, Segment};
    use ackgate_control::wire::{Checksum, complete_checksum, emit, parse};

    fn record(what: u8, frame: &[u8], gso_size: u16, tag: Option<(u16, u16)>) -> Vec<u8> {
        super::record(what, Time(7), frame, gso_size, tag)
    }

    fn key(ipv6: bool) -> FlowKey {
        let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
        let address = if ipv6 { [0xfd; 16] } else { v4 };
        FlowKey { local: address, remote: address, local_port: 1, remote_port: 2, vlan: 0 }
    }

    fn data(payload: u32) -> Segment {
        Segment { flags: Flags::ACK, payload, window: 500, timestamps: Some((1, 2)), ..Segment::default() }
    }

    const EDIT: Edit = Edit {
        window: Some(23),
        ect: Some(true),
        ece: Some(true),
        position: Some(Position { seq: SeqNumber(98), ack: SeqNumber(99), timestamps: (4, 5) }),
    };

    #[test]
    fn a_record_is_read_as_the_programs_write_it() {
        let bytes = record(3, b"0123456789abcdef", 9, Some((0x8100, 0x200a)));
        let taken = Taken::read(&bytes).unwrap();
        assert_eq!((taken.what, taken.time, taken.gso_size), (What::Probe, Time(7), 9));
        let frame = Frame::new(&taken);
        assert_eq!(frame.frame(), b"0123456789ab\x81\x00\x20\x0acdef", "the tag is back in its place");
        assert_eq!(frame.meta().len, 20);
        for length in 0..bytes.len() {
            assert!(Taken::read(&bytes[..length]).is_none());
        }
        assert!(Taken::read(&record(4, b"x", 0, None)).is_none());
    }

    #[test]
    fn a_whole_checksum_stays_whole_and_a_wrong_one_wrong() {
        for ipv6 in [false, true] {
            let mut bytes = emit(&key(ipv6), &data(100), Direction::Ingress);
            for wrong in [false, true] {
                let last = bytes.len() - 1;
                bytes[last] ^= u8::from(wrong);
                let record = record(1, &bytes, 0, None);
                let mut frame = Frame::new(&Taken::read(&record).unwrap());
                frame.understand(Direction::Ingress).unwrap();
                frame.edit(&EDIT);
                let mut out = frame.into_bytes();
                assert_eq!(out[..VIRTIO_HEADER], [0; VIRTIO_HEADER], "nothing is left to do");
                let packet = parse(&out[10..], &Meta::whole(&out[10..]), Direction::Ingress).unwrap();
                assert_eq!((packet.segment.window, packet.segment.ack), (23, SeqNumber(99)));
                let verdict = if wrong { Checksum::Wrong } else { Checksum::Valid };
                assert_eq!(complete_checksum(&mut out[10..], &packet.layout), verdict);
            }
        }
    }

    #[test]
    fn a_checksum_that_was_left_to_the_card_is_left_to_it_again() {
        for (ipv6, gso_size) in [(false, 0), (true, 0), (false, 1000), (true, 1000)] {
            let mut bytes = emit(&key(ipv6), &data(2500), Direction::Egress);
            let packet = parse(&bytes, &Meta::whole(&bytes), Direction::Egress).unwrap();
            wire::leave_to_card(&mut bytes, &packet.layout);
            let record = record(0, &bytes, gso_size, None);
            let mut frame = Frame::new(&Taken::read(&record).unwrap());
            let understood = frame.understand(Direction::Egress).unwrap();
            assert_eq!(understood.segment.frames, if gso_size > 0 { 3 } else { 1 });
            frame.edit(&EDIT);
            let mut out = frame.into_bytes();
            let field = |at: usize| usize::from(u16::from_ne_bytes([out[at], out[at + 1]]));
            assert_eq!((out[0], field(6), field(8)), (NEEDS_CHECKSUM, packet.layout.tcp, 16));
            let kind = if ipv6 { TCP_IPV6 } else { TCP_IPV4 };
            let aggregate = if gso_size > 0 { (kind, packet.layout.payload, 1000) } else { (0, 0, 0) };
            assert_eq!((out[1], field(2), field(4)), aggregate);
            assert_eq!(complete_checksum(&mut out[10..], &packet.layout), Checksum::Completed);
        }
    }
}
