//! PAC by the paper's own examples, and the invariants that must hold whatever arrives or is lost.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::segment::Flags;
use crate::seq::SeqNumber;

const MSS: u32 = 1448;
const HEADER: u16 = 66;
const FRAME: u64 = 1514;

/// A receiver under test: builds segments, drives the policy, remembers what left.
struct Host {
    pac: Pac,
    now: Time,
    next: u32,
    /// Packets that have left, in order.
    left: Vec<PacketId>,
    /// Packets whose bare copies are still held.
    split: Vec<PacketId>,
    /// Every packet as TCP sent it.
    sent: Vec<(u32, Segment)>,
    /// What left: flow, acknowledgement number, window field.
    wire: Vec<(u32, u32, u16)>,
    discarded: Vec<PacketId>,
}

impl Host {
    fn new(config: Config) -> Self {
        Self {
            pac: Pac::new(config).unwrap(),
            now: Time(1_000_000),
            next: 0,
            left: vec![],
            split: vec![],
            sent: vec![],
            wire: vec![],
            discarded: vec![],
        }
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(action) = self.pac.poll_action(self.now) {
            match action {
                Action::Release(packet, edit) => {
                    if self.split.contains(&packet) {
                        self.split.retain(|held| *held != packet);
                    } else {
                        self.left.push(packet);
                    }
                    self.on_wire(packet, edit);
                }
                Action::Split(packet, edit) => {
                    self.left.push(packet);
                    self.split.push(packet);
                    self.on_wire(packet, edit);
                }
                Action::Discard(packet) if self.split.contains(&packet) => self.split.retain(|held| *held != packet),
                Action::Discard(packet) => self.discarded.push(packet),
                Action::Probe(_) => unreachable!("PAC sends no packets of its own"),
            }
        }
    }

    fn on_wire(&mut self, packet: PacketId, edit: Edit) {
        let (flow, segment) = self.sent[packet.0 as usize];
        let ack = edit.ack.unwrap_or(segment.ack);
        self.wire.push((flow, ack.0, edit.window.unwrap_or(segment.window)));
    }

    fn send(&mut self, flow: u32, segment: Segment) -> PacketId {
        let packet = PacketId(self.next);
        self.next += 1;
        self.sent.push((flow, segment));
        match self.pac.handle_egress(self.now, FlowId(flow), &segment, packet) {
            Verdict::Pass(edit) => {
                self.left.push(packet);
                self.on_wire(packet, edit);
            }
            Verdict::Split(edit) => {
                self.left.push(packet);
                self.split.push(packet);
                self.on_wire(packet, edit);
            }
            Verdict::Hold => {}
        }
        self.poll();
        packet
    }

    fn receive(&mut self, flow: u32, segment: Segment) {
        self.pac.handle_ingress(self.now, FlowId(flow), &segment);
        self.poll();
    }

    /// A data frame of `len` bytes at `seq`.
    fn data(&mut self, flow: u32, seq: u32, len: u32) {
        self.receive(flow, data(seq, len));
    }

    fn ack(&mut self, flow: u32, ack: u32) -> PacketId {
        self.send(flow, pure_ack(ack))
    }

    fn has_left(&self, packet: PacketId) -> bool {
        self.left.contains(&packet)
    }

    /// A connection opened by the guarded host; its handshake's charge is void.
    fn connect(&mut self, flow: u32) {
        let wscale = Some(7);
        self.send(flow, Segment { flags: Flags::SYN, mss: 1460, wscale, timestamps: Some((1, 0)), ..blank() });
        self.now += Span::micros(100);
        self.receive(flow, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale, ..blank() });
        self.ack(flow, 1);
        interval::void(&self.pac.state.gate, &self.pac.state.flows[flow as usize]);
        self.poll();
    }

    fn in_flight(&self) -> u64 {
        self.pac.gate().in_flight()
    }

    /// Fills the budget with a debt of flow `flow`.
    fn fill(&mut self, flow: u32) {
        let threshold = self.pac.gate().threshold.get();
        let owed = (threshold - self.in_flight()) as u32;
        self.pac.ensure(FlowId(flow));
        self.pac.state.flows[flow as usize].owed.add(owed);
        self.pac.state.flows[flow as usize].last_active.set(self.now.0);
        self.pac.state.gate.owed.add(u64::from(owed));
        self.pac.state.gate.interval_charged.add(u64::from(owed));
    }

    fn check_ledger(&self) {
        let owed: u64 = self.pac.state.flows.iter().map(|flow| u64::from(flow.owed.get())).sum();
        assert_eq!(owed, self.pac.gate().owed.get(), "Σ flow.owed = gate.owed");
        let held: u64 = self.pac.state.flows.iter().map(|flow| u64::from(flow.held.get())).sum();
        assert_eq!(held, self.pac.gate().held.get(), "Σ flow.held = gate.held");
        assert_eq!(held, self.pac.held() as u64, "the scheduler holds what the gate counts");
    }
}

fn blank() -> Segment {
    Segment { frames: 1, header: HEADER, window: 1000, ..Segment::default() }
}

fn data(seq: u32, len: u32) -> Segment {
    Segment { seq: SeqNumber(seq), payload: len, flags: Flags::ACK, ..blank() }
}

fn pure_ack(ack: u32) -> Segment {
    Segment { ack: SeqNumber(ack), flags: Flags::ACK, ..blank() }
}

fn config() -> Config {
    Config {
        push_ends_response: false,
        growth: Growth::PerAck,
        long_turns: false,
        max_hold: Span::millis(100),
        ..Config::new(96_000)
    }
}

#[test]
fn in_slow_start_an_ack_triggers_what_it_acknowledges_and_one_mss() {
    // Eq. 3, SS: ACK_q - ACK_prev + MSS, here 2 + 1 segments, with their headers.
    let mut host = Host::new(config());
    host.connect(0);
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.ack(0, 1 + 2 * MSS);
    assert_eq!(host.in_flight(), 3 * FRAME);
}

#[test]
fn in_congestion_avoidance_it_triggers_a_share_of_one_mss_more() {
    // Eq. 3, CA: MSS · MSS / Window, with a window of ten segments: worth a segment with the tenth ACK, and not sent before.
    let mut host = Host::new(config());
    host.connect(0);
    host.pac.state.flows[0].flags.raise(state::flag::AVOIDANCE);
    host.receive(0, Segment { frames: 10, ..data(1, 10 * MSS) });
    let charged: Vec<u64> = (1..=10)
        .map(|i| {
            let before = host.in_flight();
            host.ack(0, 1 + i * MSS);
            host.in_flight() - before
        })
        .collect();
    assert_eq!(charged[..9], [FRAME; 9]);
    assert_eq!(charged[9], 2 * FRAME);
}

#[test]
fn a_sender_that_reduces_its_window_lets_acks_pass_without_sending() {
    // RFC 3168 §6.1.2: from ten segments to five, once; the first five ACKs make room for nothing.
    let mut host = Host::new(config());
    host.connect(0);
    host.receive(0, Segment { frames: 10, ..data(1, 10 * MSS) });
    for i in 1..=10 {
        host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + i * MSS) });
        assert_eq!(host.in_flight(), u64::from(i.saturating_sub(5)) * FRAME, "ACK {i}");
    }
    let flow = host.pac.flow(FlowId(0)).unwrap();
    assert!(flow.flags.any(state::flag::AVOIDANCE));
    assert_eq!(flow.window.get(), 5 * MSS);
}

#[test]
fn a_syn_acks_ecn_flag_is_no_echo() {
    let mut host = Host::new(config());
    host.receive(0, Segment { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..blank() });
    host.send(0, Segment { flags: Flags::SYN | Flags::ACK | Flags::ECE, ack: SeqNumber(1), mss: 1460, ..blank() });
    assert!(!host.pac.flow(FlowId(0)).unwrap().flags.any(state::flag::REDUCED));
}

#[test]
fn more_on_its_way_than_the_model_allows_corrects_the_model() {
    let mut host = Host::new(config());
    host.connect(0);
    host.pac.state.flows[0].window.set(2 * MSS);
    host.receive(0, Segment { frames: 6, ..data(1, 6 * MSS) });
    assert_eq!(host.pac.flow(FlowId(0)).unwrap().window.get(), 6 * MSS);
}

#[test]
fn an_ack_that_has_waited_for_a_third_of_its_limit_goes_first() {
    let mut host = Host::new(Config { silence: Span::secs(1), ..config() });
    for flow in 0..3 {
        host.connect(flow);
    }
    // Flow 0 has outgrown the first level, flow 1 has not.
    host.receive(0, Segment { frames: 20, ..data(1, 20 * MSS) });
    host.data(1, 1, MSS);
    host.fill(2);
    host.pac.state.flows[2].last_active.set(u64::MAX);
    let large = host.ack(0, 1 + 20 * MSS);
    host.wait(Span::millis(34));
    let small = host.ack(1, 1 + MSS);
    let start = host.left.len();
    host.receive(2, Segment { frames: 40, ..data(1, 40 * MSS) });
    assert_eq!(host.left[start..], [large, small]);
}

#[test]
fn an_ack_with_ecn_echo_triggers_only_what_it_acknowledges() {
    let mut host = Host::new(config());
    host.connect(0);
    host.data(0, 1, MSS);
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + MSS) });
    assert_eq!(host.in_flight(), FRAME);
}

#[test]
fn what_arrives_is_subtracted_in_wire_bytes_even_in_aggregates() {
    let mut host = Host::new(Config { growth: Growth::PerByte, ..config() });
    host.connect(0);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    assert_eq!(host.in_flight(), 2 * FRAME);
    host.receive(0, Segment { frames: 2, ..data(1 + MSS, 2 * MSS) });
    assert_eq!(host.in_flight(), 0, "two frames in one aggregate pay for two frames");
}

#[test]
fn a_correction_that_was_wrong_ends_with_the_debts_that_it_was_about() {
    let mut host = Host::new(config());
    host.connect(0);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    host.pac.gate().written_off.set(FRAME);
    assert_eq!(host.in_flight(), FRAME);
    host.data(0, 1 + MSS, MSS);
    assert_eq!(host.in_flight(), FRAME / 2, "what arrived had not been lost");
    host.data(0, 1 + 2 * MSS, MSS);
    assert_eq!((host.in_flight(), host.pac.gate().written_off.get()), (0, 0));
}

#[test]
fn data_that_nobody_triggered_does_not_pay_for_others() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    let before = host.in_flight();
    host.data(1, 1, MSS);
    assert_eq!(host.in_flight(), before);
    host.check_ledger();
}

#[test]
fn an_ack_waits_until_its_trigger_fits() {
    // Algorithm 1, line 11: strictly more than the threshold blocks, equality passes.
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let ack = host.ack(0, 1 + MSS);
    assert!(!host.has_left(ack));
    host.data(1, 1, MSS);
    assert!(!host.has_left(ack), "one frame of room, two are triggered");
    host.data(1, 1 + MSS, MSS);
    assert!(host.has_left(ack), "in_flight + trigger = threshold");
    assert_eq!(host.in_flight(), 96_000);
    host.check_ledger();
}

#[test]
fn a_trigger_larger_than_the_threshold_leaves_when_nothing_is_in_flight() {
    let mut host = Host::new(Config { buffer: 2 * FRAME, ..config() });
    host.connect(0);
    host.receive(0, Segment { frames: 8, ..data(1, 8 * MSS) });
    let ack = host.ack(0, 1 + 8 * MSS);
    assert!(host.has_left(ack));
    assert_eq!(host.in_flight(), 9 * FRAME);
}

#[test]
fn a_forced_release_is_charged() {
    let mut host = Host::new(Config { silence: Span::secs(1), ..config() });
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let ack = host.ack(0, 1 + MSS);
    // Keep the debtor from falling silent.
    host.pac.state.flows[1].last_active.set(u64::MAX);
    host.wait(Span::millis(99));
    assert!(!host.has_left(ack));
    host.wait(Span::millis(1));
    assert!(host.has_left(ack));
    assert_eq!(host.pac.stats().forced, 1);
    host.check_ledger();
    assert_eq!(host.pac.flow(FlowId(0)).unwrap().owed.get() as u64, 2 * FRAME);
}

#[test]
fn short_flows_go_first_and_flows_of_one_level_take_turns() {
    let mut host = Host::new(config());
    for flow in 0..4 {
        host.connect(flow);
    }
    // Flow 0 has outgrown the first level (20 KB).
    for i in 0..15 {
        host.data(0, 1 + i * MSS, MSS);
    }
    host.data(1, 1, MSS);
    host.data(1, 1 + MSS, MSS);
    host.data(2, 1, MSS);
    host.fill(3);
    let long = host.ack(0, 1 + MSS);
    let first = host.ack(1, 1 + MSS);
    let second = host.ack(1, 1 + 2 * MSS);
    let other = host.ack(2, 1 + MSS);
    assert_eq!(host.pac.held(), 4);
    let start = host.left.len();
    for i in 0..8 {
        host.data(3, 1 + i * MSS, MSS);
    }
    assert_eq!(host.left[start..], [first, other, second, long]);
    host.check_ledger();
}

#[test]
fn a_long_turn_is_worth_a_quarter_of_the_threshold() {
    let mut host = Host::new(Config { long_turns: true, ..config() });
    for flow in 0..3 {
        host.connect(flow);
    }
    host.fill(2);
    let mut acks = vec![];
    for flow in 0..2 {
        host.receive(flow, Segment { frames: 13, ..data(1, 13 * MSS) });
        acks.push((1..=13).map(|i| host.ack(flow, 1 + i * MSS)).collect::<Vec<_>>());
    }
    let start = host.left.len();
    // Room for eleven ACKs of two frames each.
    host.receive(2, Segment { frames: 22, ..data(1, 22 * MSS) });
    // 24 000 bytes are eight ACKs of 3028.
    assert_eq!(host.left[start..], [&acks[0][..8], &acks[1][..3]].concat());
}

#[test]
fn a_flow_sinks_while_its_acks_are_queued() {
    let mut host = Host::new(config());
    for flow in 0..3 {
        host.connect(flow);
    }
    host.data(0, 1, MSS);
    host.data(1, 1, MSS);
    host.fill(2);
    let grown = host.ack(0, 1 + MSS);
    let fresh = host.ack(1, 1 + MSS);
    for i in 1..15 {
        host.data(0, 1 + i * MSS, MSS);
    }
    let start = host.left.len();
    for i in 0..4 {
        host.data(2, 1 + i * MSS, MSS);
    }
    assert_eq!(host.left[start..], [fresh, grown]);
}

#[test]
fn genuine_duplicates_and_sack_do_not_wait() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let held = host.ack(0, 1 + MSS);
    assert!(!host.has_left(held));
    host.data(0, 1 + 2 * MSS, MSS); // a hole
    let duplicate = host.ack(0, 1 + MSS);
    assert!(host.has_left(duplicate));
    let tail = host.left.len() - 2;
    assert_eq!(host.left[tail..], [held, duplicate], "the ACK that it repeats leaves first");
    let sack = host.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
    assert!(host.has_left(sack));
    host.check_ledger();
}

#[test]
fn a_report_of_a_duplicate_waits_in_line() {
    // RFC 2883: a SACK block without a hole says that a retransmission was not needed.
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let held = host.ack(0, 1 + MSS);
    host.data(0, 1, MSS);
    let report = host.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
    assert!(!host.has_left(held) && !host.has_left(report));
    assert!(!host.pac.flow(FlowId(0)).unwrap().flags.any(state::flag::RECOVERING));
}

#[test]
fn what_brings_nothing_after_a_push_is_the_end() {
    // A first response whose PSHs have turned out to stand in mid-stream: silence after a release tells that it is over.
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    for i in 0..4 {
        host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + i * MSS, MSS) });
    }
    host.ack(0, 1 + MSS);
    assert_eq!(host.in_flight(), 2 * FRAME);
    host.wait(Span::millis(3));
    assert!(interval::void_if_silent(&host.pac.config, &host.pac.state.gate, &host.pac.state.flows[0], host.now));
    host.ack(0, 1 + 4 * MSS);
    assert_eq!(host.in_flight(), 0);
    host.data(0, 1 + 4 * MSS, MSS);
    host.ack(0, 1 + 5 * MSS);
    assert!(host.in_flight() > 0, "it was not the end");
}

#[test]
fn partial_acks_do_not_wait_until_recovery_ends() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1 + MSS, MSS);
    host.data(0, 1 + 3 * MSS, MSS);
    host.ack(0, 1); // duplicate: recover = 1 + 4 MSS
    host.fill(1);
    host.data(0, 1, MSS);
    let partial = host.ack(0, 1 + 2 * MSS);
    assert!(host.has_left(partial));
    host.data(0, 1 + 2 * MSS, MSS);
    let full = host.ack(0, 1 + 4 * MSS);
    assert!(!host.has_left(full), "recovery is over: an ordinary ACK again");
}

#[test]
fn a_stale_ack_is_dropped_and_its_flow_promoted() {
    let mut host = Host::new(config());
    for flow in 0..3 {
        host.connect(flow);
    }
    for i in 0..15 {
        host.data(0, 1 + i * MSS, MSS); // sinks to the lower level
    }
    host.data(1, 1, MSS);
    host.fill(2);
    let held = host.ack(0, 1 + 15 * MSS);
    let rival = host.ack(1, 1 + MSS);
    host.data(0, 1 + 14 * MSS, MSS); // the sender's timer has overtaken the held ACK
    let stale = host.ack(0, 1 + 15 * MSS);
    assert_eq!(host.discarded, [stale]);
    assert!(!host.pac.flow(FlowId(0)).unwrap().flags.any(state::flag::AVOIDANCE));
    let start = host.left.len();
    for i in 0..40 {
        host.data(2, 1 + i * MSS, MSS);
    }
    assert_eq!(host.left[start..], [rival, held], "in the highest level now, behind who came there first");
    host.check_ledger();
}

#[test]
fn fin_rst_and_the_end_of_a_zero_window_pass() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let zero = host.send(0, Segment { window: 0, ..pure_ack(1 + MSS) });
    let opened = host.send(0, Segment { window: 500, ..pure_ack(1 + MSS) });
    assert!(host.has_left(zero) && host.has_left(opened));
    let reset = host.send(0, Segment { flags: Flags::RST | Flags::ACK, ..pure_ack(1 + MSS) });
    assert!(host.has_left(reset));
    host.check_ledger();
}

#[test]
fn a_syn_ack_is_charged_with_the_initial_window_and_waits_for_it() {
    let mut host = Host::new(Config { initial_window: 10, ..config() });
    let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, timestamps: Some((1, 1)), ..pure_ack(1) };
    let mut left = 0;
    for flow in 0..10 {
        host.receive(flow, Segment { flags: Flags::SYN, mss: 1460, ..blank() });
        let packet = host.send(flow, syn_ack);
        left += usize::from(host.has_left(packet));
    }
    assert_eq!(left, 6, "96 000 / (10 · 1514)");
    assert_eq!(host.in_flight(), 6 * 10 * FRAME);
    host.check_ledger();
}

#[test]
fn syn_acks_wait_until_a_burst_of_syns_is_over() {
    // At 1 Gb/s two full frames take 24 us.
    let mut host = Host::new(Config { rate_mbps: 1_000, ..config() });
    let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), mss: 1460, ..blank() };
    let answers: Vec<_> = (0..6)
        .map(|flow| {
            host.now += Span::micros(1);
            host.receive(flow, Segment { flags: Flags::SYN, ..blank() });
            host.send(flow, syn_ack)
        })
        .collect();
    assert_eq!(answers.iter().filter(|&&answer| host.has_left(answer)).count(), 3, "the fourth makes it a burst");
    host.wait(Span::micros(23));
    assert!(!host.has_left(answers[3]));
    let wake = host.pac.poll_timeout().unwrap();
    assert!(wake > host.now && wake <= host.now + Span::micros(3), "the scheduler looks again when it may be over");
    host.wait(Span::micros(3));
    assert!(answers.iter().all(|&answer| host.has_left(answer)));
}

#[test]
fn a_flood_of_syns_does_not_close_the_gate() {
    let mut host = Host::new(Config { max_half_open: 4, ..config() });
    let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, timestamps: Some((1, 1)), ..pure_ack(1) };
    for flow in 0..1_000 {
        host.receive(flow, Segment { flags: Flags::SYN, ..blank() });
        host.send(flow, syn_ack);
    }
    assert_eq!(host.pac.held(), 0);
    assert!(host.in_flight() <= 4 * 10 * FRAME);
}

/// A request of 100 bytes that acknowledges all received.
fn request(ack: u32) -> Segment {
    Segment { payload: 100, flags: Flags::ACK | Flags::PSH, ..pure_ack(ack) }
}

#[test]
fn a_request_on_a_kept_connection_waits_for_what_its_response_will_burst() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.wait(Span::millis(5));
    let first = host.send(0, request(1));
    assert!(host.has_left(first));
    assert_eq!(host.in_flight(), 10 * FRAME, "nothing is known yet: the initial window");
    for i in 0..20 {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
    }
    host.wait(Span::millis(5));
    interval::void(&host.pac.state.gate, &host.pac.state.flows[0]);
    host.fill(1);
    let second = host.send(0, request(1 + 20 * MSS));
    assert!(!host.has_left(second));
    interval::void(&host.pac.state.gate, &host.pac.state.flows[1]);
    host.wait(Span::ZERO);
    assert!(host.has_left(second));
    assert_eq!(host.in_flight(), 20 * FRAME, "the window has grown to the whole last response");
}

#[test]
fn uploads_and_chatty_exchanges_are_not_held() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, 200);
    host.ack(0, 201);
    host.wait(Span::millis(5));
    host.send(0, request(201)); // learns that responses are short
    host.data(0, 201, 200);
    host.wait(Span::millis(5));
    host.fill(1);
    let chat = host.send(0, request(401));
    let upload = host.send(1, Segment { payload: 20 * MSS, frames: 20, flags: Flags::ACK, ..pure_ack(1) });
    assert!(host.has_left(chat) && host.has_left(upload));
}

#[test]
fn a_push_at_the_end_frees_the_budget_and_lets_the_last_acks_go() {
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + MSS, 500) });
    assert_eq!(host.in_flight(), 0, "the sender has nothing more");
    host.fill(1);
    let last = host.ack(0, 1 + MSS + 500);
    assert!(host.has_left(last), "it triggers nothing");
}

#[test]
fn a_sender_that_pushes_in_mid_stream_is_not_believed_again() {
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1, MSS) });
    host.data(0, 1 + MSS, MSS);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + 2 * MSS, MSS) });
    host.ack(0, 1 + 3 * MSS);
    assert!(host.in_flight() > 0);
}

#[test]
fn debts_of_a_silent_flow_are_void() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let ack = host.ack(0, 1 + MSS);
    for _ in 0..40 {
        host.wait(Span::millis(1));
    }
    assert!(host.has_left(ack), "well before max_hold");
    assert_eq!(host.pac.stats().forced, 0);
    host.check_ledger();
}

#[test]
fn sequence_numbers_may_wrap() {
    let mut host = Host::new(config());
    let start = u32::MAX - MSS / 2;
    host.data(0, start, MSS);
    host.ack(0, start);
    host.ack(0, start.wrapping_add(MSS));
    assert_eq!(host.in_flight(), 2 * FRAME);
}

#[test]
fn a_reopened_entry_lets_the_old_connections_acks_go() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let held = host.ack(0, 1 + MSS);
    host.connect(0);
    interval::void(&host.pac.state.gate, &host.pac.state.flows[1]);
    host.wait(Span::ZERO);
    assert!(host.has_left(held));
    host.check_ledger();
}

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
            credit,
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
            prop_assert!(host.pac.gate().threshold.get() >= 2 * FRAME);
            prop_assert!(host.pac.gate().threshold.get() <= host.pac.config().buffer.max(2 * FRAME));
            for packet in host.left.iter().chain(&host.discarded) {
                held_since.remove(&packet.0);
            }
            for since in held_since.values() {
                prop_assert!(host.now.since(*since) < max_hold, "held past max_hold");
            }
        }

        // No wedge: with no further arrival, following the timeouts empties the queue within max_hold (and the bare copies within
        // ten times that).
        let end = host.now + max_hold * 11;
        while let Some(timeout) = host.pac.poll_timeout() {
            prop_assert!(timeout <= end, "asks to be polled later than any ACK may wait");
            host.now = host.now.max(timeout);
            host.poll();
        }
        prop_assert_eq!(host.pac.held(), 0);
        prop_assert_eq!(host.left.len() + host.discarded.len(), host.next as usize, "every packet has its end, once");
        for packet in &host.discarded {
            prop_assert!(!sent.get(&packet.0).is_some_and(|(_, _, data)| *data), "data discarded");
        }
        host.check_ledger();
    }

    /// Exact credit: the right edge never moves left, never passes what TCP offers, and what engaged senders may still
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
        while let Some(timeout) = host.pac.poll_timeout() {
            host.now = host.now.max(timeout);
            host.poll();
        }
        let mut edges = [0u32; 20];
        for &(flow, ack, field) in host.wire.iter().filter(|(_, ack, _)| *ack > 0) {
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
