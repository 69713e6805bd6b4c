//! A scheme written in Python: slow, for trying an idea and for teaching.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use ackgate_control::policy::{Action, FlowId, PacketId, Policy, Verdict};
use ackgate_control::segment::{self, Edit, Flags};
use ackgate_control::units::Time;
use ackgate_sim::observer::Observer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Least time to a scheme's next wake-up, nanoseconds: one that is due at once would never let the clock move.
const LEAST_WAIT: u64 = 1_000;
/// Packets between two questions whether Ctrl-C was pressed.
const SIGNALS_EVERY: u32 = 1_000;

/// What a scheme sees of a TCP segment.
#[pyclass(frozen, get_all, module = "ackgate._native")]
pub(crate) struct Segment {
    /// First sequence number of the payload, 32 bits.
    seq: u32,
    /// Acknowledgement number, 32 bits.
    ack: u32,
    /// Window field as it stands in the header, unscaled.
    window: u16,
    /// Payload, bytes.
    payload: u32,
    /// Payload and headers, bytes: what a switch's buffer holds of it.
    wire_bytes: u32,
    /// SYN flag.
    syn: bool,
    /// FIN flag.
    fin: bool,
    /// RST flag.
    rst: bool,
    /// An acknowledgement and nothing else.
    pure_ack: bool,
    /// Congestion Experienced.
    ce: bool,
    /// It carries a SACK block.
    sack: bool,
    /// Maximum segment size option; 0 when absent.
    mss: u16,
    /// Window scale option of SYN and SYN-ACK.
    wscale: Option<u8>,
}

#[pymethods]
impl Segment {
    fn __repr__(&self) -> String {
        let flags = [(self.syn, "SYN "), (self.fin, "FIN "), (self.rst, "RST ")];
        let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        let Self { seq, ack, window, payload, .. } = self;
        format!("Segment({flags}seq={seq}, ack={ack}, window={window}, payload={payload})")
    }
}

impl Segment {
    fn of(segment: &segment::Segment) -> Self {
        Self {
            seq: segment.seq.0,
            ack: segment.ack.0,
            window: segment.window,
            payload: segment.payload,
            wire_bytes: segment.wire_bytes(),
            syn: segment.flags.has(Flags::SYN),
            fin: segment.flags.has(Flags::FIN),
            rst: segment.flags.has(Flags::RST),
            pure_ack: segment.is_pure_ack(),
            ce: segment.ce,
            sack: segment.sack,
            mss: segment.mss,
            wscale: segment.wscale,
        }
    }
}

/// The first exception that a scheme raised; it ends the run.
#[derive(Clone, Default)]
pub(crate) struct Fault(Rc<RefCell<Option<PyErr>>>);

impl Fault {
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.borrow_mut().take()
    }

    fn set(&self, error: PyErr) {
        self.0.borrow_mut().get_or_insert(error);
    }

    fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }
}

/// Ends a run when a scheme has raised an exception.
pub(crate) struct Watch<'a> {
    pub(crate) fault: &'a Fault,
}

impl Observer for Watch<'_> {
    const ENABLED: bool = false;
    const STOPS: bool = true;

    fn stop(&self) -> bool {
        self.fault.is_set()
    }
}

/// A Python object with the methods of `ackgate.Scheme`.
pub(crate) struct Own {
    object: Py<PyAny>,
    fault: Fault,
    held: HashSet<u32>,
    now: u64,
    calls: u32,
}

impl Own {
    pub(crate) fn new(object: Py<PyAny>, fault: Fault) -> Self {
        Self { object, fault, held: HashSet::new(), now: 0, calls: 0 }
    }

    /// Calls a method; `None` when it raises, now or before: from then on everything passes.
    fn call<T>(&self, arguments: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        if self.fault.is_set() {
            return None;
        }
        Python::attach(|py| {
            let called = arguments(py, self.object.bind(py));
            called.map_err(|error| self.fault.set(error)).ok()
        })
    }

    fn look_for_signals(&mut self) {
        self.calls += 1;
        if self.calls.is_multiple_of(SIGNALS_EVERY) {
            // Kept like an exception of the scheme's own, which ends the run.
            let _ = self.call(|py, _| py.check_signals());
        }
    }
}

/// `None` for no change, or a window field.
fn edit(answer: &Bound<'_, PyAny>) -> PyResult<Edit> {
    if answer.is_none() {
        return Ok(Edit::NONE);
    }
    let window = answer.extract::<u16>().map_err(|_| {
        let text = answer.repr().map_or_else(|_| String::new(), |text| text.to_string());
        PyTypeError::new_err(format!("a scheme answered {text}: expected None or a window field, 0 to 65535"))
    })?;
    Ok(Edit { window: Some(window), ..Edit::NONE })
}

impl Policy for Own {
    fn handle_ingress(&mut self, now: Time, flow: FlowId, segment: &segment::Segment) -> Edit {
        self.now = now.0;
        self.look_for_signals();
        let answer =
            self.call(|_, object| edit(&object.call_method1("arrived", (now.0, flow.0, Segment::of(segment)))?));
        answer.unwrap_or(Edit::NONE)
    }

    fn handle_egress(&mut self, now: Time, flow: FlowId, segment: &segment::Segment, packet: PacketId) -> Verdict {
        self.now = now.0;
        let answer = self.call(|_, object| {
            let answer = object.call_method1("leaving", (now.0, flow.0, Segment::of(segment), packet.0))?;
            if answer.is_instance_of::<pyo3::types::PyBool>() {
                return Ok(if answer.extract()? { Verdict::PASS } else { Verdict::Hold });
            }
            edit(&answer).map(Verdict::Pass)
        });
        let verdict = answer.unwrap_or(Verdict::PASS);
        if verdict == Verdict::Hold {
            self.held.insert(packet.0);
        }
        verdict
    }

    fn poll_action(&mut self, now: Time) -> Option<Action> {
        self.now = now.0;
        if self.fault.is_set() {
            // Nothing stays held while the run comes to its end.
            let packet = *self.held.iter().next()?;
            self.held.remove(&packet);
            return Some(Action::Release(PacketId(packet), Edit::NONE));
        }
        let held = &self.held;
        let released = self.call(|_, object| {
            let packet: Option<u32> = object.call_method1("release", (now.0,))?.extract()?;
            match packet {
                Some(packet) if !held.contains(&packet) => {
                    Err(PyValueError::new_err(format!("a scheme released packet {packet}, which it does not hold")))
                }
                packet => Ok(packet),
            }
        });
        let packet = released.flatten()?;
        self.held.remove(&packet);
        Some(Action::Release(PacketId(packet), Edit::NONE))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let asked = self.call(|_, object| object.call_method0("wake")?.extract::<Option<u64>>())?;
        asked.map(|time| Time(time.max(self.now.saturating_add(LEAST_WAIT))))
    }
}
