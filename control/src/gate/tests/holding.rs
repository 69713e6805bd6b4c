//! What waits, for how long, and in which order it leaves: Algorithm 1 and PAC §III-D.

use super::*;

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
    host.shim.state.flows[2].last_active.set(u64::MAX);
    let large = host.ack(0, 1 + 20 * MSS);
    host.wait(Span::millis(34));
    let small = host.ack(1, 1 + MSS);
    let start = host.left.len();
    host.receive(2, Segment { frames: 40, ..data(1, 40 * MSS) });
    assert_eq!(host.left[start..], [large, small]);
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
fn a_request_leaves_with_the_handshake_that_was_charged_for_it() {
    let mut host = Host::new(Config { silence: Span::secs(1), requests: Requests::Ignore, ..config() });
    host.connect(0);
    host.fill(0);
    let syn = |host: &mut Host, flow| {
        host.send(flow, Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), ..blank() });
        host.receive(flow, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..blank() });
    };
    let asks: Vec<_> = (1..4)
        .map(|flow| {
            syn(&mut host, flow);
            host.ack(flow, 1)
        })
        .collect();
    let requests: Vec<_> = (1..4).map(|flow| host.send(flow, request(1))).collect();
    assert!(asks.iter().chain(&requests).all(|&packet| !host.has_left(packet)));
    // Room for one initial window.
    let start = host.left.len();
    host.receive(0, Segment { frames: 15, ..data(1, 15 * MSS) });
    assert_eq!(host.left[start..], [asks[0], requests[0]]);
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
    host.shim.state.flows[1].last_active.set(u64::MAX);
    host.wait(Span::millis(99));
    assert!(!host.has_left(ack));
    host.wait(Span::millis(1));
    assert!(host.has_left(ack));
    assert_eq!(host.shim.stats().forced, 1);
    host.check_ledger();
    assert_eq!(host.shim.flow(FlowId(0)).unwrap().owed.get() as u64, 2 * FRAME);
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
    assert_eq!(host.shim.held(), 4);
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
    host.data(0, 1 + MSS, MSS); // has arrived, and our TCP has not looked at it yet
    let report = host.send(0, Segment { sack: true, dsack: true, ..pure_ack(1 + MSS) });
    assert!(!host.has_left(held) && !host.has_left(report));
    assert!(!host.shim.flow(FlowId(0)).unwrap().flags.any(state::flag::RECOVERING));
}

#[test]
fn a_hole_that_is_filled_at_once_is_no_loss() {
    let fill = |after: Span| {
        let mut host = Host::new(config());
        host.connect(0);
        host.data(0, 1, MSS);
        host.ack(0, 1 + MSS);
        host.data(0, 1 + 2 * MSS, MSS);
        host.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
        host.wait(after);
        host.data(0, 1 + MSS, MSS);
        host.shim.gate().lost.get()
    };
    assert_eq!(fill(Span::micros(100)), 0, "one packet has overtaken another");
    assert_eq!(fill(Span::micros(300)), 1);
}

/// Stamped data with one frame that comes last: with this TSval, so long after it was missed.
fn fill_stamped(tsval: u32, after: Span) -> u64 {
    let mut host = Host::new(config());
    host.connect(0);
    let stamped = |seq, tsval| Segment { timestamps: Some((tsval, 1)), ..data(seq, MSS) };
    host.receive(0, stamped(1, 1000));
    host.ack(0, 1 + MSS);
    host.receive(0, stamped(1 + 2 * MSS, 1001));
    host.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
    host.wait(after);
    host.receive(0, stamped(1 + MSS, tsval));
    host.shim.gate().lost.get()
}

#[test]
fn what_was_overtaken_is_told_from_what_was_sent_again_by_its_timestamp() {
    let late = Span::millis(4);
    assert_eq!(fill_stamped(1000, late), 0, "sent before what overtook it");
    assert_eq!(fill_stamped(1001, late), 1, "sent in the same millisecond: time tells");
    assert_eq!(fill_stamped(1005, late), 1, "sent again");
    assert_eq!(fill_stamped(1002, Span::micros(10)), 1, "however soon");
}

#[test]
fn what_one_overflow_lost_is_one_overflow_however_late_it_is_repaired() {
    let mut host = Host::new(Config { auto: true, ..config() });
    for flow in 0..2 {
        host.connect(flow);
        host.data(flow, 1, MSS);
        host.ack(flow, 1 + MSS);
    }
    // A frame is missed now, and comes again 300 ms later.
    let lose = |host: &mut Host, flow: u32| {
        host.data(flow, 1 + 2 * MSS, MSS);
        host.send(flow, Segment { sack: true, ..pure_ack(1 + MSS) });
        host.wait(Span::millis(300));
        host.data(flow, 1 + MSS, MSS);
        (host.shim.gate().lost.get(), host.shim.gate().overflow.get())
    };
    host.shim.gate().cut_at.set((host.now + Span::millis(20)).0);
    assert_eq!(lose(&mut host, 0), (1, 0), "missed before the cut had its effect");
    assert_eq!(lose(&mut host, 1), (2, 1), "missed after it");
}

#[test]
fn what_kept_windows_lose_is_no_overflow_of_the_budget() {
    // Flow 1 may send so many budgets of before the guard came.
    for (kept, overflows) in [(1, 1), (3, 0)] {
        let mut host = Host::new(Config { rate_mbps: 1_000, auto: true, ..Config::credit(96_000) });
        for flow in 0..2 {
            host.connect(flow);
        }
        host.data(0, 1, MSS);
        host.ack(0, 1 + MSS);
        let owed = kept * host.shim.gate().threshold.get();
        host.shim.state.flows[1].owed.add(owed as u32);
        host.shim.state.gate.owed.add(owed);
        host.data(0, 1 + 2 * MSS, MSS);
        host.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
        host.forgive(1);
        host.wait(Span::millis(300));
        host.data(0, 1 + MSS, MSS);
        let gate = host.shim.gate();
        assert_eq!((gate.lost.get(), gate.overflow.get()), (1, overflows), "{kept} budgets");
    }
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
    assert!(decision::void_if_silent(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0], host.now));
    host.ack(0, 1 + 4 * MSS);
    assert_eq!(host.in_flight(), 0);
    host.data(0, 1 + 4 * MSS, MSS);
    host.ack(0, 1 + 5 * MSS);
    assert!(host.in_flight() > 0, "it was not the end");
}

#[test]
fn silence_while_a_flow_waits_for_its_turn_is_no_end() {
    // As above, but what was released has brought its data; the other ACKs are still held.
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    for i in 0..4 {
        host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + i * MSS, MSS) });
    }
    host.ack(0, 1 + MSS);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + 4 * MSS, MSS) });
    host.wait(Span::millis(3));
    assert!(decision::void_if_silent(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0], host.now));
    host.ack(0, 1 + 4 * MSS);
    assert!(host.in_flight() > 0, "the sender has been told of three segments");
}

#[test]
fn no_window_is_shown_that_would_fill_the_buffer() {
    let mut host = Host::new(Config { bound_windows: true, ..config() });
    host.connect(0);
    let shown = |host: &Host| {
        let &(_, ack, window) = host.wire.last().unwrap();
        (ack, u32::from(window) << 7)
    };
    // Four fifths of a budget of 90 000 bytes, in whole segments, rounded up to the unit of the window field.
    let most = (72_000 / FRAME as u32 * MSS).div_ceil(128) * 128;
    assert_eq!(shown(&host), (1, most));
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    assert_eq!(shown(&host), (1 + MSS, most));
    host.send(0, Segment { sack: true, ..pure_ack(1 + MSS) });
    assert_eq!(shown(&host), (1 + MSS, most), "a duplicate says the same");
    host.send(0, Segment { window: 100, ..pure_ack(1 + MSS) });
    assert_eq!(shown(&host), (1 + MSS, 12_800), "no more than TCP offers");
}

#[test]
fn a_request_is_charged_with_no_more_than_the_window_that_it_shows() {
    let mut host = Host::new(Config { bound_windows: true, ..config() });
    host.connect(0);
    for i in 0..100 {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
    }
    host.wait(Span::millis(10));
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0]);
    host.send(0, request(1 + 100 * MSS));
    assert_eq!(host.in_flight() / FRAME, u64::from(72_000 / FRAME as u32), "not the 100 segments of the last response");
}

#[test]
fn whoever_has_waited_longest_goes_first_be_it_a_request_or_an_ack() {
    // λ is so small that Eq. 6 writes nothing off.
    let mut host = Host::new(Config { lambda_permille: 1, ..config() });
    for flow in 0..3 {
        host.connect(flow);
    }
    for i in 0..15 {
        host.data(0, 1 + i * MSS, MSS); // sinks to the lower level
        host.ack(0, 1 + (i + 1) * MSS);
    }
    for i in 0..4 {
        host.data(1, 1 + i * MSS, MSS);
        host.ack(1, 1 + (i + 1) * MSS);
    }
    host.wait(Span::millis(10));
    for flow in &host.shim.state.flows[..2] {
        decision::void(&host.shim.rules, &host.shim.state.gate, flow);
    }
    host.fill(2);
    let asks = host.send(1, request(1 + 4 * MSS));
    host.wait(Span::millis(1));
    host.data(0, 1 + 15 * MSS, MSS);
    let ack = host.ack(0, 1 + 16 * MSS);
    // Both wait for more than a third of the longest hold, while the debtor goes on, after pauses that leave its debt alone.
    host.fill(2);
    for i in 0..40 {
        host.wait(Span::micros(1_100));
        host.data(2, 1 + i * 100, 100);
        host.fill(2);
    }
    assert!(!host.has_left(asks) && !host.has_left(ack));
    let start = host.left.len();
    let debtor = &host.shim.state.flows[2];
    decision::void(&host.shim.rules, &host.shim.state.gate, debtor);
    host.poll();
    assert_eq!(host.left[start..], [asks, ack]);
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
    assert!(!host.shim.flow(FlowId(0)).unwrap().flags.any(state::flag::AVOIDANCE));
    let start = host.left.len();
    for i in 0..40 {
        host.data(2, 1 + i * MSS, MSS);
    }
    assert_eq!(host.left[start..], [rival, held], "in the highest level now, behind who came there first");
    host.check_ledger();
}

#[test]
fn no_report_that_is_made_once_is_dropped_with_stale_acks() {
    // A D-SACK (RFC 2883), and the ACK with which ECN-Echo begins (RFC 8257 §3.2).
    for (flags, sack) in [(Flags::ACK, true), (Flags::ACK | Flags::ECE, false)] {
        let mut host = Host::new(config());
        for flow in 0..2 {
            host.connect(flow);
        }
        host.data(0, 1, MSS);
        host.fill(1);
        host.ack(0, 1 + MSS);
        host.data(0, 1, MSS);
        let report = host.send(0, Segment { sack, dsack: sack, flags, ..pure_ack(1 + MSS) });
        host.data(0, 1, MSS);
        let stale = host.send(0, Segment { flags, ..pure_ack(1 + MSS) });
        assert_eq!(host.discarded, [stale]);
        host.receive(1, Segment { frames: 40, ..data(1, 40 * MSS) });
        assert!(host.has_left(report));
        host.check_ledger();
    }
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
