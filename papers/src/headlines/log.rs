//! What was changed after results had been seen: rules, settings and models, with what the change did to the count.

use ackgate_sim::scenario::{Document, ScenarioError};
use serde::Deserialize;

/// One change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What was changed.
    pub what: String,
    /// Why.
    pub why: String,
    /// The change in the project's history; empty when it is the one that wrote the entry.
    #[serde(default)]
    pub commit: String,
    /// The count before and after, or what is known of it.
    pub count: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: Vec<Entry>,
}

/// All changes, the first first.
///
/// # Errors
/// When the file is wrong: says line and key.
pub fn entries() -> Result<Vec<Entry>, ScenarioError> {
    Ok(Document::parse("log.toml", include_str!("../../headlines/log.toml"))?.read_as::<File>()?.entry)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_entry_says_what_and_why() {
        for entry in super::entries().unwrap_or_else(|error| panic!("{error}")) {
            assert!(!entry.what.is_empty() && !entry.why.is_empty() && !entry.count.is_empty(), "{entry:?}");
        }
    }
}
