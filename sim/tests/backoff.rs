//! When the retransmission timer's back-off ends: with any progress, or with an RTT sample only.

use ackgate_sim::observer::Nobody;
use ackgate_sim::report::Report;
use ackgate_sim::run;
use ackgate_sim::scenario::Scenario;

/// PAC's 1 Gb/s setting with 100 senders: every round stalls, and most of what is sent was sent before.
fn collapse(until_sample: bool, timestamps: bool) -> Report {
    let mut scenario = Scenario { senders: 100, rounds: 5, ..Scenario::default() };
    scenario.tcp.backoff_until_sample = until_sample;
    scenario.tcp.timestamps = timestamps;
    Report { wall_s: 0.0, ..run(&scenario, &mut Nobody).expect("a valid scenario has a result") }
}

#[test]
fn backoff_that_waits_for_a_sample_outlasts_retransmissions() {
    // 200 + 400 + 800 + ... ms, where progress in between would start again at 200.
    let (progress, sample) = (collapse(false, false), collapse(true, false));
    assert!(
        sample.round_ms.p50 >= 1.5 * progress.round_ms.p50,
        "median round {} ms, {} ms when back-off ends with any progress",
        sample.round_ms.p50,
        progress.round_ms.p50
    );
}

#[test]
fn with_timestamps_each_ack_is_a_sample() {
    assert_eq!(collapse(true, true), collapse(false, true));
}
