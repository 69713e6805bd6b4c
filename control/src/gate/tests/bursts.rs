//! What comes beside data and with it: bare ACKs, SYN-ACKs, and what is between frames on the link.

use super::super::state::flag;
use super::paths::guard;
use super::*;

/// Preamble, gap and checksum of a frame.
const BETWEEN: u64 = 24;

/// So many requests at once behind handshakes of 1 ms, while there is no room for a grant.
fn ask_without_room(flows: u32) -> Host {
    let mut host = guard();
    for flow in 0..=flows {
        host.reach(flow, Span::millis(1));
    }
    host.fill(flows);
    let other = &host.shim.state.flows[flows as usize];
    let pipe = decision::pipe_of(&host.shim.rules, host.shim.gate(), other);
    other.owed.add(pipe as u32);
    host.shim.state.gate.owed.add(pipe);
    host.shim.state.gate.ahead.set(0);
    host.shim.state.gate.peak_active.set(64);
    host.shim.state.gate.looked_back.set(host.now.0);
    for flow in 0..flows {
        host.send(flow, Segment { window: u16::MAX, ..pure_ack(1) });
        let asks = host.send(flow, Segment { window: u16::MAX, ..request(1) });
        assert!(host.has_left(asks), "its server may think meanwhile");
    }
    host
}

#[test]
fn a_request_without_a_grant_costs_the_bare_ack_that_answers_it() {
    let mut host = ask_without_room(1);
    assert_eq!(host.owed(0), u64::from(HEADER));
    host.receive(0, Segment { ack: SeqNumber(101), seq: SeqNumber(1), ..pure_ack(101) });
    assert_eq!(host.owed(0), 0);
    host.check_ledger();
}

#[test]
fn what_answers_many_requests_without_a_grant_is_part_of_the_pace() {
    let host = ask_without_room(100);
    assert_eq!(host.shim.gate().ahead.get(), 100 * (u64::from(HEADER) + BETWEEN));
}

#[test]
fn full_frames_keep_the_pace_with_what_is_between_them() {
    let mut host = guard();
    host.reach(0, Span::millis(1));
    host.shim.state.gate.peak_active.set(64);
    host.shim.state.gate.looked_back.set(host.now.0);
    host.shim.state.gate.ahead.set(0);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    let segments = u64::from(host.shim.state.flows[0].edge.get() / MSS);
    assert_eq!(host.shim.gate().ahead.get(), segments * (FRAME + BETWEEN), "{segments} segments");
}

/// What a new connection's request for jumbo frames is charged, and what it is of the pace, among so many that each gets the least grant, over
/// such a path, where responses were of so many bytes.
fn jumbo_request(rtt: Span, response: u64) -> (u64, u64) {
    let mut host = guard();
    let jumbo = Segment { mss: 8960, wscale: Some(7), ..blank() };
    host.send(0, Segment { flags: Flags::SYN, ..jumbo });
    host.now += rtt;
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), ..jumbo });
    let gate = host.shim.gate();
    gate.active.set(64);
    gate.peak_active.set(64);
    gate.looked_back.set(host.now.0);
    gate.usual_response.set(response);
    gate.largest_response.set(response);
    gate.ahead.set(0);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    (host.owed(0), host.shim.gate().ahead.get())
}

#[test]
fn a_least_grant_of_jumbo_frames_is_charged_as_far_as_responses_go() {
    let (segment, header) = (8_960, u64::from(HEADER));
    let [ordinary, all] = [2 * FRAME, 2 * (segment + header)];
    for (response, least, most) in [
        (5_000, 5_000, 5_000 + header),
        (2_000, ordinary, ordinary + header),
        // Nobody knows, or it takes all of the grant.
        (0, all, all + 1),
        (40_000, all, all + 1),
    ] {
        let (owed, _) = jumbo_request(Span::micros(100), response);
        assert!((least..=most).contains(&owed), "{owed} of {least} to {most} for {response}");
    }
}

#[test]
fn a_jumbo_frame_that_is_not_full_keeps_the_pace_of_what_it_carries() {
    let (owed, ahead) = jumbo_request(Span::millis(2), 5_000);
    assert!((5_000..=5_000 + u64::from(HEADER)).contains(&owed), "{owed}");
    assert_eq!(ahead, owed + BETWEEN);
}

#[test]
fn a_short_answer_over_a_long_path_is_two_frames_of_the_pace() {
    let mut host = guard();
    host.reach(0, Span::millis(2));
    host.ack(0, 1);
    host.shim.state.flows[0].last_response.set(1_000);
    host.shim.state.gate.ahead.set(0);
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0]);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    let answer = 1_000 + 1_000 * u64::from(HEADER) / u64::from(MSS);
    assert_eq!(host.shim.gate().ahead.get(), answer + u64::from(HEADER) + 2 * BETWEEN);
}

/// What the first request of a connection is, as part of the pace, and the segments that it is granted, where so many flows were active of late
/// and responses were of so many segments.
fn first_request(flows: u64, response: u32) -> (u64, u64) {
    let mut host = guard();
    host.reach(0, Span::millis(2));
    host.shim.state.gate.peak_active.set(flows);
    host.shim.state.gate.looked_back.set(host.now.0);
    host.shim.state.gate.usual_response.set(u64::from(response * MSS));
    host.shim.state.gate.ahead.set(0);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    (host.shim.gate().ahead.get() / (FRAME + BETWEEN), u64::from(host.shim.state.flows[0].edge.get() / MSS))
}

#[test]
fn a_few_first_responses_keep_the_pace_by_what_slow_start_sends_at_once() {
    for (response, burst) in [(8, 8), (12, 10), (25, 15), (44, 20)] {
        assert_eq!(first_request(4, response), (burst, response.into()), "ten segments, twenty, and the rest");
    }
    let (burst, granted) = first_request(4, 0);
    assert_eq!(burst, granted, "a stream doubles until it has all");
    let (burst, granted) = first_request(64, 44);
    assert_eq!(burst, granted, "among many what has been granted meets in the queue");
}

#[test]
fn a_request_keeps_the_pace_of_all_that_it_is_granted_and_not_of_its_price() {
    let mut host = guard();
    host.reach(0, Span::millis(1));
    host.ack(0, 1);
    let gate = host.shim.gate();
    gate.peak_active.set(2);
    gate.looked_back.set(host.now.0);
    gate.ahead.set(0);
    let flow = &host.shim.state.flows[0];
    flow.last_response.set(60 * MSS);
    flow.window.set(2 * MSS);
    flow.edge.set(1);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    assert_eq!(host.shim.state.flows[0].edge.get() / MSS, 60);
    assert!(host.owed(0) < 60 * FRAME, "a wide window is not charged whole");
    assert_eq!(host.shim.gate().ahead.get(), 60 * (FRAME + BETWEEN));
}

/// What a request of flow 0 is granted, in segments, while there is room for eight; `None` if it waits. Four flows were active of late. The
/// last response was of so many segments; 0 for a new connection, which expects so many of `usual`.
fn asks_with_little_room(rtt: Span, last: u32, usual: u32) -> Option<u32> {
    asks_behind(guard(), rtt, last, usual)
}

fn asks_behind(mut host: Host, rtt: Span, last: u32, usual: u32) -> Option<u32> {
    host.reach(0, rtt);
    host.ack(0, 1);
    host.forgive(0);
    let gate = host.shim.gate();
    gate.peak_active.set(4);
    gate.active.set(3);
    gate.looked_back.set(host.now.0);
    gate.ahead.set(0);
    gate.usual_response.set(u64::from(usual * MSS));
    let flow = &host.shim.state.flows[0];
    flow.last_response.set(last * MSS);
    flow.edge.set(1);
    gate.owed.set(gate.threshold.get() + decision::pipe_of(&host.shim.rules, gate, flow) - 8 * FRAME - 1_000);
    let asks = host.send(0, Segment { window: u16::MAX, ..request(1) });
    host.has_left(asks).then(|| host.shim.state.flows[0].edge.get() / MSS)
}

#[test]
fn what_asks_waits_for_all_that_its_sender_will_send_at_once() {
    let (near, far) = (Span::micros(120), Span::millis(2));
    assert_eq!(asks_with_little_room(near, 8, 8), Some(8));
    assert_eq!(asks_with_little_room(near, 12, 12), None, "four times as much fits: it waits for a moment");
    assert_eq!(asks_with_little_room(near, 30, 30), Some(6), "four times as much does not: each has a share");
    assert_eq!(asks_with_little_room(far, 12, 12), None);
    assert_eq!(asks_with_little_room(near, 0, 8), Some(8));
    assert_eq!(asks_with_little_room(near, 0, 12), None, "an initial window is ten segments");
    let windows_alone = Host::new(Config { rate_mbps: 1_000, hold: Hold::Nothing, ..Config::credit(96_000) });
    assert_eq!(asks_behind(windows_alone, near, 12, 12), Some(8), "nothing ever waits");
}

#[test]
fn syn_acks_that_are_to_come_are_part_of_the_pace() {
    let mut host = guard();
    for flow in 0..100 {
        host.begin(flow);
    }
    assert_eq!(host.shim.gate().ahead.get(), 100 * 98, "a SYN-ACK with its options takes 98 bytes on the link");
}

/// Whether flow 1 may be granted a segment: its handshake seemed to take so long, in ns (0: nobody has seen it), or is not over, while what is in
/// flight is due over paths of 61 KB, the length that flow 0's handshake had of late.
fn admits_beside_long_paths(handshake_rtt: u32, half_open: bool, least_handshake: Option<u32>) -> bool {
    const OWED: u64 = 200_000;
    let mut host = guard();
    host.reach(0, Span::micros(500));
    host.begin(1);
    let gate = &host.shim.state.gate;
    gate.threshold.set(60_000);
    gate.owed.set(OWED);
    gate.owed_by_path[2].set(OWED);
    gate.owed_beyond.set(OWED);
    gate.held_by_path[2].set(OWED * (61_500 >> 10));
    least_handshake.into_iter().for_each(|least| gate.least_handshake.set(least));
    let flow = &host.shim.state.flows[1];
    flow.handshake_rtt.set(handshake_rtt);
    if !half_open {
        flow.flags.lower(state::flag::HALF_OPEN);
    }
    host.admits(u64::from(MSS), host.booked_with(1))
}

#[test]
fn no_path_counts_as_shorter_than_the_least_handshake_of_late() {
    assert!(
        !admits_beside_long_paths(1, false, None),
        "that came out at nothing, and is none that others' data does not stand before"
    );
    assert!(!admits_beside_long_paths(0, true, None), "nor is that of a peer that has yet to answer a SYN-ACK");
    assert!(admits_beside_long_paths(1, false, Some(20_000)), "far data does not stand before one nearby");
    assert!(admits_beside_long_paths(0, true, Some(20_000)));
}

#[test]
fn a_connection_whose_path_nobody_knows_does_not_wait_for_what_is_far_away() {
    assert!(admits_beside_long_paths(0, false, None));
}

/// A new connection over a path of 2 ms has been granted a request, when so many flows were active of late; responses take 180 segments.
fn begins_among(flows: u64) -> Host {
    begins_behind(guard(), flows, 0)
}

/// The same behind this guard, with these flags of [`flag`].
fn begins_behind(mut host: Host, flows: u64, flags: u32) -> Host {
    host.reach(0, Span::millis(2));
    host.shim.state.flows[0].flags.raise(flags);
    let gate = host.shim.gate();
    gate.threshold.set(67_500);
    gate.peak_active.set(flows);
    gate.looked_back.set(host.now.0);
    if gate.usual_response.get() == 0 {
        gate.usual_response.set(u64::from(180 * MSS));
    }
    gate.ahead.set(0);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    host
}

/// So many segments of the response come a round trip later, when so much has been set in motion, and are acknowledged at once.
fn come(host: &mut Host, segments: u32, ahead: u64) {
    host.wait(Span::millis(2));
    host.shim.gate().ahead.set(ahead);
    host.shim.gate().ahead_since.set(host.now.0);
    (0..segments).for_each(|segment| host.data(0, 1 + segment * MSS, MSS));
    host.send(0, Segment { window: u16::MAX, ..pure_ack(1 + segments * MSS) });
}

/// Up to which segment the sender may go.
fn edge(host: &Host) -> u32 {
    (host.shim.state.flows[0].edge.get() - 1) / MSS
}

#[test]
fn a_new_connection_among_many_is_granted_what_slow_start_sends() {
    let mut host = begins_among(12);
    assert_eq!(edge(&host), 10, "the initial window");
    come(&mut host, 4, 0);
    assert_eq!(edge(&host), 4 + 10 + 4, "and what has been acknowledged");
    assert_eq!(edge(&begins_among(2)), 10, "two responses of 180 segments are more than path and port hold");
    let (_, granted) = first_request(2, 90);
    assert_eq!(granted, 90, "among few whose responses fit nobody waits");
    assert!(edge(&begins_among(64)) < 10, "what 64 begin with overflows the port: each has a share");
    let auto = || Host::new(Config { auto: true, rate_mbps: 1_000, ..Config::credit(96_000) });
    assert_eq!(
        edge(&begins_behind(auto(), 30, 0)),
        10,
        "a buffer that nobody told may be larger than what has been tried"
    );
    assert!(edge(&begins_among(30)) < 10 && edge(&begins_behind(auto(), 64, 0)) < 10);
    assert!(
        edge(&begins_behind(guard(), 12, flag::ECN)) > 10,
        "marks end slow starts that meet: all of a share keeps the pace"
    );
}

#[test]
fn windows_that_double_too_fast_keep_the_pace() {
    // What twelve have on their way is more than the port holds, and half of it would stand there.
    for (ahead, at_once) in [(0, 18), (96_000, 10)] {
        let mut host = begins_among(12);
        come(&mut host, 4, ahead);
        assert_eq!(edge(&host), at_once, "{ahead} bytes ahead of the link");
        // The sender still may send six segments, and need not wait for the next ACK.
        host.wait(Span::millis(1));
        assert_eq!(edge(&host), 18, "the link has carried what was too much");
        host.check_ledger();
    }
}

#[test]
fn a_short_response_of_somebody_else_does_not_tell_how_long_a_first_one_is() {
    // Four budgets are 270 KB.
    for (largest, granted) in [(180 * MSS, 10), (100, 2), (190 * MSS, 2)] {
        let host = guard();
        host.shim.gate().usual_response.set(100);
        host.shim.gate().largest_response.set(largest.into());
        assert_eq!(edge(&begins_behind(host, 12, 0)), granted, "the largest of late had {largest} bytes");
    }
}

/// So many segments of a new connection's response have come over a path of 2 ms and are acknowledged, while there is room for so many more; what
/// is in the way of others is owed by flow 1. So many flows were active of late.
fn acked_with_room_for(segments: u32, flows: u64, came: u32) -> Host {
    let mut host = begins_among(flows);
    host.reach(1, Span::millis(2));
    host.wait(Span::millis(2));
    (0..came).for_each(|segment| host.data(0, 1 + segment * MSS, MSS));
    let gate = host.shim.gate();
    gate.ahead.set(0);
    let all = gate.threshold.get() + decision::pipe_of(&host.shim.rules, gate, &host.shim.state.flows[0]);
    let others = all - gate.owed.get() - u64::from(segments) * FRAME - 1_000;
    let other = &host.shim.state.flows[1];
    other.owed.add(others as u32);
    other.last_active.set(host.now.0);
    other.edge.set(1 + 1000 * MSS);
    other.flags.raise(flag::ACTIVE);
    gate.active.add(1);
    gate.owed.add(others);
    host.send(0, Segment { window: u16::MAX, ..pure_ack(1 + came * MSS) });
    host
}

#[test]
fn what_there_is_no_room_for_follows_in_a_copy_that_waits_for_all_of_it() {
    let mut host = acked_with_room_for(8, 12, 10);
    assert_eq!((edge(&host), host.shim.held()), (10 + 8, 1), "the rest of twenty follows");
    for segment in 0..11 {
        host.data(1, 1 + segment * MSS, MSS);
        assert_eq!((edge(&host), host.shim.held()), (10 + 8, 1), "{segment}: less would be another round trip");
    }
    (11..13).for_each(|segment| host.data(1, 1 + segment * MSS, MSS));
    assert_eq!((edge(&host), host.shim.held()), (10 + 20, 0));
    host.check_ledger();
}

#[test]
fn no_copy_follows_where_few_send_or_initial_windows_do_not_fit() {
    for (flows, came) in [(2, 10), (30, 6)] {
        let host = acked_with_room_for(2, flows, came);
        assert_eq!(host.shim.held(), 0, "{flows} flows");
    }
}

#[test]
fn a_copy_that_has_waited_for_too_long_takes_what_room_there_is() {
    let mut host = acked_with_room_for(8, 12, 10);
    (0..4).for_each(|segment| host.data(1, 1 + segment * MSS, MSS));
    for _ in 0..1_000 {
        if host.shim.held() == 0 {
            break;
        }
        assert_eq!(edge(&host), 10 + 8);
        (0..2).for_each(|flow| host.shim.state.flows[flow].last_active.set(host.now.0));
        host.wait(Span::millis(1));
    }
    assert_eq!(host.shim.held(), 0);
    assert!((20..=24).contains(&edge(&host)), "{}", edge(&host));
}

#[test]
fn where_all_responses_fit_a_kept_sender_keeps_the_pace_by_its_response_and_not_by_its_window() {
    let ahead = |flows| {
        let mut host = guard();
        host.reach(0, Span::millis(2));
        host.ack(0, 1);
        let gate = &host.shim.state.gate;
        gate.peak_active.set(flows);
        gate.looked_back.set(host.now.0);
        gate.usual_response.set(5_000);
        gate.largest_response.set(5_000);
        gate.ahead.set(0);
        host.shim.state.flows[0].last_response.set(5_000);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        host.shim.gate().ahead.get()
    };
    assert_eq!(ahead(40), 5_000 + 4 * (u64::from(HEADER) + BETWEEN), "40 x 5 KB, 67 KB and what 2 ms hold");
    assert!(ahead(80) > 10_000, "a window of {} may come", ahead(80));
}
