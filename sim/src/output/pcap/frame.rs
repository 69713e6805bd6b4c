//! A simulated packet as the bytes of an Ethernet frame.

use ackgate_control::segment::Flags;
use ackgate_control::wire::{Layout, fill_checksums};

use crate::observer::{Endpoint, Packet, Protocol};

const ETHERNET: usize = 14;

/// Bytes of TCP options at most (RFC 9293 §3.1).
const MAX_OPTIONS: usize = 40;

/// The number of what an IP packet carries; of a scheme's probes the one for experiments (RFC 3692 §2.1).
const fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Probe => 253,
    }
}

/// Replaces what is in `out` by the frame.
pub(super) fn write(packet: &Packet, out: &mut Vec<u8>) {
    let segment = &packet.segment;
    out.clear();
    out.extend_from_slice(&mac(packet.to));
    out.extend_from_slice(&mac(packet.from));
    out.extend_from_slice(&[0x08, 0x00]);

    // RFC 791 §3.1; RFC 3168 §5 for the two bits of ECN. Don't-fragment is set, as data centre hosts have it.
    let ecn = match (segment.ce, packet.ect) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 0,
    };
    let ip_option = packet.count.filter(|(bytes, _)| *bytes == 4).map(|(_, count)| count);
    let words = if ip_option.is_some() { 6 } else { 5 };
    out.extend_from_slice(&[0x40 | words, ecn, 0, 0]);
    out.extend_from_slice(&packet.id.to_be_bytes());
    out.extend_from_slice(&[0x40, 0, 64, number(packet.protocol), 0, 0]);
    out.extend_from_slice(&address(packet.from));
    out.extend_from_slice(&address(packet.to));
    if let Some(count) = ip_option {
        // An experimental option (RFC 4727 §3.3), copied into fragments.
        out.extend_from_slice(&[158, 4]);
        out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
    }
    let tcp = out.len();
    match packet.protocol {
        Protocol::Tcp => {}
        Protocol::Udp => {
            datagram(packet, out);
            finish(out, tcp);
            return;
        }
        Protocol::Probe => {
            finish(out, tcp);
            return;
        }
    }

    // RFC 9293 §3.1.
    out.extend_from_slice(&packet.from.port.to_be_bytes());
    out.extend_from_slice(&packet.to.port.to_be_bytes());
    out.extend_from_slice(&segment.seq.0.to_be_bytes());
    let ack = if segment.flags.has(Flags::ACK) { segment.ack.0 } else { 0 };
    out.extend_from_slice(&ack.to_be_bytes());
    out.extend_from_slice(&[0, segment.flags.0]);
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    let first_option = out.len();
    options(packet, out, first_option);
    let payload = out.len();
    let words = u8::try_from((payload - tcp) / 4).expect("options are at most 40 bytes");
    out[tcp + 12] = words << 4;

    out.resize(payload + segment.payload as usize, 0);
    finish(out, tcp);
    let layout = Layout { ip: ETHERNET, ipv6: false, tcp, payload, end: out.len() };
    fill_checksums(out, &layout);
}

/// Writes a datagram, without a checksum (RFC 768).
fn datagram(packet: &Packet, out: &mut Vec<u8>) {
    let payload = packet.segment.payload as usize;
    let length =
        u16::try_from(usize::from(crate::net::Packet::UDP_HEADER) + payload).expect("no longer than an MSS allows");
    out.extend_from_slice(&packet.from.port.to_be_bytes());
    out.extend_from_slice(&packet.to.port.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.resize(out.len() + payload, 0);
}

/// Writes the IP packet's length and the header's checksum (RFC 1071).
fn finish(out: &mut [u8], tcp: usize) {
    let total = u16::try_from(out.len() - ETHERNET).expect("an MSS is at most 65495");
    out[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
    let words = out[ETHERNET..tcp].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !((folded & 0xffff) + (folded >> 16));
    out[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&check.to_be_bytes()[2..]);
}

/// Options in the order and with the padding that Linux uses; experimental ones last. A simulated SYN is as long without
/// SACK-permitted as with it: the four bytes are then padding behind the last option (RFC 9293 §3.1), since Wireshark takes
/// four NOPs in a row for options that a router removed.
fn options(packet: &Packet, out: &mut Vec<u8>, first: usize) {
    let segment = &packet.segment;
    let syn = segment.flags.has(Flags::SYN);
    if syn && segment.mss != 0 {
        out.extend_from_slice(&[2, 4]);
        out.extend_from_slice(&segment.mss.to_be_bytes());
    }
    if syn && segment.sack {
        out.extend_from_slice(&[1, 1, 4, 2]);
    }
    if let Some((value, echo)) = segment.timestamps {
        out.extend_from_slice(&[1, 1, 8, 10]);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
    if let Some(shift) = segment.wscale.filter(|_| syn) {
        out.extend_from_slice(&[1, 3, 3, shift]);
    }
    if let Some((8, count)) = packet.count {
        // Kind for experiments (RFC 6994), with an identifier of two bytes.
        out.extend_from_slice(&[253, 8, 0x4d, 0x32]);
        out.extend_from_slice(&count.to_be_bytes());
    }
    if syn && !segment.sack {
        out.extend_from_slice(&[0; 4]);
    }
    // As many blocks as there is room for.
    let room = (MAX_OPTIONS - (out.len() - first)).saturating_sub(4) / 8;
    let blocks = usize::from(packet.sack_blocks).min(packet.sack.len()).min(room);
    if !syn && blocks > 0 {
        out.extend_from_slice(&[1, 1, 5, u8::try_from(2 + 8 * blocks).unwrap_or(26)]);
        for (left, right) in &packet.sack[..blocks] {
            out.extend_from_slice(&left.0.to_be_bytes());
            out.extend_from_slice(&right.0.to_be_bytes());
        }
    }
}

fn address(endpoint: Endpoint) -> [u8; 4] {
    (0x0a00_0000 | (endpoint.host + 1) & 0x00ff_ffff).to_be_bytes()
}

fn mac(endpoint: Endpoint) -> [u8; 6] {
    let [_, a, b, c] = (endpoint.host + 1).to_be_bytes();
    [0x02, 0, 0, a, b, c]
}
