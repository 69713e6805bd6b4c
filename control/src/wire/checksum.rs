//! The Internet checksum (RFC 1071) of TCP, whole and incremental (RFC 1624).

use super::{Layout, be16};
use crate::segment::{Edit, Flags};

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

/// Makes the changes that a policy asked for, checksums updated with them. The TCP checksum must be complete.
pub fn apply(frame: &mut [u8], layout: &Layout, edit: &Edit) {
    if let Some(window) = edit.window {
        replace16(frame, layout.tcp + 14, layout.tcp + 16, |_| window);
    }
    if let Some(echo) = edit.ece {
        // Offset, reserved bits and flags are one 16-bit word of the header.
        let flag = u16::from(Flags::ECE.0);
        replace16(frame, layout.tcp + 12, layout.tcp + 16, |word| if echo { word | flag } else { word & !flag });
    }
    if let Some(capable) = edit.ect {
        let ect = u16::from(capable) * 2;
        if layout.ipv6 {
            // The traffic class lies across the first two bytes, and no checksum covers it.
            let Some(first) = frame.get(layout.ip..layout.ip + 2).map(be16) else { return };
            put16(frame, layout.ip, first & !0x30 | ect << 4);
        } else {
            replace16(frame, layout.ip, layout.ip + 10, |word| word & !3 | ect);
        }
    }
}

/// Replaces the 16-bit word at `at` and updates the checksum at `check` with it (RFC 1624 Eq. 3).
fn replace16(frame: &mut [u8], at: usize, check: usize, change: impl Fn(u16) -> u16) {
    let (Some(old), Some(sum)) = (frame.get(at..at + 2).map(be16), frame.get(check..check + 2).map(be16)) else {
        return;
    };
    let new = change(old);
    put16(frame, at, new);
    put16(frame, check, !fold(u64::from(!sum) + u64::from(!old) + u64::from(new)));
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
