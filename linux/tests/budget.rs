//! What the verifier has to look at in the guard's programs stays within the committed budget.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

#[path = "budget/mod.rs"]
mod committed;

use std::collections::BTreeMap;

use ackgate_control::gate::Config;
use ackgate_linux::datapath::{Datapath, Take};
use ackgate_linux::host::{HostPath, Task};
use ackgate_linux::load::Verified;
use ackgate_linux::{Selection, m21, privilege};

#[test]
fn no_program_grows_unseen() {
    if let Err(error) = privilege::require() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let rule = |text: &str| vec![text.parse().expect("it is a rule")];
    let selection = Selection { exclude: rule("port 22"), include: rule("10.0.0.0/8") };
    // Settings are constants to the verifier: each guard and each way to take a frame is another program.
    let mut most: BTreeMap<String, u32> = BTreeMap::new();
    for config in [Config::credit(96 << 10), Config::new(96 << 10)] {
        for take in [Take::Stolen, Take::Vanish, Take::Redirect(1), Take::Queue] {
            for Verified { name, instructions } in Datapath::load_for(&config, take, &selection).unwrap().programs() {
                let known = most.entry(name.clone()).or_default();
                *known = (*known).max(*instructions);
            }
        }
    }
    for host in [Task::whole(1), Task { ingress: false, probes: false, clsact: true, device: 1 }] {
        for Verified { name, instructions } in HostPath::load(host).unwrap().programs() {
            let known = most.entry(name.clone()).or_default();
            *known = (*known).max(*instructions);
        }
    }
    most.extend(m21::verify().unwrap().into_iter().map(|Verified { name, instructions }| (name, instructions)));
    let programs: Vec<Verified> =
        most.into_iter().map(|(name, instructions)| Verified { name, instructions }).collect();
    committed::hold(&programs);
}
