//! The flows of a run, one by one, as CSV or columns: for distributions that percentiles do not show.

use std::fmt::Write;

use ackgate_control::units::{Span, Time};

use super::frame::{Data, Frame};
use crate::observer::{Flow, Observer};

/// Column names. The first three are those of a flow arrival trace.
const HEADER: &str = "start_us,sender,bytes,flow_ms,round,group";

/// Records every flow of finite length as it is completed.
#[derive(Clone, Debug, Default)]
pub struct Flows(Vec<(Time, Flow)>);

impl Flows {
    /// One line for each flow, in the order of their ends. Times begin with the run, `round` is empty where there are
    /// none, and `group` is `main` or the number of a background group.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (end, flow) in &self.0 {
            let start = Span(end.0.saturating_sub(flow.took.0));
            let round = flow.round.map_or_else(String::new, |round| round.to_string());
            let group = group(flow);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{round},{group}",
                decimal(start, 1_000),
                flow.sender,
                flow.bytes,
                decimal(flow.took, 1_000_000)
            );
        }
        text
    }
}

impl Flows {
    /// The same as typed columns, so many flows at a time; one frame without rows when there are none.
    pub fn frames(&self, rows: usize) -> impl Iterator<Item = Frame> {
        let none: &[(Time, Flow)] = &[];
        self.0.chunks(rows.max(1)).chain(self.0.is_empty().then_some(none)).map(frame)
    }
}

/// Flows with the times of their ends as typed columns.
#[must_use]
pub fn frame(flows: &[(Time, Flow)]) -> Frame {
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
    let float = |nanos: u64, unit: f64| nanos as f64 / unit;
    let start = |(end, flow): &(Time, Flow)| float(end.0.saturating_sub(flow.took.0), 1e3);
    let mut frame = Frame::default();
    frame.add("start_us", Data::Float(flows.iter().map(start).collect()));
    frame.add("sender", Data::Unsigned(flows.iter().map(|(_, flow)| flow.sender.into()).collect()));
    frame.add("bytes", Data::Unsigned(flows.iter().map(|(_, flow)| flow.bytes).collect()));
    frame.add("flow_ms", Data::Float(flows.iter().map(|(_, flow)| float(flow.took.0, 1e6)).collect()));
    frame.add("round", Data::Number(flows.iter().map(|(_, flow)| flow.round).collect()));
    frame.add("group", Data::Text(flows.iter().map(|(_, flow)| group(flow)).collect()));
    frame
}

/// Whose flow it is: `main`, or the number of a background group.
fn group(flow: &Flow) -> String {
    flow.background.map_or_else(|| "main".into(), |group| group.to_string())
}

impl Observer for Flows {
    fn flow_ends(&mut self, now: Time, flow: &Flow) {
        self.0.push((now, *flow));
    }
}

/// A time in a unit of so many nanoseconds, exactly.
fn decimal(span: Span, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", span.0 / unit, span.0 % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Document, Scenario};

    fn flows(text: &str) -> Vec<Vec<String>> {
        let scenario: Scenario = Document::parse("x.toml", text).and_then(|document| document.scenario()).unwrap();
        let mut flows = Flows::default();
        let report = crate::run(&scenario, &mut flows).unwrap();
        let csv = flows.csv();
        let mut lines = csv.lines();
        assert_eq!(lines.next(), Some(HEADER));
        let rows: Vec<Vec<String>> = lines.map(|line| line.split(',').map(str::to_owned).collect()).collect();
        // The report's percentiles are of these flows.
        let longest = rows.iter().filter(|row| row[5] == "main").map(|row| row[3].parse::<f64>().unwrap());
        assert!((longest.fold(0.0, f64::max) - report.flow_ms.max).abs() < 0.002, "{}", report.flow_ms.max);
        rows
    }

    #[test]
    fn each_sender_has_a_flow_in_each_round() {
        let rows = flows("senders = 3\nrounds = 2\nworkload = { volume = \"10KB\" }");
        assert_eq!(rows.len(), 6);
        let mut who: Vec<(&str, &str)> = rows.iter().map(|row| (row[4].as_str(), row[1].as_str())).collect();
        who.sort_unstable();
        assert_eq!(who, [("1", "0"), ("1", "1"), ("1", "2"), ("2", "0"), ("2", "1"), ("2", "2")]);
        assert!(rows.iter().all(|row| row[2] == "10000" && row[5] == "main"));
    }

    #[test]
    fn epochs_and_background_traffic_are_told_apart() {
        let rows = flows(
            "senders = 2\nworkload = { kind = \"epochs\", epochs = 3 }\n[[background]]\nsenders = 2\n\
             workload = { kind = \"epochs\", epochs = 2, size = \"5KB\" }",
        );
        let count = |group: &str, round: &str| rows.iter().filter(|row| row[5] == group && row[4] == round).count();
        assert_eq!((count("main", "1"), count("main", "3"), count("0", "2"), rows.len()), (2, 2, 2, 10));
    }

    #[test]
    fn columns_are_the_lines() {
        let document = Document::parse("x.toml", "senders = 3\nrounds = 4\nworkload = { volume = \"3KB\" }");
        let mut flows = Flows::default();
        crate::run(&document.and_then(|document| document.scenario()).unwrap(), &mut flows).unwrap();
        let lines = flows.csv().lines().count() - 1;
        let frames: Vec<Frame> = flows.frames(5).collect();
        assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [5, 5, 2]);
        assert_eq!(lines, 12);
        let names: Vec<&str> = frames[0].columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names.join(","), HEADER);
        assert_eq!(Flows::default().frames(5).map(|frame| frame.columns.len()).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(decimal(Span(1_234_567), 1_000), "1234.567");
        assert_eq!(decimal(Span(5_000_000), 1_000_000), "5");
        assert_eq!(decimal(Span(42), 1_000), "0.042");
    }
}
