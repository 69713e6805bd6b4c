//! What is said when the guard does not start: each cause brought about on purpose, and told by its own name.
//!
//! What needs root says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use ackgate_linux::privilege::NEEDED;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use world::{DEVICE, SENDER_V4, World};

const ACKGATE: &str = env!("CARGO_BIN_EXE_ackgate");

/// `setpriv` with these capabilities and no others.
fn with_capabilities(names: &[&str]) -> Command {
    let set: String =
        names.iter().map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase())).collect();
    let mut command = Command::new("setpriv");
    command.args([format!("--bounding-set=-all{set}"), format!("--inh-caps=-all{set}"), ACKGATE.into()]);
    command
}

/// What it printed: standard error, standard output.
fn said(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stderr).into_owned(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_missing_capability_is_named_by_run_and_doctor_alike() {
    let Some(world) = World::new() else { return };
    for (_, missing) in NEEDED {
        let others: Vec<&str> = NEEDED.iter().map(|&(_, name)| name).filter(|&name| name != missing).collect();
        let run = || with_capabilities(&others).args(["run", "--dev", DEVICE]).output();
        let output = world.receiver(run).unwrap();
        let (errors, _) = said(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(&format!("lacks {missing};")), "{errors}");

        let output = with_capabilities(&others).arg("doctor").output().unwrap();
        let (errors, table) = said(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(table.contains(&format!("{missing} missing")) && !table.contains("would attach"), "{table}");
    }
}

#[test]
fn the_capabilities_that_doctor_calls_ok_are_enough() {
    let Some(world) = World::new() else { return };
    let all = NEEDED.map(|(_, name)| name);
    let output = with_capabilities(&all).arg("doctor").output().unwrap();
    let (errors, table) = said(&output);
    if !output.status.success() && table.contains("MISSING") {
        eprintln!("skipped: this host cannot guard: {table}");
        return;
    }
    assert!(output.status.success() && table.contains("would attach"), "{table}{errors}");

    let start = || with_capabilities(&all).args(["run", "--dev", DEVICE]).stdout(Stdio::piped()).spawn();
    let mut child = world.receiver(start).unwrap();
    let mut line = String::new();
    // Kept open for its summary.
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let status = child.wait().unwrap();
    assert!(line.starts_with(&format!("guarding {DEVICE}: ")), "{line}");
    assert!(status.success(), "{status}");
}

#[test]
fn a_refusal_of_the_verifier_is_told_as_one() {
    let Some(world) = World::new() else { return };
    let faulty = |arguments: &[&str]| {
        let mut command = Command::new(ACKGATE);
        command.args(arguments).env("ACKGATE_TEST_FAULT", "verifier");
        world.receiver(|| command.output()).unwrap()
    };
    let output = faulty(&["run", "--dev", DEVICE]);
    let (errors, _) = said(&output);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for words in ["verifier rejects the BPF program `", "invalid access to map value", "clang ", "Linux ", "report"] {
        assert!(errors.contains(words), "`{words}` is missing: {errors}");
    }
    assert!(!errors.contains("not allowed") && !errors.contains("root"), "{errors}");

    let (_, table) = said(&faulty(&["doctor"]));
    assert!(table.contains("FAILED  BPF programs") && !table.contains("would attach"), "{table}");

    let page = tempfile::tempdir().unwrap().path().join("demo.html");
    let output = faulty(&["demo", "--html", page.to_str().unwrap()]);
    let (errors, table) = said(&output);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("ackgate: the guard should work here and does not: the kernel's verifier"), "{errors}");
    assert!(table.is_empty() && !page.exists(), "a simulation hides the failure: {table}");
}

#[test]
fn a_feature_that_the_kernel_lacks_is_told_with_what_works_without() {
    let Some(world) = World::new() else { return };
    let lacking = |arguments: &[&str]| {
        let mut command = Command::new(ACKGATE);
        command.args(arguments).env("ACKGATE_TEST_FAULT", "feature");
        world.receiver(|| command.output()).unwrap()
    };
    let output = lacking(&["run", "--dev", DEVICE]);
    let (errors, _) = said(&output);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("this kernel cannot load the BPF programs (map 'ring'"), "{errors}");

    let (_, table) = said(&lacking(&["doctor"]));
    assert!(table.contains("MISSING BPF programs") && table.contains("`ackgate sim`"), "{table}");

    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("demo.html");
    let output = lacking(&["demo", "--connections", "2", "--rounds", "1", "--html", page.to_str().unwrap()]);
    let (errors, table) = said(&output);
    assert!(output.status.success() && table.contains("Simulated, not measured. BPF programs: "), "{table}{errors}");
}

#[test]
fn a_memory_limit_is_told_with_its_size() {
    let Some(world) = World::new() else { return };
    // The largest limit that is too small: what does not fit any more is what the programs need.
    let limited = |kib: u32| {
        let script = format!("ulimit -v {kib}; exec timeout -s INT 1 {ACKGATE} run --dev {DEVICE}");
        world.receiver(|| Command::new("sh").args(["-c", &script]).output()).unwrap()
    };
    let refused = (1..13).rev().map(|step| step * 4096).map(|kib| (kib, limited(kib)));
    let (kib, output) = refused.into_iter().find(|(_, output)| !output.stderr.is_empty()).unwrap();
    let (errors, _) = said(&output);
    assert!(errors.contains("out of memory") && errors.contains(&format!("{kib} KiB of addresses")), "{errors}");
    assert!(!errors.contains("not allowed"), "{errors}");
}

#[test]
fn without_privilege_the_demo_simulates_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("demo.html");
    let demo = ["demo", "--connections", "2", "--rounds", "1", "--html", page.to_str().unwrap()];
    let output = if nix::unistd::geteuid().is_root() {
        with_capabilities(&[]).args(demo).output().unwrap()
    } else {
        Command::new(ACKGATE).args(demo).output().unwrap()
    };
    let (errors, table) = said(&output);
    assert!(output.status.success(), "{errors}");
    assert!(table.contains("Simulated, not measured. ") && table.contains("needs root"), "{table}");
}

#[test]
fn without_options_the_default_routes_interface_is_guarded() {
    let Some(world) = World::new() else { return };
    let run = || Command::new("timeout").args(["-s", "INT", "2", ACKGATE, "run"]).output().unwrap();
    let (errors, _) = said(&world.receiver(run));
    assert!(errors.contains("no default route") && errors.contains("--dev"), "{errors}");

    let route = || Command::new("ip").args(["route", "add", "default", "via", &SENDER_V4.to_string()]).status();
    assert!(world.receiver(route).unwrap().success());
    let (errors, told) = said(&world.receiver(run));
    let first = told.lines().next().unwrap_or_default();
    let taken =
        format!("guarding {DEVICE} (the default route's interface): buffer auto (searched for), rate not known");
    assert!(first.starts_with(&taken), "{told}{errors}");
}
