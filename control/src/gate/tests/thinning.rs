//! ACKs that exact credit leaves out (`core/credit.h`, note 6).

use super::super::state::flag;
use super::*;

/// A connection in the middle of a response, `segments` of which have come, each acknowledged.
fn streaming(config: Config, segments: u32) -> Host {
    let mut host = Host::new(config);
    host.connect(0);
    host.send(0, request(1));
    for i in 0..segments {
        host.step(i);
    }
    host.discarded.clear();
    host
}

impl Host {
    /// The response's segment `i` comes 12 µs after the one before, and TCP acknowledges it.
    fn step(&mut self, i: u32) -> PacketId {
        self.now += Span::micros(12);
        self.data(0, 1 + i * MSS, MSS);
        self.ack(0, 1 + (i + 1) * MSS)
    }

    /// How many of the ACKs of the segments `from..to` leave.
    fn leaving(&mut self, from: u32, to: u32) -> u32 {
        let acks: Vec<_> = (from..to).map(|i| self.step(i)).collect();
        acks.into_iter().filter(|&ack| self.has_left(ack)).count() as u32
    }
}

#[test]
fn in_an_undisturbed_stream_every_fourth_ack_leaves() {
    let mut host = streaming(Config::credit(96_000), 80);
    assert_eq!(host.leaving(80, 120), 10);
    assert_eq!(host.discarded.len(), 30);
    host.check_ledger();
}

#[test]
fn a_stream_begins_with_every_ack() {
    let mut host = streaming(Config::credit(96_000), 0);
    let window = host.shim.state.flows[0].edge.get() / MSS;
    assert_eq!(host.leaving(0, window - 1), window - 1, "for senders open their windows by the ACK");
    assert!(host.leaving(window - 1, 2 * window) < window / 2);
}

#[test]
fn a_pause_begins_a_new_stream() {
    let mut host = streaming(Config::credit(96_000), 40);
    host.now += Span::millis(3);
    assert_eq!(host.leaving(40, 60), 20);
}

#[test]
fn a_push_is_acknowledged_at_once() {
    let mut host = streaming(Config::credit(96_000), 41);
    let last = data(1 + 41 * MSS, MSS);
    host.receive(0, Segment { flags: last.flags | Flags::PSH, ..last });
    let ack = host.ack(0, 1 + 42 * MSS);
    assert!(host.has_left(ack), "the sender may have no more, and no other ACK come");
}

#[test]
fn what_senders_count_or_act_upon_is_never_left_out() {
    let mut host = streaming(Config::credit(96_000), 40);
    let ack = 1 + 40 * MSS;
    let again = host.ack(0, ack);
    assert!(host.has_left(again), "a repeated ACK");
    host.now += Span::micros(12);
    host.data(0, ack, MSS);
    let marked = host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(ack + MSS) });
    assert!(host.has_left(marked), "an ECN-Echo");
    host.now += Span::micros(12);
    host.data(0, ack + MSS, MSS);
    let duplicate = host.send(0, Segment { sack: true, dsack: true, ..pure_ack(ack + 2 * MSS) });
    assert!(host.has_left(duplicate), "a duplicate's report");
    host.data(0, ack + 3 * MSS, MSS);
    let hole = host.send(0, Segment { sack: true, ..pure_ack(ack + 2 * MSS) });
    assert!(host.has_left(hole), "a hole's report");
}

#[test]
fn the_ack_at_a_change_of_ce_is_never_left_out() {
    // RFC 8257 §3.2: the change has arrived, and TCP acknowledges at once what came before it.
    let mut host = streaming(Config::credit(96_000), 40);
    let ack = 1 + 40 * MSS;
    host.data(0, ack, MSS);
    host.receive(0, Segment { ce: true, ..data(ack + MSS, MSS) });
    let before = host.ack(0, ack + MSS);
    assert!(host.has_left(before));
    let echo = |ack| Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(ack) };
    let marked = host.send(0, echo(ack + 2 * MSS));
    host.data(0, ack + 2 * MSS, MSS);
    let last = host.send(0, echo(ack + 2 * MSS));
    assert!(host.has_left(marked) && host.has_left(last));
}

#[test]
fn the_ack_that_ends_an_echo_is_never_left_out() {
    let mut host = streaming(Config::credit(96_000), 80);
    host.now += Span::micros(12);
    host.data(0, 1 + 80 * MSS, MSS);
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + 81 * MSS) });
    // The sender has many segments on its way nevertheless.
    host.shim.state.flows[0].window.set(64 * MSS);
    let acks: Vec<_> = (81..87).map(|i| host.step(i)).collect();
    let left: Vec<_> = acks.into_iter().map(|ack| host.has_left(ack)).collect();
    assert_eq!(left, [true, false, true, false, true, false]);
}

#[test]
fn after_a_loss_every_second_ack_leaves() {
    let mut host = streaming(Config::credit(96_000), 40);
    let ack = 1 + 40 * MSS;
    host.data(0, ack + MSS, MSS);
    host.send(0, Segment { sack: true, ..pure_ack(ack) });
    host.data(0, ack, MSS);
    host.ack(0, ack + 2 * MSS);
    host.leaving(42, 60);
    assert_eq!(host.leaving(60, 80), 10);
}

#[test]
fn a_sender_whose_window_is_a_few_segments_gets_every_ack() {
    // It may stand before the end of its congestion window, and our TCP delays the ACK of the next segment, for it has acknowledged this one.
    for (segments, leaving) in [(2, 20..=20), (4, 20..=20), (8, 10..=11)] {
        let mut host = streaming(Config::credit(96_000), 40);
        let flow = &host.shim.state.flows[0];
        flow.flags.raise(flag::REDUCED);
        flow.window.set(segments * MSS);
        let left = host.leaving(40, 60);
        assert!(leaving.contains(&left), "{segments} segments: {left}");
    }
}

#[test]
fn pac_and_the_window_alone_leave_no_ack_out() {
    for config in [config(), Config { thin_acks: false, ..Config::credit(96_000) }] {
        let mut host = streaming(config, 40);
        host.leaving(40, 80);
        assert_eq!((host.discarded.len(), host.shim.gate().thinned.get()), (0, 0));
    }
}
