//! What several test programs need.

use ackgate_sim::observer::Nobody;
use ackgate_sim::report::Report;
use ackgate_sim::scenario::Document;

/// Runs a scenario that is given as text.
pub(crate) fn report(text: &str) -> Report {
    let scenario = Document::parse("test", text).and_then(|document| document.scenario()).expect(text);
    ackgate_sim::run(&scenario, &mut Nobody).expect("packets add up")
}
