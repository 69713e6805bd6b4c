use super::*;
use crate::seq::SeqNumber;

const MSS: u16 = 1_000;

fn gate(buffer: u64) -> Letter {
    Letter::new(Config { buffer, lambda_permille: 800, demote_at: 20_000 }).expect("these make sense")
}

fn syn() -> Segment {
    Segment { flags: Flags::SYN, mss: MSS, frames: 1, ..Segment::default() }
}

fn data(seq: u32, ce: bool) -> Segment {
    Segment { seq: SeqNumber(seq), flags: Flags::ACK, payload: u32::from(MSS), frames: 1, ce, ..Segment::default() }
}

fn ack(number: u32) -> Segment {
    Segment { ack: SeqNumber(number), flags: Flags::ACK, frames: 1, ..Segment::default() }
}

fn micros(n: u64) -> Time {
    Time::ZERO + Span::micros(n)
}

/// A handshake of 100 us; the first byte has number 1.
fn open(gate: &mut Letter, flow: u32) {
    gate.handle_ingress(micros(0), FlowId(flow), &syn());
    let answer =
        Segment { ack: SeqNumber(1), flags: Flags::SYN | Flags::ACK, mss: MSS, frames: 1, ..Segment::default() };
    assert_eq!(gate.handle_egress(micros(0), FlowId(flow), &answer, PacketId(999)), Verdict::PASS, "handshakes pass");
    gate.handle_ingress(micros(100), FlowId(flow), &ack(1));
}

#[test]
fn an_ack_waits_until_what_it_triggers_fits() {
    let mut gate = gate(3_000);
    open(&mut gate, 0);
    for (n, number) in [(0, 1_001), (1, 2_001)] {
        assert_eq!(gate.handle_egress(micros(200), FlowId(0), &ack(number), PacketId(n)), Verdict::Hold);
    }
    // Slow start: 1000 acknowledged and one segment more (Eq. 3).
    assert_eq!(gate.poll_action(micros(200)), Some(Action::Release(PacketId(0), Edit::NONE)));
    assert_eq!((gate.in_flight(), gate.poll_action(micros(200))), (2_000, None));
    assert_eq!(gate.poll_timeout(), None, "time alone lets nothing go");
    gate.handle_ingress(micros(210), FlowId(0), &data(1, false));
    assert_eq!(gate.poll_action(micros(210)), Some(Action::Release(PacketId(1), Edit::NONE)));
    assert_eq!(gate.in_flight(), 3_000, "Eq. 4 and 5");
}

#[test]
fn marks_lower_the_threshold_and_their_absence_doubles_it() {
    let mut gate = gate(80_000);
    open(&mut gate, 0);
    gate.handle_ingress(micros(300), FlowId(0), &data(1, true));
    assert_eq!(gate.threshold(), 40_000, "alpha is 1");
    gate.handle_ingress(micros(500), FlowId(0), &data(1_001, false));
    assert_eq!(gate.threshold(), 80_000);
    gate.handle_ingress(micros(700), FlowId(0), &data(2_001, false));
    assert_eq!(gate.threshold(), 80_000, "never more than the buffer");
}

#[test]
fn a_marked_flow_grows_by_less_than_a_segment() {
    let mut gate = gate(80_000);
    open(&mut gate, 0);
    gate.handle_ingress(micros(110), FlowId(0), &data(1, true));
    gate.handle_ingress(micros(120), FlowId(0), &data(1_001, false));
    gate.handle_ingress(micros(300), FlowId(0), &data(2_001, false));
    let before = gate.in_flight();
    gate.handle_egress(micros(310), FlowId(0), &ack(3_001), PacketId(0));
    assert!(gate.poll_action(micros(310)).is_some());
    // 3000 acknowledged, and 1000 * 1000 / 3000 of growth.
    assert_eq!(gate.in_flight() - before, 3_333);
}

#[test]
fn a_stale_ack_clears_its_flow_and_goes_itself() {
    let mut gate = gate(1_500);
    open(&mut gate, 0);
    for (n, number) in [(0, 1_001), (1, 2_001)] {
        gate.handle_egress(micros(200), FlowId(0), &ack(number), PacketId(n));
    }
    assert_eq!(gate.poll_action(micros(200)), None, "2000 do not fit into 1500");
    assert_eq!(gate.handle_egress(micros(300), FlowId(0), &ack(2_001), PacketId(2)), Verdict::Discard);
    assert_eq!(gate.poll_action(micros(300)), None);
}

#[test]
fn large_flows_wait_behind_small_ones_and_flows_take_turns() {
    let mut gate = gate(2_000);
    for flow in 0..3 {
        open(&mut gate, flow);
    }
    for n in 0..21 {
        gate.handle_ingress(micros(110), FlowId(2), &data(1 + n * 1_000, false));
    }
    // A full gate: nothing leaves before all wait.
    gate.handle_egress(micros(200), FlowId(0), &ack(1_001), PacketId(0));
    assert!(gate.poll_action(micros(200)).is_some());
    for (flow, n, number) in [(2, 1, 21_001), (0, 2, 2_001), (0, 3, 3_001), (1, 4, 1_001)] {
        gate.handle_egress(micros(200), FlowId(flow), &ack(number), PacketId(n));
    }
    let mut order = alloc::vec::Vec::new();
    for _ in 0..200 {
        while let Some(Action::Release(packet, _)) = gate.poll_action(micros(210)) {
            order.push(packet.0);
        }
        gate.handle_ingress(micros(210), FlowId(1), &data(1, false));
    }
    assert_eq!(order[..3], [2, 4, 3]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let config = Config { buffer: 1, lambda_permille: 800, demote_at: 0 };
    assert!(Letter::new(config).is_ok());
    assert!(Letter::new(Config { buffer: 0, ..config }).is_err());
    assert!(Letter::new(Config { lambda_permille: 1_000, ..config }).is_err());
}

#[test]
fn who_opens_the_connection_makes_no_difference() {
    let mut gate = gate(3_000);
    let pass = |gate: &mut Letter, at: u64, segment: &Segment| {
        assert_eq!(gate.handle_egress(micros(at), FlowId(0), segment, PacketId(9)), Verdict::PASS);
    };
    pass(&mut gate, 0, &syn());
    let answer =
        Segment { seq: SeqNumber(70_000), flags: Flags::SYN | Flags::ACK, mss: MSS, frames: 1, ..Segment::default() };
    gate.handle_ingress(micros(100), FlowId(0), &answer);
    pass(&mut gate, 100, &ack(70_001));
    gate.handle_ingress(micros(200), FlowId(0), &data(70_001, false));
    assert_eq!(gate.handle_egress(micros(200), FlowId(0), &ack(71_001), PacketId(0)), Verdict::Hold);
    assert!(gate.poll_action(micros(200)).is_some());
    assert_eq!(gate.in_flight(), 2_000, "not counted from number 0");
    pass(&mut gate, 300, &ack(71_001));
}
