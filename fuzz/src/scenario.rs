//! Scenario files and changes to them: TOML, and behind a zero byte a line for each `--set`.

use ackgate_sim::scenario::{Assignment, Document};

/// Reads, changes, understands and checks a scenario; what is written out again means the same.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (text, changes) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(mut document) = Document::parse("fuzz.toml", text) else { return };
    for change in changes.lines().filter_map(|line| Assignment::parse("--set", line).ok()) {
        let _ = document.set(&change);
    }
    match document.scenario() {
        Ok(scenario) => {
            assert!(!scenario.parties().is_empty());
            let _ = scenario.warnings();
            let again = Document::parse("again.toml", &document.to_toml()).expect("what we write is TOML");
            assert_eq!(again.scenario().expect("what we write we read"), scenario);
        }
        Err(error) => assert!(error.to_string().contains(' '), "an error says something"),
    }
}
