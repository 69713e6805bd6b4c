//! A run: the network, the endpoints and the traffic, driven by one queue of events.
//!
//! What happens to a packet: an endpoint emits it ([`host`]); the host's shim may hold it ([`slot`]); it enters the first
//! channel of its path, which knows when it will be at the far end; there it enters the next one or reaches its host
//! ([`transit`]), whose endpoint may emit packets in turn.

mod connection;
mod event;
mod host;
mod offload;
mod pause;
mod slot;
mod transit;

use std::time::Instant;

use ackgate_control::m21::FlowCounter;
use ackgate_control::policy::Policy;
use ackgate_control::units::Span;

use crate::engine::{EventQueue, Ps, Purpose, Random};
use crate::measure::Tally;
use crate::net::{Channel, Hop, Plan, Route, Slab};
use crate::observer::Observer;
use crate::report::Report;
use crate::scenario::{Change, Scenario, Scheme};
use crate::settings;
use crate::shim::Shim;
use crate::tcp::{Endpoint, TcpConfig};
use crate::watch::Watch;
use crate::workload::Group;

use connection::Connection;
pub(crate) use connection::endpoint;
pub(crate) use event::Event;
use event::MAX_CONNECTIONS;
use offload::Offload;
use pause::Line;
use transit::{Detours, Pool};

/// Connections whose state, two kilobytes each, is near enough in a processor's caches: asking for it ahead costs more
/// than waiting for it.
const CACHED_CONNECTIONS: usize = 3_000;

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scenario asks for more connections than an event can name.
    #[error("{0} connections are too many: at most {max} fit one run", max = MAX_CONNECTIONS)]
    TooManyConnections(u64),
    /// The scenario gives a workload nobody to run it.
    #[error("`senders` is 0: at least one sender is needed")]
    NoSenders,
    /// A parameter of the scheme makes no sense.
    #[error("the scheme cannot run: {0}")]
    Scheme(&'static str),
    /// The observer ended the run: see [`Observer::stop`].
    #[error("stopped before its end")]
    Stopped,
    /// Packets were lost or made by the simulator itself: a fault of the program, never of the scenario.
    #[error("packets do not add up: {sent} sent, but {arrived} arrived, {dropped} dropped, {queued} in the network")]
    NotConserved {
        /// Handed to the network.
        sent: u64,
        /// Handed to TCP.
        arrived: u64,
        /// Dropped.
        dropped: u64,
        /// Still there.
        queued: u64,
    },
}

/// The streams of randomness that a run draws from.
pub(crate) struct Randoms {
    pub(crate) start: Random,
    pub(crate) workload: Random,
    processing: Random,
    timeout: Random,
    numbers: Random,
    queue: Random,
    path: Random,
    detour: Random,
}

/// Everything there is during a run.
pub(crate) struct World<'a, O> {
    pub(crate) now: Ps,
    pub(crate) events: EventQueue,
    slab: Slab,
    channels: Vec<Channel>,
    pools: Vec<Pool>,
    /// Channels out of switches, where their capacity may change.
    ports: Vec<u32>,
    paths: Vec<Hop>,
    routes: Vec<Route>,
    pub(crate) connections: Vec<Connection>,
    /// Both ends of connection `c`: `2c` the sender's, `2c + 1` the receiver's.
    pub(crate) endpoints: Vec<Endpoint>,
    /// By party.
    configs: Vec<TcpConfig>,
    /// By party, whether the scheme acts on its connections.
    guarded: Vec<bool>,
    /// The scheme at each receiving host, or at every host; empty when there is none.
    shims: Vec<Shim>,
    /// M21TCP-A's flow counter of each channel, where that is a switch port; empty without M21TCP-A.
    counters: Vec<Option<FlowCounter<u64>>>,
    /// The largest number that M21TCP-A's field carries.
    largest_number: u32,
    pub(crate) groups: Vec<Group>,
    pub(crate) random: Randoms,
    pub(crate) watch: Watch<'a, O>,
    pub(crate) tally: Tally,
    /// Ethernet flow control: the channels that wait for room at each port; empty when frames are dropped instead.
    waiters: Vec<Line>,
    host_delay: Ps,
    host_jitter: Ps,
    /// The same by host, where hosts differ; else empty.
    own_jitter: Vec<Ps>,
    detours: Detours,
    changes: Vec<Change>,
    /// The base round-trip time at present.
    rtt: Span,
    /// What limits hosts; `None` when nothing does.
    offload: Option<Box<Offload>>,
    /// There are more connections than caches hold near by: what will be needed is asked for ahead.
    look_ahead: bool,
    trailer: u8,
    receivers: u32,
    bottleneck: u32,
    last_hops: Vec<u32>,
    pub(crate) finished: bool,
}

/// Simulates a scenario.
///
/// # Errors
/// [`Error`] says why there is no result.
pub fn run<O: Observer>(scenario: &Scenario, observer: &mut O) -> Result<Report, Error> {
    let scenario = &scenario.resolved();
    simulate(scenario, observer, |receivers, hosts| Shim::all(scenario, receivers, hosts))
}

/// Simulates a scenario with a scheme of the caller's own at each receiver, instead of the scenario's: `scheme` makes
/// one for each, by its number.
///
/// # Errors
/// [`Error`] says why there is no result.
pub fn run_with<O: Observer>(
    scenario: &Scenario,
    observer: &mut O,
    scheme: impl FnMut(u32) -> Box<dyn Policy>,
) -> Result<Report, Error> {
    let scenario = &Scenario { scheme: Scheme::None, ..scenario.clone() }.resolved();
    simulate(scenario, observer, |receivers, _| Ok((0..receivers).map(scheme).map(Shim::own).collect()))
}

fn simulate<O: Observer>(
    scenario: &Scenario,
    observer: &mut O,
    shims: impl FnOnce(u32, u32) -> Result<Vec<Shim>, Error>,
) -> Result<Report, Error> {
    let asked: u64 = scenario.parties().iter().map(|party| u64::from(party.senders)).sum();
    if asked >= MAX_CONNECTIONS {
        return Err(Error::TooManyConnections(asked));
    }
    if scenario.senders == 0 {
        return Err(Error::NoSenders);
    }
    let mut world = World::new(scenario, observer, shims)?;
    let started = Instant::now();
    world.start_groups();
    world.run(Ps::from_span(scenario.time_limit))?;
    world.report(scenario, started)
}

impl<'a, O: Observer> World<'a, O> {
    fn new(
        scenario: &Scenario,
        observer: &'a mut O,
        shims: impl FnOnce(u32, u32) -> Result<Vec<Shim>, Error>,
    ) -> Result<Self, Error> {
        let plan = Plan::new(scenario);
        let stream = |purpose| Random::new(scenario.seed, purpose);
        let pool = |&bytes| Pool { bytes, alpha: scenario.switch.alpha, ports: Vec::new() };
        let mut pools: Vec<Pool> = plan.pools.iter().map(pool).collect();
        for (port, channel) in (0u32..).zip(&plan.channels) {
            if let Some(pool) = channel.pool() {
                pools[pool as usize].ports.push(port);
            }
        }
        let parties = scenario.parties();
        let configs = parties.iter().map(|party| TcpConfig::new(scenario, &party.tcp(scenario))).collect();
        let look_ahead = plan.routes.len() > CACHED_CONNECTIONS;
        let mut world = Self {
            now: Ps::ZERO,
            // About three events happen in a frame time: each finds a slot to itself, more often than not.
            events: EventQueue::new(Ps(plan.grain.0 / 4)),
            slab: Slab::new(),
            watch: Watch::new(observer, &plan.interfaces),
            pools,
            ports: transit::ports(&plan.interfaces),
            paths: plan.paths,
            connections: Vec::with_capacity(plan.routes.len()),
            endpoints: Vec::with_capacity(2 * plan.routes.len()),
            configs,
            guarded: parties.iter().map(crate::scenario::Party::guarded).collect(),
            shims: shims(plan.receivers, plan.hosts)?,
            counters: transit::counters(scenario, &plan.interfaces),
            largest_number: settings::m21_field(scenario).largest(),
            groups: Group::all(scenario),
            random: Randoms {
                start: stream(Purpose::Start),
                workload: stream(Purpose::Workload),
                processing: stream(Purpose::Processing),
                timeout: stream(Purpose::Timeout),
                numbers: stream(Purpose::SequenceNumbers),
                queue: stream(Purpose::Queue),
                path: stream(Purpose::Path),
                detour: stream(Purpose::Detour),
            },
            tally: Tally::new(scenario),
            waiters: if scenario.switch.pause { vec![Line::default(); plan.channels.len()] } else { Vec::new() },
            host_delay: Ps::from_span(scenario.host.delay),
            host_jitter: Ps::from_span(scenario.host.jitter),
            own_jitter: plan.jitter.iter().map(|jitter| Ps::from_span(*jitter)).collect(),
            detours: Detours::new(&scenario.network),
            changes: scenario.change.clone(),
            rtt: scenario.network.rtt,
            offload: Offload::new(scenario, plan.hosts).map(Box::new),
            look_ahead,
            trailer: if scenario.network.framing.in_buffer() >= 18 { 4 } else { 0 },
            receivers: plan.receivers,
            bottleneck: plan.bottleneck,
            last_hops: plan.last_hops,
            channels: plan.channels,
            routes: plan.routes,
            finished: false,
        };
        for (channel, counter) in world.channels.iter_mut().zip(&world.counters) {
            if counter.is_some() {
                channel.look_at_all();
            }
        }
        for group in 0..world.groups.len() {
            let Group { first, senders, .. } = world.groups[group];
            for route in first..first + senders {
                world.add_connection(route, group as u16);
            }
        }
        for (change, nth) in scenario.change.iter().zip(0u32..) {
            world.events.push(Ps::from_span(change.at), Event::Change.at(nth));
        }
        Ok(world)
    }

    /// The network becomes what the scenario says.
    fn change(&mut self, nth: u32) {
        let Change { rate, rtt, buffer, .. } = self.changes[nth as usize];
        if let Some(rate) = rate {
            // Host h has channels 2h and 2h + 1; receivers come first.
            self.channels[..2 * self.receivers as usize].iter_mut().for_each(|channel| channel.set_rate(rate));
        }
        if let Some(rtt) = rtt {
            self.channels.iter_mut().for_each(|channel| channel.scale_delay(rtt, self.rtt));
            self.rtt = rtt;
        }
        if let Some(buffer) = buffer {
            for port in &self.ports {
                self.channels[*port as usize].set_capacity(buffer);
            }
        }
    }

    /// The main workload begins.
    pub(crate) fn begin_window(&mut self) {
        match self.tally.warm_up() {
            Ps::ZERO => self.measure(),
            warm_up => self.events.push(self.now + warm_up, Event::Measure.at(0)),
        }
    }

    /// Figures that are per time are taken from now on.
    fn measure(&mut self) {
        self.tally.begin(self.now, &mut self.channels, self.bottleneck, &self.last_hops);
    }

    /// The main workload is done.
    pub(crate) fn end_window(&mut self) {
        self.tally.end(self.now, &mut self.channels, self.bottleneck, &self.last_hops);
    }

    /// Time between handshakes that are not to collide: four small frames on the bottleneck.
    pub(crate) fn handshake_spacing(&self) -> Ps {
        Ps(4 * self.channels[self.bottleneck as usize].transmission(84).0)
    }

    fn report(self, scenario: &Scenario, started: Instant) -> Result<Report, Error> {
        let complete = self.complete();
        let mut report = Report {
            complete,
            scheme: scenario.scheme.name().into(),
            senders: scenario.main_senders(),
            seed: scenario.seed,
            warnings: scenario.warnings(),
            ..Report::default()
        };
        let Self { mut tally, mut channels, slab, groups, endpoints, now, bottleneck, last_hops, .. } = self;
        for endpoint in &endpoints {
            tally.retire(endpoint);
        }
        for group in &groups {
            group.report(&mut report, &endpoints);
        }
        tally.end(now, &mut channels, bottleneck, &last_hops);
        tally.report(slab.len() as u64, &channels, &mut report);
        report.wall_s = started.elapsed().as_secs_f64();
        let packets = report.packets;
        if packets.sent != packets.arrived + packets.dropped + packets.queued {
            let crate::report::Packets { sent, arrived, dropped, queued } = packets;
            return Err(Error::NotConserved { sent, arrived, dropped, queued });
        }
        Ok(report)
    }
}
