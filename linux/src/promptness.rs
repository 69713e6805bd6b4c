//! How soon the daemon runs once it is called. All that it holds waits for it, and PAC's own module ran in the kernel, before every
//! process (PAC section IV-A). So it asks for the lowest real-time priority, which comes before every ordinary process; not for much
//! of a processor, though: once it takes half of one, it is an ordinary process until it takes less than a quarter.

use std::io;

use ackgate_control::units::{Span, Time};

use crate::sys;

/// Time between two looks at how much of a processor this thread takes.
const PERIOD: Span = Span::millis(100);
/// An ordinary process from this share of a processor on, per mille.
const MUCH: u64 = 500;
/// Before ordinary processes again below this share, per mille.
const LITTLE: u64 = 250;

/// Whether a thread of this process may go first.
pub(crate) fn probe() -> io::Result<()> {
    std::thread::spawn(|| sys::go_first(true)).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// The place in the scheduler's queue of the thread that made it and looks after it; dropped, it is an ordinary one again.
#[derive(Debug)]
pub(crate) struct Promptness {
    /// Before ordinary processes; `None` where that is not permitted.
    first: Option<bool>,
    looked: Time,
    /// Processor time of this thread until then.
    used: Span,
}

impl Promptness {
    pub(crate) fn new(now: Time) -> Self {
        sys::precise_timers();
        let first = sys::go_first(true);
        if let Err(error) = &first {
            tracing::info!(
                "no real-time priority ({error}); on a busy host held frames are released late. CAP_SYS_NICE or LimitRTPRIO=1 allows it"
            );
        }
        Self { first: first.is_ok().then_some(true), looked: now, used: sys::thread_time() }
    }

    /// Steps back or forward by how much this thread has taken of late.
    pub(crate) fn look(&mut self, now: Time) {
        let Some(first) = self.first.filter(|_| now >= self.looked + PERIOD) else { return };
        let used = sys::thread_time();
        let share = (used.0 - self.used.0) * 1000 / now.since(self.looked).0;
        (self.looked, self.used) = (now, used);
        let goes_first = if first { share < MUCH } else { share < LITTLE };
        if goes_first != first {
            tracing::debug!(
                "uses {share} per mille of a processor: real-time priority {}",
                if goes_first { "on" } else { "off" }
            );
            self.first = sys::go_first(goes_first).is_ok().then_some(goes_first);
        }
    }
}

impl Drop for Promptness {
    fn drop(&mut self) {
        if self.first == Some(true) {
            let _ = sys::go_first(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: takes an integer by value; 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn goes_before_ordinary_processes_until_it_takes_much_of_a_processor() {
        if sys::go_first(true).is_err() {
            eprintln!("SKIPPED: no real-time priority without root (or CAP_SYS_NICE)");
            return;
        }
        sys::go_first(false).unwrap();
        let before = policy();
        let mut promptness = Promptness::new(sys::now());
        assert_eq!(policy(), libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
        let busy = sys::thread_time() + PERIOD;
        while sys::thread_time() < busy {}
        // All of the time that it took is that of the period.
        promptness.look(promptness.looked + PERIOD);
        assert_eq!(policy(), before);
        promptness.look(promptness.looked + PERIOD * 20);
        assert_eq!(policy(), libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
        assert_eq!(std::thread::spawn(policy).join().unwrap(), before, "what it starts is an ordinary thread");
        drop(promptness);
        assert_eq!(policy(), before);
    }
}
