//! `ackgate run --config`: the devices of a file under guard in one process, each by a thread of its own; SIGHUP has the file
//! read again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ackgate_linux::privilege;
use anyhow::Context;
use signal_hook::consts::SIGHUP;

use super::attend::Told;
use super::file::{Device, File};
use super::printer::Printer;
use super::publish::{Board, Metrics};
use super::service;
use super::settings::HoldChoice;
use super::worker::Worker;
use crate::{output, stop};

/// Longest time between two words of a worker that lives.
const SILENT: Duration = Duration::from_secs(5);
/// Time between two looks at them.
const LOOK: Duration = Duration::from_secs(1);

/// What the main thread waits for.
enum News {
    Told(String, Box<Told>),
    Signal(i32),
}

/// A device and its worker.
struct Member {
    device: Device,
    worker: Worker,
    state: State,
    heard: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Waiting,
    Guarded,
}

struct Fleet {
    members: BTreeMap<String, Member>,
    file: File,
    board: Board,
    metrics: Option<Metrics>,
    printer: Printer,
    news: Sender<News>,
}

/// Guards until SIGINT or SIGTERM.
///
/// # Errors
/// When the file is refused, or one of its devices for another reason than that it is not there or down.
pub(super) fn run(path: &Path, json: bool) -> anyhow::Result<()> {
    let file = File::read(path)?;
    let board = Board::default();
    let metrics = file.metrics.map(|address| Metrics::start(address, &board)).transpose()?;
    // Every thread that is started from here on has only these capabilities.
    let redirect = file.devices.iter().any(|device| device.settings.hold == HoldChoice::Redirect);
    privilege::keep_needed(redirect).context("could not drop capabilities")?;
    let (news, inbox) = channel();
    stop::tell_signals({
        let news = news.clone();
        move |signal| news.send(News::Signal(signal)).is_ok()
    })?;
    let printer = Printer::of_many(json, file.samples);
    let devices = file.devices.clone();
    let mut fleet = Fleet { members: BTreeMap::new(), file, board, metrics, printer, news };
    let done = devices.into_iter().try_for_each(|device| fleet.add(device)).and_then(|()| fleet.attend(path, &inbox));
    service::stopping();
    fleet.stop(&inbox);
    let written = fleet.printer.finish();
    done?;
    written
}

impl Fleet {
    fn add(&mut self, device: Device) -> anyhow::Result<()> {
        let (name, news) = (device.name.clone(), self.news.clone());
        let tell = move |told| {
            // When nobody listens the process ends.
            let _ = news.send(News::Told(name.clone(), Box::new(told)));
        };
        let worker = Worker::start(device.clone(), &self.board, tell)?;
        let member = Member { worker, state: State::Starting, heard: Instant::now(), device: device.clone() };
        self.members.insert(device.name, member);
        Ok(())
    }

    /// Until SIGINT or SIGTERM.
    fn attend(&mut self, path: &Path, inbox: &Receiver<News>) -> anyhow::Result<()> {
        let mut started = false;
        let mut told = String::new();
        loop {
            match inbox.recv_timeout(LOOK) {
                Ok(News::Told(device, told)) => match *told {
                    Told::Refused(error) if !started => return Err(error),
                    told => self.hear(&device, &told),
                },
                Ok(News::Signal(SIGHUP)) => {
                    service::reloading();
                    self.reload(path);
                    service::ready(&self.status());
                }
                Ok(News::Signal(_)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            started |= self.members.values().all(|member| member.state != State::Starting);
            let status = self.status();
            if started && status != told {
                service::ready(&status);
                told = status;
            }
            if self.members.values().all(|member| member.heard.elapsed() < SILENT) {
                service::alive();
            }
        }
    }

    fn hear(&mut self, device: &str, told: &Told) {
        let Some(member) = self.members.get_mut(device) else {
            // One that was taken off the list: its last words.
            return self.printer.print(device, told);
        };
        member.heard = Instant::now();
        match told {
            Told::Waiting(_) => member.state = State::Waiting,
            Told::Ready { .. } => member.state = State::Guarded,
            Told::Refused(error) => {
                output::say(&format!("{device} is not guarded: {error:#}; change the settings and reload"));
                self.members.remove(device);
                return;
            }
            _ => {}
        }
        self.printer.print(device, told);
    }

    /// Reads the file again. One that makes no sense changes nothing.
    fn reload(&mut self, path: &Path) {
        let kept = |error: &dyn std::fmt::Display| {
            output::say(&format!("reload failed, the previous settings stay in force: {error}"))
        };
        let file = match File::read(path) {
            Ok(file) => file,
            Err(error) => return kept(&error),
        };
        if file.metrics != self.file.metrics {
            let started = file.metrics.map(|address| Metrics::start(address, &self.board)).transpose();
            match started {
                Ok(metrics) => self.metrics = metrics,
                Err(error) => return kept(&error),
            }
        }
        self.printer.set_samples(file.samples);
        let wanted: BTreeMap<&str, &Device> =
            file.devices.iter().map(|device| (device.name.as_str(), device)).collect();
        let gone: Vec<String> =
            self.members.keys().filter(|name| !wanted.contains_key(name.as_str())).cloned().collect();
        for name in gone {
            if let Some(member) = self.members.remove(&name) {
                member.worker.stop();
            }
        }
        for (&name, &device) in &wanted {
            match self.members.get_mut(name) {
                Some(member) if member.worker.has_ended() => {
                    self.members.remove(name);
                }
                Some(member) if member.device != *device => {
                    member.device = device.clone();
                    member.worker.change(device.clone());
                }
                _ => {}
            }
            if !self.members.contains_key(name)
                && let Err(error) = self.add(device.clone())
            {
                output::say(&format!("{name} is not guarded: {error:#}"));
            }
        }
        output::say(&format!("{} reloaded: {}", path.display(), self.status()));
        self.file = file;
    }

    /// In a line.
    fn status(&self) -> String {
        let does = |member: &Member| match member.state {
            State::Guarded if member.device.settings.observe => "observing",
            State::Guarded => "guarding",
            State::Waiting => "waiting for",
            State::Starting => "starting on",
        };
        let parts = ["guarding", "observing", "waiting for", "starting on"].map(|what| {
            let names = self.members.iter().filter(|(_, member)| does(member) == what).map(|(name, _)| name.as_str());
            (what, names.collect::<Vec<_>>().join(", "))
        });
        let told: Vec<String> = parts
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} {names}"))
            .collect();
        if told.is_empty() { "nothing is guarded".into() } else { told.join("; ") }
    }

    /// Takes all guards off, and tells their last words.
    fn stop(&mut self, inbox: &Receiver<News>) {
        self.metrics = None;
        for (_, member) in std::mem::take(&mut self.members) {
            member.worker.stop();
        }
        // What the workers told before they ended.
        while let Ok(news) = inbox.try_recv() {
            if let News::Told(device, told) = news {
                self.printer.print(&device, &told);
            }
        }
    }
}
