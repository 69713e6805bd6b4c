//! Paths of different lengths behind one port: who waits for whom, and what is granted over them.

use super::*;

/// Exact credit at 1 Gb/s in front of 96 KB.
pub(super) fn guard() -> Host {
    Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) })
}

impl Host {
    /// The flow's path is known to take 20 ms: it holds 2.5 MB.
    fn make_far(&self, flow: u32) {
        self.make_path(flow, Span::millis(20));
    }

    /// The flow's path is known to take so long.
    pub(super) fn make_path(&self, flow: u32, rtt: Span) {
        let flow = &self.shim.state.flows[flow as usize];
        flow.least_rtt.set(rtt.0 as u32);
        flow.rtt.set(rtt.0 as u32);
        flow.samples.set(8);
    }

    fn by_path(&self) -> Vec<u64> {
        let gate = self.shim.gate();
        let beyond = gate.owed_by_path.iter().skip(1).map(|cell| cell.get());
        [gate.owed.get() - gate.owed_beyond.get()].into_iter().chain(beyond).collect()
    }
}

/// A sender whose segments do not fill its grants, as where an application writes 4 KB at a time: room for less than a segment is left.
fn stuck(host: &mut Host, flow: u32) -> u32 {
    let edge = host.shim.state.flows[flow as usize].edge.get();
    let mut seq = 1;
    while edge - seq >= 2 * MSS {
        host.data(flow, seq, MSS);
        seq += MSS;
    }
    host.data(flow, seq, edge - seq - 1_000);
    edge - 1_000
}

/// Flow 23 has been asked over a long path, after as many others.
fn asked_last() -> Host {
    let mut host = guard();
    for flow in 0..24 {
        host.connect(flow);
        host.make_path(flow, Span::millis(1));
    }
    for flow in 0..24 {
        host.send(flow, request(1));
    }
    for _ in 0..100 {
        for flow in 0..23 {
            host.forgive(flow);
        }
        host.wait(Span::micros(200));
    }
    assert!(host.shim.held() == 0 && host.owed(23) > 0);
    host
}

#[test]
fn room_for_less_than_a_segment_is_not_in_flight_over_a_long_path() {
    let mut host = asked_last();
    let received = stuck(&mut host, 23);
    assert_eq!(host.owed(23), 0, "nothing more comes before the next grant");
    assert!(host.shim.state.flows[23].flags.any(state::flag::ACTIVE), "it has more to send");
    host.check_ledger();
    // Nor does an ACK without a grant set anything in motion.
    host.fill(1);
    host.shim.state.flows[1].owed.add(200_000);
    host.shim.state.gate.owed.add(200_000);
    host.ack(23, received);
    assert_eq!((host.owed(23), host.shim.held()), (0, 1));
    host.forgive(1);
    // The grant lets the sender send all of it.
    let granted = host.shim.state.flows[23].edge.get() - received;
    assert!(granted >= 2 * MSS && host.owed(23) >= u64::from(granted), "{} of {granted}", host.owed(23));
}

/// What flow 23 owes once its window leaves it room for 1000 bytes, with so much of its response to come.
fn owes_at_the_end(left: u32) -> u64 {
    let mut host = asked_last();
    let flow = &host.shim.state.flows[23];
    flow.last_response.set(flow.edge.get() - 1 - 1_000 + left);
    stuck(&mut host, 23);
    host.check_ledger();
    host.owed(23)
}

#[test]
fn the_end_of_a_response_that_fits_its_window_is_in_flight() {
    assert!((1_000..1_100).contains(&owes_at_the_end(1_000)), "{}", owes_at_the_end(1_000));
    assert_eq!(owes_at_the_end(1_500), 0, "it waits for the next grant");
    assert_eq!(owes_at_the_end(0), 0, "as what goes on beyond what was expected");
}

#[test]
fn room_for_less_than_a_segment_keeps_the_pace_once() {
    let mut host = guard();
    host.shim.state.gate.peak_active.set(64);
    for flow in 0..64 {
        host.connect(flow);
        host.make_path(flow, Span::millis(1));
        host.send(flow, request(1));
    }
    host.wait(Span::millis(30));
    let received = stuck(&mut host, 0);
    let [ahead, edge] = [host.shim.gate().ahead.get(), host.shim.state.flows[0].edge.get().into()];
    let asks = host.ack(0, received);
    assert!(host.has_left(asks));
    let moved = u64::from(host.shim.state.flows[0].edge.get()) - edge;
    assert!(moved > 0);
    let paced = host.shim.gate().ahead.get() - ahead;
    assert!(paced <= moved * FRAME / u64::from(MSS) + 128, "{paced} of {moved}");
}

#[test]
fn what_is_granted_over_a_long_path_is_not_given_up_before_it_can_be_answered() {
    for rtt in [Span::millis(5), Span::millis(20)] {
        let mut host = guard();
        for flow in 0..8 {
            host.connect(flow);
            host.make_path(flow, rtt);
            host.send(flow, request(1));
        }
        host.wait(rtt);
        // The sender leaves room unused and says that it has no more for now: Linux does after every burst.
        host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1, MSS) });
        host.ack(0, 1 + MSS);
        assert!(host.owed(0) > 0);
        host.wait(rtt + Span::micros(200));
        assert!(host.owed(0) > 0, "its answer to the ACK arrives about now: {rtt:?}");
        host.wait(rtt);
        assert_eq!(host.owed(0), 0, "{rtt:?}");
    }
}

#[test]
fn a_flow_far_away_does_not_queue_behind_flows_nearby() {
    // Mb/s that were told, and that have arrived; without either nobody knows what a path holds.
    for (told, came, knows) in [(1_000, 0, true), (0, 500, true), (0, 0, false)] {
        let mut host = Host::new(Config { rate_mbps: told, ..Config::credit(96_000) });
        for flow in 0..14 {
            host.connect(flow);
        }
        host.shim.state.gate.peak.set(came * 131_072 / 1_000);
        for flow in 1..12 {
            host.send(flow, request(1));
        }
        host.fill(1);
        let near = host.send(12, request(1));
        assert!(!host.has_left(near), "no room on short paths");
        host.make_far(13);
        let far = host.send(13, request(1));
        assert_eq!(host.has_left(far), knows, "room of its own on the long path: {told} and {came} Mb/s");
        host.check_ledger();
    }
}

#[test]
fn a_debt_moves_with_its_flow_when_the_path_shows_its_length() {
    let mut host = guard();
    host.connect(0);
    host.connect(1);
    host.send(0, request(1));
    let before = host.owed(0);
    assert!(before > 0);
    assert_eq!(host.by_path()[0], before);
    let edge = host.shim.state.flows[0].edge.get();
    for seq in (1..edge - 4 * MSS).step_by(MSS as usize) {
        host.data(0, seq, MSS);
    }
    host.make_far(0);
    let received = host.shim.state.flows[0].received.get();
    host.ack(0, received);
    assert!(host.owed(0) > before, "the path's own room is granted, too");
    assert_eq!(host.by_path()[0], 0, "{:?}", host.by_path());
    host.check_ledger();
}

#[test]
fn what_no_flow_owes_is_soon_owed_on_no_path() {
    let mut host = guard();
    host.connect(0);
    // Left behind by a flow that paid while its debt was moved.
    host.shim.state.gate.owed_by_path[3].set(50_000);
    host.shim.state.gate.owed_beyond.set(50_000);
    assert!(host.admits(1_000_000, 0), "nothing is in flight");
    for i in 0..4 {
        host.data(0, 1 + i * 100, 100);
        host.forgive(0);
        host.wait(Span::millis(5));
    }
    host.check_ledger();
    assert_eq!(host.by_path(), [0; 16]);
}

#[test]
fn what_is_larger_than_all_room_waits_only_for_more_than_the_path_holds() {
    let mut host = guard();
    host.connect(0);
    host.connect(1);
    host.send(0, request(1));
    host.fill(0);
    let counted = host.shim.gate().threshold.get();
    let admits = |host: &Host, wire| host.admits(wire, 15_000);
    assert!(!admits(&host, 1), "the gate is full");
    for _ in 0..counted / u64::from(MSS) {
        let flow = &host.shim.state.flows[0];
        host.data(0, flow.received.get().max(1), MSS);
        let owed = host.shim.gate().owed.get();
        assert_eq!(admits(&host, 1_000_000), owed <= 15_000, "{owed} of {counted}");
        assert_eq!(admits(&host, counted), owed == 0, "what fits as a whole waits until it does: {owed}");
    }
    assert!(host.shim.gate().owed.get() <= 15_000);
}

#[test]
fn over_a_long_path_among_many_a_request_gets_a_share_and_the_end_of_a_response_all_that_is_left() {
    // What the request is granted, and what the ACK of all that it brought; in segments.
    let granted = |response: u64| {
        let mut host = guard();
        for flow in 0..16 {
            host.connect(flow);
            host.make_path(flow, Span::millis(1));
        }
        host.shim.state.gate.usual_response.set(response);
        host.shim.state.gate.peak_active.set(16);
        host.shim.state.gate.active.set(15);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        let edge = host.shim.state.flows[0].edge.get();
        for seq in (1..edge).step_by(MSS as usize) {
            host.data(0, seq, MSS.min(edge - seq));
        }
        host.send(0, Segment { window: u16::MAX, ..pure_ack(edge) });
        [edge / MSS, (host.shim.state.flows[0].edge.get() - edge) / MSS]
    };
    let segments = |count| count * u64::from(MSS);
    // A sixteenth of what path and half of the budget hold: 7 segments. A quarter of the budget: 11.
    assert_eq!(granted(segments(100)), [7, 7]);
    assert_eq!(granted(segments(18)), [7, 11]);
    assert_eq!(granted(segments(20)), [7, 7]);
    assert_eq!(granted(segments(10))[0], 10);
    assert_eq!(granted((1 << 32) + segments(2)), [7, 7], "the length of a response has more than 32 bits");
}

/// The ACK of a sender of `active` whose response lacks five segments over a long path, where there is no room: a copy of it is held.
fn end_waits(active: u64) -> (Host, decision::Outgoing) {
    let mut host = guard();
    host.shim.state.gate.offered.set(1 << 20);
    for flow in 0..2 {
        host.connect(flow);
        host.make_path(flow, Span::millis(1));
    }
    host.shim.state.gate.peak_active.set(active);
    host.shim.state.gate.active.set(active);
    host.send(0, request(1));
    let edge = host.shim.state.flows[0].edge.get();
    for seq in (1..edge).step_by(MSS as usize) {
        host.data(0, seq, MSS.min(edge - seq));
    }
    host.make_path(0, Span::millis(1));
    // The end of a response, which is granted at once where there is room.
    host.shim.state.gate.usual_response.set(u64::from(edge + 4 * MSS));
    host.fill(1);
    host.shim.state.flows[1].owed.add(200_000);
    host.shim.state.gate.owed.add(200_000);
    host.ack(0, edge);
    assert_eq!(host.shim.held(), 1);
    let (ack, class) = (SeqNumber(edge), decision::Class::Ack);
    let (ece, data, repeated, dsack) = (false, false, false, false);
    (host, decision::Outgoing { class, ack, ece, data, repeated, dsack, copy: true, window: 1000, shift: 7 })
}

#[test]
fn among_very_many_nobody_is_granted_two_segments_for_having_waited_too_long() {
    for (active, segments) in [(100, 2), (20_000, 1)] {
        let (host, copy) = end_waits(active);
        // Not in its turn: it takes what there is room for.
        let out = decision::Outgoing { copy: false, ..copy };
        let forced = decision::trigger(&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0], &out);
        assert_eq!(forced.edge().map(|to| (to.0 - out.ack.0) / MSS), Some(segments), "among {active}");
    }
}

#[test]
fn a_copy_that_cannot_be_held_grants_what_there_is_room_for_and_not_all_that_it_would_have_waited_for() {
    let (host, copy) = end_waits(12);
    let flow = &host.shim.state.flows[0];
    let in_turn = decision::trigger(&host.shim.rules, host.shim.gate(), flow, &copy);
    assert_eq!(in_turn.edge().map(|to| (to.0 - copy.ack.0) / MSS), Some(5));
    decision::pass_after_all(&host.shim.rules, host.shim.gate(), flow, &copy, host.now);
    assert_eq!((flow.edge.get() - copy.ack.0) / MSS, 2);
    assert_eq!((flow.held.get(), host.shim.gate().held.get()), (0, 0));
}

#[test]
fn the_handshakes_last_ack_leaves_with_a_closed_window_and_its_request_follows() {
    let mut host = guard();
    for flow in 0..12 {
        host.connect(flow);
    }
    for flow in 1..12 {
        host.send(flow, request(1));
    }
    host.fill(1);
    // The part that is spared for handshakes is used up, too.
    let spared = host.shim.gate().threshold.get() / 8;
    host.shim.state.flows[1].owed.add(spared as u32);
    host.shim.state.gate.owed.add(spared);
    let wscale = Some(7);
    host.send(20, Segment { flags: Flags::SYN, mss: 1460, wscale, ..blank() });
    host.receive(20, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale, ..blank() });
    let opens = host.ack(20, 1);
    assert!(host.has_left(opens), "the server's timer runs");
    assert_eq!(host.wire.last().map(|&(flow, _, window)| (flow, window)), Some((20, 0)));
    assert_eq!(host.split, [opens], "its grant waits");
    let asks = host.send(20, request(1));
    assert!(host.has_left(asks), "it overtakes nothing but a copy");
    let last = |host: &Host| host.wire.iter().rev().find(|&&(flow, ..)| flow == 20).map(|&(_, _, window)| window);
    assert_eq!(last(&host), Some(0));
    host.forgive(1);
    host.check_ledger();
    assert!(last(&host) > Some(0), "the copy has brought the window");
}

/// What the first flow owes over a path of that length, booked while the budget was `threshold`; and what may be triggered, with the
/// budget as it was, over a path of 1 ms, which holds 125 KB.
fn owed_and_room(rtt: Span, threshold: u64) -> (u64, u64) {
    let mut host = guard();
    for (flow, rtt) in [(0, rtt), (1, Span::millis(1))] {
        host.connect(flow);
        host.make_path(flow, rtt);
    }
    let budget = host.shim.gate().threshold.get();
    host.shim.gate().threshold.set(threshold);
    host.send(0, Segment { window: 60_000, ..request(1) });
    host.shim.gate().threshold.set(budget);
    let holds = host.booked_with(1);
    assert!((120_000..130_000).contains(&holds), "{holds}");
    let admits = |wire: &u64| host.admits(*wire, holds);
    let room = (0..=budget + holds).rev().find(admits).expect("nothing at all always fits");
    (host.owed(0), budget + holds - room)
}

#[test]
fn a_debt_counts_when_the_budget_has_moved_since() {
    let (owed, counted) = owed_and_room(Span::millis(1), 50_000);
    assert!(owed > 20_000, "{owed}");
    assert_eq!(counted, owed);
}

#[test]
fn of_a_longer_paths_debt_counts_what_is_due_within_the_flows_own_round_trip() {
    let (owed, counted) = owed_and_room(Span::millis(4), 67_500);
    assert!((owed / 4).abs_diff(counted) < owed / 50, "{counted} of {owed}");
    let (owed, counted) = owed_and_room(Span::micros(100), 67_500);
    assert_eq!(counted, owed, "all of a shorter one's");
}

/// A lone sender over a long path repairs a loss: what repeats the hole leaves the edge where it is, what acknowledges more moves it by
/// as much. Else the sender stops for a round trip, and then sends a whole window at once.
#[test]
fn a_partial_ack_moves_the_edge_of_a_long_path() {
    let mut host = guard();
    host.connect(0);
    host.make_far(0);
    host.send(0, request(1));
    let edge = |host: &Host| host.shim.state.flows[0].edge.get();
    let window = edge(&host) - 1;
    // The first of these frames is missing, and one of those that follow, too.
    for i in (1..40).filter(|i| *i != 20) {
        host.data(0, 1 + i * MSS, MSS);
        host.send(0, Segment { sack: true, ..pure_ack(1) });
    }
    assert_eq!(edge(&host), 1 + window, "duplicates");
    host.data(0, 1, MSS);
    host.send(0, Segment { sack: true, ..pure_ack(1 + 20 * MSS) });
    assert!(host.shim.flow(FlowId(0)).unwrap().flags.any(state::flag::RECOVERING), "one hole is left");
    let moved = edge(&host) - 1 - window;
    assert!((18 * MSS..=20 * MSS + 128).contains(&moved), "{moved}");
}

/// What the first of so many flows is granted, in segments, whose request brings as many as the last one.
fn granted(flows: u32, segments: u32, rtt: Span) -> u32 {
    granted_of_late(flows, flows, segments, rtt)
}

/// The same where so many were active of late.
fn granted_of_late(flows: u32, of_late: u32, segments: u32, rtt: Span) -> u32 {
    granted_by(&mut guard(), flows, of_late, segments, rtt)
}

fn granted_by(host: &mut Host, flows: u32, of_late: u32, segments: u32, rtt: Span) -> u32 {
    for flow in 0..flows {
        host.connect(flow);
        host.make_path(flow, rtt);
        host.shim.state.flows[flow as usize].last_response.set(segments * MSS);
    }
    let gate = host.shim.gate();
    gate.active.set(flows.into());
    gate.peak_active.set(of_late.into());
    gate.looked_back.set(host.now.0);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    host.shim.state.flows[0].edge.get() / MSS
}

#[test]
fn over_a_long_path_a_few_responses_are_granted_whole_where_what_shares_leave_of_them_fits() {
    assert_eq!(granted(2, 44, Span::micros(800)), 44, "a share is less");
    assert_eq!(granted(4, 44, Span::micros(1_500)), 44);
    assert!(granted(8, 44, Span::micros(1_500)) < 22, "what eight shares leave is more than the budget");
}

#[test]
fn a_few_responses_are_granted_whole_where_as_much_for_each_fits() {
    // 67.5 KB. A share is 13 segments, for the path holds 15 KB.
    let near = Span::micros(120);
    assert_eq!(granted(2, 21, near), 21, "a sender that is left alone with a share does not fill the link at once");
    assert_eq!(
        granted(2, 23, near),
        23,
        "two of them are no more than the budget and what the path holds: one waits for a moment"
    );
    assert!(granted(2, 30, near) < 15, "two of them are more");
    assert_eq!(granted(4, 10, near), 10);
    assert_eq!(granted_of_late(4, 64, 10, near), 10, "sixty more were active of late and are not now");
    let mut hurried = guard();
    hurried.shim.gate().own_timer.set(Span::millis(1).0);
    assert!(
        granted_by(&mut hurried, 4, 64, 10, near) < 8,
        "what sixty-four wait for each other may be longer than a timer"
    );
}

#[test]
fn where_timers_are_short_the_end_of_a_response_over_a_long_path_comes_in_shares() {
    let granted = |timer: Span| {
        let config = Config { rate_mbps: 1_000, own_timer: timer, ..Config::credit(96_000) };
        granted_by(&mut Host::new(config), 64, 64, 10, Span::millis(1))
    };
    assert_eq!(granted(Span::millis(200)), 10, "no more than a quarter of the budget: at once");
    assert_eq!(granted(Span::millis(5)), 2, "who has ended would wait for the others for longer than a timer");
    assert_eq!(granted(Span::millis(30)), 10, "ten segments from each take 8 ms");
}

#[test]
fn with_a_budget_that_nobody_gave_it_does_so_for_senders_that_have_answered_before() {
    let granted = |before: u32| {
        let config = Config { auto: true, rate_mbps: 1_000, own_timer: Span::millis(5), ..Config::credit(96_000) };
        let mut host = Host::new(config);
        let gate = host.shim.gate();
        gate.threshold.set(72_000);
        gate.change_budget(72_000);
        gate.usual_response.set(u64::from(10 * MSS));
        // The first would explore alone.
        gate.peak_active.set(64);
        gate.looked_back.set(host.now.0);
        granted_by(&mut host, 64, 64, before, Span::millis(1))
    };
    assert_eq!(granted(10), 2, "who has ended would wait for the others for longer than a timer");
    assert_eq!(granted(0), 10, "a new one begins with its initial window");
}

#[test]
fn a_path_that_holds_half_the_budget_has_room_of_its_own_where_flows_are_few() {
    for (flows, admitted) in [(2, true), (11, true), (12, false), (64, false)] {
        let host = guard();
        let gate = host.shim.gate();
        gate.peak_active.set(flows);
        let threshold = gate.threshold.get();
        let admits = |holds, beside| {
            gate.owed.set(threshold + beside);
            host.admits(1_000, holds)
        };
        assert_eq!(admits(threshold / 2 + 100, threshold / 2 - 1_000), admitted, "{flows}");
        assert_eq!(admits(threshold / 5 * 2, 0), admitted, "a part of it: {flows}");
        assert!(!admits(threshold / 3, 0) && admits(threshold, threshold - 1_000), "{flows}");
    }
}

#[test]
fn with_a_larger_budget_no_less_may_be_in_flight() {
    for holds in [20_000, 30_000, 60_000, 100_000] {
        let host = guard();
        let gate = host.shim.gate();
        gate.peak_active.set(1);
        let most = |threshold: u64| {
            gate.threshold.set(threshold);
            let admits = |owed| {
                gate.owed.set(owed);
                host.admits(100, holds)
            };
            (1..500).map(|owed| owed * 1_000).take_while(|&owed| admits(owed)).last().unwrap_or(0)
        };
        let found: Vec<u64> = (10..200).map(|budget| most(budget * 1_000)).collect();
        assert!(found.is_sorted(), "a path of {holds}: {found:?}");
        assert!(found[0] >= 9_000 && found[189] >= 198_000, "{found:?}");
    }
}

/// A flow over a path that holds five budgets, in the middle of a response without an end in sight, of which so many segments came in each
/// round trip, beside 31 that were active of late and are not now.
fn streaming(segments: u32) -> Host {
    let mut host = guard();
    host.connect(0);
    host.make_path(0, Span::millis(3));
    let flow = &host.shim.state.flows[0];
    flow.size.set(10_000_000);
    flow.streamed.set(segments * MSS);
    let gate = host.shim.gate();
    gate.largest_response.set(u64::from(2 * MSS));
    gate.peak_active.set(32);
    gate.looked_back.set(host.now.0);
    host
}

/// A segment comes and is acknowledged; how many segments the window has room for then.
fn answered(host: &mut Host) -> u32 {
    let next = host.shim.state.flows[0].ack_high.get();
    host.data(0, next, MSS);
    host.send(0, Segment { window: u16::MAX, ..pure_ack(next + MSS) });
    host.shim.state.flows[0].edge.get().wrapping_sub(next + MSS) / MSS
}

#[test]
fn a_stream_has_what_others_that_were_active_of_late_are_not_likely_to_need() {
    // A share of 32 is 8 segments or 9.
    assert!(answered(&mut streaming(0)) < 10, "nothing has been seen to come");
    let mut host = streaming(100);
    assert_eq!(answered(&mut host), 100);
    let owed = host.owed(0);
    assert!((100 * FRAME..=105 * FRAME).contains(&owed), "{owed}: all of it counts");
    host.check_ledger();
    // As much as all of them would be granted, if they were asked; small responses beside large ones tell nothing of these.
    for larger in [u64::from(40 * MSS), 0] {
        let mut host = streaming(100);
        host.shim.gate().largest_response.set(larger);
        host.shim.gate().usual_response.set(500);
        assert!(answered(&mut host) < 10, "{larger}");
    }
    // An end is in sight: a share as for everybody.
    let mut host = streaming(100);
    host.shim.state.flows[0].last_response.set(20_000_000);
    assert!(answered(&mut host) < 10);
}

#[test]
fn a_stream_nearby_has_what_others_leave_where_all_send_side_by_side() {
    let after = |active: u64| {
        let mut host = streaming(30);
        host.make_path(0, Span::micros(100));
        host.shim.gate().active.set(active);
        host.shim.gate().peak_active.set(active);
        answered(&mut host)
    };
    assert!((30..40).contains(&after(8)), "{}", after(8));
    assert!(after(20) < 15, "{}: they take turns", after(20));
}

#[test]
fn a_stream_leaves_to_others_what_they_bring_in_a_round_trip() {
    // Senders nearby owe little at any time, and bring much more over many short round trips.
    let stamped = |times, segment| Segment { timestamps: Some(times), ..segment };
    let after = |others: u32| {
        let mut host = streaming(100);
        host.connect(1);
        let next = host.shim.state.flows[0].ack_high.get();
        host.send(0, Segment { window: 0, ..stamped((10, 1), pure_ack(next)) });
        (0..others).for_each(|_| host.data(1, 1, MSS));
        host.wait(Span::millis(3));
        host.receive(0, stamped((2, 10), data(next, MSS)));
        host.send(0, Segment { window: u16::MAX, ..stamped((11, 2), pure_ack(next + MSS)) });
        host.shim.state.flows[0].edge.get().wrapping_sub(next + MSS) / MSS
    };
    assert_eq!(after(1), 100);
    assert!((10..100).contains(&after(200)), "{}", after(200));
    assert!(after(400) < 10, "{}", after(400));
}

#[test]
fn a_stream_that_loses_or_runs_dry_gives_back_what_it_had_beyond_its_share() {
    let mut host = streaming(100);
    let next = host.shim.state.flows[0].ack_high.get();
    host.data(0, next + MSS, MSS);
    host.send(0, Segment { sack: true, ..pure_ack(next) });
    assert_eq!(host.shim.state.flows[0].streamed.get(), 50 * MSS);
    let mut host = streaming(100);
    answered(&mut host);
    for _ in 0..40 {
        host.wait(Span::millis(1));
        answered(&mut host);
    }
    let (owed, streamed) = (host.owed(0), host.shim.state.flows[0].streamed.get());
    assert!(owed < 20 * FRAME && streamed < 20 * MSS, "{owed} owed, of {streamed} that came");
}

#[test]
fn a_connection_begins_without_what_came_over_an_earlier_one_in_its_entry() {
    let mut host = streaming(100);
    host.shim.state.flows[0].others.set(FRAME as u32);
    host.connect(0);
    let flow = &host.shim.state.flows[0];
    assert_eq!((flow.streamed.get(), flow.others.get()), (0, 0));
}

#[test]
fn a_handshake_that_waited_for_a_timer_is_corrected_by_a_shorter_round_trip() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    let stamped = |tsval: u32, tsecr: u32, segment: Segment| Segment { timestamps: Some((tsval, tsecr)), ..segment };
    let wscale = Some(7);
    host.send(0, stamped(1, 0, Segment { flags: Flags::SYN, mss: 1460, wscale, ..blank() }));
    host.wait(Span::millis(1_200));
    let accepts = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), mss: 1460, wscale, ..blank() };
    host.receive(0, stamped(1, 1, accepts));
    assert_eq!(host.shim.state.flows[0].rtt.get(), 1_000_000_000);
    host.send(0, stamped(1_300, 1, request(1)));
    host.wait(Span::millis(600));
    host.receive(0, stamped(2, 1_300, data(1, MSS)));
    assert_eq!(host.shim.state.flows[0].rtt.get(), 1_000_000_000, "that took long itself");
    host.send(0, stamped(1_305, 2, pure_ack(1 + MSS)));
    host.wait(Span::millis(3));
    host.receive(0, stamped(2, 1_305, data(1 + MSS, MSS)));
    assert_eq!(host.shim.state.flows[0].rtt.get(), 3_000_000);
    host.send(0, stamped(1_310, 2, pure_ack(1 + 2 * MSS)));
    host.wait(Span::millis(9));
    host.receive(0, stamped(3, 1_310, data(1 + 2 * MSS, MSS)));
    assert_eq!(host.shim.state.flows[0].rtt.get(), 3_000_000, "in that there may be a queue");
    host.send(0, stamped(1_320, 3, pure_ack(1 + 3 * MSS)));
    host.wait(Span::millis(1));
    host.receive(0, stamped(4, 1_320, data(1 + 3 * MSS, MSS)));
    assert_eq!(host.shim.state.flows[0].rtt.get(), 1_000_000, "once belied, it is corrected further");
}
