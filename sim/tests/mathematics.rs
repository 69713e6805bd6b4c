//! The simulator against arithmetic: what must come out whatever the implementation.

use ackgate_control::units::{Rate, Span};
use ackgate_sim::observer::Nobody;
use ackgate_sim::report::Report;
use ackgate_sim::run;
use ackgate_sim::scenario::{Capacity, Framing, Long, Per, Rounds, Scenario, Workload};

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
