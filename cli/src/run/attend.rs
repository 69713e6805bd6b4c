//! Attending to a guard that runs, and what there is to tell of it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use ackgate_control::units::Span;
use ackgate_linux::{Error, Guard, Notice, Outcome, Snapshot, Summary};

use super::place::Place;
use super::publish::{Identity, Publisher};
use super::settings::Settings;

/// Something to tell of a device.
#[derive(Debug)]
pub(super) enum Told {
    /// It is not guarded, for this reason; that is tried again.
    Waiting(String),
    /// It is guarded from now on. `text` says by what settings.
    Ready { identity: Identity, text: String },
    /// Its guard goes by other settings from now on.
    Changed(String),
    /// How things stand; counters count from the start.
    Sample(Snapshot),
    /// Something is out of order.
    Notice(Notice),
    /// A change was not made, for this reason.
    Kept(String),
    /// The guard is off.
    Summary(Box<Summary>),
    /// It cannot be guarded as asked, and nothing will change that.
    Refused(anyhow::Error),
}

impl Told {
    /// A guard has begun.
    pub(super) fn ready(place: &Place, settings: &Settings, back_end: &str) -> Self {
        Self::Ready { identity: place.identity(settings, back_end), text: place.told(settings.buffer) }
    }
}

/// Guards until `stop` is readable, and tells once a second how it goes.
///
/// # Errors
/// When there is nothing to guard any more.
pub(super) fn attend(
    guard: &mut Guard,
    stop: &UnixStream,
    publisher: &Publisher,
    tell: &mut dyn FnMut(Told),
) -> Result<(), Error> {
    let mut next = ackgate_linux::now();
    loop {
        next += Span::secs(1);
        match guard.run(next.max(ackgate_linux::now()), stop.as_fd())? {
            Outcome::Stopped => return Ok(()),
            Outcome::Deadline => {
                let (snapshot, notices) = (guard.snapshot(), guard.notices());
                publisher.update(&snapshot, &notices);
                tell(Told::Sample(snapshot));
                notices.into_iter().for_each(|notice| tell(Told::Notice(notice)));
            }
        }
    }
}
