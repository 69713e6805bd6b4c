//! TCP segments that no connection sent: with anybody's addresses and ports, from a raw socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Protocol, Socket, Type};

/// Flags of the TCP header (RFC 9293, section 3.1).
pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;

/// A segment to forge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    /// Octets of payload.
    pub(super) payload: usize,
}

/// Sends forged segments from the network namespace that it was opened in.
pub(super) struct Forger {
    socket: Socket,
}

impl Forger {
    pub(super) fn open() -> io::Result<Self> {
        // IPPROTO_RAW: what is sent begins with its own IP header.
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(nix::libc::IPPROTO_RAW)))?;
        Ok(Self { socket })
    }

    pub(super) fn send(&self, segment: &Segment) -> io::Result<()> {
        self.socket.send_to(&segment.packet(), &segment.to.into()).map(drop)
    }
}

impl Segment {
    /// The IPv4 packet. The kernel fills in its length, identification and header checksum.
    fn packet(&self) -> Vec<u8> {
        let mut packet = vec![0; IP_HEADER + TCP_HEADER + self.payload];
        packet[0] = 0x45;
        packet[8] = 64;
        packet[9] = 6;
        packet[12..16].copy_from_slice(&self.from.ip().octets());
        packet[16..20].copy_from_slice(&self.to.ip().octets());
        let tcp = &mut packet[IP_HEADER..];
        tcp[0..2].copy_from_slice(&self.from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        tcp[12] = (TCP_HEADER as u8 / 4) << 4;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&0x2000u16.to_be_bytes());
        let sum = checksum(*self.from.ip(), *self.to.ip(), tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}

/// The TCP checksum with its pseudo-header (RFC 9293, section 3.1), the checksum field being 0.
fn checksum(from: Ipv4Addr, to: Ipv4Addr, tcp: &[u8]) -> u16 {
    let length = (tcp.len() as u32).to_be_bytes();
    let pseudo = [&from.octets()[..], &to.octets(), &[0, 6], &length[2..]].concat();
    let words = pseudo.chunks(2).chain(tcp.chunks(2));
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u32::from(low))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_sums_up_to_nothing() {
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 77, 1, 1), 5078);
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 40_000);
        let packet = Segment { from, to, seq: 7, ack: 9, flags: PSH | ACK, payload: 101 }.packet();
        // Summed up with its checksum, a right segment gives zero.
        assert_eq!(checksum(*from.ip(), *to.ip(), &packet[20..]), 0);
    }
}
