//! The experiments' files are whole, and wrong ones are refused with file, line and key.

use ackgate_papers::catalogue;
use ackgate_papers::experiment::Experiment;

#[test]
fn every_file_is_in_the_catalogue_and_named_after_its_experiment() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder is part of the crate")
        .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .collect();
    let mut known: Vec<String> = catalogue::FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    files.sort();
    known.sort();
    assert_eq!(files, known);
    for quick in [false, true] {
        let experiments = catalogue::load(&[], quick).unwrap_or_else(|error| panic!("{error}"));
        let ids: Vec<&str> = experiments.iter().map(|experiment| experiment.id.as_str()).collect();
        assert_eq!(ids, catalogue::ids());
    }
}

#[test]
fn an_experiment_says_where_its_settings_come_from_and_what_it_tests() {
    for experiment in catalogue::load(&[], false).expect("all files are right") {
        let id = &experiment.id;
        assert!(!experiment.settings.is_empty() && !experiment.claims.is_empty(), "{id}");
        assert!(experiment.topology.lines().count() >= 2, "{id}");
    }
}

#[test]
fn unknown_names_are_refused() {
    let error = catalogue::load(&["PAC-F99".into()], true).expect_err("there is none").to_string();
    assert!(error.starts_with("there is no experiment `PAC-F99`; there are "), "{error}");
    assert_eq!(catalogue::load(&["pac-f13".into()], true).map(|found| found.len()).ok(), Some(1));
}

#[test]
fn every_figure_of_the_papers_has_an_experiment_or_a_reason_why_not() {
    let figures = |paper: &str, count: u32| (1..=count).map(|n| format!("{paper}-F{n}")).collect::<Vec<_>>();
    let mut wanted = [figures("PAC", 15), figures("VAS", 17), figures("M21", 7), figures("HW", 11)].concat();
    let tables =
        ["PAC-T-CPU", "PAC-T-BUF", "PAC-T-NMAX", "VAS-T-DELACK", "VAS-T-HRT", "VAS-T-JIFFY", "VAS-T1", "VAS-FN4"];
    wanted.extend(tables.map(String::from));
    let mut covered: Vec<String> = catalogue::load(&[], true)
        .expect("all files are right")
        .into_iter()
        .flat_map(|experiment| std::iter::once(experiment.id).chain(experiment.also))
        .chain(catalogue::not_run().expect("the file is right").into_iter().map(|figure| figure.id))
        .collect();
    wanted.sort();
    covered.sort();
    assert_eq!(covered, wanted, "each figure once");
}

#[test]
fn a_figure_is_found_in_the_experiment_that_covers_it() {
    let names = ["vas-f16", "VAS-F15", "VAS-T1"].map(String::from);
    let found: Vec<String> =
        catalogue::load(&names, true).expect("it is covered").into_iter().map(|experiment| experiment.id).collect();
    assert_eq!(found, ["VAS-F15"], "once, however often it is named");
    let error = catalogue::load(&["vas-f10".into()], true).expect_err("nothing runs it").to_string();
    assert!(error.starts_with("VAS-F10 is not run: ") && error.contains("Los Alamos"), "{error}");
}

const SERIES: &str = "[[series]]";
const VIEW: &str = "[[view]]\nkind = \"course\"\nof = \"bottleneck_mbps\"\nlabel = \"data\"\nx = 8\nbin_ms = 1\n";

/// The text of PAC-F13 with one change, and what is said of it.
fn refusal(from: &str, to: &str) -> String {
    let (_, text) = catalogue::FILES.iter().find(|(name, _)| *name == "pac-f13.toml").expect("it is there");
    assert!(text.contains(from), "{from}");
    let changed = text.replacen(from, to, 1);
    Experiment::parse("mine.toml", &changed, false).expect_err(to).to_string()
}

#[test]
fn wrong_files_are_refused_with_file_line_and_key() {
    let cases = [
        ("seeds = 3", "seed = 3", "unknown key `seed`; did you mean `seeds`?"),
        ("paper = \"pac\"", "paper = \"pak\"", "key `paper`: unknown name `pak`; did you mean `pac`?"),
        ("metric = \"goodput_mbps\"", "metric = \"goodput\"", "key `panel.0.metric`: `goodput` is not a metric"),
        ("series = \"PAC\", to", "series = \"CAP\", to", "key `claim.0.judge`: `CAP` is not a series; there are PAC"),
        ("to = 128", "to = 129", "key `claim.0.judge`: 129 is not among the values of the axis"),
        ("buffer = \"96KB\" }", "buffer = \"96Kb\" }", "key `switch.buffer`: `96Kb` is not a size"),
        ("scheme=dctcp", "scheme=dcctp", "key `series.1`: change scheme=dcctp: key `scheme`: unknown name `dcctp`"),
        ("kind = \"no_collapse\"", "kind = \"none\"", "key `claim.0.judge.kind`: unknown name `none`"),
        ("name = \"DCTCP\"", "name = \"PAC\"", "key `series.1.name`: `PAC` names two series"),
        ("8..40:4", "40..8:4", "key `x.values`:"),
        (SERIES, &format!("{VIEW}series = [\"CAP\"]\n{SERIES}"), "key `view.0`: `CAP` is not a series"),
        (SERIES, &format!("{VIEW}span_ms = [5, 5]\n{SERIES}"), "key `view.0`: `span_ms` runs from 5 to 5"),
        (SERIES, &format!("{VIEW}set = [\"tcp.mss=0\"]\n{SERIES}"), "key `view.0`: "),
        (SERIES, &format!("{}\n{SERIES}", VIEW.replace("bottleneck_mbps", "bottleneck")), "unknown name `bottleneck`"),
        (SERIES, &format!("{}\n{SERIES}", VIEW.replace("bin_ms = 1", "bin_ms = 0")), "key `view.0`: `bin_ms` is 0"),
    ];
    for (from, to, expected) in cases {
        let error = refusal(from, to);
        let place = error.strip_prefix("mine.toml:").and_then(|rest| rest.split_once(": "));
        assert!(place.is_some_and(|(line, _)| line.parse::<u32>().is_ok()), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
