//! Evidence must be possible: what a segment says is believed only if our TCP would look at it.

use super::*;

/// A governed connection in mid-stream whose sender has sent ten segments, all acknowledged.
fn streaming() -> Host {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    host.connect(0);
    host.send(0, request(1));
    for i in 0..10 {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
    }
    host
}

#[test]
fn a_segment_outside_the_offered_window_changes_nothing() {
    let forged = [
        data(1 + 10 * MSS + 900_000_000, MSS),
        Segment { flags: Flags::RST, ..data(1 + 10 * MSS + 900_000_000, 0) },
        Segment { flags: Flags::FIN | Flags::ACK, ..data(0_u32.wrapping_sub(900_000_000), 0) },
        Segment { flags: Flags::SYN, mss: 1460, ..data(77, 0) },
    ];
    for segment in forged {
        let mut host = streaming();
        let before = alloc::format!("{:?}", host.shim.state.flows[0]);
        host.receive(0, segment);
        assert_eq!(alloc::format!("{:?}", host.shim.state.flows[0]), before, "{segment:?}");
        assert_eq!(host.shim.gate().unacceptable.get(), 1);
    }
}

#[test]
fn a_reset_inside_the_window_ends_the_connection() {
    let mut host = streaming();
    host.receive(0, Segment { flags: Flags::RST, ..data(1 + 10 * MSS, 0) });
    assert!(host.shim.state.flows[0].flags.any(state::flag::CLOSING));
    assert_eq!(host.in_flight(), 0);
}

#[test]
fn our_own_syn_ack_says_that_a_new_connection_was_accepted() {
    let mut host = streaming();
    host.receive(0, Segment { flags: Flags::SYN, seq: SeqNumber(5_000), mss: 1460, wscale: Some(7), ..blank() });
    let generation = host.shim.state.flows[0].generation.get();
    host.send(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..pure_ack(5_001) });
    assert_eq!(host.shim.state.flows[0].generation.get(), generation + 1);
    assert!(!host.shim.state.flows[0].flags.any(state::flag::RECEIVED));
}

#[test]
fn marks_count_only_where_both_ends_agreed_on_ecn() {
    for ecn in [false, true] {
        let mut host = Host::new(Config::credit(96_000));
        let bits = |bits| if ecn { bits } else { Flags(0) };
        host.send(
            0,
            Segment { flags: Flags::SYN | bits(Flags::ECE | Flags::CWR), mss: 1460, wscale: Some(7), ..blank() },
        );
        host.now += Span::micros(100);
        host.receive(
            0,
            Segment { flags: Flags::SYN | Flags::ACK | bits(Flags::ECE), mss: 1460, wscale: Some(7), ..blank() },
        );
        host.ack(0, 1);
        host.send(0, request(1));
        for i in 0..100 {
            host.now += Span::micros(50);
            host.receive(0, Segment { ce: true, ..data(1 + i * 100, 100) });
        }
        let (threshold, cap) = (host.shim.gate().threshold.get(), host.shim.gate().cap.get());
        assert_eq!(threshold < cap, ecn, "{threshold} of {cap}");
    }
}

#[test]
fn a_request_behind_a_greeting_that_nobody_answers_is_one() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    for flow in 0..100 {
        host.connect(flow);
        host.send(flow, request(1));
        host.wait(Span::millis(200));
    }
    let left = (0..100).filter(|&flow| {
        let asks = host.send(flow, request(1));
        host.has_left(asks)
    });
    let left = left.count();
    assert!((1..50).contains(&left), "{left}: no more than the budget has room for");
}

#[test]
fn what_follows_an_unanswered_message_is_charged_nothing_by_pac() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::of(Guard::Pac, 96_000) });
    for flow in 0..100 {
        host.connect(flow);
        host.send(flow, request(1));
        host.wait(Span::millis(200));
        host.send(flow, request(1));
    }
    assert_eq!((0..100).map(|flow| host.owed(flow)).sum::<u64>(), 0);
}

#[test]
fn messages_that_nobody_answers_bind_nothing_after_the_second() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    for flow in 0..50 {
        host.connect(flow);
        host.send(flow, request(1));
        host.wait(Span::millis(200));
        host.send(flow, request(1));
    }
    host.wait(Span::millis(200));
    for _ in 0..20 {
        for flow in 0..50 {
            host.now += Span::millis(1);
            let message = host.send(flow, request(1));
            assert!(host.has_left(message));
        }
    }
    assert_eq!(host.in_flight(), 0);
    // Until somebody does answer.
    host.receive(7, Segment { flags: Flags::ACK | Flags::PSH, ..data(1, MSS) });
    host.wait(Span::millis(50));
    host.send(7, request(1 + MSS));
    assert!(host.owed(7) > 0);
}

#[test]
fn a_peer_with_small_segments_is_charged_with_small_ones() {
    let mut host = Host::new(Config::credit(96_000));
    host.send(0, Segment { flags: Flags::SYN, mss: 8960, wscale: Some(7), ..blank() });
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..blank() });
    assert_eq!(host.shim.state.flows[0].mss.get(), 1460);
}

#[test]
fn a_long_path_may_hold_what_it_holds_beside_the_budget() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    host.connect(0);
    let flow = &host.shim.state.flows[0];
    flow.least_rtt.set(20_000_000);
    flow.rtt.set(21_000_000);
    flow.samples.set(8);
    let pipe = decision::pipe_of(&host.shim.rules, host.shim.gate(), flow);
    assert!((2_490_000..2_510_000).contains(&pipe), "1 Gb/s x 20 ms is 2.5 MB: {pipe}");
    let threshold = host.shim.gate().threshold.get();
    assert!(decision::admits(&host.shim.rules, host.shim.gate(), threshold + pipe - 1, pipe));
    // What waits on the long path leaves a flow nearby its room.
    host.shim.state.gate.owed.set(pipe);
    host.shim.state.gate.owed_by_path[8].set(pipe);
    host.shim.state.gate.owed_beyond.set(pipe);
    host.shim.state.gate.held_by_path[8].set(pipe * (pipe >> 10));
    assert!(decision::admits(&host.shim.rules, host.shim.gate(), threshold, 0));
    assert!(!decision::admits(&host.shim.rules, host.shim.gate(), threshold + 1_000_000, pipe));
}

#[test]
fn what_all_may_send_at_once_fits_and_no_window_is_lowered() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(1_000_000) });
    for flow in 0..4 {
        host.connect(flow);
        host.send(flow, request(1));
        for i in 0..10 {
            host.data(flow, 1 + i * MSS, MSS);
            host.ack(flow, 1 + (i + 1) * MSS);
        }
    }
    // Windows of 1000 units of 128 bytes: half a megabyte in all.
    assert!(host.wire.iter().all(|&(_, _, window)| window == 1000), "{:?}", host.wire);
}

#[test]
fn the_end_of_a_connection_is_no_byte_of_its_last_response() {
    for config in [Config::credit(96_000), Config::new(96_000)] {
        let mut host = Host::new(config);
        host.connect(0);
        host.send(0, request(1));
        host.receive(0, Segment { flags: Flags::PSH | Flags::ACK, ..data(1, 1000) });
        host.receive(0, Segment { flags: Flags::FIN | Flags::ACK, ..data(1001, 0) });
        assert_eq!(host.shim.gate().usual_response.get(), 1000);
        host.check_ledger();
    }
}

#[test]
fn answers_that_end_leave_windows_alone_as_long_as_the_next_ones_fit_together() {
    for (buffer, lowered) in [(1_000_000, false), (96_000, true)] {
        let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(buffer) });
        for flow in 0..4 {
            host.connect(flow);
        }
        for answer in 0..3 {
            for flow in 0..4 {
                let begin = 1 + answer * 2 * MSS;
                host.send(flow, request(begin));
                host.data(flow, begin, MSS);
                host.ack(flow, begin + MSS);
                let end = Segment { flags: Flags::PSH | Flags::ACK, ..data(begin + MSS, MSS) };
                host.receive(flow, end);
                host.ack(flow, begin + 2 * MSS);
            }
        }
        // Four windows of 1000 units of 128 bytes: half a megabyte that idle senders would keep.
        assert_eq!(host.wire.iter().any(|&(_, _, window)| window != 1000), lowered, "{:?}", host.wire);
        assert_eq!(host.shim.gate().rewritten.get() > 0, lowered);
    }
}
