//! The thread of one device among several: guards it, waits for it, and does what it is ordered meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackgate_linux::{Change, Error, Guard};
use anyhow::Context;

use super::attend::{Told, attend};
use super::file::Device;
use super::place::Place;
use super::publish::{Board, Publisher};
use super::wait;

/// Time between two attempts at a device that cannot be guarded.
const PAUSE: Duration = Duration::from_secs(5);

/// What a worker can be told to do.
enum Order {
    Stop,
    /// Go on with these settings.
    Change(Box<Device>),
    /// The programs for the change of this number are loaded, or cannot be.
    Adopt(u64, Box<Device>, Result<Box<Change>, Error>),
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The device, with the settings that are wanted now.
    Again,
    Stop,
}

/// A worker, seen from outside.
pub(super) struct Worker {
    orders: Orders,
    thread: JoinHandle<()>,
}

/// How orders reach it.
struct Orders {
    orders: Sender<Order>,
    /// Wakes it.
    knock: UnixStream,
}

impl Orders {
    fn give(&mut self, order: Order) {
        // Whoever has ended needs no orders.
        let _ = self.orders.send(order);
        let _ = self.knock.write(&[0]);
    }
}

impl Worker {
    /// Starts to guard a device; `tell` is told how it goes.
    ///
    /// # Errors
    /// When there are no threads or descriptors left.
    pub(super) fn start(device: Device, board: &Board, tell: impl Fn(Told) + Send + 'static) -> anyhow::Result<Self> {
        let (orders, receiver) = channel();
        let (knocks, knock) = UnixStream::pair().context("could not create a pair of sockets")?;
        knocks.set_nonblocking(true)?;
        knock.set_nonblocking(true)?;
        let own = Orders { orders: orders.clone(), knock: knock.try_clone()? };
        let tell = Box::new(tell);
        let inside = Inside { device, board: board.clone(), tell, orders: receiver, knocks, own, changes: 0 };
        let thread = std::thread::Builder::new().name(format!("ack-{}", inside.device.name));
        let thread = thread.spawn(move || inside.work()).context("could not start a thread")?;
        Ok(Self { orders: Orders { orders, knock }, thread })
    }

    /// Goes on with other settings.
    pub(super) fn change(&mut self, device: Device) {
        self.orders.give(Order::Change(Box::new(device)));
    }

    /// Whether its thread has ended, which it does by itself only where the device cannot be guarded as asked.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes the guard off; returns as soon as it is.
    pub(super) fn stop(mut self) {
        self.orders.give(Order::Stop);
        // A panic has been told on standard error, and the guard is off.
        let _ = self.thread.join();
    }
}

struct Inside {
    device: Device,
    board: Board,
    tell: Box<dyn Fn(Told) + Send>,
    orders: Receiver<Order>,
    knocks: UnixStream,
    /// For the thread that loads programs.
    own: Orders,
    /// Changes so far.
    changes: u64,
}

impl Inside {
    fn work(mut self) {
        let mut before = false;
        loop {
            match self.guard() {
                Ok(Next::Again) => {}
                Ok(Next::Stop) => return,
                Err(error) => {
                    let refused = error.downcast_ref().is_some_and(Error::is_refusal);
                    if refused && !before {
                        return (self.tell)(Told::Refused(error));
                    }
                    if self.pause(&format!("{error:#}; retrying every {} s", PAUSE.as_secs())) == Next::Stop {
                        return;
                    }
                }
            }
            before = true;
        }
    }

    /// Guards the device once.
    fn guard(&mut self) -> anyhow::Result<Next> {
        let (place, options) = self.device.options()?;
        let started = wait::start(&options, &self.knocks, |text| (self.tell)(Told::Waiting(text.to_owned())))?;
        let Some(mut guard) = started else { return Ok(self.obey(None)?.unwrap_or(Next::Again)) };
        let publisher = Publisher::start(&guard, place.identity(&self.device.settings, guard.back_end()), &self.board)?;
        (self.tell)(Told::ready(&place, &self.device.settings, guard.back_end()));
        let end = loop {
            if let Err(error) = attend(&mut guard, &self.knocks, &publisher, &mut |told| (self.tell)(told)) {
                break Err(error.into());
            }
            match self.obey(Some((&mut guard, &publisher))) {
                Ok(None) => {}
                Ok(Some(next)) => break Ok(next),
                Err(error) => break Err(error),
            }
        };
        drop(publisher);
        (self.tell)(Told::Summary(Box::new(guard.stop())));
        end
    }

    /// Does what was ordered. `None` when the guard goes on.
    fn obey(&mut self, mut running: Option<(&mut Guard, &Publisher)>) -> anyhow::Result<Option<Next>> {
        self.answer_the_knock()?;
        while let Ok(order) = self.orders.try_recv() {
            match (order, &mut running) {
                (Order::Stop, _) => return Ok(Some(Next::Stop)),
                (Order::Change(device), None) => self.device = *device,
                (Order::Adopt(..), None) => {}
                (Order::Change(device), Some((guard, _))) => {
                    if let Err(why) = self.prepare(guard, device.clone()) {
                        (self.tell)(Told::Changed(format!("guard restarted for the new settings ({why})")));
                        self.device = *device;
                        return Ok(Some(Next::Again));
                    }
                }
                (Order::Adopt(number, device, change), Some((guard, publisher))) if number == self.changes => {
                    match change {
                        Ok(change) => {
                            guard.adopt(*change)?;
                            let place = Place::choose(Some(&device.name), &device.settings)?;
                            publisher.rename(place.identity(&device.settings, guard.back_end()));
                            publisher.update(&guard.snapshot(), &[]);
                            (self.tell)(Told::Changed(place.told(device.settings.buffer)));
                            self.device = *device;
                        }
                        Err(error) => (self.tell)(Told::Kept(format!(
                            "reload failed, the previous settings stay in force: {error}"
                        ))),
                    }
                }
                // A later change is under way.
                (Order::Adopt(..), Some(_)) => {}
            }
        }
        Ok(None)
    }

    /// Has the programs for other settings loaded while the guard goes on.
    fn prepare(&mut self, guard: &Guard, device: Box<Device>) -> anyhow::Result<()> {
        let (_, options) = device.options()?;
        let preparation = guard.prepare(options)?;
        self.changes += 1;
        let number = self.changes;
        let mut back = Orders { orders: self.own.orders.clone(), knock: self.own.knock.try_clone()? };
        let load = move || back.give(Order::Adopt(number, device, preparation.load().map(Box::new)));
        std::thread::Builder::new().name("ackgate-load".into()).spawn(load)?;
        Ok(())
    }

    /// Waits before the next attempt.
    fn pause(&mut self, text: &str) -> Next {
        let until = Instant::now() + PAUSE;
        while Instant::now() < until {
            (self.tell)(Told::Waiting(text.to_owned()));
            match wait::readable(&self.knocks, Duration::from_secs(1)).and_then(|knocked| match knocked {
                true => self.obey(None),
                false => Ok(None),
            }) {
                Ok(Some(next)) => return next,
                Ok(None) => {}
                Err(_) => return Next::Stop,
            }
        }
        Next::Again
    }

    fn answer_the_knock(&mut self) -> anyhow::Result<()> {
        let mut knocks = [0; 64];
        loop {
            match self.knocks.read(&mut knocks) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
