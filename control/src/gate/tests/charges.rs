//! What packets trigger, what arrivals pay, and when debts are void: Eq. 3 to 6 and what the paper leaves open.

use super::super::state::flag;
use super::*;

#[test]
fn in_slow_start_an_ack_triggers_what_it_acknowledges_and_one_mss() {
    // Eq. 3, SS: ACK_q - ACK_prev + MSS, here 2 + 1 segments, with their headers.
    let mut host = Host::new(config());
    host.connect(0);
    host.data(0, 1, MSS);
    host.data(0, 1 + MSS, MSS);
    host.ack(0, 1 + 2 * MSS);
    assert_eq!(host.in_flight(), 3 * FRAME);
}

#[test]
fn in_congestion_avoidance_it_triggers_a_share_of_one_mss_more() {
    // Eq. 3, CA: MSS · MSS / Window, with a window of ten segments: worth a segment with the tenth ACK, and not sent before.
    let mut host = Host::new(config());
    host.connect(0);
    host.shim.state.flows[0].flags.raise(state::flag::AVOIDANCE);
    host.receive(0, Segment { frames: 10, ..data(1, 10 * MSS) });
    let charged: Vec<u64> = (1..=10)
        .map(|i| {
            let before = host.in_flight();
            host.ack(0, 1 + i * MSS);
            host.in_flight() - before
        })
        .collect();
    assert_eq!(charged[..9], [FRAME; 9]);
    assert_eq!(charged[9], 2 * FRAME);
}

#[test]
fn a_sender_that_reduces_its_window_lets_acks_pass_without_sending() {
    // RFC 3168 §6.1.2: from ten segments to five, once; the first five ACKs make room for nothing.
    let mut host = Host::new(config());
    host.connect(0);
    host.receive(0, Segment { frames: 10, ..data(1, 10 * MSS) });
    for i in 1..=10 {
        host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + i * MSS) });
        assert_eq!(host.in_flight(), u64::from(i.saturating_sub(5)) * FRAME, "ACK {i}");
    }
    let flow = host.shim.flow(FlowId(0)).unwrap();
    assert!(flow.flags.any(state::flag::AVOIDANCE));
    assert_eq!(flow.window.get(), 5 * MSS);
}

#[test]
fn the_end_of_a_handshake_is_charged_no_more_than_it_shows() {
    // Of 16 units of 128 bytes; and the initial window.
    for (window, charged) in [(16, 2048..2 * FRAME), (4096, 9 * FRAME..11 * FRAME)] {
        let mut host = Host::new(Config::of(Guard::PacPublished, 96_000));
        host.send(0, Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), ..blank() });
        host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..blank() });
        host.send(0, Segment { window, ..pure_ack(1) });
        assert!(charged.contains(&host.in_flight()), "{} bytes for a window of {window}", host.in_flight());
    }
}

#[test]
fn a_syn_acks_ecn_flag_is_no_echo() {
    let mut host = Host::new(config());
    host.receive(0, Segment { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..blank() });
    host.send(0, Segment { flags: Flags::SYN | Flags::ACK | Flags::ECE, ack: SeqNumber(1), mss: 1460, ..blank() });
    assert!(!host.shim.flow(FlowId(0)).unwrap().flags.any(state::flag::REDUCED));
}

#[test]
fn more_on_its_way_than_the_model_allows_corrects_the_model() {
    let mut host = Host::new(config());
    host.connect(0);
    host.shim.state.flows[0].window.set(2 * MSS);
    host.receive(0, Segment { frames: 6, ..data(1, 6 * MSS) });
    assert_eq!(host.shim.flow(FlowId(0)).unwrap().window.get(), 6 * MSS);
}

#[test]
fn an_ack_with_ecn_echo_triggers_only_what_it_acknowledges() {
    let mut host = Host::new(config());
    host.connect(0);
    host.data(0, 1, MSS);
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + MSS) });
    assert_eq!(host.in_flight(), FRAME);
}

#[test]
fn what_arrives_is_subtracted_in_wire_bytes_even_in_aggregates() {
    let mut host = Host::new(Config { growth: Growth::PerByte, ..config() });
    host.connect(0);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    assert_eq!(host.in_flight(), 2 * FRAME);
    host.receive(0, Segment { frames: 2, ..data(1 + MSS, 2 * MSS) });
    assert_eq!(host.in_flight(), 0, "two frames in one aggregate pay for two frames");
}

#[test]
fn a_correction_that_was_wrong_ends_with_the_debts_that_it_was_about() {
    let mut host = Host::new(config());
    host.connect(0);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    host.shim.gate().written_off.set(FRAME);
    assert_eq!(host.in_flight(), FRAME);
    host.data(0, 1 + MSS, MSS);
    assert_eq!(host.in_flight(), FRAME / 2, "what arrived had not been lost");
    host.data(0, 1 + 2 * MSS, MSS);
    assert_eq!((host.in_flight(), host.shim.gate().written_off.get()), (0, 0));
}

#[test]
fn data_that_nobody_triggered_does_not_pay_for_others() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    let before = host.in_flight();
    host.data(1, 1, MSS);
    assert_eq!(host.in_flight(), before);
    host.check_ledger();
}

#[test]
fn a_syn_ack_is_charged_with_the_initial_window_and_waits_for_it() {
    let mut host = Host::new(Config { initial_window: 10, ..config() });
    let syn_ack =
        Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, window: 65_535, timestamps: Some((1, 1)), ..pure_ack(1) };
    let mut left = 0;
    for flow in 0..10 {
        host.receive(flow, Segment { flags: Flags::SYN, mss: 1460, ..blank() });
        let packet = host.send(flow, syn_ack);
        left += usize::from(host.has_left(packet));
    }
    assert_eq!(left, 6, "96 000 / (10 · 1514)");
    assert_eq!(host.in_flight(), 6 * 10 * FRAME);
    host.check_ledger();
}

#[test]
fn syn_acks_wait_until_a_burst_of_syns_is_over() {
    // At 1 Gb/s two full frames take 24 us.
    let mut host = Host::new(Config { rate_mbps: 1_000, ..config() });
    let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), mss: 1460, ..blank() };
    let answers: Vec<_> = (0..6)
        .map(|flow| {
            host.now += Span::micros(1);
            host.receive(flow, Segment { flags: Flags::SYN, ..blank() });
            host.send(flow, syn_ack)
        })
        .collect();
    assert_eq!(answers.iter().filter(|&&answer| host.has_left(answer)).count(), 3, "the fourth makes it a burst");
    host.wait(Span::micros(23));
    assert!(!host.has_left(answers[3]));
    let wake = host.shim.poll_timeout().unwrap();
    assert!(wake > host.now && wake <= host.now + Span::micros(3), "the scheduler looks again when it may be over");
    host.wait(Span::micros(3));
    assert!(answers.iter().all(|&answer| host.has_left(answer)));
}

#[test]
fn a_flood_of_syns_does_not_close_the_gate() {
    let mut host = Host::new(Config { max_half_open: 4, ..config() });
    let syn_ack = Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, timestamps: Some((1, 1)), ..pure_ack(1) };
    for flow in 0..1_000 {
        host.receive(flow, Segment { flags: Flags::SYN, ..blank() });
        host.send(flow, syn_ack);
    }
    assert_eq!(host.shim.held(), 0);
    assert!(host.in_flight() <= 4 * 10 * FRAME);
}

/// A connection that a peer opens; whether its SYN-ACK is charged.
fn accept(host: &mut Host, flow: u32) -> bool {
    host.receive(flow, Segment { flags: Flags::SYN, mss: 1460, ..blank() });
    let before = host.in_flight();
    let answer = host.send(flow, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, ..pure_ack(1) });
    assert!(host.has_left(answer));
    host.in_flight() > before
}

/// The same from forty peers, one after the other, none of whom answers.
fn unanswered(guard: Guard) -> Host {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::of(guard, 96_000) });
    for flow in 0..40 {
        accept(&mut host, flow);
        host.wait(Span::millis(10));
        let gate = &host.shim.state.gate;
        decision::void_if_silent(&host.shim.rules, gate, &host.shim.state.flows[flow as usize], host.now);
        assert_eq!((host.in_flight(), gate.active.get()), (0, 0));
    }
    host
}

#[test]
fn syn_acks_that_nobody_answers_cost_others_nothing() {
    for guard in [Guard::Pac, Guard::Credit] {
        let mut host = unanswered(guard);
        assert!((40..80).all(|flow| !accept(&mut host, flow)), "{guard:?}");
        assert_eq!((host.in_flight(), host.shim.gate().active.get()), (0, 0), "{guard:?}");
        host.check_ledger();
    }
    assert!(accept(&mut unanswered(Guard::PacPublished), 40), "as published");
}

#[test]
fn peers_that_answer_late_are_no_flood() {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::of(Guard::Credit, 96_000) });
    for flow in 0..200 {
        assert!(accept(&mut host, flow), "{flow}");
        host.wait(Span::millis(10));
        let gate = &host.shim.state.gate;
        assert!(decision::void_if_silent(&host.shim.rules, gate, &host.shim.state.flows[flow as usize], host.now));
        host.receive(flow, pure_ack(1));
    }
}

#[test]
fn syn_acks_are_charged_again_when_peers_answer() {
    let mut host = unanswered(Guard::Credit);
    let charged = (40..80).filter(|&flow| {
        let charged = accept(&mut host, flow);
        host.receive(flow, pure_ack(1));
        host.wait(Span::millis(10));
        charged
    });
    assert!(charged.count() > 20);
}

/// A request of 100 bytes that acknowledges all received.
#[test]
fn a_request_on_a_kept_connection_waits_for_what_its_response_will_burst() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.wait(Span::millis(5));
    let first = host.send(0, request(1));
    assert!(host.has_left(first));
    assert_eq!(host.in_flight(), 10 * FRAME, "nothing is known yet: the initial window");
    for i in 0..20 {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
    }
    host.wait(Span::millis(5));
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0]);
    host.fill(1);
    let second = host.send(0, request(1 + 20 * MSS));
    assert!(!host.has_left(second));
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[1]);
    host.wait(Span::ZERO);
    assert!(host.has_left(second));
    assert_eq!(host.in_flight(), 20 * FRAME, "the window has grown to the whole last response");
}

/// A host whose sender has an initial window of three segments, of which the first came marked.
fn marked_burst() -> Host {
    let mut host = Host::new(Config { initial_window: 3, ..Config::of(Guard::PacPublished, 96_000) });
    host.send(0, Segment { flags: Flags::SYN, mss: 1448, wscale: Some(7), ..blank() });
    host.receive(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1448, wscale: Some(7), ..blank() });
    host.ack(0, 1);
    host.data(0, 1, MSS);
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + MSS) });
    host.data(0, 1 + MSS, MSS);
    host.data(0, 1 + 2 * MSS, MSS);
    host
}

#[test]
fn what_a_sender_sends_while_it_reduces_its_window_does_not_widen_it() {
    // RFC 6937: the first ACK with an ECN-Echo lets a segment go, the second none.
    let mut host = marked_burst();
    host.data(0, 1 + 3 * MSS, MSS);
    let before = host.in_flight();
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + 2 * MSS) });
    assert_eq!(host.in_flight(), before, "two segments are on their way, and that is the window");
}

#[test]
fn a_reduction_is_over_however_many_bytes_follow() {
    let mut host = marked_burst();
    let mut next = 1 + 3 * MSS;
    host.ack(0, next);
    for _ in 0..6 {
        host.data(0, next, 1 << 29);
        next = next.wrapping_add(1 << 29);
        host.ack(0, next);
    }
    let window = |host: &Host| host.shim.state.flows[0].window.get();
    let before = window(&host);
    host.data(0, next, MSS);
    host.send(0, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(next.wrapping_add(MSS)) });
    assert!(window(&host) < before / 3 * 2, "{} of {before}", window(&host));
}

/// A connection whose peer has answered with 200 bytes twice, while another one owes all of the budget and so much more.
fn chats(config: Config, beyond: u64) -> Host {
    let mut host = Host::new(config);
    host.connect(0);
    host.connect(1);
    host.data(0, 1, 200);
    host.ack(0, 201);
    host.wait(Span::millis(5));
    host.send(0, request(201)); // learns that responses are short
    host.data(0, 201, 200);
    host.wait(Span::millis(5));
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[0]);
    let threshold = &host.shim.gate().threshold;
    let budget = threshold.get();
    threshold.set(budget + beyond);
    host.fill(1);
    host.shim.gate().threshold.set(budget);
    host
}

#[test]
fn uploads_and_chatty_exchanges_are_not_held() {
    let mut host = chats(config(), 0);
    let chat = host.send(0, request(401));
    let upload = host.send(1, Segment { payload: 20 * MSS, frames: 20, flags: Flags::ACK, ..pure_ack(1) });
    assert!(host.has_left(chat) && host.has_left(upload));
    assert_eq!(host.owed(0), 275, "200 bytes, their part of a header, and the bare ACK before them");
}

#[test]
fn what_is_answered_shortly_waits_where_that_does_not_fit_the_port() {
    let auto = Config { auto: true, rate_mbps: 1_000, ..Config::credit(96_000) };
    let credit = Config { rate_mbps: 1_000, ..Config::credit(96_000) };
    // PAC fills the buffer, and has a part of it more for them; exact credit begins with three quarters of 90 KB, and has seven eighths; without a given
    // buffer 48 frames are what any port holds.
    for (config, room) in [(config(), 3_000), (credit, 78_750 - 67_500), (auto, 48 * 1_514 - 24_224)] {
        for (beyond, leaves) in [(room - 1_000, true), (room, false)] {
            let mut host = chats(config.clone(), beyond);
            let chat = host.send(0, request(401));
            assert_eq!(host.has_left(chat), leaves, "{beyond} bytes beyond the budget of {config:?}");
        }
    }
}

#[test]
fn short_answers_have_no_more_of_a_port_than_it_has_turned_out_to_hold() {
    let auto = Config { auto: true, rate_mbps: 1_000, ..Config::credit(96_000) };
    for (shallow, leaves) in [(0, true), (40_000, true), (36_000, false)] {
        let mut host = chats(auto.clone(), 38_000 - 24_224);
        host.shim.gate().shallow.set(shallow);
        let chat = host.send(0, request(401));
        assert_eq!(host.has_left(chat), leaves, "38 KB in flight, of {shallow}");
    }
}

#[test]
fn what_waits_for_a_short_answer_needs_no_room_in_the_budget() {
    // In flight are seven eighths of what the budget may be, then a frame less: still more than the budget.
    let mut host = chats(Config { rate_mbps: 1_000, ..Config::credit(96_000) }, 78_750 - 67_500);
    let chat = host.send(0, request(401));
    assert!(!host.has_left(chat));
    host.data(1, 1, MSS);
    host.wait(Span::micros(10));
    assert!(host.has_left(chat) && host.in_flight() > 70_000, "{} in flight", host.in_flight());
}

#[test]
fn a_push_at_the_end_frees_the_budget_and_lets_the_last_acks_go() {
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + MSS, 500) });
    assert_eq!(host.in_flight(), 0, "the sender has nothing more");
    host.fill(1);
    let last = host.ack(0, 1 + MSS + 500);
    assert!(host.has_left(last), "it triggers nothing");
}

#[test]
fn a_sender_that_pushes_in_mid_stream_is_not_believed_again() {
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1, MSS) });
    host.data(0, 1 + MSS, MSS);
    host.receive(0, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + 2 * MSS, MSS) });
    host.ack(0, 1 + 3 * MSS);
    assert!(host.in_flight() > 0);
}

/// Data that ends a burst, as Linux marks it.
fn pushed(seq: u32, payload: u32) -> Segment {
    Segment { flags: Flags::ACK | Flags::PSH, ..data(seq, payload) }
}

#[test]
fn the_end_of_a_burst_is_not_that_of_a_response() {
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    host.data(0, 1, MSS);
    host.receive(0, pushed(1 + MSS, MSS));
    host.ack(0, 1 + 2 * MSS);
    let owed = host.in_flight();
    assert!(owed > 0, "the ACK lets more come");
    // A pause between bursts tells nothing of the response's length either.
    host.wait(Span::millis(20));
    host.receive(0, pushed(1 + 2 * MSS, MSS));
    host.ack(0, 1 + 3 * MSS);
    assert!(host.in_flight() > 0);
    assert_eq!(host.shim.state.flows[0].last_response.get(), 0);
}

#[test]
fn a_sender_that_pauses_after_less_than_a_segment_is_not_believed_again() {
    let mut host = Host::new(Config { push_ends_response: true, ..config() });
    host.connect(0);
    host.receive(0, pushed(1, 500));
    assert_eq!(host.in_flight(), 0, "a header, it turns out");
    host.data(0, 501, MSS);
    host.receive(0, pushed(501 + MSS, 300));
    host.ack(0, 801 + MSS);
    assert!(host.in_flight() > 0);
}

#[test]
fn much_that_was_charged_and_never_came_was_never_in_the_window() {
    let window = |segments: u32| {
        let mut host = Host::new(Config::new(96_000));
        host.connect(0);
        host.connect(1);
        host.shim.state.flows[0].window.set(segments * MSS);
        host.send(0, request(1));
        // Two segments come, and their ACK waits behind others'.
        host.data(0, 1, 2 * MSS);
        host.fill(1);
        host.ack(0, 1 + 2 * MSS);
        host.wait(Span::millis(40));
        host.check_ledger();
        host.shim.state.flows[0].window.get() / MSS
    };
    assert!(window(30) < 10, "{}", window(30));
    assert!(window(6) >= 6, "little is owed, and may be late: {}", window(6));
}

#[test]
fn debts_of_a_silent_flow_are_void() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let ack = host.ack(0, 1 + MSS);
    for _ in 0..40 {
        host.wait(Span::millis(1));
    }
    assert!(host.has_left(ack), "well before max_hold");
    assert_eq!(host.shim.stats().forced, 0);
    host.check_ledger();
}

#[test]
fn sequence_numbers_may_wrap() {
    let mut host = Host::new(config());
    let start = u32::MAX - MSS / 2;
    host.data(0, start, MSS);
    host.ack(0, start);
    host.ack(0, start.wrapping_add(MSS));
    assert_eq!(host.in_flight(), 2 * FRAME);
}

#[test]
fn a_reopened_entry_lets_the_old_connections_acks_go() {
    let mut host = Host::new(config());
    host.connect(0);
    host.connect(1);
    host.data(0, 1, MSS);
    host.fill(1);
    let held = host.ack(0, 1 + MSS);
    host.connect(0);
    decision::void(&host.shim.rules, &host.shim.state.gate, &host.shim.state.flows[1]);
    host.wait(Span::ZERO);
    assert!(host.has_left(held));
    host.check_ledger();
}

#[test]
fn debts_that_later_data_has_passed_by_are_void_and_mean_congestion_avoidance() {
    let mut host = Host::new(config());
    host.connect(0);
    let flow =
        |host: &Host| (host.shim.state.flows[0].owed.get(), host.shim.state.flows[0].flags.get() & flag::AVOIDANCE);
    // Each ACK is charged for two segments, and one comes: the sender does not grow.
    for i in 0..120 {
        host.data(0, 1 + i * MSS, MSS);
        host.ack(0, 1 + (i + 1) * MSS);
        host.wait(Span::micros(100));
    }
    let (owed, avoidance) = flow(&host);
    assert!(avoidance != 0, "charged for growth that does not come");
    assert!(owed < 32 * FRAME as u32, "{owed}: what is on its way, and not all that was ever charged too much");
    assert_eq!(host.shim.stats().forced, 0);
    host.check_ledger();
}

#[test]
fn a_sender_that_grows_as_charged_is_left_in_slow_start() {
    let mut host = Host::new(config());
    host.connect(0);
    // Round trips of 0.5 ms in which each ACK brings two segments.
    let (mut sent, mut acked) = (1, 0);
    for round in 0..5 {
        let burst = sent;
        for i in 0..burst {
            host.data(0, 1 + (acked + i) * MSS, MSS);
        }
        for i in 0..burst {
            host.ack(0, 1 + (acked + i + 1) * MSS);
        }
        acked += burst;
        sent = 2 * burst;
        host.wait(Span::micros(500));
        assert_eq!(host.shim.state.flows[0].flags.get() & flag::AVOIDANCE, 0, "round {round}");
    }
}

#[test]
fn shares_of_large_windows_are_rounded_down() {
    let mut host = Host::new(config());
    host.connect(0);
    let flow = &host.shim.state.flows[0];
    flow.flags.raise(flag::AVOIDANCE);
    flow.window.set(600 * MSS);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    assert_eq!(host.shim.state.flows[0].window.get(), 600 * MSS + 2, "1448 / 600 is 2.4");
}
