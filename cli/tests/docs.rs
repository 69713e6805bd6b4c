//! What the README and the manual point at is there.

use std::fs;
use std::path::{Path, PathBuf};

use ackgate_linux::statistics::{Kind, STATISTICS, Statistic};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_path_buf()
}

/// Targets of the links of a page of Markdown, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).collect()
}

/// GitHub's name of a heading: small letters, digits and dashes.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.to_lowercase();
            kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages = vec![root().join("README.md")];
    let docs = fs::read_dir(root().join("docs")).expect("docs is a folder");
    pages.extend(
        docs.map(|entry| entry.expect("it can be listed").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md")),
    );
    assert!(pages.len() > 5);
    for page in pages {
        let text = fs::read_to_string(&page).expect("it is text");
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = page.parent().expect("it lies in a folder").join(file);
            assert!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() && file.ends_with(".md") {
                let there = anchors(&fs::read_to_string(&target).expect("it is text"));
                assert!(there.iter().any(|known| known == anchor), "{}: {link} among {there:?}", page.display());
            }
        }
    }
}

#[test]
fn every_statistic_is_in_the_manual_in_the_same_words() {
    let text = fs::read_to_string(root().join("docs/operating.md")).expect("it is there");
    for statistic in ackgate_linux::statistics::STATISTICS {
        let kind = format!("{:?}", statistic.kind).to_lowercase();
        let row = format!("| `{}` | {kind} | {} |", statistic.name, statistic.help);
        assert!(text.contains(&row), "{row}");
    }
}

/// Words in a text that begin with a prefix.
fn words_with<'a>(text: &'a str, prefix: &'a str) -> Vec<&'a str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(prefix).skip(1).map(|rest| rest.split(|c| !is_word(c)).next().unwrap_or_default()).collect()
}

#[test]
fn dashboard_and_alert_rules_ask_for_metrics_that_there_are() {
    let metric = |statistic: &Statistic| match statistic.kind {
        Kind::Counter => format!("{}_total", statistic.name),
        Kind::Gauge => statistic.name.to_owned(),
    };
    let known: Vec<String> = STATISTICS.iter().map(metric).chain(["build_info".to_owned()]).collect();
    for (file, most) in [("packaging/grafana/ackgate.json", 10), ("packaging/prometheus/ackgate.rules.yml", 4)] {
        let text = fs::read_to_string(root().join(file)).expect("it is there");
        let asked = words_with(&text, "ackgate_");
        assert!(asked.len() >= most, "{file}: {asked:?}");
        for name in asked {
            assert!(known.iter().any(|known| known == name), "{file}: no metric is called ackgate_{name}");
        }
    }
    let dashboard = fs::read_to_string(root().join("packaging/grafana/ackgate.json")).expect("it is there");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    assert!(panels.iter().all(|panel| panel["type"] == "row" || panel["targets"][0]["expr"].is_string()), "{panels:?}");
}

#[test]
fn the_live_page_shows_statistics_that_there_are() {
    let page = fs::read_to_string(root().join("cli/src/run/page.html")).expect("it is there");
    let list = page.split_once("const REASONS = [").and_then(|(_, rest)| rest.split_once(']')).expect("its list").0;
    let listed = list.split('\'').skip(1).step_by(2);
    let named: Vec<&str> = listed.chain(words_with(&page, " of('")).chain(words_with(&page, " grown('")).collect();
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        assert!(STATISTICS.iter().any(|statistic| statistic.name == name), "no statistic is called `{name}`");
    }
}

#[test]
fn every_scheme_of_the_readme_has_a_file_and_a_source() {
    let text = fs::read_to_string(root().join("README.md")).expect("it is there");
    let table = text.split("\n## Schemes\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the table");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 15, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(!cells[2].is_empty() && links(cells[3]).len() == 1, "{row}");
    }
}

/// All Rust sources of the project below a folder, as one text.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it can be listed").path()) {
        let skipped = ["target", ".git", "out"].iter().any(|name| entry.ends_with(name));
        if entry.is_dir() && !skipped {
            sources(&entry, text);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(&entry).expect("it is text");
        }
    }
}

#[test]
fn every_test_that_the_page_on_security_names_is_there() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("it is there");
    let mut text = String::new();
    sources(&root(), &mut text);
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let cells = page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.split('|').nth(2));
    let tests: Vec<String> = cells
        .flat_map(words)
        .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    assert!(tests.len() > 10, "{tests:?}");
    for test in tests {
        assert!(text.contains(&format!("fn {test}(")), "{test}");
    }
}
