//! A simulated packet as the bytes of an Ethernet frame.

use ackgate_control::segment::Flags;
use ackgate_control::wire::{Layout, fill_checksums};

use crate::observer::{Endpoint, Packet};

const ETHERNET: usize = 14;
const IPV4: usize = 20;

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
    out.extend_from_slice(&[0x45, ecn, 0, 0]);
    out.extend_from_slice(&packet.id.to_be_bytes());
    out.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
    out.extend_from_slice(&address(packet.from));
    out.extend_from_slice(&address(packet.to));

    // RFC 9293 §3.1.
    out.extend_from_slice(&packet.from.port.to_be_bytes());
    out.extend_from_slice(&packet.to.port.to_be_bytes());
    out.extend_from_slice(&segment.seq.0.to_be_bytes());
    let ack = if segment.flags.has(Flags::ACK) { segment.ack.0 } else { 0 };
    out.extend_from_slice(&ack.to_be_bytes());
    out.extend_from_slice(&[0, segment.flags.0]);
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    options(packet, out);
    let payload = out.len();
    let words = u8::try_from((payload - ETHERNET - IPV4) / 4).expect("options are at most 40 bytes");
    out[ETHERNET + IPV4 + 12] = words << 4;

    out.resize(payload + segment.payload as usize, 0);
    let total = u16::try_from(out.len() - ETHERNET).expect("an MSS is at most 65495");
    out[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
    let layout = Layout { ip: ETHERNET, ipv6: false, tcp: ETHERNET + IPV4, payload, end: out.len() };
    fill_checksums(out, &layout);
}

/// Options in the order and with the padding that Linux uses.
fn options(packet: &Packet, out: &mut Vec<u8>) {
    let segment = &packet.segment;
    let syn = segment.flags.has(Flags::SYN);
    if syn && segment.mss != 0 {
        out.extend_from_slice(&[2, 4]);
        out.extend_from_slice(&segment.mss.to_be_bytes());
    }
    if syn && segment.sack {
        // SACK-permitted.
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
    let blocks = packet.sack.iter().take(packet.sack_blocks.into());
    if !syn && packet.sack_blocks > 0 {
        out.extend_from_slice(&[1, 1, 5, 2 + 8 * packet.sack_blocks.min(3)]);
        for (left, right) in blocks {
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
