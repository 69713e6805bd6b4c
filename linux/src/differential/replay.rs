//! One packet sequence, three times: as a simulation recorded it, through a fresh policy, and through the BPF programs.
//! Segment by segment the decisions must be the same, or the simulator's figures say nothing about the kernel.

use std::collections::HashMap;

use ackgate_control::gate::{AckGate, Prices};
use ackgate_control::policy::{FlowId, PacketId, Policy, Verdict as Answer};
use ackgate_sim::observer::{Observer, Step};
use ackgate_sim::scenario::{Document, Scenario};

use super::*;

/// Keeps what passed the receiver's shim slot.
#[derive(Default)]
struct Recorder(Vec<(Time, Step)>);

impl Observer for Recorder {
    fn shim(&mut self, now: Time, host: u32, step: &Step) {
        // Receivers come first; others' traffic may have one of its own.
        if host == 0 {
            self.0.push((now, *step));
        }
    }
}

/// Scenarios under which, together, every parameter decides something.
const SCENARIOS: [(&str, &str); 5] = [
    ("fresh", "workload = { kind = \"rounds\", volume = \"32KB\", connections = \"fresh\" }"),
    ("pulled", "workload = { kind = \"rounds\", volume = \"32KB\", direction = \"pull\" }\ntcp.initial_window = 10"),
    (
        "modern",
        "workload = { kind = \"rounds\", volume = \"32KB\", direction = \"pull\" }\ntcp.cc = \"cubic\"\n\
         tcp.sack = true\ntcp.timestamps = true\ntcp.delayed_ack = \"40ms\"\npac.rtt = \"timestamps\"\n\
         network.rtt = \"1500us\"",
    ),
    // Others' traffic on the link between two switches: throughput falls for reasons that the receiver does not see (Eq. 6,
    // and the phase that Eq. 3 goes by), and marks come (Eq. 2).
    (
        "crossed",
        "workload = { kind = \"rounds\", volume = \"32KB\", direction = \"pull\" }\ntcp.ecn = \"on\"\n\
         network.topology = \"core\"\nswitch.discipline = { kind = \"ecn\", mark_above = \"10p\" }\n\
         [[background]]\nsenders = 2\nto = \"beside\"\n\
         workload = { kind = \"on-off\", on = \"1ms\", off = \"1ms\", rate = \"750mbit\", stop = \"20ms\" }",
    ),
    // Slow flows that wait for nobody, begun one after the other (so that both sides number them alike), and traffic on
    // their way that comes and goes.
    (
        "fitful",
        "workload = { kind = \"long\", stagger = \"100us\", stop = \"400ms\", rate = \"36mbit\" }\n\
         network.topology = \"core\"\n\
         [[background]]\nsenders = 2\nto = \"beside\"\n\
         workload = { kind = \"on-off\", on = \"3ms\", off = \"3ms\", rate = \"450mbit\", stop = \"400ms\" }",
    ),
];

/// A simulated incast that is tight enough for ACKs to be held.
fn record(scheme: &str, settings: &str) -> (Config, Vec<(Time, Step)>) {
    let text = format!("scheme = \"{scheme}\"\nsenders = 24\nrounds = 2\n{settings}");
    let scenario: Scenario = Document::parse("replay", &text).and_then(|document| document.scenario()).unwrap();
    let mut recorder = Recorder::default();
    let report = ackgate_sim::run(&scenario, &mut recorder).unwrap();
    assert!(report.complete && report.held_max > 4, "{scheme}: too few ACKs are held: {report:?}");
    (ackgate_sim::settings::gate(&scenario.resolved()), recorder.0)
}

/// The policy again, driven by hand: the first decision that is another one.
fn replay_through_policy(config: &Config, steps: &[(Time, Step)]) -> Result<(), String> {
    let mut shim = AckGate::new(config.clone()).unwrap();
    for (index, &(now, step)) in steps.iter().enumerate() {
        let again = match step {
            Step::Ingress { flow, segment, .. } => {
                Step::Ingress { flow, segment, edit: shim.handle_ingress(now, flow, &segment) }
            }
            Step::Egress { flow, segment, packet, .. } => {
                Step::Egress { flow, segment, packet, verdict: shim.handle_egress(now, flow, &segment, packet) }
            }
            Step::Poll(_) => Step::Poll(shim.poll_action(now)),
        };
        if again != step {
            return Err(format!("step {index} at {now:?}\n recorded: {step:?}\n    again: {again:?}"));
        }
    }
    Ok(())
}

/// The programs, fed with the segments as frames.
struct Replay {
    pair: Pair,
    /// The programs' name of each packet that the simulation holds.
    names: HashMap<PacketId, PacketId>,
}

impl Replay {
    /// `None` where the programs cannot be loaded.
    fn of(config: Config) -> Option<Self> {
        Some(Self { pair: Pair::load_for_replay(config)?, names: HashMap::new() })
    }

    /// All steps; what went otherwise than recorded, or than in the model.
    fn run(&mut self, steps: &[(Time, Step)]) -> Result<(), String> {
        steps.iter().enumerate().try_for_each(|(index, (now, step))| {
            self.step(*now, step).map_err(|problem| format!("step {index} at {now:?}: {step:?}\n{problem}"))
        })
    }

    fn step(&mut self, now: Time, step: &Step) -> Result<(), String> {
        self.pair.set_time(now);
        match *step {
            Step::Ingress { flow, segment, edit } => {
                let answer = self.segment(flow, &segment, Direction::Ingress)?;
                same("arrival", &answer, &Verdict::Pass(edit.window))
            }
            Step::Egress { flow, segment, packet, verdict } => {
                let answer = self.segment(flow, &segment, Direction::Egress)?;
                match (answer, verdict) {
                    (Verdict::Pass(kernel), Answer::Pass(simulated)) => same("window", &kernel, &simulated.window),
                    (Verdict::Split(kernel), Answer::Split(simulated)) => {
                        same("window", &kernel, &simulated.window)?;
                        let name = self.pair.newest.ok_or("no copy was held")?;
                        self.names.insert(packet, name);
                        Ok(())
                    }
                    (Verdict::Discard, Answer::Discard) => Ok(()),
                    (Verdict::Hold(_), Answer::Hold) => {
                        let name = self.pair.newest.ok_or("nothing was held")?;
                        self.names.insert(packet, name);
                        Ok(())
                    }
                    _ => Err(format!("decision\n kernel: {answer:?}\n simulation: {verdict:?}")),
                }
            }
            Step::Poll(action) => {
                let named = |id: PacketId| self.names.get(&id).copied().unwrap_or(id);
                let expected = action.map(|action| match action {
                    Action::Release(id, edit) => Action::Release(named(id), edit),
                    Action::Discard(id) => Action::Discard(named(id)),
                    Action::Split(id, edit) => Action::Split(named(id), edit),
                    Action::Probe(flow) => Action::Probe(flow),
                });
                same("release", &self.pair.release_one()?, &expected)
            }
        }
    }

    fn segment(&mut self, flow: FlowId, segment: &Segment, direction: Direction) -> Result<Verdict, String> {
        let key = FlowKey { local_port: 5001, remote_port: 20_000 + flow.0 as u16, ..super::key(0, 0) };
        let frame = emit(&key, segment, direction);
        self.pair.packet(&frame, &Meta::whole(&frame), direction)
    }
}

/// Every parameter that a decision depends on, changed a little, with its name.
fn changed(config: &Config) -> Vec<(&'static str, Config)> {
    let with = |change: fn(&mut Config)| {
        let mut other = config.clone();
        change(&mut other);
        other
    };
    let mut others = vec![
        ("buffer", with(|c| c.buffer -= c.buffer / 100)),
        ("max_hold", with(|c| c.max_hold = Span::micros(500))),
        ("rate_mbps", with(|c| c.rate_mbps /= 2)),
        ("silence", with(|c| c.silence = Span::millis(4))),
        ("max_held", with(|c| c.max_held = 4)),
        ("max_half_open", with(|c| c.max_half_open = 4)),
        ("push_ends_response", with(|c| c.push_ends_response = !c.push_ends_response)),
        ("hold", with(|c| c.hold = Hold::Requests)),
        ("prices", with(|c| c.prices = if c.grants() { Prices::Estimated } else { Prices::Exact })),
    ];
    if config.grants() {
        others.push(("thin_acks", with(|c| c.thin_acks = false)));
    }
    if !config.grants() {
        others.extend([
            // Exact credit's short paths are alike, whatever their round trips.
            (
                "rtt",
                with(|c| {
                    c.rtt = if c.rtt == RttMethod::Handshake { RttMethod::Timestamps } else { RttMethod::Handshake };
                }),
            ),
            ("initial_window", with(|c| c.initial_window += 1)),
            ("lambda", with(|c| c.lambda_permille -= 50)),
            ("min_interval", with(|c| c.min_interval = Span::micros(400))),
            ("growth", with(|c| c.growth = Growth::PerAck)),
            (
                "requests",
                with(|c| {
                    c.requests = if c.requests == Requests::Ignore { Requests::Gate } else { Requests::Ignore };
                }),
            ),
            ("bound_windows", with(|c| c.bound_windows = !c.bound_windows)),
            ("long_turns", with(|c| c.long_turns = !c.long_turns)),
            ("demotion", with(|c| c.demotion[0] -= 2_000)),
        ]);
    }
    others
}

/// Every scheme decides these scenarios alike three times.
fn is_decided_alike<'a>(scenarios: impl IntoIterator<Item = &'a (&'a str, &'a str)>) {
    for (name, settings) in scenarios {
        for scheme in ["pac", "pac-published", "credit"] {
            let (config, steps) = record(scheme, settings);
            if let Err(problem) = replay_through_policy(&config, &steps) {
                panic!("{scheme}, {name}: {problem}");
            }
            let Some(mut replay) = Replay::of(config) else { return };
            if let Err(problem) = replay.run(&steps) {
                panic!("{scheme}, {name}: {problem}");
            }
        }
    }
}

#[test]
fn a_simulated_run_is_decided_alike_by_the_simulation_the_policy_and_the_programs() {
    is_decided_alike(&SCENARIOS[..2]);
}

#[test]
fn longer_runs_are_decided_alike_too() {
    is_decided_alike(&SCENARIOS[2..]);
}

/// What the tests above are worth: had the kernel any parameter other than the simulator, a decision would differ.
#[test]
fn the_recordings_notice_every_parameter() {
    for scheme in ["pac", "pac-published", "credit"] {
        let recordings: Vec<_> = SCENARIOS.iter().map(|(_, settings)| record(scheme, settings)).collect();
        let names = changed(&recordings[0].0).into_iter().map(|(name, _)| name);
        let unseen: Vec<_> = (0..)
            .zip(names)
            .filter(|&(index, _)| {
                let same = |(config, steps): &(Config, Vec<_>)| {
                    replay_through_policy(&changed(config)[index].1, steps).is_ok()
                };
                recordings.iter().all(same)
            })
            .map(|(_, name)| name)
            .collect();
        assert!(unseen.is_empty(), "{scheme}: no decision depends on {unseen:?}");
    }
}
