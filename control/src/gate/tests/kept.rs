//! Windows that senders have kept over long paths: what a request counts for that could let all of one go.

use super::paths::guard;
use super::*;

impl Host {
    /// The flow's sender, so far away, has answered with so many bytes, and may send a megabyte.
    fn leave_wide(&mut self, flow: u32, rtt: Span, response: u32) {
        self.connect(flow);
        self.make_path(flow, rtt);
        let flow = &self.shim.state.flows[flow as usize];
        flow.last_response.set(response);
        flow.edge.set(1_000_000);
    }
}

#[test]
fn a_request_keeps_the_pace_of_the_last_response_and_not_of_a_window_that_was_kept() {
    let mut host = guard();
    for flow in 0..2 {
        host.leave_wide(flow, Span::millis(20), 30_000);
    }
    for flow in 0..2 {
        let asks = host.send(flow, Segment { window: u16::MAX, ..request(1) });
        assert!(host.has_left(asks), "two responses of 30 KB do not stand before each other");
    }
}

#[test]
fn a_request_over_a_wide_window_keeps_the_pace_of_all_that_the_last_one_brought() {
    let mut host = guard();
    host.shim.state.gate.peak_active.set(16);
    for flow in 0..2 {
        host.leave_wide(flow, Span::millis(1), 64_000);
        // Every segment was acknowledged at once: no more was ever seen on its way.
        host.shim.state.flows[flow as usize].window.set(2 * MSS);
    }
    let [first, second] = [0, 1].map(|flow| host.send(flow, Segment { window: u16::MAX, ..request(1) }));
    assert!(host.has_left(first) && !host.has_left(second), "two responses of 64 KB are more than the budget");
    host.wait(Span::millis(1));
    assert!(host.has_left(second), "the link has carried one");
}

#[test]
fn where_all_responses_fit_a_window_that_was_left_wide_counts_no_more_than_the_response() {
    // As long as all windows of 128 KB fit they are TCP's own, those of 8 MB never do.
    for window in [1_000, u16::MAX] {
        let mut host = Host::new(Config { rate_mbps: 200, ..Config::credit(2_000_000) });
        for flow in 0..16 {
            host.leave_wide(flow, Span::millis(100), 64_000);
        }
        let gate = &host.shim.state.gate;
        gate.usual_response.set(64_000);
        gate.largest_response.set(64_000);
        let asked = (0..16).map(|flow| host.send(flow, Segment { window, ..request(1) })).collect::<Vec<_>>();
        assert!(asked.into_iter().all(|asks| host.has_left(asks)), "a window of {window}");
        let response = 64_000_u64.div_ceil(u64::from(MSS));
        assert_eq!(host.in_flight(), 16 * response * FRAME, "a window of {window}");
        host.wait(Span::millis(100));
        host.data(0, 1, MSS);
        host.send(0, Segment { window, ..pure_ack(1 + MSS) });
        assert_eq!(
            host.owed(0),
            (response - 1) * FRAME,
            "a window of {window}, one segment of whose response has come"
        );
    }
}

#[test]
fn under_pac_a_request_keeps_the_pace_of_the_window_that_its_sender_is_modelled_with() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::new(96_000) });
    host.shim.state.gate.peak_active.set(64);
    for flow in 0..8 {
        host.connect(flow);
        host.make_path(flow, Span::millis(20));
        host.shim.state.flows[flow as usize].last_response.set(64_000);
    }
    let asks: Vec<_> = (0..8).map(|flow| host.send(flow, Segment { window: u16::MAX, ..request(1) })).collect();
    let window = u64::from(host.shim.state.flows[0].window.get() / MSS);
    let left = asks.iter().filter(|packet| host.has_left(**packet)).count() as u64;
    let threshold = host.shim.gate().threshold.get();
    assert_eq!(
        left,
        threshold / (window * (FRAME + 24)),
        "senders begin with {window} segments each, and not with all of 64 KB"
    );
}
