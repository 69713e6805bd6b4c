//! Incast over paths of one to fifty milliseconds.

mod common;

use ackgate_sim::report::Report;

use common::report;

/// Hosts as Linux's, and a port that is told.
fn incast(scheme: &str, port: (&str, &str), rtt: &str, senders: u32, response: (&str, &str)) -> Report {
    let ((rate, buffer), (volume, connections)) = (port, response);
    report(&format!(
        r#"
senders = {senders}
scheme = "{scheme}"
rounds = 12
time_limit = "60s"
network = {{ rate = "{rate}", sender_rate = "10gbit", rtt = "{rtt}" }}
switch.buffer = "{buffer}"
host.delay = "10us"
host.jitter = "5us"
tcp.cc = "cubic"
tcp.initial_window = 10
tcp.sack = true
tcp.rack = true
tcp.probe_ack_delay = "200ms"
tcp.timestamps = true
tcp.timestamp_clock = "1ms"
tcp.rto_min = "200ms"
tcp.rto_granularity = "1ms"
tcp.delayed_ack = "40ms"
tcp.quickack = true
workload.kind = "rounds"
workload.direction = "pull"
workload.volume = "{volume}"
workload.connections = "{connections}"
workload.start_jitter = "50us"
"#
    ))
}

/// Goodput with and without the guard.
fn worth(scheme: &str, port: (&str, &str), rtt: &str, senders: u32, response: (&str, &str)) -> f64 {
    let [alone, guarded] = ["none", scheme].map(|scheme| incast(scheme, port, rtt, senders, response).goodput_mbps);
    guarded / alone
}

const SHALLOW: (&str, &str) = ("200mbit", "96KB");
const GIGABIT: (&str, &str) = ("1gbit", "512KB");
const TEN_GIGABIT: (&str, &str) = ("10gbit", "2MB");

#[test]
fn under_pac_requests_do_not_wait_for_responses_that_come_window_by_window() {
    // With the pace of whole responses these had 0.75, 0.48 and 0.54.
    assert!(worth("pac", SHALLOW, "20ms", 64, ("64KB", "persistent")) > 1.5);
    assert!(worth("pac", GIGABIT, "2ms", 4, ("20KB", "persistent")) > 0.97);
    assert!(worth("pac", TEN_GIGABIT, "1ms", 64, ("20KB", "persistent")) > 0.97);
}

#[test]
fn a_link_that_is_idle_for_most_of_a_round_trip_is_not_taken_for_a_slow_one() {
    // Arrivals were counted over round trips of 50 ms, and the link was reckoned with 227 Mb/s: 0.84.
    assert!(worth("credit", GIGABIT, "50ms", 200, ("64KB", "fresh")) > 2.0);
}

#[test]
fn a_few_new_connections_do_not_wait_for_what_slow_start_does_not_send() {
    // Charged for all of their responses, ten of sixteen left no room for the others: 0.70 and 0.86.
    assert!(worth("credit", TEN_GIGABIT, "1ms", 16, ("256KB", "fresh")) > 0.94);
    assert!(worth("credit", GIGABIT, "2ms", 16, ("64KB", "fresh")) > 0.94);
}
