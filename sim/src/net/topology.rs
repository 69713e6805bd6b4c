//! How channels are joined: from the scenario's topology to channels, and for each sender the path of its data and the
//! path of its ACKs.
//!
//! Hosts hang on switches, switches on switches. A link is two channels, `2k` and `2k + 1`, one for each direction; the
//! near end of a channel is the interface of the same number, so that the far end of channel `c` is interface `c ^ 1`.

use std::collections::HashMap;

use ackgate_control::units::{Rate, Span};

use super::channel::{Channel, ChannelConfig};
use super::discipline::Queueing;
use super::packet::{NIL, Side};
use crate::engine::{Chance, Purpose, Random};
use crate::observer::{Interface, InterfaceKind};
use crate::scenario::{Destination, Framing, Group, Scenario, Topology};

/// Where a sender's packets go and where those of its receiver go: positions in [`Plan::paths`].
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// First path of each side's packets, by [`Side`](super::Side).
    path: [u32; 2],
    /// Paths of equal cost between the two, and by how much their positions are apart.
    ways: u32,
    stride: u32,
    /// Host of each side, by [`Side`](super::Side).
    pub host: [u32; 2],
    /// Which sender of its host this is: tells ports apart.
    pub nth: u32,
    /// Which of [`Scenario::parties`] it belongs to.
    pub party: u16,
}

impl Route {
    /// The path of each side's packets on a new connection: each direction is hashed by itself, as switches do that look
    /// at addresses and ports (ECMP).
    pub fn choose(&self, random: &mut Random) -> [u32; 2] {
        self.path.map(|first| {
            let way = u32::try_from(random.up_to(u64::from(self.ways - 1))).unwrap_or(0);
            first + way * self.stride
        })
    }

    /// Every path from a side.
    fn paths(&self, side: Side) -> impl Iterator<Item = u32> {
        let first = self.path[side as usize];
        (0..self.ways).map(move |way| first + way * self.stride)
    }
}

/// One step of a path.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// The channel that the packet enters, [`NIL`] behind the last one.
    pub channel: u32,
    /// What is at its far end.
    pub then: Then,
}

/// Where a channel brings a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// To a switch, whose port other channels feed too: the packet's turn is known when it is there.
    Switch,
    /// To a switch port that only this channel feeds ([`Channel::eager`]).
    Eager,
    /// To its host.
    Host,
}

/// A network, laid out.
pub struct Plan {
    /// All channels.
    pub channels: Vec<Channel>,
    /// Memory of each shared pool, by switch; empty when ports do not share.
    pub pools: Vec<u64>,
    /// Steps of all paths, each path ended by a step into [`NIL`].
    pub paths: Vec<Hop>,
    /// Routes of all senders, in the order of [`Scenario::parties`].
    pub routes: Vec<Route>,
    /// Hosts that receive: the first so many.
    pub receivers: u32,
    /// Hosts in all.
    pub hosts: u32,
    /// The port that the report describes.
    pub bottleneck: u32,
    /// The ports towards the main senders' receivers.
    pub last_hops: Vec<u32>,
    /// Full frame time on the fastest link: the grain of the event queue.
    pub grain: crate::engine::Ps,
    /// Interfaces, for observers.
    pub interfaces: Vec<Interface>,
    /// By host, the upper end of the random delay of what arrives there; empty when it is everywhere the same.
    pub jitter: Vec<Span>,
}

/// Switches and what joins them.
struct Switches {
    names: Vec<String>,
    /// For trees: the switch above.
    uplink: Vec<Option<u32>>,
    /// Links between switches: below, above, rate.
    links: Vec<(u32, u32, Rate)>,
    /// Spines as switch numbers; empty but for a leaf-spine.
    spines: std::ops::Range<u32>,
}

struct Host {
    name: String,
    switch: u32,
    rate: Rate,
    /// Base round-trip time to the receiver, where it has its own.
    rtt: Option<Span>,
    jitter: Span,
}

/// A sender's host, its receiver's, and which of [`Scenario::parties`] it belongs to.
struct Pair {
    from: u32,
    to: u32,
    party: u16,
}

impl Plan {
    /// Lays out a scenario's network.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let network = &scenario.network;
        let switches = Switches::new(scenario);
        let (hosts, pairs, receivers) = place_hosts(scenario, &switches);

        // Host links first: host h has channels 2h (up) and 2h + 1 (down).
        let mut ends = Vec::new();
        for host in &hosts {
            ends.push((End::Host(host), End::Switch(host.switch), host.rate));
        }
        for &(below, above, rate) in &switches.links {
            ends.push((End::Switch(below), End::Switch(above), rate));
        }
        let mut between = HashMap::new();
        for (link, (a, b, _)) in (0u32..).zip(&ends) {
            if let (End::Switch(a), End::Switch(b)) = (a, b) {
                between.insert((*a, *b), 2 * link);
                between.insert((*b, *a), 2 * link + 1);
            }
        }

        let mut paths = Vec::new();
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let mut routes = Vec::with_capacity(pairs.len());
        let mut on_host = vec![0; hosts.len()];
        for &Pair { from, to, party } in &pairs {
            let (a, b) = (hosts[from as usize].switch, hosts[to as usize].switch);
            let ways = switches.ways(a, b);
            let mut path = |from: u32, to: u32| {
                *known.entry((from, to)).or_insert_with(|| {
                    let start = u32::try_from(paths.len()).expect("fewer than 2^32 hops");
                    let (a, b) = (hosts[from as usize].switch, hosts[to as usize].switch);
                    for way in 0..ways {
                        paths.push(2 * from);
                        let way = switches.way(a, b, way);
                        paths.extend(way.windows(2).map(|hop| between[&(hop[0], hop[1])]));
                        paths.push(2 * to + 1);
                        paths.push(NIL);
                    }
                    start
                })
            };
            let nth = on_host[from as usize];
            on_host[from as usize] += 1;
            let path = [path(from, to), path(to, from)];
            let stride = hops(&paths, path[0]).len() as u32 + 1;
            routes.push(Route { path, ways, stride, host: [from, to], nth, party });
        }

        let longest = routes.iter().map(|route| hops(&paths, route.path[0]).len()).max().unwrap_or(2);
        let delay = Span(network.rtt.0 / (2 * longest as u64));
        let framing = network.framing;
        let min_frame = if matches!(framing, Framing::Ethernet | Framing::EthernetNoGap) { 64 } else { 0 };
        let full_frame = scenario.tcp.mss + 40 + framing.in_buffer();
        let mut channels = Vec::with_capacity(2 * ends.len());
        let mut interfaces = Vec::with_capacity(2 * ends.len());
        let mut grain = crate::engine::Ps::NEVER;
        let own_delay = own_delays(&hosts, &routes, &paths, delay);
        for (link, (a, b, rate)) in ends.iter().enumerate() {
            let delay = own_delay.get(link).copied().flatten().unwrap_or(delay);
            for (near, far) in [(a, b), (b, a)] {
                let (capacity, count_transmitting, pool) = match near {
                    End::Host(_) => (scenario.host.nic_queue, false, None),
                    End::Switch(s) => {
                        (scenario.switch.buffer, scenario.switch.count_transmitting, scenario.switch.pool.map(|_| *s))
                    }
                };
                let mut channel = Channel::new(ChannelConfig {
                    rate: *rate,
                    delay,
                    gap: u8::try_from(framing.gap()).unwrap_or(u8::MAX),
                    min_frame,
                    capacity,
                    count_transmitting,
                    pool,
                });
                let frame_time = channel.transmission(full_frame);
                grain = grain.min(frame_time);
                if matches!(near, End::Switch(_)) {
                    channel.set_discipline(
                        Queueing::new(&scenario.switch.discipline, frame_time),
                        Chance::new(scenario.switch.loss),
                    );
                }
                channels.push(channel);
                interfaces.push(Interface {
                    name: near.name(far, &switches.names),
                    kind: if matches!(near, End::Host(_)) { InterfaceKind::Host } else { InterfaceKind::Port },
                    rate: rate.0,
                    bottleneck: false,
                });
            }
        }
        let pools = scenario.switch.pool.map_or_else(Vec::new, |pool| vec![pool; switches.names.len()]);
        let main = &routes[..scenario.main_senders() as usize];
        let bottleneck = bottleneck(main, &paths, &interfaces);
        interfaces[bottleneck as usize].bottleneck = true;
        if !scenario.switch.pause {
            mark_eager(&mut channels, &routes, &paths, bottleneck);
        }
        let paths = steps(&paths, &channels);
        let mut last_hops: Vec<u32> = main.iter().map(|route| 2 * route.host[1] + 1).collect();
        last_hops.sort_unstable();
        last_hops.dedup();
        for (n, channel) in (0u32..).zip(&mut channels) {
            if n != bottleneck && last_hops.binary_search(&n).is_err() && !scenario.switch.pause {
                channel.is_not_measured();
            }
        }
        let jitter = if hosts.iter().any(|host| host.jitter != scenario.host.jitter) {
            hosts.iter().map(|host| host.jitter).collect()
        } else {
            Vec::new()
        };
        let hosts = u32::try_from(hosts.len()).expect("fewer than 2^32 hosts");
        Self { channels, pools, paths, routes, receivers, hosts, bottleneck, last_hops, grain, interfaces, jitter }
    }
}

/// One end of a link.
enum End<'a> {
    Host(&'a Host),
    Switch(u32),
}

impl End<'_> {
    fn name(&self, far: &Self, switches: &[String]) -> String {
        match (self, far) {
            (Self::Host(host), _) => host.name.clone(),
            (Self::Switch(s), Self::Host(host)) => format!("{}:{}", switches[*s as usize], host.name),
            (Self::Switch(s), Self::Switch(t)) => format!("{}:{}", switches[*s as usize], switches[*t as usize]),
        }
    }
}

impl Switches {
    fn new(scenario: &Scenario) -> Self {
        let network = &scenario.network;
        let core_rate = network.core_rate.unwrap_or(network.rate);
        let numbered = |count: u32| (0..count).map(|n| format!("switch{n}")).collect::<Vec<_>>();
        match &network.topology {
            Topology::Star => Self { names: numbered(1), uplink: vec![None], links: vec![], spines: 0..0 },
            Topology::Core(_) | Topology::Dumbbell(_) => {
                Self { names: numbered(2), uplink: vec![Some(1), None], links: vec![(0, 1, core_rate)], spines: 0..0 }
            }
            Topology::LeafSpine(shape) => {
                let leaves = (0..shape.leaves).map(|n| format!("leaf{n}"));
                let names = leaves.chain((0..shape.spines).map(|n| format!("spine{n}"))).collect::<Vec<_>>();
                let links = (0..shape.leaves)
                    .flat_map(|leaf| (0..shape.spines).map(move |spine| (leaf, shape.leaves + spine, core_rate)))
                    .collect();
                let spines = shape.leaves..shape.leaves + shape.spines;
                Self { uplink: vec![None; names.len()], names, links, spines }
            }
            Topology::Tree(tree) => {
                let number = |name: &String| {
                    tree.switches.iter().position(|s| s.name == *name).and_then(|n| u32::try_from(n).ok())
                };
                let uplink: Vec<_> = tree.switches.iter().map(|s| s.uplink.as_ref().and_then(number)).collect();
                let links = (0u32..)
                    .zip(&tree.switches)
                    .filter_map(|(n, s)| Some((n, uplink[n as usize]?, s.rate.unwrap_or(core_rate))))
                    .collect();
                Self { names: tree.switches.iter().map(|s| s.name.clone()).collect(), uplink, links, spines: 0..0 }
            }
        }
    }

    /// How many ways of equal cost there are from `a` to `b`.
    fn ways(&self, a: u32, b: u32) -> u32 {
        if a == b { 1 } else { (self.spines.end - self.spines.start).max(1) }
    }

    /// The switches on one of the ways from `a` to `b`, both included.
    fn way(&self, a: u32, b: u32, way: u32) -> Vec<u32> {
        if a == b {
            return vec![a];
        }
        if !self.spines.is_empty() {
            return vec![a, self.spines.start + way, b];
        }
        let to_root = |from: u32| {
            let mut way = vec![from];
            let mut at = from;
            // A tree as validated ends at its root; the bound holds whatever the input.
            while let Some(up) = self.uplink[at as usize] {
                if way.len() > self.names.len() {
                    break;
                }
                way.push(up);
                at = up;
            }
            way
        };
        let (mut up, mut down) = (to_root(a), to_root(b));
        // Cut what both share above their lowest common switch.
        while up.len() > 1 && down.len() > 1 && up[up.len() - 2] == down[down.len() - 2] {
            up.pop();
            down.pop();
        }
        down.pop();
        up.extend(down.into_iter().rev());
        up
    }
}

/// Hosts, sender-receiver pairs of all senders, and how many hosts receive.
fn place_hosts(scenario: &Scenario, switches: &Switches) -> (Vec<Host>, Vec<Pair>, u32) {
    let network = &scenario.network;
    let main_senders = scenario.main_senders().max(1);
    let receivers = match &network.topology {
        Topology::Dumbbell(shape) => shape.receivers.unwrap_or(main_senders).clamp(1, main_senders),
        _ => 1,
    };
    let find = |name: &String| switches.names.iter().position(|n| n == name).and_then(|n| u32::try_from(n).ok());
    let receiver_switch = match &network.topology {
        Topology::Star | Topology::LeafSpine(_) => 0,
        Topology::Core(_) | Topology::Dumbbell(_) => 1,
        Topology::Tree(tree) => find(&tree.receiver_at).unwrap_or(0),
    };
    let sender_switch = |n: u32| match &network.topology {
        Topology::Star | Topology::Core(_) | Topology::Dumbbell(_) => 0,
        Topology::LeafSpine(shape) => 1 + n % (shape.leaves - 1).max(1),
        Topology::Tree(tree) => {
            tree.senders_at.get(n as usize % tree.senders_at.len().max(1)).and_then(find).unwrap_or(0)
        }
    };
    let jitter = scenario.host.jitter;
    let mut hosts = Vec::new();
    for n in 0..receivers {
        let name = if receivers == 1 { "receiver".into() } else { format!("receiver{n}") };
        hosts.push(Host { name, switch: receiver_switch, rate: network.rate, rtt: None, jitter });
    }
    let parties = scenario.parties();
    let mut beside = Vec::with_capacity(parties.len());
    for party in &parties {
        let goes_beside = party.group.is_some_and(|group| group.to == Destination::Beside);
        beside.push(goes_beside.then(|| {
            let number = party.key.strip_prefix("background.");
            let name = number.map_or_else(|| format!("{}.beside", party.name), |n| format!("beside{n}"));
            hosts.push(Host { name, switch: receiver_switch, rate: network.rate, rtt: None, jitter });
            u32::try_from(hosts.len() - 1).expect("fewer than 2^32 hosts")
        }));
    }
    let receiving = u32::try_from(hosts.len()).expect("fewer than 2^32 hosts");
    let spread = scenario.host.rtt_spread;
    let mut random = Random::new(scenario.seed, Purpose::Distance);
    let mut own_rtt = |given: Option<Span>| {
        if spread == Span::ZERO { given } else { Some(given.unwrap_or(network.rtt) + Span(random.up_to(spread.0))) }
    };
    let mut pairs = Vec::new();
    let mut main = 0u32..;
    for ((number, party), beside) in (0u16..).zip(&parties).zip(beside) {
        let first = u32::try_from(hosts.len()).expect("fewer than 2^32 hosts");
        let name = party.group.map_or("sender", |_| &party.name);
        let dot = if party.group.is_some() { "." } else { "" };
        let own = match party.group {
            None => network.sender_hosts.unwrap_or(party.senders).clamp(1, party.senders.max(1)),
            Some(_) => party.senders,
        };
        for n in 0..own {
            hosts.push(Host {
                name: format!("{name}{dot}{n}"),
                switch: sender_switch(n),
                rate: party.rate(network),
                rtt: own_rtt(party.group.and_then(|group: &Group| group.rtt)),
                jitter: party.jitter(&scenario.host),
            });
        }
        for n in 0..party.senders {
            let to = match (&party.workload, beside) {
                (None, _) => main.next().unwrap_or(0) % receivers,
                (Some(_), beside) => beside.unwrap_or(0),
            };
            pairs.push(Pair { from: first + n % own, to, party: number });
        }
    }
    (hosts, pairs, receiving)
}

/// By host, the delay of its link where a round-trip time of its own asks for one: what the other links leave of it.
fn own_delays(hosts: &[Host], routes: &[Route], paths: &[u32], delay: Span) -> Vec<Option<Span>> {
    let mut delays = vec![None; hosts.len()];
    for route in routes {
        let from = route.host[Side::Sender as usize] as usize;
        if let Some(rtt) = hosts[from].rtt {
            let others = hops(paths, route.path[Side::Sender as usize]).len() as u64 - 1;
            delays[from] = Some(Span((rtt.0 / 2).saturating_sub(delay.0 * others)));
        }
    }
    delays
}

/// The channels of a path.
fn hops(paths: &[u32], start: u32) -> &[u32] {
    let path = &paths[start as usize..];
    &path[..path.iter().position(|&channel| channel == NIL).unwrap_or(path.len())]
}

/// The steps along paths, at the positions that the channels have in `paths`.
fn steps(paths: &[u32], channels: &[Channel]) -> Vec<Hop> {
    let then = |next: Option<&u32>| match next {
        None | Some(&NIL) => Then::Host,
        Some(&next) if channels[next as usize].eager => Then::Eager,
        Some(_) => Then::Switch,
    };
    paths.iter().enumerate().map(|(at, &channel)| Hop { channel, then: then(paths.get(at + 1)) }).collect()
}

/// The switch port where most senders meet, for its rate; of equals the first on the way.
fn bottleneck(main: &[Route], paths: &[u32], interfaces: &[Interface]) -> u32 {
    let mut through = vec![0u64; interfaces.len()];
    for route in main {
        for start in route.paths(Side::Sender) {
            for &channel in hops(paths, start) {
                // A connection's share of each way, to a millionth.
                through[channel as usize] += 1_000_000 / u64::from(route.ways);
            }
        }
    }
    let Some(first) = main.first() else { return 0 };
    // The sender's own interface comes first; it is no switch's.
    let ports = &hops(paths, first.path[0])[1..];
    let mut best = ports[0];
    for &channel in ports {
        let load = |c: u32| u128::from(through[c as usize]);
        let rate = |c: u32| u128::from(interfaces[c as usize].rate);
        if load(channel) * rate(best) > load(best) * rate(channel) {
            best = channel;
        }
    }
    best
}

/// A queue that only one other channel feeds sees what that channel sends, in the same order.
fn mark_eager(channels: &mut [Channel], routes: &[Route], paths: &[u32], bottleneck: u32) {
    let mut feeder = vec![None; channels.len()];
    let mut several = vec![false; channels.len()];
    for route in routes {
        for start in route.paths(Side::Sender).chain(route.paths(Side::Receiver)) {
            for pair in hops(paths, start).windows(2) {
                let to = pair[1] as usize;
                several[to] |= feeder[to].is_some_and(|known| known != pair[0]);
                feeder[to] = Some(pair[0]);
            }
        }
    }
    for (n, channel) in channels.iter_mut().enumerate() {
        channel.eager = feeder[n].is_some() && !several[n] && channel.pool().is_none() && n != bottleneck as usize;
    }
}
