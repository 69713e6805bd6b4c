//! Long flows: each sender keeps one connection busy from its start to its stop.

use crate::engine::Ps;
use crate::net::Side;
use crate::observer::Observer;
use crate::scenario;
use crate::world::{Event, World, endpoint};

use super::Kind;

/// More than any run sends.
pub(super) const ENDLESS: u64 = 1 << 60;

/// Long flows of one group.
pub(super) struct Long {
    config: scenario::Long,
    active: Vec<bool>,
    ended: u32,
}

impl Long {
    pub(super) fn new(config: &scenario::Long, senders: u32) -> Self {
        Self { config: config.clone(), active: vec![false; senders as usize], ended: 0 }
    }

    /// Time between writes of an active sender that writes at a rate.
    pub(super) fn interval(&self, member: u32) -> Option<Ps> {
        if self.active[member as usize] { super::interval(self.config.rate) } else { None }
    }
}

impl<O: Observer> World<'_, O> {
    pub(super) fn start_long(&mut self, group: u32) {
        let group = &self.groups[group as usize];
        let Kind::Long(long) = &group.kind else { return };
        let time = |first: ackgate_control::units::Span, step: ackgate_control::units::Span, n: u32| {
            Ps::from_span(first + step * u64::from(n))
        };
        for n in 0..group.senders {
            let config = &long.config;
            self.events.push(time(config.start, config.stagger, n), Event::Begin.at(group.first + n));
            if let Some(stop) = config.stop {
                self.events.push(time(stop, config.stop_stagger, n), Event::End.at(group.first + n));
            }
        }
    }

    pub(super) fn begin_long(&mut self, group: u32, connection: u32) {
        let n = connection - self.groups[group as usize].first;
        let Kind::Long(long) = &mut self.groups[group as usize].kind else { return };
        long.active[n as usize] = true;
        let paced = long.config.rate.is_some();
        if self.is_main(group) && n == 0 {
            self.begin_window();
        }
        if paced {
            self.events.push(self.now, Event::Write.at(connection));
        } else {
            self.endpoints[endpoint(connection, Side::Sender)].write(ENDLESS, false);
        }
        self.open_from(connection, Side::Sender);
    }

    pub(super) fn end_long(&mut self, group: u32, connection: u32) {
        let group_of = &mut self.groups[group as usize];
        let n = connection - group_of.first;
        let senders = group_of.senders;
        let Kind::Long(long) = &mut group_of.kind else { return };
        long.active[n as usize] = false;
        long.ended += 1;
        let all = long.ended == senders;
        self.endpoints[endpoint(connection, Side::Sender)].sender.truncate();
        if all {
            self.group_done(group);
        }
    }
}
