//! The Internet checksum (RFC 1071) of TCP, whole and incremental (RFC 1624).

use super::{Layout, be16, options};
use crate::segment::{Edit, Flags, Position};

/// What the checksum field of a frame turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Right already.
    Valid,
    /// The sum of the pseudo-header only, as a host leaves it for its network card: now completed.
    Completed,
    /// Neither. Left as it is: a broken packet must not be made to look whole.
    Wrong,
}

/// Completes a TCP checksum that was left to the network card. Frames must be single (no aggregate) and whole.
pub fn complete_checksum(frame: &mut [u8], layout: &Layout) -> Checksum {
    let Some(segment) = frame.get(layout.tcp..layout.end) else { return Checksum::Wrong };
    let pseudo = pseudo_header(frame, layout);
    let stored = be16(&segment[16..18]);
    let sum = fold(pseudo + sum(segment));
    if sum == 0xffff {
        return Checksum::Valid;
    }
    if stored != fold(pseudo) {
        return Checksum::Wrong;
    }
    let complete = !fold(pseudo + sum_without_field(segment));
    put16(frame, layout.tcp + 16, complete);
    Checksum::Completed
}

/// Whether the checksum's field holds the sum of the pseudo-header only: the host left the rest to its network card. One
/// right checksum in 65536 looks the same, and completing that one gives it again.
#[must_use]
pub fn is_left_to_card(frame: &[u8], layout: &Layout) -> bool {
    frame.get(layout.tcp + 16..layout.tcp + 18).map(be16) == Some(fold(pseudo_header(frame, layout)))
}

/// Leaves the checksum of an aggregate, whose frames have been verified or not been made yet, to whoever cuts it up.
pub fn leave_to_card(frame: &mut [u8], layout: &Layout) {
    let pseudo = fold(pseudo_header(frame, layout));
    put16(frame, layout.tcp + 16, pseudo);
}

/// Makes the changes that a policy asked for, checksums updated with them. The TCP checksum must be complete.
pub fn apply(frame: &mut [u8], layout: &Layout, edit: &Edit) {
    let tcp = layout.tcp;
    if let Some(window) = edit.window {
        replace(frame, tcp, tcp + 14, tcp + 16, &window.to_be_bytes());
    }
    if let (Some(echo), Some(&flags)) = (edit.ece, frame.get(tcp + 13)) {
        let flags = if echo { flags | Flags::ECE.0 } else { flags & !Flags::ECE.0 };
        replace(frame, tcp, tcp + 13, tcp + 16, &[flags]);
    }
    if let Some(Position { seq, ack, timestamps: (tsval, tsecr) }) = edit.position {
        replace(frame, tcp, tcp + 4, tcp + 16, &seq.0.to_be_bytes());
        replace(frame, tcp, tcp + 8, tcp + 16, &ack.0.to_be_bytes());
        if let Some(at) = frame.get(tcp + 20..layout.payload).and_then(options::timestamps_at) {
            replace(frame, tcp, tcp + 20 + at, tcp + 16, &tsval.to_be_bytes());
            replace(frame, tcp, tcp + 24 + at, tcp + 16, &tsecr.to_be_bytes());
        }
    }
    if let Some(capable) = edit.ect {
        let ect = u16::from(capable) * 2;
        if layout.ipv6 {
            // The traffic class lies across the first two bytes, and no checksum covers it.
            let Some(first) = frame.get(layout.ip..layout.ip + 2).map(be16) else { return };
            put16(frame, layout.ip, first & !0x30 | ect << 4);
        } else if let Some(&service) = frame.get(layout.ip + 1) {
            replace(frame, layout.ip, layout.ip + 1, layout.ip + 10, &[service & !3 | ect as u8]);
        }
    }
}

/// Replaces the bytes at `at` of the header that begins at `header`, and updates the checksum at `check` with them
/// (RFC 1624 Eq. 3, over the 16-bit words that the bytes touch).
fn replace(frame: &mut [u8], header: usize, at: usize, check: usize, new: &[u8]) {
    let (start, end) = (at - (at - header) % 2, at + new.len());
    let words = start..end + (end - start) % 2;
    let (Some(old), Some(field)) = (frame.get(words.clone()), frame.get(check..check + 2).map(be16)) else { return };
    let before: u64 = old.chunks_exact(2).map(|word| u64::from(!be16(word))).sum();
    frame[at..end].copy_from_slice(new);
    let after = sum(&frame[words]);
    put16(frame, check, !fold(u64::from(!field) + before + after));
}

/// The complete TCP checksum of a frame, whatever its field holds.
pub(super) fn tcp_checksum(frame: &[u8], layout: &Layout) -> u16 {
    !fold(pseudo_header(frame, layout) + sum_without_field(&frame[layout.tcp..layout.end]))
}

/// The checksum of an IPv4 header, whatever its field holds.
pub(super) fn ipv4_checksum(header: &[u8]) -> u16 {
    !fold(sum(&header[..10]) + sum(&header[12..]))
}

pub(super) fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

fn sum_without_field(segment: &[u8]) -> u64 {
    sum(&segment[..16]) + sum(&segment[18..])
}

/// Sum of addresses, protocol and TCP length (RFC 9293 §3.1, RFC 8200 §8.1).
fn pseudo_header(frame: &[u8], layout: &Layout) -> u64 {
    let addresses = if layout.ipv6 { layout.ip + 8..layout.ip + 40 } else { layout.ip + 12..layout.ip + 20 };
    sum(&frame[addresses]) + 6 + (layout.end - layout.tcp) as u64
}

fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let total: u64 = words.by_ref().map(|word| u64::from(be16(word))).sum();
    total + words.remainder().first().map_or(0, |&last| u64::from(last) << 8)
}

/// One's-complement sum in 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Folded: the value is at most 0xffff.
    u16::try_from(sum).unwrap_or(u16::MAX)
}
