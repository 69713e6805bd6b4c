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

/// What is known of earlier runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// How the rows of the page were made, and what that takes.
    pub made: Vec<String>,
    /// All changes, the first first.
    pub entry: Vec<Entry>,
}

impl Log {
    /// The file of this program.
    ///
    /// # Errors
    /// When it is wrong: says line and key.
    pub fn read() -> Result<Self, ScenarioError> {
        Document::parse("log.toml", include_str!("../../headlines/log.toml"))?.read_as()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_entry_says_what_and_why() {
        for entry in super::Log::read().unwrap_or_else(|error| panic!("{error}")).entry {
            assert!(!entry.what.is_empty() && !entry.why.is_empty() && !entry.count.is_empty(), "{entry:?}");
        }
    }
}
