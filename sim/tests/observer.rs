//! Looking changes nothing, what is shown adds up to what is reported, and packets are where they should be.

use std::collections::{HashMap, HashSet};

use ackgate_control::segment::Flags;
use ackgate_control::units::{Rate, Span, Time};
use ackgate_sim::observer::{DropReason, Interface, InterfaceKind, Nobody, Observer, Packet, Point, Protocol, Way};
use ackgate_sim::scenario::{
    Capacity, Connections, Core, Direction, Dumbbell, LeafSpine, Rounds, Scenario, Scheme, Topology, Workload,
};

/// Counts what it is shown.
#[derive(Default)]
struct Counting {
    interfaces: Vec<Interface>,
    now: Time,
    drops: u64,
    timeouts: u64,
    rounds: Vec<Span>,
    largest_queue: u64,
    /// Data packets that reached their host.
    data: u64,
    queues: Vec<(u64, u32)>,
}

impl Counting {
    fn at(&mut self, now: Time) {
        assert!(now >= self.now, "{now:?} is shown after {:?}", self.now);
        self.now = now;
    }
}

impl Observer for Counting {
    fn begin(&mut self, interfaces: &[Interface]) {
        self.interfaces = interfaces.to_vec();
        self.queues = vec![(0, 0); interfaces.len()];
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        self.at(now);
        let host = self.interfaces[at.0 as usize].kind == InterfaceKind::Host;
        self.data += u64::from(host && way == Way::In && packet.segment.payload > 1_000);
    }

    fn dropped(&mut self, now: Time, _: Point, _: &Packet, reason: DropReason) {
        self.at(now);
        self.drops += u64::from(reason != DropReason::Scheme);
    }

    fn queue(&mut self, now: Time, at: Point, bytes: u64, packets: u32) {
        self.at(now);
        let before = std::mem::replace(&mut self.queues[at.0 as usize], (bytes, packets));
        assert_eq!(before.1.abs_diff(packets), 1, "one frame joins or leaves at a time");
        if self.interfaces[at.0 as usize].bottleneck {
            self.largest_queue = self.largest_queue.max(bytes);
        }
    }

    fn timeout(&mut self, now: Time, _: u32) {
        self.at(now);
        self.timeouts += 1;
    }

    fn round_ends(&mut self, now: Time, _: u32, took: Span) {
        self.at(now);
        self.rounds.push(took);
    }
}

#[test]
fn observers_see_all_and_change_nothing() {
    let mut scenarios = Vec::new();
    for topology in [Topology::Star, Topology::Core(Core::default()), Topology::LeafSpine(LeafSpine::default())] {
        for scheme in [Scheme::None, Scheme::Pac] {
            for connections in [Connections::Persistent, Connections::Fresh] {
                for direction in [Direction::Push, Direction::Pull] {
                    let rounds = Rounds { connections, direction, volume: 29_200, ..Rounds::default() };
                    let mut scenario = Scenario {
                        senders: 40,
                        rounds: 3,
                        scheme,
                        workload: Workload::Rounds(rounds),
                        ..Scenario::default()
                    };
                    scenario.network.topology = topology.clone();
                    scenario.host.jitter = Span::micros(3);
                    scenario.switch.count_transmitting = scheme == Scheme::Pac;
                    scenarios.push(scenario);
                }
            }
        }
    }
    for scenario in scenarios {
        let mut blind = ackgate_sim::run(&scenario, &mut Nobody).expect("a valid scenario has a result");
        let mut counting = Counting::default();
        let mut seen = ackgate_sim::run(&scenario, &mut counting).expect("a valid scenario has a result");
        (blind.wall_s, seen.wall_s) = (0.0, 0.0);
        assert_eq!(blind, seen);
        assert_eq!(counting.drops, seen.drops, "{scenario:?}");
        assert_eq!(counting.timeouts, seen.rto_timeouts);
        assert_eq!(counting.rounds.len(), seen.rounds as usize);
        assert_eq!(counting.data, seen.packets_delivered);
        assert_eq!(counting.largest_queue, seen.queue_bytes.max);
    }
}

/// Notes over which spines the packets of each connection go, by direction; a connection of each round is one of its own.
#[derive(Default)]
struct Spines {
    names: Vec<String>,
    round: u32,
    seen: HashMap<(u32, u32, bool), HashSet<String>>,
}

impl Observer for Spines {
    fn begin(&mut self, interfaces: &[Interface]) {
        self.names = interfaces.iter().map(|interface| interface.name.clone()).collect();
    }

    fn packet(&mut self, _: Time, at: Point, way: Way, packet: &Packet) {
        let name = &self.names[at.0 as usize];
        if way == Way::Out
            && let Some((_, spine)) = name.split_once(":spine")
        {
            let forth = packet.from.host > packet.to.host;
            self.seen.entry((packet.connection, self.round, forth)).or_default().insert(spine.to_owned());
        }
    }

    fn round_begins(&mut self, _: Time, round: u32) {
        self.round = round;
    }
}

#[test]
fn each_new_connection_is_hashed_over_the_spines_and_keeps_its_way() {
    let mut scenario = Scenario { senders: 6, rounds: 12, ..Scenario::default() };
    scenario.network.topology = Topology::LeafSpine(LeafSpine { spines: 4, ..LeafSpine::default() });
    // Rounds far apart, so that no packet of one is about in the next.
    let pause = Span::millis(500);
    let rounds = Rounds { connections: Connections::Fresh, volume: 10_000, pause, ..Rounds::default() };
    scenario.workload = Workload::Rounds(rounds);
    let mut spines = Spines::default();
    ackgate_sim::run(&scenario, &mut spines).expect("a valid scenario has a result");
    assert_eq!(spines.seen.len(), 6 * 12 * 2);
    assert!(spines.seen.values().all(|ways| ways.len() == 1), "one way for each connection: {:?}", spines.seen);
    for connection in 0..6 {
        let over = |forth| {
            let ways = (1..=12).flat_map(|round| &spines.seen[&(connection, round, forth)]);
            ways.collect::<HashSet<_>>().len()
        };
        assert!(over(true) > 1 && over(false) > 1, "connection {connection} always takes the same way");
    }
    let both = |round| spines.seen[&(0, round, true)] == spines.seen[&(0, round, false)];
    assert!((1..=12).any(|round| !both(round)), "both directions always share a spine");
}

/// Ports in the identification of probes, and ports of the SYNs that follow them.
#[derive(Default)]
struct Probes {
    named: HashSet<(u32, u16)>,
    opened: HashSet<(u32, u16)>,
}

impl Observer for Probes {
    fn packet(&mut self, _: Time, _: Point, _: Way, packet: &Packet) {
        if packet.protocol != Protocol::Tcp {
            self.named.insert((packet.from.host, packet.id));
        } else if packet.segment.flags.has(Flags::SYN) && !packet.segment.flags.has(Flags::ACK) {
            self.opened.insert((packet.from.host, packet.from.port));
        }
    }
}

#[test]
fn hwatchs_probes_name_the_connection_that_is_opened_next() {
    for direction in [Direction::Push, Direction::Pull] {
        let workload = Rounds { connections: Connections::Fresh, direction, ..Rounds::default() };
        let workload = Workload::Rounds(workload);
        let scenario = Scenario { senders: 6, rounds: 2, scheme: Scheme::Hwatch, workload, ..Scenario::default() };
        let mut probes = Probes::default();
        ackgate_sim::run(&scenario, &mut probes).expect("it runs");
        assert!(probes.named.len() >= 6);
        assert_eq!(probes.named, probes.opened, "{direction:?}");
    }
}

/// Follows the queues of the ports towards two receivers.
#[derive(Default)]
struct Sharing {
    /// Of each interface, whether it is such a port.
    ports: Vec<bool>,
    bytes: Vec<u64>,
    most_of_one: u64,
    most_together: u64,
}

impl Observer for Sharing {
    fn begin(&mut self, interfaces: &[Interface]) {
        self.ports = interfaces.iter().map(|interface| interface.name.starts_with("switch1:receiver")).collect();
        self.bytes = vec![0; interfaces.len()];
        assert_eq!(self.ports.iter().filter(|port| **port).count(), 2);
    }

    fn queue(&mut self, _: Time, at: Point, bytes: u64, _: u32) {
        if self.ports[at.0 as usize] {
            self.bytes[at.0 as usize] = bytes;
            self.most_of_one = self.most_of_one.max(bytes);
            self.most_together = self.most_together.max(self.bytes.iter().sum());
        }
    }
}

/// The most that one of two busy ports held, and both together.
fn shared(buffer: Capacity, pool: Option<u64>, alpha: Option<f64>) -> (u64, u64) {
    let mut scenario = Scenario { senders: 32, rounds: 2, ..Scenario::default() };
    scenario.network.topology = Topology::Dumbbell(Dumbbell { receivers: Some(2) });
    scenario.network.core_rate = Some(Rate(100_000_000_000));
    (scenario.switch.buffer, scenario.switch.pool, scenario.switch.alpha) = (buffer, pool, alpha);
    let mut sharing = Sharing::default();
    ackgate_sim::run(&scenario, &mut sharing).expect("a valid scenario has a result");
    (sharing.most_of_one, sharing.most_together)
}

/// Whether a bound was reached, to the frame.
fn full(most: u64, bound: u64) -> bool {
    most <= bound && most > bound - 1_518
}

#[test]
fn dynamic_thresholds_leave_each_port_a_multiple_of_what_is_free() {
    // Of 120 KB each of two busy ports has alpha / (1 + 2 alpha), and a port alone, as long as the other's queue has not grown, alpha / (1 + alpha).
    for (alpha, each, alone) in [(0.5, 30_000, 40_000), (1.0, 40_000, 60_000), (2.0, 48_000, 80_000)] {
        let (one, together) = shared(Capacity::Unlimited, Some(120_000), Some(alpha));
        assert!(full(one, alone) || (each - 1_518..alone).contains(&one), "alpha {alpha}: {one}");
        assert!((2 * (each - 1_518)..=each + alone).contains(&together), "alpha {alpha}: {together}");
    }
    // A bound of the port's own holds as well.
    let (one, _) = shared(Capacity::Bytes(20_000), Some(120_000), Some(1.0));
    assert!(full(one, 20_000), "{one}");
}

#[test]
fn ports_share_a_pool_below_bounds_of_their_own() {
    let shared = |pool: Option<u64>| shared(Capacity::Bytes(60_000), pool, None);
    let frame = 1_518;
    let (one, together) = shared(None);
    assert!(full(one, 60_000) && together > 120_000 - 2 * frame, "{one} {together}");
    // Room for one port and half of another.
    let (one, together) = shared(Some(90_000));
    assert!(full(together, 90_000) && one <= 60_000, "{one} {together}");
    // Less than one port may have.
    let (one, together) = shared(Some(30_000));
    assert!(full(together, 30_000) && one <= 30_000, "{one} {together}");
}
