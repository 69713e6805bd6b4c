//! The kernel's figures for people (a table for a terminal, a page of Markdown) and for programs (JSON).

use std::fmt::Write;
use std::sync::Arc;

use ackgate_sim::output::table::table;
use serde_json::{Value, json};

use super::experiment::{Experiment, Shown};
use super::outcome::{Outcome, Said, Told, Witness};
use crate::headlines::book::Book;
use crate::headlines::figures::{Figures, Row};
use crate::headlines::formula::Formula;
use crate::headlines::report::each_part;
use crate::headlines::verdict::Verdict;

/// How it was measured; stands on the page.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The command that makes the same again.
    pub command: String,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Rate of the link that stood for the paper's, in Mb/s.
    pub rate_mbps: f64,
    /// Kernel and processors.
    pub machine: String,
    /// Largest share of the processors' time that others took at any look between experiments, 0 to 1.
    pub others: f64,
    /// Share of the processors' time that the hypervisor took away, 0 to 1.
    pub stolen: f64,
    /// Time that it took, in seconds.
    pub seconds: f64,
    /// Whether it was stopped before the last experiment was complete.
    pub stopped: bool,
}

/// What was measured, as tables of Markdown.
#[must_use]
pub fn tables(outcome: &Outcome) -> String {
    outcome.measured().map(|experiment| section(outcome, experiment)).collect::<String>() + "\n"
}

/// The board as a table for a terminal.
#[must_use]
pub fn board(outcome: &Outcome) -> String {
    let rows: Vec<Vec<String>> = outcome.told().iter().flat_map(rows).map(Vec::from).collect();
    table(&HEAD.map(str::to_owned), &rows)
}

/// The board's columns.
const HEAD: [&str; 5] = ["headline", "paper", "measured on", "verdict", "figures"];

/// What each witness says of a headline, a row each.
fn rows(told: &Told<'_>) -> [[String; 5]; 2] {
    let [kernel, simulator] = &told.said;
    let figures = |said: &Said| each_part(&said.parts).join("; ");
    let (id, paper) = (told.headline.id.clone(), told.headline.paper.clone());
    [
        [id, paper, "kernel".into(), verdict(kernel), figures(kernel)],
        [String::new(), String::new(), "simulator".into(), verdict(simulator), figures(simulator)],
    ]
}

fn verdict(said: &Said) -> String {
    let mut text = said.verdict.text().to_owned();
    if matches!(said.verdict, Verdict::Undecided | Verdict::Cannot) && said.direction {
        text += "; direction holds";
    }
    if !said.missing.is_empty() {
        text += &format!("; ({}) not measured", said.missing.join("), ("));
    }
    text
}

/// A page of Markdown.
#[must_use]
pub fn markdown(outcome: &Outcome, how: &Circumstances) -> String {
    let mut text = String::from("# The papers' figures on a real kernel\n\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Written by `{}`; do not edit by hand. {}, {:.0} s.{}\n",
        how.command,
        how.machine,
        how.seconds,
        if how.quick { " **A quick run**: few rounds, few points." } else { "" }
    );
    if how.others > 0.1 {
        let _ = writeln!(
            text,
            "**Between experiments other programs used up to {:.0} % of the processor time: the kernel's goodput is lower than on an idle machine.**\n",
            100.0 * how.others
        );
    }
    if how.stolen > 0.02 {
        let _ = writeln!(
            text,
            "**The hypervisor withheld {:.0} % of the processor time: goodput at single points is too low.**\n",
            100.0 * how.stolen
        );
    }
    if how.stopped {
        let there: Vec<&str> = outcome.measured().map(|one| one.id.as_str()).collect();
        let wanted = outcome.plan.experiments.iter().filter(|one| !(how.quick && one.slow));
        let missing: Vec<&str> = wanted.map(|one| one.id.as_str()).filter(|id| !there.contains(id)).collect();
        let _ = writeln!(
            text,
            "**The run was stopped. These experiments were not finished and are not listed: {}.**\n",
            missing.join(", ")
        );
    }
    text += &preface(how.rate_mbps);
    let _ = writeln!(text, "## Verdicts\n\n| {} |\n|---|---|---|---|---|", HEAD.join(" | "));
    for row in outcome.told().iter().flat_map(rows) {
        let _ = writeln!(text, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    for experiment in outcome.measured() {
        text += &section(outcome, experiment);
    }
    text
}

fn preface(rate: f64) -> String {
    format!(
        "One machine reliably carries {rate:.0} Mb/s, so that is the link rate here, and the papers' networks are scaled in time: \
         every rate is divided by paper's rate / {rate:.0} Mb/s (5 for 1 Gb/s at 200 Mb/s), every time in the settings is multiplied by \
         it (round-trip time, RTOmin, maximum hold), buffers and volumes are unchanged. Results are converted back to the paper's rate: rates are \
         multiplied, times divided. The rules of the headlines ([reproduction.md](reproduction.md)) therefore apply unchanged, and the same code evaluates them.\n\n\
         - A seed is a tenth of a point's rounds, or one run where a point is run several times. Points cover fewer values of x than the rules' grids; rules over a range of x use those.\n\
         - The simulator runs the same settings, scaled in the same way, with ten seeds.\n\
         - The kernel's tail loss probes and RACK are disabled where the paper's TCP had none (`tcp_early_retrans`, `tcp_recovery`); SACK, timestamps, slow start after \
         idle, initial window and RTOmin are as in the setting.\n\
         - Always different from the papers: timers tick every 4 ms (HZ 250), 0.8 ms after conversion; the timeout before the first RTT \
         sample is 1 s, 200 ms after conversion; SYNs are never ECN-capable; DCTCP's minimum window is 2 segments, not 3; one machine runs all hosts and the switch.\n\n"
    )
}

fn section(outcome: &Outcome, experiment: &Experiment) -> String {
    let mut text = format!("\n## {}: {}\n\n", experiment.names_told(), experiment.title);
    let of = |witness| outcome.of_experiment(witness, experiment);
    let (kernel, simulator) = (of(Witness::Kernel), of(Witness::Simulator));
    for shown in &experiment.show {
        text += &figure(experiment, shown, &kernel, &simulator, outcome);
    }
    if text.contains(INCOMPLETE) {
        let _ = writeln!(
            text,
            "\\{INCOMPLETE} Affected by the machine: a round did not finish in time and is left out, or the machine itself dropped frames.\n"
        );
    }
    for different in &experiment.differs {
        let _ = writeln!(text, "- Different from the paper: {different}.");
    }
    if !experiment.why.is_empty() {
        let _ = writeln!(text, "\n{}", experiment.why);
    }
    text
}

/// One quantity by x: each curve on the kernel, and beside it in the simulator.
fn figure(experiment: &Experiment, shown: &Shown, kernel: &Figures, simulator: &Figures, outcome: &Outcome) -> String {
    let book = outcome.plan.book(experiment);
    let curves: Vec<&String> = experiment.curves.iter().filter(|name| kernel.curves.contains_key(*name)).collect();
    let mut xs: Vec<f64> = curves.iter().flat_map(|name| kernel.curves[*name].xs.clone()).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let axis = curves.first().and_then(|name| book.curve(name)).map_or("x", |(setting, _)| setting.x.label.as_str());
    let mut text = format!("| {axis} |");
    for name in &curves {
        let _ = write!(text, " {}: {} | simulated |", label(experiment, book, name), shown.label);
    }
    let _ = writeln!(text, "\n|--:|{}", "--:|--:|".repeat(curves.len()));
    for x in xs {
        let _ = write!(text, "| {x} |");
        for name in &curves {
            for figures in [kernel, simulator] {
                let mark = if incomplete(figures, name, x) { format!("\\{INCOMPLETE}") } else { String::new() };
                let _ = write!(text, " {}{mark} |", value(figures, &shown.metric, name, x, shown.decimals));
            }
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// What a curve is called; with its setting's name where there are others.
fn label(experiment: &Experiment, book: &Book, name: &str) -> String {
    let Some((setting, series)) = book.curve(name) else { return name.to_owned() };
    let others = experiment.curves.iter().any(|other| !other.starts_with(&format!("{}.", setting.name)));
    if others { format!("{} ({})", series.label, setting.name) } else { series.label.clone() }
}

/// Stands behind a figure of runs that were not whole.
const INCOMPLETE: char = '*';

/// Whether rounds were missing in the runs at an x of a curve, or the machine itself lost frames.
fn incomplete(figures: &Figures, curve: &str, x: f64) -> bool {
    let of = |column: &str| {
        figures.curves.get(curve).is_some_and(|curve| {
            let here = curve.xs.iter().zip(&curve.rows).filter(|(at, _)| **at == x);
            here.flat_map(|(_, rows)| rows).any(|row| row.get(column).is_some_and(|count| *count > 0.0))
        })
    };
    of("rounds_missing") || of("backlog_drops")
}

/// A mean at an x of a curve, and half the width of its interval; a dash where it was not measured.
fn value(figures: &Figures, metric: &str, curve: &str, x: f64, decimals: usize) -> String {
    let known = figures.curves.get(curve).is_some_and(|curve| curve.xs.contains(&x));
    let measured = Formula::parse(&format!("{metric}({curve}, {x})")).ok().filter(|_| known);
    let Some(measured) = measured.map(|formula| figures.measure(&formula, &[x])[0]) else { return "–".into() };
    if measured.seeds == 0 {
        return "none".into();
    }
    let half = (measured.interval.high - measured.interval.low) / 2.0;
    match (measured.value.is_nan(), half.is_finite() && half > 0.0) {
        (true, _) => "–".into(),
        (false, true) => format!("{:.decimals$} ±{half:.decimals$}", measured.value),
        (false, false) => format!("{:.decimals$}", measured.value),
    }
}

/// Everything as one object.
#[must_use]
pub fn json(outcome: &Outcome, how: &Circumstances) -> Value {
    let told = outcome.told();
    let headlines = told.iter().map(|told| {
        let said = |said: &Said| {
            json!({ "verdict": said.verdict.text(), "direction": said.direction, "missing": said.missing, "figures": each_part(&said.parts) })
        };
        json!({ "id": told.headline.id, "paper": told.headline.paper, "kernel": said(&told.said[0]), "simulator": said(&told.said[1]) })
    });
    let curves = |witness: Witness| -> Value {
        let curves = outcome.figures(witness).curves.iter();
        curves
            .map(|(name, curve)| (name.clone(), points(&curve.xs, &curve.rows)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "command": how.command, "quick": how.quick, "rate_mbps": how.rate_mbps, "machine": how.machine, "others": how.others,
        "stolen": how.stolen, "stopped": how.stopped,
        "seconds": how.seconds, "headlines": headlines.collect::<Vec<_>>(),
        "kernel": curves(Witness::Kernel), "simulator": curves(Witness::Simulator),
    })
}

fn points(xs: &[f64], rows: &[Vec<Arc<Row>>]) -> Value {
    let each = xs.iter().zip(rows).map(|(x, rows)| {
        let rows: Vec<_> = rows.iter().map(Arc::as_ref).collect();
        json!({ "x": x, "seeds": rows })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::experiment::Plan;
    use super::*;

    #[test]
    fn a_point_without_rows_says_none_and_one_with_rounds_missing_is_marked() {
        let mut outcome = Outcome::new(Plan::all().unwrap_or_else(|error| panic!("{error}")));
        let experiment =
            outcome.plan.experiments.iter().find(|one| one.id == "PAC-F7").cloned().unwrap_or_else(|| panic!("PAC-F7"));
        let points = outcome.plan.points(&experiment, false, 200_000_000).unwrap_or_else(|error| panic!("{error}"));
        let curve = &points[0].curve;
        let of: Vec<_> = points.iter().filter(|point| point.curve == *curve).take(3).collect();
        let rows = |missing: f64| {
            let row =
                [("round_goodput_mbps", 777.0), ("goodput_mbps", 777.0), ("rounds", 9.0), ("rounds_missing", missing)];
            vec![row.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Row>(); 10]
        };
        outcome.add(Witness::Kernel, of[0], rows(0.0));
        outcome.add(Witness::Kernel, of[1], rows(1.0));
        outcome.add(Witness::Kernel, of[2], Vec::new());
        let text = tables(&outcome);
        let cell = |x: f64| {
            let line = text.lines().find(|line| line.starts_with(&format!("| {x} |")) && line.contains("777"));
            line.map(|line| line.split('|').nth(2).unwrap_or_default().trim().to_owned())
        };
        assert_eq!(cell(of[0].x).as_deref(), Some("777"));
        assert_eq!(cell(of[1].x).as_deref(), Some("777\\*"));
        assert!(text.contains("| none |"), "{text}");
    }

    #[test]
    fn a_page_says_what_kept_it_from_being_whole() {
        let plan = Plan::all().unwrap_or_else(|error| panic!("{error}"));
        let plan = plan.named(&["PAC-F2".into(), "PAC-F3".into()]).unwrap_or_else(|problem| panic!("{problem}"));
        let mut outcome = Outcome::new(plan);
        let points = outcome.plan.points(&outcome.plan.experiments[0], false, 200_000_000);
        outcome.add(Witness::Kernel, &points.unwrap_or_else(|error| panic!("{error}"))[0], Vec::new());
        let how = Circumstances {
            command: "again".into(),
            quick: false,
            rate_mbps: 200.0,
            machine: "this".into(),
            others: 0.0,
            stolen: 0.03,
            seconds: 1.0,
            stopped: true,
        };
        let page = markdown(&outcome, &how);
        assert!(page.contains("These experiments were not finished and are not listed: PAC-F3."), "{page}");
        assert!(page.contains("withheld 3 % of the processor time"), "{page}");
        let page = markdown(&outcome, &Circumstances { stolen: 0.0, stopped: false, ..how });
        assert!(!page.contains("The run was stopped") && !page.contains("hypervisor"), "{page}");
    }
}
