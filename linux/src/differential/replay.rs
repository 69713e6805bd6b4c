//! One packet sequence, three times: as a simulation recorded it, through a fresh policy, and through the BPF programs.
//! Segment by segment the decisions must be the same, or the simulator's figures say nothing about the kernel.

use std::collections::HashMap;

use ackgate_control::pac::Pac;
use ackgate_control::policy::{FlowId, PacketId, Policy, Verdict as Answer};
use ackgate_sim::observer::{Observer, Step};
use ackgate_sim::scenario::{Document, Scenario};

use super::*;

/// Keeps what passed the receiver's shim slot.
#[derive(Default)]
struct Recorder(Vec<(Time, Step)>);

impl Observer for Recorder {
    fn shim(&mut self, now: Time, host: u32, step: &Step) {
        assert_eq!(host, 0, "there is one receiver");
        self.0.push((now, *step));
    }
}

/// A simulated incast that is tight enough for ACKs to be held.
fn record(scheme: &str, settings: &str) -> (Config, Vec<(Time, Step)>) {
    let text = format!("scheme = \"{scheme}\"\nsenders = 24\nrounds = 2\n{settings}");
    let scenario: Scenario = Document::parse("replay", &text).and_then(|document| document.scenario()).unwrap();
    let mut recorder = Recorder::default();
    let report = ackgate_sim::run(&scenario, &mut recorder).unwrap();
    assert!(report.complete && report.held_max > 4, "{scheme}: too few ACKs are held: {report:?}");
    (ackgate_sim::settings::pac(&scenario.resolved()), recorder.0)
}

/// The policy again, driven by hand.
fn replay_through_policy(config: &Config, steps: &[(Time, Step)]) {
    let mut pac = Pac::new(config.clone()).unwrap();
    for (index, &(now, step)) in steps.iter().enumerate() {
        let again = match step {
            Step::Ingress { flow, segment, .. } => {
                Step::Ingress { flow, segment, edit: pac.handle_ingress(now, flow, &segment) }
            }
            Step::Egress { flow, segment, packet, .. } => {
                Step::Egress { flow, segment, packet, verdict: pac.handle_egress(now, flow, &segment, packet) }
            }
            Step::Poll(_) => Step::Poll(pac.poll_action(now)),
        };
        assert_eq!(again, step, "step {index} at {now:?}");
    }
}

/// The programs, fed with the segments as frames.
struct Replay {
    pair: Pair,
    /// The programs' name of each packet that the simulation holds.
    names: HashMap<PacketId, PacketId>,
}

impl Replay {
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

#[test]
fn a_simulated_run_is_decided_alike_by_the_simulation_the_policy_and_the_programs() {
    let fresh = "workload = { kind = \"rounds\", volume = \"32KB\", connections = \"fresh\" }";
    let pulled = "workload = { kind = \"rounds\", volume = \"32KB\", direction = \"pull\" }\ntcp.initial_window = 10";
    let modern = "workload = { kind = \"rounds\", volume = \"32KB\", direction = \"pull\" }\ntcp.cc = \"cubic\"\n\
                  tcp.sack = true\ntcp.timestamps = true\ntcp.delayed_ack = \"40ms\"\npac.rtt = \"timestamps\"";
    for scheme in ["pac", "pac-published", "credit"] {
        for settings in [fresh, pulled, modern] {
            let (config, steps) = record(scheme, settings);
            replay_through_policy(&config, &steps);
            let Some(pair) = Pair::load(config) else { return };
            let mut replay = Replay { pair, names: HashMap::new() };
            let outcome = steps.iter().enumerate().try_for_each(|(index, (now, step))| {
                replay.step(*now, step).map_err(|problem| format!("step {index} at {now:?}: {step:?}\n{problem}"))
            });
            assert!(outcome.is_ok(), "{scheme}, {settings}\n{}", outcome.unwrap_err());
        }
    }
}
