//! Where figures come from: enough to make them again.

use serde_json::json;

use crate::scenario::{Document, ScenarioError};
use crate::sweep::Vary;

/// The scenario, what was varied in it, and which program ran it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Version of the program, and of its source.
    pub build: String,
    /// The scenario as the text of a file, changes made: what differs from the defaults.
    pub scenario: String,
    /// The scenario with every value, defaults too, for reading.
    pub whole: String,
    /// First seed.
    pub seed: u64,
    /// Seeds of each combination, counted up from the first.
    pub seeds: u32,
    /// What was varied.
    pub vary: Vec<Vary>,
    /// Which part of the sweep, such as `1/4`; empty for all of it.
    pub shard: String,
}

impl Provenance {
    /// Of a document as it was run.
    ///
    /// # Errors
    /// When the document is no scenario.
    pub fn new(build: &str, document: &Document, vary: &[Vary], seeds: u32) -> Result<Self, ScenarioError> {
        // A document that is a scenario only with what is varied in it has no values of its own to show.
        let scenario =
            document.scenario().or_else(|error| if vary.is_empty() { Err(error) } else { first(document, vary) })?;
        Ok(Self {
            build: build.into(),
            scenario: document.to_toml(),
            whole: format!("{scenario:#?}"),
            seed: scenario.seed,
            seeds,
            vary: vary.to_vec(),
            shard: String::new(),
        })
    }

    /// As names and texts, for a file's metadata.
    #[must_use]
    pub fn pairs(&self) -> Vec<(String, String)> {
        let seeds: Vec<u64> = (0..u64::from(self.seeds)).map(|i| self.seed.wrapping_add(i)).collect();
        let vary: serde_json::Map<String, serde_json::Value> =
            self.vary.iter().map(|vary| (vary.key.clone(), json!(vary.values))).collect();
        let mut pairs = vec![
            ("ackgate.build", self.build.clone()),
            ("ackgate.scenario", self.scenario.clone()),
            ("ackgate.scenario.whole", self.whole.clone()),
            ("ackgate.seeds", json!(seeds).to_string()),
            ("ackgate.vary", serde_json::Value::Object(vary).to_string()),
        ];
        if !self.shard.is_empty() {
            pairs.push(("ackgate.shard", self.shard.clone()));
        }
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// The first combination.
fn first(document: &Document, vary: &[Vary]) -> Result<crate::scenario::Scenario, ScenarioError> {
    let mut document = document.clone();
    for vary in vary {
        let value = vary.values.first().cloned().unwrap_or_default();
        document.set(&crate::scenario::Assignment { option: "--vary", key: vary.key.clone(), value })?;
    }
    document.scenario()
}
