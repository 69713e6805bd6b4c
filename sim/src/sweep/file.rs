//! The rows of a sweep, and the CSV file that keeps them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::SweepError;
use super::plan::{Plan, Point};
use super::row::{FINGERPRINT, Layout, line, plain};
use crate::output::flat;
use crate::output::frame::Frame;
use crate::report::Report;

/// The rows of one shard, in a file or in memory alone.
#[derive(Debug)]
pub struct Output {
    layout: Layout,
    header: bool,
    /// Fingerprints of the shard's points, in order.
    order: Vec<u64>,
    rows: HashMap<u64, Vec<String>>,
    file: Option<(PathBuf, File)>,
}

impl Output {
    /// Rows for `points` of `plan`, kept in memory. `wall` adds the time that each run took, the one column that
    /// differs between equal sweeps. `header` says whether the file begins with the column names.
    #[must_use]
    pub fn new(plan: &Plan, points: &[Point], header: bool, wall: bool) -> Self {
        let layout = Layout::new(&plan.keys, wall);
        let order = points.iter().map(|point| point.fingerprint).collect();
        Self { layout, header, order, rows: HashMap::new(), file: None }
    }

    /// Column names. The varied keys that a report does not show itself come first, the fingerprint last.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.layout.columns
    }

    /// Keeps the rows in a file too, which nobody else may write until this is dropped. Rows that it has already are
    /// taken over, and a last line that was torn by an interruption is cut off.
    ///
    /// # Errors
    /// When the file cannot be read or written, another sweep is writing it, or it holds something that is not of this
    /// sweep.
    pub fn keep_in(mut self, path: &Path) -> Result<Self, SweepError> {
        let name = path.display();
        let io = |error: std::io::Error| SweepError::Output(format!("{name}: {error}"));
        // A device or a pipe cannot be gone on with, nor must another file take its place in the end.
        if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
            let advice = "rows are kept where they can be read again; for standard output, --csv prints them";
            return Err(SweepError::Usage(format!("--out {name}: is not a regular file: {advice}")));
        }
        let file = OpenOptions::new().create(true).read(true).append(true).open(path);
        let mut file = file.map_err(|error| SweepError::Output(format!("{name} cannot be written: {error}")))?;
        lock(&file, path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(io)?;
        let whole = self.take_over(&name.to_string(), &text)?;
        file.set_len(whole as u64).map_err(io)?;
        if whole == 0 && self.header {
            file.write_all(line(&self.layout.columns).as_bytes()).map_err(io)?;
        }
        // Behind a symbolic link, which stays one.
        let place = fs::canonicalize(path).map_err(io)?;
        self.file = Some((place, file));
        Ok(self)
    }

    /// Takes over the rows that a file has already, named `name` in messages. Returns how many of its bytes are whole lines.
    ///
    /// # Errors
    /// When it holds something that is not of this sweep.
    pub fn take_over(&mut self, name: &str, text: &[u8]) -> Result<usize, SweepError> {
        // What follows the last line end was being written as the run was stopped.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let own = |line: usize, problem: &str| {
            let advice = "it belongs to another sweep: choose another --out, or remove the file";
            SweepError::Foreign(format!("{name}:{line}: {problem}; {advice}"))
        };
        let known: HashSet<u64> = self.order.iter().copied().collect();
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&text[..whole]);
        for (i, record) in reader.records().enumerate() {
            let record = record.map_err(|_| own(i + 1, "is not a line of CSV text"))?;
            let row: Vec<String> = record.iter().map(str::to_owned).collect();
            if self.header && i == 0 {
                if row != self.layout.columns {
                    return Err(own(1, "has other columns than this sweep"));
                }
                continue;
            }
            let print = row.last().and_then(|print| u64::from_str_radix(print, 16).ok());
            match print.filter(|print| row.len() == self.layout.columns.len() && known.contains(print)) {
                Some(print) => self.rows.insert(print, row),
                None => return Err(own(i + 1, "has a row that is not one of this sweep's points")),
            };
        }
        // A torn line behind rows of this sweep is of this sweep too; by itself it could be anybody's.
        let header = if self.header { line(&self.layout.columns) } else { String::new() };
        if whole == 0 && !header.as_bytes().starts_with(text) {
            return Err(own(1, "is not the beginning of this sweep's rows"));
        }
        Ok(whole)
    }

    /// Whether this point's row is there already.
    #[must_use]
    pub fn has(&self, point: &Point) -> bool {
        self.rows.contains_key(&point.fingerprint)
    }

    /// This point's row, if it is there.
    #[must_use]
    pub fn row(&self, point: &Point) -> Option<&[String]> {
        self.rows.get(&point.fingerprint).map(Vec::as_slice)
    }

    /// Adds a row, and appends it to the file at once.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, point: &Point, report: &Report) -> Result<(), SweepError> {
        self.insert(point, self.layout.row(point, report))
    }

    /// Adds a row that is made already by [`Layout`], and appends it to the file at once.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn insert(&mut self, point: &Point, row: Vec<String>) -> Result<(), SweepError> {
        if let Some((path, file)) = &mut self.file {
            let io = |error: std::io::Error| SweepError::Output(format!("{}: {error}", path.display()));
            file.write_all(line(&row).as_bytes()).map_err(io)?;
        }
        self.rows.insert(point.fingerprint, row);
        Ok(())
    }

    /// The rows that are there, in the order of the sweep.
    #[must_use]
    pub fn rows(&self) -> Vec<&Vec<String>> {
        self.order.iter().filter_map(|print| self.rows.get(print)).collect()
    }

    /// Everything as CSV text, in the order of the sweep.
    #[must_use]
    pub fn csv(&self) -> String {
        let header = self.header.then(|| line(&self.layout.columns));
        header.into_iter().chain(self.rows().into_iter().map(|row| line(row))).collect()
    }

    /// The rows that are there, in the order of the sweep, as typed columns.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.layout.frame(&self.rows())
    }

    /// The rows that are there, in the order of the sweep: each an object as `ackgate sim run` prints it, with the
    /// varied keys that it does not have itself, and the fingerprint.
    #[must_use]
    pub fn json(&self) -> Value {
        let object = |row: &&Vec<String>| {
            let (keys, rest) = row.split_at(self.layout.own.len());
            let report =
                self.layout.columns[keys.len()..].iter().zip(rest).map(|(name, text)| (name.as_str(), text.as_str()));
            let mut object: Map<String, Value> =
                self.layout.columns.iter().zip(keys).map(|(key, text)| (key.clone(), plain(text))).collect();
            object.extend(flat::from_columns(&report.collect()));
            object.extend(row.last().map(|print| (FINGERPRINT.to_owned(), Value::from(print.as_str()))));
            Value::Object(object)
        };
        Value::Array(self.rows().iter().map(object).collect())
    }

    /// Puts the file in order. Its place is taken in one step, so that there is a whole file at every moment.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(&mut self) -> Result<(), SweepError> {
        // Locked until the new file is in place.
        let Some((path, locked)) = self.file.take() else { return Ok(()) };
        let mut ordered = path.clone().into_os_string();
        ordered.push(".ordered");
        let ordered = PathBuf::from(ordered);
        fs::write(&ordered, self.csv())
            .and_then(|()| fs::set_permissions(&ordered, locked.metadata()?.permissions()))
            .and_then(|()| fs::rename(&ordered, &path))
            .map_err(|error| SweepError::Output(format!("{}: {error}", path.display())))
    }
}

/// Takes the file for this sweep alone.
fn lock(file: &File, path: &Path) -> Result<(), SweepError> {
    let name = path.display();
    match file.try_lock() {
        Ok(()) if is_at(file, path) => Ok(()),
        Ok(()) | Err(TryLockError::WouldBlock) => Err(SweepError::Busy(format!(
            "{name}: another sweep is writing it: wait until that is done, or choose another --out (parts of one sweep \
             have files of their own, see --shard)"
        ))),
        Err(TryLockError::Error(error)) => Err(SweepError::Output(format!("{name}: cannot be locked: {error}"))),
    }
}

/// Whether the file is still the one with that name: a sweep that ends puts another in its place.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |known: std::io::Result<fs::Metadata>| known.ok().map(|known| (known.dev(), known.ino()));
        identity(file.metadata()) == identity(fs::metadata(path))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}
