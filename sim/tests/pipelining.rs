//! Several requests outstanding on each connection, as clients of storage and of HTTP/2 have.

mod common;
#[path = "common/linux.rs"]
mod common_linux;

use ackgate_sim::report::Report;
use common_linux::LINUX;

/// Both searches for a budget and given ones.
const GUARDS: [&str; 2] = ["credit", "credit\"\npac.auto = true # \""];

/// Closed loops that last for half a second, the first tenth of which does not count: each of `senders` always has so many answers of `volume` to give.
fn loops(scheme: &str, senders: u32, outstanding: u32, volume: &str, rtt: &str) -> Report {
    common::report(&format!(
        r#"
scheme = "{scheme}"
senders = {senders}
rounds = 1
warm_up = "100ms"
time_limit = "600ms"
network.rtt = "{rtt}"
tcp = {{ cc = "cubic", sack = true, dsack = true, timestamps = true, initial_window = 10, {LINUX} }}
workload = {{ direction = "pull", volume = "{volume}", answers = 1000000, outstanding = {outstanding} }}
"#
    ))
}

/// Guarded over unguarded goodput is at least so much with both guards at each point: senders, requests outstanding, size of an answer, RTT.
fn assert_worth(least: f64, points: &[(u32, u32, &str, &str)]) {
    for &(senders, outstanding, volume, rtt) in points {
        let unguarded = loops("none", senders, outstanding, volume, rtt).goodput_mbps;
        for guard in GUARDS {
            let guarded = loops(guard, senders, outstanding, volume, rtt);
            let worth = guarded.goodput_mbps / unguarded;
            let point = format!("{senders} senders, {outstanding} x {volume}, {rtt}, {guard}");
            assert!(worth >= least, "{point}: {:.0} Mb/s of {unguarded:.0}", guarded.goodput_mbps);
            assert_eq!(guarded.rto_timeouts, 0, "{point}");
        }
    }
}

#[test]
fn the_next_answer_is_asked_for_when_one_is_complete() {
    // Unloaded, so many answers of one segment come in each round trip.
    let mbps = |outstanding| loops("none", 1, outstanding, "1KB", "1ms").goodput_mbps;
    let one = mbps(1);
    assert!((7.5..8.1).contains(&one), "1000 octets in somewhat more than a millisecond: {one} Mb/s");
    for outstanding in [2, 5] {
        let several = mbps(outstanding) / f64::from(outstanding);
        assert!((0.9..1.1).contains(&(several / one)), "{several} and {one} Mb/s");
    }
}

#[test]
fn a_round_lasts_until_all_answers_of_each_sender_have_come() {
    for (connections, outstanding) in [("persistent", 1), ("persistent", 3), ("fresh", 1), ("fresh", 3)] {
        let report = common::report(&format!(
            r#"
senders = 3
rounds = 4
workload = {{ direction = "pull", volume = "10KB", answers = 5, outstanding = {outstanding}, connections = "{connections}" }}
"#
        ));
        assert!(report.complete);
        let rounds = report.round_goodput_mbps / 8.0 * report.round_ms.mean * 1e3;
        assert!((149_000.0..151_000.0).contains(&rounds), "{connections}, {outstanding}: {rounds} octets in a round");
    }
}

#[test]
fn one_connection_or_a_few_have_room_for_all_that_they_have_asked_for() {
    let one = [(1, 2, "4KB", "120us"), (1, 4, "20KB", "1ms"), (1, 16, "4KB", "1ms"), (1, 2, "256KB", "5ms")];
    let few = [(2, 16, "4KB", "1ms"), (4, 4, "20KB", "5ms"), (8, 2, "4KB", "5ms"), (8, 16, "1KB", "1ms")];
    assert_worth(0.97, &one);
    assert_worth(0.95, &few);
}

#[test]
fn among_many_nothing_that_was_asked_for_is_lost() {
    assert_worth(0.97, &[(64, 2, "4KB", "120us"), (64, 4, "20KB", "1ms"), (200, 2, "20KB", "120us")]);
    // What comes while requests are held is not paced again.
    assert_worth(0.8, &[(64, 4, "4KB", "1ms")]);
}

#[test]
fn under_pac_loops_fill_the_link_too() {
    // Senders, requests outstanding, size of an answer, RTT; the first two had 0.61 and 0.43 of the link when ACKs that wait before a request
    // were charged with its answer as well, the last 0.74 when the window of each flow was as large as budget and path together.
    for (senders, outstanding, volume, rtt) in
        [(64, 1, "64KB", "120us"), (200, 1, "64KB", "120us"), (64, 4, "20KB", "120us"), (64, 1, "256KB", "1ms")]
    {
        let report = loops("pac", senders, outstanding, volume, rtt);
        let point = format!("{senders} senders, {outstanding} x {volume}, {rtt}");
        assert!(report.goodput_mbps > 830.0, "{point}: {} Mb/s", report.goodput_mbps);
    }
}
