//! Verdicts, their reasons and their history: for people (HTML, Markdown) and for programs (JSON).

mod drawing;
mod html;
mod json;
mod markdown;
mod readings;

use std::collections::BTreeMap;

use super::book::Book;
use super::figures::{Figures, Measured};
use super::formula::Formula;
use super::run::{Judged, Outcome, Outcomes, SEEDS};
use super::verdict::{Held, Stand, Verdict};
use crate::judge::number;
use ackgate_sim::output::table::table;

pub use drawing::drawing;
pub use html::page;
pub use json::json;
pub use markdown::markdown;

/// How the run was made; stands on the page.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The command that makes the same again.
    pub command: String,
    /// Identifies the program.
    pub build: String,
    /// Time that it took, in seconds.
    pub seconds: f64,
    /// Most memory that it took, in bytes; 0 when unknown.
    pub memory: u64,
}

/// How many headlines have each verdict, and how many have none since they were not run.
#[must_use]
pub fn counts(outcomes: &Outcomes) -> ([(Verdict, usize); 5], usize) {
    let of = |verdict: Verdict| all(outcomes).filter(|(_, judged)| verdict_of(judged) == Some(verdict)).count();
    let left = all(outcomes).filter(|(_, judged)| judged.judgement.is_none()).count();
    (Verdict::ALL.map(|verdict| (verdict, of(verdict))), left)
}

/// The counts in one sentence.
#[must_use]
pub fn summary(outcomes: &Outcomes) -> String {
    let (counts, left) = counts(outcomes);
    let told: Vec<String> = counts.iter().map(|(verdict, count)| format!("{count} {}", verdict.text())).collect();
    let total = all(outcomes).count();
    let rest = if left > 0 { format!("; {left} not run") } else { String::new() };
    format!("Of {total} headlines: {}{rest}.", told.join(", "))
}

/// Which programs the runs are from, in a sentence or two.
fn programs(outcomes: &Outcomes) -> String {
    let told = |builds: &BTreeMap<String, usize>| match builds.iter().collect::<Vec<_>>()[..] {
        [(build, _)] => format!("all of build {build}"),
        _ => builds.iter().map(|(build, count)| format!("{count} of build {build}")).collect::<Vec<_>>().join(", "),
    };
    let count = |builds: &BTreeMap<String, usize>| builds.values().sum::<usize>();
    let mut text = format!("{} runs that verdicts rest on: {}.", count(&outcomes.builds), told(&outcomes.builds));
    if !outcomes.added.is_empty() {
        text += &format!(" {} more for readings and experiments: {}.", count(&outcomes.added), told(&outcomes.added));
    }
    text
}

/// The board as a table for a terminal.
#[must_use]
pub fn board(outcomes: &Outcomes) -> String {
    let mut head = ["headline", "verdict", "paper", "ours"].map(str::to_owned).to_vec();
    let has_witnesses = has_witnesses(outcomes);
    head.extend(has_witnesses.then(|| "other simulator".to_owned()));
    let rows: Vec<Vec<String>> = all(outcomes)
        .map(|(paper, judged)| {
            let headline = &judged.headline;
            let mut row =
                vec![headline.id.clone(), told(&paper.book, judged), headline.paper.clone(), ours(judged).join("; ")];
            row.extend(has_witnesses.then(|| heard(judged)));
            row
        })
        .collect();
    table(&head, &rows)
}

/// Whether runs of other simulators have been judged, too.
fn has_witnesses(outcomes: &Outcomes) -> bool {
    all(outcomes).any(|(_, judged)| !judged.testimonies.is_empty())
}

/// The verdicts of other simulators' runs, and why there are no more.
fn heard(judged: &Judged) -> String {
    let told = |verdict: Verdict, witness: &str| format!("{witness}: {}", verdict.text());
    let mut all: Vec<String> = judged.testimonies.iter().map(|one| told(one.judgement.verdict, &one.witness)).collect();
    all.extend((!judged.headline.elsewhere.is_empty()).then(|| judged.headline.elsewhere.clone()));
    if all.is_empty() {
        return "not run".into();
    }
    all.join("; ")
}

fn all(outcomes: &Outcomes) -> impl Iterator<Item = (&Outcome, &Judged)> {
    outcomes.papers.iter().flat_map(|paper| paper.judged.iter().map(move |judged| (paper, judged)))
}

fn verdict_of(judged: &Judged) -> Option<Verdict> {
    judged.judgement.as_ref().map(|judgement| judgement.verdict)
}

/// The verdict with all that belongs to it: "(sim)", remarks, and what it depends on.
fn told(book: &Book, judged: &Judged) -> String {
    let Some(judgement) = &judged.judgement else { return "not run".into() };
    let mut text = judgement.verdict.text().to_owned();
    if judged.headline.sim && judgement.verdict != Verdict::Cannot {
        text += " (sim)";
    }
    if judgement.verdict == Verdict::Undecided {
        text += if judgement.direction_holds() { "; direction holds" } else { "; direction not shown" };
    }
    for remark in &judgement.remarks {
        text += &format!("; {remark}");
    }
    let told = |verdict: Verdict| {
        let names: Vec<String> = flips(book, judged)
            .filter(|(_, found)| *found == verdict)
            .map(|(number, _)| book.reading(number))
            .collect();
        (!names.is_empty()).then(|| format!("{} ({})", names.join(", "), verdict.text()))
    };
    let flips: Vec<String> = Verdict::ALL.into_iter().filter_map(told).collect();
    if !flips.is_empty() {
        text += &format!("; depends on {}", flips.join(", "));
    }
    text
}

/// The readings of what a paper leaves open that change a verdict, by their numbers in the book.
fn flips<'a>(book: &'a Book, judged: &'a Judged) -> impl Iterator<Item = (usize, Verdict)> {
    let verdict = verdict_of(judged);
    judged
        .otherwise
        .iter()
        .map(|(number, judgement)| (*number, judgement.verdict))
        .filter(move |(number, found)| !book.alternatives[*number].is_experiment() && Some(*found) != verdict)
}

/// What was measured of a part, with its interval: the x that decides.
fn measured(held: &Held, interval_told: bool) -> String {
    let Some(finding) = held.worst() else {
        return if held.lacks.is_empty() { "no such x".into() } else { "not run".into() };
    };
    let Measured { x, value, interval, seeds } = finding.measured;
    let place = if held.over_x { format!(" at {x}") } else { String::new() };
    let unit = if held.unit.is_empty() { String::new() } else { format!(" {}", held.unit) };
    let range = if !interval_told || interval.low == interval.high {
        String::new()
    } else {
        format!(" [{}, {}]", plain(interval.low), plain(interval.high))
    };
    let more = if seeds > SEEDS { format!(", {seeds} seeds") } else { String::new() };
    format!("{}{range}{unit}{place}{more}", plain(value))
}

/// A number, or that there is none.
fn plain(value: f64) -> String {
    if value == f64::INFINITY {
        "none".into()
    } else if value.is_nan() {
        "?".into()
    } else {
        number(value)
    }
}

/// Each part of a headline in one line.
fn ours(judged: &Judged) -> Vec<String> {
    judged.judgement.as_ref().map_or_else(Vec::new, |judgement| each_part(&judgement.parts))
}

/// A part with more figures of one unit than this has one interval for all: the widest, in percent.
const MOST_INTERVALS: usize = 4;

/// Each part in one line.
pub(crate) fn each_part(parts: &[Held]) -> Vec<String> {
    let parts = parts.chunk_by(|one, next| one.name == next.name);
    let told = |held: &[Held]| {
        let widest = if held.len() > MOST_INTERVALS { widest(held) } else { None };
        let each = held.iter().map(|one| measured(one, widest.is_none())).collect::<Vec<_>>().join(", ");
        each + &widest.map_or_else(String::new, |part| format!(" (each at most \u{b1} {} %)", number(100.0 * part)))
    };
    parts.map(|held| format!("({}) {}", held[0].name, told(held))).collect()
}

/// The farthest that an interval of any of these goes from its figure, as a part of it; `None` where their units differ.
fn widest(held: &[Held]) -> Option<f64> {
    if held.iter().any(|one| one.unit != held[0].unit) {
        return None;
    }
    let found = held.iter().filter_map(Held::worst).map(|finding| &finding.measured);
    let part = found.map(|one| (one.interval.high - one.value).max(one.value - one.interval.low) / one.value.abs());
    let most = part.fold(0.0, f64::max);
    (most.is_finite() && most > 0.0).then_some(most)
}

fn stand(stand: Stand) -> &'static str {
    match stand {
        Stand::Inside => "inside",
        Stand::Straddles => "includes a limit",
        Stand::Outside => "outside",
        Stand::Lacking => "not run",
    }
}

/// A metric of a curve with its interval at every x that was run.
fn curve(figures: &Figures, metric: &str, name: &str) -> Vec<Measured> {
    let Some(curve) = figures.curves.get(name) else { return Vec::new() };
    let Ok(formula) = Formula::parse(&format!("{metric}({name})")) else { return Vec::new() };
    figures.measure(&formula, &curve.xs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headlines::stats::Interval;
    use crate::headlines::verdict::Finding;

    #[test]
    fn a_report_says_which_program_made_each_run() {
        let of = |runs: &[(&str, usize)]| runs.iter().map(|&(build, count)| (build.to_owned(), count)).collect();
        let outcomes = |builds, added| Outcomes { papers: vec![], builds: of(builds), added: of(added) };
        assert_eq!(programs(&outcomes(&[("1", 70)], &[])), "70 runs that verdicts rest on: all of build 1.");
        let told = programs(&outcomes(&[("1", 60), ("2", 10)], &[("1", 5)]));
        assert!(told.contains("70 runs that verdicts rest on: 60 of build 1, 10 of build 2."), "{told}");
        assert!(told.contains("5 more for readings and experiments: all of build 1."), "{told}");
    }

    fn held(value: f64, half: f64, unit: &str) -> Held {
        let interval = Interval { low: value - half, high: value + half };
        let measured = Measured { x: 1.0, value, interval, seeds: 10 };
        let finding = Finding { measured, accepted: (0.0, 1e9), stand: Stand::Inside };
        Held {
            name: "b".into(),
            text: String::new(),
            unit: unit.into(),
            over_x: false,
            findings: vec![finding],
            lacks: vec![],
            stand: Stand::Inside,
        }
    }

    #[test]
    fn many_figures_of_one_unit_have_one_interval_the_widest() {
        let of = |parts: &[(f64, f64, &str)]| {
            each_part(&parts.iter().map(|&(value, half, unit)| held(value, half, unit)).collect::<Vec<_>>())
        };
        let four = [(1.0, 0.5, ""), (2.0, 0.25, ""), (3.0, 0.0, ""), (4.0, 0.25, "")];
        assert_eq!(of(&four), ["(b) 1.00 [0.500, 1.50], 2.00 [1.75, 2.25], 3.00, 4.00 [3.75, 4.25]"]);
        let five = [four.as_slice(), &[(0.01, 0.001, "")]].concat();
        assert_eq!(of(&five), ["(b) 1.00, 2.00, 3.00, 4.00, 0.010 (each at most \u{b1} 50.0 %)"]);
        let mixed = [four.as_slice(), &[(4.0, 0.25, "ms")]].concat();
        assert!(of(&mixed)[0].contains("4.00 [3.75, 4.25] ms"), "{:?}", of(&mixed));
    }
}
