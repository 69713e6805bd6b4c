//! HWatch's probe on the wire (§IV-C): an IP header and nothing else.
//!
//! It is ECN-capable, of protocol 253 (RFC 3692), and names the port that is about to open a connection: in the
//! identification field, or in the flow label, which IPv6 has in its place and which no router changes (RFC 6437 §3).

use alloc::vec::Vec;

use super::checksum::{ipv4_checksum, put16};
use super::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Meta, Packet, be16, header, mapped, parse_link};
use crate::flow::FlowKey;

/// For experimentation and testing (RFC 3692 §2.1).
pub const PROBE_PROTOCOL: u8 = 253;
/// ECT(0) in the two lowest bits of the traffic class (RFC 3168 §5).
const ECT: u8 = 2;
/// Don't fragment.
const WHOLE: u16 = 0x4000;

/// A probe that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whom it is about; the local port, which it does not say, is 0.
    pub key: FlowKey,
    /// A switch marked it.
    pub ce: bool,
}

impl Probe {
    /// Reads a frame from the network; `None` when it is no probe.
    #[must_use]
    pub fn parse(bytes: &[u8], meta: &Meta) -> Option<Self> {
        let (ip, ethertype, vlan) = parse_link(bytes, meta).ok()?;
        let key = |remote, local, remote_port| FlowKey { local, remote, local_port: 0, remote_port, vlan };
        match ethertype {
            ETHERTYPE_IPV4 => {
                let ip = header(bytes, ip, 20).ok()?;
                let sound = ip[0] == 0x45 && be16(&ip[2..4]) == 20 && be16(&ip[6..8]) & 0x3fff == 0;
                (sound && ip[9] == PROBE_PROTOCOL).then(|| Self {
                    key: key(mapped(&ip[12..16]), mapped(&ip[16..20]), be16(&ip[4..6])),
                    ce: ip[1] & 3 == 3,
                })
            }
            ETHERTYPE_IPV6 => {
                let ip = header(bytes, ip, 40).ok()?;
                let sound = ip[0] >> 4 == 6 && be16(&ip[4..6]) == 0;
                let (remote, local) = (ip[8..24].try_into().ok()?, ip[24..40].try_into().ok()?);
                (sound && ip[6] == PROBE_PROTOCOL)
                    .then(|| Self { key: key(remote, local, be16(&ip[2..4])), ce: ip[1] >> 4 & 3 == 3 })
            }
            _ => None,
        }
    }

    /// The probe that goes before a SYN, which `frame` holds: the same way, from and to the same hosts.
    #[must_use]
    pub fn before(syn: &Packet, frame: &[u8]) -> Vec<u8> {
        let at = syn.layout.ip;
        let length = if syn.layout.ipv6 { 40 } else { 20 };
        let mut probe = frame.get(..at + length).unwrap_or_default().to_vec();
        let Some(ip) = probe.get_mut(at..) else { return probe };
        if syn.layout.ipv6 && ip.len() == 40 {
            ip[1] = ip[1] & 0xc0 | ECT << 4;
            put16(ip, 2, syn.key.local_port);
            put16(ip, 4, 0);
            ip[6] = PROBE_PROTOCOL;
        } else if ip.len() == 20 {
            ip[0] = 0x45;
            ip[1] = ip[1] & !3 | ECT;
            put16(ip, 2, 20);
            put16(ip, 4, syn.key.local_port);
            put16(ip, 6, WHOLE);
            ip[9] = PROBE_PROTOCOL;
            let check = ipv4_checksum(ip);
            put16(ip, 10, check);
        }
        probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Flags, Segment};
    use crate::wire::{Direction, emit, parse};

    fn key(ipv6: bool, vlan: u32) -> FlowKey {
        let address = |last| {
            let mut address = if ipv6 { [0xfd; 16] } else { [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0] };
            address[15] = last;
            address
        };
        FlowKey { local: address(1), remote: address(2), local_port: 40_001, remote_port: 80, vlan }
    }

    #[test]
    fn a_probe_goes_the_way_of_its_syn_and_says_whose_it_is() {
        for (ipv6, vlan) in [(false, 0), (true, 0), (false, 7), (true, 3 << 12 | 7)] {
            let key = key(ipv6, vlan);
            let syn = Segment { flags: Flags::SYN, mss: 1460, ..Segment::default() };
            let frame = emit(&key, &syn, Direction::Egress);
            let packet = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap();
            let mut probe = Probe::before(&packet, &frame);
            assert_eq!(probe.len(), packet.layout.ip + if ipv6 { 40 } else { 20 }, "a header and nothing else");
            assert_eq!(probe[..packet.layout.ip], frame[..packet.layout.ip], "the same hosts and tags");
            assert!(parse(&probe, &Meta::whole(&probe), Direction::Ingress).is_err(), "no policy takes it for TCP");
            if !ipv6 {
                let ip = &probe[packet.layout.ip..];
                assert_eq!(ipv4_checksum(ip), be16(&ip[10..12]));
            }
            // At the other end local and remote are the other way round.
            let there = FlowKey { local: key.remote, remote: key.local, local_port: 0, remote_port: 40_001, vlan };
            assert_eq!(Probe::parse(&probe, &Meta::whole(&probe)), Some(Probe { key: there, ce: false }));
            probe[packet.layout.ip + 1] |= if ipv6 { 0x30 } else { 3 };
            assert_eq!(Probe::parse(&probe, &Meta::whole(&probe)), Some(Probe { key: there, ce: true }));
            // Ethernet fills short frames up; whatever says that it is longer is none of ours.
            let mut padded = probe.clone();
            padded.resize(80, 0);
            assert!(Probe::parse(&padded, &Meta::whole(&padded)).is_some());
            padded[packet.layout.ip + if ipv6 { 5 } else { 3 }] += 1;
            assert_eq!(Probe::parse(&padded, &Meta::whole(&padded)), None);
            assert_eq!(Probe::parse(&frame, &Meta::whole(&frame)), None, "a SYN");
            for length in 0..packet.layout.ip + 20 {
                assert_eq!(Probe::parse(&probe[..length], &Meta::whole(&probe)), None);
            }
        }
    }
}
