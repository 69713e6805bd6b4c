//! Segments that no TCP has written: the bare copy of a packet, a connection's last word once more, a piece of an aggregate.

use alloc::vec::Vec;

use super::checksum::put16;
use super::emit::{fill_checksums, push_ip};
use super::{ETHERNET_HEADER, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Layout, MAX_VLAN_TAGS, Packet, VLAN_TAG, is_tag};
use crate::flow::FlowKey;
use crate::segment::{Flags, Position};
use crate::seq::SeqNumber;

/// The bare ACK that stands where TCP stands after `packet`, which `frame` holds: an acknowledgement, a window and timestamps, and
/// nothing that was said once and is not to be said again (payload, flags, ECN-Echo, the urgent pointer, SACK blocks, AccECN's
/// counters). Its sequence number is the packet's end. The frame must be the one that was parsed.
#[must_use]
pub fn bare_ack(frame: &[u8], packet: &Packet) -> Vec<u8> {
    let Layout { ip, ipv6, tcp, .. } = packet.layout;
    let segment = &packet.segment;
    let position =
        Position { seq: segment.end(), ack: segment.ack, timestamps: segment.timestamps.unwrap_or_default() };
    let mut bare = frame.get(..tcp + 4).unwrap_or_default().to_vec();
    if bare.is_empty() {
        return bare;
    }
    push_ack(&mut bare, &position, segment.timestamps.is_some(), segment.window);
    let end = bare.len();
    // Headers are far shorter than 64 KB.
    let length = |from: usize| u16::try_from(end - from).unwrap_or(u16::MAX);
    // An ACK alone is not ECN-capable (RFC 3168 §6.1.4).
    if ipv6 {
        bare[ip + 1] &= !0x30;
        put16(&mut bare, ip + 4, length(ip + 40))
    } else {
        bare[ip + 1] &= !3;
        put16(&mut bare, ip + 2, length(ip))
    }
    fill_checksums(&mut bare, &Layout { payload: end, end, ..packet.layout });
    bare
}

/// The frame of at most `most` bytes of payload that begins at `from`, cut out of an aggregate that `frame` holds; `None` where that
/// has no payload. The frame must be the one that was parsed.
#[must_use]
pub fn piece(frame: &[u8], packet: &Packet, from: SeqNumber, most: usize) -> Option<Vec<u8>> {
    let Layout { ip, ipv6, tcp, payload, end } = packet.layout;
    let skip = usize::try_from(from.distance_from(packet.segment.seq)).ok()?;
    let content = frame.get(payload..end)?.get(skip..).filter(|content| !content.is_empty())?;
    let whole = content.len() <= most;
    let mut piece = [&frame[..payload], &content[..content.len().min(most)]].concat();
    piece[tcp + 4..tcp + 8].copy_from_slice(&from.0.to_be_bytes());
    // What is said once: the end is the end's, a reduced window the beginning's (RFC 3168 §6.1.2).
    piece[tcp + 13] &= !(Flags::CWR.0 | if whole { 0 } else { Flags::FIN.0 | Flags::PSH.0 });
    let end = piece.len();
    let length = u16::try_from(end - ip - if ipv6 { 40 } else { 0 }).ok()?;
    put16(&mut piece, ip + if ipv6 { 4 } else { 2 }, length);
    fill_checksums(&mut piece, &Layout { end, ..packet.layout });
    Some(piece)
}

/// Writes the ACK of a connection that stands at `position` into `frame`, behind the link header that `link` begins with
/// (addresses and up to two VLAN tags), which says whether it is IPv4. False, and nothing of use, if it is no such header.
#[must_use]
pub fn plain_ack(link: &[u8], key: &FlowKey, position: &Position, window: u16, frame: &mut Vec<u8>) -> bool {
    frame.clear();
    let Some(ip) = network_header(link) else { return false };
    let ipv4 = key.is_ipv4();
    let expected = if ipv4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
    if link[ip - 2..ip] != expected.to_be_bytes() {
        return false;
    }
    let timestamps = position.timestamps != (0, 0);
    frame.extend_from_slice(&link[..ip]);
    push_ip(frame, ipv4, &key.local, &key.remote, 0, if timestamps { 32 } else { 20 });
    let tcp = frame.len();
    frame.extend_from_slice(&key.local_port.to_be_bytes());
    frame.extend_from_slice(&key.remote_port.to_be_bytes());
    push_ack(frame, position, timestamps, window);
    let end = frame.len();
    fill_checksums(frame, &Layout { ip, ipv6: !ipv4, tcp, payload: end, end });
    true
}

/// Where the network header begins.
fn network_header(link: &[u8]) -> Option<usize> {
    let mut at = ETHERNET_HEADER;
    for _ in 0..MAX_VLAN_TAGS {
        if !is_tag(link.get(at - 2..at)?) {
            break;
        }
        at += VLAN_TAG;
    }
    (at <= link.len()).then_some(at)
}

/// What follows the ports in the TCP header of an ACK without content; the checksum is zero.
fn push_ack(to: &mut Vec<u8>, position: &Position, timestamps: bool, window: u16) {
    to.extend_from_slice(&position.seq.0.to_be_bytes());
    to.extend_from_slice(&position.ack.0.to_be_bytes());
    let words = if timestamps { 8 } else { 5 };
    to.extend_from_slice(&[words << 4, Flags::ACK.0]);
    to.extend_from_slice(&window.to_be_bytes());
    to.extend_from_slice(&[0; 4]);
    if timestamps {
        // Aligned as in RFC 7323 appendix A.
        to.extend_from_slice(&[1, 1, 8, 10]);
        to.extend_from_slice(&position.timestamps.0.to_be_bytes());
        to.extend_from_slice(&position.timestamps.1.to_be_bytes());
    }
}
