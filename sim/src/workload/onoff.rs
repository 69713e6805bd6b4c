//! On-off senders: each alternates between sending and silence, both exponentially distributed.

use crate::engine::Ps;
use crate::net::Side;
use crate::observer::Observer;
use crate::scenario;
use crate::tcp::State;
use crate::world::{Event, World, endpoint};

use super::Kind;
use super::long::ENDLESS;

/// On-off senders of one group.
pub(super) struct OnOff {
    config: scenario::OnOff,
    active: Vec<bool>,
    stopped: bool,
}

impl OnOff {
    pub(super) fn new(config: &scenario::OnOff) -> Self {
        Self { config: config.clone(), active: Vec::new(), stopped: false }
    }

    /// Time between writes of a sender that is on and writes at a rate.
    pub(super) fn interval(&self, member: u32) -> Option<Ps> {
        if self.active[member as usize] { super::interval(self.config.rate) } else { None }
    }
}

impl<O: Observer> World<'_, O> {
    /// Each begins with a silence, so that the senders are out of step from the start.
    pub(super) fn start_onoff(&mut self, group: u32) {
        let index = group;
        let group = &mut self.groups[group as usize];
        let Kind::OnOff(onoff) = &mut group.kind else { return };
        onoff.active = vec![false; group.senders as usize];
        let (off, stop) = (Ps::from_span(onoff.config.off), onoff.config.stop);
        for n in 0..group.senders {
            self.events.push(self.random.workload.exponential(off), Event::Begin.at(group.first + n));
        }
        if let Some(stop) = stop {
            self.events.push(Ps::from_span(stop), Event::Group.at(index));
        }
        if self.is_main(index) {
            self.begin_window();
        }
    }

    pub(super) fn begin_period(&mut self, group: u32, connection: u32) {
        let n = connection - self.groups[group as usize].first;
        let done = self.groups[group as usize].done;
        let Kind::OnOff(onoff) = &mut self.groups[group as usize].kind else { return };
        onoff.stopped |= done;
        if onoff.stopped {
            return;
        }
        onoff.active[n as usize] = true;
        let (on, paced) = (Ps::from_span(onoff.config.on), onoff.config.rate.is_some());
        let until = self.now + self.random.workload.exponential(on);
        self.events.push(until, Event::End.at(connection));
        let e = endpoint(connection, Side::Sender);
        if paced {
            self.events.push(self.now, Event::Write.at(connection));
        } else {
            self.endpoints[e].write(ENDLESS, false);
        }
        if self.endpoints[e].state == State::Closed { self.open_from(connection, Side::Sender) } else { self.output(e) }
    }

    pub(super) fn end_period(&mut self, group: u32, connection: u32) {
        let n = connection - self.groups[group as usize].first;
        let Kind::OnOff(onoff) = &mut self.groups[group as usize].kind else { return };
        onoff.active[n as usize] = false;
        let off = Ps::from_span(onoff.config.off);
        self.endpoints[endpoint(connection, Side::Sender)].sender.truncate();
        let next = self.now + self.random.workload.exponential(off);
        self.events.push(next, Event::Begin.at(connection));
    }
}
