//! What the verifier has to look at in the lab's programs stays within the committed budget.
//!
//! Needs root; says so and passes where it cannot run.

#[path = "../../linux/tests/budget/mod.rs"]
mod committed;

use ackgate_linux::privilege;

#[test]
fn no_program_grows_unseen() {
    if let Err(error) = privilege::require() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let programs = ackgate_lab::programs::verify().expect("this kernel takes the lab's programs");
    committed::hold(&programs);
}
