//! What PAC's model makes of answers, and of senders that send less than it thinks.

use super::state::flag;
use super::*;

/// Segments of an answer.
const ANSWER: u32 = 20;

/// A flow that has answered once; of its second answer so many segments have come while the budget was full, and their ACKs wait.
fn with_acks_that_wait(config: Config, segments: u32) -> (Host, Vec<PacketId>) {
    let mut host = Host::new(config);
    host.connect(0);
    host.connect(1);
    host.send(0, request(1));
    for i in 0..ANSWER {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
    }
    host.wait(Span::millis(5));
    let begin = 1 + ANSWER * MSS;
    host.send(0, request(begin));
    for i in 0..segments {
        host.data(0, begin + i * MSS, MSS);
    }
    host.forget(0);
    host.fill(1);
    let acks = (1..=segments / 2).map(|i| host.ack(0, begin + 2 * i * MSS)).collect();
    (host, acks)
}

impl Host {
    /// The flow owes nothing any more.
    fn forget(&mut self, flow: usize) {
        decision::void(&self.shim.rules, &self.shim.state.gate, &self.shim.state.flows[flow]);
        self.poll();
    }
}

#[test]
fn what_leaves_before_a_request_sets_nothing_in_motion() {
    let (mut host, acks) = with_acks_that_wait(Config::new(96_000), ANSWER);
    assert!(!host.has_left(acks[0]), "the sender may have more");
    let next = host.send(0, request(1 + 2 * ANSWER * MSS));
    host.forget(1);
    host.wait(Span::ZERO);
    assert!(host.has_left(next) && acks.iter().all(|ack| host.has_left(*ack)));
    assert_eq!(host.in_flight(), u64::from(ANSWER) * FRAME, "the answer that is asked for, once");
    host.check_ledger();
}

#[test]
fn as_published_it_does_for_no_request_is_charged() {
    let (mut host, acks) = with_acks_that_wait(Config { requests: Requests::Ignore, ..Config::new(96_000) }, ANSWER);
    host.send(0, request(1 + 2 * ANSWER * MSS));
    host.forget(1);
    host.wait(Span::ZERO);
    assert!(acks.iter().all(|ack| host.has_left(*ack)));
    assert!(host.in_flight() >= u64::from(ANSWER) * FRAME, "Eq. 3: what each acknowledges, {}", host.in_flight());
}

#[test]
fn what_acknowledges_a_part_of_an_answer_sets_the_rest_in_motion() {
    let (mut host, acks) = with_acks_that_wait(Config::new(96_000), ANSWER / 2);
    host.forget(1);
    host.wait(Span::ZERO);
    assert!(acks.iter().all(|ack| host.has_left(*ack)));
    assert_eq!(host.in_flight(), u64::from(ANSWER / 2) * FRAME, "the rest of the answer");
}

/// Segments of the window in the model of a flow that was charged for `charged` and sent `came`, whose ACK then waited behind others' until it had
/// been silent for so long that it left; and whether it is modelled in congestion avoidance. It has `answered` before or not.
fn after_silence(answered: bool, charged: u32, came: u32) -> (u32, bool) {
    let mut host = Host::new(Config::new(96_000));
    host.connect(0);
    host.connect(1);
    let mut seq = 1;
    if answered {
        host.send(0, request(seq));
        for _ in 0..40 {
            host.data(0, seq, MSS);
            seq += MSS;
            host.ack(0, seq);
        }
        host.wait(Span::millis(5));
    }
    host.shim.state.flows[0].window.set(charged * MSS);
    host.shim.state.flows[0].flags.lower(flag::AVOIDANCE);
    host.send(0, request(seq));
    for i in 0..came {
        host.data(0, seq + i * MSS, MSS);
    }
    host.fill(1);
    let ack = host.ack(0, seq + came * MSS);
    assert!(!host.has_left(ack), "it has a price, and there is no room");
    host.wait(Span::millis(40));
    host.check_ledger();
    let flow = &host.shim.state.flows[0];
    (flow.window.get() / MSS, flow.flags.any(flag::AVOIDANCE))
}

#[test]
fn in_its_first_answer_a_sender_has_the_window_that_it_has_sent() {
    for (charged, came) in [(30, 2), (12, 8), (9, 8)] {
        let (window, avoidance) = after_silence(false, charged, came);
        assert_eq!(window, 2 * came, "{charged} charged, {came} came, and as much is acknowledged");
        assert!(!avoidance, "{charged} charged, {came} came: in slow start still");
    }
}

#[test]
fn one_that_has_answered_and_sends_much_less_than_was_charged_is_in_congestion_avoidance() {
    for (charged, came) in [(30, 2), (24, 16)] {
        let (window, avoidance) = after_silence(true, charged, came);
        assert!(avoidance && window <= came + 1, "{charged} charged, {came} came: {window}");
    }
    for (charged, came) in [(9, 7), (8, 6)] {
        let (window, avoidance) = after_silence(true, charged, came);
        assert!(!avoidance, "{charged} charged, {came} came");
        assert_eq!(window, charged + came, "the rest may be late, and as much as came is acknowledged");
    }
}

/// A flow that has sent eight segments and owes so many frames besides, while their ACK waits behind others', has been silent for long: segments
/// of its model's window, of twenty before, and whether it is in congestion avoidance.
fn in_debt(config: Config, last_response: u32, frames: u32) -> (u32, bool) {
    let mut host = Host::new(config);
    host.connect(0);
    host.connect(1);
    for i in 0..8 {
        host.data(0, 1 + i * MSS, MSS);
    }
    host.shim.state.flows[0].window.set(20 * MSS);
    host.shim.state.flows[0].last_response.set(last_response);
    host.owe(0, frames * FRAME as u32);
    host.fill(1);
    let ack = host.ack(0, 1 + 8 * MSS);
    assert!(!host.has_left(ack));
    let (rules, gate, flow) = (&host.shim.rules, host.shim.gate(), &host.shim.state.flows[0]);
    assert!(decision::void_if_silent(rules, gate, flow, host.now + Span::millis(40)));
    (flow.window.get() / MSS, flow.flags.any(flag::AVOIDANCE))
}

#[test]
fn what_was_seen_in_flight_is_in_the_window_however_much_is_owed() {
    let (window, avoidance) = in_debt(Config::new(96_000), 40 * MSS, 19);
    assert!(window == 8 && avoidance, "{window}");
}

#[test]
fn as_published_a_silent_flow_keeps_its_window_and_its_phase() {
    for last_response in [0, 40 * MSS] {
        let published = Config { requests: Requests::Ignore, ..Config::new(96_000) };
        let (window, avoidance) = in_debt(published, last_response, 12);
        assert!(window == 20 && !avoidance, "{window}");
    }
}
