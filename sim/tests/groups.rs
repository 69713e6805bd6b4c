//! Senders in groups: paths and TCP of their own, a part in the main workload or a workload of their own, and figures for
//! each.

mod common;

use ackgate_sim::report::{GroupReport, Report};

use common::report;

fn of<'a>(report: &'a Report, name: &str) -> &'a GroupReport {
    report.groups.iter().find(|group| group.name == name).unwrap_or_else(|| panic!("no {name}: {report:?}"))
}

#[test]
fn a_group_without_a_workload_takes_part_in_the_main_one() {
    let joined = report("senders = 3\nrounds = 4\n[[group]]\nname = \"more\"\nsenders = 2\n[[group]]\nsenders = 1\n");
    let together = report("senders = 6\nrounds = 4\n");
    assert_eq!((joined.senders, joined.rounds), (6, 4));
    // Alike in all but their names: the same run.
    assert_eq!(
        (joined.round_ms, joined.flow_ms, joined.packets),
        (together.round_ms, together.flow_ms, together.packets)
    );
    assert_eq!(joined.groups.iter().map(|group| group.flows).collect::<Vec<_>>(), [12, 8, 4]);
    assert!(together.groups.is_empty());
}

#[test]
fn a_group_has_the_round_trip_time_that_it_asks_for_in_every_topology() {
    let tree = "{ kind = \"tree\", receiver_at = \"a\", senders_at = [\"b\"], switches = [{ name = \"a\" }, { name = \"b\", uplink = \"a\" }] }";
    for topology in ["\"star\"", "\"core\"", "\"dumbbell\"", "\"leaf-spine\"", tree] {
        let report = report(&format!(
            "senders = 1\nrounds = 3\nnetwork = {{ topology = {topology}, rtt = \"300us\" }}\n\
             workload = {{ volume = \"1KB\", start_jitter = 0 }}\n\
             [[group]]\nname = \"far\"\nrtt = \"20ms\"\nworkload = {{ kind = \"rounds\", volume = \"1KB\", start_jitter = 0 }}\n"
        ));
        // A flow is there after half a round trip, and some frame times.
        let (near, far) = (of(&report, "main").flow_ms.p50, of(&report, "far").flow_ms.p50);
        assert!((0.15..0.25).contains(&near), "{topology}: {near}");
        assert!((10.0..10.1).contains(&far), "{topology}: {far}");
    }
}

#[test]
fn groups_bring_their_own_tcp_and_links() {
    let run = |group: &str| {
        report(&format!(
            "senders = 1\nrounds = 1\nworkload = {{ volume = \"100KB\" }}\n[[group]]\nname = \"own\"\n{group}\n\
             workload = {{ kind = \"rounds\", volume = \"100KB\" }}"
        ))
    };
    let plain = run("");
    let slow_link = run("rate = \"10mbit\"");
    assert!(of(&slow_link, "own").flow_ms.p50 > 80.0 && of(&plain, "own").flow_ms.p50 < 10.0);
    let small = run("mss = 500");
    assert!(small.packets_delivered > plain.packets_delivered + 100, "{}", small.packets_delivered);
    let slow_acks = run("delayed_ack = \"40ms\"\ninitial_window = 1");
    assert!(of(&slow_acks, "own").flow_ms.p50 > 40.0 && of(&slow_acks, "main").flow_ms.p50 < 10.0);
    let jitter = run("jitter = \"5ms\"");
    assert!(of(&jitter, "own").flow_ms.p50 > of(&plain, "own").flow_ms.p50 + 2.0, "{jitter:?}");
    // A queue of three milliseconds, and a timer that does not wait for it.
    let hasty = |floor: &str| {
        report(&format!(
            "senders = 40\nrounds = 2\nswitch.buffer = \"unlimited\"\ntcp.initial_window = 8\n[[group]]\nname = \"hasty\"\nsenders = 2\nrto_min = \"{floor}\"\n"
        ))
    };
    let (fine, coarse) = (hasty("200us"), hasty("200ms"));
    assert!(of(&fine, "hasty").spurious_timeouts > 0 && of(&fine, "main").rto_timeouts == 0, "{fine:?}");
    assert_eq!(coarse.rto_timeouts, 0);
}

#[test]
fn kinds_of_traffic_are_told_apart_and_add_up() {
    let report = report(
        "senders = 4\nrounds = 5\n[[group]]\nname = \"long\"\nsenders = 2\nrtt = \"2ms\"\nworkload = \"long\"\n\
         [[group]]\nname = \"mice\"\nworkload = { kind = \"epochs\", epochs = 3, start = \"1ms\", interval = \"1ms\", size = \"1KB\" }\n\
         [[background]]\nname = \"beside\"\nto = \"beside\"\n",
    );
    let names: Vec<&str> = report.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["main", "beside", "long", "mice"]);
    assert_eq!((of(&report, "mice").flows, of(&report, "long").flows, of(&report, "main").flows), (3, 0, 20));
    let others: f64 = report.groups[1..].iter().map(|group| group.goodput_mbps).sum();
    assert!((report.background_goodput_mbps - others).abs() < 1e-6, "{report:?}");
    let timeouts: u64 = report.groups.iter().map(|group| group.rto_timeouts).sum();
    assert_eq!(report.rto_timeouts, timeouts);
}

#[test]
fn a_warm_up_leaves_slow_start_out() {
    let run = |warm_up: &str| {
        report(&format!(
            "senders = 1\ntime_limit = \"1s\"\nwarm_up = \"{warm_up}\"\nnetwork.rtt = \"20ms\"\nswitch.buffer = \"8MB\"\nworkload = \"long\""
        ))
    };
    let (whole, warm) = (run("0"), run("500ms"));
    assert!((warm.simulated_s - 0.5).abs() < 1e-9, "{}", warm.simulated_s);
    assert!(warm.goodput_mbps > 940.0 && whole.goodput_mbps < 900.0, "{} {}", warm.goodput_mbps, whole.goodput_mbps);
    // Rounds that are over before the warm-up is: there is nothing to tell a rate of.
    let short = report("senders = 2\nrounds = 1\nwarm_up = \"10s\"\n");
    assert_eq!((short.complete, short.goodput_mbps), (true, 0.0));
}

#[test]
fn spurious_timeouts_are_the_scheme_s_when_it_held_a_packet_meanwhile() {
    let run = |scheme: &str| {
        report(&format!(
            "senders = 200\nrounds = 2\nscheme = \"{scheme}\"\ntcp.rto_min = \"1ms\"\ntime_limit = \"60s\"\n\
             workload = {{ direction = \"pull\", connections = \"fresh\" }}"
        ))
    };
    let shaped = report(
        "senders = 8\nrounds = 2\nscheme = \"shaper\"\nshaper = { rate = 200, queue = 200 }\nswitch.buffer = \"unlimited\"\ntcp.rto_min = \"1ms\"",
    );
    // Eight senders over an endless buffer lose nothing and wait for nobody but the scheme.
    assert!(shaped.spurious_while_held > 0, "{shaped:?}");
    assert_eq!(shaped.spurious_while_held, shaped.spurious_timeouts);
    let plain = run("none");
    assert!(plain.spurious_timeouts > 0, "{plain:?}");
    assert_eq!(plain.spurious_while_held, 0);
}

#[test]
fn spurious_timeouts_behind_a_delayed_ack_are_not_the_scheme_s() {
    // Rounds take longer than RTOmin, and of some responses the last segment is an odd one.
    let report = report(
        "senders = 200\nrounds = 5\nscheme = \"credit\"\npac.auto = true\nnetwork = { rate = \"10gbit\", sender_rate = \"25gbit\", rtt = \"60us\" }\n\
         switch.buffer = \"512KB\"\nhost = { delay = \"10us\", jitter = \"5us\" }\nworkload = { direction = \"pull\", connections = \"persistent\", start_jitter = \"50us\" }\n\
         tcp = { rto_min = \"5ms\", delayed_ack = \"40ms\", sack = true, timestamps = true, initial_window = 10, cc = \"cubic\", rack = true, idle_restart = false, probe_ack_delay = \"200ms\" }",
    );
    assert!(report.spurious_timeouts > 0, "{report:?}");
    assert_eq!(report.spurious_while_held, 0);
}

#[test]
fn a_hold_above_the_floor_of_the_timers_is_warned_of_in_the_result() {
    let warned = report("senders = 1\nrounds = 1\nscheme = \"pac\"\ntcp.rto_min = \"5ms\"\npac.max_hold = \"20ms\"");
    assert_eq!(warned.warnings.len(), 1, "{warned:?}");
    assert!(warned.warnings[0].starts_with("pac.max_hold = 20ms is above the RTOmin of 5ms"), "{warned:?}");
    let quiet = report("senders = 1\nrounds = 1\nscheme = \"pac\"\npac.max_hold = \"20ms\"");
    assert_eq!(quiet.warnings, Vec::<String>::new());
}
