//! A sweep's file: the same whatever the threads, whole from its shards, taken up where it was stopped. What a run
//! comes to is of no interest here, so a function of the scenario stands in for it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use ackgate_sim::report::Report;
use ackgate_sim::scenario::{Document, Scenario};
use ackgate_sim::sweep::{self, Output, Plan, Shard, SweepError, Vary};

fn plan() -> Result<Plan, SweepError> {
    let vary = [Vary::parse("senders=1,2,4..64")?, Vary::parse("switch.buffer=64KB,96KB")?];
    Plan::new(&Document::parse("x.toml", "scheme = \"pac\"")?, &vary, 3)
}

/// Tells scenarios apart, with figures that need all their digits.
fn figures(scenario: &Scenario) -> Report {
    let goodput_mbps = f64::from(scenario.senders) / 7.0 + scenario.seed as f64;
    Report { scheme: "pac".into(), senders: scenario.senders, seed: scenario.seed, goodput_mbps, ..Report::default() }
}

/// Runs one shard into a file, and says which points it had to run.
fn sweep_into(path: &Path, shard: Shard, threads: usize) -> Result<HashSet<usize>, SweepError> {
    let plan = plan()?;
    let points = plan.shard(shard);
    let mut output = Output::new(&plan, points, shard.k == 1, false).keep_in(path)?;
    let ran = Mutex::new(HashSet::new());
    sweep::run(
        points,
        &mut output,
        threads,
        |point| {
            ran.lock().expect("no panic").insert(point.index);
            Ok(figures(&point.scenario))
        },
        |_, _| {},
    )
    .map(|()| ran.into_inner().expect("no panic"))
}

#[test]
fn the_file_does_not_depend_on_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = [1, 2, 7].iter().map(|n| (folder.path().join(format!("{n}.csv")), *n)).collect();
    for (path, threads) in &paths {
        assert_eq!(sweep_into(path, Shard::WHOLE, *threads).unwrap().len(), 42);
    }
    let whole = fs::read_to_string(&paths[0].0).unwrap();
    assert!(paths.iter().all(|(path, _)| fs::read_to_string(path).unwrap() == whole));
    assert_eq!(whole.lines().count(), 43);
    assert!(whole.starts_with("switch.buffer,scheme,senders,seed,"), "{whole}");
    assert!(whole.lines().nth(1).unwrap().starts_with("64KB,pac,1,1,"));
}

#[test]
fn shards_put_end_to_end_are_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.csv");
    sweep_into(&whole, Shard::WHOLE, 2).unwrap();
    let mut joined = String::new();
    for k in 1..=4 {
        let part = folder.path().join(format!("{k}.csv"));
        sweep_into(&part, Shard { k, n: 4 }, 2).unwrap();
        joined += &fs::read_to_string(part).unwrap();
    }
    assert_eq!(joined, fs::read_to_string(whole).unwrap());
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    sweep_into(&path, Shard::WHOLE, 2).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    // As a killed run leaves it: rows as they came, the last one torn.
    let torn = format!("{}{}{}{}", lines[0], lines[30], lines[4], &lines[9][..20]);
    fs::write(&path, torn).unwrap();
    let ran = sweep_into(&path, Shard::WHOLE, 2).unwrap();
    assert_eq!(ran.len(), 40);
    assert!(!ran.contains(&29) && !ran.contains(&3) && ran.contains(&8));
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    assert!(sweep_into(&path, Shard::WHOLE, 2).unwrap().is_empty());
    // Torn within the header, nothing is left to keep.
    fs::write(&path, &lines[0][..10]).unwrap();
    assert_eq!(sweep_into(&path, Shard::WHOLE, 2).unwrap().len(), 42);
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
}

#[test]
fn rows_of_another_sweep_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    fs::write(&path, "senders,goodput\n1,2\n").unwrap();
    let error = sweep_into(&path, Shard::WHOLE, 1).unwrap_err().to_string();
    assert!(error.contains("out.csv:1: has other columns than this sweep; it belongs to another sweep"), "{error}");
    sweep_into(&folder.path().join("b.csv"), Shard::WHOLE, 1).unwrap();
    let other = fs::read_to_string(folder.path().join("b.csv")).unwrap();
    let print = other.lines().nth(1).unwrap().rsplit(',').next().unwrap().to_owned();
    fs::write(&path, other.replace(&print, "00000000000000ff")).unwrap();
    let error = sweep_into(&path, Shard::WHOLE, 1).unwrap_err().to_string();
    assert!(error.contains("out.csv:2: has a row that is not one of this sweep's points"), "{error}");
    // Nor is what has no line end, though it could be a torn line: of a first part, and of one without a header.
    for shard in [Shard::WHOLE, Shard { k: 2, n: 2 }] {
        fs::write(&path, "{\"goodput_mbps\":940}").unwrap();
        let error = sweep_into(&path, shard, 1).unwrap_err();
        assert!(error.is_refusal() && error.to_string().contains("out.csv:1: is not the beginning"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"goodput_mbps\":940}");
    }
}

#[cfg(unix)]
#[test]
fn only_a_file_takes_rows_and_a_link_to_one_stays_a_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [socket.as_path(), folder.path(), Path::new("/dev/full")] {
        let error = sweep_into(path, Shard::WHOLE, 1).unwrap_err();
        assert!(error.is_refusal() && error.to_string().contains("is not a regular file"), "{error}");
    }
    let (file, link) = (folder.path().join("rows.csv"), folder.path().join("link.csv"));
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("rows.csv", &link).unwrap();
    assert_eq!(sweep_into(&link, Shard::WHOLE, 1).unwrap().len(), 42);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 43);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_failing_run_keeps_the_rows_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let plan = plan().unwrap();
    let mut output = Output::new(&plan, &plan.points, true, false).keep_in(&path).unwrap();
    let error = sweep::run(
        &plan.points,
        &mut output,
        1,
        |point| match point.index {
            20 => Err(SweepError::Usage("broken".into())),
            _ => Ok(figures(&point.scenario)),
        },
        |_, _| {},
    );
    assert_eq!(error.unwrap_err().to_string(), "broken");
    drop(output);
    let kept = fs::read_to_string(&path).unwrap().lines().count() - 1;
    assert_eq!(sweep_into(&path, Shard::WHOLE, 2).unwrap().len(), 42 - kept);
}

#[test]
fn a_file_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let plan = plan().unwrap();
    let writing = Output::new(&plan, &plan.points, true, false).keep_in(&path).unwrap();
    let error = sweep_into(&path, Shard::WHOLE, 1).unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert!(error.to_string().contains("out.csv: another sweep is writing it"), "{error}");
    // A writer that has ended, in whatever way, has let go of it.
    drop(writing);
    assert_eq!(sweep_into(&path, Shard::WHOLE, 1).unwrap().len(), 42);
    assert!(sweep_into(&path, Shard::WHOLE, 1).unwrap().is_empty());
}

#[test]
fn long_points_begin_first() {
    let plan = plan().unwrap();
    let mut output = Output::new(&plan, &plan.points, true, false);
    let senders = Mutex::new(Vec::new());
    let run = |point: &sweep::Point| {
        senders.lock().expect("no panic").push(point.scenario.senders);
        Ok::<_, SweepError>(figures(&point.scenario))
    };
    sweep::run(&plan.points, &mut output, 1, run, |_, _| {}).unwrap();
    let senders = senders.into_inner().unwrap();
    assert!(senders.is_sorted_by(|a, b| a >= b) && senders[0] == 64, "{senders:?}");
}

#[test]
fn rows_as_json_are_reports_with_the_varied_keys() {
    let plan = plan().unwrap();
    let mut output = Output::new(&plan, &plan.points, true, false);
    sweep::run(&plan.points, &mut output, 2, |point| Ok::<_, SweepError>(figures(&point.scenario)), |_, _| {}).unwrap();
    let json = output.json();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), 42);
    let last = rows[41].as_object().unwrap();
    assert_eq!(last["switch.buffer"], "96KB");
    assert_eq!((&last["senders"], &last["seed"]), (&64.into(), &3.into()));
    assert_eq!(last["goodput_mbps"], 12.142857);
    assert_eq!(last["round_ms"]["p99"], 0.0);
    assert!(!last.contains_key("wall_s") && last["scenario"].is_string());
}
