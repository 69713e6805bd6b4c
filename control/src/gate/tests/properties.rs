//! Whatever arrives: the ledger adds up, nothing wedges, nothing is held for too long, order is kept, edges never retract.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Data { flow: u32, skip: u32, len: u32, push: bool, ce: bool },
    Old { flow: u32, back: u32, len: u32 },
    Ack { flow: u32, lag: u32, sack: bool, ece: bool, window: u16 },
    Request { flow: u32, len: u32 },
    Open { flow: u32, ours: bool },
    Close { flow: u32, reset: bool, ours: bool },
    Wait { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let flow = 0u32..6;
    prop_oneof![
        8 => (flow.clone(), prop_oneof![9 => Just(0u32), 1 => 1u32..5000], 1u32..9000, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(flow, skip, len, push, ce)| Step::Data { flow, skip, len, push, ce }),
        1 => (flow.clone(), 1u32..20_000, 1u32..3000).prop_map(|(flow, back, len)| Step::Old { flow, back, len }),
        8 => (flow.clone(), prop_oneof![4 => Just(0u32), 1 => 0u32..20_000], prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop_oneof![6 => Just(1000u16), 1 => any::<u16>()])
            .prop_map(|(flow, lag, sack, ece, window)| Step::Ack { flow, lag, sack, ece, window }),
        2 => (flow.clone(), 1u32..3000).prop_map(|(flow, len)| Step::Request { flow, len }),
        1 => (flow.clone(), any::<bool>()).prop_map(|(flow, ours)| Step::Open { flow, ours }),
        1 => (flow, any::<bool>(), any::<bool>()).prop_map(|(flow, reset, ours)| Step::Close { flow, reset, ours }),
        4 => (0u64..3000).prop_map(|micros| Step::Wait { micros }),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    (3028u64..200_000, any::<bool>(), any::<bool>(), 0..3usize, any::<bool>(), any::<bool>()).prop_map(
        |(buffer, per_ack, push, requests, stamps, credit)| Config {
            prices: if credit { Prices::Exact } else { Prices::Estimated },
            growth: if per_ack { Growth::PerAck } else { Growth::PerByte },
            push_ends_response: push,
            requests: [Requests::Ignore, Requests::Charge, Requests::Gate][requests],
            rtt: if stamps { RttMethod::Timestamps } else { RttMethod::Handshake },
            ..Config::new(buffer)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever arrives or is lost: the ledger balances, nothing is held longer than `max_hold`, nothing is held for
    /// ever, data is never discarded, and the ACK numbers of a flow leave in order.
    #[test]
    fn invariants(config in any_config(), start in any::<u32>(), steps in prop::collection::vec(step(), 1..400)) {
        let max_hold = config.max_hold;
        let mut host = Host::new(config);
        let mut received = [start; 6];
        let mut held_since: BTreeMap<u32, Time> = BTreeMap::new();
        let mut sent: BTreeMap<u32, (u32, u32, bool)> = BTreeMap::new();
        for step in steps {
            let before = host.next;
            match step {
                Step::Data { flow, skip, len, push, ce } => {
                    let at = &mut received[flow as usize];
                    let seq = at.wrapping_add(skip);
                    *at = seq.wrapping_add(len);
                    let flags = if push { Flags::ACK | Flags::PSH } else { Flags::ACK };
                    let frames = len.div_ceil(MSS) as u16;
                    host.receive(flow, Segment { flags, ce, frames, ..data(seq, len) });
                }
                Step::Old { flow, back, len } => host.data(flow, received[flow as usize].wrapping_sub(back), len),
                Step::Ack { flow, lag, sack, ece, window } => {
                    let flags = if ece { Flags::ACK | Flags::ECE } else { Flags::ACK };
                    let ack = received[flow as usize].wrapping_sub(lag);
                    let packet = host.send(flow, Segment { sack, flags, window, ..pure_ack(ack) });
                    sent.insert(packet.0, (flow, ack, false));
                }
                Step::Request { flow, len } => {
                    let ack = received[flow as usize];
                    let packet = host.send(flow, Segment { payload: len, frames: len.div_ceil(MSS) as u16, ..request(ack) });
                    sent.insert(packet.0, (flow, ack, true));
                }
                Step::Open { flow, ours: true } => {
                    host.send(flow, Segment { flags: Flags::SYN, ..blank() });
                }
                Step::Open { flow, ours: false } => {
                    host.receive(flow, Segment { flags: Flags::SYN, ..blank() });
                    host.send(flow, Segment { flags: Flags::SYN | Flags::ACK, ..pure_ack(received[flow as usize]) });
                }
                Step::Close { flow, reset, ours } => {
                    let flags = if reset { Flags::RST | Flags::ACK } else { Flags::FIN | Flags::ACK };
                    let segment = Segment { flags, ..pure_ack(received[flow as usize]) };
                    if ours { host.send(flow, segment); } else { host.receive(flow, segment); }
                }
                Step::Wait { micros } => host.wait(Span::micros(micros)),
            }
            for packet in before..host.next {
                held_since.insert(packet, host.now);
            }
            host.check_ledger();
            prop_assert!(host.shim.gate().threshold.get() >= 2 * FRAME);
            prop_assert!(host.shim.gate().threshold.get() <= host.shim.config().buffer.max(2 * FRAME));
            for packet in host.left.iter().chain(&host.discarded) {
                held_since.remove(&packet.0);
            }
            for since in held_since.values() {
                prop_assert!(host.now.since(*since) < max_hold, "held past max_hold");
            }
        }

        // No wedge: with no further arrival, following the timeouts empties the queue within max_hold (and the bare copy of a request
        // that has waited for half of that within another).
        let end = host.now + max_hold + max_hold;
        while let Some(timeout) = host.shim.poll_timeout() {
            prop_assert!(timeout <= end, "asks to be polled later than any ACK may wait");
            host.now = host.now.max(timeout);
            host.poll();
        }
        prop_assert_eq!(host.shim.held(), 0);
        prop_assert_eq!(host.left.len() + host.discarded.len(), host.next as usize, "every packet has its end, once");
        for packet in &host.discarded {
            prop_assert!(!sent.get(&packet.0).is_some_and(|(_, _, data)| *data), "data discarded");
        }
        host.check_ledger();
    }

    /// Exact credit: the right edge never moves left, never passes what TCP offers, and what active senders may still
    /// send stays within the budget, but for what was forced or passed for loss recovery.
    #[test]
    fn edges_never_retract(
        scale in 0u8..10,
        buffer in 20_000u64..200_000,
        steps in prop::collection::vec((0u32..20, 1u32..4, prop::bool::weighted(0.05), 0u64..300, any::<bool>()), 1..300),
    ) {
        let mut host = Host::new(Config { requests: Requests::Gate, ..Config::credit(buffer) });
        let window = ((1u32 << 20) >> scale).min(65_535) as u16;
        let mut received = [1u32; 20];
        for flow in 0..20 {
            host.send(flow, Segment { flags: Flags::SYN, mss: 1460, timestamps: Some((1, 0)), wscale: Some(scale), ..blank() });
            host.receive(flow, Segment { flags: Flags::SYN | Flags::ACK, wscale: Some(7), ..blank() });
            host.send(flow, Segment { window, ..pure_ack(1) });
        }
        for (flow, frames, hole, micros, ask) in steps {
            let at = &mut received[flow as usize];
            for _ in 0..frames {
                if hole { host.data(flow, *at + MSS, MSS); } else { host.data(flow, *at, MSS); *at += MSS; }
            }
            host.send(flow, Segment { window, ..pure_ack(*at) });
            host.wait(Span::micros(micros));
            if ask {
                host.wait(Span::micros(3_000));
                host.send(flow, Segment { window, ..request(*at) });
            }
            host.check_ledger();
        }
        while let Some(timeout) = host.shim.poll_timeout() {
            host.now = host.now.max(timeout);
            host.poll();
        }
        let (mut edges, mut acks) = ([0u32; 20], [0u32; 20]);
        for &(flow, ack, field) in host.wire.iter().filter(|(_, ack, _)| *ack > 0) {
            // Senders do not look at the window beside an old acknowledgement number (RFC 9293 §3.10.7.4).
            if ack < acks[flow as usize] {
                continue;
            }
            acks[flow as usize] = ack;
            let edge = ack + (u32::from(field) << scale);
            prop_assert!(edge >= edges[flow as usize], "the edge of flow {flow} moved left");
            prop_assert!(field <= window, "more than TCP offers");
            edges[flow as usize] = edges[flow as usize].max(edge);
        }
    }

    /// A well-behaved receiver's ACKs leave in the order in which TCP sent them, flow by flow.
    #[test]
    fn order_within_a_flow_is_kept(steps in prop::collection::vec((0u32..4, 1u32..4, any::<bool>(), 0u64..400), 1..300)) {
        let mut host = Host::new(Config { buffer: 4 * FRAME, ..config() });
        let mut received = [1u32; 4];
        let mut acks: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for flow in 0..4 { host.connect(flow); }
        for (flow, frames, hole, micros) in steps {
            for _ in 0..frames {
                host.data(flow, received[flow as usize], MSS);
                received[flow as usize] += MSS;
                let ack = received[flow as usize];
                acks.insert(host.next, (flow, ack));
                host.ack(flow, ack);
            }
            if hole {
                host.data(flow, received[flow as usize] + MSS, MSS);
                acks.insert(host.next, (flow, received[flow as usize]));
                host.ack(flow, received[flow as usize]);
            }
            host.wait(Span::micros(micros));
        }
        for _ in 0..200 { host.wait(Span::millis(1)); }
        let mut last = [0u32; 4];
        for packet in &host.left {
            if let Some(&(flow, ack)) = acks.get(&packet.0) {
                prop_assert!(ack >= last[flow as usize]);
                last[flow as usize] = ack;
            }
        }
    }
}
