//! Losses that leave no hole: an answer's only segment, and the last one of several.

use super::*;

/// What has been counted: losses, and what they weigh as an overflow.
fn counted(host: &Host) -> (u64, u64) {
    (host.shim.gate().lost.get(), host.shim.gate().overflow.get())
}

/// A connection that was just asked for something, all of which our TCP sends again after `wait`, with this TSval.
fn repeated(wait: Span, tsval: u32) -> Host {
    repeated_over(Span::ZERO, wait, tsval)
}

/// The same over a path whose handshake took so long.
fn repeated_over(rtt: Span, wait: Span, tsval: u32) -> Host {
    let mut host = Host::new(Config { rate_mbps: 1_000, auto: true, ..Config::credit(4_000_000) });
    host.wait(Span::secs(1));
    host.connect(0);
    host.shim.state.flows[0].handshake_rtt.set(rtt.0 as u32);
    let asks = |tsval| Segment { seq: SeqNumber(1), timestamps: Some((tsval, 1)), ..request(1) };
    let asked = host.send(0, asks(1_000));
    assert!(host.has_left(asked));
    host.wait(wait);
    host.send(0, asks(tsval));
    host.wait(Span::micros(100));
    host
}

/// The peer has all of it.
fn bare() -> Segment {
    pure_ack(101)
}

/// Its report that it had it before (RFC 2883).
fn report() -> Segment {
    Segment { sack: true, dsack: true, ..bare() }
}

#[test]
fn an_answer_was_lost_if_the_peer_had_been_asked_before_our_timer_fired() {
    let rto = Span::millis(200);
    let after = |wait, answer: Segment| {
        let mut host = repeated(wait, 1_200);
        host.receive(0, Segment { seq: SeqNumber(1), ..answer });
        counted(&host)
    };
    let answer = |tsecr| Segment { timestamps: Some((1, tsecr)), payload: 500, ..bare() };
    assert_eq!(after(rto, report()), (1, 4), "a timeout weighs as much as four holes");
    assert_eq!(after(rto, answer(1_000)), (1, 4), "it is sent again, and answers what was sent first");
    assert_eq!(after(rto, answer(1_200)), (0, 0), "the request was lost");
    assert_eq!(after(rto, bare()), (0, 0), "nobody knows");
    assert_eq!(after(Span::millis(30), report()), (0, 0), "its ACK may have been delayed");
}

#[test]
fn an_answer_that_may_still_be_on_its_way_is_no_loss_when_our_timer_has_fired() {
    let late = Segment { seq: SeqNumber(1), timestamps: Some((1, 1_000)), payload: 500, ..bare() };
    for (rtt, lost) in [(0, (1, 4)), (100, (0, 0))] {
        let mut host = repeated_over(Span::millis(rtt), Span::millis(120), 1_120);
        host.receive(0, late);
        assert_eq!(counted(&host), lost, "{rtt} ms");
    }
}

#[test]
fn what_is_acknowledged_without_a_timer_or_not_all_of_it_is_no_loss() {
    let stamped = |tsval, segment: Segment| Segment { timestamps: Some((tsval, 1)), ..segment };
    // The answer echoes what came before a bare ACK of ours.
    let mut host = Host::new(Config { rate_mbps: 1_000, auto: true, ..Config::credit(4_000_000) });
    host.connect(0);
    host.send(0, stamped(1_000, Segment { seq: SeqNumber(1), ..request(1) }));
    host.wait(Span::millis(200));
    host.send(0, stamped(1_200, pure_ack(1)));
    host.receive(0, Segment { seq: SeqNumber(1), timestamps: Some((1, 1_000)), ..bare() });
    assert_eq!(counted(&host), (0, 0), "nothing was sent again");
    // Of two segments the first is sent again, and what comes acknowledges no more than that.
    let mut host = Host::new(Config { rate_mbps: 1_000, auto: true, ..Config::credit(4_000_000) });
    host.connect(0);
    for (tsval, seq) in [(1_000, 1), (1_001, 101), (1_200, 1)] {
        host.wait(Span::millis(if seq == 1 { 100 } else { 0 }));
        host.send(0, stamped(tsval, Segment { seq: SeqNumber(seq), ..request(1) }));
    }
    host.receive(0, Segment { seq: SeqNumber(1), timestamps: Some((1, 1_000)), ..bare() });
    assert_eq!(counted(&host), (0, 0), "the peer has the second, and says nothing of it");
}

#[test]
fn an_answer_that_was_only_late_is_no_loss() {
    // What was sent first is answered, and then comes the report.
    let mut host = repeated(Span::millis(200), 1_200);
    host.receive(0, Segment { seq: SeqNumber(1), ..bare() });
    host.receive(0, Segment { seq: SeqNumber(1), ..report() });
    assert_eq!(counted(&host), (0, 0));
}

#[test]
fn what_the_guard_held_until_our_timer_fired_is_no_loss() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    host.connect(0);
    host.connect(1);
    host.fill(1);
    let asks = Segment { seq: SeqNumber(1), ..request(1) };
    let held = host.send(0, asks);
    host.now += Span::millis(80);
    assert!(!host.has_left(held));
    host.send(0, asks);
    host.forgive(1);
    host.wait(Span::micros(100));
    host.receive(0, Segment { seq: SeqNumber(1), ..report() });
    assert_eq!(counted(&host), (0, 0));
}

#[test]
fn what_was_asked_for_before_a_cut_is_no_overflow_after_it() {
    for (asked_before_it, weight) in [(true, 0), (false, 4)] {
        let mut host = repeated(Span::millis(200), 1_200);
        let cut = host.now.0 - Span::millis(if asked_before_it { 100 } else { 300 }).0;
        host.shim.gate().cut_at.set(cut);
        host.receive(0, Segment { seq: SeqNumber(1), ..report() });
        assert_eq!(counted(&host), (1, weight), "{asked_before_it}");
        assert_eq!(host.shim.gate().unheard.get(), weight / 4);
    }
}

#[test]
fn a_tail_was_lost_if_the_sender_goes_on_after_a_timeout_although_it_could_have_before() {
    // A response of two segments, the second so much later; its window ends with so much room behind the first.
    let second_over = |rtt: Span, config, first: Flags, pause, room: u32| {
        let mut host = Host::new(Config { rate_mbps: 1_000, ..config });
        host.connect(0);
        host.shim.state.flows[0].handshake_rtt.set(rtt.0 as u32);
        host.send(0, request(1));
        host.shim.state.flows[0].edge.set(1 + MSS + room);
        host.receive(0, Segment { flags: first, ..data(1, MSS) });
        host.wait(pause);
        host.data(0, 1 + MSS, 500);
        counted(&host)
    };
    let second_under = |config, first, pause, room| second_over(Span::ZERO, config, first, pause, room);
    let second = |first, pause, room| second_under(Config::credit(96_000), first, pause, room);
    let (rto, push) = (Span::millis(200), Flags::ACK | Flags::PSH);
    assert_eq!(second(Flags::ACK, rto, 2 * MSS), (1, 4));
    assert_eq!(second(push, rto, 2 * MSS), (0, 0), "it had no more");
    let pac = |first| second_under(Config::of(Guard::Pac, 96_000), first, rto, 2 * MSS);
    assert_eq!((pac(Flags::ACK), pac(push)), ((1, 4), (0, 0)), "nor has it where a response may go on after a push");
    assert_eq!(second(Flags::ACK, Span::millis(41), 2 * MSS), (0, 0), "our ACK may have been delayed");
    assert_eq!(second(Flags::ACK, rto, MSS - 1), (0, 0), "it had no room for a segment");
    let far = |pause| second_over(Span::millis(100), Config::credit(96_000), Flags::ACK, pause, 2 * MSS);
    assert_eq!(far(Span::millis(110)), (0, 0), "in slow start each flight waits for a round trip");
    assert_eq!(far(rto), (1, 4), "a probe comes after two");
}

#[test]
fn a_server_that_thinks_and_a_hole_that_is_known_are_no_lost_tail() {
    let (mut thinks, mut repairs) = (streaming(Flags::ACK | Flags::PSH), streaming(Flags::ACK));
    thinks.send(0, request(1 + MSS));
    thinks.wait(Span::millis(200));
    thinks.data(0, 1 + MSS, 500);
    assert_eq!(counted(&thinks), (0, 0));
    repairs.data(0, 1 + 2 * MSS, MSS);
    repairs.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
    repairs.wait(Span::millis(200));
    repairs.data(0, 1 + 3 * MSS, MSS);
    assert_eq!(counted(&repairs), (0, 0), "it counts when it is filled");
}

/// A governed connection that was asked, and has begun to answer.
fn streaming(first: Flags) -> Host {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    host.connect(0);
    host.send(0, request(1));
    host.shim.state.flows[0].edge.set(1 + 8 * MSS);
    host.receive(0, Segment { flags: first, ..data(1, MSS) });
    host.ack(0, 1 + MSS);
    host
}

#[test]
fn a_sender_whose_ack_is_held_has_lost_nothing() {
    for (waits, lost) in [(true, 0), (false, 1)] {
        let mut host = Host::new(Config { max_hold: Span::secs(1), ..config() });
        host.connect(0);
        host.connect(1);
        host.data(0, 1, MSS);
        if waits {
            host.fill(1);
        }
        let acked = host.ack(0, 1 + MSS);
        assert_eq!(host.has_left(acked), !waits);
        host.shim.state.flows[0].edge.set(1 + 4 * MSS);
        host.now += Span::millis(200);
        host.data(0, 1 + MSS, 500);
        assert_eq!(counted(&host).0, lost);
    }
}

/// What a segment weighs that was lost of an answer, or of what comes unasked, after so many whole segments of it that have come.
fn weight(host: &mut Host, asked: bool, segments: u32) -> u64 {
    host.connect(0);
    if asked {
        host.send(0, Segment { seq: SeqNumber(1), ..request(1) });
    }
    let before = counted(host).1;
    let at = |segment: u32| data(1 + segment * MSS, MSS);
    for segment in 0..segments {
        host.receive(0, at(segment));
        host.send(0, pure_ack(1 + (segment + 1) * MSS));
    }
    host.receive(0, at(segments + 1));
    host.send(0, pure_ack(1 + segments * MSS));
    host.wait(Span::millis(5));
    host.receive(0, at(segments));
    counted(host).1 - before
}

#[test]
fn what_comes_unasked_says_nothing_about_a_given_buffer() {
    let given = || Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    let found = || Host::new(Config { rate_mbps: 1_000, auto: true, ..Config::credit(96_000) });
    assert_eq!(weight(&mut given(), true, 2), 1, "of an answer");
    assert_eq!(weight(&mut given(), false, 2), 0, "of what comes unasked");
    assert_eq!(weight(&mut found(), false, 2), 1, "where nobody gave one");
    let mut doubted = given();
    doubted.shim.gate().port.set(0);
    assert_eq!(weight(&mut doubted, false, 2), 1, "where it has shown to be too large");
}
