//! A process that does nothing until the daemon stops. Then it lets go what the daemon holds, and tells whoever was told less than
//! TCP said: within a quarter of a second every window is TCP's own and nothing waits.
//!
//! DESIGN NOTES
//! 1. Why a process: nothing in the kernel that BPF reaches sends a packet without one to copy (a timer's callback has none), and
//!    where all connections stand no packet comes. A thread would stop with the daemon.
//! 2. It is forked and shares memory: maps, ring, and the frames that nobody could write anew ([`vault`]). So it needs nothing from
//!    a daemon that may have stopped between any two instructions, and has read all it needs before.
//! 3. It acts once for each time that the daemon stops: when the heartbeat is as old as the programs allow, from when on they pass
//!    everything, or when the end of a pipe tells that the daemon is gone.
//! 4. What it sends is what TCP said last, once more: a duplicate at worst. The bytes of windows come from the flow table.
//! 5. A daemon that goes on finds that there was a rescue, waits for its end, and forgets what it held without sending it. A rescue
//!    that it slept through in the middle of a batch is found before the batch is sent.

mod rescue;
mod unread;
mod vault;

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use ackgate_control::decision::Rules;
use ackgate_control::gate::State;
use ackgate_control::units::{Span, Time};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2, setpgid};

use crate::datapath::{Datapath, STALE};
use crate::error::Error;
use crate::privilege;
use crate::shared::Shared;
use crate::sys;

use rescue::Rescuer;
pub(crate) use rescue::{Aid, Elsewhere, Outlet};
pub(crate) use unread::Unread;
pub(crate) use vault::{Keeper, Place, Vault};

const WHAT: &str = "start the standby process";

/// The standby, seen from the daemon. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Standby {
    rules: Rules,
    vault: Arc<Vault>,
    unread: Unread,
    aid: Aid,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    pid: Pid,
    /// Its other end tells the process that the daemon is gone.
    _alive: OwnedFd,
}

impl Standby {
    /// Starts it.
    ///
    /// # Errors
    /// When there can be no further process, or its memory cannot be had.
    pub(crate) fn new(rules: Rules, datapath: &Datapath, vault: Arc<Vault>, aid: Aid) -> Result<Self, Error> {
        let unread = datapath.unread().map_err(|source| Error::from_io("look at the ring of held frames", source))?;
        let mut standby = Self { rules, vault, unread, aid, process: None };
        standby.post(datapath.shared())?;
        Ok(standby)
    }

    /// Rescues so far.
    pub(crate) fn rescues(&self) -> u64 {
        self.vault.rescues()
    }

    /// Frames that were sent to make up for something: what was held, and windows that are TCP's own again.
    pub(crate) fn sent(&self) -> u64 {
        self.vault.sent()
    }

    /// Whether one is going on.
    pub(crate) fn is_rescuing(&self) -> bool {
        self.vault.is_rescuing()
    }

    /// Tells every peer TCP's own word: the guard is being taken off.
    pub(crate) fn hand_back(&self, shared: &Shared) {
        self.rescuer(shared).hand_back();
    }

    /// From now on it goes by other settings.
    pub(crate) fn change(&mut self, rules: Rules, shared: &Shared) {
        self.rules = rules;
        self.process = None;
        self.vault.end();
        self.replace(shared);
    }

    /// Starts the process again if it is gone.
    pub(crate) fn replace(&mut self, shared: &Shared) {
        let gone =
            |process: &Process| !matches!(waitpid(process.pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive));
        if self.process.as_ref().is_some_and(gone) {
            tracing::warn!("the standby process has ended; starting another one");
            self.process = None;
            self.vault.end();
        }
        if self.process.is_none()
            && let Err(error) = self.post(shared)
        {
            tracing::warn!(
                "{error}; without a standby process, connections wait for retransmission timeouts if this process is stopped"
            );
        }
    }

    fn rescuer<'a>(&'a self, shared: &'a Shared) -> Rescuer<'a> {
        Rescuer { rules: &self.rules, shared, vault: &self.vault, unread: &self.unread, aid: &self.aid }
    }

    fn post(&mut self, shared: &Shared) -> Result<(), Error> {
        let failed = |errno: nix::errno::Errno| Error::from_errno(WHAT, errno);
        let (orders, alive) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        // What ends the daemon must not end its standby, which is out of reach of all signals that can be blocked.
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before)).map_err(failed)?;
        // SAFETY: the child never returns from `watch`, and uses nothing of other threads' but the allocator, which libc makes
        // safe to use after a fork.
        let forked = unsafe { fork() };
        if let Ok(ForkResult::Child) = forked {
            let watch = std::panic::AssertUnwindSafe(|| watch(&self.rescuer(shared), &orders));
            let ended = std::panic::catch_unwind(watch);
            // SAFETY: ends this process at once, without what the daemon's own end would do.
            unsafe { libc::_exit(i32::from(ended.is_err())) };
        }
        let restored = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        if let ForkResult::Parent { child } = forked.map_err(failed)? {
            self.process = Some(Process { pid: child, _alive: alive });
        }
        restored.map_err(failed)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// The life of the standby. It closes its own copy of the other end of `orders`, with all that is the daemon's.
fn watch(rescuer: &Rescuer<'_>, orders: &OwnedFd) {
    // Out of the terminal's process group: Ctrl-Z stops the daemon alone.
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    sys::name_this_process(c"ackgate-standby");
    // It works with descriptors that are open. To have fewer capabilities is never refused; should it be, it does the same with all.
    let _ = privilege::keep_needed(false);
    let mut kept = rescuer.aid.descriptors();
    kept.push(orders.as_raw_fd());
    close_all_but(kept);
    let gate = rescuer.shared.gate();
    let vault = rescuer.vault;
    // The sign of life after which none came: the daemon has stopped since.
    let mut last = 0;
    loop {
        let (now, beat) = (sys::now(), gate.heartbeat.get());
        // Nobody beats while a guard is taken off: what is held leaves then.
        let due = if beat == 0 || beat == last { now + STALE } else { Time(beat) + STALE + Span(1) };
        if now < due {
            if is_gone(orders, due.since(now)) {
                gate.heartbeat.set(0);
                vault.begin();
                if beat == last {
                    rescuer.hand_back()
                } else {
                    rescuer.rescue()
                }
                vault.end();
                return;
            }
            continue;
        }
        vault.begin();
        if gate.heartbeat.get() != beat {
            vault.call_off();
            continue;
        }
        rescuer.rescue();
        vault.end();
        last = beat;
    }
}

/// Waits for that long, or until the daemon is gone; says whether it is.
fn is_gone(orders: &OwnedFd, wait: Span) -> bool {
    let timeout = TimeSpec::from(std::time::Duration::from_nanos(wait.0));
    let mut fds = [PollFd::new(orders.as_fd(), PollFlags::POLLIN)];
    ppoll(&mut fds, Some(timeout), None).is_ok_and(|count| count > 0)
}

/// Closes every descriptor but these: links, sockets and pipes of the daemon's must end with it.
fn close_all_but(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        if fd > first {
            sys::close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    sys::close_range(first, RawFd::MAX);
}
