//! Faults as Python exceptions, which are defined in `ackgate/errors.py`.

use ackgate_papers::catalogue::CatalogueError;
use ackgate_papers::run::RunError;
use ackgate_sim::scenario::{Place, ScenarioError};
use ackgate_sim::sweep::SweepError;
use pyo3::prelude::*;

/// An exception of `ackgate.errors`.
fn exception(py: Python<'_>, class: &str, arguments: impl for<'py> pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made =
        py.import("ackgate.errors").and_then(|module| module.getattr(class)).and_then(|class| class.call1(arguments));
    match made {
        Ok(made) => PyErr::from_value(made),
        Err(error) => error,
    }
}

/// What went wrong with a run or its files.
pub(crate) fn failed(py: Python<'_>, error: &dyn std::fmt::Display) -> PyErr {
    exception(py, "RunError", (error.to_string(),))
}

pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let (file, line) = match error.place() {
        Some(Place::File { file, line }) => (Some(file.clone()), (*line > 0).then_some(*line)),
        _ => (None, None),
    };
    let key = Some(error.key()).filter(|key| !key.is_empty());
    exception(py, "ScenarioError", (error.to_string(), file, line, key))
}

pub(crate) fn sweep(py: Python<'_>, error: &SweepError) -> PyErr {
    match error {
        SweepError::Scenario(error) => scenario(py, error),
        SweepError::Simulation { .. } => failed(py, error),
        SweepError::Conflict(_) => exception(py, "ConflictError", (error.to_string(),)),
        SweepError::Missing(_) => exception(py, "MissingError", (error.to_string(),)),
        _ => exception(py, "SweepError", (error.to_string(),)),
    }
}

pub(crate) fn catalogue(py: Python<'_>, error: &CatalogueError) -> PyErr {
    match error {
        CatalogueError::File(error) => scenario(py, error),
        _ => exception(py, "SweepError", (error.to_string(),)),
    }
}

pub(crate) fn reproduce(py: Python<'_>, error: &RunError) -> PyErr {
    match error {
        RunError::Sweep { error, .. } => sweep(py, error),
        _ => failed(py, error),
    }
}
