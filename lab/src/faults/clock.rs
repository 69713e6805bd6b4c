//! Stepping the wall clock of the whole host, and back.

use std::io;

use nix::libc;

/// The clock while it is wrong; dropping this puts it right again.
pub(super) struct Stepped(libc::time_t);

impl Stepped {
    /// Steps the clock by that many seconds, at once. The way back is relative, too: nothing is lost of what time goes by meanwhile,
    /// nor of what others do to the clock.
    ///
    /// # Errors
    /// When this process may not.
    pub(super) fn by(seconds: libc::time_t) -> io::Result<Self> {
        step(seconds)?;
        Ok(Self(seconds))
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        if let Err(error) = step(-self.0) {
            // Whoever asked for this has to know.
            eprintln!("ackgate: the clock of this host is wrong by {} s and could not be put right: {error}", self.0);
        }
    }
}

fn step(seconds: libc::time_t) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut order: libc::timex = unsafe { std::mem::zeroed() };
    order.modes = libc::ADJ_SETOFFSET;
    order.time.tv_sec = seconds;
    // SAFETY: the order lives for the call, which reads and writes no more than it.
    let state = unsafe { libc::adjtimex(&raw mut order) };
    if state < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
