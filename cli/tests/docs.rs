//! What the README and the manual point at is there.

use std::fs;
use std::path::{Path, PathBuf};

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
