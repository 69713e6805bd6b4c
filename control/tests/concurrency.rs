//! The decision core under threads, as the kernel runs it: packets of one connection on several processors at once, and the scheduler
//! beside them. The books must add up to the byte when all is over, and must never be in debt to themselves meanwhile.

#![expect(clippy::indexing_slicing, reason = "indices are drawn below the number of flows")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ackgate_control::decision::{self, Decision, Flow, Gate, Outgoing, Rules, flag};
use ackgate_control::gate::Config;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Time;

const FLOWS: usize = 3;
/// Segments of each thread.
const STEPS: u32 = 500_000;

/// What the threads share.
struct World {
    rules: Rules,
    gate: Gate,
    flows: [Flow; FLOWS],
    /// Next sequence number of each sender.
    next: [AtomicU32; FLOWS],
    clock: AtomicU64,
    start: Barrier,
}

impl World {
    fn new(config: Config, threads: usize) -> Self {
        Self {
            gate: Gate::new(&config),
            rules: config.into(),
            flows: Default::default(),
            next: Default::default(),
            clock: AtomicU64::new(1_000_000),
            start: Barrier::new(threads),
        }
    }

    fn now(&self) -> Time {
        Time(self.clock.fetch_add(2_000, Ordering::Relaxed))
    }

    /// Nothing ever counts more than there can be: a counter that passed below zero would be near 2^64.
    fn stays_in_bounds(&self) {
        for (what, count, most) in [
            ("owed", &self.gate.owed, 1 << 40),
            ("active", &self.gate.active, 4 * FLOWS as u64),
            ("peak_active", &self.gate.peak_active, 4 * FLOWS as u64),
            ("half-open", &self.gate.half_open, 4 * FLOWS as u64),
            ("held", &self.gate.held, u64::from(4 * STEPS)),
        ] {
            let count = count.get();
            assert!(count <= most, "{what}: {count}");
        }
    }
}

/// The same numbers from the same seed (Marsaglia's xorshift).
struct Draw(u32);

impl Draw {
    fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % most
    }
}

fn segment(flags: Flags, seq: u32, ack: u32, payload: u32) -> Segment {
    Segment { seq: SeqNumber(seq), ack: SeqNumber(ack), payload, flags, window: 2000, ..Segment::default() }
}

/// One processor that receives.
fn arrivals(world: &World, seed: u32) {
    let mut draw = Draw(seed);
    world.start.wait();
    for _ in 0..STEPS {
        let at = draw.below(FLOWS as u32) as usize;
        let (flow, next) = (&world.flows[at], &world.next[at]);
        let segment = match draw.below(16) {
            0 => segment(Flags::SYN, next.load(Ordering::Relaxed), 0, 0),
            1 => segment(Flags::RST | Flags::ACK, next.load(Ordering::Relaxed), 0, 0),
            2 => segment(Flags::FIN | Flags::ACK, next.load(Ordering::Relaxed), 0, 0),
            kind => {
                let flags = if kind < 8 { Flags::ACK | Flags::PSH } else { Flags::ACK };
                segment(flags, next.fetch_add(1448, Ordering::Relaxed), 0, 1448)
            }
        };
        decision::ingress(&world.rules, &world.gate, flow, &segment, world.now());
    }
}

/// One processor that sends; what must wait goes to the scheduler.
fn departures(world: &World, seed: u32, held: &Sender<(usize, Outgoing)>) {
    let mut draw = Draw(seed);
    world.start.wait();
    for _ in 0..STEPS {
        let at = draw.below(FLOWS as u32) as usize;
        let ack = world.next[at].load(Ordering::Relaxed);
        let segment = match draw.below(16) {
            0 => Segment { wscale: Some(7), mss: 1460, ..segment(Flags::SYN | Flags::ACK, 0, ack, 0) },
            1 => segment(Flags::RST | Flags::ACK, 0, ack, 0),
            2 => segment(Flags::FIN | Flags::ACK, 0, ack, 0),
            3..8 => segment(Flags::ACK | Flags::PSH, draw.below(1 << 20), ack, 100),
            _ => segment(Flags::ACK, 0, ack, 0),
        };
        let flow = &world.flows[at];
        let decision = decision::egress(&world.rules, &world.gate, flow, &segment, world.now());
        if let Decision::Hold(out) | Decision::Split(_, out) = decision {
            held.send((at, out)).unwrap();
        }
    }
}

/// The scheduler: lets go what is held, forgets what fell silent, and looks whether the books make sense.
fn schedule(world: &World, held: &Receiver<(usize, Outgoing)>) {
    let mut draw = Draw(99);
    world.start.wait();
    for (at, out) in held {
        let (rules, gate, flow) = (&world.rules, &world.gate, &world.flows[at]);
        decision::charge(rules, gate, flow, &out, &decision::trigger(rules, gate, flow, &out), world.now());
        flow.held.sub(1);
        gate.held.sub(1);
        match draw.below(8) {
            0 => decision::void(rules, gate, flow),
            1 => decision::close(rules, gate, flow),
            2 => {
                decision::void_if_silent(rules, gate, flow, world.now());
            }
            _ => decision::roll(rules, gate, world.now()),
        }
        world.stays_in_bounds();
    }
}

fn run(config: Config) {
    let world = World::new(config, 5);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let world = &world;
        for seed in [1, 2] {
            let sender = sender.clone();
            scope.spawn(move || departures(world, 7 * seed, &sender));
            scope.spawn(move || arrivals(world, 11 * seed));
        }
        drop(sender);
        schedule(world, &receiver);
    });
    let gate = &world.gate;
    let sum = |part: fn(&Flow) -> u64| world.flows.iter().map(part).sum::<u64>();
    assert_eq!(gate.held.get(), 0);
    assert_eq!(gate.owed.get(), sum(|flow| u64::from(flow.owed.get())), "what is owed");
    assert_eq!(gate.active.get(), sum(|flow| u64::from(flow.flags.any(flag::ACTIVE))), "active flows");
    assert_eq!(gate.half_open.get(), sum(|flow| u64::from(flow.flags.any(flag::HALF_OPEN))), "handshakes");
    assert_eq!(gate.offered.get(), sum(|flow| u64::from(flow.offered.get())), "windows offered");
    for flow in &world.flows {
        assert!(flow.flags.any(flag::ACTIVE) || flow.offered.get() == 0, "an idle flow's window counts");
        decision::close(&world.rules, gate, flow);
    }
    assert_eq!((gate.owed.get(), gate.active.get(), gate.offered.get(), gate.half_open.get()), (0, 0, 0, 0));
}

#[test]
fn the_books_of_exact_credit_add_up() {
    run(Config { rate_mbps: 1000, ..Config::credit(96_000) });
}

#[test]
fn the_books_of_pac_add_up() {
    run(Config { rate_mbps: 1000, ..Config::new(96_000) });
}
