//! Ctrl-C and SIGTERM, as a flag that loops look at or as a descriptor that they wait for.

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// A flag that the first SIGINT or SIGTERM sets; a second one ends the process at once.
pub(crate) fn on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("installing a signal handler")?;
    }
    Ok(stop)
}

/// A descriptor that SIGINT, SIGTERM and SIGHUP make readable; the last one not where it is ignored, as under `nohup`.
pub(crate) fn of_a_guard() -> anyhow::Result<UnixStream> {
    let install = || {
        let (reader, writer) = UnixStream::pair()?;
        low_level::pipe::register(SIGINT, writer.try_clone()?)?;
        low_level::pipe::register(SIGTERM, writer.try_clone()?)?;
        if !ignored(&std::fs::read_to_string("/proc/self/status")?, SIGHUP) {
            low_level::pipe::register(SIGHUP, writer)?;
        }
        Ok::<_, std::io::Error>(reader)
    };
    install().context("installing a signal handler")
}

/// Calls `tell` with every SIGINT, SIGTERM and SIGHUP, on a thread of its own, until it returns false.
pub(crate) fn tell_signals(mut tell: impl FnMut(i32) -> bool + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("installing a signal handler")?;
    let listen = move || signals.forever().all(&mut tell);
    std::thread::Builder::new().name("ackgate-signals".into()).spawn(listen).context("listening for signals")?;
    Ok(())
}

/// Waits for a second, or until a descriptor of [`of_a_guard`] is readable; says whether it is.
pub(crate) fn within_a_second(stop: BorrowedFd<'_>) -> anyhow::Result<bool> {
    let mut fds = [PollFd::new(stop, PollFlags::POLLIN)];
    match poll(&mut fds, 1000_u16) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno).context("waiting for a signal"),
    }
}

/// Whether a process with this `/proc/PID/status` ignores a signal.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        let status = |mask: &str| format!("Name:\tackgate\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignored(&status("0000000000001001"), SIGHUP));
        assert!(!ignored(&status("0000000000001000"), SIGHUP));
        assert!(!ignored("", SIGHUP));
    }
}
