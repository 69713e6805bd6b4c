//! Hosts' limits: bursts, what they cost, and what waits in a host.

mod common;

use ackgate_sim::observer::Nobody;
use ackgate_sim::report::Report;
use ackgate_sim::scenario::{Assignment, Scenario};

use common::report;

#[test]
fn small_windows_cost_what_large_bursts_save() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/host-limits.toml");
    let run = |changes: &[&str]| {
        let changes: Vec<_> = changes.iter().map(|change| Assignment::parse("--set", change).unwrap()).collect();
        ackgate_sim::run(&Scenario::load(&file, &changes).unwrap(), &mut Nobody).unwrap().goodput_mbps
    };
    let (bulk, small) = (run(&[]), run(&["tcp.max_window=1"]));
    assert!(bulk > 15_000.0, "{bulk}");
    assert!((1_800.0..2_400.0).contains(&small), "{small}");
    // Without limits the same windows are as fast as ever.
    assert!(run(&["tcp.max_window=20", "host.burst_time=0"]) > 15_000.0);
}

#[test]
fn hosts_may_be_differently_far_away() {
    // One segment at a time: each sender's round-trip times are its own.
    let run = |seed: u64, spread: &str| {
        report(&format!(
            "senders = 8\nrounds = 1\nseed = {seed}\nnetwork.rtt = \"100us\"\nhost.rtt_spread = \"{spread}\"\n\
             scheme = \"fixed-window\"\nworkload = {{ volume = \"200KB\", start_jitter = \"1ms\" }}"
        ))
        .rtt_us
    };
    let (same, spread) = (run(1, "0"), run(1, "2ms"));
    assert!(same.max < 300.0, "{same:?}");
    assert!(spread.max > 1_000.0 && spread.max < 2_300.0, "{spread:?}");
    assert!((run(2, "2ms").max - spread.max).abs() > 1.0, "another seed, other distances");
}

#[test]
fn a_burst_is_acknowledged_as_one() {
    let run = |host: &str| {
        report(&format!("senders = 1\nrounds = 1\ntcp.initial_window = 10\n{host}\nworkload = {{ volume = \"1MB\" }}"))
    };
    let (each, bursts) = (run(""), run("host = { tso = 44, gro = true }"));
    assert_eq!(each.packets_delivered, bursts.packets_delivered);
    let acks = |report: &Report| report.packets.sent - report.packets_delivered;
    assert!(acks(&each) > 680 && acks(&bursts) < 200, "{} {}", acks(&each), acks(&bursts));
    assert_eq!(bursts.rto_timeouts, 0);
}

#[test]
fn small_queues_let_others_of_a_host_through() {
    // Two connections of one host: without small queues, what one has written waits before the other's.
    let run = |host: &str| {
        report(&format!(
            "senders = 2\nrounds = 20\nnetwork = {{ sender_hosts = 1, rtt = \"10ms\" }}\ntcp = {{ initial_window = 400, timestamps = true }}\nhost = {{ tso = 4{host} }}\n\
             workload = {{ volume = \"500KB\", start_jitter = \"1ms\" }}"
        ))
    };
    let (long, short) = (run(""), run(", small_queues = true"));
    assert_eq!(long.packets_delivered, short.packets_delivered);
    assert_eq!((long.drops, short.drops), (0, 0));
    // What waits is a millisecond's worth of each, instead of both windows.
    let waits = |report: &Report| report.rtt_us.p50 - 10_000.0;
    assert!(waits(&short) < 0.5 * waits(&long), "{} {}", short.rtt_us.p50, long.rtt_us.p50);
}

#[test]
fn losses_amid_bursts_are_recovered_from() {
    let report = report(
        "senders = 24\nrounds = 3\nswitch.buffer = \"40KB\"\nhost = { tso = 44, gro = true, burst_time = \"1us\", small_queues = true }\n\
         tcp = { sack = true, initial_window = 10, delayed_ack = \"40ms\" }",
    );
    assert!(report.complete && report.drops > 0, "{report:?}");
}
