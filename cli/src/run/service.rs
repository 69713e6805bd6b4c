//! Telling the service manager how it goes (sd_notify(3)): ready, alive, stopping. Where there is none, nothing is said.

use sd_notify::{NotifyState, notify};

/// It guards, or waits for its interface: `status` says which.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It lives: to be called more often than the unit's `WatchdogSec`.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// It ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = notify(state) {
        tracing::debug!("the service manager does not listen: {error}");
    }
}
