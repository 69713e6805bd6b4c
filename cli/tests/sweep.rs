//! `ackgate sim sweep` in tasks and as Parquet, from outside.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const VARY: [&str; 6] = ["--vary", "senders=1..8", "--vary", "scheme=none,pac", "--seeds", "3"];

fn sweep(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackgate"));
    command.args(["sim", "sweep"]).args(arguments);
    for name in ["SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX", "JOB_COMPLETION_INDEX"] {
        command.env_remove(name);
    }
    command.output().expect("the program starts")
}

fn told(arguments: &[&str]) -> String {
    let output = sweep(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn failed(arguments: &[&str], code: i32) -> String {
    let output = sweep(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// A small scenario in a folder.
fn scenario(folder: &Path) -> String {
    let path = folder.join("small.toml");
    fs::write(&path, "rounds = 2\nworkload = { volume = \"8KB\" }\n").expect("written");
    path.display().to_string()
}

#[test]
fn tasks_put_together_are_the_bytes_of_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = scenario(folder.path());
    let name = |name: &str| folder.path().join(name).display().to_string();
    let (one, dir, many) = (name("one.csv"), name("sweep"), name("many.csv"));
    told(&[&[scenario.as_str()], &VARY[..], &["--out", &one]].concat());
    let begin = [&[scenario.as_str()], &VARY[..], &["--on", "array", "--dir", &dir, "--tasks", "4"]].concat();
    told(&begin);
    assert!(failed(&begin, 2).contains("holds tasks already"));
    assert!(failed(&["task", &dir], 2).contains("the task number is unknown"));
    assert!(failed(&["task", &dir, "--task", "99"], 2).contains("task 99 does not exist: the tasks are 1 to"));
    told(&["task", &dir, "--task", "1"]);
    assert!(failed(&["collect", &dir, "--out", &many], 1).contains("points are missing"));

    let missing = told(&["missing", &dir]);
    let last = missing.trim().rsplit(['-', ',']).next().expect("a number").parse::<usize>().expect("a number");
    assert!(missing.starts_with('2'), "{missing}");
    // Twice: what is done is not done again.
    for task in (1..=last).chain(1..=last) {
        told(&["task", &dir, "--task", &task.to_string()]);
    }
    assert_eq!(told(&["missing", &dir]), "\n");
    let status: serde_json::Value = serde_json::from_str(&told(&["status", &dir, "--json"])).expect("JSON");
    assert_eq!((&status["done"], &status["repeated"]), (&24.into(), &0.into()));
    told(&["collect", &dir, "--out", &many]);
    assert_eq!(fs::read(&many).expect("rows"), fs::read(&one).expect("rows"));
}

#[test]
fn a_parquet_file_appears_when_all_rows_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = scenario(folder.path());
    let path = folder.path().join("x.parquet");
    let arguments = [&[scenario.as_str()], &VARY[..], &["--out", path.to_str().expect("text")]].concat();
    told(&arguments);
    let bytes = fs::read(&path).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let names: Vec<String> = fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(failed(&arguments, 2).contains("exists already"));
}

#[test]
fn what_belongs_to_an_engine_is_refused_without_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = scenario(folder.path());
    let error = |more: &[&str]| failed(&[&[scenario.as_str(), "--vary", "senders=1,2"], more].concat(), 2);
    assert!(error(&["--on", "slurm"]).contains("--dir"));
    assert!(error(&["--tasks", "4"]).contains("--on"));
    assert!(failed(&["status", folder.path().to_str().expect("text")], 2).contains("this folder contains no tasks"));
    assert!(failed(&[], 2).contains("--vary"));
}
