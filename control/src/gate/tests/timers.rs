//! No hold outlives a retransmission timer, as far as timers are known; and what comes late of a connection before.

use super::*;

/// Exact credit at 1 Gb/s where our own TCP's timer is at least `floor`.
fn host(floor: Span) -> Host {
    Host::new(Config { rate_mbps: 1_000, own_timer: floor, ..Config::credit(96_000) })
}

/// Fills the budget with one flow's debt and has another ask; the request waits.
fn held_request(host: &mut Host) -> PacketId {
    for flow in 0..12 {
        host.connect(flow);
    }
    for flow in 1..12 {
        host.send(flow, request(1));
    }
    host.fill(1);
    let asked = host.send(0, request(1));
    assert!(!host.has_left(asked));
    asked
}

#[test]
fn a_request_is_held_no_longer_than_our_own_timer_allows() {
    for (floor, longest) in [(Span::ZERO, 100), (Span::millis(200), 100), (Span::millis(8), 6)] {
        let mut host = host(floor);
        let asked = held_request(&mut host);
        host.fill(1);
        let mut waited = 0;
        while !host.has_left(asked) {
            waited += 1;
            assert!(waited <= longest, "a timer of {floor}, and {waited} ms");
            host.wait(Span::millis(1));
            host.fill(1);
        }
    }
}

#[test]
fn the_answer_to_a_request_passes_a_full_queue_before_our_own_timer_fires() {
    let timer = Span::millis(1);
    let host = host(timer);
    let queue = Span(host.shim.gate().threshold.get() * 8);
    let longest = decision::longest_request_hold(&host.shim.rules, host.shim.gate());
    assert!(queue.0 > timer.0 / 2 && longest + queue <= timer, "{longest}, behind {queue}");
    assert!(longest.0 > timer.0 / 8, "{longest}");
}

#[test]
fn requests_that_our_tcp_repeats_leave_and_show_its_timer_step_by_step() {
    let mut host = host(Span::ZERO);
    let longest = |host: &Host| decision::longest_request_hold(&host.shim.rules, host.shim.gate());
    let before = longest(&host);
    host.connect(1);
    for flow in (2..42).map(|at| at * 2) {
        host.connect(flow);
        host.fill(1);
        let asked = host.send(flow, request(1));
        assert!(!host.has_left(asked));
        host.now += Span::millis(1);
        let again = host.send(flow, Segment { seq: SeqNumber(1), ..request(1) });
        assert!(host.has_left(again));
        if flow == 4 {
            assert!(longest(&host).0 > before.0 / 2, "one loss probe sets no limit for all");
        }
        host.forgive(1);
        host.wait(Span::ZERO);
        host.forgive(flow);
    }
    assert!(longest(&host) <= Span::millis(2), "{} after forty of them", longest(&host));
}

#[test]
fn a_probe_for_the_last_of_several_segments_and_what_follows_a_sack_show_no_timer() {
    for (acked, sack, shows) in [(1, false, false), (101, true, false), (101, false, true)] {
        let mut host = host(Span::ZERO);
        host.connect(1);
        host.connect(2);
        let first = host.send(2, request(1));
        assert!(host.has_left(first));
        host.receive(2, Segment { seq: SeqNumber(1), sack, ..pure_ack(acked) });
        host.fill(1);
        let second = Segment { seq: SeqNumber(101), ..request(1) };
        let held = host.send(2, second);
        assert!(!host.has_left(held));
        host.now += Span::millis(8);
        host.send(2, second);
        assert_eq!(host.shim.gate().own_timer.get() > 0, shows, "acknowledged up to {acked}, SACK: {sack}");
    }
}

#[test]
fn requests_that_our_tcp_does_not_repeat_show_that_its_timer_is_longer() {
    let mut host = host(Span::ZERO);
    host.connect(1);
    host.shim.state.gate.own_timer.set(5_000_000);
    for flow in 2..700 {
        host.connect(flow);
        host.fill(1);
        let asked = host.send(flow, request(1));
        let mut waited = 0;
        while !host.has_left(asked) {
            waited += 1;
            assert!(waited < 200, "it waits for ever");
            host.wait(Span::millis(1));
            host.fill(1);
        }
        host.forgive(1);
        host.forgive(flow);
        host.wait(Span::ZERO);
    }
    assert_eq!(decision::longest_request_hold(&host.shim.rules, host.shim.gate()), host.shim.config().max_hold);
}

#[test]
fn senders_that_repeat_what_was_received_shorten_the_holds_of_acks_step_by_step() {
    let mut host = Host::new(config());
    let longest = |host: &Host| decision::longest_ack_hold(&host.shim.rules, host.shim.gate());
    let before = longest(&host);
    for flow in 0..40 {
        host.connect(flow);
        host.data(flow, 1, MSS);
        host.data(flow, 1 + MSS, MSS);
        host.fill(60);
        host.ack(flow, 1 + 2 * MSS);
        assert_eq!(host.shim.held(), 1);
        host.now += Span::millis(10);
        // The first segment again, and not the last as a tail loss probe would have it.
        host.receive(flow, data(1, MSS));
        if flow == 0 {
            assert!(longest(&host).0 > before.0 / 2, "one sender sets no limit for all");
        }
        host.forgive(60);
        host.forgive(flow);
        assert_eq!(host.shim.held(), 0);
    }
    assert!(longest(&host) <= Span::millis(12), "{} after forty of them", longest(&host));
    let flow = 50;
    host.connect(flow);
    host.data(flow, 1, MSS);
    host.fill(60);
    let held = host.ack(flow, 1 + MSS);
    assert!(!host.has_left(held));
    host.wait(longest(&host) + Span::micros(1));
    assert!(host.has_left(held));
}

#[test]
fn what_comes_late_of_a_connection_before_is_nobody_s() {
    let mut host = host(Span::ZERO);
    host.send(0, Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), ..blank() });
    let late = Segment { seq: SeqNumber(3_000_000_000), flags: Flags::ACK | Flags::FIN, ..blank() };
    host.receive(0, late);
    assert_eq!(host.shim.gate().unacceptable.get(), 1);
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..blank() });
    host.receive(0, late);
    assert_eq!(host.shim.gate().unacceptable.get(), 2);
    host.ack(0, 1);
    host.send(0, request(1));
    host.data(0, 1, MSS);
    assert_eq!(host.shim.state.flows[0].received.get(), 1 + MSS);
}

#[test]
fn where_timers_are_shorter_than_delayed_acks_grants_come_in_pairs_of_segments() {
    for (floor, odd) in [(1, false), (200, true)] {
        let mut host = host(Span::millis(floor));
        for flow in 0..24 {
            host.connect(flow);
        }
        let mut grants = vec![];
        for active in 17..40 {
            host.shim.state.gate.peak_active.set(active);
            host.shim.state.gate.looked_back.set(host.now.0);
            host.shim.state.gate.offered.set(1 << 24);
            let flow = active as usize % 24;
            host.send(flow as u32, request(1));
            let edge = host.shim.state.flows[flow].edge.get();
            host.data(flow as u32, 1, MSS);
            host.data(flow as u32, 1 + MSS, MSS);
            host.ack(flow as u32, 1 + 2 * MSS);
            let beyond = host.shim.state.flows[flow].edge.get() - (1 + 2 * MSS).min(edge);
            grants.push(beyond / MSS);
            host.forgive(flow as u32);
        }
        assert_eq!(grants.iter().any(|grant| grant % 2 == 1), odd, "a timer of {floor} ms: {grants:?}");
    }
}

#[test]
fn pairs_of_segments_do_not_leave_the_path_idle() {
    let granted = |rtt| {
        let config = Config { rate_mbps: 200, own_timer: Span::millis(5), ..Config::credit(96_000) };
        let mut host = Host::new(config);
        for flow in 0..12 {
            host.connect(flow);
        }
        host.shim.state.gate.active.set(12);
        host.shim.state.gate.peak_active.set(12);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        for segment in 0..2 {
            host.data(0, 1 + segment * MSS, MSS);
        }
        host.make_path(0, rtt);
        host.send(0, Segment { window: u16::MAX, ..pure_ack(1 + 2 * MSS) });
        (host.shim.state.flows[0].edge.get() - 1) / MSS - 2
    };
    assert_eq!(granted(Span::micros(120)), 2, "a turn of all has room for three");
    assert_eq!(granted(Span::millis(2)), 4, "with two of each, 37 KB would be on their way, and the path holds 50 KB");
}

#[test]
fn as_published_pac_holds_nothing_where_whole_windows_of_all_would_meet_timers() {
    // Initial windows of 60 take 7 ms, two segments of each 1.5 ms: only a guard that may lower windows has a turn in time.
    for (guard, passes) in [(Guard::PacPublished, true), (Guard::Pac, false)] {
        let config = Config { rate_mbps: 1_000, own_timer: Span::millis(5), ..Config::of(guard, 96_000) };
        let mut host = Host::new(config);
        for flow in 0..60 {
            host.connect(flow);
        }
        host.fill(59);
        host.data(0, 1, MSS);
        host.data(0, 1 + MSS, MSS);
        let ack = host.ack(0, 1 + 2 * MSS);
        assert_eq!(host.has_left(ack), passes, "{guard:?}");
    }
}
