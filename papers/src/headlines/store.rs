//! Runs that have been done, one line of JSON each: a stopped reproduction goes on where it was.

use std::collections::{BTreeSet, HashMap};
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
    rows: HashMap<String, Arc<Row>>,
    /// Other programs that runs are from.
    pub(super) others: BTreeSet<String>,
}

impl Store {
    /// Opens the file, which is made when it is not there. A last line that was torn is left out.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(super) fn open(path: &Path, build: &str, wanted: BTreeSet<String>) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut store = Self {
            file: file.try_clone()?,
            build: build.into(),
            wanted,
            rows: HashMap::new(),
            others: BTreeSet::new(),
        };
        let mut whole = true;
        for line in BufReader::new(&mut file).lines() {
            let line = line?;
            match serde_json::from_str::<Line>(&line) {
                Ok(Line { setting, build, values }) => {
                    if build != store.build {
                        store.others.insert(build);
                    }
                    store.keep(setting, values);
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
        self.rows.get(setting).map(Arc::clone)
    }

    /// Adds a run, and writes it to the file at once.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn add(&mut self, setting: String, values: Row) -> std::io::Result<()> {
        let line = Line { setting, build: self.build.clone(), values };
        let text = serde_json::to_string(&line).expect("names and numbers make valid JSON");
        writeln!(self.file, "{text}")?;
        self.keep(line.setting, line.values);
        Ok(())
    }

    fn keep(&mut self, setting: String, mut values: Row) {
        values.retain(|name, _| self.wanted.contains(name));
        self.rows.insert(setting, Arc::new(values));
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
        assert!(store.others.contains("one"));
        store.add("y".into(), row(2.0)).expect("it is written");
        let store = Store::open(&path, "two", wanted).expect("it opens");
        assert!(store.get("x").is_some() && store.get("y").is_some());
    }
}
