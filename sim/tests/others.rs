//! Traffic that no scheme acts on, beside incast: datagrams, and connections that are left alone.

mod common;
#[path = "common/linux.rs"]
mod common_linux;
#[path = "common/pulled.rs"]
mod common_pulled;

use ackgate_sim::report::{GroupReport, Report};
use common_linux::LINUX;

/// Exact credit whose budget is searched for.
const AUTO: &str = "credit\"\npac.auto = true\npac.threshold = \"4MB\" # \"";

/// Kept senders of CUBIC, 64 KB each, through a port of 96 KB, beside others.
fn pulled(scheme: &str, senders: u32, rounds: u32, rest: &str) -> Report {
    common_pulled::pulled(scheme, senders, "64KB", rounds, LINUX, rest)
}

fn datagrams(mbps: u32, burst: u32) -> String {
    format!("background = [{{ workload = {{ kind = \"datagrams\", rate = \"{mbps}mbit\", burst = {burst} }} }}]")
}

fn beside(report: &Report) -> &GroupReport {
    report.groups.iter().find(|group| group.name == "background0").expect("a group in the background")
}

#[test]
fn datagrams_come_at_their_rate_whatever_becomes_of_them() {
    let mbps = |senders, rounds, rest: &str| beside(&pulled("none", senders, rounds, rest)).goodput_mbps;
    let one = mbps(1, 1000, &datagrams(100, 4));
    assert!((99.0..101.0).contains(&one), "one sender leaves them what they need: {one} Mb/s");
    let many = mbps(200, 20, &datagrams(100, 4));
    assert!((80.0..99.0).contains(&many), "200 overflow the port: {many} Mb/s");
}

#[test]
fn datagrams_begin_and_end_when_they_are_told_to() {
    let rest = "workload = { kind = \"datagrams\", start = \"10ms\", stop = \"60ms\", payload = \"1KB\" }";
    let report = pulled("none", 1, 200, &format!("background = [{{ senders = 3, {rest} }}]"));
    assert!(report.simulated_s > 0.1, "{} s", report.simulated_s);
    let bytes = beside(&report).goodput_mbps * report.simulated_s * 125_000.0;
    assert!((1.86e6..1.89e6).contains(&bytes), "3 x 100 Mb/s for 50 ms are 1.875 MB: {bytes}");
}

#[test]
fn what_is_left_alone_is_not_touched() {
    let alone = |scheme: &str| {
        let rest = "background = [{ guarded = false, senders = 4, workload = { kind = \"long\", stop = \"300ms\" } }]";
        let report = pulled(scheme, 1, 1, rest);
        (beside(&report).goodput_mbps, report.drops)
    };
    assert_eq!(alone("window-only"), alone("none"));
}

#[test]
fn room_is_left_to_datagrams() {
    // Before there was any, 64 senders had 404 and 329 Mb/s, and 156 and 128 beside 500 Mb/s.
    for (scheme, mbps, least) in
        [("credit", 300, 620.0), ("pac", 300, 560.0), (AUTO, 300, 620.0), ("credit", 500, 430.0), ("pac", 500, 400.0)]
    {
        let report = pulled(scheme, 64, 200, &datagrams(mbps, 1));
        assert!(report.goodput_mbps >= least, "{scheme} beside {mbps} Mb/s: {} Mb/s", report.goodput_mbps);
        assert!(beside(&report).goodput_mbps >= f64::from(mbps) * 0.99, "{scheme}: {:?}", beside(&report));
    }
}

#[test]
fn what_waits_behind_datagrams_makes_no_path_longer() {
    // The port takes 4 ms to drain: 78 Mb/s with 817 timeouts.
    let rest = format!("network = {{ rate = \"200mbit\", sender_rate = \"10gbit\" }}\n{}", datagrams(80, 4));
    let report = pulled("credit", 64, 60, &rest);
    assert!(
        report.goodput_mbps >= 105.0 && report.rto_timeouts < 10,
        "{} Mb/s, {} timeouts",
        report.goodput_mbps,
        report.rto_timeouts
    );
}

#[test]
fn a_few_senders_keep_their_part_beside_connections_that_are_left_alone() {
    // What such flows lose by chance decides: the mean of six runs.
    let rest = "background = [{ guarded = false, senders = 4, rate = \"10gbit\", rtt = \"1ms\" }]";
    let mean = |scheme: &str| {
        (1..=6).map(|seed| pulled(scheme, 8, 400, &format!("seed = {seed}\n{rest}")).goodput_mbps).sum::<f64>() / 6.0
    };
    let unguarded = mean("none");
    for scheme in ["credit", AUTO] {
        let guarded = mean(scheme);
        assert!(guarded >= 0.6 * unguarded, "{scheme}: {guarded} of {unguarded} Mb/s");
    }
}
