//! `ackgate lab` as a user runs it: what a killed lab leaves is cleaned, a stopped one cleans up itself, and without root
//! it says so. Needs root; says so when it has to skip.

#![expect(clippy::unwrap_used, reason = "a panic is the failure report")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ackgate_lab::testbed::{entries, require_privilege};
use ackgate_linux::doctor::Finding;

fn ackgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackgate"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn privileged(test: &str) -> bool {
    let allowed = require_privilege();
    if let Err(e) = &allowed {
        eprintln!("SKIPPED {test}: {e}");
    }
    allowed.is_ok()
}

/// What this host lacks for guarding; what should work and does not is no reason to skip.
fn lacking() -> Option<String> {
    let report = ackgate_linux::doctor::examine(None);
    report.checks.into_iter().find(|check| check.finding == Finding::Missing).map(|check| check.detail)
}

/// A lab that would run for minutes, and the names of its namespaces once they all exist.
fn long_lab() -> (Child, Vec<String>) {
    let long = ["lab", "incast", "--hosts", "2", "--rate", "10mbit", "--rounds", "100000", "--no-ceiling"];
    let mut child = ackgate(&long).spawn().unwrap();
    let id = child.id().to_string();
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(entry) = entries().into_iter().find(|e| e.id == id)
            && entry.namespaces.iter().all(|n| exists(n))
        {
            return (child, entry.namespaces);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the lab did not come up");
}

fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0
}

fn exists(namespace: &str) -> bool {
    Path::new("/run/netns").join(namespace).exists()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn what_a_killed_lab_leaves_is_cleaned() {
    if !privileged("what_a_killed_lab_leaves_is_cleaned") {
        return;
    }
    let (mut child, namespaces) = long_lab();
    let id = child.id().to_string();
    let while_it_lives = ackgate(&["lab", "clean"]).output().unwrap();
    assert!(!text(&while_it_lives).contains(&format!("testbed {id}\n")), "a living lab is left alone");
    assert!(namespaces.iter().all(|n| exists(n)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(namespaces.iter().any(|n| exists(n)), "SIGKILL leaves something to clean");
    let cleaned = ackgate(&["lab", "clean"]).output().unwrap();
    assert!(cleaned.status.success(), "{}", text(&cleaned));
    assert!(!namespaces.iter().any(|n| exists(n)), "{}", text(&cleaned));
    assert!(!entries().iter().any(|e| e.id == id));
}

/// Nobody waits for the lab, and nothing of it may be gone yet: a clean right after the kill removes it all the same.
#[test]
fn a_clean_right_after_the_kill_waits_for_the_dying_lab() {
    if !privileged("a_clean_right_after_the_kill_waits_for_the_dying_lab") {
        return;
    }
    let (mut child, namespaces) = long_lab();
    let id = child.id().to_string();
    child.kill().unwrap();
    let cleaned = ackgate(&["lab", "clean"]).output().unwrap();
    assert!(text(&cleaned).contains(&format!("removed testbed {id}\n")), "{}", text(&cleaned));
    assert!(!namespaces.iter().any(|n| exists(n)), "{}", text(&cleaned));
    child.wait().unwrap();
}

#[test]
fn a_stopped_lab_cleans_up_and_exits_with_130() {
    if !privileged("a_stopped_lab_cleans_up_and_exits_with_130") {
        return;
    }
    use nix::sys::signal::{SIGHUP, SIGINT, SIGTERM, kill};
    // Twice at once is how `timeout` sends it, and `make` when its terminal does.
    for signals in [&[SIGINT][..], &[SIGTERM], &[SIGHUP], &[SIGINT, SIGINT]] {
        // Under `nohup` a hang-up is ignored, here and by what is started here.
        if signals == [SIGHUP] && ignores_hangups() {
            continue;
        }
        let (child, namespaces) = long_lab();
        let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
        for &signal in signals {
            kill(pid, signal).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        assert!(!namespaces.iter().any(|n| exists(n)));
    }
}

/// Labs that begin and end beside each other, on a `/run` of their own, leave nothing there, whichever ends last.
#[test]
fn labs_beside_each_other_leave_no_mount() {
    if !privileged("labs_beside_each_other_leave_no_mount") {
        return;
    }
    let labs = "for i in 1 2 3 4 5 6 7 8; do
            \"$0\" lab incast --hosts 2 --connections 2 --bytes 1KB --rounds 1 --rate 100mbit --no-ceiling >/dev/null & sleep 0.0$((9 - i))
        done; wait; grep ' /run/' /proc/self/mountinfo; ls /run/netns /run/ackgate-lab";
    let script = format!("umount -l /run/netns 2>/dev/null; mount -t tmpfs none /run || exit; {labs}");
    let unshare = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script, env!("CARGO_BIN_EXE_ackgate")])
        .output()
        .unwrap();
    if unshare.stdout.is_empty() {
        eprintln!("SKIPPED labs_beside_each_other_leave_no_mount: no /run of its own: {}", text(&unshare));
        return;
    }
    assert_eq!(String::from_utf8_lossy(&unshare.stdout), "/run/ackgate-lab:\n\n/run/netns:\n", "{}", text(&unshare));
}

#[test]
fn one_json_object_with_what_was_promised() {
    if !privileged("one_json_object_with_what_was_promised") {
        return;
    }
    let arguments = ["lab", "incast", "--connections", "8", "--bytes", "16KB", "--rounds", "2", "--rate", "50mbit"];
    let output = ackgate(&arguments).args(["--cc", "reno", "--guard", "none", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["goodput_mbps", "ceiling_mbps", "rounds_with_timeout", "rto_timeouts", "retransmits", "switch_drops"] {
        assert!(report[key].is_number(), "{key}: {report}");
    }
    for key in ["p50", "p99", "max"] {
        assert!(report["round_ms"][key].is_number(), "{report}");
    }
    assert_eq!((&report["rounds"], &report["connections"], &report["guard"]), (&2.into(), &8.into(), &"none".into()));
    assert!(report["system_cpu_s"].is_number() && report["held_max"].is_null());
}

#[test]
fn a_guard_that_is_told_nothing_is_woken_by_incast_and_ends_it() {
    if !privileged("a_guard_that_is_told_nothing_is_woken_by_incast_and_ends_it") {
        return;
    }
    if let Some(missing) = lacking() {
        eprintln!("SKIPPED: this host guards nothing: {missing}");
        return;
    }
    let run = |guard: &[&str]| {
        let arguments = ["lab", "incast", "--connections", "64", "--rounds", "5", "--warmup", "3", "--rate", "200mbit"];
        let output = ackgate(&arguments)
            .args(["--cc", "cubic", "--no-ceiling", "--json", "--guard"])
            .args(guard)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let timeouts = |report: &serde_json::Value| report["rto_timeouts"].as_u64().unwrap();
    let guarded = run(&["credit", "--", "--buffer", "auto", "--rate", "unknown"]);
    assert!(guarded["guard_summary"]["held_max"].as_u64().unwrap() > 0, "nothing was held: {guarded}");
    let unguarded = run(&["none"]);
    assert!(timeouts(&guarded) * 4 < timeouts(&unguarded), "{guarded}\nwithout the guard: {unguarded}");
}

#[test]
fn a_guard_of_a_thousand_connections_stays_small() {
    if !privileged("a_guard_of_a_thousand_connections_stays_small") {
        return;
    }
    if let Some(missing) = lacking() {
        eprintln!("SKIPPED: this host guards nothing: {missing}");
        return;
    }
    let arguments = ["lab", "incast", "--connections", "1000", "--bytes", "16KB", "--rounds", "2", "--rate", "200mbit"];
    let output = ackgate(&arguments).args(["--no-ceiling", "--json", "--guard", "credit"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = &report["guard_summary"];
    assert!(summary["connections"].as_u64().unwrap() >= 1000, "{summary}");
    assert!(summary["held_max"].as_u64().unwrap() > 0, "nothing was held: {summary}");
    assert!(summary["peak_rss_kb"].as_u64().unwrap() < 64 << 10, "{summary}");
}

#[test]
fn senseless_values_exit_with_2_and_advice() {
    for (arguments, advice) in [
        (&["lab", "incast", "--buffer", "10"][..], "two full frames"),
        (&["lab", "incast", "--rate", "fast"], "1gbit"),
        (&["lab", "incast", "--guard", "magic"], "possible values"),
        (&["load", "pull", "127.0.0.1", "--connections", "0"], "at least one"),
        (&["lab", "up", "--rate", "auto"], "needs a fixed --rate"),
        (&["lab", "ablation", "--only", "base,ipx"], "there is no point `ipx`"),
        (&["lab", "incast", "--mark-at", "96KB"], "mark below it"),
        (&["lab", "incast", "--rtt", "3@20ms,far"], "names no number of hosts"),
        (&["lab", "incast", "--rtt", "3@20ms", "--hosts", "4"], "give each host one"),
        (&["lab", "up", "--rtt", "20ms"], "its delay line would end"),
        (&["lab", "harm", "--row", "md6"], "no row has the name or prefix `md6`"),
    ] {
        let output = ackgate(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(advice), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn without_root_it_says_what_it_needs() {
    if !privileged("without_root_it_says_what_it_needs") {
        return;
    }
    // Somebody who is nobody may not be able to reach the build directory.
    let place = std::env::temp_dir().join(format!("ackgate-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_ackgate"), &place).unwrap();
    let output = Command::new(&place).args(["lab", "incast"]).uid(65_534).gid(65_534).output();
    std::fs::remove_file(&place).unwrap();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("needs root"), "{}", text(&output));
}

#[test]
fn the_demo_writes_a_page_also_without_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("deep/demo.html");
    let output = ackgate(&["demo", "--simulate", "--connections", "4,64", "--rounds", "2", "--html"])
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("Simulated, not measured"), "{}", text(&output));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("simulated") && html.matches("<polyline").count() == 4);
}

/// A guard of a few lines of shell: it says what a guard says, and does `work` in the receiver's namespace. `install` writes
/// the program, not this process: a test that forks meanwhile would hold it open for writing (`ETXTBSY`).
fn fake_guard(folder: &Path, work: &str) -> std::path::PathBuf {
    let (text, path) = (folder.join("guard.sh"), folder.join("guard"));
    let script = format!(
        "#!/bin/sh\n{work}\ntrap 'echo \"{{\\\"event\\\":\\\"summary\\\"}}\"; exit 0' TERM\necho '{{\"event\":\"ready\"}}'\n\
         while :; do sleep 0.01; done\n"
    );
    std::fs::write(&text, script).unwrap();
    assert!(Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap().success());
    path
}

/// One pair of a row under a fake guard.
fn harm(row: &str, work: &str) -> (Option<i32>, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["lab", "harm", "--row", row, "--guard", "credit", "--pairs", "1", "--json", "--guard-program"];
    let output = ackgate(&arguments).arg(fake_guard(folder.path(), work)).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)));
    (output.status.code(), report)
}

#[test]
fn a_guard_that_slows_acks_down_harms_and_exits_with_1() {
    if !privileged("a_guard_that_slows_acks_down_harms_and_exits_with_1") {
        return;
    }
    let slow = "tc qdisc add dev rx0 root tbf rate 100kbit burst 2kb limit 1mb";
    let (code, report) = harm("transfer", slow);
    let row = &report["rows"][0];
    assert_eq!((code, &row["verdict"], &row["row"]), (Some(1), &"harm".into(), &"transfer".into()), "{report}");
    assert!(row["ratio"]["median"].as_f64().unwrap() < 0.95 && row["unguarded"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn a_guard_that_ends_is_no_harmless_guard() {
    if !privileged("a_guard_that_ends_is_no_harmless_guard") {
        return;
    }
    let (code, report) = harm("long-0ms", "(sleep 0.5; kill -9 $$) &");
    assert_eq!((code, &report["rows"][0]["verdict"]), (Some(1), &"failed".into()), "{report}");
    assert!(report["rows"][0]["message"].as_str().is_some_and(|message| message.contains("guard")), "{report}");
}

#[test]
fn rows_that_need_no_kernel_are_simulated() {
    if !privileged("rows_that_need_no_kernel_are_simulated") {
        return;
    }
    let arguments = ["lab", "harm", "--row", "sim-long-250us", "--guard", "pac", "--pairs", "1"];
    let output = ackgate(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).lines().any(|line| line.starts_with("sim-long-250us") && line.ends_with(" ok")));
}

#[test]
fn the_rows_are_listed_without_privilege() {
    let output = ackgate(&["lab", "harm", "--list", "--row", "forged,md5"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let names: Vec<String> =
        text(&output).lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert_eq!(names, ["md5", "forged-data", "forged-syn", "forged-rst", "forged-fin"]);
}

#[test]
fn far_senders_are_far() {
    if !privileged("far_senders_are_far") {
        return;
    }
    let arguments =
        ["lab", "incast", "-n", "3", "--bytes", "20KB", "--rounds", "2", "--rate", "100mbit", "--no-ceiling"];
    let output = ackgate(&arguments).args(["--rtt", "2@0ms,1@40ms", "--offloads", "on", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["hosts"], 3, "{report}");
    assert!(report["round_ms"]["p50"].as_f64().unwrap() >= 40.0, "a round waits for the far sender: {report}");
}

/// The report of `ackgate lab` with these arguments, which runs a real guard; `None` where that cannot be.
fn guarded_lab(test: &str, arguments: &[&str]) -> Option<serde_json::Value> {
    if !privileged(test) {
        return None;
    }
    if let Some(missing) = lacking() {
        eprintln!("SKIPPED {test}: this host guards nothing: {missing}");
        return None;
    }
    let output = ackgate(&[&["lab"], arguments, &["--json"]].concat()).output().unwrap();
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output))))
}

#[test]
fn a_reload_and_an_upgrade_lose_nothing_and_leave_nothing() {
    let arguments = ["faults", "--fault", "reload,upgrade,clock", "--connections", "8"];
    let Some(report) = guarded_lab("a_reload_and_an_upgrade_lose_nothing_and_leave_nothing", &arguments) else {
        return;
    };
    let [reload, upgrade, clock] = &report["rows"].as_array().unwrap()[..] else { panic!("{report}") };
    for row in [reload, upgrade] {
        assert_eq!((&row["connections_lost"], &row["bytes_lost"]), (&0.into(), &0.into()), "{row}");
        assert!(row["recovered_ms"].is_number() && row["left"].as_array().unwrap().is_empty(), "{row}");
    }
    assert!(reload["did"].as_str().unwrap().contains("5 changes"), "{reload}");
    assert!(upgrade["did"].as_str().unwrap().contains("guarded again"), "{upgrade}");
    assert!(clock["skipped"].as_str().unwrap().contains("--step-clock"), "nobody's clock is stepped unasked: {clock}");
}

/// One part of a scheme is killed, the other goes on: the rest of the table takes longer.
#[test]
fn schemes_of_two_parts_lose_nothing_when_one_is_killed() {
    for (guard, at) in [("hwatch", "senders"), ("m21", "hosts")] {
        let arguments = ["faults", "--guard", guard, "--at", at, "--fault", "kill", "--connections", "8"];
        let Some(report) = guarded_lab("schemes_of_two_parts_lose_nothing_when_one_is_killed", &arguments) else {
            return;
        };
        let [row] = &report["rows"].as_array().unwrap()[..] else { panic!("{report}") };
        assert_eq!((row["guard"].as_str(), row["at"].as_str()), (Some(guard), Some(at)), "{row}");
        assert_eq!((&row["connections_lost"], &row["bytes_lost"]), (&0.into(), &0.into()), "{row}");
        assert!(row["recovered_ms"].is_number() && row["left"].as_array().unwrap().is_empty(), "{row}");
        assert!(row["did"].as_str().unwrap().contains("SIGKILL"), "{row}");
    }
}

/// The other promises take longer to tell, or a machine that is not busy.
#[test]
fn a_short_soak_leaves_nothing() {
    let arguments = ["soak", "--time", "5s", "--every", "1s"];
    let Some(report) = guarded_lab("a_short_soak_leaves_nothing", &arguments) else { return };
    let promises = report["promises"].as_array().unwrap();
    let promise = promises.iter().find(|promise| promise["name"] == "nothing left").unwrap();
    assert_eq!(promise["kept"], true, "{promise}");
    let samples = report["samples"].as_array().unwrap();
    assert!(samples.iter().any(|sample| sample["flows"].as_u64() > Some(64)), "{samples:?}");
    assert!(report["guard_summary"]["released"].as_u64() > Some(0), "{report}");
}

#[test]
fn the_papers_figures_run_on_this_kernel_and_are_judged() {
    if !privileged("the_papers_figures_run_on_this_kernel_and_are_judged") {
        return;
    }
    let list = ackgate(&["lab", "reproduce", "--list"]).output().unwrap();
    assert!(text(&list).contains("PAC-F7, PAC-F8, PAC-F11"), "{}", text(&list));
    let unknown = ackgate(&["lab", "reproduce", "PAC-F99"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown).contains("there are PAC-F2"), "{}", text(&unknown));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let done = ackgate(&["lab", "reproduce", "PAC-CPU", "--quick", "--json", "--out", out]).output().unwrap();
    if let Some(lacking) = lacking() {
        return eprintln!("SKIPPED: {lacking}");
    }
    assert!(done.status.success(), "{}", text(&done));
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["headlines"][0]["id"], "PAC-H17b");
    for curve in ["busy.none", "busy.pac"] {
        let seeds = report["kernel"][curve][0]["seeds"].as_array().unwrap();
        assert_eq!(seeds.len(), 2, "{report}");
        assert!(seeds.iter().all(|seed| seed["goodput_mbps"].as_f64() > Some(0.0)), "{report}");
    }
    let page = std::fs::read_to_string(folder.path().join("kernel.md")).unwrap();
    assert!(page.contains("## Verdicts") && page.contains("PAC-H17b"), "{page}");
}
