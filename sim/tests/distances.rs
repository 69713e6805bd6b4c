//! Incast over paths of one to a hundred milliseconds.

use ackgate_sim::observer::Nobody;
use ackgate_sim::scenario::{Assignment, Document};

/// Today's hosts.
const CLUSTER: &str = include_str!("../../scenarios/my-cluster.toml");
/// A port, its buffer, and the round trip behind it.
type Path = [&'static str; 3];
/// What each sender sends, over which connections, and whether it is asked.
type Response = [&'static str; 3];

/// Goodput of twelve rounds, Mb/s, and timeouts in them, with so long a minimum timeout. `auto`: exact credit that finds its budget.
fn rounds(rto_min: &str, scheme: &str, path: Path, senders: u32, response: Response) -> (f64, u64) {
    rounds_of(&[("tcp.rto_min", rto_min)], scheme, path, senders, response)
}

/// The same with these settings beside.
fn rounds_of(
    settings: &[(&str, &str)],
    scheme: &str,
    [rate, buffer, rtt]: Path,
    senders: u32,
    [volume, connections, direction]: Response,
) -> (f64, u64) {
    let mut document = Document::parse("my-cluster.toml", CLUSTER).expect("TOML");
    let (scheme, auto) = if scheme == "auto" { ("credit", "true") } else { (scheme, "false") };
    let given = [
        ("scheme", scheme),
        ("pac.auto", auto),
        ("rounds", "12"),
        ("senders", &senders.to_string()),
        ("network.rate", rate),
        ("network.sender_rate", "10gbit"),
        ("network.rtt", rtt),
        ("switch.buffer", buffer),
        ("workload.volume", volume),
        ("workload.connections", connections),
        ("workload.direction", direction),
        // As Linux counts.
        ("tcp.timestamp_clock", "1ms"),
        ("tcp.rto_granularity", "1ms"),
    ];
    for (key, value) in given.iter().chain(settings) {
        let change = Assignment::parse("--set", &format!("{key}={value}"));
        change.and_then(|change| document.set(&change)).expect(key);
    }
    let scenario = document.scenario().expect("a whole scenario");
    let results = ackgate_sim::run(&scenario, &mut Nobody).expect("packets add up");
    (results.goodput_mbps, results.rto_timeouts)
}

/// What a guard that is told the port is worth.
fn worth(scheme: &str, path: Path, senders: u32, response: Response) -> f64 {
    worth_with("200ms", scheme, path, senders, response)
}

/// The same with so long a minimum timeout.
fn worth_with(rto_min: &str, scheme: &str, path: Path, senders: u32, response: Response) -> f64 {
    let goodput = |scheme| rounds(rto_min, scheme, path, senders, response).0;
    goodput(scheme) / goodput("none")
}

#[test]
fn under_pac_requests_do_not_wait_for_responses_that_come_window_by_window() {
    // With the pace of whole responses these had 0.84, 0.48 and 0.53.
    assert!(worth("pac", ["200mbit", "96KB", "20ms"], 64, ["64KB", "persistent", "pull"]) > 1.3);
    assert!(worth("pac", ["1gbit", "512KB", "2ms"], 4, ["20KB", "persistent", "pull"]) > 0.97);
    assert!(worth("pac", ["10gbit", "2MB", "1ms"], 64, ["20KB", "persistent", "pull"]) > 0.97);
}

#[test]
fn a_link_that_is_idle_for_most_of_a_round_trip_is_not_taken_for_a_slow_one() {
    // Arrivals were counted over round trips of 50 ms, and the link was reckoned with 227 Mb/s: 0.83.
    assert!(worth("credit", ["1gbit", "512KB", "50ms"], 200, ["64KB", "fresh", "pull"]) > 2.0);
}

#[test]
fn flights_that_wait_for_a_round_trip_of_a_hundred_milliseconds_are_not_taken_for_losses() {
    // Budgets were cut, and a given buffer doubted, although nothing was lost: 0.66 and 0.73.
    for scheme in ["credit", "auto"] {
        assert!(worth(scheme, ["1gbit", "4MB", "100ms"], 16, ["64KB", "persistent", "pull"]) > 0.9, "{scheme}");
    }
}

#[test]
fn over_a_long_path_windows_that_were_left_wide_keep_nobody_waiting() {
    // Charged for all of their windows, a few of 32 left no room for the others: ten timeouts, of requests that waited, and 0.93.
    let rounds = |scheme| {
        let settings = [("tcp.rwnd", "512KB"), ("workload.start_jitter", "100ms"), ("rounds", "40")];
        rounds_of(&settings, scheme, ["200mbit", "2MB", "100ms"], 32, ["64KB", "persistent", "pull"])
    };
    let (unguarded, (guarded, timeouts)) = (rounds("none").0, rounds("credit"));
    assert!(guarded > 0.95 * unguarded && timeouts < 3, "{guarded} of {unguarded} Mb/s, {timeouts} timeouts");
}

#[test]
fn a_few_new_connections_do_not_wait_for_what_slow_start_does_not_send() {
    // Charged for all of their responses, ten of sixteen left no room for the others: 0.70 and 0.86.
    assert!(worth("credit", ["10gbit", "2MB", "1ms"], 16, ["256KB", "fresh", "pull"]) > 0.94);
    assert!(worth("credit", ["1gbit", "512KB", "2ms"], 16, ["64KB", "fresh", "pull"]) > 0.94);
}

#[test]
fn short_responses_that_fit_together_are_asked_for_together() {
    // Twelve whole answers are 1 KB more than the budget: the last two came a round trip later, and had two of their four segments then.
    // Kept for twelve rounds of 4.6 ms, of which the first takes 9.8: 0.65 before.
    assert!(worth("credit", ["200mbit", "96KB", "2ms"], 12, ["5KB", "persistent", "pull"]) > 0.87);
    // The pace was kept by windows of 29 KB: 0.83.
    assert!(worth("credit", ["1gbit", "256KB", "10ms"], 40, ["5KB", "persistent", "pull"]) > 0.93);
}

#[test]
fn messages_that_nobody_asks_for_and_that_fit_together_wait_for_nothing() {
    // Windows that stopped senders had kept counted against the budget for 2 ms: 0.27.
    assert!(worth("credit", ["10gbit", "1MB", "100us"], 40, ["5KB", "persistent", "push"]) > 0.97);
    // Twelve initial windows are 1 % more than the budget, and two segments came first: 0.66.
    assert!(worth("credit", ["1gbit", "256KB", "2ms"], 12, ["5KB", "fresh", "push"]) > 0.93);
}

#[test]
fn where_timers_are_short_nobody_waits_for_the_responses_of_others() {
    // Ends of responses were granted whole to senders whose windows were a sixth of that, and who had ended timed out: 1750 Mb/s.
    let (goodput, timeouts) = rounds("5ms", "credit", ["10gbit", "1MB", "2ms"], 150, ["200KB", "persistent", "pull"]);
    assert!(goodput > 8_000.0 && timeouts == 0, "{goodput} Mb/s, {timeouts} timeouts");
    // In pairs, two segments of each left the path idle for a quarter of the time: 0.69.
    assert!(worth_with("5ms", "credit", ["200mbit", "96KB", "2ms"], 12, ["200KB", "persistent", "pull"]) > 0.94);
    // What fits was believed to come too late: 0.87.
    assert!(worth_with("5ms", "credit", ["1gbit", "256KB", "500us"], 40, ["5KB", "persistent", "pull"]) > 0.95);
}

#[test]
fn where_timers_are_short_a_budget_that_nobody_gave_is_shared_by_the_ends_of_all_responses() {
    // With a given budget they were: 4192 and 4629 Mb/s.
    let path = ["10gbit", "1MB", "500us"];
    let (goodput, _) = rounds("5ms", "auto", path, 150, ["64KB", "persistent", "pull"]);
    assert!(goodput > 5_000.0, "{goodput} Mb/s");
    let (goodput, _) = rounds("5ms", "auto", ["10gbit", "1MB", "1ms"], 150, ["200KB", "persistent", "pull"]);
    assert!(goodput > 6_000.0, "{goodput} Mb/s");
}

#[test]
fn under_pac_where_timers_are_short_windows_leave_room_for_all() {
    // What waited for whole windows would have come too late, so that all passed and overflowed the port: 0.98 and 0.93.
    assert!(worth_with("5ms", "pac", ["10gbit", "1MB", "10ms"], 12, ["200KB", "persistent", "pull"]) > 8.0);
    assert!(worth_with("5ms", "pac", ["1gbit", "256KB", "500us"], 150, ["40KB", "fresh", "pull"]) > 1.3);
    // Over a path longer than the timer initial windows come in fewer round trips: 0.72.
    assert!(worth_with("5ms", "pac", ["1gbit", "256KB", "10ms"], 150, ["5KB", "fresh", "pull"]) > 0.95);
}

#[test]
fn under_pac_new_connections_are_charged_no_more_than_they_are_shown() {
    // Ten segments were charged for windows of four: 1.10.
    assert!(worth("pac", ["1gbit", "96KB", "500us"], 16, ["64KB", "fresh", "pull"]) > 1.25);
}

#[test]
fn servers_that_think_are_asked_at_the_links_pace_although_not_all_answers_would_fit() {
    // What came while they thought was taken for a queue that the port cannot hold, and the budget bound the requests: 320 and 139 Mb/s.
    let think = [("workload.start_jitter", "10ms")];
    for (scheme, least) in [("credit", 400.0), ("auto", 330.0)] {
        let (goodput, timeouts) =
            rounds_of(&think, scheme, ["1gbit", "256KB", "100us"], 150, ["5KB", "persistent", "pull"]);
        assert!(goodput > least && timeouts == 0, "{scheme}: {goodput} Mb/s, {timeouts} timeouts");
    }
}

#[test]
fn senders_that_marks_slow_down_leave_their_shares_to_others() {
    // Shares of a budget for sixteen were charged to senders whose windows were a few segments: 6107 Mb/s.
    let marks = [("tcp.cc", "dctcp"), ("switch.discipline", r#"{ kind = "ecn", mark_above = "66p" }"#)];
    let (goodput, timeouts) =
        rounds_of(&marks, "credit", ["10gbit", "1MB", "100us"], 150, ["200KB", "persistent", "pull"]);
    assert!(goodput > 8_500.0 && timeouts == 0, "{goodput} Mb/s, {timeouts} timeouts");
}

#[test]
fn callers_from_afar_are_not_held_as_if_they_were_near() {
    for (path, volume, senders, least) in [
        // SYN-ACKs left a budget in a round trip, for good: 119 Mb/s with `auto`, 291 with `credit`; 530 and 1129.
        (["1gbit", "256KB", "2ms"], "5KB", 40, 0.9),
        (["10gbit", "1MB", "2ms"], "5KB", 150, 0.9),
        // And what the path held seemed to stand in the queue: 50 and 98 Mb/s, unguarded 80 and 1324 timeouts.
        (["200mbit", "96KB", "10ms"], "40KB", 150, 2.0),
    ] {
        for scheme in ["auto", "credit"] {
            let worth = worth(scheme, path, senders, [volume, "fresh", "push"]);
            assert!(worth > least, "{scheme}, {path:?}: {worth:.2}");
        }
    }
}

#[test]
fn the_ends_of_responses_do_not_come_uncounted() {
    // Half a jumbo frame each: 104 Mb/s and 58 timeouts, with `auto` 108 and 62.
    for scheme in ["credit", "auto"] {
        let jumbo = [("tcp.mss", "8960")];
        let (goodput, timeouts) =
            rounds_of(&jumbo, scheme, ["200mbit", "96KB", "5ms"], 150, ["40KB", "persistent", "pull"]);
        assert!(goodput > 170.0 && timeouts == 0, "{scheme}: {goodput} Mb/s, {timeouts} timeouts");
    }
}

#[test]
fn short_responses_in_jumbo_frames_are_not_charged_as_two_of_them() {
    for (path, senders, connections, least) in [
        // For good: 243 and 2590 Mb/s with `auto`; 840 and 6875 with `credit`, whose budget holds two of each.
        (["1gbit", "256KB", "100us"], 40, "fresh", 0.93),
        (["10gbit", "1MB", "100us"], 150, "fresh", 0.93),
        // 1910 and 2201 Mb/s.
        (["10gbit", "1MB", "500us"], 150, "fresh", 0.93),
        // Two of them were part of the pace: 264 Mb/s with `auto`.
        (["1gbit", "256KB", "500us"], 40, "persistent", 0.8),
    ] {
        let goodput = |scheme| rounds_of(&[("tcp.mss", "8960")], scheme, path, senders, ["5KB", connections, "pull"]).0;
        for scheme in ["auto", "credit"] {
            let worth = goodput(scheme) / goodput("none");
            assert!(worth > least, "{scheme}, {path:?}: {worth:.2}");
        }
    }
}

#[test]
fn many_short_answers_do_not_fill_the_port_at_once() {
    // Nobody held what asks for them: 8, 3 and 4 Mb/s, and 10 of 1000 in jumbo frames, with as many timeouts as without a guard.
    for (path, senders, volume, mss, least) in [
        (["1gbit", "96KB", "100us"], 200, "2KB", "1448", 700.0),
        (["200mbit", "96KB", "500us"], 150, "1KB", "1448", 130.0),
        (["1gbit", "96KB", "10ms"], 600, "1KB", "1448", 150.0),
        (["1gbit", "256KB", "100us"], 150, "5KB", "8960", 850.0),
    ] {
        // PAC's first windows of jumbo frames overflow the port.
        for scheme in ["credit", "auto", "pac"].into_iter().take(if mss == "8960" { 2 } else { 3 }) {
            let (goodput, timeouts) =
                rounds_of(&[("tcp.mss", mss)], scheme, path, senders, [volume, "persistent", "pull"]);
            assert!(
                goodput > least && timeouts == 0,
                "{scheme}, {senders} of {volume}, {path:?}: {goodput} Mb/s, {timeouts} timeouts"
            );
        }
    }
}

#[test]
fn short_answers_from_afar_keep_the_pace_of_what_they_take_on_the_link() {
    // Not by their size: 310 and 305 Mb/s in sixty rounds.
    for scheme in ["credit", "auto"] {
        let (goodput, timeouts) =
            rounds_of(&[("rounds", "60")], scheme, ["1gbit", "96KB", "2ms"], 600, ["1KB", "persistent", "pull"]);
        assert!(goodput > 500.0 && timeouts == 0, "{scheme}: {goodput} Mb/s, {timeouts} timeouts");
    }
}

#[test]
fn short_answers_that_fit_the_port_are_not_held() {
    for scheme in ["credit", "auto", "pac"] {
        // Ten times as many rounds, for in the first nobody
        // knows how short answers are.
        for (path, volume) in [(["10gbit", "1MB", "100us"], "1KB"), (["1gbit", "96KB", "100us"], "2KB")] {
            let settings = [("rounds", "120")];
            let goodput = |scheme| rounds_of(&settings, scheme, path, 40, [volume, "persistent", "pull"]).0;
            let worth = goodput(scheme) / goodput("none");
            assert!(worth > 0.95, "{scheme}, {path:?}: {worth:.2}");
        }
    }
}

#[test]
fn short_answers_that_overflow_a_very_shallow_port_are_noticed_and_come_more_slowly() {
    // 8, 20, 3 and 8 Mb/s without what tells of answers that leave no hole, and with room for as many as most ports hold.
    for (buffer, senders, volume, least) in [
        ("32KB", 200, "1KB", 400.0),
        ("32KB", 200, "2KB", 700.0),
        ("24KB", 400, "500B", 300.0),
        ("48KB", 200, "1KB", 450.0),
    ] {
        let settings = [("rounds", "400"), ("pac.threshold", "4MB"), ("tcp.dsack", "true")];
        let (goodput, _) =
            rounds_of(&settings, "auto", ["1gbit", buffer, "100us"], senders, [volume, "persistent", "pull"]);
        assert!(goodput > least, "{senders} of {volume}, {buffer}: {goodput} Mb/s");
    }
}

#[test]
fn a_guard_that_is_told_nothing_notices_that_answers_of_one_segment_are_lost() {
    for (rate, senders, volume, least) in [("200mbit", 200, "1KB", 130.0), ("1gbit", 400, "500B", 400.0)] {
        // So low a rate is none.
        let settings = [("rounds", "400"), ("pac.threshold", "4MB"), ("pac.rate", "1kbit"), ("tcp.dsack", "true")];
        let (goodput, _) =
            rounds_of(&settings, "auto", [rate, "96KB", "100us"], senders, [volume, "persistent", "pull"]);
        assert!(goodput > least, "{senders} of {volume}, {rate}: {goodput} Mb/s; 8 as without a guard");
    }
}
