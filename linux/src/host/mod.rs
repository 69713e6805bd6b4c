//! The generic host: any [`Policy`] of `control` on a real interface, in user space. Slower than the fast path of
//! [`Guard`](crate::Guard), and simple: for schemes that need none.
//!
//! ```text
//! network ──► tc ingress (BPF): copy headers ─────────────────────► TCP, container, VM     policies that only watch
//! network ──► tc ingress (BPF): take ──► ring ─► driver ─► TAP ──► TCP, container, VM     policies that edit
//! network ◄── packet socket ◄── driver ◄── ring ◄── tc egress (BPF): take ◄── TCP
//!                                 │
//!                              Policy
//! ```
//!
//! DESIGN NOTES
//! 1. One ring carries both directions: the policy sees them in the order in which they happened.
//! 2. What is taken comes back as it was, aggregates and checksums that are left to the card included; it passes the device's
//!    queueing discipline like any other packet, and our own hooks by its mark.
//! 3. What finds no room in the ring passes, unseen and unchanged. While the daemon shows no sign of life, everything does;
//!    what it has taken and not let go by then is lost, as on a congested link, and TCP repeats it.

mod copies;
mod driver;
mod frame;
mod inward;
mod path;

use std::cell::RefCell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use ackgate_control::policy::Policy;
use ackgate_control::units::{Span, Time};
use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags};
use serde::Serialize;

use self::driver::Driver;
pub(crate) use self::frame::rewrite;
use self::inward::Inward;
use self::path::Reader;
use crate::attach::{self, Attachment, Programs};
use crate::device::{Claim, Device};
use crate::emitter::send_all;
use crate::error::Error;
use crate::guard::{HEARTBEAT, HoldTimes, Outcome};
use crate::promptness::Promptness;
use crate::{privilege, sys};

pub use self::path::{HostPath, Task};

/// Whether this host has what a policy needs that changes what arrives: tried in a network namespace of its own.
pub(crate) fn probe_inward() -> std::io::Result<()> {
    sys::in_new_namespace(|| inward::open("ackgate").map(drop))
}

/// Time between two looks whether the device is still there.
const LOOK: Span = Span::secs(1);
/// `PASS_MARK` of `intf.h`.
const PASS_MARK: u32 = 0x0acc_0acc;

/// What to guard, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the interface.
    pub device: String,
    /// No frame is held longer, whatever the policy says.
    pub max_hold: Span,
    /// How the programs are attached.
    pub attach: attach::Choice,
}

/// The host at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Connections remembered.
    pub connections: usize,
    /// Frames held now.
    pub held: u64,
    /// Frames released so far after having been held.
    pub released: u64,
    /// Outgoing segments that were never held.
    pub passed: u64,
    /// Incoming segments.
    pub arrivals: u64,
    /// Segments whose header was changed.
    pub edited: u64,
    /// Segments sent once more, beside TCP.
    pub repeated: u64,
}

/// What the host did, all in all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Most frames held at once.
    pub held_max: u64,
    /// How long frames were held.
    pub hold_us: HoldTimes,
    /// Frames released after having been held.
    pub released: u64,
    /// Of these, because they had been held for the longest time allowed.
    pub forced: u64,
    /// Frames that the policy dropped.
    pub discarded: u64,
    /// Outgoing segments that were never held.
    pub passed: u64,
    /// Incoming segments.
    pub arrivals: u64,
    /// Segments whose header was changed.
    pub edited: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Probes that arrived, and those among them that a switch had marked.
    pub probes: u64,
    /// See `probes`.
    pub probes_marked: u64,
    /// Segments sent once more, beside TCP.
    pub repeated: u64,
    /// Connections remembered at once, at most.
    pub connections: u64,
    /// Segments of connections that found no room in the flow table.
    pub unguarded: u64,
    /// Frames that passed unseen: the ring was full or the frame too large.
    pub overflow: u64,
    /// Frames of other protocols, which passed.
    pub not_tcp: u64,
    /// IP fragments, which passed.
    pub fragments: u64,
    /// Frames whose headers do not add up, which passed.
    pub malformed: u64,
    /// Segments signed by TCP-MD5 or TCP-AO, which passed untouched.
    pub authenticated: u64,
    /// Segments of MPTCP, which passed: windows there are those of all paths of a connection.
    pub multipath: u64,
    /// Frames that a device would not take back.
    pub lost: u64,
    /// Wake-ups of the daemon.
    pub wakeups: u64,
    /// CPU time of the daemon, s.
    pub daemon_cpu_s: f64,
    /// Peak memory of the process, KiB.
    pub peak_rss_kb: u64,
}

/// A device whose TCP frames a policy sees.
#[derive(Debug)]
pub struct Host {
    device: Device,
    path: HostPath,
    attachment: Option<Attachment>,
    reader: Reader,
    driver: Rc<RefCell<Driver>>,
    socket: OwnedFd,
    inward: Option<Inward>,
    /// Of the thread that runs it.
    promptness: Option<Promptness>,
    next_look: Time,
    lost: u64,
    wakeups: u64,
    _claim: Claim,
}

impl Host {
    /// Puts the device under a policy.
    ///
    /// # Errors
    /// When it cannot be; then nothing has been changed.
    pub fn start(options: &Options, policy: Box<dyn Policy>) -> Result<Self, Error> {
        let device = Device::find(&options.device)?;
        privilege::require()?;
        let claim = device.claim()?;
        let clsact = options.attach.is_clsact();
        let task = Task { device: device.index, ingress: policy.edits_ingress(), probes: policy.probes(), clsact };
        let path = HostPath::load(task)?;
        let socket = sys::marked_sender(device.index, PASS_MARK)
            .map_err(|source| Error::from_io("open a raw socket on the device", source))?;
        let inward = task.ingress.then(|| Inward::new(&device, path.inject(), clsact)).transpose()?;
        // 1 us to a minute, within 1 %.
        let hold_times =
            Histogram::new_with_bounds(1, 60_000_000, 2).map_err(|error| Error::Settings(error.to_string()))?;
        let driver = Rc::new(RefCell::new(Driver::new(policy, options.max_hold, hold_times)));
        let reader = Reader::new(&path, &driver)?;
        let now = sys::now();
        path.heartbeat().set(now.0);
        let programs = Programs { ingress: Some(path.ingress()), egress: path.egress() };
        let attachment = Some(attach::attach(clsact, &device, programs)?);
        Ok(Self {
            device,
            path,
            attachment,
            reader,
            driver,
            socket,
            inward,
            promptness: None,
            next_look: now + LOOK,
            lost: 0,
            wakeups: 0,
            _claim: claim,
        })
    }

    /// Runs the policy until `deadline` (on the monotonic clock) or until `stop` is readable.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn run(&mut self, deadline: Time, stop: BorrowedFd<'_>) -> Result<Outcome, Error> {
        loop {
            let now = sys::now();
            self.promptness.get_or_insert_with(|| Promptness::new(now)).look(now);
            let more = self.work(now);
            if now >= self.next_look {
                self.next_look = now + LOOK;
                if !self.device.exists() {
                    return Err(Error::NoSuchDevice(self.device.name.clone()));
                }
            }
            if now >= deadline {
                return Ok(Outcome::Deadline);
            }
            let due = if more { now } else { self.driver.borrow().timeout() };
            let wake = deadline.min(self.next_look).min(now + HEARTBEAT).min(due);
            let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = [readable(stop), readable(self.reader.poll_fd())];
            sys::wait(&mut fds, wake).map_err(|errno| Error::from_errno("wait for frames", errno))?;
            self.wakeups += 1;
            if fds[0].any() == Some(true) {
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// One round: takes in a batch, lets go what may leave; says whether there may be more to take in.
    fn work(&mut self, now: Time) -> bool {
        self.path.heartbeat().set(now.0);
        let more = self.reader.read();
        self.driver.borrow_mut().turn(sys::now());
        self.flush();
        more
    }

    /// Sends what leaves, and puts back what arrived.
    fn flush(&mut self) {
        let driver = &mut *self.driver.borrow_mut();
        self.lost += send_all(&self.socket, &driver.out);
        driver.out.clear();
        if let Some(inward) = &mut self.inward {
            inward.write(&mut driver.inward);
        }
    }

    /// How things stand.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let driver = self.driver.borrow();
        let counts = driver.counts();
        Snapshot {
            connections: driver.connections(),
            held: counts.held,
            released: counts.released,
            passed: counts.passed,
            arrivals: counts.arrivals,
            edited: counts.edited,
            repeated: counts.repeated,
        }
    }

    /// Takes the policy off the device and tells what it did.
    #[must_use]
    pub fn stop(mut self) -> Summary {
        self.shut_down();
        let driver = self.driver.borrow();
        let (counts, books, times) = (driver.counts(), self.path.books(), driver.hold_times());
        let quantile = |q| if times.is_empty() { 0 } else { times.value_at_quantile(q) };
        let (daemon_cpu_s, peak_rss_kb) = sys::usage();
        Summary {
            held_max: counts.held_max,
            hold_us: HoldTimes { p50: quantile(0.5), p99: quantile(0.99), max: times.max() },
            released: counts.released,
            forced: counts.forced,
            discarded: counts.discarded,
            passed: counts.passed,
            arrivals: counts.arrivals,
            edited: counts.edited,
            probes_sent: counts.probes_sent,
            probes: counts.probes,
            probes_marked: counts.probes_marked,
            repeated: counts.repeated,
            connections: counts.flows_max,
            unguarded: counts.unguarded,
            overflow: books.overflow.get(),
            not_tcp: books.not_tcp.get(),
            fragments: books.fragments.get(),
            malformed: books.malformed.get(),
            authenticated: books.authenticated.get(),
            multipath: counts.multipath,
            lost: self.lost + self.inward.as_ref().map_or(0, Inward::lost),
            wakeups: self.wakeups,
            daemon_cpu_s,
            peak_rss_kb,
        }
    }

    /// Takes the programs off, then lets go of all that was taken.
    fn shut_down(&mut self) {
        if self.attachment.take().is_none() {
            return;
        }
        while self.reader.read() {
            self.flush();
        }
        self.driver.borrow_mut().release_all(sys::now());
        self.flush();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shut_down();
    }
}
