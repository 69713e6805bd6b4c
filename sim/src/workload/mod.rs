//! Traffic: what the applications on top of TCP do. A group is the main workload or one background entry; each kind of
//! workload is a file, and reacts to bytes read, events of its own and the clock.

mod datagrams;
mod flows;
mod long;
mod onoff;
mod rounds;

use crate::engine::{Ps, Random};
use crate::net::Side;
use crate::observer::Observer;
use crate::report::Report;
use crate::scenario::{Scenario, Workload};
use crate::tcp::Endpoint;
use crate::world::{World, endpoint};

use datagrams::Datagrams;
use flows::Flows;
use long::Long;
use onoff::OnOff;
use rounds::Rounds;

/// Senders that do the same: the main workload's, or those of another.
pub(crate) struct Group {
    /// Its first connection and route; the others follow.
    pub(crate) first: u32,
    pub(crate) senders: u32,
    main: bool,
    /// Will be done some day.
    finite: bool,
    done: bool,
    kind: Kind,
}

/// What a group does, and how far it is.
enum Kind {
    Rounds(Rounds),
    Long(Long),
    Flows(Flows),
    OnOff(OnOff),
    Datagrams(Datagrams),
}

impl Group {
    /// The main workload's, then the others'.
    pub(crate) fn all(scenario: &Scenario) -> Vec<Self> {
        let mut random = Random::new(scenario.seed, crate::engine::Purpose::Workload);
        let mut first = 0;
        scenario
            .workloads()
            .into_iter()
            .enumerate()
            .map(|(n, (_, workload, senders))| {
                let (kind, finite) = match &*workload {
                    Workload::Rounds(config) => (Kind::Rounds(Rounds::new(config, senders, scenario.rounds)), true),
                    Workload::Long(config) => (Kind::Long(Long::new(config, senders)), config.stop.is_some()),
                    Workload::Epochs(config) => (Kind::Flows(Flows::epochs(config, senders, &mut random)), true),
                    Workload::OnOff(config) => (Kind::OnOff(OnOff::new(config)), config.stop.is_some()),
                    Workload::Datagrams(config) => (Kind::Datagrams(Datagrams::new(config)), config.stop.is_some()),
                    Workload::Trace(config) => (Kind::Flows(Flows::trace(config)), true),
                };
                let group = Self { first, senders, main: n == 0, finite, done: false, kind };
                first += senders;
                group
            })
            .collect()
    }

    /// Figures that the group itself keeps.
    pub(crate) fn report(&self, report: &mut Report, endpoints: &[Endpoint]) {
        if !self.main {
            return;
        }
        match &self.kind {
            Kind::Rounds(rounds) => report.fairness = rounds.fairness(),
            Kind::Flows(flows) => report.fairness = flows.fairness(),
            Kind::Long(_) | Kind::OnOff(_) => {
                let mut jain = crate::measure::Jain::default();
                for connection in self.first..self.first + self.senders {
                    let received = endpoints[endpoint(connection, Side::Receiver)].receiver.nxt.saturating_sub(1);
                    jain.add(received as f64);
                }
                report.fairness = jain.index();
            }
            // They are never the main workload.
            Kind::Datagrams(_) => {}
        }
    }
}

impl<O: Observer> World<'_, O> {
    pub(crate) fn start_groups(&mut self) {
        for group in 0..self.groups.len() as u32 {
            match self.groups[group as usize].kind {
                Kind::Rounds(_) => self.start_rounds(group),
                Kind::Long(_) => self.start_long(group),
                Kind::Flows(_) => self.start_flows(group),
                Kind::OnOff(_) => self.start_onoff(group),
                Kind::Datagrams(_) => self.start_datagrams(group),
            }
        }
    }

    fn group_of(&self, connection: u32) -> u32 {
        u32::from(self.connections[connection as usize].group)
    }

    /// A sender begins its part.
    pub(crate) fn begin(&mut self, connection: u32) {
        let group = self.group_of(connection);
        match self.groups[group as usize].kind {
            Kind::Rounds(_) => self.begin_answer(group, connection),
            Kind::Long(_) => self.begin_long(group, connection),
            Kind::OnOff(_) => self.begin_period(group, connection),
            Kind::Flows(_) | Kind::Datagrams(_) => {}
        }
    }

    /// A sender ends its part.
    pub(crate) fn end(&mut self, connection: u32) {
        let group = self.group_of(connection);
        match self.groups[group as usize].kind {
            Kind::Long(_) => self.end_long(group, connection),
            Kind::OnOff(_) => self.end_period(group, connection),
            Kind::Datagrams(_) => self.end_datagrams(group),
            Kind::Rounds(_) | Kind::Flows(_) => {}
        }
    }

    /// An application that writes at a rate writes its next piece.
    pub(crate) fn write_at_rate(&mut self, connection: u32) {
        let group = self.group_of(connection);
        let next = match &self.groups[group as usize].kind {
            Kind::Long(long) => long.interval(connection - self.groups[group as usize].first),
            Kind::OnOff(onoff) => onoff.interval(connection - self.groups[group as usize].first),
            Kind::Datagrams(_) => return self.send_datagrams(group, connection),
            Kind::Rounds(_) | Kind::Flows(_) => None,
        };
        let Some(interval) = next else { return };
        let e = endpoint(connection, Side::Sender);
        // An application whose socket buffer is full waits.
        if self.endpoints[e].sender.backlog() < BACKLOG {
            self.endpoints[e].write(PIECE, false);
            self.output(e);
        }
        self.events.push(self.now + interval, crate::world::Event::Write.at(connection));
    }

    pub(crate) fn open(&mut self, connection: u32) {
        let group = self.group_of(connection);
        if let Kind::Rounds(rounds) = &self.groups[group as usize].kind {
            let side = rounds.opener();
            self.open_from(connection, side);
        }
    }

    pub(crate) fn step_group(&mut self, group: u32) {
        match self.groups[group as usize].kind {
            Kind::Rounds(_) => self.begin_round(group),
            Kind::Flows(_) => self.next_flow(group),
            Kind::Long(_) | Kind::Datagrams(_) => {}
            Kind::OnOff(_) => self.group_done(group),
        }
    }

    /// An application read `bytes`.
    #[inline]
    pub(crate) fn read(&mut self, connection: u32, side: Side, group: u16, party: u16, bytes: u64) {
        let group = u32::from(group);
        if side == Side::Receiver {
            self.tally.parties[usize::from(party)].bytes += bytes;
        }
        let Group { first, kind, .. } = &mut self.groups[group as usize];
        match kind {
            Kind::Rounds(rounds) => {
                let complete = rounds.read(connection - *first, side, bytes);
                if complete > 0 {
                    self.member_read(group, connection, side, complete);
                }
            }
            Kind::Flows(_) => self.read_in_flow(group, connection, side, bytes),
            Kind::Long(_) | Kind::OnOff(_) | Kind::Datagrams(_) => {}
        }
    }

    pub(crate) fn established(&mut self, group: u16) {
        if let Kind::Rounds(_) = self.groups[usize::from(group)].kind {
            self.established_for_rounds(u32::from(group));
        }
    }

    /// A connection's retransmission timer fired.
    pub(crate) fn timed_out(&mut self, connection: u32, group: u16) {
        match &mut self.groups[usize::from(group)].kind {
            Kind::Rounds(rounds) => rounds.timed_out(),
            Kind::Flows(flows) => flows.timed_out(connection),
            Kind::Long(_) | Kind::OnOff(_) | Kind::Datagrams(_) => {}
        }
    }

    fn is_main(&self, group: u32) -> bool {
        self.groups[group as usize].main
    }

    /// A finite group has no more to do.
    fn group_done(&mut self, group: u32) {
        self.groups[group as usize].done = true;
        if self.is_main(group) {
            self.end_window();
        }
        self.finished = self.groups.iter().all(|group| group.done || !group.finite);
    }

    /// Whether every finite workload was done.
    pub(crate) fn complete(&self) -> bool {
        self.groups.iter().all(|group| group.done || !group.finite)
    }
}

/// Bytes that an application writes at once when it writes at a rate.
const PIECE: u64 = 1_460;
/// Bytes that a socket buffer holds of what such an application wrote.
const BACKLOG: u64 = 256 * 1_024;

/// Time between two writes at a rate.
fn interval(rate: Option<ackgate_control::units::Rate>) -> Option<Ps> {
    rate.map(|rate| Ps::from_span(rate.time_for(PIECE)).max(Ps(1)))
}
