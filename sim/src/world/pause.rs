//! Ethernet flow control (IEEE 802.3x): a frame that does not fit waits at the far end of its link, with all behind it.

use std::collections::VecDeque;

use crate::engine::Ps;
use crate::net::{NIL, Packet};
use crate::observer::Observer;

use super::World;
use super::event::Event;

/// Channels that wait for room at a port, in order (Ethernet flow control).
#[derive(Clone, Default)]
pub(super) struct Line {
    channels: VecDeque<u32>,
    /// The first has an event at which it tries.
    called: bool,
}

impl<O: Observer> World<'_, O> {
    /// As [`forward`](Self::forward), where a port may not take the packet yet.
    #[inline(never)]
    pub(super) fn forward_if_admitted(&mut self, index: u32) {
        let handle = self.channels[index as usize].head();
        let Packet { next, hop, .. } = self.slab[handle];
        if self.admitted(index, handle, next) {
            self.follow(index, Event::Forward);
            self.inject_now(handle);
            self.call_next(self.paths[hop as usize].channel);
        }
    }

    /// IEEE 802.3x: whether a port takes the frame that a channel brings. If not, the channel is paused and waits for its
    /// turn.
    fn admitted(&mut self, index: u32, handle: u32, next: u32) -> bool {
        let Packet { hop, .. } = self.slab[handle];
        let port = self.paths[hop as usize].channel;
        let line = &mut self.waiters[port as usize];
        let first = line.channels.front() == Some(&index);
        if !first {
            if line.channels.is_empty()
                && self.channels[port as usize].full_until(self.now, self.slab[handle].frame()).is_none()
            {
                return true;
            }
            line.channels.push_back(index);
            self.channels[index as usize].pause(self.now);
            self.call_next(port);
            return false;
        }
        line.called = false;
        if self.channels[port as usize].full_until(self.now, self.slab[handle].frame()).is_some() {
            self.call_next(port);
            return false;
        }
        line.channels.pop_front();
        let channel = &mut self.channels[index as usize];
        channel.resume(self.now);
        if next != NIL {
            let behind = self.now + channel.transmission(self.slab[next].frame());
            self.slab[next].arrival = self.slab[next].arrival.max(behind);
        }
        // Others may wait for room in this channel, which had none while it was paused.
        self.call_next(index);
        true
    }

    /// The first of those that wait for a port tries when there is room for its frame; while the port is paused itself,
    /// that is not known.
    fn call_next(&mut self, port: u32) {
        let line = &mut self.waiters[port as usize];
        let Some(&waiter) = line.channels.front() else { return };
        if line.called {
            return;
        }
        let frame = self.slab[self.channels[waiter as usize].head()].frame();
        let at = self.channels[port as usize].full_until(self.now, frame).unwrap_or(self.now);
        if at < Ps::NEVER {
            line.called = true;
            self.events.push(at, Event::Forward.at(waiter));
        }
    }
}
