//! One small experiment from its file to the report: verdicts, files, and what a second run does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ackgate_papers::experiment::Experiment;
use ackgate_papers::judge::Verdict;
use ackgate_papers::report;
use ackgate_papers::reproduction::Reproduction;
use ackgate_papers::run::{Options, conclude, run};
use ackgate_sim::sweep::Grid;
use ackgate_sim::sweep::folder::Folder;

/// Drop-tail incast at 1 Gb/s collapses at a few senders; windows of one segment never do.
const SMALL: &str = r#"
id = "SMALL"
paper = "pac"
figure = "none"
section = "§0"
title = "A <small> one"
topology = "a\nb"
settings = [{ what = "a", source = "b" }]
seeds = 1
quick = { seeds = 1, values = "4,64" }
scenario = { rounds = 3, workload = { volume = "64KB", connections = "fresh" } }
x = { keys = ["senders"], values = "1,4,64", label = "senders" }
panel = [{ metric = "goodput_mbps", label = "goodput (Mb/s)" }]
series = [{ name = "none" }, { name = "pinned", set = ["scheme=fixed-window"] }]
claim = [
    { id = "collapse", says = "a", paper = "b", judge = { kind = "collapse", series = "none", at = 3 } },
    { id = "late", says = "a", paper = "b", judge = { kind = "collapse", series = "none", at = 1000 } },
    { id = "holds", says = "a", paper = "b", judge = { kind = "no_collapse", series = "pinned", to = 64 } },
    { id = "low", says = "a", paper = "b", judge = { kind = "at_least", series = "none", x = 64, value = 900 } },
    { id = "ratio", says = "a", paper = "b", judge = { kind = "ratio", series = "pinned", over = "none", x = 64, at_least = 3 } },
    { id = "order", says = "a", paper = "b", judge = { kind = "ranking", order = ["none", "pinned"], x = 64 } },
    { id = "open", says = "a", paper = "b", judge = { kind = "untestable", reason = "c" } },
]
"#;

#[test]
fn from_file_to_report() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = Options { out: folder.path().to_path_buf(), jobs: 1, stop: std::sync::Arc::default() };
    let experiment = || Experiment::parse("small.toml", SMALL, false).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(experiment(), &options, |_| ()).expect("it runs");
    let verdicts: Vec<Verdict> = outcome.judgements.iter().map(|judgement| judgement.verdict).collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Reproduced,
            Verdict::NotReproduced,
            Verdict::Reproduced,
            Verdict::NotReproduced,
            Verdict::Reproduced,
            Verdict::NotReproduced,
            Verdict::CannotBeTested,
        ],
        "{:?}",
        outcome.judgements
    );
    assert_eq!(outcome.judgements[0].measured, "collapses between 1 and 4");

    conclude(std::slice::from_ref(&outcome), &options.out, false).expect("files can be written");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    let csv = read("SMALL.csv");
    assert_eq!(csv.lines().count(), 7);
    let rows: serde_json::Value = serde_json::from_str(&read("results.json")).expect("it is JSON");
    assert_eq!(rows[0]["verdict"], "reproduced");
    assert_eq!(rows[0]["experiment"], "SMALL");
    let page = read("report.html");
    assert!(page.contains("A &lt;small&gt; one") && page.contains("<svg ") && !page.contains("http-equiv"));
    assert!(!page.contains("src=") && !page.contains("<script"), "the page needs nothing else");
    let markdown = report::markdown(&[outcome], false);
    assert!(markdown.contains("Of 6 claims that can be tested, 3 are reproduced, 0 partly, 3 not; 1 cannot"));

    // Again: all rows are there, so progress is told once, of everything.
    let told = AtomicUsize::new(0);
    run(experiment(), &options, |_| {
        told.fetch_add(1, Ordering::Relaxed);
    })
    .expect("it runs");
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert_eq!(read("SMALL.csv"), csv);

    // Another sweep's rows are not taken for its own.
    let other =
        Experiment::parse("small.toml", &SMALL.replace("rounds = 3", "rounds = 4"), false).expect("it is right");
    let error = run(other, &options, |_| ()).expect_err("the rows are of something else");
    assert!(error.is_refusal() && error.to_string().contains("belongs to another sweep"), "{error}");
}

/// All files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it can be listed").path());
    entries
        .map(|path| {
            let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("it is a file"))
        })
        .collect()
}

#[test]
fn tasks_put_together_are_the_files_of_one_process() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = |name: &str| folder.path().join(name);
    // With views, seeds, and a scenario that stands in two experiments.
    let ids = ["VAS-F12".to_owned(), "PAC-T-NMAX".to_owned()];
    let all = || Reproduction::named(&ids, true).expect("they are in the catalogue");
    let options = Options { out: place("one"), jobs: 2, stop: Arc::default() };
    let outcomes: Vec<_> =
        all().into_experiments().into_iter().map(|one| run(one, &options, |_| ()).expect("it runs")).collect();
    assert!(outcomes.iter().any(|outcome| !outcome.insides.is_empty()));
    conclude(&outcomes, &options.out, true).expect("files can be written");

    let points = all().all();
    let cut = Folder::create(&place("tasks"), "b", "two", &all(), &points, 7, &[]).expect("it can be cut");
    assert!(cut.cut().tasks > 1);
    let stop = AtomicBool::new(false);
    for task in 2..=cut.cut().tasks {
        cut.run_task::<Reproduction>(task, 1, &stop).expect("it runs");
    }
    let again = || Folder::open(&place("tasks"), "b").expect("it is there");
    let known = || again().tasks().work::<Reproduction>().expect("it is a reproduction");
    let early = known().collect(&again(), &place("many")).expect_err("a task is missing").to_string();
    assert!(early.contains("points are missing; run them with `ackgate reproduce missing"), "{early}");
    assert_eq!(again().status().expect("it can be read").missing, [1]);
    assert!(again().run_task::<Grid>(1, 1, &stop).is_err_and(|error| error.to_string().contains("ackgate reproduce")));
    again().run_task::<Reproduction>(1, 1, &stop).expect("it runs");

    let outcomes = known().collect(&again(), &place("many")).expect("all is there");
    conclude(&outcomes, &place("many"), true).expect("files can be written");
    let (one, many) = (files(&place("one")), files(&place("many")));
    assert_eq!(one.keys().collect::<Vec<_>>(), many.keys().collect::<Vec<_>>());
    for (name, bytes) in one {
        assert!(many[&name] == bytes, "{name} differs");
    }
}
