//! The simulator against arithmetic: what must come out whatever the implementation.

use ackgate_control::units::{Rate, Span};
use ackgate_sim::observer::Nobody;
use ackgate_sim::report::Report;
use ackgate_sim::run;
use ackgate_sim::scenario::{Capacity, Framing, Long, Per, Rounds, Scenario, Scheme, Workload};

fn simulate(scenario: &Scenario) -> Report {
    run(scenario, &mut Nobody).expect("a valid scenario has a result")
}

fn near(value: f64, expected: f64, fraction: f64) -> bool {
    (value - expected).abs() <= fraction * expected
}

/// One unlimited flow for 200 ms.
fn long_flow() -> Scenario {
    let long = Long { stop: Some(Span::millis(200)), ..Long::default() };
    let mut scenario = Scenario { senders: 1, workload: Workload::Long(long), ..Scenario::default() };
    scenario.switch.buffer = Capacity::Unlimited;
    scenario.tcp.rwnd = 60_000;
    scenario
}

#[test]
fn goodput_without_congestion_is_what_framing_leaves() {
    for (framing, on_wire) in [
        (Framing::Ethernet, 1_538.0),
        (Framing::EthernetNoGap, 1_518.0),
        (Framing::Ppp, 1_502.0),
        (Framing::Ip, 1_500.0),
    ] {
        let mut scenario = long_flow();
        scenario.network.framing = framing;
        let report = simulate(&scenario);
        let limit = 1_000.0 * 1_460.0 / on_wire;
        assert!(near(report.goodput_mbps, limit, 0.01), "{framing:?}: {} of {limit}", report.goodput_mbps);
        assert!(report.goodput_mbps <= limit, "{framing:?}: {} exceeds {limit}", report.goodput_mbps);
        assert_eq!((report.drops, report.rto_timeouts), (0, 0));
    }
}

#[test]
fn a_window_below_the_bandwidth_delay_product_sets_the_rate() {
    let mut scenario = long_flow();
    scenario.network.rate = Rate(100_000_000_000);
    scenario.network.rtt = Span::millis(1);
    scenario.tcp.rwnd = 29_200;
    let report = simulate(&scenario);
    let expected = 29_200.0 * 8.0 / 1e-3 / 1e6;
    assert!(near(report.goodput_mbps, expected, 0.02), "{} is not {expected}", report.goodput_mbps);
}

#[test]
fn fixed_windows_collapse_where_buffer_and_pipe_are_full() {
    // PAC §II-B, Eq. 1: N_max = (B + C x RTT) / W, with one frame on the wire beside the buffer. The equation is about
    // windows in steady state: senders start spread out, so that the first burst is not what overflows.
    let first_loss = |buffer: u64| {
        (2..120)
            .find(|&senders| {
                let rounds =
                    Rounds { volume: 64_000, per: Per::Sender, start_jitter: Span::millis(1), ..Rounds::default() };
                let mut scenario =
                    Scenario { senders, rounds: 3, workload: Workload::Rounds(rounds), ..Scenario::default() };
                scenario.switch.buffer = Capacity::Bytes(buffer);
                scenario.network.rtt = Span::micros(100);
                scenario.tcp.max_window = Some(1);
                simulate(&scenario).drops > 0
            })
            .expect("a finite buffer overflows")
    };
    for (buffer, frames) in [(80_000, 52.7), (100_000, 65.9)] {
        let pipe = 12_500.0 / 1_538.0 + 1.0;
        let senders = f64::from(first_loss(buffer));
        assert!((senders - (frames + pipe)).abs() <= 3.0, "{buffer} B: first loss at {senders}, not {}", frames + pipe);
    }
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_does_not() {
    let report = |seed| {
        let mut report = simulate(&Scenario { senders: 40, rounds: 3, seed, ..Scenario::default() });
        report.wall_s = 0.0;
        report
    };
    assert_eq!(report(1), report(1));
    assert_ne!(report(1), report(2));
}

#[test]
fn packets_in_are_packets_out_dropped_or_queued() {
    let report = simulate(&Scenario { senders: 100, rounds: 3, ..Scenario::default() });
    assert!(report.drops > 0);
    let packets = report.packets;
    assert_eq!(packets.sent, packets.arrived + packets.dropped + packets.queued);
    assert_eq!(packets.dropped, report.drops);
}

/// Flows of `window` segments for 300 ms, that start one after the other.
fn fixed_windows(senders: u32, window: u32) -> Scenario {
    let long = Long { stagger: Span::micros(300), stop: Some(Span::millis(300)), ..Long::default() };
    let mut scenario = Scenario { senders, workload: Workload::Long(long), ..Scenario::default() };
    scenario.network.sender_rate = Some(Rate(10_000_000_000));
    scenario.tcp.max_window = Some(window);
    scenario
}

#[test]
fn what_windows_hold_beyond_the_pipe_waits_in_the_queue_and_the_link_never_idles() {
    // PAC Eq. 1: Q = sum of windows - C x RTT, with the transmission times of data and ACK in the RTT.
    let mut scenario = fixed_windows(20, 4);
    scenario.switch.buffer = Capacity::Unlimited;
    let report = simulate(&scenario);
    let frame = 1_538.0 * 8.0 / 1_000.0;
    let pipe = (120.0 + frame + frame / 10.0 + 84.0 * 8.0 / 1_000.0 * 1.1) / frame;
    let expected = (80.0 - pipe) * 1_518.0;
    assert!(near(report.queue_bytes.mean, expected, 0.03), "{} is not {expected}", report.queue_bytes.mean);
    assert!(report.link_use > 0.995 && report.link_use <= 1.0, "{}", report.link_use);
    assert_eq!(report.drops, 0);
}

#[test]
fn a_constant_overload_fills_the_queue_at_the_excess_and_then_loses_it() {
    // Two applications write 600 Mb/s each, whose windows stop neither: R on the wire towards a link of C. The queue grows
    // by R - C, without its preambles and gaps, until the buffer is full.
    let overload = |buffer: Capacity, stop: Span| {
        let long = Long { stop: Some(stop), rate: Some(Rate(600_000_000)), ..Long::default() };
        let mut scenario = Scenario { senders: 2, workload: Workload::Long(long), ..Scenario::default() };
        scenario.switch.buffer = buffer;
        scenario.tcp.initial_window = 10_000;
        scenario.tcp.rwnd = 100_000_000;
        scenario.tcp.rto_min = Span::secs(1);
        simulate(&scenario)
    };
    let in_buffer = 1e6 / 8.0 * 1_518.0 / 1_538.0;
    let excess = (1_200.0 * 1_538.0 / 1_460.0 - 1_000.0) * in_buffer;
    // What the link does not send during the handshake, one RTT, stands in the queue from the beginning.
    let handshake = 1_000.0 * in_buffer * 120e-6;
    for millis in [10, 20, 40] {
        let report = overload(Capacity::Unlimited, Span::millis(millis));
        let (max, expected) = (report.queue_bytes.max as f64, handshake + excess * millis as f64 / 1e3);
        assert!(near(max, expected, 0.01), "{millis} ms: {max} is not {expected}");
        assert_eq!((report.drops, report.rto_timeouts), (0, 0));
    }
    // With 96 KB, nothing is lost for as long as that takes to fill, and something soon after.
    let full = (96_000.0 - handshake) / excess * 1e6;
    #[expect(clippy::cast_sign_loss, reason = "some hundred microseconds")]
    let drops = |micros: f64| overload(Capacity::Bytes(96_000), Span::micros(micros as u64)).drops;
    assert_eq!(drops(full * 0.9), 0);
    assert!(drops(full * 1.1) > 0);
}

#[test]
fn gating_acks_stretches_the_round_trip_to_n_w_over_c() {
    // PAC Eq. 9: the windows do not fit the buffer, so ACKs wait: RTT >= N W / C.
    let (senders, window) = (100, 4);
    let mut scenario = fixed_windows(senders, window);
    scenario.tcp.max_window = None;
    scenario.tcp.rwnd = u64::from(window) * 1_460;
    let plain = simulate(&scenario);
    assert!(plain.drops > 0, "without gating {senders} windows overflow the buffer");
    scenario.scheme = Scheme::Pac;
    let report = simulate(&scenario);
    assert_eq!(report.drops, 0, "{report:?}");
    // Little's law: what is on its way or held is what the windows hold, whatever part of the rate PAC makes use of.
    let windows = f64::from(senders * window) * 1_460.0 * 8.0;
    let expected = windows / report.goodput_mbps;
    assert!(near(report.rtt_us.p50, expected, 0.1), "{} us is not {expected}", report.rtt_us.p50);
    assert!(report.rtt_us.p50 >= windows / 1_000.0, "{} us is less than N W / C", report.rtt_us.p50);
}

#[test]
fn a_round_takes_what_its_bytes_take_on_the_wire() {
    // 8 senders of 100 segments on an unlimited buffer: set-up, then the link is busy to the end.
    let rounds = Rounds { volume: 146_000, start_jitter: Span::ZERO, ..Rounds::default() };
    let mut scenario = Scenario { senders: 8, rounds: 2, workload: Workload::Rounds(rounds), ..Scenario::default() };
    scenario.switch.buffer = Capacity::Unlimited;
    scenario.tcp.initial_window = 40;
    let report = simulate(&scenario);
    let wire = 800.0 * 1_538.0 * 8.0 / 1e9 * 1e3;
    assert!(report.round_ms.p50 >= wire && report.round_ms.p50 < wire + 0.1, "{} and {wire}", report.round_ms.p50);
}
