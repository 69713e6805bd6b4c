//! What the verifier has to look at in the guard's programs stays within the committed budget, and their stacks within what older kernels
//! allow.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

#[path = "budget/mod.rs"]
mod committed;

use std::collections::BTreeMap;

use ackgate_control::gate::Config;
use ackgate_linux::datapath::{Datapath, Take};
use ackgate_linux::host::{HostPath, Task};
use ackgate_linux::load::{MOST_STACK, Verified};
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
    let mut most: BTreeMap<String, Verified> = BTreeMap::new();
    let mut note = |programs: &[Verified]| {
        for found in programs {
            let known = most.entry(found.name.clone()).or_insert_with(|| found.clone());
            known.instructions = known.instructions.max(found.instructions);
            known.stack = known.stack.max(found.stack);
        }
    };
    for config in [Config::credit(96 << 10), Config::new(96 << 10)] {
        for take in [Take::Stolen, Take::Vanish, Take::Redirect(1), Take::Queue] {
            note(Datapath::load_for(&config, take, &selection).unwrap().programs());
        }
    }
    for host in [Task::whole(1), Task { ingress: false, probes: false, clsact: true, device: 1 }] {
        note(HostPath::load(host).unwrap().programs());
    }
    note(&m21::verify().unwrap());
    let programs: Vec<Verified> = most.into_values().collect();
    // The kernel that runs here may take more than the oldest that is supported.
    for Verified { name, stack, .. } in &programs {
        assert!(*stack <= MOST_STACK, "`{name}`: Linux 6.1 refuses {stack} bytes of stack");
        if *stack == 0 {
            eprintln!("SKIPPED: the stack of `{name}`: the kernel does not show its instructions");
        }
    }
    committed::hold(&programs);
}
