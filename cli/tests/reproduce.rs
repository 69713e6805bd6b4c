//! `ackgate reproduce` from outside: which experiments, what it leaves, going on after `kill -9`, and exit codes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackgate"));
    command.arg("reproduce").args(args);
    command
}

fn ackgate(args: &[&str]) -> Output {
    command(args).output().expect("the program starts")
}

/// Standard error of a call that must end with this code.
fn told(args: &[&str], code: i32) -> String {
    let output = ackgate(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr).expect("text")
}

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it can be listed"));
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("it is a file")))
        .collect()
}

#[test]
fn killed_at_any_time_it_goes_on_to_the_same_end() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (whole, pieces) = (folder.path().join("whole"), folder.path().join("pieces"));
    let args = |out: &Path| {
        ["VAS-F12", "PAC-T-NMAX", "--quick", "--jobs", "2", "--out"]
            .map(String::from)
            .into_iter()
            .chain([out.display().to_string()])
            .collect::<Vec<String>>()
    };
    let run = |out: &Path| {
        let args = args(out);
        ackgate(&args.iter().map(String::as_str).collect::<Vec<&str>>())
    };
    assert!(run(&whole).status.success());
    for wait in [60, 150, 300, 450] {
        let args = args(&pieces);
        let mut child = command(&args.iter().map(String::as_str).collect::<Vec<&str>>())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        sleep(Duration::from_millis(wait));
        child.kill().expect("it may have ended already, which is no error");
        child.wait().expect("it was ours");
    }
    assert!(run(&pieces).status.success());
    let (whole, pieces) = (files(&whole), files(&pieces));
    assert_eq!(whole.keys().collect::<Vec<_>>(), pieces.keys().collect::<Vec<_>>());
    for name in ["VAS-F12.csv", "VAS-F12.views.csv", "VAS-F12.svg", "PAC-T-NMAX.csv", "results.json", "report.html"] {
        assert!(whole[name] == pieces[name], "{name} differs");
    }
}

#[test]
fn tasks_put_together_are_the_report_of_one_process() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (one, tasks, many) = (place("one"), place("tasks"), place("many"));
    let asked = ["PAC-T-NMAX", "--quick"];
    let shown = ackgate(&[&asked[..], &["--out", &one]].concat());
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));

    let begin = [&asked[..], &["--on", "array", "--dir", &tasks, "--tasks", "3"]].concat();
    let told_of = ackgate(&begin);
    assert!(String::from_utf8_lossy(&told_of.stdout).starts_with("ackgate reproduce task "), "{told_of:?}");
    let count = fs::read_to_string(folder.path().join("tasks/plan.json")).expect("a plan").matches("cost_s").count();
    assert!(count > 1);
    assert!(told(&begin, 2).contains("holds tasks already: continue them with `ackgate reproduce missing`"));
    assert!(told(&["task", &tasks, "--task", "99"], 2).contains("task 99 does not exist: the tasks are 1 to"));
    for task in 2..=count {
        assert!(ackgate(&["task", &tasks, "--task", &task.to_string()]).status.success());
    }
    assert!(told(&["collect", &tasks, "--out", &many], 1).contains("points are missing"));
    assert_eq!(ackgate(&["missing", &tasks]).stdout, b"1\n");
    assert!(ackgate(&["task", &tasks, "--task", "1"]).status.success());
    let collected = ackgate(&["collect", &tasks, "--out", &many]);
    assert!(collected.status.success(), "{}", String::from_utf8_lossy(&collected.stderr));
    let (whole, pieces) = (files(&folder.path().join("one")), files(&folder.path().join("many")));
    assert!(whole.contains_key("report.html") && whole == pieces, "{:?}, {:?}", whole.keys(), pieces.keys());
    let lines = |output: &Output| String::from_utf8_lossy(&output.stdout).replace(&one, "").replace(&many, "");
    assert_eq!(lines(&collected), lines(&shown));
    // A sweep's command does not know what these rows are.
    let other = Command::new(env!("CARGO_BIN_EXE_ackgate")).args(["sim", "sweep", "collect", &tasks]).output();
    let other = other.expect("the program starts");
    assert!(String::from_utf8_lossy(&other.stderr).contains("these are tasks of `ackgate reproduce`"), "{other:?}");
}

#[test]
fn names_are_found_wherever_they_are_covered_or_refused_with_a_reason() {
    let listed = String::from_utf8(ackgate(&["--list"]).stdout).expect("text");
    for name in ["PAC-F13 ", "VAS-F15 VAS-F14 VAS-F16 VAS-F17 VAS-T1", "VAS-F10 "] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    assert!(told(&["PAC-F99", "--out", "x"], 2).contains("there is no experiment `PAC-F99`; there are PAC-F2, "));
    assert!(told(&["VAS-F10", "--out", "x"], 2).contains("VAS-F10 is not run: "));
    assert!(told(&["--out", "x"], 2).contains("no experiments given"));
    assert!(!Path::new("x").exists(), "nothing is made for what is refused");
}

#[test]
fn where_nothing_can_be_written_it_says_so_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("files can be written");
    let file = file.to_str().expect("text");
    assert!(told(&["PAC-F2", "--quick", "--out", file], 1).contains("cannot be written"));
    let lost = folder.path().join("nowhere/page.md");
    let lost = lost.to_str().expect("text");
    assert!(told(&["PAC-F2", "--quick", "--out", "x", "--markdown", lost], 2).contains("in an existing folder"));
    let bad = folder.path().join("bad.toml");
    fs::write(&bad, "id = \"X\"\npaper = \"pack\"\n").expect("files can be written");
    let error = told(&["--file", bad.to_str().expect("text"), "--out", file], 2);
    assert!(error.contains("bad.toml:2: key `paper`: unknown name `pack`"), "{error}");
}

#[test]
fn headlines_leave_a_board_a_page_and_results() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let out = folder.path().display().to_string();
    assert!(told(&["--headlines", "PAC-H99", "--out", &out], 2).contains("there is no headline `PAC-H99`"));
    let output = ackgate(&["--headlines", "pac-h17", "--quick", "--out", &out]);
    let board = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(board.contains("PAC-H17") && board.contains("Of 1 headlines"), "{board}");
    let names: Vec<String> = files(folder.path()).into_keys().collect();
    assert_eq!(names, ["report.html", "results.json", "runs.jsonl"]);
    let nothing = folder.path().join("nothing").display().to_string();
    let judged = ackgate(&["--headlines", "PAC-H17", "--judge", "--out", &nothing]);
    assert!(String::from_utf8_lossy(&judged.stdout).contains("1 not run"), "{judged:?}");
    let file = folder.path().join("report.html").display().to_string();
    assert!(
        told(&["--headlines", "--judge", "--witness", &file, "--out", &nothing], 2)
            .contains("report.html:1: is not a run")
    );
}

#[test]
fn headlines_in_tasks_are_judged_as_in_one_process() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (one, tasks, many) = (place("one"), place("tasks"), place("many"));
    let asked = ["--headlines", "PAC-H17", "--quick"];
    let run = |more: &[&str]| {
        let output = ackgate(&[&asked[..], more].concat());
        assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["--out", &one]);
    run(&["--on", "array", "--dir", &tasks, "--tasks", "2", "--out", &many]);
    assert!(told(&["collect", &tasks, "--out", &many], 1).contains("points are missing"));
    for task in ["1", "2"] {
        assert!(ackgate(&["task", &tasks, "--task", task]).status.success());
    }
    let collected = ackgate(&["collect", &tasks, "--out", &many]);
    assert!(String::from_utf8_lossy(&collected.stdout).contains("Of 1 headlines"), "{collected:?}");
    let results = |out: &str| {
        let text = fs::read_to_string(Path::new(out).join("results.json")).expect("it was written");
        let mut results: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        for of_this_run in ["seconds", "peak_memory_bytes"] {
            assert!(results[of_this_run].take().is_number());
        }
        results
    };
    assert_eq!(results(&one), results(&many));
    let again = run(&["--on", "array", "--dir", &place("none"), "--out", &many]);
    assert!(again.contains("all runs are done") && !folder.path().join("none").exists(), "{again}");
}
