//! HWatch by its rules: two hosts with a wire between them that marks and loses what the test wants.

use alloc::collections::BTreeMap;
use alloc::vec;

use proptest::prelude::*;

use super::*;

const MSS: u32 = 1460;
const GIGABIT: Rate = Rate(1_000_000_000);

/// The paper's settings, and every SYN-ACK leaves as soon as the token bucket allows.
fn config() -> Config {
    Config { spread: Span::ZERO, ..Config::new(GIGABIT, Span::micros(100)) }
}

fn segment(flags: Flags) -> Segment {
    Segment { flags, window: 60_000, frames: 1, header: 54, ..Segment::default() }
}

fn syn(seq: u32) -> Segment {
    Segment { seq: SeqNumber(seq), mss: 1460, ..segment(Flags::SYN) }
}

fn syn_ack(ack: u32) -> Segment {
    Segment { seq: SeqNumber(5_000), ack: SeqNumber(ack), mss: 1460, ..segment(Flags::SYN | Flags::ACK) }
}

fn ack(ack: u32) -> Segment {
    Segment { seq: SeqNumber(5_001), ack: SeqNumber(ack), ..segment(Flags::ACK) }
}

fn data(seq: u32, ce: bool) -> Segment {
    Segment { seq: SeqNumber(seq), ack: SeqNumber(5_001), payload: MSS, ce, ..segment(Flags::ACK) }
}

fn passed(verdict: Verdict) -> Edit {
    match verdict {
        Verdict::Pass(edit) => edit,
        Verdict::Hold | Verdict::Split(_) | Verdict::Discard => panic!("held"),
    }
}

/// Everything that leaves, with its time, until nothing is pending.
fn drain(hwatch: &mut HWatch) -> Vec<(Time, Action)> {
    let mut left = vec![];
    while let Some(at) = hwatch.poll_timeout() {
        left.extend(hwatch.poll_action(at).map(|action| (at, action)));
    }
    left
}

/// A receiving host that has counted probes and seen the SYN of sequence number 0.
fn acceptor(unmarked: u32, marked: u32) -> HWatch {
    let mut host = HWatch::new(config()).unwrap();
    for n in 0..unmarked + marked {
        host.handle_probe(Time(1), FlowId(0), n >= unmarked);
    }
    host.handle_ingress(Time(1), FlowId(0), &syn(0));
    host
}

/// A sending host whose connection is open, the other end running HWatch.
fn opener() -> HWatch {
    let mut host = HWatch::new(config()).unwrap();
    host.handle_egress(Time(1), FlowId(0), &syn(0), PacketId(0));
    drain(&mut host);
    let answer = Segment { flags: Flags::SYN | Flags::ACK | Flags::ECE, ..syn_ack(1) };
    assert_eq!(host.handle_ingress(Time(1), FlowId(0), &answer).ece, Some(false), "the sign is not for TCP");
    host
}

#[test]
fn ten_probes_go_before_the_syn_within_half_a_round_trip() {
    let mut host = HWatch::new(config()).unwrap();
    let start = Time(1_000_000);
    assert_eq!(host.handle_egress(start, FlowId(3), &syn(0), PacketId(7)), Verdict::Hold);
    let left = drain(&mut host);
    assert_eq!(left.len(), 11);
    assert!(left[..10].iter().all(|(_, action)| *action == Action::Probe(FlowId(3))));
    assert_eq!(left[10], (start + Span::micros(50), Action::Release(PacketId(7), Edit::NONE)));
    let gaps: Vec<u64> = left.windows(2).map(|pair| pair[1].0.since(pair[0].0).0).collect();
    assert!(gaps[..9].iter().all(|&gap| gap > 0), "no two at once: {gaps:?}");
    assert!(gaps[..9].windows(2).any(|pair| pair[0] != pair[1]), "not uniform: {gaps:?}");
    let again = host.handle_egress(left[10].0, FlowId(3), &syn(0), PacketId(8));
    assert_eq!(again, Verdict::PASS, "a retransmitted SYN is not probed for");
}

#[test]
fn the_syn_ack_carries_what_the_probes_say() {
    for (unmarked, marked, window) in [(10, 0, None), (6, 4, Some(8)), (0, 10, Some(5)), (4, 0, Some(7))] {
        let mut host = acceptor(unmarked, marked);
        let edit = passed(host.handle_egress(Time(2), FlowId(0), &syn_ack(1), PacketId(0)));
        assert_eq!(edit.window.map(u32::from), window.map(|segments| segments * MSS), "{unmarked} and {marked}");
        assert_eq!(edit.ece, Some(true), "the sign of HWatch");
    }
}

#[test]
fn a_fast_opens_data_does_not_overtake_its_syn_ack() {
    let mut host = acceptor(10, 0);
    // Others have emptied the bucket.
    for id in 1..20 {
        (0..10).for_each(|_| host.handle_probe(Time(1), FlowId(id), false));
        host.handle_ingress(Time(1), FlowId(id), &syn(0));
        host.handle_egress(Time(2), FlowId(id), &syn_ack(1), PacketId(id));
    }
    assert_eq!(host.handle_egress(Time(2), FlowId(0), &syn_ack(1), PacketId(100)), Verdict::Hold);
    let data = Segment { payload: MSS, ..ack(1) };
    assert_eq!(host.handle_egress(Time(3), FlowId(0), &data, PacketId(101)), Verdict::Hold);
    let left: Vec<_> = drain(&mut host)
        .into_iter()
        .filter(|(_, action)| !matches!(action, Action::Release(PacketId(..100), _)))
        .collect();
    let [(first, Action::Release(PacketId(100), _)), (then, Action::Release(PacketId(101), edit))] = left[..] else {
        panic!("{left:?}")
    };
    assert!(first > Time(3) && then == first, "right behind it: {first:?}, {then:?}");
    assert_eq!(edit.ect, Some(true), "as it would have left");
    assert!(
        matches!(host.handle_egress(then, FlowId(0), &data, PacketId(102)), Verdict::Pass(_)),
        "nothing waits any more"
    );
}

#[test]
fn without_probes_the_connection_is_left_alone() {
    let mut host = acceptor(0, 0);
    assert_eq!(host.handle_egress(Time(2), FlowId(0), &syn_ack(1), PacketId(0)), Verdict::PASS);
    assert_eq!(host.handle_ingress(Time(3), FlowId(0), &data(1, true)), Edit::NONE);
    assert_eq!(host.handle_egress(Time(3), FlowId(0), &ack(1 + MSS), PacketId(0)), Verdict::PASS);
}

#[test]
fn windows_are_written_in_the_scale_of_the_handshake() {
    let mut host = HWatch::new(config()).unwrap();
    (0..10).for_each(|_| host.handle_probe(Time(1), FlowId(0), true));
    host.handle_ingress(Time(1), FlowId(0), &Segment { wscale: Some(3), ..syn(0) });
    let answer = Segment { wscale: Some(7), ..syn_ack(1) };
    let edit = passed(host.handle_egress(Time(2), FlowId(0), &answer, PacketId(0)));
    assert_eq!(edit.window, Some(7_300), "5 segments; a SYN-ACK's window is not scaled");
    let edit = passed(host.handle_egress(Time(3), FlowId(0), &ack(1 + MSS), PacketId(0)));
    assert_eq!(edit.window, Some(58), "5 segments of 1460 bytes, in units of 128, rounded up");
}

#[test]
fn syn_acks_are_paced_by_k_in_half_a_round_trip() {
    let mut host = HWatch::new(config()).unwrap();
    let now = Time(1_000_000);
    let mut left = Vec::new();
    for flow in 0..20 {
        (0..10).for_each(|_| host.handle_probe(now, FlowId(flow), true));
        host.handle_ingress(now, FlowId(flow), &syn(0));
        if let Verdict::Pass(_) = host.handle_egress(now, FlowId(flow), &syn_ack(1), PacketId(flow)) {
            left.push(now);
        }
    }
    left.extend(drain(&mut host).into_iter().map(|(at, _)| at));
    assert_eq!(left.len(), 20);
    // C RTT / 7 in RTT/2.
    let burst = Rate(GIGABIT.0 / 7 * 2).time_for(u64::from(5 * MSS));
    for pair in left[1..].windows(2) {
        let gap = pair[1].since(pair[0]).0;
        assert!(gap.abs_diff(burst.0) <= 1, "five segments need {burst}");
    }
}

#[test]
fn marks_spread_syn_acks_over_two_round_trips() {
    let spread = Config::new(GIGABIT, Span::micros(100)).spread;
    assert_eq!(spread, Span::micros(200));
    let waits = |unmarked: u32, marked: u32| -> Vec<u64> {
        let wait = |seed| {
            let mut host = HWatch::new(Config { spread, seed, ..config() }).unwrap();
            (0..unmarked + marked).for_each(|n| host.handle_probe(Time(1), FlowId(0), n >= unmarked));
            host.handle_ingress(Time(1), FlowId(0), &syn(0));
            host.handle_egress(Time(1), FlowId(0), &syn_ack(1), PacketId(0));
            drain(&mut host).first().map_or(0, |(at, _)| at.0)
        };
        (0..200).map(wait).collect()
    };
    let (all, half, none) = (waits(0, 10), waits(5, 5), waits(10, 0));
    assert!(all.iter().all(|&at| at <= 200_001) && all.iter().any(|&at| at > 150_000), "{all:?}");
    assert!(half.iter().all(|&at| at <= 100_001) && half.iter().any(|&at| at > 75_000), "{half:?}");
    assert!(none.iter().all(|&at| at == 0));
}

#[test]
fn the_second_half_batch_follows_on_the_acks() {
    let mut host = acceptor(6, 4);
    passed(host.handle_egress(Time(2), FlowId(0), &syn_ack(1), PacketId(0)));
    let mut edges = Vec::new();
    for segments in 1..=12 {
        let edit = passed(host.handle_egress(Time(3), FlowId(0), &ack(1 + segments * MSS), PacketId(0)));
        edges.push(segments + u32::from(edit.window.unwrap()) / MSS);
    }
    assert_eq!(edges, [9, 10, 10, 10, 10, 10, 10, 10, 11, 12, 14, 16]);
}

#[test]
fn marks_travel_from_receiver_to_sender_past_both_tcps() {
    let mut host = acceptor(10, 0);
    passed(host.handle_egress(Time(2), FlowId(0), &syn_ack(1), PacketId(0)));
    let edit = host.handle_ingress(Time(3), FlowId(0), &data(1, true));
    assert_eq!(edit.ect, Some(false), "the receiving TCP sees no mark");
    assert_eq!(passed(host.handle_egress(Time(3), FlowId(0), &ack(1 + MSS), PacketId(0))).ece, Some(true));
    host.handle_ingress(Time(4), FlowId(0), &data(1 + MSS, false));
    assert_eq!(passed(host.handle_egress(Time(4), FlowId(0), &ack(1 + 2 * MSS), PacketId(0))).ece, None, "exact");

    let mut host = opener();
    assert_eq!(passed(host.handle_egress(Time(2), FlowId(0), &data(1, false), PacketId(0))).ect, Some(true));
    let echo = Segment { flags: Flags::ACK | Flags::ECE, ..ack(1 + MSS) };
    assert_eq!(host.handle_ingress(Time(3), FlowId(0), &echo).ece, Some(false), "the sending TCP sees no echo");
}

#[test]
fn rule_1_lowers_the_window_that_the_sender_sees() {
    let mut host = opener();
    let mut sent = 0;
    let mut send_up_to = |host: &mut HWatch, segments: u32| {
        while sent < segments {
            passed(host.handle_egress(Time(2), FlowId(0), &data(1 + sent * MSS, false), PacketId(0)));
            sent += 1;
        }
    };
    let edge = |host: &mut HWatch, segments: u32, echo: bool| {
        let flags = if echo { Flags::ACK | Flags::ECE } else { Flags::ACK };
        let edit = host.handle_ingress(Time(3), FlowId(0), &Segment { flags, ..ack(1 + segments * MSS) });
        segments + edit.window.map_or(60_000, u32::from) / MSS
    };
    send_up_to(&mut host, 10);
    let mut edges = Vec::new();
    for segments in 1..=22 {
        let now = edge(&mut host, segments, (7..=10).contains(&segments));
        send_up_to(&mut host, now);
        edges.push(now);
    }
    // The first window of data ends with the first ACK, the second with the tenth: of its nine segments four are marked.
    assert_eq!(edges[..7], [12, 14, 16, 18, 20, 22, 23], "slow start, until the first mark");
    assert_eq!(edges[7..12], [24, 25, 25, 25, 25], "16 under way; then 5 + 4/2, nothing taken back");
    assert_eq!(edges[17..], [25, 26, 27, 28, 29], "seven under way");
}

#[test]
fn guests_that_use_ecn_keep_their_marks() {
    let mut host = HWatch::new(config()).unwrap();
    (0..10).for_each(|_| host.handle_probe(Time(1), FlowId(0), false));
    host.handle_ingress(Time(1), FlowId(0), &Segment { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..syn(0) });
    let answer = Segment { flags: Flags::SYN | Flags::ACK | Flags::ECE, ..syn_ack(1) };
    assert_eq!(passed(host.handle_egress(Time(2), FlowId(0), &answer, PacketId(0))), Edit::NONE);
    assert_eq!(host.handle_ingress(Time(3), FlowId(0), &data(1, true)).ect, None);
    assert_eq!(passed(host.handle_egress(Time(3), FlowId(0), &ack(1 + MSS), PacketId(0))).ece, None);
}

#[test]
fn after_a_fin_the_same_syn_is_a_new_connection() {
    let mut host = opener();
    assert_eq!(host.handle_egress(Time(9), FlowId(0), &syn(0), PacketId(1)), Verdict::PASS);
    passed(host.handle_egress(Time(9), FlowId(0), &segment(Flags::FIN | Flags::ACK), PacketId(2)));
    assert_eq!(host.handle_egress(Time(10), FlowId(0), &syn(0), PacketId(3)), Verdict::Hold);
    assert_eq!(host.pending.len(), 11);

    let mut host = acceptor(0, 10);
    passed(host.handle_egress(Time(2), FlowId(0), &syn_ack(1), PacketId(0)));
    host.handle_ingress(Time(3), FlowId(0), &segment(Flags::FIN | Flags::ACK));
    (0..10).for_each(|_| host.handle_probe(Time(1), FlowId(0), false));
    host.handle_ingress(Time(4), FlowId(0), &syn(0));
    let edit = passed(host.handle_egress(Time::ZERO + Span::secs(1), FlowId(0), &syn_ack(1), PacketId(0)));
    assert_eq!(edit.window, None, "the marks of the first connection are forgotten");
}

#[test]
fn nonsense_is_refused() {
    for bad in [
        Config { probes: 0, ..config() },
        Config { probe_span: Span(3), ..config() },
        Config { rate: Rate(0), ..config() },
        Config { max_hold: Span::secs(1), ..config() },
        Config { min_window: 0, ..config() },
        Config { max_held: 0, ..config() },
    ] {
        assert!(HWatch::new(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    /// Whatever happens: what is held leaves once, in time, and no window is lowered below a segment.
    #[test]
    fn invariants(steps in prop::collection::vec((0u32..4, 0u8..9, any::<bool>(), 0u32..20_000, 0u64..200_000), 1..400)) {
        let mut host = HWatch::new(config()).unwrap();
        let mut now = Time(1);
        let mut held: BTreeMap<u32, Time> = BTreeMap::new();
        for (n, (flow, kind, bit, bytes, wait)) in steps.into_iter().enumerate() {
            now += Span(wait);
            let id = FlowId(flow);
            let packet = PacketId(n as u32);
            let out = |host: &mut HWatch, segment: &Segment| host.handle_egress(now, id, segment, packet);
            let verdict = match kind {
                0 => { host.handle_probe(now, id, bit); None }
                1 => { host.handle_ingress(now, id, &syn(bytes)); None }
                2 => { host.handle_ingress(now, id, &Segment { flags: Flags::SYN | Flags::ACK | Flags::ECE, ..syn_ack(bytes) }); None }
                3 => { host.handle_ingress(now, id, &data(bytes, bit)); None }
                4 => {
                    let flags = if bit { Flags::ACK | Flags::ECE } else { Flags::ACK };
                    let edit = host.handle_ingress(now, id, &Segment { flags, ..ack(bytes) });
                    prop_assert!(edit.window.is_none_or(|window| u32::from(window) >= MSS));
                    None
                }
                5 => Some(out(&mut host, &syn(bytes))),
                6 => Some(out(&mut host, &syn_ack(bytes))),
                7 => Some(out(&mut host, &ack(bytes))),
                _ => Some(out(&mut host, &segment(if bit { Flags::FIN | Flags::ACK } else { Flags::RST }))),
            };
            match verdict {
                Some(Verdict::Pass(edit)) => prop_assert!(edit.window.is_none_or(|window| u32::from(window) >= MSS)),
                Some(Verdict::Hold) => { held.insert(packet.0, now); }
                Some(Verdict::Split(_) | Verdict::Discard) => prop_assert!(false, "HWatch neither copies nor drops"),
                None => {}
            }
            while let Some(action) = host.poll_action(now) {
                if let Action::Release(packet, _) = action {
                    prop_assert!(held.remove(&packet.0).is_some(), "released what was not held");
                }
            }
            for since in held.values() {
                prop_assert!(now.since(*since) <= config().max_hold);
            }
            prop_assert_eq!(host.held(), held.len());
        }
        for (_, action) in drain(&mut host) {
            if let Action::Release(packet, _) = action {
                prop_assert!(held.remove(&packet.0).is_some());
            }
        }
        prop_assert!(held.is_empty());
    }
}
