//! Exact credit (`core/credit.h`): what a grant costs and says, what waits for it, and when a response is over.

use super::*;

/// Unit of the window field.
const UNIT: u32 = 128;
/// What exact credit begins with in front of a port of 128 KB.
const BUDGET: u64 = 90_000;

fn guard() -> Host {
    Host::new(Config::credit(128_000))
}

impl Host {
    /// Window that the last packet of the flow brought, in bytes.
    pub(super) fn told(&self, flow: u32) -> u32 {
        let &(_, _, field) = self.wire.iter().rev().find(|&&(of, _, _)| of == flow).unwrap();
        u32::from(field) * UNIT
    }

    pub(super) fn owed(&self, flow: u32) -> u64 {
        u64::from(self.shim.state.flows[flow as usize].owed.get())
    }

    /// The flow's debt is void.
    pub(super) fn forgive(&mut self, flow: u32) {
        decision::void(&self.shim.rules, &self.shim.state.gate, &self.shim.state.flows[flow as usize]);
        self.poll();
    }

    /// A response that ends with a PSH, every segment acknowledged.
    fn respond(&mut self, flow: u32, from: u32, segments: u32) {
        for i in 0..segments {
            let push = if i + 1 == segments { Flags::PSH } else { Flags(0) };
            let segment = data(from + i * MSS, MSS);
            self.receive(flow, Segment { flags: segment.flags | push, ..segment });
            self.ack(flow, from + (i + 1) * MSS);
        }
    }
}

#[test]
fn a_lone_flow_is_granted_the_budget_and_no_more_than_tcp_offers() {
    let mut host = guard();
    host.connect(0);
    host.send(0, request(1));
    let all = (BUDGET * u64::from(MSS) / FRAME) as u32 / MSS * MSS;
    assert_eq!(host.told(0), all.next_multiple_of(UNIT));
    assert_eq!(host.in_flight(), host.owed(0));
    assert!(host.in_flight() <= BUDGET + u64::from(UNIT));
    host.data(0, 1, MSS);
    host.send(0, Segment { window: 30, ..pure_ack(1 + MSS) });
    assert!(host.told(0) <= all.next_multiple_of(UNIT) - MSS, "the edge stays where it was: TCP offers less");
}

#[test]
fn a_push_where_the_window_had_no_room_for_more_ends_no_response() {
    // Among so many a window that is left closed stays closed until the sender probes it, 200 ms later.
    let mut host = guard();
    host.connect(0);
    host.shim.state.flows[0].last_response.set(200 * MSS);
    host.shim.gate().peak_active.set(100_000);
    host.shim.gate().looked_back.set(host.now.0);
    host.send(0, request(1));
    let window = host.told(0) / MSS * MSS;
    host.data(0, 1, window - MSS);
    let last = data(1 + window - MSS, MSS);
    host.receive(0, Segment { flags: last.flags | Flags::PSH, ..last });
    host.ack(0, 1 + window);
    host.poll();
    assert!(host.told(0) >= MSS, "{window} of {} bytes have come, and {} more may", 200 * MSS, host.told(0));
}

#[test]
fn marks_that_lower_the_threshold_make_no_silence_shorter() {
    // What left before they came may still stand in the queue.
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(1_000_000) });
    host.connect(0);
    let gate = host.shim.gate();
    let silent_at = || decision::silent_at(&host.shim.rules, gate, &host.shim.state.flows[0]);
    let before = silent_at();
    gate.threshold.set(gate.cap.get() / 8);
    assert_eq!(silent_at(), before);
}

/// Receives and acknowledges so many segments of a connection in mid-stream; the edges that its peer was told, and the last window.
fn go_on(host: &mut Host, from: u32, segments: u32) -> (Vec<u32>, u32) {
    let edges = (from..from + segments).map(|i| {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
        host.poll();
        host.wire.last().unwrap().1 + host.told(0)
    });
    (edges.collect(), host.told(0))
}

#[test]
fn a_connection_older_than_the_guard_is_governed_once_somebody_tells_its_scale() {
    let mut host = guard();
    let offered = 1000 * UNIT;
    let (before, last) = go_on(&mut host, 0, 10);
    assert_eq!(last, offered, "its windows are TCP's own");
    let flow = |host: &Host| host.shim.state.flows[0].scale.get();
    let rtt = Some(Span::micros(120));
    let tell = |host: &Host, scale| {
        decision::tell_handshake(&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0], scale, rtt)
    };
    assert!(tell(&host, 3));
    decision::untell_scale(&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0], 3);
    assert_eq!(flow(&host), 0, "taken back");
    assert!(tell(&host, 7));
    let (after, last) = go_on(&mut host, 10, 100);
    assert!(before.iter().chain(&after).is_sorted(), "no edge moves back");
    assert!(last < offered && last <= BUDGET as u32, "{last}");
    assert_eq!((flow(&host), host.shim.state.flows[0].rtt.get()), (7, 120_000));
    assert!(!tell(&host, 3), "it is known");
    host.check_ledger();
}

#[test]
fn an_ack_without_a_grant_leaves_at_once_and_its_copy_brings_the_window() {
    let mut host = guard();
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.fill(1);
    let ack = host.ack(0, 1 + 2 * MSS);
    assert!(host.has_left(ack), "the sender's timer is to stop");
    assert!(host.told(0) < UNIT + 2 * MSS, "with the edge where it was");
    assert_eq!(host.shim.held(), 1);
    // A repeated segment is answered beside the copy.
    host.data(0, 1 + MSS, MSS);
    let repeat = host.ack(0, 1 + 2 * MSS);
    assert!(host.has_left(repeat));
    assert_eq!(host.shim.held(), 1);
    host.forgive(1);
    assert_eq!(host.shim.held(), 0);
    assert!(host.told(0) > 10 * MSS, "the copy brings the share");
    host.check_ledger();
}

#[test]
fn a_copy_speaks_for_the_flow_as_it_stands_when_it_leaves() {
    let mut host = guard();
    host.connect(0);
    host.connect(1);
    // Room for one segment and a bit is left: not enough to go on.
    for i in 0..3 {
        host.data(0, 1 + i * MSS, MSS);
    }
    host.fill(1);
    let stamped = |ack, seq, times| Segment { timestamps: Some(times), seq: SeqNumber(seq), ..pure_ack(ack) };
    host.send(0, stamped(1 + 2 * MSS, 500, (7, 3)));
    host.send(0, stamped(1 + 3 * MSS, 600, (9, 5)));
    let mut last = None;
    host.shim.state.flows[1].owed.take();
    host.shim.state.gate.owed.set(host.owed(0));
    while let Some(action) = host.shim.poll_action(host.now) {
        last = Some(action);
    }
    let Some(Action::Split(_, edit)) = last else { panic!("{last:?}") };
    let position = Position { seq: SeqNumber(600), ack: SeqNumber(1 + 3 * MSS), timestamps: (9, 5) };
    assert_eq!(edit.position, Some(position));
}

#[test]
fn a_copy_waits_no_longer_than_anything_else() {
    // So short that the budget is not found to be too small meanwhile.
    let mut host = Host::new(Config { max_hold: Span::millis(1), ..Config::credit(128_000) });
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.fill(1);
    // The debtor is never taken to be silent.
    host.shim.state.flows[1].last_active.set(u64::MAX / 2);
    host.ack(0, 1 + 2 * MSS);
    host.wait(Span::micros(999));
    assert_eq!((host.shim.held(), host.told(0) / MSS), (1, 0));
    host.wait(Span::micros(1));
    assert_eq!(host.shim.held(), 0);
    assert!(host.told(0) >= 2 * MSS);
}

#[test]
fn a_window_update_that_nothing_comes_of_is_sent_once_more() {
    for answered in [false, true] {
        let mut host = guard();
        host.connect(0);
        host.connect(1);
        host.data(0, 1, MSS);
        host.data(0, 1 + MSS, MSS);
        host.fill(1);
        host.ack(0, 1 + 2 * MSS);
        host.forgive(1);
        let updates = host.wire.len();
        if answered {
            host.data(0, 1 + 2 * MSS, MSS);
        }
        for _ in 0..20 {
            host.wait(Span::millis(1));
        }
        assert_eq!(host.wire.len() - updates, usize::from(!answered), "answered: {answered}");
        assert!(host.told(0) > 10 * MSS);
        assert!(host.split.is_empty(), "nothing is kept any longer");
    }
}

#[test]
fn nothing_is_repeated_on_a_connection_that_was_reset() {
    let mut host = guard();
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.fill(1);
    host.ack(0, 1 + 2 * MSS);
    host.forgive(1);
    let updates = host.wire.len();
    host.receive(0, Segment { flags: Flags::RST, seq: SeqNumber(1 + 2 * MSS), ..blank() });
    for _ in 0..20 {
        host.wait(Span::millis(1));
    }
    assert_eq!(host.wire.len(), updates);
    assert!(host.split.is_empty(), "nothing is kept any longer");
}

#[test]
fn a_grant_ends_where_the_response_is_expected_to() {
    let mut host = guard();
    host.connect(0);
    host.shim.state.flows[0].last_response.set(5 * MSS);
    host.send(0, request(1));
    assert_eq!(host.told(0), (5 * MSS).next_multiple_of(UNIT), "as long as the last one");
    host.receive(0, Segment { frames: 5, ..data(1, 5 * MSS) });
    host.ack(0, 1 + 5 * MSS);
    assert!(host.told(0) > 10 * MSS, "without a PSH there it is longer: a share again");
}

#[test]
fn a_first_response_is_believed_to_end_where_others_did() {
    let mut host = guard();
    for flow in 0..3 {
        host.connect(flow);
    }
    host.send(0, request(1));
    host.respond(0, 1, 5);
    assert!(host.owed(0) > 0, "a PSH alone proves nothing");
    host.wait(Span::millis(20));
    host.fill(2);
    host.forgive(2);
    host.send(0, request(1 + 5 * MSS));
    host.forgive(0);
    host.send(1, request(1));
    host.respond(1, 1, 4);
    assert!(host.owed(1) > 0);
    host.respond(1, 1 + 4 * MSS, 1);
    assert_eq!(host.owed(1), 0, "five segments, like the other flow's");
    host.check_ledger();
}

#[test]
fn a_push_at_the_edge_is_no_sign_of_the_end() {
    let mut host = guard();
    host.connect(0);
    host.send(0, request(1));
    let burst = host.told(0) / MSS;
    let push = Flags::ACK | Flags::PSH;
    host.receive(0, Segment { frames: burst as u16, flags: push, ..data(1, burst * MSS) });
    host.ack(0, 1 + burst * MSS);
    assert!(!host.shim.state.flows[0].flags.any(state::flag::STOPPED), "it stopped because it had to");
    assert!(host.told(0) > 10 * MSS, "and is granted a share");
}

#[test]
fn eight_flows_send_side_by_side() {
    let mut host = guard();
    for flow in 0..8 {
        host.connect(flow);
    }
    for flow in 0..8 {
        host.send(flow, request(1));
    }
    // The first were alone, and had more. A round trip later all are even.
    for i in 0..40 {
        for flow in 0..8 {
            host.data(flow, 1 + i * MSS, MSS);
            host.ack(flow, 1 + (i + 1) * MSS);
        }
    }
    assert_eq!(host.shim.held(), 0, "nobody waits");
    let threshold = host.shim.gate().threshold.get();
    let share = (threshold / 8 * u64::from(MSS) / FRAME) as u32 / MSS * MSS;
    let open = |flow: usize| host.shim.state.flows[flow].edge.get() - host.shim.state.flows[flow].received.get();
    assert!((0..8).all(|flow| (share - 2 * MSS..=share + 3 * MSS).contains(&open(flow))), "{:?}", [0, 7].map(open));
    host.check_ledger();
}

#[test]
fn side_by_side_nobody_gets_what_would_only_stand_in_the_queue() {
    // What hides the hosts' delays: 200 us of the link, or four frames for each.
    for (rate_mbps, segments) in [(0, 22), (1_000, 12), (100, 4)] {
        let mut host = Host::new(Config { rate_mbps, ..Config::credit(96_000) });
        host.connect(0);
        host.connect(1);
        host.send(0, request(1));
        host.send(1, request(1));
        assert_eq!(host.told(1), (segments * MSS).next_multiple_of(UNIT), "{rate_mbps} Mb/s");
    }
}

/// So many flows have each sent aggregates of so many segments, and been acknowledged. Returns what the last one was told.
fn streams(config: Config, flows: u32, segments: u32) -> (Host, u32) {
    let mut host = Host::new(config);
    for flow in 0..flows {
        host.connect(flow);
    }
    for flow in 0..flows {
        host.send(flow, request(1));
    }
    let aggregate = segments * MSS;
    for i in 0..8 {
        for flow in 0..flows {
            host.receive(flow, Segment { frames: segments as u16, ..data(1 + i * aggregate, aggregate) });
            host.ack(flow, 1 + (i + 1) * aggregate);
        }
    }
    let told = host.told(flows - 1);
    (host, told)
}

#[test]
fn on_a_fast_link_each_of_many_flows_may_fill_two_aggregates() {
    // 64 flows share the budget of 2.8 MB; what hides the hosts' delays at 20 Gb/s is 750 KB.
    let deep = |rate_mbps| Config { rate_mbps, ..Config::credit(4_000_000) };
    let (host, told) = streams(deep(20_000), 64, 20);
    assert!(told >= 25 * MSS, "{told}");
    host.check_ledger();
    // At 1 Gb/s four frames keep a flow going.
    assert!(streams(deep(1_000), 64, 2).1 <= 6 * MSS);
}

#[test]
fn an_unknown_buffer_is_looked_for_although_nothing_is_held() {
    let timeout = |auto| {
        let mut host = Host::new(Config { auto, rate_mbps: 1_000, ..Config::credit(96_000) });
        host.shim.gate().active.set(2);
        host.shim.gate().offered.set(1_000_000);
        host.wait(Span::millis(1));
        host.shim.poll_timeout()
    };
    assert!(timeout(true).is_some() && timeout(false).is_none());
}

#[test]
fn a_request_among_many_brings_the_least_grant() {
    let mut host = guard();
    for flow in 0..24 {
        host.connect(flow);
    }
    for flow in 0..24 {
        host.send(flow, request(1));
    }
    assert_eq!(host.told(23), (2 * MSS).next_multiple_of(UNIT), "the share follows with the first data");
}

#[test]
fn among_many_an_upload_brings_the_least_grant_too_whatever_had_waited_before() {
    const LEAST: u32 = (2 * MSS).next_multiple_of(UNIT);
    const END: u32 = 1 + 2 * MSS;
    let mut host = guard();
    host.shim.gate().largest_response.set(u64::from(20 * MSS));
    for flow in 0..24 {
        host.connect(flow);
    }
    for flow in 0..24 {
        host.send(flow, request(1));
    }
    host.receive(0, Segment { frames: 2, ..data(1, 2 * MSS) });
    // There is no room yet for the grant that brings what follows; a last small segment needs none.
    host.fill(23);
    host.ack(0, END);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(END, 40) });
    assert_eq!(host.shim.held(), 1);
    let upload = Segment { payload: 3 * MSS, frames: 3, ..request(END + 40) };
    host.send(0, upload);
    host.shim.state.flows[0].last_response.set(20 * MSS);
    host.forgive(23);
    for flow in 1..12 {
        host.receive(flow, Segment { frames: 2, ..data(1, 2 * MSS) });
    }
    assert_eq!((host.shim.held(), host.told(0)), (0, LEAST), "its server has not begun to answer");
}

#[test]
fn a_turn_of_the_least_grants_takes_no_longer_than_anything_is_held() {
    for (senders, segments) in [(64, 2), (3_000, 2), (10_000, 1)] {
        let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
        host.shim.state.gate.active.set(senders);
        host.shim.state.gate.peak_active.set(senders);
        host.shim.state.gate.looked_back.set(host.now.0);
        host.connect(0);
        host.send(0, request(1));
        assert_eq!(host.told(0), (segments * MSS).next_multiple_of(UNIT), "{senders}");
    }
}

#[test]
fn the_last_flows_of_many_get_no_larger_grants_than_the_first() {
    let mut host = guard();
    host.connect(0);
    host.shim.state.gate.peak_active.set(1000);
    host.shim.state.gate.looked_back.set(host.now.0);
    host.send(0, request(1));
    // A turn of a thousand flows may take 64 budgets.
    let share = (BUDGET / (1000 / 64) * u64::from(MSS) / FRAME) as u32 / MSS * MSS;
    assert_eq!(host.told(0), share.next_multiple_of(UNIT));
    host.wait(Span::secs(2));
    host.receive(0, data(1, MSS));
    assert!(host.shim.state.gate.peak_active.get() <= 1, "a second later nobody remembers");
}

#[test]
fn among_very_many_a_response_ends_with_the_window_closed() {
    for (active, left_open) in [(1, 2 * MSS), (10_000, 0)] {
        let mut host = guard();
        // Windows that do not fit, or nothing would be lowered.
        host.shim.state.gate.offered.set(1 << 20);
        host.connect(0);
        host.shim.state.gate.peak_active.set(active);
        host.shim.state.gate.looked_back.set(host.now.0);
        host.shim.state.flows[0].last_response.set(5 * MSS);
        host.send(0, request(1));
        host.respond(0, 1, 5);
        assert!(host.told(0) >= left_open && host.told(0) < left_open + MSS, "{} of {active}", host.told(0));
    }
}

#[test]
fn where_responses_differ_no_sender_is_left_with_less_than_a_segment() {
    // How long this flow's last response was and the one that ended last, of any flow, and what is left open of 4 segments
    // and 288 bytes after four.
    let most = 4 * MSS + 288;
    for (active, last, usual, left_open) in
        [(100, most, most, 2 * MSS), (10_000, most, 5 * MSS, MSS), (10_000, 0, most, 288), (10_000, most, most, 288)]
    {
        let mut host = guard();
        host.shim.state.gate.offered.set(1 << 20);
        host.connect(0);
        host.shim.state.gate.peak_active.set(active);
        host.shim.state.gate.looked_back.set(host.now.0);
        host.shim.state.flows[0].last_response.set(last);
        host.shim.state.gate.usual_response.set(u64::from(usual));
        host.send(0, request(1));
        for segment in 0..4 {
            host.data(0, 1 + segment * MSS, MSS);
            host.ack(0, 1 + (segment + 1) * MSS);
        }
        let told = host.told(0);
        assert!((left_open..left_open + 2 * UNIT).contains(&told), "{told} among {active}, the usual one has {usual}");
    }
}

#[test]
fn what_was_asked_for_is_waited_for_as_long_as_responses_take() {
    let mut host = guard();
    host.connect(0);
    host.connect(1);
    host.send(0, request(1));
    host.wait(Span::millis(8));
    host.data(0, 1, MSS);
    assert_eq!(host.shim.gate().response_delay.get(), 8_000_000);
    host.send(1, request(1));
    let owed = host.owed(1);
    host.data(0, 1 + MSS, MSS);
    host.fill(0);
    let silent = |host: &Host| decision::silent_at(&host.shim.rules, host.shim.gate(), &host.shim.state.flows[1]);
    assert!(silent(&host) >= host.now + Span::millis(16), "twice as long");
    host.now = silent(&host) + Span::millis(1);
    assert!(
        decision::void_if_silent(&host.shim.rules, host.shim.gate(), &host.shim.state.flows[1], host.now) && owed > 0
    );
}

#[test]
fn a_request_takes_room_that_there_is_while_the_scheduler_has_not_come() {
    let mut host = guard();
    for flow in 0..24 {
        host.connect(flow);
    }
    // So many that a request brings the least grant.
    for flow in 3..23 {
        host.send(flow, request(1));
    }
    host.fill(23);
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.ack(0, 1 + 2 * MSS);
    assert_eq!(host.shim.held(), 1, "the copy waits for its grant");
    let asks = |host: &mut Host, flow: u32| {
        let packet = PacketId(host.next);
        host.next += 1;
        host.sent.push((flow, request(1)));
        host.shim.handle_egress(host.now, FlowId(flow), &request(1), packet)
    };
    // Room for the request, not for the copy, whose turn it is.
    host.receive(23, Segment { frames: 4, ..data(1, 4 * MSS) });
    assert!(matches!(asks(&mut host, 1), Verdict::Hold));
    // Room for both; the scheduler is called, and does not come.
    host.shim.handle_ingress(host.now, FlowId(23), &Segment { frames: 40, ..data(1 + 4 * MSS, 40 * MSS) });
    assert!(matches!(asks(&mut host, 2), Verdict::Pass(_)));
    host.poll();
    assert_eq!(host.shim.held(), 0, "what waited leaves when it comes");
    host.check_ledger();
}

#[test]
fn a_request_that_has_waited_long_goes_before_acks() {
    let mut host = guard();
    for flow in 0..3 {
        host.connect(flow);
    }
    host.fill(2);
    host.shim.state.flows[2].last_active.set(u64::MAX / 2);
    // Both wait in the first level, the ACK's copy for longer.
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.ack(0, 1 + 2 * MSS);
    let asked = host.send(1, request(1));
    assert!(!host.has_left(asked));
    host.wait(Span::millis(38));
    let before = host.wire.len();
    host.receive(2, Segment { frames: 40, ..data(1, 40 * MSS) });
    let order: Vec<u32> = host.wire[before..].iter().map(|&(flow, _, _)| flow).collect();
    assert_eq!(order, [1, 0], "a quarter of the limit has passed");
}

#[test]
fn at_the_end_of_a_response_a_wide_window_costs_no_more_than_what_is_still_to_come() {
    let mut host = Host::new(Config { auto: true, rate_mbps: 1_000, ..Config::credit(96_000) });
    for flow in 0..3 {
        host.connect(flow);
        host.send(flow, request(1));
    }
    let flow = &host.shim.state.flows[0];
    // Kept from when it was alone.
    flow.edge.set(1_000_000);
    flow.last_response.set(44 * MSS);
    let mut costs = Vec::new();
    for seq in (1..40 * MSS).step_by(MSS as usize) {
        host.data(0, seq, MSS);
        host.ack(0, seq + MSS);
        costs.push(host.owed(0));
    }
    let share = host.shim.gate().threshold.get() / 4;
    assert!(costs[20] > 2 * share, "in the middle as much as it has been seen to use, twice: {costs:?}");
    assert!(costs[39] <= share.max(6 * u64::from(MSS)), "four segments are to come: {costs:?}");
}

/// A guard that does not know the buffer, and what it begins with.
fn explorer() -> (Host, u32) {
    let host = Host::new(Config { auto: true, rate_mbps: 1_000, ..Config::credit(96_000) });
    let share = (host.shim.gate().threshold.get() * u64::from(MSS) / FRAME) as u32 / MSS * MSS;
    (host, share)
}

#[test]
fn a_lone_flow_that_explores_is_granted_as_much_again_as_has_come_and_a_share() {
    let (mut host, share) = explorer();
    host.connect(0);
    host.send(0, Segment { window: u16::MAX, ..request(1) });
    for i in 1..200 {
        let end = 1 + i * MSS;
        host.data(0, end - MSS, MSS);
        host.send(0, Segment { window: u16::MAX, ..pure_ack(end) });
        let granted = host.shim.state.flows[0].edge.get() - end;
        let slow_start = i * MSS + share;
        assert!((slow_start..=slow_start + UNIT).contains(&granted), "{i} segments have come: {granted}");
    }
    assert_eq!(host.shim.held(), 0);
}

#[test]
fn what_a_lone_flow_keeps_is_no_more_than_a_share_once_its_responses_are_known() {
    let (mut host, share) = explorer();
    host.connect(0);
    let mut seq = 1;
    for response in 0..3 {
        host.wait(Span::millis(10));
        host.send(0, Segment { window: u16::MAX, ..request(seq) });
        assert!(response == 0 || host.shim.state.flows[0].edge.get() >= seq + 64 * MSS, "all of the response at once");
        host.respond(0, seq, 64);
        seq += 64 * MSS;
    }
    let kept = host.shim.state.flows[0].edge.get() - seq;
    assert!(kept <= share + UNIT, "{kept}");
}

#[test]
fn the_first_of_a_few_that_are_asked_leaves_room_for_the_others() {
    let granted = |peak| {
        let mut host = Host::new(Config { auto: true, rate_mbps: 500, ..Config::credit(96_000) });
        host.shim.state.gate.peak_active.set(peak);
        host.shim.state.gate.looked_back.set(host.now.0);
        host.connect(0);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        (host.shim.state.flows[0].edge.get() - 1, host.shim.gate().threshold.get())
    };
    let (part, budget) = granted(2);
    assert!(u64::from(part) <= budget / 2 + u64::from(UNIT), "{part} of {budget}");
    let (all, _) = granted(1);
    assert!(u64::from(all) > budget * 3 / 4, "{all} of {budget} where no other was active of late");
}

#[test]
fn a_flow_that_was_given_up_and_goes_on_is_not_granted_all_that_tcp_offers() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) });
    for flow in 0..8 {
        host.connect(flow);
        host.send(flow, Segment { window: u16::MAX, ..request(1) });
    }
    // The first segment is lost, and all fall silent.
    host.data(0, 1 + MSS, MSS);
    for _ in 0..10 {
        host.wait(Span::millis(100));
    }
    assert_eq!(host.shim.gate().active.get(), 0);
    host.data(0, 1, MSS);
    host.send(0, Segment { window: u16::MAX, ..pure_ack(1 + 2 * MSS) });
    let granted = host.shim.state.flows[0].edge.get() - (1 + 2 * MSS);
    assert!(granted <= 96_000, "{granted}");
}
