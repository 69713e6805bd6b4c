//! One row for each point: its columns, as texts and as typed figures.

use std::collections::HashSet;

use serde_json::Value;

use super::plan::Point;
use crate::output::flat;
use crate::output::frame::{Data, Frame};
use crate::report::Report;

/// The column that identifies a row's scenario.
pub(super) const FINGERPRINT: &str = "scenario";

/// The columns of a sweep's rows.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Column names. The varied keys that a report does not show itself come first, the fingerprint last.
    pub(super) columns: Vec<String>,
    /// Varied keys that have a column of their own: index into a point's values.
    pub(super) own: Vec<usize>,
    wall: bool,
}

impl Layout {
    /// For these varied keys. `wall` adds the time that each run took.
    #[must_use]
    pub fn new(keys: &[String], wall: bool) -> Self {
        let report = flat::names();
        let own: Vec<usize> = (0..keys.len()).filter(|i| !report.contains(&keys[*i])).collect();
        let mut columns: Vec<String> = own.iter().map(|i| keys[*i].clone()).collect();
        columns.extend(report.into_iter().filter(|name| wall || name != "wall_s"));
        columns.push(FINGERPRINT.into());
        Self { columns, own, wall }
    }

    /// A point's row; its last cell is the point's fingerprint.
    #[must_use]
    pub fn row(&self, point: &Point, report: &Report) -> Vec<String> {
        let mut row: Vec<String> = self.own.iter().map(|i| point.values[*i].clone()).collect();
        let columns = flat::columns(report).into_iter().filter(|(name, _)| self.wall || name != "wall_s");
        row.extend(columns.map(|(_, value)| value));
        row.push(format!("{:016x}", point.fingerprint));
        row
    }

    /// Rows as typed columns. Varied keys have the narrowest type that takes all their values.
    pub(super) fn frame(&self, rows: &[&Vec<String>]) -> Frame {
        let shapes = flat::shapes();
        let floats: HashSet<&str> =
            shapes.iter().filter(|(_, shape)| shape.is_f64()).map(|(name, _)| name.as_str()).collect();
        let texts: HashSet<&str> =
            shapes.iter().filter(|(_, shape)| shape.is_string()).map(|(name, _)| name.as_str()).collect();
        let mut frame = Frame::default();
        for (i, name) in self.columns.iter().enumerate() {
            let cells: Vec<&str> = rows.iter().map(|row| row[i].as_str()).collect();
            let text = || Data::Text(cells.iter().map(|cell| (*cell).to_owned()).collect());
            let data = if name == FINGERPRINT || texts.contains(name.as_str()) {
                text()
            } else if floats.contains(name.as_str()) {
                // What could not be measured is `null` in the row.
                Data::Float(cells.iter().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect())
            } else {
                Data::of_texts(&cells)
            };
            frame.add(name, data);
        }
        frame
    }
}

/// One line of CSV, quoted where needed.
pub(super) fn line(fields: &[String]) -> String {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    // Writing to memory cannot fail.
    let written = writer.write_record(fields).ok().and_then(|()| writer.into_inner().ok());
    String::from_utf8(written.unwrap_or_default()).unwrap_or_default()
}

/// A value as it was given: a number or a truth where it looks like one.
pub(super) fn plain(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::from(text),
    }
}
