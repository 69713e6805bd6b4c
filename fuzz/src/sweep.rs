//! What a sweep finds on the disk: its result file, rows of tasks, plans, traffic files. The first byte says which.

use std::sync::OnceLock;

use ackgate_sim::scenario::{Document, parse_traffic};
use ackgate_sim::sweep::folder::{Rows, Tasks};
use ackgate_sim::sweep::{Output, Plan, Vary};

/// Reads one file.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match (kind, std::str::from_utf8(rest)) {
        (b'r', _) => {
            let mut output = Output::new(plan(), &plan().points, true, false);
            if output.take_over("fuzz.csv", rest).is_ok_and(|whole| whole > 0) {
                assert!(output.rows().len() <= plan().points.len() && !output.csv().is_empty());
                let _ = output.json();
            }
        }
        (b's', Ok(text)) => {
            let mut rows = Rows::default();
            rows.take(1, text);
            assert!(rows.len() + rows.damaged + rows.repeated + rows.conflicts.len() <= text.lines().count());
        }
        (b'p', Ok(text)) => {
            if let Ok(tasks) = Tasks::read(text, "plan.json", "build") {
                assert_eq!(
                    Tasks::read(&tasks.text(), "plan.json", "build").expect("what we write").text(),
                    tasks.text()
                );
            }
        }
        (b't', Ok(text)) => {
            if let Ok(flows) = parse_traffic(text) {
                assert!(!flows.is_empty() && flows.iter().all(|(line, flow)| *line > 1 && flow.bytes > 0));
            }
        }
        _ => {}
    }
}

/// A sweep of two points.
fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let document = Document::parse("empty.toml", "").expect("nothing is a scenario");
        let vary = Vary::parse("senders=1,2").expect("a list");
        Plan::new(&document, &[vary], 1).expect("two points")
    })
}
