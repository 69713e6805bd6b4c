//! Starting a guard on an interface that may not be there yet.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ackgate_linux::{Error, Guard, Options};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// Time between two signs of life meanwhile.
const WORD: Duration = Duration::from_secs(1);

/// Starts a guard as soon as the interface is there and up; `None` when `stop` becomes readable before. As long as it is not,
/// `waiting` is called about once a second, always with the same text.
///
/// # Errors
/// When it cannot be guarded for another reason.
pub(super) fn start(
    options: &Options,
    stop: &UnixStream,
    mut waiting: impl FnMut(&str),
) -> anyhow::Result<Option<Guard>> {
    let mut told: Option<Instant> = None;
    loop {
        match Guard::start(options.clone()) {
            Ok(guard) => return Ok(Some(guard)),
            Err(Error::NoSuchDevice(device) | Error::Down(device)) => {
                if told.is_none_or(|told| told.elapsed() >= WORD) {
                    waiting(&format!("waiting for `{device}` to be there and up"));
                    told = Some(Instant::now());
                }
            }
            Err(error) => return Err(error.into()),
        }
        if readable(stop, PAUSE)? {
            return Ok(None);
        }
    }
}

/// Waits for that long, or until a descriptor is readable; says whether it is.
///
/// # Errors
/// When the system cannot wait.
pub(super) fn readable(stop: &UnixStream, wait: Duration) -> anyhow::Result<bool> {
    let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)) {
        Err(Errno::EINTR) => Ok(false),
        count => Ok(count? > 0),
    }
}
