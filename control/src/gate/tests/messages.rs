//! Senders that push messages which nobody has asked for.

use super::super::state::flag;
use super::paths::guard;
use super::*;

/// Payload of a message: four segments, the last of which is not full.
const MESSAGE: u32 = 3 * MSS + 656;

/// A SYN arrives and is answered; how far the sender may go, in segments.
fn call(host: &mut Host, flow: u32) -> u32 {
    let wscale = Some(7);
    host.receive(flow, Segment { flags: Flags::SYN, mss: 1460, wscale, timestamps: Some((1, 0)), ..blank() });
    host.send(
        flow,
        Segment {
            flags: Flags::SYN | Flags::ACK,
            ack: SeqNumber(1),
            mss: 1460,
            wscale,
            timestamps: Some((1, 1)),
            window: u16::MAX,
            ..blank()
        },
    );
    let (_, _, window) = *host.wire.last().expect("no SYN-ACK");
    u32::from(window) / MSS
}

/// Connections that peers have opened, and nothing is known of what they send.
fn callers(flows: u32) -> Host {
    let mut host = guard();
    for flow in 0..flows {
        call(&mut host, flow);
        host.now += Span::micros(100);
        host.receive(flow, pure_ack(1));
        decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[flow as usize]);
    }
    host.shim.state.gate.peak_active.set(u64::from(flows));
    host.shim.state.gate.looked_back.set(host.now.0);
    host
}

fn push(host: &mut Host, flow: u32) {
    push_bytes(host, flow, MESSAGE);
}

/// The flow's sender pushes so much, in whole segments as far as its window allows, and is acknowledged.
fn push_bytes(host: &mut Host, flow: u32, mut left: u32) {
    for _ in 0..100 {
        let state = &host.shim.state.flows[flow as usize];
        let received = state.received.get().max(1);
        let window = state.edge.get() - received;
        let part = if left <= window { left } else { window / MSS * MSS };
        if part > 0 {
            left -= part;
            let flags = if left == 0 { Flags::ACK | Flags::PSH } else { Flags::ACK };
            host.receive(flow, Segment { frames: part.div_ceil(MSS) as u16, flags, ..data(received, part) });
            host.send(flow, Segment { window: u16::MAX, ..pure_ack(received + part) });
        }
        if left == 0 {
            return;
        }
        host.wait(Span::micros(500));
    }
    panic!("flow {flow} stands with {left} bytes to send");
}

/// The least that a sender keeps after three messages of each, in segments, and what is owed then.
fn kept(flows: u32, change: impl Fn(&mut Host)) -> (u32, u64) {
    let mut host = callers(flows);
    for round in 0..3 {
        if round == 2 {
            change(&mut host);
        }
        (0..flows).for_each(|flow| push(&mut host, flow));
    }
    host.check_ledger();
    let least = (0..flows).map(|flow| host.told(flow) / MSS).min();
    (least.unwrap(), host.in_flight())
}

/// Seventeen that have each pushed two messages, which fit.
fn pushers() -> Host {
    let mut host = callers(17);
    for _ in 0..2 {
        (0..17).for_each(|flow| push(&mut host, flow));
    }
    host
}

#[test]
fn where_the_messages_of_all_fit_each_sender_keeps_one_and_owes_nothing() {
    assert_eq!(
        kept(17, |_| {}),
        (4, 0),
        "17 of 5 KB are more than the budget of 67.5 KB, but no more than the buffer has room for, 90 KB"
    );
    assert_eq!(kept(18, |_| {}).0, 2, "18 are more");
}

#[test]
fn who_has_pushed_whole_segments_may_have_more_and_owes_what_it_keeps() {
    let owes = |len: u32| {
        let mut host = pushers();
        push_bytes(&mut host, 16, len);
        host.owed(16) > 0
    };
    assert_eq!([3 * MSS, 3 * MSS + 1].map(owes), [true, false]);
}

/// Each pushes some messages, one after the other in each round, of which four count as active at once; what was granted before is used up then.
fn in_rounds(flows: u32) -> Host {
    let mut host = callers(flows);
    for _ in 0..20 {
        host.now += Span::millis(10);
        host.shim.state.gate.peak_active.set(4);
        (0..flows).for_each(|flow| push(&mut host, flow));
    }
    host
}

#[test]
fn messages_that_stand_behind_each_other_are_counted_together() {
    let segments = |flows: u32| in_rounds(flows).told(0) / MSS;
    assert_eq!([17, 24].map(segments), [4, 2], "24 are more than fit");
}

#[test]
fn where_messages_fit_the_rest_of_one_comes_with_room_for_the_next() {
    let granted = |fits: bool| {
        let mut host = in_rounds(17);
        let received = host.shim.state.flows[0].received.get();
        if !fits {
            host.shim.state.gate.peak_senders.set(24);
        }
        host.now += Span::millis(10);
        host.receive(0, Segment { frames: 3, ..data(received, 3 * MSS) });
        host.send(0, Segment { window: u16::MAX, ..pure_ack(received + 3 * MSS) });
        host.told(0) / MSS
    };
    assert_eq!([true, false].map(granted), [4, 2], "656 bytes and 5000, or the least grant");
}

#[test]
fn senders_that_have_gone_are_not_counted_for_good() {
    let mut host = in_rounds(17);
    assert_eq!(host.shim.gate().peak_senders.get(), 17);
    for _ in 0..30 {
        host.wait(Span::millis(101));
        push(&mut host, 0);
    }
    assert_eq!(host.shim.gate().peak_senders.get(), 1);
}

#[test]
fn who_is_asked_keeps_the_least_grant() {
    let keeps = |asked: bool| {
        let mut host = pushers();
        if asked {
            host.send(16, Segment { window: u16::MAX, ..request(1 + 2 * MESSAGE) });
        }
        push(&mut host, 16);
        host.told(16) / MSS
    };
    assert_eq!([true, false].map(keeps), [2, 4]);
}

#[test]
fn the_largest_message_of_late_is_known_for_a_while() {
    let mut host = callers(1);
    (0..2).for_each(|_| push(&mut host, 0));
    for _ in 0..200 {
        host.wait(Span::millis(101));
        push_bytes(&mut host, 0, 1);
    }
    assert!((1..MESSAGE / 3).contains(&(host.shim.gate().largest_message.get() as u32)), "it fades");
}

#[test]
fn who_keeps_messages_leaves_room_for_what_others_are_asked_for() {
    let kept = kept(12, |host| host.shim.state.gate.largest_response.set(8_000));
    assert_eq!(kept, (2, 0), "twelve of 8 KB do not fit");
}

#[test]
fn a_loss_ends_that_for_a_second() {
    let lost = |after: Span| kept(12, |host| host.shim.state.gate.think_after.set((host.now + after).0)).0;
    assert_eq!((lost(Span::secs(1)), lost(Span::ZERO)), (2, 4));
}

#[test]
fn who_goes_on_unasked_after_a_response_and_a_pause_sends_messages() {
    let asked = |answer: u32, pause: Span| {
        let mut host = callers(1);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        push_bytes(&mut host, 0, answer);
        host.now += pause;
        push(&mut host, 0);
        let flow = &host.shim.state.flows[0];
        (flow.flags.get() & flag::ASKS > 0, flow.received.get() - flow.message.get() == MESSAGE)
    };
    assert!(asked(MESSAGE, Span::micros(50)).0, "what follows within a round trip may be one answer");
    assert!(asked(3 * MSS, Span::micros(200)).0, "whole segments may be one burst of several");
    assert_eq!(asked(MESSAGE, Span::micros(200)), (false, true));
}

#[test]
fn what_was_taken_for_a_response_and_was_two_messages_is_forgotten() {
    let mut host = callers(1);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    push_bytes(&mut host, 0, 2 * MESSAGE);
    let largest = |host: &Host| host.shim.gate().largest_response.get();
    // A long pause ends the response.
    for pause in [Span::millis(500), Span::millis(5), Span::millis(5)] {
        host.now += pause;
        push(&mut host, 0);
    }
    assert_eq!(largest(&host), u64::from(MESSAGE));
}

#[test]
fn a_short_message_is_over_where_its_window_ends_within_a_unit_of_it() {
    let active_then_size = |len: u32| {
        let mut host = pushers();
        let flow = &host.shim.state.flows[0];
        let received = flow.received.get();
        flow.edge.set(received + len + 100);
        host.receive(0, Segment { frames: 4, flags: Flags::ACK | Flags::PSH, ..data(received, len) });
        let active = host.shim.state.flows[0].flags.get() & flag::ACTIVE > 0;
        // The next one is a message of its own.
        host.now += Span::millis(5);
        host.receive(0, data(received + len, MSS));
        (active, host.shim.state.flows[0].size.get())
    };
    assert_eq!(active_then_size(MESSAGE), (false, MSS.into()));
    assert_eq!(active_then_size(MESSAGE - 200), (true, u64::from(MESSAGE - 200 + MSS)), "more may follow");
}

#[test]
fn where_somebody_waits_what_comes_within_a_round_trip_with_the_queue_goes_on() {
    // Handshakes took 100 us, and the budget takes 540 us to arrive.
    for (held, pause, size) in [(0, 300, MSS), (1, 300, MESSAGE + MSS), (1, 700, MSS)] {
        let mut host = pushers();
        host.shim.state.gate.held.set(held);
        let received = host.shim.state.flows[0].received.get();
        let message = Segment { frames: 4, flags: Flags::ACK | Flags::PSH, ..data(received, MESSAGE) };
        host.shim.handle_ingress(host.now, FlowId(0), &message);
        host.now += Span::micros(pause);
        host.shim.handle_ingress(host.now, FlowId(0), &data(received + MESSAGE, MSS));
        assert_eq!(host.shim.state.flows[0].size.get(), u64::from(size), "{held} held, {pause} us");
    }
}

#[test]
fn messages_that_follow_each_other_at_once_are_not_one_response() {
    let known = |end: &dyn Fn(&mut Host)| {
        let mut host = callers(1);
        (0..5).for_each(|_| push(&mut host, 0));
        end(&mut host);
        let gate = host.shim.gate();
        [gate.largest_message.get(), gate.largest_response.get()].map(|bytes| bytes == u64::from(MESSAGE))
    };
    let goes_on_after_a_pause = |host: &mut Host| {
        host.now += Span::millis(5);
        push(host, 0);
    };
    let is_asked = |host: &mut Host| {
        host.send(0, Segment { window: u16::MAX, ..request(1 + 5 * MESSAGE) });
    };
    assert_eq!(known(&goes_on_after_a_pause), [true, true]);
    assert_eq!(known(&is_asked), [true, true]);
}

/// What is known to be the largest message and response, after a window has ended where a message may have: within a unit of the edge, with a
/// PSH and less than a segment; then comes one more message, which ends for certain.
fn after_an_end_at_the_edge(message: u32, response: u32) -> [u64; 2] {
    let mut host = callers(1);
    (0..2).for_each(|_| push(&mut host, 0));
    let gate = &host.shim.state.gate;
    gate.largest_message.set(message.into());
    gate.largest_response.set(response.into());
    let flow = &host.shim.state.flows[0];
    let received = flow.received.get();
    flow.edge.set(received + MESSAGE + 100);
    host.receive(0, Segment { frames: 4, flags: Flags::ACK | Flags::PSH, ..data(received, MESSAGE) });
    host.shim.state.flows[0].edge.set(received + 10 * MESSAGE);
    host.receive(0, Segment { frames: 4, flags: Flags::ACK | Flags::PSH, ..data(received + MESSAGE, MESSAGE) });
    // The next begins: the one before is over.
    host.now += Span::millis(5);
    push(&mut host, 0);
    let gate = host.shim.gate();
    [gate.largest_message.get(), gate.largest_response.get()]
}

#[test]
fn what_may_be_two_messages_is_no_larger_one() {
    assert_eq!(after_an_end_at_the_edge(MESSAGE, MESSAGE), [MESSAGE.into(); 2]);
    let both = 2 * MESSAGE;
    let nearly = both - both / 10;
    assert_eq!(after_an_end_at_the_edge(nearly, nearly), [both.into(); 2], "but what is known does not fade");
    let less = both / 4 * 3;
    let known = [less, nearly].map(u64::from);
    assert_eq!(
        after_an_end_at_the_edge(less, nearly),
        known,
        "a response that is too large does, whatever messages follow"
    );
}

#[test]
fn a_message_that_comes_after_such_an_end_is_known_again() {
    let mut host = callers(1);
    (0..2).for_each(|_| push(&mut host, 0));
    let flow = &host.shim.state.flows[0];
    flow.several.set(1);
    flow.edge.set(flow.received.get() + 10 * MESSAGE);
    for len in [MESSAGE, 2 * MESSAGE + 1, MESSAGE] {
        push_bytes(&mut host, 0, len);
    }
    assert_eq!(host.shim.gate().largest_message.get(), u64::from(2 * MESSAGE + 1));
}

#[test]
fn who_answers_shortly_owes_that_whatever_its_window_and_is_none_of_those_that_divide_the_budget() {
    let asks = |answer: u32, change: &dyn Fn(&mut Host)| {
        let mut host = callers(17);
        host.shim.state.gate.largest_response.set(8_000);
        let flow = &host.shim.state.flows[0];
        flow.last_response.set(answer);
        flow.edge.set(flow.ack_high.get() + 20_000);
        change(&mut host);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        host.check_ledger();
        (host.owed(0), host.shim.state.flows[0].flags.get() & flag::ACTIVE > 0)
    };
    let lost = |host: &mut Host| host.shim.state.gate.think_after.set((host.now + Span::secs(1)).0);
    let wire = |payload: u32| u64::from(payload + payload * 66 / MSS);
    assert_eq!(asks(120, &|_| {}), (wire(120) + u64::from(HEADER), false), "with the bare ACK before the answer");
    assert_eq!(
        asks(2 * MSS, &|_| {}),
        (wire(2 * MSS) + u64::from(HEADER), true),
        "what is more than the least grant counts"
    );
    assert!(asks(120, &lost).0 > wire(10_000), "not for a while after a loss");
    let (owed, active) = asks(2 * MSS + 1, &|_| {});
    assert!(owed > wire(4 * MSS + 2) && active, "{owed} owed: what answers with more may use what it has");
}

#[test]
fn who_calls_among_many_begins_with_as_much_as_responses_bring_if_all_fit() {
    let begins = |flows: u32, response: u32, change: &dyn Fn(&mut Host)| {
        let mut host = guard();
        let gate = &host.shim.state.gate;
        gate.peak_active.set(flows.into());
        // What TCP offers all of them is more than the budget.
        gate.offered.set(1_000_000);
        gate.usual_response.set(response.into());
        gate.largest_response.set(response.into());
        gate.looked_back.set(host.now.0);
        change(&mut host);
        call(&mut host, 0)
    };
    let nothing = |_: &mut Host| {};
    assert_eq!(
        begins(12, 0, &nothing),
        2,
        "nobody knows how much comes, and twelve initial windows are more than the budget"
    );
    assert_eq!(begins(17, MESSAGE, &nothing), 4);
    assert_eq!(begins(18, MESSAGE, &nothing), 2, "18 are more than the buffer has room for");
    assert_eq!(begins(12, 500, &nothing), 2, "no less than the least grant");
    let marked = |host: &mut Host| host.shim.state.gate.threshold.set(60_000);
    assert_eq!((begins(11, MESSAGE, &marked), begins(12, MESSAGE, &marked)), (4, 2), "marks keep the queue short");
    let unknown = |host: &mut Host| host.shim.state.gate.port.set(0);
    assert_eq!((begins(12, MESSAGE, &unknown), begins(14, MESSAGE, &unknown)), (4, 2), "nobody gave a buffer");
}

#[test]
fn who_calls_over_a_long_path_is_charged_what_messages_bring() {
    let mut host = guard();
    host.reach(0, Span::millis(2));
    let gate = host.shim.gate();
    gate.usual_response.set(5_000);
    gate.largest_response.set(5_000);
    host.receive(1, Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), ..blank() });
    let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..pure_ack(1) };
    host.send(1, Segment { window: u16::MAX, timestamps: Some((1, 1)), ..syn_ack });
    assert_eq!(host.owed(1), 4 * FRAME, "in whole segments, by which the pace goes");
}
