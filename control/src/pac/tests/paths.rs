//! Paths of different lengths behind one port: how a path's length shows, and who waits for whom.

use super::*;

/// Exact credit at 1 Gb/s in front of 96 KB.
fn guard() -> Host {
    Host::new(Config { rate_mbps: 1_000, ..Config::credit(96_000) })
}

impl Host {
    /// The flow's path is known to take 20 ms: it holds 2.5 MB.
    fn make_far(&self, flow: u32) {
        let flow = &self.pac.state.flows[flow as usize];
        flow.least_rtt.set(20_000_000);
        flow.rtt.set(20_000_000);
        flow.samples.set(8);
    }

    fn least_rtt(&self, flow: u32) -> u64 {
        u64::from(self.pac.state.flows[flow as usize].least_rtt.get())
    }

    fn by_path(&self) -> Vec<u64> {
        self.pac.gate().owed_by_path.iter().map(|cell| cell.get()).collect()
    }
}

#[test]
fn a_sender_that_had_used_up_its_window_shows_its_round_trip_when_it_goes_on() {
    let mut host = guard();
    for flow in 0..3 {
        host.connect(flow);
        // Windows that do not fit, or nothing would be lowered.
        host.send(flow, request(1));
    }
    let edge = host.pac.state.flows[0].edge.get();
    // No timestamps. All that was granted arrives, and the last ACK grants more.
    for seq in (1..edge).step_by(MSS as usize) {
        host.data(0, seq, MSS.min(edge - seq));
    }
    host.ack(0, edge);
    let granted = host.now;
    assert!(host.pac.state.flows[0].edge.get() > edge);
    host.now += Span::millis(20);
    host.pac.state.flows[0].least_rtt.set(0);
    host.data(0, edge, MSS);
    let sample = host.least_rtt(0);
    assert!(sample.abs_diff(host.now.0 - granted.0) < 3_000, "{sample} ns");
    // What follows in the stream answers nothing.
    host.now += Span::millis(7);
    host.pac.state.flows[0].least_rtt.set(0);
    host.data(0, edge + MSS, MSS);
    assert_eq!(host.least_rtt(0), 0);
}

#[test]
fn what_can_go_on_by_itself_shows_no_round_trip() {
    let mut host = guard();
    host.connect(0);
    host.send(0, request(1));
    host.pac.state.flows[0].let_go.set(0);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    host.now += Span::millis(20);
    host.pac.state.flows[0].least_rtt.set(0);
    host.data(0, 1 + MSS, MSS);
    assert_eq!(host.least_rtt(0), 0, "its window was not used up");
}

#[test]
fn a_flow_far_away_does_not_queue_behind_flows_nearby() {
    let mut host = guard();
    for flow in 0..14 {
        host.connect(flow);
    }
    for flow in 1..12 {
        host.send(flow, request(1));
    }
    host.fill(1);
    let near = host.send(12, request(1));
    assert!(!host.has_left(near), "no room on short paths");
    host.make_far(13);
    let far = host.send(13, request(1));
    assert!(host.has_left(far), "room of its own on the long path");
    host.check_ledger();
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
    let edge = host.pac.state.flows[0].edge.get();
    for seq in (1..edge - 4 * MSS).step_by(MSS as usize) {
        host.data(0, seq, MSS);
    }
    host.make_far(0);
    let received = host.pac.state.flows[0].received.get();
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
    host.pac.state.gate.owed_by_path[0].set(50_000);
    assert!(decision::admits(&host.pac.rules, host.pac.gate(), 1_000_000, 0), "nothing is in flight");
    for i in 0..4 {
        host.data(0, 1 + i * 100, 100);
        host.forgive(0);
        host.wait(Span::millis(5));
    }
    host.check_ledger();
    assert_eq!(host.by_path(), [0; 16]);
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
    let spared = host.pac.gate().threshold.get() / 8;
    host.pac.state.flows[1].owed.add(spared as u32);
    host.pac.state.gate.owed.add(spared);
    host.pac.state.gate.owed_by_path[0].add(spared);
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

#[test]
fn one_far_flow_may_have_what_its_path_holds_from_its_first_request_on() {
    let mut host = guard();
    let wscale = Some(7);
    host.send(0, Segment { flags: Flags::SYN, mss: 1460, wscale, ..blank() });
    host.wait(Span::millis(20));
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale, ..blank() });
    host.ack(0, 1);
    host.wait(Span::millis(10));
    let asks = host.send(0, Segment { window: u16::MAX, ..request(1) });
    assert!(host.has_left(asks));
    let flow = &host.pac.state.flows[0];
    assert!(decision::pipe_of(&host.pac.rules, host.pac.gate(), flow) > 2_000_000, "{flow:?}");
    let granted = flow.edge.get() - 1;
    assert!(granted > 2_000_000, "{granted}");
}
