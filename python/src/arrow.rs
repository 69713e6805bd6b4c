//! Tables in Arrow's memory, handed over through the PyCapsule interface: whoever reads it needs no copy, and this
//! package needs none of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ackgate_sim::output::frame::{Data, Frame};
use ackgate_sim::output::parquet;
use ackgate_sim::output::provenance::Provenance;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error;

/// Columns of figures with units, and where they come from.
#[pyclass(frozen, module = "ackgate._native")]
pub(crate) struct Table {
    frames: Vec<Frame>,
    provenance: Provenance,
}

impl Table {
    /// Of at least one frame; all have the same columns.
    pub(crate) fn new(frames: Vec<Frame>, provenance: Provenance) -> Self {
        Self { frames, provenance }
    }

    fn schema(&self) -> SchemaRef {
        self.frames.first().map_or_else(|| Arc::new(Schema::empty()), |frame| schema(frame, &self.provenance))
    }
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let columns = self.frames.first().map(|frame| &frame.columns);
        columns.into_iter().flatten().map(|column| column.name.clone()).collect()
    }

    /// Units by column, for those that have one; `1` for plain numbers.
    #[getter]
    fn units(&self) -> HashMap<String, String> {
        let columns = self.frames.first().map(|frame| &frame.columns);
        let columns = columns.into_iter().flatten().filter(|column| !column.unit.is_empty());
        columns.map(|column| (column.name.clone(), column.unit.to_owned())).collect()
    }

    /// Scenario, build, seeds and what was varied.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.provenance.pairs().into_iter().collect()
    }

    fn __len__(&self) -> usize {
        self.frames.iter().map(Frame::len).sum()
    }

    /// Columns as lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (i, name) in self.columns().iter().enumerate() {
            let list = pyo3::types::PyList::empty(py);
            for frame in &self.frames {
                match &frame.columns[i].data {
                    Data::Text(values) => values.iter().try_for_each(|value| list.append(value))?,
                    Data::Float(values) => values.iter().try_for_each(|value| list.append(value))?,
                    Data::Unsigned(values) => values.iter().try_for_each(|value| list.append(value))?,
                    Data::Number(values) => values.iter().try_for_each(|value| list.append(value))?,
                    Data::Truth(values) => values.iter().try_for_each(|value| list.append(value))?,
                }
            }
            dict.set_item(name, list)?;
        }
        Ok(dict)
    }

    /// Writes a Parquet file, whole or not at all.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| parquet::write(&path, self.frames.iter().cloned(), &self.provenance));
        written.map_err(|error| PyOSError::new_err(format!("{} cannot be written: {error}", path.display())))
    }

    /// Arrow's C data interface: the columns' names and types.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema())
    }

    /// Arrow's C stream interface: the rows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.schema();
        let batches: Vec<Result<RecordBatch, ArrowError>> =
            self.frames.iter().map(|frame| batch(frame, &schema)).collect();
        stream_capsule(py, Box::new(RecordBatchIterator::new(batches, schema)), requested_schema)
    }
}

/// Names, types, units and provenance.
pub(crate) fn schema(frame: &Frame, provenance: &Provenance) -> SchemaRef {
    let fields = frame.columns.iter().map(|column| {
        let (kind, nullable) = match column.data {
            Data::Text(_) => (DataType::Utf8, false),
            Data::Float(_) => (DataType::Float64, false),
            Data::Unsigned(_) => (DataType::UInt64, false),
            Data::Number(_) => (DataType::UInt32, true),
            Data::Truth(_) => (DataType::Boolean, false),
        };
        let unit = (!column.unit.is_empty()).then(|| ("unit".to_owned(), column.unit.to_owned()));
        Field::new(&column.name, kind, nullable).with_metadata(unit.into_iter().collect::<HashMap<_, _>>())
    });
    let metadata: HashMap<String, String> = provenance.pairs().into_iter().collect();
    Arc::new(Schema::new(fields.collect::<Vec<_>>()).with_metadata(metadata))
}

/// A frame's rows.
pub(crate) fn batch(frame: &Frame, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let arrays = frame.columns.iter().map(|column| -> ArrayRef {
        match &column.data {
            Data::Text(values) => Arc::new(StringArray::from_iter_values(values)),
            Data::Float(values) => Arc::new(Float64Array::from(values.clone())),
            Data::Unsigned(values) => Arc::new(UInt64Array::from(values.clone())),
            Data::Number(values) => Arc::new(UInt32Array::from(values.clone())),
            Data::Truth(values) => Arc::new(BooleanArray::from(values.clone())),
        }
    });
    RecordBatch::try_new(Arc::clone(schema), arrays.collect())
}

pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| error::failed(py, &error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Rows to be read once. Whoever asks for another schema is given this one, which the interface leaves open: readers
/// convert.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
    _requested_schema: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}
