//! Standard output of what watches or guards a device: whole lines, written only where they do not make it wait. A reader that sleeps, a pipe that is
//! closed and a disk that is full cost lines; they never cost the guard.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Longest time that the last lines of all wait for their reader, ms; the device is not guarded any more by then.
const LAST_WAIT_MS: u16 = 1000;

/// Lines for whoever reads standard output.
pub(crate) struct Output {
    terminal: bool,
    /// Lines that could not be written.
    lost: u64,
    /// Why the first of them could not.
    reason: Option<io::Error>,
}

/// Whether a line can wait for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Somebody depends on this thread: no.
    Never,
    /// Nothing is guarded: for a second.
    Briefly,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { terminal: io::stdout().is_terminal(), lost: 0, reason: None }
    }

    /// Whether a person looks at it.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes text, which the caller ends by a newline. What cannot be written is counted, and the first time said.
    pub(crate) fn write(&mut self, text: &str, wait: Wait) {
        if let Err(error) = write_whole(text.as_bytes(), wait) {
            self.lost += 1;
            if self.reason.is_none() {
                say(&format!("standard output failed ({}); ackgate continues without it", explained(&error)));
                self.reason = Some(error);
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When lines were lost.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Some(reason) = self.reason else { return Ok(()) };
        let lines = if self.lost == 1 { "1 line was".to_owned() } else { format!("{} lines were", self.lost) };
        Err(anyhow::anyhow!("{lines} not written to standard output: {}", explained(&reason)))
    }
}

/// A line on standard error, if anybody can be told there.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "ackgate: {text}");
}

fn explained(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => "nobody reads it (the pipe is full)".into(),
        io::ErrorKind::BrokenPipe => "its reader has closed it".into(),
        _ => error.to_string(),
    }
}

/// One write for the whole text; it is shorter than what a pipe that is ready for writing takes (`PIPE_BUF`).
fn write_whole(mut text: &[u8], wait: Wait) -> io::Result<()> {
    let stdout = io::stdout();
    let timeout = if wait == Wait::Briefly { PollTimeout::from(LAST_WAIT_MS) } else { PollTimeout::ZERO };
    while !text.is_empty() {
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, timeout) {
            Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        match nix::unistd::write(&stdout, text) {
            Ok(count) => text = &text[count..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
