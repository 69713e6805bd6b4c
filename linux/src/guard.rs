//! The daemon: puts a device under guard, runs the scheduler over what is held, and takes everything back.
//!
//! DESIGN NOTES
//! 1. One thread, asleep unless something is held. While the gate is open it wakes only to show that it lives.
//! 2. It is woken by the first frame that is held, by frames that must not wait, by budget that it asked for, and by
//!    the clock. Frames that join others that wait wake nobody: they are read at the next wake-up, before anything is
//!    scheduled. A frame may be counted as held before it can be read; as long as the counts differ the sleep is short.
//! 3. Waking up for every frame's worth of budget costs more CPU than it gains: budget is asked for in batches
//!    ([`Options::batch`]), which delays a release by the time that a batch takes to arrive.
//! 4. Stopping: the heartbeat is withdrawn first, so that nothing more is held; then the programs are taken off, and
//!    what is held leaves, and every window is TCP's own again. Dropping the guard does the same, hence a panic too.
//! 5. Stopped by others (SIGSTOP, SIGKILL): the standby process does it (see [`crate::standby`]). When this one goes on it forgets
//!    what it held, for that has left.

mod account;
mod change;
mod options;

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use ackgate_control::decision::{self, Path, Rules};
use ackgate_control::gate::{Scheduler, State};
use ackgate_control::policy::Action;
use ackgate_control::units::{Span, Time};
use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags};

use crate::attach::{self, Attachment};
use crate::datapath::{Datapath, STALE, Take};
use crate::device::{Claim, Device};
use crate::dormancy::{Dormancy, Follow, Needs};
use crate::error::Error;
use crate::hold::{self, Arrival, Hold, NfQueue, Pair, Redirect, Ring};
use crate::neighbours::{Neighbours, Notice};
use crate::netstat::Losses;
use crate::older::Older;
use crate::privilege;
use crate::promptness::Promptness;
use crate::standby::{Keeper, Standby, Vault};
use crate::sweep::{self, Sweeper};
use crate::sys;
use crate::watchdog::Watchdog;

pub use account::{HoldTimes, ProgramCost, Summary};
pub use change::{Change, Preparation};
pub use options::Options;

/// Time between two signs of life; the programs lose patience after [`crate::datapath::STALE`].
pub(crate) const HEARTBEAT: Span = Span::millis(25);
/// Sleep while a frame is counted as held that has not been read yet.
const SOON: Span = Span::micros(50);
/// Time between two looks at a rescue that is going on.
const RESCUE: Span = Span::millis(1);

/// Why [`Guard::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The time was up.
    Deadline,
    /// The stop descriptor became readable.
    Stopped,
}

/// A device under guard.
#[derive(Debug)]
pub struct Guard {
    options: Options,
    rules: Rules,
    device: Device,
    datapath: Datapath,
    /// None while the guard is dormant, and when it has ended.
    attachment: Option<Attachment>,
    ended: bool,
    hold: Box<dyn Hold>,
    /// None where nothing is touched: there is nothing to make up for.
    standby: Option<Standby>,
    /// Rescues that have been made up for.
    rescues: u64,
    scheduler: Scheduler,
    sweeper: Sweeper,
    /// Most connections that were active at once.
    peak_active: u64,
    arrivals: Vec<Arrival>,
    hold_times: Histogram<u64>,
    next_sweep: Time,
    wakeups: u64,
    /// The budget that was asked for came before the wish was out.
    again: bool,
    neighbours: Neighbours,
    older: Older,
    dormancy: Dormancy,
    /// None where the guard is never dormant.
    losses: Option<Losses>,
    watchdog: Watchdog,
    /// Of the thread that runs it.
    promptness: Option<Promptness>,
    /// How long all that was released had been held together.
    held_for: Span,
    notices: Vec<Notice>,
    _stats: Option<sys::RunTimeStats>,
    claim: Claim,
}

impl Guard {
    /// Puts the device under guard.
    ///
    /// # Errors
    /// When it cannot be; then nothing has been changed.
    pub fn start(mut options: Options) -> Result<Self, Error> {
        options.gate.validate().map_err(|error| Error::Settings(error.to_string()))?;
        let device = Device::find(&options.device)?;
        privilege::require()?;
        device.require_up()?;
        let claim = device.claim()?;
        let encryption = device.encryption()?;
        let clsact = options.attach.is_clsact();
        let queue = match options.hold {
            _ if options.observe => false,
            hold::Choice::NfQueue => true,
            // Ring and redirect send what they release by a packet socket, past all that could have it encrypted.
            // Only where there are none at all: what else is in their way is better said than hidden.
            hold::Choice::Auto => encryption.ipsec || sys::sender().is_err(),
            hold::Choice::Ring | hold::Choice::Redirect if encryption.ipsec => {
                return Err(Error::Unfit {
                    device: device.name,
                    reason: "its network card encrypts IPsec packets (esp-hw-offload), and frames released by `ring` and `redirect` would leave \
                             unencrypted; use `--hold nfqueue`, or `ethtool -K DEVICE esp-hw-offload off`",
                });
            }
            hold::Choice::Ring | hold::Choice::Redirect => false,
        };
        options.gate.leave_data = encryption.tls && !queue;
        let redirect = options.hold == hold::Choice::Redirect && !options.observe;
        let pair = redirect.then(|| Pair::new(&device)).transpose()?;
        let take = match &pair {
            _ if options.observe => Take::Nothing,
            Some(pair) => Take::Redirect(pair.near),
            None if queue => Take::Queue,
            None if clsact => Take::Stolen,
            None => Take::Vanish,
        };
        let datapath = Datapath::load_for(&options.gate, take, &options.selection)?;
        let rules: Rules = options.gate.clone().into();
        let vault = Vault::new(options.gate.max_held);
        let vault = Arc::new(vault.map_err(|source| Error::from_io("share memory with the standby process", source))?);
        let keeper = Keeper::new(Arc::clone(&vault));
        let hold: Box<dyn Hold> = match pair {
            Some(pair) => Box::new(Redirect::new(&device, &datapath, pair, keeper)?),
            None if queue => Box::new(NfQueue::new(&device, &datapath)?),
            None => Box::new(Ring::new(&device, &datapath, keeper)?),
        };
        let stats = options.bpf_stats.then(sys::RunTimeStats::enable).transpose();
        let stats = stats.map_err(|source| Error::from_io("have the kernel measure the programs", source))?;
        let now = sys::now();
        datapath.shared().gate().heartbeat.set(now.0);
        let scheduler = Scheduler::default();
        let losses = if queue { None } else { losses() };
        // Before there is anything to make up for, and without the links, which end with this process.
        let standby =
            if options.observe { None } else { Some(Standby::new(rules.clone(), &datapath, vault, hold.aid()?)?) };
        let programs = attach::Programs { ingress: Some(datapath.ingress()), egress: datapath.egress() };
        // A guard that begins dormant takes them off again: it has seen that they can be there.
        let attachment = attach::attach(clsact, &device, programs)?;
        let ids = attachment.links().then(|| ids(&datapath)).transpose()?;
        let dormancy = Dormancy::new(losses.is_some() && may_rest(&options, &device));
        Ok(Self {
            neighbours: Neighbours::new(&device, ids),
            older: Older::new(&device),
            watchdog: Watchdog::new(options.step_aside.filter(|_| !options.observe), options.gate.max_hold),
            promptness: None,
            held_for: Span::ZERO,
            notices: Vec::new(),
            rules,
            options,
            device,
            datapath,
            attachment: (!dormancy.is_dormant()).then_some(attachment),
            ended: false,
            hold,
            standby,
            rescues: 0,
            scheduler,
            dormancy,
            losses,
            sweeper: Sweeper::default(),
            peak_active: 0,
            arrivals: Vec::new(),
            // 1 us to a minute, within 1 %.
            hold_times: Histogram::new_with_bounds(1, 60_000_000, 2)
                .map_err(|error| Error::Settings(error.to_string()))?,
            next_sweep: now + sweep::PERIOD,
            wakeups: 0,
            again: false,
            _stats: stats,
            claim,
        })
    }

    /// Guards until `deadline` (on the monotonic clock) or until `stop` is readable.
    ///
    /// # Errors
    /// [`Error::Gone`] when the device is, [`Error::Detached`] when the programs are; then only [`stop`](Self::stop) is left.
    pub fn run(&mut self, deadline: Time, stop: BorrowedFd<'_>) -> Result<Outcome, Error> {
        loop {
            let now = sys::now();
            self.promptness.get_or_insert_with(|| Promptness::new(now)).look(now);
            self.work(now);
            self.older.look(&self.rules, self.datapath.shared(), now);
            self.datapath.look_for_groups(now)?;
            let sweeps = now >= self.next_sweep;
            self.listen(now);
            if sweeps {
                self.look_for_rest(now);
            }
            if !self.dormancy.is_dormant() && self.attachment.is_none() {
                self.attach()?;
            }
            if sweeps {
                self.next_sweep = now + sweep::PERIOD;
                if let Err(error) = self.sweeper.sweep(&self.rules, &self.datapath, self.dormancy.forgets(), now) {
                    // Out of memory, say: it is tried again.
                    tracing::warn!("{error}");
                }
                if let Some(standby) = &mut self.standby {
                    standby.replace(self.datapath.shared());
                }
                if !self.device.exists() {
                    return Err(Error::Gone(self.device.name.clone()));
                }
                if self.attachment.as_ref().is_some_and(|attachment| !attachment.stands()) {
                    return Err(Error::Detached(self.device.name.clone()));
                }
                let seen = self.seen();
                self.notices.append(&mut self.neighbours.look(seen)?);
                let missed = self.datapath.missed_groups();
                self.notices.extend(missed.into_iter().map(|group| Notice::NoGroup { group }));
                let signs = self.signs();
                self.notices.extend(self.watchdog.look(now, signs).map(Notice::from));
            }
            if now >= deadline {
                return Ok(Outcome::Deadline);
            }
            let wake =
                deadline.min(self.next_sweep).min(now + HEARTBEAT).min(self.older.next_look()).min(self.wake_time(now));
            if self.sleep(wake, stop)? {
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// While the guard is dormant, losses wake it; so does a kernel that ceases to tell of them.
    fn listen(&mut self, now: Time) {
        if !self.dormancy.listens(now) {
            return;
        }
        if let Some(Ok(signs)) = self.losses.as_mut().map(Losses::count) {
            self.dormancy.listen(signs, now);
        } else {
            self.losses = None;
        }
    }

    /// The guard may be dormant from now on: then its programs leave the device, and every window is TCP's own.
    fn look_for_rest(&mut self, now: Time) {
        let shared = self.datapath.shared();
        let holds = self.scheduler.held() > 0 || shared.gate().held.get() > 0;
        let needs = Needs { held: self.hold_times.len(), lost: shared.gate().lost.get() };
        let rests = self.losses.is_some() && may_rest(&self.options, &self.device);
        self.dormancy.look(rests, holds, needs, now);
        if self.dormancy.is_dormant() && self.attachment.take().is_some() {
            self.hand_back();
        }
    }

    /// Puts the programs back on the device.
    fn attach(&mut self) -> Result<(), Error> {
        let programs = attach::Programs { ingress: Some(self.datapath.ingress()), egress: self.datapath.egress() };
        let attachment = attach::attach(self.options.attach.is_clsact(), &self.device, programs)
            .map_err(|error| if self.device.exists() { error } else { Error::Gone(self.device.name.clone()) })?;
        self.neighbours.replaced(attachment.links().then(|| ids(&self.datapath)).transpose()?);
        self.attachment = Some(attachment);
        Ok(())
    }

    /// One round: takes in what is held, lets go what may leave.
    fn work(&mut self, now: Time) {
        if self.is_rescued() {
            return;
        }
        self.take_up_rescue();
        self.peak_active = self.peak_active.max(self.datapath.shared().gate().peak_active.get());
        if self.watchdog.is_aside() {
            return self.stand_aside(now);
        }
        let Self { options, rules, datapath, hold, standby, scheduler, arrivals, hold_times, held_for, .. } = self;
        let shared = datapath.shared();
        self.again = false;
        shared.gate().heartbeat.set(now.0);
        // Without a given buffer only losses show what would fit.
        if options.observe && !options.gate.auto {
            scheduler.overlook_losses(shared, now);
        }
        hold.collect(arrivals);
        for arrival in arrivals.drain(..) {
            scheduler.enqueue(rules, shared, arrival.flow, arrival.packet, arrival.out, arrival.time);
        }
        while let Some((action, waited)) = scheduler.poll(rules, shared, now) {
            if matches!(action, Action::Release(..) | Action::Split(..)) {
                hold_times.saturating_record((waited.0 / 1000).max(1));
                *held_for = *held_for + waited;
            }
            if rescues(standby.as_ref()) != self.rescues {
                hold.withdraw();
                return;
            }
            carry_out(action, hold.as_mut());
        }
        if rescues(standby.as_ref()) != self.rescues {
            hold.withdraw();
            return;
        }
        hold.flush();
        let gate = shared.gate();
        let wanted = gate.wanted.get();
        // If the wish comes true in between, it has been cleared and we have been woken: then it stays cleared.
        let batch = options.batch.unwrap_or(gate.threshold.get() / 16);
        if wanted > 0 && wanted < batch && gate.wanted.replace(wanted, batch) {
            self.again = decision::admits(rules, gate, batch, Path::wanted(gate));
        }
    }

    /// If this process did not run for so long that the standby has acted in its place, all that was held has left: it is forgotten.
    fn take_up_rescue(&mut self) {
        let Self { rules, datapath, hold, standby, scheduler, arrivals, .. } = self;
        if rescues(standby.as_ref()) == self.rescues {
            return;
        }
        tracing::warn!(
            "this process was stopped for more than {STALE}; the standby process has sent all held frames meanwhile"
        );
        self.rescues = rescues(standby.as_ref());
        let shared = datapath.shared();
        scheduler.overlook_losses(shared, sys::now());
        hold.withdraw();
        hold.collect(arrivals);
        for arrival in arrivals.drain(..) {
            scheduler.enqueue(rules, shared, arrival.flow, arrival.packet, arrival.out, arrival.time);
        }
        scheduler.abandon(shared);
        while let Some((action, _)) = scheduler.poll(rules, shared, sys::now()) {
            carry_out(action, hold.as_mut());
        }
        hold.flush();
    }

    /// Whether the standby acts in this process's place.
    fn is_rescued(&self) -> bool {
        self.standby.as_ref().is_some_and(Standby::is_rescuing)
    }

    /// Every window is TCP's own again, and the peers are told so.
    fn hand_back(&self) {
        if let Some(standby) = &self.standby {
            standby.hand_back(self.datapath.shared());
        }
    }

    /// When to wake up although nobody calls.
    fn wake_time(&self, now: Time) -> Time {
        if self.is_rescued() {
            return now + RESCUE;
        }
        let unread = self.datapath.shared().gate().held.get() > self.scheduler.held() as u64;
        let soon = if self.again {
            now
        } else if unread {
            now + SOON
        } else {
            Time::NEVER
        };
        self.scheduler.timeout(&self.rules).unwrap_or(Time::NEVER).min(soon)
    }

    /// Sleeps until something is held, `wake`, or `stop` is readable; says whether it is.
    fn sleep(&mut self, wake: Time, stop: BorrowedFd<'_>) -> Result<bool, Error> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [readable(stop), readable(self.datapath.ring().as_fd()), readable(self.hold.poll_fd())];
        sys::wait(&mut fds, wake).map_err(|errno| Error::from_errno("wait for held frames", errno))?;
        let stopped = fds[0].any() == Some(true);
        self.wakeups += 1;
        Ok(stopped)
    }

    /// What the operator should know and has not been told: to be asked for after every [`run`](Self::run).
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The hold back-end in use.
    #[must_use]
    pub fn back_end(&self) -> &'static str {
        if self.options.observe { "none" } else { self.hold.name() }
    }

    /// The socket that claims the device, for whoever answers questions on it ([`crate::status`]).
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn claim_socket(&self) -> std::io::Result<UnixListener> {
        self.claim.socket()
    }

    /// Takes the guard off the device and tells what it did.
    #[must_use]
    pub fn stop(mut self) -> Summary {
        self.shut_down();
        self.summary()
    }

    fn shut_down(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // The first that it does after having been stopped may be to end.
        if !self.is_rescued() {
            self.take_up_rescue();
        }
        self.datapath.shared().gate().heartbeat.set(0);
        self.attachment = None;
        self.let_all_go(sys::now());
        self.hand_back();
    }

    /// Nothing is held and no window is lowered any more. The standby goes by the heartbeat: it has nothing to make up for.
    fn stand_aside(&mut self, now: Time) {
        let begins = self.datapath.shared().gate().heartbeat.get() != 0;
        self.datapath.shared().gate().heartbeat.set(0);
        self.let_all_go(now);
        if begins {
            self.hand_back();
        }
    }

    /// What is held leaves.
    fn let_all_go(&mut self, now: Time) {
        self.hold.collect(&mut self.arrivals);
        let shared = self.datapath.shared();
        self.scheduler.overlook_losses(shared, now);
        for arrival in self.arrivals.drain(..) {
            self.scheduler.enqueue(&self.rules, shared, arrival.flow, arrival.packet, arrival.out, arrival.time);
        }
        self.scheduler.release_all(&self.rules, shared, now);
        while let Some((action, _)) = self.scheduler.poll(&self.rules, shared, now) {
            carry_out(action, self.hold.as_mut());
        }
        self.hold.flush();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Kernel ids of the programs, arrivals first.
fn ids(datapath: &Datapath) -> Result<(u32, u32), Error> {
    let id = |program| sys::program_info(program).map(|info| info.id);
    let ids = id(datapath.ingress()).and_then(|ingress| Ok((ingress, id(datapath.egress())?)));
    ids.map_err(|source| Error::from_io("ask the kernel about its BPF programs", source))
}

/// What wakes a dormant guard, where the kernel tells of it.
fn losses() -> Option<Losses> {
    Losses::open()
        .inspect_err(|error| tracing::warn!("the guard is never dormant, for losses would not be seen: {error}"))
        .ok()
}

/// Whether connections need not be followed before segments are lost.
fn may_rest(options: &Options, device: &Device) -> bool {
    options.follow == Follow::AfterLoss && !options.observe && !device.serves_others()
}

/// Times that the standby has acted.
fn rescues(standby: Option<&Standby>) -> u64 {
    standby.map_or(0, Standby::rescues)
}

fn carry_out(action: Action, hold: &mut dyn Hold) {
    match action {
        Action::Release(packet, edit) => hold.release(packet, &edit),
        Action::Split(packet, edit) => hold.split(packet, &edit),
        Action::Discard(packet) => hold.discard(packet),
        // PAC sends no packets of its own.
        Action::Probe(_) => {}
    }
}
