//! One small experiment from its file to the report: verdicts, files, and what a second run does.

use std::sync::atomic::{AtomicUsize, Ordering};

use ackgate_papers::experiment::Experiment;
use ackgate_papers::judge::Verdict;
use ackgate_papers::report;
use ackgate_papers::run::{Options, conclude, run};

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
    let options = Options { out: folder.path().to_path_buf(), jobs: 1, quick: false, stop: std::sync::Arc::default() };
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

    conclude(std::slice::from_ref(&outcome), &options).expect("files can be written");
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
