//! Datagrams (UDP): each sender sends at a rate of its own, whatever becomes of them. No scheme holds them back.

use crate::engine::Ps;
use crate::net::{Packet, Side};
use crate::observer::Observer;
use crate::scenario;
use crate::world::{Event, World};

use super::Kind;

/// Datagrams of one group.
pub(super) struct Datagrams {
    config: scenario::Datagrams,
    stopped: u32,
}

impl Datagrams {
    pub(super) fn new(config: &scenario::Datagrams) -> Self {
        Self { config: config.clone(), stopped: 0 }
    }

    /// Time from one burst to the next.
    fn interval(&self) -> Ps {
        let scenario::Datagrams { rate, payload, burst, .. } = self.config;
        Ps::from_span(rate.time_for(payload * u64::from(burst))).max(Ps(1))
    }
}

impl<O: Observer> World<'_, O> {
    /// Senders begin at random times within an interval, so that they are out of step.
    pub(super) fn start_datagrams(&mut self, group: u32) {
        let members = &self.groups[group as usize];
        let Kind::Datagrams(datagrams) = &members.kind else { return };
        let (start, interval) = (Ps::from_span(datagrams.config.start), datagrams.interval());
        let stop = datagrams.config.stop.map(Ps::from_span);
        for connection in members.first..members.first + members.senders {
            let late = Ps(self.random.workload.up_to(interval.0));
            self.events.push(start + late, Event::Write.at(connection));
            if let Some(stop) = stop {
                self.events.push(stop.max(start + late), Event::End.at(connection));
            }
        }
    }

    /// A sender sends its next burst.
    pub(super) fn send_datagrams(&mut self, group: u32, connection: u32) {
        let Kind::Datagrams(datagrams) = &self.groups[group as usize].kind else { return };
        let (config, interval) = (&datagrams.config, datagrams.interval());
        let next = self.now + interval;
        if config.stop.is_some_and(|stop| self.now >= Ps::from_span(stop)) {
            return;
        }
        let (payload, burst) = (u16::try_from(config.payload).unwrap_or(u16::MAX), config.burst);
        for left in (0..burst).rev() {
            let bits = Packet::DATAGRAM | if left > 0 { Packet::MORE } else { 0 };
            self.send_aside(connection, Side::Sender, bits, payload);
        }
        self.events.push(next, Event::Write.at(connection));
    }

    pub(super) fn end_datagrams(&mut self, group: u32) {
        let members = &mut self.groups[group as usize];
        let senders = members.senders;
        let Kind::Datagrams(datagrams) = &mut members.kind else { return };
        datagrams.stopped += 1;
        if datagrams.stopped == senders {
            self.group_done(group);
        }
    }
}
