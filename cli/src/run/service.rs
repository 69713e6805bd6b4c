//! Telling the service manager how it goes (sd_notify(3)): ready, alive, reading its settings, stopping. Where there is none,
//! nothing is said.

use sd_notify::{NotifyState, notify};

use super::attend::Told;

/// What is told of the one device, for the service manager.
pub(super) fn pass_on(told: &Told) {
    match told {
        Told::Ready { identity, text } => {
            ready(&format!("{} {text}", if identity.observe { "observing" } else { "guarding" }));
        }
        Told::Waiting(text) => {
            ready(text);
            alive();
        }
        Told::Sample(_) => alive(),
        Told::Changed(_) | Told::Kept(_) | Told::Notice(_) | Told::Summary(_) | Told::Refused(_) => {}
    }
}

/// It guards, or waits for its interfaces: `status` says which.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It lives: to be called more often than the unit's `WatchdogSec`.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// It reads its settings again; [`ready`] is the end of it.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("no time for the service manager: {error}"),
    }
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
