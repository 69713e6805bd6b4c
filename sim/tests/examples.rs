//! The example scenarios: each loads, makes sense, and runs to its end.

use std::path::{Path, PathBuf};

use ackgate_sim::observer::Nobody;
use ackgate_sim::scenario::{Assignment, Scenario};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let files = std::fs::read_dir(folder).expect("scenarios/ is there").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

#[test]
fn every_example_runs_to_its_end() {
    let files = examples();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        // Few rounds will do to see that it runs.
        let few = Assignment::parse("--set", "rounds=2").unwrap();
        let scenario = Scenario::load(&file, &[few]).unwrap_or_else(|error| panic!("{error}"));
        let report =
            ackgate_sim::run(&scenario, &mut Nobody).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(report.complete && report.packets_delivered > 100, "{}: {report:?}", file.display());
        assert_eq!(report.packets.sent, report.packets.arrived + report.packets.dropped + report.packets.queued);
    }
}

#[test]
fn the_paper_s_setting_is_what_it_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/incast-1g.toml");
    let scenario = Scenario::load(&file, &[]).unwrap();
    // Defaults are PAC's 1 Gb/s setting too: only what the file itself chooses differs.
    let (senders, workload) = (scenario.senders, scenario.workload.clone());
    assert_eq!(scenario, Scenario { senders, workload, ..Scenario::default() });
}

#[test]
fn the_manual_names_every_key_and_figure() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulating.md");
    let manual = std::fs::read_to_string(manual).expect("docs/simulating.md is there");
    let quoted = |name: &str| manual.contains(&format!("`{name}`"));
    for key in ackgate_sim::scenario::schema::keys() {
        let name = key.path.rsplit('.').next().expect("a key has a name");
        assert!(quoted(name), "`{}` is not in docs/simulating.md", key.path);
        // What a scheme takes stands in one line, without its ranges.
        let table = key.path.split('.').next().unwrap_or_default();
        let tables = [
            "network",
            "switch",
            "host",
            "tcp",
            "workload",
            "group",
            "background",
            "change",
            "senders",
            "rounds",
            "time_limit",
            "warm_up",
        ];
        if let Some(range) = key.range.filter(|_| tables.contains(&table)) {
            let told = |line: &str| line.contains(&format!("`{name}`")) && line.contains(&range);
            assert!(manual.lines().any(told), "docs/simulating.md does not say that `{}` is {range}", key.path);
        }
        let kind = key.kind.filter(|_| key.path.starts_with("workload."));
        assert!(kind.is_none_or(|kind| manual.contains(&format!("`kind = \"{kind}\"`"))), "{}", key.path);
    }
    let report = ackgate_sim::output::flat::json(&Default::default());
    for field in report.as_object().expect("a report is an object").keys() {
        assert!(quoted(field), "the figure `{field}` is not in docs/simulating.md");
    }
    for scheme in ackgate_sim::scenario::Scheme::ALL {
        assert!(quoted(scheme.name()), "the scheme `{}` is not in docs/simulating.md", scheme.name());
    }
    for file in examples() {
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(quoted(&name), "{name} is not in docs/simulating.md");
    }
}

#[test]
fn pac_handles_1600_senders_and_fails_at_2048_because_of_syns() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/many-senders-1g.toml");
    let run = |changes: &[&str]| {
        let changes: Vec<Assignment> =
            changes.iter().map(|change| Assignment::parse("--set", change).unwrap()).collect();
        ackgate_sim::run(&Scenario::load(&file, &changes).unwrap(), &mut Nobody).unwrap()
    };
    let held = run(&["rounds=5"]);
    assert_eq!((held.senders, held.rto_timeouts), (1_600, 0));
    assert!(held.goodput_mbps > 800.0, "{}", held.goodput_mbps);
    let failed = run(&["rounds=5", "senders=2048"]);
    assert!(failed.goodput_mbps < 400.0 && failed.rounds_with_timeout == 5, "{}", failed.goodput_mbps);
    // SYNs are what is lost: 52 bytes each, 20 us of them, for 96 KB.
    assert!((140 * 5..170 * 5).contains(&failed.drops) && failed.retransmits < 10, "{failed:?}");
}
