//! Waiting that a signal ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a signal may have to wait to be seen.
const LOOK: Duration = Duration::from_millis(20);

/// Sleeps until then; `None` when `stop` is set before.
pub(crate) fn sleep_until(stop: &AtomicBool, until: Instant) -> Option<()> {
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        std::thread::sleep(left.min(LOOK));
    }
    Some(())
}
