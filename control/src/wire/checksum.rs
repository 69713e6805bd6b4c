//! The Internet checksum (RFC 1071) of TCP, whole and incremental (RFC 1624).

use super::{Layout, be16};

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

/// Writes the window field and updates the checksum with it (RFC 1624 Eq. 3). The checksum must be complete.
pub fn set_window(frame: &mut [u8], layout: &Layout, window: u16) {
    let (at, field) = (layout.tcp + 14, layout.tcp + 16);
    let Some(header) = frame.get(at..at + 4) else { return };
    let (old, check) = (be16(&header[0..2]), be16(&header[2..4]));
    let updated = !fold(u64::from(!check) + u64::from(!old) + u64::from(window));
    put16(frame, at, window);
    put16(frame, field, updated);
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
