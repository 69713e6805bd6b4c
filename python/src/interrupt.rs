//! Long work beside the interpreter: its lock is free meanwhile, and Ctrl-C ends the work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long Ctrl-C and progress may wait.
const TICK: Duration = Duration::from_millis(50);

/// Does `work` on a thread of its own. Its flag is set when Ctrl-C comes or `tick`, which is called now and then, fails;
/// the work is expected to end soon after.
pub(crate) fn beside<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        let stop = &stop;
        let worker = scope.spawn(move || {
            // Closed at the end, however that comes.
            let _done = done;
            work(stop)
        });
        let waiting = &std::sync::Mutex::new(waiting);
        let mut interrupted = None;
        loop {
            let over = py.detach(|| {
                let waiting = waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                waiting.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout)
            });
            if interrupted.is_none()
                && let Err(error) = py.check_signals().and_then(|()| tick(py))
            {
                stop.store(true, Ordering::Relaxed);
                interrupted = Some(error);
            }
            if over {
                break;
            }
        }
        let result = py.detach(|| worker.join());
        match (interrupted, result) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => Ok(result),
            (None, Err(_)) => Err(PyRuntimeError::new_err("the simulator failed; please report it with the scenario")),
        }
    })
}
