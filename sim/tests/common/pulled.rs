//! Rounds that kept senders of CUBIC are asked for.

use ackgate_sim::report::Report;

use crate::common::report;

/// So much from each, with these settings of TCP besides and the rest of the scenario.
pub(crate) fn pulled(scheme: &str, senders: u32, volume: &str, rounds: u32, tcp: &str, rest: &str) -> Report {
    let report = report(&format!(
        r#"
scheme = "{scheme}"
senders = {senders}
rounds = {rounds}
time_limit = "120s"
tcp = {{ cc = "cubic", sack = true, dsack = true, timestamps = true, initial_window = 10, {tcp} }}
workload = {{ kind = "rounds", volume = "{volume}", connections = "persistent", direction = "pull" }}
{rest}
"#
    ));
    assert!(report.complete, "{scheme}: {rest}");
    report
}
