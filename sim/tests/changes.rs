//! A network that is not what it was when the connections began, or was never one way: routes and links that change, packets
//! that others overtake.

mod common;
#[path = "common/pulled.rs"]
mod common_pulled;

use ackgate_sim::report::Report;

/// Exact credit whose budget is searched for.
const AUTO: &str = "credit\"\npac.auto = true # \"";

/// Kept senders of CUBIC that are asked for so much, in a network that is so.
fn pulled(scheme: &str, senders: u32, volume: &str, rounds: u32, network: &str) -> Report {
    // Nothing is lost unguarded where one sender is alone.
    let window = if senders == 1 { "80KB" } else { "4MB" };
    common_pulled::pulled(scheme, senders, volume, rounds, &format!("rwnd = \"{window}\""), network)
}

/// Paths of so long that are another length from then on.
fn moved(before: &str, at: &str, after: &str) -> String {
    format!("network.rtt = \"{before}\"\nchange = [{{ at = \"{at}\", rtt = \"{after}\" }}]")
}

#[test]
fn a_link_that_changes_its_rate_is_as_fast_as_it_is() {
    let report = pulled("none", 1, "10MB", 4, "change = [{ at = \"100ms\", rate = \"100mbit\" }]");
    // 11 MB in the first 100 ms, 29 MB in the 2.4 s after.
    assert!((120.0..135.0).contains(&report.goodput_mbps), "{} Mb/s", report.goodput_mbps);
    assert!((0.95..=1.0).contains(&report.link_use), "{} of the time", report.link_use);
}

#[test]
fn a_path_that_changes_its_length_is_as_long_as_it_is() {
    // One segment each way in each round.
    let took = |network: &str| pulled("none", 1, "1KB", 100, network).round_ms;
    let before = took("network.rtt = \"1ms\"");
    let after = took(&moved("1ms", "50ms", "4ms"));
    assert!((1.0..1.1).contains(&before.p50) && before.max < 1.1, "{before:?}");
    assert!((4.0..4.1).contains(&after.p50), "{after:?}");
    let shorter = took(&moved("4ms", "50ms", "1ms"));
    assert!((4.0..4.1).contains(&shorter.max) && (1.0..1.1).contains(&shorter.p50), "{shorter:?}");
}

#[test]
fn a_port_that_changes_what_it_holds_holds_that() {
    // Slow starts into so much.
    let drops = |buffer: &str, change: &str| {
        pulled(
            "none",
            4,
            "1MB",
            2,
            &format!("switch.buffer = \"{buffer}\"\nchange = [{{ at = \"0\", buffer = \"{change}\" }}]"),
        )
        .drops
    };
    let (small, large) = (drops("20KB", "20KB"), drops("unlimited", "unlimited"));
    assert!(small > 0 && large == 0, "{small} {large}");
    assert_eq!((drops("unlimited", "20KB"), drops("20KB", "unlimited")), (small, large));
}

#[test]
fn packets_overtake_others_as_often_as_they_are_told_to() {
    // A sender that takes three duplicates for a loss repeats nothing where one other overtakes, and much where ten do.
    let repeats = |network: &str| {
        let report = pulled("none", 1, "10MB", 1, network);
        assert_eq!(report.drops, 0, "{network}");
        report.retransmits
    };
    assert_eq!(repeats(""), 0);
    assert_eq!(repeats("network = { reorder = 0.1, detour = \"20us\" }"), 0);
    assert!(repeats("network = { reorder = 0.1, detour = \"200us\" }") > 50);
}

#[test]
fn senders_whose_paths_become_longer_keep_the_link_busy() {
    // Exact credit had 106 to 118 Mb/s, a third of what they have unguarded.
    for scheme in ["credit", AUTO] {
        for (senders, volume, rounds, least) in [(8, "1MB", 20, 600.0), (8, "64KB", 60, 250.0)] {
            let network = moved("120us", "100ms", "5ms");
            let [alone, guarded] = ["none", scheme].map(|scheme| pulled(scheme, senders, volume, rounds, &network));
            let (alone, seen) = (alone.goodput_mbps, guarded.goodput_mbps);
            assert!(seen > least && seen > 0.95 * alone, "{scheme}, {senders} of {volume}: {seen} of {alone} Mb/s");
        }
    }
}

#[test]
fn a_link_that_becomes_slower_makes_no_path_longer() {
    // What a full port takes then is no length: taken for one, it overflowed the port in every round.
    for scheme in ["credit", AUTO] {
        let report = pulled(scheme, 64, "64KB", 60, "change = [{ at = \"300ms\", rate = \"500mbit\" }]");
        let seen = report.goodput_mbps;
        assert!(report.rto_timeouts < 64 && seen > 440.0, "{scheme}: {seen} Mb/s, {}", report.rto_timeouts);
    }
}

#[test]
fn many_senders_whose_paths_become_shorter_do_not_overflow_the_port_for_good() {
    // Exact credit had a timeout in every round: what was granted was still reckoned to be on a long path.
    let report = pulled("credit", 64, "64KB", 60, &moved("5ms", "600ms", "200us"));
    assert!(report.goodput_mbps > 500.0, "{} Mb/s", report.goodput_mbps);
    assert!(report.rounds_with_timeout <= 3, "{} rounds", report.rounds_with_timeout);
}

#[test]
fn packets_that_others_overtake_are_no_losses() {
    // Under PAC, whose model of the windows halved at each, 101 Mb/s with 92 timeouts.
    for scheme in ["credit", AUTO, "pac"] {
        let network = "network = { reorder = 0.1, detour = \"20us\" }";
        let report = pulled(scheme, 32, "64KB", 40, network);
        let seen = report.goodput_mbps;
        assert!(report.rto_timeouts == 0 && seen > 850.0, "{scheme}: {seen} Mb/s, {} timeouts", report.rto_timeouts);
    }
}
