//! How large the windows are that PAC shows.

use super::*;

/// What the flow is shown when it has received 100 segments, and so many others are active.
fn shown_beside(others: u32) -> u32 {
    shown_with(Span::ZERO, others)
}

/// The same where timers are at least that long; zero: not known.
fn shown_with(own_timer: Span, others: u32) -> u32 {
    shown_over(None, own_timer, others)
}

/// The same over a path that takes so long.
fn shown_over(rtt: Option<Span>, own_timer: Span, others: u32) -> u32 {
    let mut host = Host::new(Config { bound_windows: true, rate_mbps: 1_000, own_timer, ..config() });
    for flow in 0..=others {
        host.connect(flow);
    }
    if let Some(rtt) = rtt {
        host.make_path(0, rtt);
    }
    for i in 0..100 {
        host.data(0, 1 + i * MSS, MSS);
        host.send(0, Segment { window: u16::MAX, ..pure_ack(1 + (i + 1) * MSS) });
    }
    u32::from(host.wire.last().unwrap().2) << 7
}

#[test]
fn windows_of_a_few_senders_fit_the_buffer_together() {
    for senders in [2, 8, 16] {
        let wire = u64::from(senders * (shown_beside(senders - 1) - 127)) * FRAME / u64::from(MSS);
        assert!(wire <= 90_000, "{senders}: {wire} bytes");
    }
    assert!(shown_beside(15) >= 3 * MSS, "two segments for an ACK, and one on its way");
    assert_eq!(shown_beside(63), shown_beside(0), "of many, one window at a time");
}

#[test]
fn over_a_long_path_a_few_windows_of_many_senders_are_on_their_way_at_once() {
    let shown = |ms, others| u64::from(shown_over(Some(Span::millis(ms)), Span::ZERO, others));
    let (budget, one) = (90_000, u64::from(shown_beside(63)));
    // At 1 Gb/s the path holds so much.
    for (ms, holds) in [(1, 125_000), (3, 375_000), (5, 625_000)] {
        let window = shown(ms, 63);
        assert!(window >= one, "no less than nearby: {window}");
        // Payload, and what a path holds is with headers.
        assert!(8 * window >= holds / 20 * 19, "{ms} ms: eight fill the path: {window}");
        assert!(window <= one.max((budget + holds) / 8), "{ms} ms: and no more: {window}");
        assert!(shown(ms, 0) >= holds / 20 * 19, "{ms} ms: one alone fills it");
    }
    assert!(16 * shown(1, 15) >= 125_000 / 20 * 19, "sixteen, which are few, fill it together");
}

#[test]
fn where_timers_are_short_windows_of_all_fit_the_buffer_as_long_as_the_least_come_in_time() {
    let timer = Span::millis(5);
    let wire = u64::from(30 * (shown_with(timer, 29) - 127)) * FRAME / u64::from(MSS);
    assert!(wire <= 96_000, "{wire} bytes");
    // Two segments of each take 2.4 ms, and 7.3 ms.
    assert_eq!(shown_with(timer, 99).div_ceil(128), (2 * MSS).div_ceil(128));
    assert_eq!(shown_with(timer, 299), shown_beside(299), "one window at a time");
    assert_eq!(shown_with(Span::millis(200), 29), shown_beside(29), "no hold is as long");
}

/// What a request binds, wire bytes, after some to servers that answer with 20 segments after so long.
fn bound_by_a_request(think: Span) -> u64 {
    let mut host = Host::new(Config { rate_mbps: 1000, ..Config::new(96_000) });
    for flow in 0..40 {
        host.connect(flow);
    }
    let mut seq = 1;
    for _ in 0..30 {
        host.send(0, request(seq));
        host.wait(think);
        for _ in 0..20 {
            host.data(0, seq, MSS);
            seq += MSS;
            host.ack(0, seq);
        }
        host.wait(Span::millis(5));
    }
    host.send(0, request(seq));
    host.check_ledger();
    host.in_flight()
}

#[test]
fn what_servers_that_think_are_asked_for_binds_a_part_of_the_budget() {
    assert!(bound_by_a_request(Span::micros(100)) > 19 * FRAME, "a whole response in one go");
    // 30 answers fill the link while a server thinks for 7 ms; at random times, a few times more.
    let bound = bound_by_a_request(Span::millis(7));
    assert!(bound <= 3 * FRAME, "{bound} bytes");
}
