//! The event loop: what an event is about, and whose turn that makes it.

use crate::engine::{Ps, prefetch, prefetch_all};
use crate::observer::Observer;

use super::connection::Connection;
use super::host::{ENDPOINT_LINES, first_channel};
use super::{Error, World};

/// What an event is about: 4 bits of kind, 28 bits of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The oldest packet on a channel is at a switch.
    Forward = 0,
    /// The oldest packet on a channel is at its host.
    Deliver = 1,
    /// An endpoint's timer.
    Timer = 2,
    /// A shim's timer, by host.
    Shim = 3,
    /// A connection's sender begins its part: a round's answer, a period of sending.
    Begin = 4,
    /// A connection's sender ends a period of sending.
    End = 5,
    /// A connection's application writes at its rate.
    Write = 6,
    /// A connection is opened.
    Open = 7,
    /// A group's next step: a round after a pause, the next flow.
    Group = 8,
    /// The warm-up is over.
    Measure = 9,
    /// An endpoint's host has room for more of it (TCP small queues).
    Wake = 10,
    /// A packet that others have overtaken is at its host.
    Late = 11,
    /// The network changes.
    Change = 12,
}

const INDEX_BITS: u32 = 28;
/// Events between two questions whether the run is to end: some milliseconds of work.
const STOP_EVERY: u64 = 1 << 16;
/// Connections that events can name: two endpoints each.
pub(super) const MAX_CONNECTIONS: u64 = 1 << (INDEX_BITS - 3);

impl Event {
    pub(crate) const fn at(self, index: u32) -> u32 {
        (self as u32) << INDEX_BITS | index
    }
}

impl<O: Observer> World<'_, O> {
    /// Handles events until all is done, or up to a time.
    ///
    /// # Errors
    /// When the observer ends the run.
    pub(super) fn run(&mut self, limit: Ps) -> Result<(), Error> {
        while let Some((time, event)) = self.events.pop() {
            if time > limit {
                self.now = limit;
                break;
            }
            self.now = time;
            self.tally.events += 1;
            if O::STOPS && self.tally.events.is_multiple_of(STOP_EVERY) && self.watch.stop() {
                return Err(Error::Stopped);
            }
            if O::ENABLED {
                self.watch.catch_up(time);
            }
            if self.look_ahead {
                self.look_ahead();
            }
            let index = event & ((1 << INDEX_BITS) - 1);
            match event >> INDEX_BITS {
                e if e == Event::Forward as u32 => self.forward(index),
                e if e == Event::Deliver as u32 => self.arrive(index),
                e if e == Event::Timer as u32 => self.timer(index),
                e => self.handle_rare(e, index),
            }
            if self.finished {
                break;
            }
        }
        if O::ENABLED {
            self.watch.catch_up(self.now);
        }
        Ok(())
    }

    /// An event that packets and their timers have nothing to do with.
    #[inline(never)]
    fn handle_rare(&mut self, kind: u32, index: u32) {
        match kind {
            e if e == Event::Shim as u32 => self.shim_timer(index),
            e if e == Event::Begin as u32 => self.begin(index),
            e if e == Event::End as u32 => self.end(index),
            e if e == Event::Write as u32 => self.write_at_rate(index),
            e if e == Event::Open as u32 => self.open(index),
            e if e == Event::Measure as u32 => self.measure(),
            e if e == Event::Wake as u32 => self.wake(index),
            e if e == Event::Late as u32 => self.deliver(index),
            e if e == Event::Change as u32 => self.change(index),
            _ => self.step_group(index),
        }
    }

    /// Has what the next events need brought near: first their channels, endpoints and connections, then, one event
    /// later, the packets on these channels, and the path of what a timer may have sent.
    #[inline(never)]
    fn look_ahead(&self) {
        let mut upcoming = self.events.upcoming();
        let (next, afterwards) = (upcoming.next(), upcoming.next());
        if let Some(event) = afterwards {
            let index = (event & ((1 << INDEX_BITS) - 1)) as usize;
            match event >> INDEX_BITS {
                e if e <= Event::Deliver as u32 => prefetch(&self.channels, index),
                e if e == Event::Timer as u32 => {
                    prefetch_all(&self.endpoints, index, ENDPOINT_LINES + 1);
                    prefetch(&self.endpoints, index ^ 1);
                    prefetch(&self.connections, index / 2);
                }
                _ => {}
            }
        }
        if let Some(event) = next {
            let index = (event & ((1 << INDEX_BITS) - 1)) as usize;
            match event >> INDEX_BITS {
                e if e <= Event::Deliver as u32 => self.slab.prefetch(self.channels[index].head()),
                e if e == Event::Timer as u32 => {
                    let Connection { host, path, .. } = &self.connections[index / 2];
                    prefetch(&self.channels, first_channel(host[index & 1]));
                    prefetch(&self.paths, path[index & 1] as usize);
                }
                _ => {}
            }
        }
    }
}
