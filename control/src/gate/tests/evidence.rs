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
fn a_reset_that_our_tcp_would_challenge_ends_nothing() {
    // Inside the window, but not where the next byte is expected (RFC 5961 section 3.2).
    for seq in [1 + 10 * MSS + 7_000, 1 + 9 * MSS] {
        let mut host = streaming();
        let before = alloc::format!("{:?}", host.shim.state.flows[0]);
        host.receive(0, Segment { flags: Flags::RST, ..data(seq, 0) });
        assert_eq!(alloc::format!("{:?}", host.shim.state.flows[0]), before, "{seq}");
    }
    // Where an ACK is delayed, the next byte is beyond what we have acknowledged.
    let mut host = streaming();
    host.data(0, 1 + 10 * MSS, MSS);
    host.receive(0, Segment { flags: Flags::RST, ..data(1 + 11 * MSS, 0) });
    assert!(host.shim.state.flows[0].flags.any(state::flag::CLOSING));
}

#[test]
fn what_acknowledges_bytes_that_we_have_not_sent_changes_nothing() {
    let forged = Segment { ack: SeqNumber(5_000), ..data(1 + 10 * MSS, MSS) };
    let mut host = streaming();
    let before = alloc::format!("{:?}", host.shim.state.flows[0]);
    host.receive(0, forged);
    assert_eq!(alloc::format!("{:?}", host.shim.state.flows[0]), before);
    assert_eq!(host.shim.gate().unacceptable.get(), 1);
    // Nor does what is older than any window.
    host.receive(0, Segment { ack: SeqNumber(0x8000_0000), ..forged });
    assert_eq!(host.shim.gate().unacceptable.get(), 2);
    host.receive(0, Segment { ack: SeqNumber(101), ..forged });
    assert_eq!(host.shim.gate().unacceptable.get(), 2);
}

#[test]
fn a_syn_does_not_wipe_a_connection_that_only_we_have_closed() {
    let mut host = streaming();
    host.send(0, Segment { flags: Flags::FIN | Flags::ACK, seq: SeqNumber(101), ..pure_ack(1 + 10 * MSS) });
    let before = alloc::format!("{:?}", host.shim.state.flows[0]);
    let again = Segment { flags: Flags::SYN, seq: SeqNumber(77), mss: 1460, wscale: Some(7), ..blank() };
    host.receive(0, again);
    assert_eq!(alloc::format!("{:?}", host.shim.state.flows[0]), before);
    // When the peer has closed as well, the same addresses and ports may begin anew.
    host.receive(0, Segment { flags: Flags::FIN | Flags::ACK, ..data(1 + 10 * MSS, 0) });
    host.receive(0, again);
    assert!(host.shim.state.flows[0].flags.any(state::flag::HALF_OPEN));
}

#[test]
fn a_fin_is_no_byte_of_a_response() {
    let mut host = streaming();
    host.receive(0, Segment { flags: Flags::PSH | Flags::ACK, ..data(1 + 10 * MSS, MSS) });
    host.wait(Span::millis(50));
    host.send(0, request(1 + 11 * MSS));
    assert_eq!(host.shim.gate().usual_response.get(), u64::from(11 * MSS));
    // A peer that closes without another word has said nothing about responses.
    host.receive(0, Segment { flags: Flags::FIN | Flags::ACK, ..data(1 + 11 * MSS, 0) });
    assert_eq!(host.shim.gate().usual_response.get(), u64::from(11 * MSS));
    // One that closes behind a response has sent what it has sent.
    host.connect(1);
    host.send(1, request(1));
    host.receive(1, Segment { flags: Flags::FIN | Flags::PSH | Flags::ACK, ..data(1, 500) });
    assert_eq!(host.shim.gate().usual_response.get(), 500);
}

#[test]
fn the_largest_response_of_late_is_known_for_a_while() {
    let mut host = Host::new(Config::credit(96_000));
    let respond = |host: &mut Host, flow: u32, size: u32| {
        host.connect(flow);
        host.send(flow, request(1));
        host.receive(flow, Segment { flags: Flags::FIN | Flags::PSH | Flags::ACK, ..data(1, size) });
        host.shim.gate().largest_response.get()
    };
    assert_eq!([1000, 500, 1200].map(|size| respond(&mut host, 0, size)), [1000, 1000, 1200]);
    for _ in 0..200 {
        host.wait(Span::millis(101));
        respond(&mut host, 0, 1);
    }
    assert!((2..400).contains(&host.shim.gate().largest_response.get()), "it fades");
}

/// Whether exact credit governs a connection that we open with MPTCP, whose SYN-ACK says so, too, or not.
fn is_governed(peer_knows: bool) -> bool {
    let mut host = Host::new(Config::credit(96_000));
    let wscale = Some(7);
    host.send(0, Segment { flags: Flags::SYN, mss: 1460, wscale, multipath: true, ..blank() });
    let answer = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), mss: 1460, wscale, ..blank() };
    host.receive(0, Segment { multipath: peer_knows, ..answer });
    host.send(0, Segment { multipath: peer_knows, window: 60_000, ..request(1) });
    let governed = decision::governs(&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0]);
    let (_, _, window) = *host.wire.last().unwrap();
    assert_eq!(window < 60_000, governed, "{window}: TCP's own, or a share of it");
    assert_eq!(host.shim.gate().multipath.get(), u64::from(peer_knows), "each is counted once");
    governed
}

#[test]
fn the_windows_of_a_connection_of_several_paths_are_left_alone() {
    assert!(!is_governed(true), "they count from what has come over all of them");
    assert!(is_governed(false), "its peer knows nothing of MPTCP: it is TCP's");
}

#[test]
fn pac_holds_nothing_of_a_connection_of_several_paths() {
    for multipath in [false, true] {
        let mut host = Host::new(Config::new(96_000));
        host.connect(0);
        host.connect(1);
        host.data(0, 1, MSS);
        host.fill(1);
        let ack = host.send(0, Segment { multipath, ..pure_ack(1 + MSS) });
        assert_eq!(host.has_left(ack), multipath);
    }
}

#[test]
fn the_counters_of_accurate_ecn_are_no_echo() {
    // RFC 9768: the bits of ECE and CWR are part of a counter that begins with 5.
    let mut host = Host::new(Config::of(Guard::Pac, 96_000));
    let open = Flags::SYN | Flags::ECE | Flags::CWR;
    host.send(0, Segment { flags: open, mss: 1460, wscale: Some(7), ..blank() });
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK | Flags::CWR, mss: 1460, wscale: Some(7), ..blank() });
    host.ack(0, 1);
    host.send(0, request(1));
    host.data(0, 1, MSS);
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + MSS) });
    assert!(!host.shim.state.flows[0].flags.any(state::flag::REDUCED));
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
    assert!((2_455_000..2_465_000).contains(&pipe), "1 Gb/s x 20 ms is 2.5 MB, of which frames are 63 in 64: {pipe}");
    let threshold = host.shim.gate().threshold.get();
    assert!(host.admits(threshold + pipe - 1, pipe));
    // What waits on the long path leaves a flow nearby its room.
    host.shim.state.gate.owed.set(pipe);
    host.shim.state.gate.owed_by_path[8].set(pipe);
    host.shim.state.gate.owed_beyond.set(pipe);
    host.shim.state.gate.held_by_path[8].set(pipe * (pipe >> 10));
    assert!(host.admits(threshold - threshold / 4, 0));
    assert!(!host.admits(threshold + 1_000_000, pipe));
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
fn a_response_counts_from_its_first_byte_also_when_that_is_lost() {
    for config in [Config::credit(96_000), Config::new(96_000)] {
        let mut host = Host::new(config);
        host.connect(0);
        host.send(0, request(1));
        host.data(0, 1 + MSS, MSS);
        host.data(0, 1, MSS);
        host.receive(0, Segment { flags: Flags::FIN | Flags::ACK, ..data(1 + 2 * MSS, 0) });
        assert_eq!(host.shim.gate().usual_response.get(), u64::from(2 * MSS));
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

#[test]
fn where_nothing_is_in_danger_what_we_send_has_tcps_own_window_too() {
    // The handshake's window is not scaled and smaller.
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(1_000_000) });
    let wscale = Some(8);
    host.receive(0, Segment { flags: Flags::SYN, mss: 1460, wscale, ..blank() });
    host.now += Span::micros(100);
    host.send(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale, window: 65_535, ..pure_ack(1) });
    host.now += Span::micros(100);
    host.receive(0, data(1, 0));
    host.wire.clear();
    let ours = |payload| Segment { payload, frames: payload.div_ceil(MSS) as u16, window: 1050, ..pure_ack(1) };
    for payload in [5 * MSS, 4 * MSS, MSS, 10 * MSS, 100] {
        host.send(0, ours(payload));
        host.now += Span::micros(50);
    }
    // The peer lacks a segment: three times the same ACK.
    host.data(0, 1 + MSS, MSS);
    for _ in 0..3 {
        host.send(0, Segment { sack: true, ..Segment { window: 1060, ..pure_ack(1) } });
    }
    let windows: Vec<_> = host.wire.iter().map(|&(.., window)| window).collect();
    assert_eq!(windows, [1050, 1050, 1050, 1050, 1050, 1060, 1060, 1060]);
}

/// Both ends have jumbo frames; what lies between has not, or the path changes while the connection lives.
fn jumbo() -> Host {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    host.send(0, Segment { flags: Flags::SYN, mss: 8960, wscale: Some(7), ..blank() });
    host.now += Span::micros(100);
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 8960, wscale: Some(7), ..blank() });
    host.ack(0, 1);
    host.send(0, request(1));
    host
}

fn mss(host: &Host) -> u32 {
    host.shim.state.flows[0].mss.get()
}

#[test]
fn segments_that_become_smaller_are_reckoned_with() {
    let mut host = jumbo();
    assert_eq!(mss(&host), 8960);
    for (i, segments) in [1, 1, 4].into_iter().enumerate() {
        let seq = 3_000 + i as u32 * 10 * MSS;
        host.receive(0, Segment { frames: segments, ..data(seq, u32::from(segments) * MSS) });
        assert_eq!(mss(&host), if i == 0 { 8960 } else { MSS });
    }
    host.data(0, 60_000, 8_900);
    assert_eq!(mss(&host), 8_900, "and larger ones at once");
}

#[test]
fn segments_that_something_else_cut_are_not_taken_for_smaller_ones() {
    let mut host = jumbo();
    // What a sender pushes.
    for i in 0..4 {
        host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + i * 700, 700) });
    }
    assert_eq!(mss(&host), 8960);
    // What it cuts where a hole ends.
    host.data(0, 10_000, 8_960);
    for seq in [2_801, 3_501, 4_201] {
        host.data(0, seq, 700);
    }
    assert_eq!(mss(&host), 8960);
    // A size that comes once, and not again before a whole segment has come, which may end a message.
    host.data(0, 18_960, 700);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(19_660, 8_960) });
    host.data(0, 28_620, 700);
    assert_eq!(mss(&host), 8960);
    // What it cuts at the edge of its window.
    let edge = host.shim.state.flows[0].edge.get();
    for back in [1_000, 500] {
        host.data(0, edge - back, 500);
    }
    assert_eq!(mss(&host), 8960);
}

#[test]
fn keepalives_and_window_probes_are_answered_at_once() {
    for guard in [Guard::Credit, Guard::Pac] {
        let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::of(guard, 96_000) });
        host.connect(0);
        host.send(0, request(1));
        host.data(0, 1, MSS);
        host.ack(0, 1 + MSS);
        host.wait(Span::secs(5));
        // Others owe all that may be owed.
        host.connect(1);
        host.fill(1);
        // RFC 9293 section 3.8.4: the byte before the next one, or nothing at that place.
        for payload in [0, 1] {
            host.data(0, MSS, payload);
            let answer = host.ack(0, 1 + MSS);
            assert!(host.has_left(answer), "keepalive of {payload}, {guard:?}");
        }
        // Section 3.8.6.1: a window that TCP itself has closed is probed.
        host.send(0, Segment { window: 0, ..pure_ack(1 + MSS) });
        host.data(0, 1 + MSS, 1);
        let answer = host.send(0, Segment { window: 0, ..pure_ack(1 + MSS) });
        assert!(host.has_left(answer), "probe, {guard:?}");
        assert_eq!(host.wire.last().unwrap().2, 0);
        let opens = host.send(0, Segment { window: 500, ..pure_ack(1 + MSS) });
        assert!(host.has_left(opens), "the end of a zero window, {guard:?}");
    }
}

#[test]
fn the_last_of_a_round_to_be_answered_keeps_no_wide_window() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    for flow in 0..20 {
        host.connect(flow);
    }
    for round in 0..2 {
        let from = 1 + round * 40 * MSS;
        for flow in 0..20 {
            host.send(flow, request(from));
        }
        // One after the other: when the last is answered, nobody else is active.
        for flow in 0..20 {
            for i in 0..40 {
                host.now += Span::micros(12);
                let flags = if i == 39 { Flags::ACK | Flags::PSH } else { Flags::ACK };
                host.receive(flow, Segment { flags, ..data(from + i * MSS, MSS) });
                host.ack(flow, from + (i + 1) * MSS);
            }
        }
    }
    let kept = |flow: &Flow| u64::from(flow.edge.get() - flow.received.get());
    let kept: u64 = host.shim.state.flows.iter().map(kept).sum();
    assert!(kept <= 96_000, "all of them at once may send {kept} bytes");
}
