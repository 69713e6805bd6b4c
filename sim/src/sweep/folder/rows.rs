//! Rows that tasks have written. Each attempt at a task has a file of its own, to which a row is appended as soon as
//! its run is over: whoever is killed loses the row that was being written, and nobody waits for another's lock. Each
//! line ends with a hash of itself, so that what a failing disk or node left half-written is noticed.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::super::SweepError;
use super::super::plan::hash;
use super::super::row::line;

/// A file that one attempt at a task appends to.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    /// A new file for an attempt at a task, named by host and process.
    pub(super) fn create(folder: &Path, task: usize) -> Result<Self, SweepError> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host: String = host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        // A process number comes back, on another day or in another container.
        for attempt in 1.. {
            let path = folder.join(format!("{task:05}.{host}.{}.{attempt}.csv", std::process::id()));
            match OpenOptions::new().create_new(true).append(true).open(&path) {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(SweepError::Output(format!("{} cannot be written: {error}", path.display()))),
            }
        }
        unreachable!("attempts are not bounded")
    }

    /// Appends sealed lines.
    pub(super) fn add(&mut self, lines: &str) -> Result<(), SweepError> {
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|error| SweepError::Output(format!("{}: {error}", self.path.display())))
    }

    /// Waits until everything is on the disk.
    pub(super) fn finish(self) -> Result<(), SweepError> {
        self.file.sync_all().map_err(|error| SweepError::Output(format!("{}: {error}", self.path.display())))
    }
}

/// A row as a line, its hash at the end.
pub(super) fn seal(row: &[String]) -> String {
    let text = line(row);
    let text = text.trim_end_matches('\n');
    format!("{text},{:016x}\n", hash(text.as_bytes()))
}

/// The row of a line, its fingerprint and its hash; `None` when the line is not as it was written.
pub(super) fn unseal(sealed: &str) -> Option<(u64, u64, Vec<String>)> {
    let (text, seal) = sealed.rsplit_once(',')?;
    let seal = u64::from_str_radix(seal, 16).ok().filter(|seal| *seal == hash(text.as_bytes()))?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let row: Vec<String> = reader.records().next()?.ok()?.iter().map(str::to_owned).collect();
    let fingerprint = u64::from_str_radix(row.last()?, 16).ok()?;
    Some((fingerprint, seal, row))
}

/// What the parts of a sweep hold.
#[derive(Debug, Default)]
pub struct Rows {
    rows: HashMap<u64, Found>,
    /// Fingerprints by task.
    tasks: HashMap<usize, HashSet<u64>>,
    files: Vec<PathBuf>,
    /// Lines that are not as they were written.
    pub damaged: usize,
    /// Points that were run more than once, and came out the same.
    pub repeated: usize,
    /// Points of which two rows differ, in words.
    pub conflicts: Vec<String>,
}

#[derive(Debug)]
struct Found {
    row: Vec<String>,
    hash: u64,
    file: usize,
}

impl Rows {
    /// Reads all parts in a folder, or those of one task.
    pub(super) fn read(folder: &Path, only: Option<usize>) -> Result<Self, SweepError> {
        let failed =
            |error: std::io::Error| SweepError::Output(format!("{} cannot be read: {error}", folder.display()));
        let mut rows = Self::default();
        let mut parts = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let task = name.strip_suffix(".csv").and_then(|name| name.split('.').next()?.parse::<usize>().ok());
            parts.extend(task.filter(|task| only.is_none_or(|only| only == *task)).map(|task| (path.clone(), task)));
        }
        // In an order of their own, so that what is said about them is the same each time.
        parts.sort();
        for (path, task) in parts {
            let text = fs::read(&path)
                .map_err(|error| SweepError::Output(format!("{} cannot be read: {error}", path.display())))?;
            rows.files.push(path);
            rows.take(task, &String::from_utf8_lossy(&text));
        }
        Ok(rows)
    }

    /// Takes the lines of a part; what is damaged, repeated or contradicts an earlier one is counted.
    pub fn take(&mut self, task: usize, text: &str) {
        let file = self.files.len().saturating_sub(1);
        for sealed in text.lines().filter(|line| !line.is_empty()) {
            let Some((fingerprint, hash, row)) = unseal(sealed) else {
                self.damaged += 1;
                continue;
            };
            self.tasks.entry(task).or_default().insert(fingerprint);
            match self.rows.get(&fingerprint) {
                Some(known) if known.hash == hash => self.repeated += 1,
                Some(known) => self.conflicts.push(format!(
                    "point {fingerprint:016x}: {} has hash {:016x}, {} has hash {hash:016x}",
                    self.name(known.file),
                    known.hash,
                    self.name(file)
                )),
                None => {
                    self.rows.insert(fingerprint, Found { row, hash, file });
                }
            }
        }
    }

    fn name(&self, file: usize) -> String {
        self.files.get(file).and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether a point's row is there.
    #[must_use]
    pub fn has(&self, fingerprint: u64) -> bool {
        self.rows.contains_key(&fingerprint)
    }

    /// Number of points that have a row.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no point has a row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of a task's points that have a row.
    #[must_use]
    pub fn of_task(&self, task: usize) -> usize {
        self.tasks.get(&task).map_or(0, HashSet::len)
    }

    /// Fingerprints of all points that have a row.
    pub(super) fn fingerprints(&self) -> Vec<u64> {
        self.rows.keys().copied().collect()
    }

    /// Takes a point's row out.
    pub(super) fn remove(&mut self, fingerprint: u64) -> Option<Vec<String>> {
        self.rows.remove(&fingerprint).map(|found| found.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(goodput: &str) -> Vec<String> {
        ["{ kind = \"ecn\", mark_above = \"10p\" }", goodput, "00000000000000ab"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_line_comes_back_or_is_damaged() {
        let sealed = seal(&row("900"));
        assert_eq!(unseal(sealed.trim_end()).map(|(print, _, row)| (print, row)), Some((0xab, row("900"))));
        for cut in 0..sealed.len() - 1 {
            assert!(unseal(&sealed[..cut]).is_none(), "{}", &sealed[..cut]);
        }
        assert!(unseal(&sealed.replace("900", "901")).is_none());
    }

    #[test]
    fn equal_rows_agree_and_others_are_told_with_both_hashes() {
        let folder = tempfile::tempdir().unwrap();
        for (task, lines) in [(1, seal(&row("900"))), (1, seal(&row("900")) + "torn,12"), (2, seal(&row("901")))] {
            let mut part = Part::create(folder.path(), task).unwrap();
            part.add(&lines).unwrap();
            part.finish().unwrap();
        }
        let rows = Rows::read(folder.path(), None).unwrap();
        assert_eq!((rows.len(), rows.repeated, rows.damaged, rows.conflicts.len()), (1, 1, 1, 1));
        let hashes: Vec<String> = ["900", "901"]
            .iter()
            .map(|value| seal(&row(value)).trim_end().rsplit_once(',').unwrap().1.to_owned())
            .collect();
        assert!(hashes.iter().all(|hash| rows.conflicts[0].contains(hash)), "{:?}", rows.conflicts);
        assert_eq!((rows.of_task(1), rows.of_task(2), rows.of_task(3)), (1, 1, 0));
        assert!(Rows::read(folder.path(), Some(1)).unwrap().conflicts.is_empty());
    }
}
