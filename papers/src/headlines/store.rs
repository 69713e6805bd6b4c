//! Runs that have been done, one line of JSON each: a stopped reproduction goes on where it was.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::figures::Row;

/// One run.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Identifies the scenario with its seed, and what was counted.
    setting: String,
    /// The program that ran it.
    build: String,
    values: Row,
}

/// All runs of a folder.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
    build: String,
    /// Quantities that are kept in memory.
    wanted: BTreeSet<String>,
    /// Each run with its program, by number.
    rows: HashMap<String, (Arc<Row>, usize)>,
    /// All programs that runs are from.
    builds: Vec<String>,
}

impl Store {
    /// Opens the file, which is made when it is not there. A last line that was torn is left out.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(super) fn open(path: &Path, build: &str, wanted: BTreeSet<String>) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut store =
            Self { file: file.try_clone()?, build: build.into(), wanted, rows: HashMap::new(), builds: Vec::new() };
        let mut whole = true;
        for line in BufReader::new(&mut file).lines() {
            let line = line?;
            match serde_json::from_str::<Line>(&line) {
                Ok(Line { setting, build, values }) => {
                    store.keep(setting, values, build);
                    whole = true;
                }
                Err(_) => whole = false,
            }
        }
        if !whole {
            writeln!(store.file)?;
        }
        Ok(store)
    }

    /// A run, if it is there.
    #[must_use]
    pub(super) fn get(&self, setting: &str) -> Option<Arc<Row>> {
        self.rows.get(setting).map(|(row, _)| Arc::clone(row))
    }

    /// How many of some runs each program has made.
    pub(super) fn builds<'a>(&self, settings: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (_, build) in settings.filter_map(|setting| self.rows.get(setting)) {
            *counts.entry(self.builds[*build].clone()).or_default() += 1;
        }
        counts
    }

    /// Adds a run, and writes it to the file at once.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn add(&mut self, setting: String, values: Row) -> std::io::Result<()> {
        let line = Line { setting, build: self.build.clone(), values };
        let text = serde_json::to_string(&line).expect("names and numbers make valid JSON");
        writeln!(self.file, "{text}")?;
        self.keep(line.setting, line.values, line.build);
        Ok(())
    }

    /// The last of several runs of one setting stands.
    fn keep(&mut self, setting: String, mut values: Row, build: String) {
        values.retain(|name, _| self.wanted.contains(name));
        let number = self.builds.iter().position(|known| *known == build).unwrap_or_else(|| {
            self.builds.push(build);
            self.builds.len() - 1
        });
        self.rows.insert(setting, (Arc::new(values), number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_run_again_and_does_not_hurt_the_next() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("runs.jsonl");
        let wanted: BTreeSet<String> = ["a".to_owned()].into();
        let row = |value: f64| Row::from([("a".to_owned(), value), ("b".to_owned(), 0.0)]);
        let mut store = Store::open(&path, "one", wanted.clone()).expect("it opens");
        store.add("x".into(), row(1.0)).expect("it is written");
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{\"setting\":\"y\",\"bu"))
            .expect("it is written");
        let mut store = Store::open(&path, "two", wanted.clone()).expect("it opens");
        assert_eq!(store.get("x").as_deref(), Some(&Row::from([("a".to_owned(), 1.0)])));
        assert!(store.get("y").is_none());
        store.add("y".into(), row(2.0)).expect("it is written");
        let store = Store::open(&path, "two", wanted).expect("it opens");
        assert!(store.get("x").is_some() && store.get("y").is_some());
    }

    #[test]
    fn each_run_is_known_to_be_of_its_program_and_the_last_of_a_setting_stands() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("runs.jsonl");
        let wanted: BTreeSet<String> = ["a".to_owned()].into();
        let row = |value: f64| Row::from([("a".to_owned(), value)]);
        for (build, settings) in [("one", ["x", "y"]), ("two", ["y", "z"])] {
            let mut store = Store::open(&path, build, wanted.clone()).expect("it opens");
            for setting in settings {
                store.add(setting.into(), row(if build == "one" { 1.0 } else { 2.0 })).expect("it is written");
            }
        }
        let store = Store::open(&path, "three", wanted).expect("it opens");
        let names = ["x", "y", "z", "never run"].map(str::to_owned);
        assert_eq!(store.builds(names.iter()), BTreeMap::from([("one".to_owned(), 1), ("two".to_owned(), 2)]));
        assert_eq!(store.get("y").as_deref(), Some(&row(2.0)));
    }
}
