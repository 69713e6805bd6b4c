//! Frames from segments: for tests that want literal packets, and for packet traces.

use alloc::vec::Vec;

use super::checksum::{ipv4_checksum, put16, tcp_checksum};
use super::{Direction, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, Layout, Meta, PROTOCOL_TCP, parse};
use crate::flow::FlowKey;
use crate::segment::Segment;
use crate::seq::SeqNumber;

/// Writes the frame that `segment` describes, payload zero, checksums complete, as the local end sends it
/// ([`Direction::Egress`]) or receives it. VLAN identifiers of the key become tags in the bytes; MAC addresses are
/// locally administered ones. A SACK option names one block, a segment's length ahead of the acknowledgement.
/// An aggregate comes out as one frame; [`Segment::header`] is what the options make it.
#[must_use]
pub fn emit(key: &FlowKey, segment: &Segment, direction: Direction) -> Vec<u8> {
    let (source, destination, source_port, destination_port) = match direction {
        Direction::Ingress => (key.remote, key.local, key.remote_port, key.local_port),
        Direction::Egress => (key.local, key.remote, key.local_port, key.remote_port),
    };
    let ipv4 = key.is_ipv4();
    let options = options(segment);
    let tcp_length = 20 + options.len() + segment.payload as usize;

    let mut frame = Vec::with_capacity(62 + tcp_length);
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    for vlan in [key.vlan >> 12 & 0xfff, key.vlan & 0xfff] {
        if vlan != 0 {
            frame.extend_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
            frame.extend_from_slice(&vlan.to_be_bytes()[2..]);
        }
    }
    let ecn = if segment.ce { 3 } else { 0 };
    let ip = frame.len() + 2;
    frame.extend_from_slice(&if ipv4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 }.to_be_bytes());
    push_ip(&mut frame, ipv4, &source, &destination, ecn, tcp_length);
    let tcp = frame.len();
    frame.extend_from_slice(&source_port.to_be_bytes());
    frame.extend_from_slice(&destination_port.to_be_bytes());
    frame.extend_from_slice(&segment.seq.0.to_be_bytes());
    frame.extend_from_slice(&segment.ack.0.to_be_bytes());
    let words = u8::try_from((20 + options.len()) / 4).unwrap_or(15);
    frame.extend_from_slice(&[words << 4, segment.flags.0]);
    frame.extend_from_slice(&segment.window.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&options);
    let payload = frame.len();
    frame.resize(payload + segment.payload as usize, 0);

    let end = frame.len();
    fill_checksums(&mut frame, &Layout { ip, ipv6: !ipv4, tcp, payload, end });
    debug_assert!(end > 0xffff || parse(&frame, &Meta::whole(&frame), direction).is_ok());
    frame
}

/// Appends an IP header without options before `length` bytes of TCP; an IPv4 header's checksum is zero.
pub(super) fn push_ip(
    frame: &mut Vec<u8>,
    ipv4: bool,
    source: &[u8; 16],
    destination: &[u8; 16],
    ecn: u8,
    length: usize,
) {
    if ipv4 {
        frame.extend_from_slice(&[0x45, ecn]);
        // An aggregate beyond 64 KB carries no length, as Linux has it.
        frame.extend_from_slice(&u16::try_from(20 + length).unwrap_or(0).to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_TCP, 0, 0]);
        frame.extend_from_slice(&source[12..]);
        frame.extend_from_slice(&destination[12..]);
    } else {
        frame.extend_from_slice(&[0x60, ecn << 4, 0, 0]);
        frame.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
        frame.extend_from_slice(&[PROTOCOL_TCP, 64]);
        frame.extend_from_slice(source);
        frame.extend_from_slice(destination);
    }
}

/// Computes the IPv4 header's checksum, if there is one, and TCP's, whatever the fields hold.
pub fn fill_checksums(frame: &mut [u8], layout: &Layout) {
    if !layout.ipv6 {
        let check = ipv4_checksum(&frame[layout.ip..layout.tcp]);
        put16(frame, layout.ip + 10, check);
    }
    let check = tcp_checksum(frame, layout);
    put16(frame, layout.tcp + 16, check);
}

fn options(segment: &Segment) -> Vec<u8> {
    let mut out = Vec::new();
    if segment.mss != 0 {
        out.extend_from_slice(&[2, 4]);
        out.extend_from_slice(&segment.mss.to_be_bytes());
    }
    if let Some((value, echo)) = segment.timestamps {
        // In a SYN of Linux's SACK permitted stands where else there is padding.
        out.extend_from_slice(if segment.mss != 0 { &[4, 2] } else { &[1, 1] });
        out.extend_from_slice(&[8, 10]);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
    if let Some(shift) = segment.wscale {
        out.extend_from_slice(&[1, 3, 3, shift]);
    }
    if segment.sack {
        out.extend_from_slice(&[1, 1, 5, 10]);
        // A block below the acknowledgement number, or one beyond a hole.
        let (below, beyond) = (SeqNumber(segment.ack.0.wrapping_sub(1448)), segment.ack + 1448);
        let block = if segment.dsack { (below, segment.ack) } else { (beyond, beyond + 1448) };
        out.extend_from_slice(&block.0.0.to_be_bytes());
        out.extend_from_slice(&block.1.0.to_be_bytes());
    }
    if segment.multipath {
        // A DSS without content (RFC 8684 section 3.3).
        out.extend_from_slice(&[30, 4, 0x20, 0]);
    }
    out
}
