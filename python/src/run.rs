//! One run: its figures, and its flows and course over time if they are asked for.

use ackgate_sim::observer::Until;
use ackgate_sim::output::flows::Flows;
use ackgate_sim::output::provenance::Provenance;
use ackgate_sim::output::series::Series;
use ackgate_sim::output::{flat, run as output};
use ackgate_sim::report::Report;
use pyo3::prelude::*;

use crate::arrow::Table;
use crate::scenario::Scenario;
use crate::scheme::{self, Own};
use crate::{BUILD, error, interrupt};

/// Rows of one piece of a table.
const PIECE: usize = 1 << 16;

/// What came of a run.
#[pyclass(frozen, get_all, module = "ackgate._native")]
pub(crate) struct Outcome {
    /// The figures as JSON.
    report: String,
    /// The figures as a table for people.
    summary: String,
    /// Each flow of finite length.
    flows: Option<Py<Table>>,
    /// Queue, windows, drops over time.
    series: Option<Py<Table>>,
}

impl Outcome {
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        report: &Report,
        flows: Option<Flows>,
        series: Option<Series>,
    ) -> PyResult<Self> {
        let provenance = Provenance::new(BUILD, &scenario.document, &[], 1);
        let provenance = provenance.map_err(|error| error::scenario(py, &error))?;
        let table = |frames| Py::new(py, Table::new(frames, provenance.clone()));
        Ok(Self {
            report: flat::json(report).to_string(),
            summary: output::summary(report),
            flows: flows.map(|flows| table(flows.frames(PIECE).collect())).transpose()?,
            series: series.map(|series| table(vec![series.frame()])).transpose()?,
        })
    }
}

/// Runs a scenario.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, scenario: &Scenario, flows: bool, series: bool) -> PyResult<Outcome> {
    let understood = scenario.document.scenario().map_err(|error| error::scenario(py, &error))?;
    let mut flows = flows.then(Flows::default);
    let mut series = series.then(Series::new);
    let work = |stop: &_| {
        let mut until = Until(stop);
        if flows.is_none() && series.is_none() {
            return ackgate_sim::run(&understood, &mut until);
        }
        let mut observer = (until, (flows.take(), series.take()));
        let report = ackgate_sim::run(&understood, &mut observer);
        (flows, series) = observer.1;
        report
    };
    let report = interrupt::beside(py, work, |_| Ok(()))?.map_err(|error| error::failed(py, &error))?;
    Outcome::new(py, scenario, &report, flows, series)
}

/// Runs a scenario with a scheme of Python's at each receiver: `make` is called with the receiver's number and returns
/// it. The interpreter's lock is held all the time.
#[pyfunction]
pub(crate) fn run_with(
    py: Python<'_>,
    scenario: &Scenario,
    make: &Bound<'_, PyAny>,
    flows: bool,
    series: bool,
) -> PyResult<Outcome> {
    let understood = scenario.document.scenario().map_err(|error| error::scenario(py, &error))?;
    let fault = scheme::Fault::default();
    let mut observer = (scheme::Watch { fault: &fault }, (flows.then(Flows::default), series.then(Series::new)));
    // Made before the run, so that what is wrong with making them is told at once.
    let plan = ackgate_sim::net::Plan::new(&understood.resolved());
    let mut made = Vec::new();
    for receiver in 0..plan.receivers {
        made.push(Own::new(make.call1((receiver,))?.unbind(), fault.clone()));
    }
    let mut made = made.into_iter();
    let report = ackgate_sim::run_with(&understood, &mut observer, |_| {
        Box::new(made.next().unwrap_or_else(|| Own::new(py.None(), fault.clone())))
    });
    if let Some(error) = fault.take() {
        return Err(error);
    }
    let report = report.map_err(|error| error::failed(py, &error))?;
    let (flows, series) = observer.1;
    Outcome::new(py, scenario, &report, flows, series)
}
