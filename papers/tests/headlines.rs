//! The files of headlines: all 48, every scenario valid under every alternative, one rule for the start of senders, and a
//! small book from file to report.

use std::collections::BTreeSet;

use ackgate_papers::headlines::board::Board;
use ackgate_papers::headlines::book::Book;
use ackgate_papers::headlines::log::Log;
use ackgate_papers::headlines::reading::Readings;
use ackgate_papers::headlines::report::{self, Circumstances};
use ackgate_papers::headlines::run::{Judged, Options, Outcomes, run};
use ackgate_papers::headlines::verdict::Verdict;
use ackgate_papers::headlines::witness::Witnesses;
use ackgate_sim::scenario::Workload;

fn books() -> Vec<Book> {
    Book::all().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn there_are_48_headlines_with_names_of_their_own() {
    let books = books();
    let ids: Vec<&str> = books.iter().flat_map(|book| &book.headlines).map(|headline| headline.id.as_str()).collect();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (48, 48));
    for headline in books.iter().flat_map(|book| &book.headlines).filter(|headline| headline.cannot.is_empty()) {
        assert!(!headline.direction.is_empty(), "{} has no direction", headline.id);
    }
}

#[test]
fn every_setting_is_a_scenario_under_every_alternative() {
    for book in books() {
        for setting in &book.settings {
            for curve in &setting.curves {
                for other in std::iter::once(None).chain(book.alternatives.iter().map(Some)) {
                    if other.is_some_and(|other| !other.changes(&setting.name, &curve.name)) {
                        continue;
                    }
                    let places = book.places(setting, curve, other).unwrap_or_else(|error| {
                        panic!("{}.{} {:?}: {error}", setting.name, curve.name, other.map(|other| &other.also))
                    });
                    assert!(places.is_sorted_by(|a, b| a.x < b.x), "{}: x must rise", setting.name);
                }
            }
        }
    }
}

#[test]
fn senders_begin_within_a_quarter_of_the_base_rtt_everywhere() {
    for book in books() {
        for setting in &book.settings {
            for place in book.places(setting, &setting.curves[0], None).unwrap_or_else(|error| panic!("{error}")) {
                let scenario = &place.first.scenario;
                if let Workload::Rounds(rounds) = &scenario.workload {
                    assert_eq!(rounds.start_jitter.0 * 4, scenario.network.rtt.0, "{}", setting.name);
                }
            }
        }
    }
}

const SMALL: &str = r#"
paper = "pac"
define = { G = "goodput_mbps", timeouts = "rounds_with_timeout / rounds" }
[setting.star]
title = "a <small> star"
x = { keys = ["senders"], values = "2,4,64", label = "senders" }
curves = [{ name = "none", label = "plain" }]
[setting.star.scenario]
rounds = 2
workload = { kind = "rounds", volume = "16KB", connections = "fresh" }
[[headline]]
id = "PAC-H1"
where = "nowhere"
claim = "It collapses."
paper = "b"
draw = [{ setting = "star", metric = "G", label = "goodput (Mb/s)" }]
part = [{ name = "a", of = "onset(G, star.none)", accepted = "10 .. 64", unit = "senders" }]
direction = [{ of = "G(star.none, 64) / G(star.none, 4)", accepted = "< 1" }]
[[headline]]
id = "PAC-H2"
where = "nowhere"
claim = "It does not."
paper = "b"
part = [{ name = "a", no_collapse = "star.none", at = "2..64" }]
direction = [{ of = "onset(G, star.none)", accepted = "> 64" }]
[[alternative]]
open = "buffer"
primary = "96 KB"
also = "endless"
set = ["switch.buffer=unlimited"]
[[experiment]]
open = "senders"
primary = "64 at most"
also = "4 at most"
shows = ["PAC-H2"]
says = "It takes many."
x = "2,3,4"
"#;

fn every() -> Readings {
    Readings { alternatives: true, experiments: true, named: Vec::new() }
}

/// Verdicts under alternatives and in experiments, by their number.
fn otherwise(judged: &Judged) -> Vec<(usize, Verdict)> {
    judged.otherwise.iter().map(|(i, judgement)| (*i, judgement.verdict)).collect()
}

fn how() -> Circumstances {
    Circumstances { command: "again".into(), build: "test".into(), seconds: 1.0, memory: 0 }
}

#[test]
fn a_book_from_file_to_report() {
    let folder = tempfile::tempdir().expect("there is room");
    let options = Options {
        out: folder.path().to_owned(),
        jobs: 0,
        quick: false,
        readings: every(),
        only_judge: false,
        ids: Vec::new(),
        build: "test".into(),
    };
    let book = || vec![Book::parse("small.toml", SMALL).unwrap_or_else(|error| panic!("{error}"))];
    let outcomes = run(book(), &options, &|_, _, _| {}).unwrap_or_else(|error| panic!("{error}"));
    let verdicts: Vec<Verdict> = outcomes.papers[0]
        .judged
        .iter()
        .filter_map(|judged| judged.judgement.as_ref().map(|judgement| judgement.verdict))
        .collect();
    assert_eq!(verdicts, [Verdict::Reproduced, Verdict::Not]);
    assert_eq!(
        otherwise(&outcomes.papers[0].judged[1]),
        [(0, Verdict::DirectionOnly), (1, Verdict::DirectionOnly)],
        "nothing is lost without a bound"
    );

    let how = how();
    let page = report::page(&outcomes, &Log::default(), &how);
    assert!(page.contains("a &lt;small&gt; star") && page.contains("href=\"#PAC-H2\"") && page.contains("<svg"));
    let markdown = report::markdown(&outcomes, &Log::default(), &how);
    assert!(markdown.contains("; depends on PAC/1 (direction only) |"), "no experiment is among them: {markdown}");
    assert!(
        markdown.contains("| PAC/1 | buffer | 96 KB | endless | direction only: PAC-H2; not reproduced: PAC-H1 |"),
        "{markdown}"
    );
    let experiment = "  - PAC/2, senders: 4 at most instead of 64 at most: **direction only**. (a)";
    assert!(markdown.contains(experiment) && markdown.contains(". It takes many.\n"), "{markdown}");
    assert!(page.contains("4 at most instead of 64 at most") && page.contains("id=\"readings\""));
    let json: serde_json::Value = serde_json::from_str(&report::json(&outcomes, &how)).expect("it is JSON");
    assert_eq!(json["counts"]["reproduced"], 1);
    assert_eq!(json["headlines"][0]["parts"][0]["findings"][0]["seeds"], 10);
    assert_eq!(json["headlines"][1]["parts"][0]["findings"][0]["interval"].as_array().map(Vec::len), Some(2));

    // All is there already: nothing is run again, and all is the same.
    let runs = std::fs::read(folder.path().join("runs.jsonl")).expect("it was written");
    let again = run(book(), &options, &|_, _, all| assert_eq!(all, 0)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(std::fs::read(folder.path().join("runs.jsonl")).expect("it is there"), runs);
    assert_eq!(report::json(&again, &how), report::json(&outcomes, &how));
}

#[test]
fn what_is_lacking_comes_in_stages_and_is_what_a_run_adds() {
    let folder = tempfile::tempdir().expect("there is room");
    let options = |quick| Options {
        out: folder.path().to_owned(),
        jobs: 0,
        quick,
        readings: Readings::default(),
        only_judge: false,
        ids: vec!["pac-h1".into()],
        build: "test".into(),
    };
    let book = |accepted: &str| {
        let part =
            format!("{{ name = \"b\", of = \"G(star.none, 64)\", accepted = \"{accepted}\", unit = \"Mb/s\" }}]\ndir");
        let text = SMALL.replacen("]\ndir", &format!(", {part}"), 1);
        vec![Book::parse("small.toml", &text).unwrap_or_else(|error| panic!("{error}"))]
    };
    let next = |accepted: &str, quick| Board::next(&book(accepted), &options(quick)).expect("it can be told").all();
    let lines = || std::fs::read_to_string(folder.path().join("runs.jsonl")).expect("it is there").lines().count();

    assert_eq!((next("> 1", false).len(), lines()), (30, 0), "three points with ten seeds");
    let outcomes = run(book("> 1"), &options(true), &|_, _, _| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lines(), 30);
    assert!(next("> 1", true).is_empty());
    let judgement = outcomes.papers[0].judged[0].judgement.as_ref().expect("it is judged");
    let value = judgement.parts[1].findings[0].measured.value;
    // A limit in the middle of the interval cannot be told from it with ten seeds.
    let limit = format!("> {value}");
    let wanted = next(&limit, false);
    assert!(wanted.len() >= 30 && wanted.iter().all(|point| point.scenario.seed > 10), "{}", wanted.len());
    run(book(&limit), &options(false), &|_, _, _| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lines(), 30 + wanted.len());
    assert!(next(&limit, false).is_empty());
}

/// Judges what a folder has.
fn judged_only(folder: &std::path::Path) -> Outcomes {
    let options = Options {
        out: folder.to_owned(),
        jobs: 0,
        quick: false,
        readings: every(),
        only_judge: true,
        ids: Vec::new(),
        build: "test".into(),
    };
    let book = vec![Book::parse("small.toml", SMALL).unwrap_or_else(|error| panic!("{error}"))];
    run(book, &options, &|what, _, _| panic!("{what} is run")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn one_reading_is_run_by_its_name_and_only_where_rules_look() {
    let folder = tempfile::tempdir().expect("there is room");
    let options = |named: &str| Options {
        out: folder.path().to_owned(),
        jobs: 0,
        quick: false,
        readings: Readings { named: vec![named.into()], ..Readings::default() },
        only_judge: false,
        ids: vec!["PAC-H2".into()],
        build: "test".into(),
    };
    let lines = || std::fs::read_to_string(folder.path().join("runs.jsonl")).map_or(0, |text| text.lines().count());
    let text = format!(
        "{SMALL}[[alternative]]\nopen = \"volume\"\nprimary = \"16 KB\"\nalso = \"8 KB\"\nset = [\"workload.volume=8KB\"]\n"
    )
    .replacen("no_collapse = \"star.none\", at = \"2..64\"", "of = \"G(star.none, 4)\", accepted = \"> 1\"", 1)
    .replacen("of = \"onset(G, star.none)\", accepted = \"> 64\"", "of = \"G(star.none, 4)\", accepted = \"> 1\"", 1);
    let book = || vec![Book::parse("small.toml", &text).unwrap_or_else(|error| panic!("{error}"))];
    let told = run(book(), &options("PAC/9"), &|_, _, _| {}).map_or_else(|error| error.to_string(), |_| "run".into());
    assert!(told.contains("no reading `PAC/9`"), "{told}");
    let outcomes = run(book(), &options("pac/2"), &|_, _, _| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(otherwise(&outcomes.papers[0].judged[0]), [(1, Verdict::Reproduced)]);
    assert_eq!(lines(), 30 + 10, "the rules look at one point");
    let page = report::markdown(&outcomes, &Log::default(), &how());
    assert!(page.contains("| PAC/1 | buffer | 96 KB | endless | not run |"), "{page}");
}

#[test]
fn what_is_counted_beside_the_simulators_own_figures() {
    let text = |set: &str, watch: &str| {
        format!(
            "paper = \"pac\"\n[define]\n[setting.a]\ntitle = \"t\"\nx = {{ keys = [\"senders\"], values = \"4\", label = \"s\" }}\n\
             curves = [{{ name = \"b\", label = \"b\" }}]\nwatch = [\"{watch}\"]\n[setting.a.scenario]\nrounds = 3\n{set}\n\
             [[headline]]\nid = \"X\"\nwhere = \"w\"\nclaim = \"c\"\npaper = \"p\"\n\
             part = [{{ name = \"a\", of = \"{}(a.b, 4) / {}(a.b, 4)\", accepted = \"> 0\" }}]\n\
             direction = [{{ of = \"1\", accepted = \"> 0\" }}]\n",
            QUANTITIES.iter().find(|(name, ..)| *name == watch).map_or("", |(_, counted, _)| counted),
            QUANTITIES.iter().find(|(name, ..)| *name == watch).map_or("", |(.., known)| known),
        )
    };
    // What is counted, over the simulator's own figure.
    let ratio = |set: &str, watch: &str| {
        let folder = tempfile::tempdir().expect("there is room");
        let options = Options {
            out: folder.path().to_owned(),
            jobs: 0,
            quick: false,
            readings: Readings::default(),
            only_judge: false,
            ids: Vec::new(),
            build: "test".into(),
        };
        let book = Book::parse("x.toml", &text(set, watch)).unwrap_or_else(|error| panic!("{error}"));
        let outcomes = run(vec![book], &options, &|_, _, _| {}).unwrap_or_else(|error| panic!("{error}"));
        let judgement = outcomes.papers[0].judged[0].judgement.clone().expect("it is judged");
        judgement.parts[0].findings[0].measured.value
    };
    let rounds = "workload = { volume = \"16KB\", connections = \"fresh\", start_jitter = 0 }\nnetwork.rtt = \"1ms\"";
    // 64 KB at 1 Gb/s take half a millisecond: a handshake of one is much of it.
    let data = ratio(rounds, "data_rounds");
    assert!((1.2..2.0).contains(&data), "{data}");
    let probed = "scheme = \"hwatch\"\nhwatch.probe_span = \"5ms\"\nworkload = { kind = \"epochs\", epochs = 3 }";
    let wire = ratio(probed, "wire_flows");
    assert!((0.02..0.5).contains(&wire), "5 ms of probes are not counted: {wire}");
    // A receiver sees the time from its ACK to the data, a sender that from data to ACK.
    let receiver = ratio(&format!("{rounds}\ntcp.timestamps = true"), "receiver_rtt");
    assert!((0.8..1.3).contains(&receiver), "{receiver}");
}

/// Something to be counted, what it is called, and the figure of the simulator's that is nearest.
const QUANTITIES: [(&str, &str, &str); 3] = [
    ("data_rounds", "data_round_goodput_mbps", "round_goodput_mbps"),
    ("wire_flows", "wire_flow_ms_mean", "flow_ms_mean"),
    ("receiver_rtt", "receiver_rtt_us_p50", "rtt_us_p50"),
];

#[test]
fn what_is_only_judged_is_not_run() {
    let folder = tempfile::tempdir().expect("there is room");
    let outcomes = judged_only(folder.path());
    assert!(outcomes.papers[0].judged.iter().all(|judged| judged.judgement.is_none() && judged.otherwise.is_empty()));
    assert!(
        !report::page(&outcomes, &Log::default(), &how()).contains("</b> run"),
        "it is not run, and no more is said"
    );
    assert!(report::summary(&outcomes).ends_with("0 cannot be judged; 2 not run."), "{}", report::summary(&outcomes));
    assert_eq!(std::fs::read(folder.path().join("runs.jsonl")).expect("it is there"), b"");
}

#[test]
fn another_simulators_runs_are_judged_by_the_same_rules() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("witness.jsonl");
    let rows = |points: &[(u32, u32)]| -> String {
        let row = |(x, goodput): &(u32, u32), seed: u32| {
            format!(
                "{{\"witness\":\"ns-9\",\"paper\":\"pac\",\"curve\":\"star.none\",\"x\":{x},\"seed\":{seed},\"setting\":\"s\",\
                 \"values\":{{\"goodput_mbps\":{goodput},\"rounds\":2,\"rounds_with_timeout\":0}}}}\n"
            )
        };
        points.iter().flat_map(|point| (1..=10).map(move |seed| row(point, seed))).collect()
    };
    let heard = |text: &str| {
        std::fs::write(&file, text).expect("it can be written");
        let mut outcomes = judged_only(folder.path());
        let witnesses = Witnesses::read(&file).unwrap_or_else(|error| panic!("{error}"));
        witnesses.testify(&mut outcomes).unwrap_or_else(|error| panic!("{error}"));
        let all = outcomes.papers[0].judged.iter().flat_map(|judged| &judged.testimonies);
        let told: Vec<_> = all.map(|one| (one.judgement.verdict, one.lacks.join("; "))).collect();
        (told, report::markdown(&outcomes, &Log::default(), &how()))
    };

    let (whole, page) = heard(&rows(&[(2, 900), (4, 900), (64, 10)]));
    assert_eq!(whole, [(Verdict::Reproduced, String::new()), (Verdict::Not, String::new())]);
    assert!(page.contains("| PAC-H1 | not run | ns-9: reproduced |"), "{page}");
    let (part, page) = heard(&rows(&[(2, 900), (4, 900)]));
    assert_eq!(part, [], "the part needs what was not run: nothing was seen of it");
    assert!(!page.contains("ns-9") && page.contains("| PAC-H1 | not run | not run |"), "{page}");
    // What was run again counts, not what was before.
    let (again, _) = heard(&rows(&[(64, 900), (2, 900), (4, 900), (64, 10)]));
    assert_eq!(again[0].0, Verdict::Reproduced);

    std::fs::write(&file, rows(&[(2, 900)]) + "{}\n").expect("it can be written");
    let told = Witnesses::read(&file).map_or_else(|error| error.to_string(), |_| "it was read".into());
    assert!(told.contains("witness.jsonl:11: is not a run"), "{told}");

    std::fs::write(&file, rows(&[(2, 900)]) + &rows(&[(3, 900)])).expect("it can be written");
    let books: Vec<Book> = judged_only(folder.path()).papers.into_iter().map(|paper| paper.book).collect();
    let told = Witnesses::read(&file)
        .and_then(|all| all.check(&books))
        .map_or_else(|error| error.to_string(), |()| "all known".into());
    assert!(told.contains("witness.jsonl:11: no headline uses `star.none` at 3"), "{told}");
}
