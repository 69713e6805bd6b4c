//! When a connection is over (RFC 9293 section 3.6).

use super::*;
use crate::wire::Direction;

/// A bare segment: its flags, its number and what it acknowledges.
type Step = (Direction, u8, u32, u32);

/// Whether a connection is over after these segments; all numbers begin with `first`.
fn is_over_after(first: u32, segments: &[Step]) -> bool {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    for &(direction, flags, seq, ack) in segments {
        let number = |n: u32| SeqNumber(first.wrapping_add(n));
        let syn = Flags(flags).has(Flags::SYN);
        let segment = Segment {
            seq: number(seq),
            ack: number(ack),
            flags: Flags(flags),
            mss: if syn { 1460 } else { 0 },
            wscale: syn.then_some(7),
            ..data(0, 0)
        };
        match direction {
            Direction::Ingress => host.receive(0, segment),
            Direction::Egress => drop(host.send(0, segment)),
        }
    }
    decision::is_over(&host.shim.state.flows[0])
}

#[test]
fn a_connection_is_over_when_both_ends_have_acknowledged_each_others_fin() {
    use Direction::{Egress as Out, Ingress as In};
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const FIN: u8 = 0x11;
    let opened = [(Out, SYN, 0, 0), (In, SYN | ACK, 0, 1), (Out, ACK, 1, 1)];
    let passive = [(In, FIN, 1, 1), (Out, ACK, 1, 2), (Out, FIN, 1, 2), (In, ACK, 2, 2)];
    let active = [(Out, FIN, 1, 1), (In, ACK, 1, 2), (In, FIN, 1, 2), (Out, ACK, 2, 2)];
    let both = [(Out, FIN, 1, 1), (In, FIN, 1, 1), (Out, ACK, 2, 2), (In, ACK, 2, 2)];
    for closing in [passive, active, both] {
        // Where numbers come round, too.
        for first in [0, 77_000, u32::MAX, u32::MAX - 1] {
            for seen in 0..=closing.len() {
                let segments = [&opened[..], &closing[..seen]].concat();
                assert_eq!(is_over_after(first, &segments), seen == closing.len(), "{first}: {segments:?}");
            }
        }
    }
}
