//! Flows as they end, in bounded memory: the run waits while nobody takes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ackgate_control::units::Time;
use ackgate_sim::observer::{Flow, Observer};
use ackgate_sim::output::flows::frame;
use ackgate_sim::output::frame::Frame;
use ackgate_sim::output::provenance::Provenance;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{Table, batch, schema, schema_capsule, stream_capsule};
use crate::scenario::Scenario;
use crate::{BUILD, error};

/// Pieces that may wait to be taken.
const WAITING: usize = 2;
/// Rows of a piece at most: some fifty megabytes.
const MAX_ROWS: usize = 1 << 20;

/// What comes out of a run: pieces of flows, and in the end how it ended.
type Piece = Result<Vec<(Time, Flow)>, ackgate_sim::Error>;

/// Collects flows and hands them on in pieces.
struct Sending {
    piece: Vec<(Time, Flow)>,
    rows: usize,
    out: SyncSender<Piece>,
    /// Nobody takes them any more.
    abandoned: Arc<AtomicBool>,
}

impl Observer for Sending {
    const STOPS: bool = true;

    fn stop(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn flow_ends(&mut self, now: Time, flow: &Flow) {
        self.piece.push((now, *flow));
        if self.piece.len() == self.rows {
            let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(self.rows));
            if self.out.send(Ok(piece)).is_err() {
                self.abandoned.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The receiving end of a run that goes on meanwhile.
struct Reader {
    /// `None` when it has ended.
    pieces: Option<Receiver<Piece>>,
    worker: Option<JoinHandle<()>>,
    /// Ends the run.
    abandoned: Arc<AtomicBool>,
    schema: SchemaRef,
}

impl Reader {
    fn start(scenario: ackgate_sim::scenario::Scenario, rows: usize, schema: SchemaRef) -> Self {
        let (out, pieces) = sync_channel(WAITING);
        let abandoned = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&abandoned);
        let worker = std::thread::spawn(move || {
            let mut sending = Sending { piece: Vec::with_capacity(rows), rows, out, abandoned: ended };
            let done = ackgate_sim::run(&scenario, &mut sending);
            // Nobody may be there to hear of it.
            let _ = sending.out.send(done.map(|_| sending.piece));
        });
        Self { pieces: Some(pieces), worker: Some(worker), abandoned, schema }
    }

    /// The next piece that has rows; an error when nothing has come for so long.
    fn next(&mut self, wait: Duration) -> Result<Option<Vec<(Time, Flow)>>, Wait> {
        loop {
            let Some(pieces) = &self.pieces else { return Ok(None) };
            match pieces.recv_timeout(wait) {
                Ok(Ok(piece)) if piece.is_empty() => {}
                Ok(Ok(piece)) => return Ok(Some(piece)),
                Ok(Err(error)) => {
                    self.pieces = None;
                    return Err(Wait::Failed(error.to_string()));
                }
                Err(RecvTimeoutError::Timeout) => return Err(Wait::Longer),
                Err(RecvTimeoutError::Disconnected) => {
                    self.pieces = None;
                    let fell = self.worker.take().is_some_and(|worker| worker.join().is_err());
                    return if fell { Err(Wait::Failed("the simulator failed".into())) } else { Ok(None) };
                }
            }
        }
    }
}

enum Wait {
    Longer,
    Failed(String),
}

impl Drop for Reader {
    fn drop(&mut self) {
        // One that waits until a piece is taken, and one in the midst of a piece.
        self.pieces = None;
        self.abandoned.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            // Its failure has nobody to tell.
            let _ = worker.join();
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match Reader::next(self, Duration::from_secs(1)) {
                Ok(piece) => return piece.map(|piece| batch(&frame(&piece), &self.schema)),
                Err(Wait::Longer) => {}
                Err(Wait::Failed(problem)) => return Some(Err(ArrowError::ComputeError(problem))),
            }
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The flows of one run, to be taken once: as an iterator of tables, or as an Arrow stream.
#[pyclass(frozen, module = "ackgate._native")]
pub(crate) struct FlowStream {
    reader: Mutex<Option<Reader>>,
    schema: SchemaRef,
    provenance: Provenance,
}

#[pymethods]
impl FlowStream {
    #[new]
    fn new(py: Python<'_>, scenario: &Scenario, rows: i64) -> PyResult<Self> {
        let refused = |error| error::scenario(py, &error);
        let understood = scenario.document.scenario().map_err(refused)?;
        let provenance = Provenance::new(BUILD, &scenario.document, &[], 1).map_err(refused)?;
        let schema = schema(&frame(&[]), &provenance);
        let rows = usize::try_from(rows)
            .ok()
            .filter(|rows| (1..=MAX_ROWS).contains(rows))
            .ok_or_else(|| PyValueError::new_err(format!("rows = {rows}: pieces have 1 to {MAX_ROWS} rows")))?;
        let reader = Reader::start(understood, rows, schema.clone());
        Ok(Self { reader: Mutex::new(Some(reader)), schema, provenance })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        loop {
            let next = py.detach(|| {
                let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.as_mut().map_or(Ok(None), |reader| Reader::next(reader, Duration::from_millis(50)))
            });
            match next {
                Ok(piece) => return Ok(piece.map(|piece| self.table(frame(&piece)))),
                Err(Wait::Longer) => py.check_signals()?,
                Err(Wait::Failed(problem)) => return Err(error::failed(py, &problem)),
            }
        }
    }

    /// Arrow's C data interface: the columns' names and types.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Arrow's C stream interface: the flows, once.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let reader = py.detach(|| self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        let reader = reader.ok_or_else(|| error::failed(py, &"these flows have been taken: run the scenario again"))?;
        stream_capsule(py, Box::new(reader), requested_schema)
    }
}

impl FlowStream {
    fn table(&self, frame: Frame) -> Table {
        Table::new(vec![frame], self.provenance.clone())
    }
}
