//! The native half of the Python package `ackgate`: the simulator, its sweeps and its tables. What people import is
//! in `python/ackgate/`; nothing here is public.

#![expect(clippy::needless_pass_by_value, reason = "arguments from Python come by value")]

mod arrow;
mod error;
mod flows;
mod folder;
mod interrupt;
mod papers;
mod run;
mod scenario;
mod scheme;
mod sweep;

use pyo3::prelude::*;

/// Version of the package and the commit that it was built from.
const BUILD: &str = env!("ACKGATE_BUILD");

/// The module `ackgate._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BUILD", BUILD)?;
    module.add_class::<arrow::Table>()?;
    module.add_class::<flows::FlowStream>()?;
    module.add_class::<run::Outcome>()?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<scheme::Segment>()?;
    module.add_class::<folder::Folder>()?;
    module.add_class::<folder::Work>()?;
    module.add_class::<sweep::Rows>()?;
    module.add_function(wrap_pyfunction!(papers::experiments, module)?)?;
    module.add_function(wrap_pyfunction!(papers::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_with, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::keys, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::run_sweep, module)?)?;
    module.add_function(wrap_pyfunction!(folder::run_task, module)?)
}
