//! What the hosts of a paper's experiments were, where the paper does not say it setting by setting: a simulator or a
//! kernel as it comes. All experiments on the same hosts start from the same settings; what an experiment's own file sets,
//! because its paper gives it, comes first.

use ackgate_sim::scenario::{Assignment, Document, ScenarioError};
use serde::Deserialize;

/// File name and text of every kind of host.
const FILES: [(&str, &str); 4] = [
    ("ns-2.toml", include_str!("../hosts/ns-2.toml")),
    ("ns-3.toml", include_str!("../hosts/ns-3.toml")),
    ("linux-2.6.toml", include_str!("../hosts/linux-2.6.toml")),
    ("linux-3.18.toml", include_str!("../hosts/linux-3.18.toml")),
];

/// A kind of host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// What experiments call it.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// What it sets.
    #[serde(rename = "setting")]
    pub settings: Vec<Given>,
}

/// A setting and the default that it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// The scenario's key and its value.
    pub set: String,
    /// The variable of the simulator or kernel, or the rule that it follows.
    pub why: String,
}

impl Hosts {
    /// All kinds of hosts.
    ///
    /// # Errors
    /// When a file of theirs is wrong.
    pub fn all() -> Result<Vec<Self>, ScenarioError> {
        FILES.iter().map(|(file, text)| Document::parse(file, text)?.read_as()).collect()
    }

    /// Sets in a scenario what it does not set by itself, and says what that was.
    ///
    /// # Errors
    /// When a setting cannot be read.
    pub fn apply(&self, scenario: &mut Document) -> Result<Vec<Given>, ScenarioError> {
        let mut given = Vec::new();
        for setting in &self.settings {
            let change = Assignment::parse("hosts", &setting.set)?;
            if !scenario.has(&change.key) {
                scenario.set(&change)?;
                given.push(setting.clone());
            }
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_sets_comes_before_what_its_hosts_are() {
        let hosts = Hosts::all().expect("the files are right");
        let ns2 = hosts.iter().find(|hosts| hosts.name == "ns-2").expect("it is there");
        let mut scenario = Document::parse("mine.toml", "tcp = { mss = 1460 }").expect("it is TOML");
        let given = ns2.apply(&mut scenario).expect("the settings can be read");
        assert_eq!(given.len(), ns2.settings.len() - 1);
        let tcp = scenario.scenario().expect("it makes sense").tcp;
        assert_eq!((tcp.mss, tcp.max_window, tcp.limited_transmit), (1460, Some(20), true));
    }

    #[test]
    fn every_setting_is_one_of_a_scenario() {
        for hosts in Hosts::all().expect("the files are right") {
            let mut scenario = Document::parse("mine.toml", "").expect("it is TOML");
            hosts.apply(&mut scenario).expect("the settings can be read");
            scenario.scenario().unwrap_or_else(|error| panic!("{}: {error}", hosts.name));
        }
    }
}
