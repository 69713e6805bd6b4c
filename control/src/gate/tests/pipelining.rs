//! Several requests outstanding on a connection: what earlier ones still bring counts with what the next one does.

use super::super::state::flag;
use super::paths::guard;
use super::*;

/// Payload of an answer.
const ANSWER: u32 = 4 * MSS;
/// What the window field counts in.
const UNIT: u32 = 128;
/// Of the fields that the law alone goes by, the one that exact credit notes pipelining in (PIPELINED of core/types.h).
const PIPELINED: usize = 2;
/// And what the peer must acknowledge for that (ASKED_TO).
const ASKED_TO: usize = 0;

impl Host {
    /// A segment of the peer that has seen our bytes up to `seen`.
    fn answers(&mut self, from: u32, len: u32, seen: u32, flags: Flags) {
        let seq = SeqNumber(from);
        let frames = len.div_ceil(MSS) as u16;
        self.receive(0, Segment { seq, payload: len, frames, ack: SeqNumber(seen), flags, ..blank() });
    }

    /// A whole answer of flow 0, pushed.
    fn answer(&mut self, from: u32, seen: u32) {
        self.answers(from, ANSWER - MSS, seen, Flags::ACK);
        self.answers(from + ANSWER - MSS, MSS, seen, Flags::ACK | Flags::PSH);
    }

    /// Payload that is known to follow of earlier answers when flow 0 asks.
    fn follows(&self) -> u32 {
        self.shim.state.flows[0].own[PIPELINED].get()
    }

    /// How far beyond the acknowledgement number flow 0 may go.
    fn window(&self) -> u32 {
        let flow = &self.shim.state.flows[0];
        flow.edge.get().wrapping_sub(flow.released_ack.get())
    }

    /// What flow 0 owes.
    fn debt(&self) -> u32 {
        self.shim.state.flows[0].owed.get()
    }
}

/// Flow 0 has asked twice and got the first answer, and now asks again; which of its requests the peer has seen by the second answer.
fn outstanding(mut host: Host, seen: u32) -> Host {
    host.connect(0);
    host.shim.state.flows[0].last_response.set(ANSWER);
    host.send(0, request(1));
    host.send(0, request(1));
    host.now += Span::micros(120);
    host.answer(1, 201);
    host.send(0, request(1 + ANSWER));
    host.now += Span::micros(120);
    host.answer(1 + ANSWER, seen);
    host
}

/// The same, and the peer answers what it has not seen yet when it sends the second answer.
fn pipelined() -> Host {
    let mut host = outstanding(guard(), 201);
    host.send(0, request(1 + 2 * ANSWER));
    host.now += Span::micros(120);
    host.answers(1 + 2 * ANSWER, MSS, 401, Flags::ACK);
    assert_eq!(host.follows(), ANSWER);
    host.answers(1 + 2 * ANSWER + MSS, ANSWER - MSS, 401, Flags::ACK | Flags::PSH);
    host
}

/// What flow 0 has received so far when `pipelined`.
const RECEIVED: u32 = 1 + 3 * ANSWER;

#[test]
fn what_comes_before_the_peer_has_seen_a_request_is_of_earlier_answers() {
    assert_eq!(outstanding(guard(), 301).follows(), 0, "the answer to what was asked last");
    let mut host = outstanding(guard(), 201);
    assert_eq!(host.follows(), 0, "nobody knows yet what the peer has seen");
    host.receive(0, Segment { seq: SeqNumber(1 + 2 * ANSWER), ..pure_ack(301) });
    assert_eq!(host.follows(), ANSWER);
}

#[test]
fn who_takes_turns_keeps_to_one_answer_unless_all_fits() {
    let far = Span::millis(20);
    for (why, rtt, flows, last, counts) in [
        ("eight send side by side", Span::micros(120), 8, 4, true),
        ("64 take turns", Span::micros(120), 64, 4, false),
        ("a long path has room for whole windows of 80", far, 80, 40, true),
        ("and for eight segments of 150 each", far, 150, 4, true),
        ("not for 44", far, 150, 40, false),
    ] {
        let mut host = outstanding(guard(), 201);
        host.make_path(0, rtt);
        host.shim.state.flows[0].last_response.set(last * MSS);
        host.shim.state.gate.peak_active.set(flows);
        host.receive(0, Segment { seq: SeqNumber(1 + 2 * ANSWER), ..pure_ack(301) });
        assert_eq!(host.follows() == ANSWER, counts, "{why}");
        assert_eq!(host.follows() > 0, counts, "{why}");
    }
}

#[test]
fn one_request_is_timed_at_a_time() {
    let mut host = outstanding(guard(), 201);
    // Had the later request been taken instead, nothing would have come since.
    host.send(0, request(1 + 2 * ANSWER));
    host.receive(0, Segment { seq: SeqNumber(1 + 2 * ANSWER), ..pure_ack(401) });
    assert_eq!(host.follows(), ANSWER);
}

#[test]
fn pipelining_that_ends_is_forgotten() {
    let mut host = pipelined();
    let mut seq = RECEIVED;
    let mut before = host.follows();
    for asked in 5..40 {
        host.send(0, request(seq));
        host.now += Span::micros(120);
        host.answer(seq, 1 + asked * 100);
        seq += ANSWER;
        assert!(host.follows() < before || host.follows() == 0, "{before} bytes");
        before = host.follows();
    }
    assert_eq!(host.follows(), 0);
}

#[test]
fn a_repeated_request_tells_nothing() {
    let mut host = guard();
    host.connect(0);
    host.send(0, request(1));
    host.answer(1, 101);
    host.send(0, Segment { seq: SeqNumber(1), ..request(1 + ANSWER) });
    host.answer(1 + ANSWER, 101);
    assert_eq!(host.follows(), 0, "the peer has long known of it");
    host.send(0, Segment { seq: SeqNumber(101), ..request(1 + 2 * ANSWER) });
    host.answer(1 + 2 * ANSWER, 101);
    host.answer(1 + 3 * ANSWER, 201);
    assert_eq!(host.follows(), ANSWER, "and of this it has not");
    host.send(0, Segment { seq: SeqNumber(1), ..request(1 + 4 * ANSWER) });
    host.answer(1 + 4 * ANSWER, 201);
    assert_eq!(host.follows(), ANSWER, "which stays known");
}

#[test]
fn a_request_opens_the_window_for_all_that_is_outstanding() {
    let mut host = outstanding(guard(), 301);
    host.send(0, request(1 + 2 * ANSWER));
    assert_eq!(host.window(), ANSWER.next_multiple_of(UNIT), "one answer");
    let mut host = pipelined();
    host.send(0, request(RECEIVED));
    let all = 2 * ANSWER + ANSWER / 2;
    assert!((all..=all + MSS + UNIT).contains(&host.window()), "two, and half of one: {} B", host.window());
    assert!(u64::from(host.debt()) < 10 * FRAME, "two are charged, not what may never come: {} B", host.debt());
    assert!(u64::from(host.debt()) >= 8 * FRAME);
    host.check_ledger();
}

#[test]
fn where_answers_follow_a_request_leaves_at_once_and_its_grant_waits() {
    // Without other answers outstanding it waits.
    let mut host = outstanding(guard(), 301);
    host.connect(1);
    host.fill(1);
    let asked = host.send(0, request(1 + 2 * ANSWER));
    assert!(!host.has_left(asked));

    let mut host = pipelined();
    host.connect(1);
    // What it was granted is used up.
    host.shim.state.flows[0].edge.set(RECEIVED);
    host.fill(1);
    let asked = host.send(0, request(RECEIVED));
    assert!(host.has_left(asked), "the sender waits for its ACK");
    assert_eq!((host.shim.held(), host.window()), (1, 0));
    host.forgive(1);
    assert_eq!(host.shim.held(), 0);
    assert!(host.window() >= 2 * ANSWER, "the copy brings the window: {} B", host.window());
    host.check_ledger();
}

#[test]
fn where_answers_follow_a_request_takes_what_room_there_is() {
    let mut host = pipelined();
    host.connect(1);
    host.shim.state.flows[0].edge.set(RECEIVED);
    host.fill(1);
    // Room for four frames, and not for two answers.
    host.shim.state.flows[1].owed.set(host.shim.state.flows[1].owed.get() - 4 * FRAME as u32);
    host.shim.state.gate.owed.set(host.shim.state.gate.owed.get() - 4 * FRAME);
    host.send(0, request(RECEIVED));
    assert!((2 * MSS..=4 * MSS).contains(&host.window()), "{} B", host.window());
    host.check_ledger();
}

#[test]
fn a_request_is_never_left_out() {
    for (last, left_out) in
        [(Segment { payload: 0, flags: Flags::ACK, ..request(RECEIVED) }, true), (request(RECEIVED), false)]
    {
        let mut host = pipelined();
        host.ack(0, RECEIVED - MSS);
        // The sender has shown that it goes on by itself, has not pushed, and more than one ACK brings is granted.
        let flow = &host.shim.state.flows[0];
        flow.flags.lower(flag::PUSHED * u32::from(left_out));
        flow.run.set(1 << 20);
        flow.edge.set(RECEIVED + 20 * MSS);
        let packet = host.send(0, last);
        assert_eq!((host.has_left(packet), host.discarded.contains(&packet)), (!left_out, left_out));
    }
}

/// A request that acknowledges all up to there.
fn asks(ack: u32) -> decision::Outgoing {
    let (class, ack, data, window, shift) = (Class::Request, SeqNumber(ack), true, 1000, 7);
    let (ece, repeated, dsack, copy) = (false, false, false, false);
    decision::Outgoing { class, ack, ece, data, repeated, dsack, copy, window, shift }
}

#[test]
fn what_has_come_while_a_request_was_held_does_not_count_for_the_pace() {
    // Its ACK number is that of when it was held; three answers have come since.
    let ahead = [RECEIVED, RECEIVED - 3 * ANSWER].map(|ack| {
        let host = pipelined();
        host.make_path(0, Span::millis(2));
        let (rules, gate, flow) = (&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0]);
        decision::void(rules, gate, flow);
        flow.size.set(0);
        flow.own[PIPELINED].set(0);
        flow.edge.set(RECEIVED);
        // Not all that many would answer fits.
        gate.peak_active.set(64);
        gate.ahead.set(0);
        let trigger = decision::trigger(rules, gate, flow, &asks(ack));
        decision::charge(rules, gate, flow, &asks(ack), &trigger, host.now);
        gate.ahead.get()
    });
    assert!((4 * FRAME..6 * FRAME).contains(&ahead[0]), "an answer: {ahead:?}");
    assert!(ahead[1] < ahead[0] + FRAME, "and no more: {ahead:?}");
}

#[test]
fn while_several_are_held_nothing_follows_but_what_was_asked() {
    let host = pipelined();
    let (rules, gate, flow) = (&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0]);
    decision::void(rules, gate, flow);
    flow.size.set(0);
    let asks = asks(RECEIVED);
    let edge = |held: u32| {
        flow.held.set(held);
        decision::trigger(rules, gate, flow, &asks).edge().map(|edge| edge.0 - RECEIVED)
    };
    let one = Some(ANSWER.next_multiple_of(UNIT));
    assert!(edge(0) > one, "its own answer, and that of an earlier one");
    assert_eq!(edge(1), edge(0), "nothing but itself");
    assert_eq!(edge(2), one, "what else is held has not been asked for");
}

#[test]
fn nothing_is_over_while_answers_follow() {
    let mut host = pipelined();
    host.send(0, request(RECEIVED));
    host.send(0, request(RECEIVED));
    host.now += Span::micros(120);
    host.answer(RECEIVED, 501);
    assert!(host.debt() > 0, "another is on its way");
    host.answer(RECEIVED + ANSWER, 601);
    assert_eq!(host.debt(), 0, "and has come");
    host.check_ledger();
}

#[test]
fn a_message_amid_answers_moves_the_edge() {
    let mut host = pipelined();
    host.send(0, request(RECEIVED));
    host.answers(RECEIVED, 2 * MSS, 501, Flags::ACK);
    // No end is in sight, and the sender could go on for a while.
    host.shim.state.flows[0].size.set(u64::from(20 * ANSWER));
    let before = host.window();
    assert!(before > 4 * MSS);
    host.send(0, request(RECEIVED + 2 * MSS));
    assert!(host.window() >= before, "as an ACK would: {} B", host.window());
}

#[test]
fn messages_that_nobody_answers_are_none_that_set_anything_in_motion() {
    let mut host = pipelined();
    host.send(0, request(RECEIVED));
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0]);
    host.send(0, request(RECEIVED));
    assert!(host.shim.state.flows[0].flags.any(flag::ONE_WAY));
    assert_eq!(host.debt(), 0);
}

/// Whether the next request of flow 0 waits while there is no room.
fn waits(mut host: Host) -> bool {
    host.connect(1);
    host.fill(1);
    let received = host.shim.state.flows[0].received.get();
    let asked = host.send(0, request(received));
    host.check_ledger();
    !host.has_left(asked)
}

#[test]
fn a_request_waits_where_no_answers_follow() {
    assert!(!waits(pipelined()));
    let mut after_a_pause = pipelined();
    after_a_pause.wait(Span::millis(20));
    assert!(waits(after_a_pause));
    let all_have_come = pipelined();
    all_have_come.shim.state.flows[0].size.set(u64::from(2 * ANSWER));
    assert!(waits(all_have_come));
    let brief = pipelined();
    brief.shim.state.flows[0].last_response.set(2 * MSS);
    assert!(waits(brief), "what is answered briefly waits for so little that it may");
}

#[test]
fn behind_a_request_that_is_held_the_next_one_frees_what_its_sender_will_not_use() {
    let mut host = pipelined();
    host.wait(Span::millis(20));
    host.connect(1);
    host.fill(1);
    let held = host.send(0, request(RECEIVED));
    host.answer(RECEIVED, 401);
    assert!(!host.has_left(held));
    host.shim.state.flows[0].owed.add(4 * FRAME as u32);
    host.shim.state.gate.owed.add(4 * FRAME);
    host.send(0, request(RECEIVED + ANSWER));
    assert_eq!(host.debt(), 0);
    host.check_ledger();
}

#[test]
fn only_what_leaves_as_the_last_of_its_flow_is_waited_for() {
    let asked_to = |held: u32, copy: bool| {
        let host = pipelined();
        let (rules, gate, flow) = (&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0]);
        flow.own[ASKED_TO].set(0);
        flow.held.set(held);
        let asks = decision::Outgoing { copy, ..asks(RECEIVED) };
        decision::charge(rules, gate, flow, &asks, &decision::trigger(rules, gate, flow, &asks), host.now);
        flow.own[ASKED_TO].get()
    };
    assert_eq!(asked_to(0, false), 401);
    assert_eq!(asked_to(1, false), 0, "what is still held has been counted as sent");
    assert_eq!(asked_to(0, true), 0, "its packet left long ago");
}

#[test]
fn a_flow_that_cannot_be_governed_waits_as_before() {
    let mut host = pipelined();
    host.connect(1);
    host.shim.state.flows[0].flags.lower(flag::SCALE_KNOWN);
    host.fill(1);
    let asked = host.send(0, request(RECEIVED));
    assert!(!host.has_left(asked), "its windows are its own: only its requests can wait");
}

#[test]
fn what_was_known_ends_with_the_connection() {
    let mut host = pipelined();
    host.send(0, request(RECEIVED));
    assert!(host.debt() > 0);
    host.answers(RECEIVED, MSS, 401, Flags::ACK | Flags::FIN);
    assert_eq!(host.debt(), 0, "nothing follows");
    host.connect(0);
    assert_eq!(host.follows(), 0);
}

#[test]
fn pac_counts_nothing_of_it() {
    let pac = Host::new(Config { rate_mbps: 1_000, ..Config::new(96_000) });
    let mut host = outstanding(pac, 201);
    assert_eq!(host.follows(), 0);
    // It keeps the throughput of an interval in that place.
    host.shim.state.flows[0].own[ASKED_TO].set(300);
    host.receive(0, Segment { seq: SeqNumber(1 + 2 * ANSWER), ..pure_ack(301) });
    assert_eq!(host.shim.state.flows[0].own[ASKED_TO].get(), 300);
}
