//! Starting a guard on an interface that may not be there yet.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use ackgate_linux::{Error, Guard, Options};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::service;
use crate::output;

/// Time between two looks, ms.
const PAUSE_MS: u16 = 200;

/// Starts a guard as soon as the interface is there and up; `None` when `stop` becomes readable before.
///
/// # Errors
/// When it cannot be guarded for another reason.
pub(super) fn start(options: &Options, stop: &UnixStream) -> anyhow::Result<Option<Guard>> {
    let mut told = false;
    loop {
        match Guard::start(options.clone()) {
            Ok(guard) => return Ok(Some(guard)),
            Err(Error::NoSuchDevice(device) | Error::Down(device)) => {
                if !told {
                    let text = format!("waiting for `{device}` to be there and up");
                    output::say(&text);
                    service::ready(&text);
                    told = true;
                }
                service::alive();
            }
            Err(error) => return Err(error.into()),
        }
        let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(PAUSE_MS)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
}
