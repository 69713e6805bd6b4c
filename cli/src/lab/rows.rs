//! A table whose rows are printed as they come.

use std::io::{self, Write};

use serde::Serialize;

use crate::table::print_json;

/// Rows on standard output, or, for programs, one JSON object in the end.
pub(super) struct Rows {
    out: io::Stdout,
    json: bool,
    /// The first that could not be written.
    unwritten: Option<io::Error>,
}

impl Rows {
    /// A table that begins with `head`.
    pub(super) fn begin(json: bool, head: &str) -> Self {
        let mut rows = Self { out: io::stdout(), json, unwritten: None };
        rows.add(|out| writeln!(out, "{head}"));
        rows
    }

    /// Prints a row.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut io::Stdout) -> io::Result<()>) {
        if !self.json && self.unwritten.is_none() {
            self.unwritten = write(&mut self.out).err();
        }
    }

    /// All rows have come.
    ///
    /// # Errors
    /// When one could not be written.
    pub(super) fn end(self, report: &impl Serialize) -> anyhow::Result<()> {
        match self.unwritten {
            Some(error) => Err(error.into()),
            None if self.json => print_json(report),
            None => Ok(()),
        }
    }
}
