//! Tables that show a reviewer what a change does to the simulated behaviour: goodput by senders, as snapshots.
//!
//! After a change that is meant to move them: `INSTA_UPDATE=always cargo test -p ackgate-sim --test snapshot`, then read
//! the diff.

use std::fmt::Write;

use ackgate_sim::observer::Nobody;
use ackgate_sim::scenario::{Capacity, CongestionControl, Connections, Discipline, Ecn, Rounds, Scenario, Workload};

/// PAC §V-E at 1 Gb/s: 96 KB, 120 us, MSS 1460, RTOmin 200 ms, no delayed ACK, 20 us of start jitter; ten rounds of
/// 64 KB from each sender on new connections.
fn table(scenario: impl Fn() -> Scenario) -> String {
    let mut table =
        String::from("senders  goodput Mb/s  rounds with timeout  timeouts   drops  p50 ms  queue mean B\n");
    for senders in [1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 256] {
        let workload = Rounds { connections: Connections::Fresh, ..Rounds::default() };
        let scenario = Scenario { senders, rounds: 10, workload: Workload::Rounds(workload), ..scenario() };
        let report = ackgate_sim::run(&scenario, &mut Nobody).expect("a valid scenario has a result");
        let (goodput, stalled, timeouts) = (report.goodput_mbps, report.rounds_with_timeout, report.rto_timeouts);
        let (drops, median, queue) = (report.drops, report.round_ms.p50, report.queue_bytes.mean);
        writeln!(
            table,
            "{senders:7}  {goodput:12.1}  {stalled:19}  {timeouts:8}  {drops:6}  {median:6.1}  {queue:12.0}"
        )
        .expect("writing to a string does not fail");
    }
    table
}

#[test]
fn newreno_over_drop_tail() {
    insta::assert_snapshot!(table(Scenario::default));
}

#[test]
fn dctcp_over_step_marking() {
    insta::assert_snapshot!(table(|| {
        let mut scenario = Scenario::default();
        scenario.tcp.cc = CongestionControl::Dctcp;
        scenario.switch.discipline = Discipline::Ecn(Ecn { mark_above: Capacity::Packets(10), ..Ecn::default() });
        scenario
    }));
}
