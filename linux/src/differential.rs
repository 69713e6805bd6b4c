//! Holds the BPF programs to `control`: the same packets go through both, and after every one of them the verdict, the
//! packet and every member of the state must be equal.
//!
//! Needs root and a kernel that can load the programs; says so and passes where it cannot.

mod replay;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use ackgate_control::decision::{self, Class, Decision, Rules};
use ackgate_control::flow::{FlowKey, opens};
use ackgate_control::gate::{Config, Flow, Gate, Growth, Hold, Requests, RttMethod, Scheduler, State};
use ackgate_control::policy::{Action, FlowId, PacketId};
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::{Span, Time};
use ackgate_control::wire::{self, Direction, Meta, emit};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::datapath::{Datapath, Take};
use crate::error::Error;
use crate::hold::{Arrival, Reader};
use crate::shared;
use crate::standby::{Keeper, Vault};
use crate::sys;

/// `TC_ACT_UNSPEC` and `TC_ACT_STOLEN`, as a test run returns them.
const PASSED: u32 = u32::MAX;
const TAKEN: u32 = 4;

/// `MAX_FRAME` of `intf.h`: a larger frame is not held.
const MAX_FRAME: usize = 1536;

const MSS: u32 = 1000;

/// The model's side of the state.
struct Model {
    gate: Gate,
    flows: Vec<Flow>,
    /// Whose entry each is.
    keys: Vec<Option<FlowKey>>,
    /// The connections that packets were of last.
    recent: VecDeque<FlowId>,
    /// Entries of connections that are over, in the order in which they are given back.
    lobby: VecDeque<FlowId>,
    free: Vec<FlowId>,
}

impl State for Model {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(id.0 as usize)
    }

    fn flow_count(&self) -> u32 {
        self.flows.len() as u32
    }
}

impl Model {
    fn new(config: &Config) -> Self {
        Self {
            gate: Gate::new(config),
            flows: Vec::new(),
            keys: Vec::new(),
            recent: VecDeque::new(),
            lobby: VecDeque::new(),
            free: Vec::new(),
        }
    }

    fn find(&mut self, config: &Config, key: &FlowKey, segment: &Segment, direction: Direction) -> Option<FlowId> {
        let known = self.keys.iter().position(|known| known.as_ref() == Some(key));
        let id = known.map(|at| FlowId(at as u32)).or_else(|| {
            let new = opens(segment, direction, self.gate.half_open.get(), u64::from(config.max_half_open));
            new.then(|| self.remember(key))
        })?;
        self.recent.retain(|known| *known != id);
        self.recent.push_back(id);
        Some(id)
    }

    fn remember(&mut self, key: &FlowKey) -> FlowId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.keys.push(None);
            self.flows.push(Flow::default());
            FlowId(self.keys.len() as u32 - 1)
        });
        self.keys[id.0 as usize] = Some(*key);
        id
    }

    /// A connection that is over makes room, by way of the lobby.
    fn let_go(&mut self, rules: &Rules, id: FlowId) {
        let flow = &self.flows[id.0 as usize];
        if !decision::is_over(flow) {
            return;
        }
        decision::close(rules, &self.gate, flow);
        self.keys[id.0 as usize] = None;
        self.lobby.push_back(id);
        if self.lobby.len() > shared::LOBBY {
            self.free.extend(self.lobby.pop_front());
        }
    }
}

/// Keeps what the programs hold.
fn keeper() -> Keeper {
    Keeper::new(Arc::new(Vault::new(65_536).unwrap()))
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It went on, perhaps with another window.
    Pass(Option<u16>),
    /// It was taken.
    Hold(Class),
    /// It went on, perhaps with another window, and a copy was taken.
    Split(Option<u16>),
    /// It was dropped.
    Discard,
}

/// Both sides.
pub(crate) struct Pair {
    rules: Rules,
    datapath: Datapath,
    reader: Reader,
    model: Model,
    /// Connections that are over are forgotten at once.
    forgets: bool,
    /// Over the programs' state, and over the model's.
    schedulers: [Scheduler; 2],
    arrivals: Vec<Arrival>,
    /// The programs' name of the packet that was held last.
    newest: Option<PacketId>,
    now: Time,
}

impl Pair {
    /// `None` where the programs cannot be loaded.
    pub(crate) fn load(config: Config) -> Option<Self> {
        Self::over(Datapath::load(&config, Take::Stolen, true), config, true)
    }

    /// The same, where connections that are over are not forgotten.
    fn load_for_replay(config: Config) -> Option<Self> {
        Self::over(Datapath::load_for_replay(&config, Take::Stolen), config, false)
    }

    fn over(datapath: Result<Datapath, Error>, config: Config, forgets: bool) -> Option<Self> {
        let datapath = match datapath {
            Ok(datapath) => datapath,
            Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => {
                eprintln!("skipped: the BPF programs were not compared with the model: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let reader = Reader::new(&datapath, keeper()).unwrap();
        let model = Model::new(&config);
        let schedulers = [Scheduler::default(), Scheduler::default()];
        let arrivals = Vec::new();
        Some(Self {
            rules: config.into(),
            datapath,
            reader,
            model,
            forgets,
            schedulers,
            arrivals,
            newest: None,
            now: Time(1_000_000_000),
        })
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.set_time(self.now + span);
    }

    fn set_time(&mut self, now: Time) {
        self.now = now;
        let shared = self.datapath.shared();
        shared.fixed_clock().set(self.now.0);
        shared.gate().heartbeat.set(self.now.0);
        self.model.gate.heartbeat.set(self.now.0);
    }

    /// Runs one frame through both and compares all there is to compare.
    pub(crate) fn packet(&mut self, frame: &[u8], meta: &Meta, direction: Direction) -> Result<Verdict, String> {
        let program = match direction {
            Direction::Ingress => self.datapath.ingress(),
            Direction::Egress => self.datapath.egress(),
        };
        let (returned, after) = sys::test_run(program, frame, meta.gso_size, meta.gso_segs).unwrap();
        self.reader.collect(&mut self.arrivals);
        let arrival = self.arrivals.pop();

        let mut expected = frame.to_vec();
        let (mut held, mut discarded) = (None, false);
        let mut window = None;
        let known = wire::parse(frame, meta, direction).ok().and_then(|packet| {
            let id = self.model.find(&self.rules, &packet.key, &packet.segment, direction)?;
            Some((packet, id))
        });
        if known.is_none() && direction == Direction::Ingress {
            let (bytes, frames) = (frame.len() as u64, u32::from(meta.gso_segs.max(1)));
            decision::note_other(&self.rules, &self.model.gate, bytes, frames);
        }
        if let Some((packet, id)) = known {
            let (gate, flow) = (&self.model.gate, &self.model.flows[id.0 as usize]);
            let before = gate.rewritten.get();
            match direction {
                Direction::Ingress => {
                    decision::ingress(&self.rules, gate, flow, &packet.segment, self.now);
                }
                Direction::Egress => match decision::egress(&self.rules, gate, flow, &packet.segment, self.now) {
                    Decision::Pass(edit) => {
                        window = edit.window;
                        wire::apply(&mut expected, &packet.layout, &edit);
                    }
                    Decision::Hold(out) | Decision::Split(_, out) if frame.len() > MAX_FRAME => {
                        // Of windows that are rewritten it counts as one.
                        gate.rewritten.set(before);
                        let edit = decision::pass_after_all(&self.rules, gate, flow, &out, self.now);
                        window = edit.window;
                        wire::apply(&mut expected, &packet.layout, &edit);
                    }
                    Decision::Split(edit, copy) => {
                        window = edit.window;
                        wire::apply(&mut expected, &packet.layout, &edit);
                        held = Some((id, copy));
                    }
                    Decision::Hold(out) => held = Some((id, out)),
                    Decision::Discard => discarded = true,
                },
            }
            if self.forgets && !discarded && held.is_none_or(|(_, out)| out.copy) {
                self.model.let_go(&self.rules, id);
            }
        }
        let taken = discarded || held.is_some_and(|(_, out)| !out.copy);
        same("verdict", &returned, &if taken { TAKEN } else { PASSED })?;
        same("frame", &after, &expected)?;
        same("record", &arrival.map(|a| (a.flow, a.out, a.time)), &held.map(|(id, out)| (id, out, self.now)))?;
        self.newest = arrival.map(|arrival| arrival.packet);
        if let (Some(arrival), Some((id, out))) = (arrival, held) {
            let [kernel, model] = &mut self.schedulers;
            kernel.enqueue(&self.rules, self.datapath.shared(), arrival.flow, arrival.packet, arrival.out, self.now);
            model.enqueue(&self.rules, &self.model, id, arrival.packet, out, self.now);
        }
        self.compare()?;
        Ok(match held {
            None if discarded => Verdict::Discard,
            None => Verdict::Pass(window),
            Some((_, out)) if out.copy => Verdict::Split(window),
            Some((_, out)) => Verdict::Hold(out.class),
        })
    }

    /// Lets both schedulers release what may leave.
    pub(crate) fn release(&mut self) -> Result<Vec<Action>, String> {
        let mut actions = Vec::new();
        while let Some(action) = self.release_one()? {
            actions.push(action);
        }
        self.compare()?;
        Ok(actions)
    }

    /// Lets both schedulers release one packet, if one may leave.
    fn release_one(&mut self) -> Result<Option<Action>, String> {
        let [kernel, model] = &mut self.schedulers;
        let expected = model.poll(&self.rules, &self.model, self.now);
        same("action", &kernel.poll(&self.rules, self.datapath.shared(), self.now), &expected)?;
        Ok(expected.map(|(action, _)| action))
    }

    fn compare(&self) -> Result<(), String> {
        let shared = self.datapath.shared();
        same("gate", shared.gate(), &self.model.gate)?;
        same("flows", &u64::from(self.model.flow_count()), &shared.books().fresh.get())?;
        for &id in self.model.recent.iter().rev().take(FLOWS) {
            if let Some(key) = &self.model.keys[id.0 as usize] {
                same("index", &self.datapath.flow_id(key), &Some(id))?;
            }
            same("flow", shared.flow(id).unwrap(), self.model.flow(id).unwrap())?;
        }
        Ok(())
    }

    /// Empties both, so that the next case starts from nothing; entries of the flow table stay in use.
    fn reset(&mut self) {
        let [kernel, model] = &mut self.schedulers;
        kernel.release_all(&self.rules, self.datapath.shared(), self.now);
        model.release_all(&self.rules, &self.model, self.now);
        while kernel.poll(&self.rules, self.datapath.shared(), self.now).is_some() {}
        while model.poll(&self.rules, &self.model, self.now).is_some() {}
        self.wait(Span::secs(1));
        for state in [self.datapath.shared() as &dyn AnyState, &self.model] {
            state.forget_flows(&self.rules);
        }
    }
}

/// What [`Pair::reset`] does to either side.
trait AnyState {
    fn forget_flows(&self, rules: &Rules);
}

impl<S: State> AnyState for S {
    fn forget_flows(&self, rules: &Rules) {
        for flow in (0..self.flow_count()).filter_map(|id| self.flow(FlowId(id))) {
            decision::close(rules, self.gate(), flow);
        }
    }
}

fn same<T: Debug + ?Sized>(what: &str, kernel: &T, model: &T) -> Result<(), String> {
    let (kernel, model) = (format!("{kernel:?}"), format!("{model:?}"));
    if kernel == model { Ok(()) } else { Err(format!("{what}\n kernel: {kernel}\n  model: {model}")) }
}

/// Connections of one case.
const FLOWS: usize = 4;

/// Cases with ports of their own; later ones find entries as earlier ones left them.
const PORTS_IN_USE: u16 = 4096;

/// The key of a case's flow: IPv4 and IPv6, with and without tag.
pub(crate) fn key(case: u16, flow: u8) -> FlowKey {
    let address = |last| match flow % 2 {
        0 => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last],
        _ => [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
    };
    let vlan = [0, 0, 7, 3 << 12 | 7][usize::from(flow % 4)];
    FlowKey {
        local: address(1),
        remote: address(2),
        local_port: 5001,
        remote_port: 1024 + case * 4 + u16::from(flow),
        vlan,
    }
}

/// A frame as random choices, in units that make sequence numbers meet.
#[derive(Clone, Debug)]
struct Choice {
    flow: u8,
    ingress: bool,
    flags: u8,
    seq: u8,
    ack: u8,
    payload: u16,
    frames: u16,
    window: u16,
    ce: bool,
    sack: bool,
    options: u8,
    /// An extension header of this kind with this many addresses ahead, where the flow has IPv6.
    extension: Option<(u8, u8)>,
    /// A bit of the headers that is not as it was sent.
    damage: Option<(usize, u8)>,
    wait_us: u64,
    release: bool,
}

fn choices() -> impl Strategy<Value = Choice> {
    let flags = prop_oneof![
        10 => Just(Flags::ACK.0),
        4 => Just((Flags::ACK | Flags::PSH).0),
        1 => Just(Flags::SYN.0),
        2 => Just((Flags::SYN | Flags::ACK).0),
        1 => Just((Flags::FIN | Flags::ACK).0),
        1 => Just((Flags::ACK | Flags::ECE).0),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![4 => Just(0u16), 4 => Just(MSS as u16), 1 => 1u16..300, 1 => 1000u16..2500];
    let window = prop_oneof![1 => Just(0u16), 6 => Just(500), 1 => any::<u16>()];
    let wait = prop_oneof![8 => 0u64..300, 2 => 300u64..5_000, 1 => 5_000u64..200_000];
    let extension = prop::option::weighted(0.1, (prop_oneof![Just(0u8), Just(43), Just(44), Just(60)], 0u8..2));
    let damage = prop::option::weighted(0.05, (12usize..90, 0u8..8));
    (
        (0..FLOWS as u8, any::<bool>(), flags, 0u8..12, 0u8..12, payload),
        (1u16..4, window, prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<u8>(), wait, any::<bool>()),
        (extension, damage),
    )
        .prop_map(|(base, rest, (extension, damage))| {
            let (flow, ingress, flags, seq, ack, payload) = base;
            let (frames, window, ce, sack, options, wait_us, release) = rest;
            Choice {
                flow,
                ingress,
                flags,
                seq,
                ack,
                payload,
                frames,
                window,
                ce,
                sack,
                options,
                extension,
                damage,
                wait_us,
                release,
            }
        })
}

impl Choice {
    fn frame(&self, case: u16) -> (Vec<u8>, Meta, Direction) {
        let direction = if self.ingress { Direction::Ingress } else { Direction::Egress };
        // Just below the wrap, so that it is crossed.
        let number = |steps: u8| SeqNumber(0xffff_f000) + u32::from(steps) * MSS;
        let syn = Flags(self.flags).has(Flags::SYN);
        let segment = Segment {
            seq: number(self.seq),
            ack: number(self.ack),
            flags: Flags(self.flags),
            window: self.window,
            payload: u32::from(self.payload),
            ce: self.ce,
            sack: self.sack && !syn,
            dsack: self.sack && !syn && self.options & 32 != 0,
            mss: if syn && self.options & 1 != 0 { 1012 } else { 0 },
            wscale: (syn && self.options & 2 != 0).then_some(self.options >> 4),
            timestamps: (self.options & 12 != 0).then_some((u32::from(self.options), self.options.into())),
            multipath: self.options & 0xc0 == 0xc0,
            ..Segment::default()
        };
        let mut frame = emit(&key(case, self.flow), &segment, direction);
        self.spoil(&mut frame);
        let aggregate = self.frames > 1 && self.payload >= 1000;
        let gso_size = if aggregate { self.payload.div_ceil(self.frames) } else { 0 };
        let meta = Meta {
            gso_size,
            gso_segs: if self.options & 16 != 0 { 0 } else { gso_size.min(1) * self.frames },
            ..Meta::whole(&frame)
        };
        (frame, meta, direction)
    }

    /// Puts in what our own frames never have.
    fn spoil(&self, frame: &mut Vec<u8>) {
        let ip = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
        if let Some((kind, left)) = self.extension
            && frame[ip] >> 4 == 6
        {
            let next = std::mem::replace(&mut frame[ip + 6], kind);
            frame.splice(ip + 40..ip + 40, [next, 0, 4, left, 0, 0, 0, 0]);
            let length = u16::from_be_bytes([frame[ip + 4], frame[ip + 5]]) + 8;
            frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
        }
        if let Some((at, bit)) = self.damage
            && let Some(byte) = frame.get_mut(at)
        {
            *byte ^= 1 << bit;
        }
    }
}

fn configurations() -> [Config; 4] {
    [
        Config::new(6_000),
        Config {
            growth: Growth::PerAck,
            requests: Requests::Charge,
            push_ends_response: false,
            rtt: RttMethod::Timestamps,
            max_half_open: 2,
            max_held: 3,
            ..Config::new(20_000)
        },
        Config { rate_mbps: 1_000, ..Config::credit(20_000) },
        Config { hold: Hold::Requests, requests: Requests::Ignore, ..Config::credit(6_000) },
    ]
}

#[test]
fn random_packets_leave_programs_and_model_in_the_same_state() {
    let mut held = 0;
    for config in configurations() {
        let Some(mut pair) = Pair::load(config) else { return };
        let mut case = 0;
        let cell = std::cell::RefCell::new((&mut pair, &mut case, &mut held));
        // A case that fails leaves the two sides apart: there is no shrinking on.
        let settings = ProptestConfig { max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        TestRunner::new(settings)
            .run(&prop::collection::vec(choices(), 1..60), |steps| {
                let (pair, case, held) = &mut *cell.borrow_mut();
                pair.reset();
                **case = (**case + 1) % PORTS_IN_USE;
                for (index, step) in steps.iter().enumerate() {
                    pair.wait(Span::micros(step.wait_us));
                    let (frame, meta, direction) = step.frame(**case);
                    let outcome = pair.packet(&frame, &meta, direction).and_then(|verdict| {
                        **held += u32::from(!matches!(verdict, Verdict::Pass(_)));
                        if step.release { pair.release().map(drop) } else { Ok(()) }
                    });
                    prop_assert!(outcome.is_ok(), "step {}: {}", index, outcome.unwrap_err());
                }
                Ok(())
            })
            .unwrap();
    }
    assert!(held > 0, "packets that are never held compare little");
}
