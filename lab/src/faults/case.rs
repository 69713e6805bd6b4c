//! The faults.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::May;
use super::clock::Stepped;
use super::service::Service;
use super::sleep::suspend;
use super::state::{Group, processes};
use crate::guard::{Guard, GuardConfig, GuardError, Place};
use crate::harm::row::{RowError, io_error};
use crate::testbed::{RECEIVER_DEVICE, Testbed, tc};

/// How long a guard may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the receiver's device is down.
const DOWN: Duration = Duration::from_secs(1);
/// Far below what a guard needs, in bytes.
const STARVED: u64 = 64 << 10;
/// What a guard is told of the buffer, one after the other.
const BUFFERS: [&str; 5] = ["32KB", "128KB", "48KB", "96KB", "64KB"];
/// In seconds.
const AN_HOUR: i64 = 3600;
/// How long until the host's alarm, what it takes to fall asleep included; and how long it must have slept.
const ALARM: Duration = Duration::from_secs(15);
const NAP: Duration = Duration::from_secs(1);

/// One fault.
pub struct Case {
    /// Its name, for `--fault`.
    pub name: &'static str,
    /// What is done, in one line.
    pub what: &'static str,
    /// Further options of the guard.
    pub(super) options: &'static [&'static str],
    /// The guard runs from a file of its own by a file of settings, as the service does.
    pub(super) as_service: bool,
    /// It needs what only a guard on the fast path has.
    pub(super) fast_path: bool,
    /// It strikes the receiver's device, not the guard's processes.
    pub(super) at_device: bool,
    /// The host or its network is struck, so connections may pause without a guard, too.
    pub(super) strikes_all: bool,
    /// The network is there afterwards.
    pub(super) network_returns: bool,
    /// Whether it came about, by the summary of a guard that lived through it.
    pub(super) came_about: fn(&Value) -> bool,
    /// Does it; says what the guard did.
    pub(super) strike: fn(&mut Scene<'_>) -> Result<Option<String>, RowError>,
}

/// What a fault strikes.
pub(super) struct Scene<'a> {
    pub(super) testbed: &'a Testbed,
    pub(super) config: &'a GuardConfig,
    /// The parts of the guard that are struck.
    pub(super) places: &'a [Place],
    /// Those parts, while they are to be ended as usual.
    pub(super) guard: Option<Guard>,
    /// What keeps memory short, until everything is over.
    pub(super) group: Option<Group>,
    /// The files of the guard that runs as a service.
    pub(super) service: Option<Service>,
    /// What may be done to this whole host.
    pub(super) may: May,
}

/// All faults, in the order of the table. A new one is a row here.
#[must_use]
pub fn cases() -> &'static [Case] {
    const QUIET: Case = Case {
        name: "none",
        what: "nothing happens: what the load does by itself",
        options: &[],
        as_service: false,
        fast_path: false,
        at_device: false,
        strikes_all: false,
        network_returns: true,
        came_about: |_| true,
        strike: |_| {
            std::thread::sleep(Duration::from_secs(1));
            Ok(None)
        },
    };
    const CASES: &[Case] = &[
        QUIET,
        Case { name: "kill", what: "kill -9", strike: |scene| scene.killed(), ..QUIET },
        Case {
            name: "stop-1s",
            what: "SIGSTOP for 1 s",
            came_about: |summary| summary["rescues"].as_u64() > Some(0),
            strike: |scene| scene.stopped(Duration::from_secs(1)),
            ..QUIET
        },
        Case {
            name: "stop-10s",
            what: "SIGSTOP for 10 s",
            came_about: |summary| summary["rescues"].as_u64() > Some(0),
            strike: |scene| scene.stopped(Duration::from_secs(10)),
            ..QUIET
        },
        Case { name: "restart", what: "ended and started again", strike: |scene| scene.restarted(), ..QUIET },
        Case {
            name: "reload",
            what: "five changes of its settings, each by SIGHUP",
            as_service: true,
            fast_path: true,
            strike: |scene| scene.reloaded(),
            ..QUIET
        },
        Case {
            name: "upgrade",
            what: "its program is replaced, then restarted as the package does",
            as_service: true,
            fast_path: true,
            strike: |scene| scene.upgraded(),
            ..QUIET
        },
        Case {
            name: "clock",
            what: "the wall clock steps by an hour, ahead and behind",
            strikes_all: true,
            strike: |scene| scene.moved_in_time(),
            ..QUIET
        },
        Case {
            name: "suspend",
            what: "the host is suspended to memory for up to 15 s",
            strikes_all: true,
            strike: |scene| scene.slept(),
            ..QUIET
        },
        Case {
            name: "down-up",
            what: "its device is set down for 1 s",
            at_device: true,
            strikes_all: true,
            strike: |scene| scene.flapped(),
            ..QUIET
        },
        Case {
            name: "deleted",
            what: "its device is deleted",
            at_device: true,
            strikes_all: true,
            network_returns: false,
            strike: |scene| scene.robbed(),
            ..QUIET
        },
        Case {
            name: "hold-full",
            what: "there is room for 8 held frames",
            options: &["--max-held", "8"],
            fast_path: true,
            came_about: |summary| summary["held_max"].as_u64() >= Some(8),
            ..QUIET
        },
        Case { name: "second", what: "another guard wants the device", strike: |scene| scene.doubled(), ..QUIET },
        Case {
            name: "detached",
            what: "tc qdisc del dev rx0 clsact, from outside",
            options: &["--attach", "clsact"],
            at_device: true,
            strike: |scene| scene.detached(),
            ..QUIET
        },
        Case {
            name: "memory",
            what: "its control group gets 64 KiB of memory",
            strike: |scene| scene.starved(),
            ..QUIET
        },
    ];
    CASES
}

impl Scene<'_> {
    fn signal(&self, signal: Signal) -> Result<(), RowError> {
        Ok(self.guard.as_ref().map_or(Ok(()), |guard| guard.signal(signal))?)
    }

    /// Waits until the guard has ended by itself; then there is none to end.
    fn ended(&mut self, patience: Duration) -> Result<Option<String>, RowError> {
        let Some(guard) = &mut self.guard else { return Ok(None) };
        let Some(status) = guard.wait(patience)? else { return Ok(None) };
        self.guard = None;
        Ok(Some(format!("ended ({status})")))
    }

    fn killed(&mut self) -> Result<Option<String>, RowError> {
        self.signal(Signal::SIGKILL)?;
        self.ended(PATIENCE)
    }

    fn stopped(&self, time: Duration) -> Result<Option<String>, RowError> {
        self.signal(Signal::SIGSTOP)?;
        std::thread::sleep(time);
        self.signal(Signal::SIGCONT)?;
        Ok(Some("went on".into()))
    }

    fn restarted(&mut self) -> Result<Option<String>, RowError> {
        let Some(guard) = self.guard.take() else { return Ok(None) };
        let began = Instant::now();
        guard.stop()?;
        self.guard = Some(Guard::start_at(self.testbed, self.config, self.places)?);
        Ok(Some(format!("guarded again after {} ms", began.elapsed().as_millis())))
    }

    fn reloaded(&mut self) -> Result<Option<String>, RowError> {
        let (Some(service), Some(_)) = (&self.service, &self.guard) else { return Ok(None) };
        let began = Instant::now();
        for buffer in BUFFERS {
            let extra = [&self.config.extra[..], &["--buffer".into(), buffer.into()]].concat();
            service.configure(self.testbed, &GuardConfig { extra, ..self.config.clone() })?;
            self.signal(Signal::SIGHUP)?;
            if self.guard.as_mut().and_then(|guard| guard.event("changed")).is_none() {
                return Err(RowError::Lab(GuardError::End("it did not apply its new settings".into()).into()));
            }
        }
        Ok(Some(format!("took {} changes in {} ms", BUFFERS.len(), began.elapsed().as_millis())))
    }

    fn upgraded(&mut self) -> Result<Option<String>, RowError> {
        let Some(service) = self.service.take() else { return Ok(None) };
        service.replace_program()?;
        // It goes on from a file that has no name any more.
        std::thread::sleep(Duration::from_secs(1));
        let began = Instant::now();
        self.signal(Signal::SIGTERM)?;
        let ended = self.ended(PATIENCE)?.unwrap_or_else(|| "did not end on SIGTERM".into());
        let guard = service.start(self.testbed)?;
        let new = service.is_run_by(guard.pid())?;
        self.guard = Some(guard);
        self.service = Some(service);
        match new {
            true => Ok(Some(format!("{ended}, guarded again after {} ms", began.elapsed().as_millis()))),
            false => Err(RowError::Lab(GuardError::End("it still runs the old executable".into()).into())),
        }
    }

    fn moved_in_time(&self) -> Result<Option<String>, RowError> {
        if !self.may.step_clock {
            let why = "it steps the clock of this whole host; allow it with --step-clock, best in a virtual machine";
            return Err(RowError::Impossible(why.into()));
        }
        let step = |seconds| Stepped::by(seconds).map_err(io_error("stepping the clock"));
        let ahead = step(AN_HOUR)?;
        std::thread::sleep(Duration::from_secs(1));
        drop(ahead);
        let behind = step(-AN_HOUR)?;
        std::thread::sleep(Duration::from_secs(1));
        drop(behind);
        Ok(Some("guarded on".into()))
    }

    fn slept(&self) -> Result<Option<String>, RowError> {
        if !self.may.suspend {
            let why = "it suspends this whole host; allow it with --suspend, best in a virtual machine";
            return Err(RowError::Impossible(why.into()));
        }
        let slept = suspend(ALARM).map_err(io_error("suspending this host"))?;
        if slept < NAP {
            return Err(RowError::Impossible("this host did not stay suspended".into()));
        }
        std::thread::sleep(Duration::from_secs(1));
        Ok(self.guard.is_some().then(|| format!("guarded on after {:.1} s of sleep", slept.as_secs_f64())))
    }

    fn flapped(&mut self) -> Result<Option<String>, RowError> {
        self.testbed.flap(DOWN)?;
        let ended = self.ended(Duration::from_millis(200))?;
        Ok(ended.or_else(|| self.guard.is_some().then(|| "guarded on".into())))
    }

    fn robbed(&mut self) -> Result<Option<String>, RowError> {
        self.testbed.delete_receiver_device()?;
        match self.ended(PATIENCE)? {
            Some(ended) => Ok(Some(ended)),
            None => Err(RowError::Lab(GuardError::End("it did not notice that its device was deleted".into()).into())),
        }
    }

    fn doubled(&mut self) -> Result<Option<String>, RowError> {
        match Guard::start_at(self.testbed, self.config, self.places) {
            Err(GuardError::NotReady { message, .. }) if message.contains("guarded already") => {
                Ok(Some("the second one was refused".into()))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(RowError::Lab(GuardError::End("a second guard started on the same device".into()).into())),
        }
    }

    fn detached(&mut self) -> Result<Option<String>, RowError> {
        tc(&self.testbed.receiver(), &["qdisc", "del", "dev", RECEIVER_DEVICE, "clsact"])?;
        match self.ended(PATIENCE)? {
            Some(ended) => Ok(Some(ended)),
            None => {
                Err(RowError::Lab(GuardError::End("it did not notice that its programs were detached".into()).into()))
            }
        }
    }

    fn starved(&mut self) -> Result<Option<String>, RowError> {
        let missing = || RowError::Impossible("no cgroup memory controller is available".into());
        let group = self.group.insert(Group::new(STARVED).ok_or_else(missing)?);
        let failed = io_error("moving the guard into a control group");
        let guards = processes(&self.testbed.receiver()).map_err(&failed)?;
        if guards.is_empty() {
            return Err(RowError::Impossible("no guard process runs at the receiver".into()));
        }
        for (pid, _) in guards {
            group.add(pid).map_err(&failed)?;
        }
        let began = Instant::now();
        while !group.has_struck().map_err(io_error("looking at the control group"))? {
            if began.elapsed() > PATIENCE {
                return Err(RowError::Impossible("the guard did not reach the memory limit".into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = self.ended(Duration::from_secs(3))?;
        Ok(Some(ended.unwrap_or_else(|| "ran on".into())))
    }
}
