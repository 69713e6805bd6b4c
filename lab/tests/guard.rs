//! How the lab deals with its guard, shown with shell scripts in its place: a good one, one that refuses, one that dies in
//! the middle. Needs root; says so when it has to skip.

#![expect(clippy::unwrap_used, reason = "a panic is the failure report")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ackgate_lab::guard::{Guard, GuardConfig};
use ackgate_lab::incast::{IncastConfig, Lab};
use ackgate_lab::load::pull::{Start, Volume};
use ackgate_lab::pairs::run_pairs;
use ackgate_lab::testbed::{Spec, Testbed, require_privilege};

fn privileged(test: &str) -> bool {
    let allowed = require_privilege();
    if let Err(e) = &allowed {
        eprintln!("SKIPPED {test}: {e}");
    }
    allowed.is_ok()
}

/// `install` writes the program, not this process: a test that forks meanwhile would hold it open for writing (`ETXTBSY`).
fn script(folder: &tempfile::TempDir, body: &str) -> GuardConfig {
    let (text, path): (PathBuf, PathBuf) = (folder.path().join("guard.sh"), folder.path().join("guard"));
    std::fs::write(&text, format!("#!/bin/sh\n{body}\n")).unwrap();
    assert!(Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap().success());
    GuardConfig {
        program: Some(path),
        policy: "pac".into(),
        max_hold: Some(Duration::from_millis(50)),
        extra: vec!["--extra".into()],
    }
}

/// Says that it guards, and its summary when it is told to end.
const GOOD: &str = r#"
trap 'echo "{\"event\":\"summary\",\"held_max\":7,\"hold_us\":{\"p50\":1,\"p99\":2}}"; exit 0' TERM
echo '{"event":"ready"}'
while :; do sleep 0.01; done"#;

fn spec() -> Spec {
    Spec { hosts: 2, rate: 100_000_000, burst: Spec::burst_for(100_000_000), ..Spec::pac_edge() }
}

fn config(guard: Option<GuardConfig>) -> IncastConfig {
    IncastConfig {
        connections: 4,
        volume: Volume::PerConnection(16_000),
        rounds: 2,
        warmup: 1,
        cc: None,
        mss: None,
        start: Start::Pull,
        fresh: false,
        ipv6: false,
        deadline: Duration::from_secs(60),
        guard,
    }
}

#[test]
fn the_guards_summary_is_part_of_the_report() {
    if !privileged("the_guards_summary_is_part_of_the_report") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut lab = Lab::new(spec()).unwrap();
    let stop = AtomicBool::new(false);
    let report = lab.run(&config(Some(script(&folder, GOOD))), false, &stop, |_| {}).unwrap();
    assert_eq!((report.held_max, report.guard.as_str(), report.rounds), (Some(7), "pac", 2));
    assert_eq!(report.hold_us.unwrap()["p99"], 2);
    let pairs = run_pairs(&mut lab, &config(Some(script(&folder, GOOD))), 2, &stop, |_| {}).unwrap();
    assert_eq!(pairs.pairs.len(), 2);
    assert!(pairs.goodput_ratio.lower_quartile > 0.0 && pairs.programs.is_none());
    assert!(run_pairs(&mut lab, &config(None), 2, &stop, |_| {}).unwrap_err().is_refusal());
}

#[test]
fn the_guard_is_told_what_to_guard_inside_the_receiver() {
    if !privileged("the_guard_is_told_what_to_guard_inside_the_receiver") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let tell = format!("echo \"$@\" > {0}; cut -d: -f1 /proc/net/dev >> {0}\n{GOOD}", seen.display());
    let testbed = Testbed::build(spec()).unwrap();
    Guard::start(&testbed, &script(&folder, &tell)).unwrap().stop().unwrap();
    let seen = std::fs::read_to_string(seen).unwrap();
    let called = "run --json --dev rx0 --guard pac --buffer 96000 --rate 100000000bit --max-hold 50000us --extra";
    assert!(seen.starts_with(called), "{seen}");
    assert!(seen.contains("rx0"), "it runs where the device is: {seen}");
}

#[test]
fn a_guard_that_refuses_or_dies_is_told_with_its_own_words() {
    if !privileged("a_guard_that_refuses_or_dies_is_told_with_its_own_words") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let testbed = Testbed::build(spec()).unwrap();
    let refuses = script(&folder, "echo no BPF here >&2; exit 2");
    let error = Guard::start(&testbed, &refuses).unwrap_err();
    assert!(error.to_string().contains("no BPF here"), "{error}");
    let dies = script(&folder, "echo '{\"event\":\"ready\"}'; echo out of luck >&2; exit 3");
    let guard = Guard::start(&testbed, &dies).unwrap();
    while std::path::Path::new(&format!("/proc/{}/fd/1", guard.pid())).exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let error = guard.stop().unwrap_err();
    assert!(error.to_string().contains("out of luck"), "{error}");
    let missing = GuardConfig { program: Some("/nonexistent/ackgate".into()), ..dies };
    assert!(Guard::start(&testbed, &missing).unwrap_err().to_string().contains("/nonexistent/ackgate"));
}
