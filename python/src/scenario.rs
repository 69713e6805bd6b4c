//! Scenarios, from files or from values.

use std::path::PathBuf;

use ackgate_sim::scenario::{Assignment, Document, schema};
use pyo3::prelude::*;

use crate::error;

/// A scenario before it is understood: a file and changes to it, or changes alone.
#[pyclass(frozen, module = "ackgate._native")]
pub(crate) struct Scenario {
    pub(crate) document: Document,
    pub(crate) name: String,
}

#[pymethods]
impl Scenario {
    /// Reads a file, if one is given, and changes keys: each a dotted key and a TOML value.
    #[new]
    #[pyo3(signature = (file, changes))]
    fn new(py: Python<'_>, file: Option<PathBuf>, changes: Vec<(String, String)>) -> PyResult<Self> {
        let document = file.as_deref().map_or_else(|| Document::parse("scenario", ""), Document::read);
        let mut document = document.map_err(|error| error::scenario(py, &error))?;
        for (key, value) in changes {
            let change = Assignment { option: "scenario", key, value };
            document.set(&change).map_err(|error| error::scenario(py, &error))?;
        }
        let stem = file.as_deref().and_then(|file| file.file_stem());
        let name = stem.map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy().into_owned());
        Ok(Self { document, name })
    }

    /// Refuses a scenario that makes no sense.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.document.scenario().map(|_| ()).map_err(|error| error::scenario(py, &error))
    }

    /// The text of a file that says the same.
    fn toml(&self) -> String {
        self.document.to_toml()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
}

/// Every key that a scenario may have: key, what it takes, its range.
#[pyfunction]
pub(crate) fn keys() -> Vec<(String, String, String)> {
    schema::keys().into_iter().map(|key| (key.path, key.takes, key.range.unwrap_or_default())).collect()
}
