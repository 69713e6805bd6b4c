//! Ctrl-C and SIGTERM, as a flag that loops look at or as a descriptor that they wait for.

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

/// A signal this long after the first is a second wish, not the same one twice: `timeout`, `make` and a terminal send theirs to a process
/// and to its group.
const ANOTHER: Duration = Duration::from_secs(1);

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; another, a second or more after it, ends the process at once.
pub(crate) fn on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let ending = ending().context("cannot install a signal handler")?;
    let (flag, mut first) = (Arc::clone(&stop), None);
    listen(&ending, move |_| {
        flag.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() >= ANOTHER {
            low_level::exit(130);
        }
        true
    })?;
    Ok(stop)
}

/// A descriptor that SIGINT, SIGTERM and SIGHUP make readable.
pub(crate) fn of_a_guard() -> anyhow::Result<UnixStream> {
    let install = || {
        let (reader, writer) = UnixStream::pair()?;
        for signal in ending()? {
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok::<_, std::io::Error>(reader)
    };
    install().context("cannot install a signal handler")
}

/// Calls `tell` with every SIGINT, SIGTERM and SIGHUP, on a thread of its own, until it returns false.
pub(crate) fn tell_signals(tell: impl FnMut(i32) -> bool + Send + 'static) -> anyhow::Result<()> {
    listen(&[SIGINT, SIGTERM, SIGHUP], tell)
}

/// What ends this process: SIGHUP not where it is ignored, as under `nohup`.
fn ending() -> std::io::Result<Vec<i32>> {
    let hangup = (!ignored(&std::fs::read_to_string("/proc/self/status")?, SIGHUP)).then_some(SIGHUP);
    Ok([SIGINT, SIGTERM].into_iter().chain(hangup).collect())
}

/// Calls `tell` with each of these signals, on a thread of its own, until it returns false.
fn listen(signals: &[i32], mut tell: impl FnMut(i32) -> bool + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new(signals).context("cannot install a signal handler")?;
    let listen = move || signals.forever().all(&mut tell);
    std::thread::Builder::new()
        .name("ackgate-signals".into())
        .spawn(listen)
        .context("cannot start the thread that waits for signals")?;
    Ok(())
}

/// Waits for a second, or until a descriptor of [`of_a_guard`] is readable; says whether it is.
pub(crate) fn within_a_second(stop: BorrowedFd<'_>) -> anyhow::Result<bool> {
    let mut fds = [PollFd::new(stop, PollFlags::POLLIN)];
    match poll(&mut fds, 1000_u16) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno).context("cannot wait for a signal"),
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
