//! What is set otherwise than the primary setting: another reading of what a paper leaves open, or an experiment that shows
//! why a headline did not come out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::book::{Book, Headline};
use super::probe::Watch;
use super::rule::Rule;

/// A change to the settings of a paper, under which its headlines are judged again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// What is open, or what an experiment changes.
    pub open: String,
    /// The primary reading.
    pub primary: String,
    /// This one.
    pub also: String,
    /// Of an experiment: the headlines that it explains. No verdict depends on an experiment.
    #[serde(default)]
    pub shows: Vec<String>,
    /// Of an experiment: what it shows.
    #[serde(default)]
    pub says: String,
    /// Settings that it changes; all when empty.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Curves that it changes, by their names in the settings; all when empty.
    #[serde(default)]
    pub curves: Vec<String>,
    /// Changes to the scenario.
    #[serde(default)]
    pub set: Vec<String>,
    /// What the keys of the axis are given in the place of its values, one for each.
    #[serde(default)]
    pub x: String,
    /// What is counted beside what the settings count.
    #[serde(default)]
    pub watch: Vec<Watch>,
    /// Changes to what names of quantities mean.
    #[serde(default)]
    pub define: BTreeMap<String, String>,
    /// Why it cannot be run; empty when it can.
    #[serde(default)]
    pub not_run: String,
    /// What it takes, where that is much; told where it was not run.
    #[serde(default)]
    pub takes: String,
}

impl Alternative {
    /// Whether it is an experiment, and no reading that the paper leaves open.
    #[must_use]
    pub fn is_experiment(&self) -> bool {
        !self.shows.is_empty()
    }

    /// Whether a curve has to be run again for it.
    #[must_use]
    pub fn changes(&self, setting: &str, curve: &str) -> bool {
        let runs = !(self.set.is_empty() && self.x.is_empty() && self.watch.is_empty());
        runs && self.is_of(setting, curve)
    }

    /// Whether it is about a curve at all.
    fn is_of(&self, setting: &str, curve: &str) -> bool {
        let among = |all: &[String], name: &str| all.is_empty() || all.iter().any(|known| known == name);
        among(&self.settings, setting) && among(&self.curves, curve)
    }

    /// Whether it may change a headline's verdict.
    #[must_use]
    pub fn concerns(&self, headline: &Headline) -> bool {
        if !headline.cannot.is_empty() || (self.is_experiment() && !self.shows.contains(&headline.id)) {
            return false;
        }
        let touches = |name: &str| {
            let (setting, curve) = name.split_once('.').expect("checked as the file was read");
            self.is_of(setting, curve) && (!self.define.is_empty() || self.changes(setting, curve))
        };
        headline.rules().flat_map(Rule::curves).any(touches)
    }

    /// Says what is wrong with it, as one of the experiments or of the readings of a book with these headlines.
    pub(super) fn check(&self, experiment: bool, ids: &[&str]) -> Result<(), String> {
        if experiment != self.is_experiment() {
            return Err(
                "an experiment needs `shows`, the headlines that it explains; a reading must not have it".into()
            );
        }
        if let Some(id) = self.shows.iter().find(|id| !ids.contains(&id.as_str())) {
            return Err(format!("there is no headline `{id}`"));
        }
        let changes = !(self.set.is_empty() && self.x.is_empty() && self.define.is_empty());
        if changes == self.not_run.is_empty() { Ok(()) } else { Err("needs changes, or `not_run`".into()) }
    }
}

/// Which of the alternatives and experiments are run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Readings {
    /// All readings of what the papers leave open.
    pub alternatives: bool,
    /// All experiments.
    pub experiments: bool,
    /// Some of either, by name.
    pub named: Vec<String>,
}

impl Readings {
    /// What of a book is run, with its numbers there.
    pub(super) fn of<'a>(&'a self, book: &'a Book) -> impl Iterator<Item = (usize, &'a Alternative)> {
        let asked = |(number, other): &(usize, &Alternative)| {
            let name = book.reading(*number);
            let all = if other.is_experiment() { self.experiments } else { self.alternatives };
            other.not_run.is_empty() && (all || self.named.iter().any(|known| known.eq_ignore_ascii_case(&name)))
        };
        book.alternatives.iter().enumerate().filter(asked)
    }

    /// A name that no book knows, or that cannot be run.
    pub(super) fn unknown(&self, books: &[Book]) -> Option<&String> {
        let known: Vec<String> = books
            .iter()
            .flat_map(|book| book.alternatives.iter().enumerate().map(move |(i, other)| (book.reading(i), other)))
            .filter(|(_, other)| other.not_run.is_empty())
            .map(|(name, _)| name)
            .collect();
        self.named.iter().find(|name| !known.iter().any(|one| one.eq_ignore_ascii_case(name)))
    }
}
