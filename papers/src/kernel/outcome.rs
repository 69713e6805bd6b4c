//! What was measured on the kernel and what the simulator has, held against the headlines' rules by the headlines' reader.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::experiment::{Experiment, Plan, Point};
use crate::headlines::book::{Book, Headline};
use crate::headlines::figures::{Curve, Figures, Metric, Row};
use crate::headlines::rule::Rule;
use crate::headlines::verdict::{Held, Judgement, Verdict};

/// Who has figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    /// The real kernel.
    Kernel,
    /// The simulator, at the same settings.
    Simulator,
}

impl Witness {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Kernel, Self::Simulator];
}

/// All figures, as they come.
#[derive(Debug)]
pub struct Outcome {
    /// What was to be run.
    pub plan: Plan,
    kernel: Figures,
    simulator: Figures,
}

/// A headline before both witnesses.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// The headline.
    pub headline: &'a Headline,
    /// What each witness says.
    pub said: [Said; 2],
}

/// What a witness says of a headline.
#[derive(Clone, Debug)]
pub struct Said {
    /// What became of it.
    pub verdict: Verdict,
    /// Its parts.
    pub parts: Vec<Held>,
    /// Whether its direction is shown to hold, as far as it was measured.
    pub direction: bool,
    /// Parts, by their letters, that were not measured, not with all curves, or with too few seeds.
    pub missing: Vec<String>,
}

impl Outcome {
    /// Nothing yet.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self { plan, kernel: Figures::default(), simulator: Figures::default() }
    }

    /// The figures of a witness.
    #[must_use]
    pub const fn figures(&self, witness: Witness) -> &Figures {
        match witness {
            Witness::Kernel => &self.kernel,
            Witness::Simulator => &self.simulator,
        }
    }

    /// Adds a point, at the paper's rate; the points of a curve come in the order of their x. Without rows it was measured in vain.
    pub fn add(&mut self, witness: Witness, point: &Point, rows: Vec<Row>) {
        let figures = match witness {
            Witness::Kernel => &mut self.kernel,
            Witness::Simulator => &mut self.simulator,
        };
        let curve = figures
            .curves
            .entry(point.curve.clone())
            .or_insert_with(|| Curve { payload: point.payload, ..Curve::default() });
        curve.xs.push(point.x);
        curve.rows.push(rows.into_iter().map(Arc::new).collect());
    }

    /// The experiments of which something was measured.
    pub fn measured(&self) -> impl Iterator<Item = &Experiment> {
        self.plan.experiments.iter().filter(|one| one.curves.iter().any(|curve| self.kernel.curves.contains_key(curve)))
    }

    /// The headlines of those experiments, each once, judged.
    #[must_use]
    pub fn told(&self) -> Vec<Told<'_>> {
        let mut seen = BTreeSet::new();
        let ids = self.measured().flat_map(|experiment| &experiment.headlines);
        let found = ids.filter(|id| seen.insert(id.as_str())).filter_map(|id| self.plan.headline(id));
        found
            .map(|(book, headline)| {
                let said = Witness::BOTH.map(|witness| said(headline, &self.of(witness, book)));
                Told { headline, said }
            })
            .collect()
    }

    /// The figures of a witness with the names that an experiment's book gives them.
    #[must_use]
    pub fn of_experiment(&self, witness: Witness, experiment: &Experiment) -> Figures {
        self.of(witness, self.plan.book(experiment))
    }

    fn of(&self, witness: Witness, book: &Book) -> Figures {
        let mut figures = Figures::new(book.define.clone());
        let mine = |(name, _): &(&String, &Curve)| book.curve(name).is_some();
        let curves = self.figures(witness).curves.iter().filter(mine);
        figures.curves = curves.map(|(name, curve)| (name.clone(), curve.clone())).collect();
        figures
    }
}

/// Judges by the rules that can be held against what was measured. A headline whose main part (the first) was not measured
/// cannot be judged; one of whose main part something is missing is not reproduced.
fn said(headline: &Headline, figures: &Figures) -> Said {
    let (kept, left): (Vec<Rule>, Vec<Rule>) =
        headline.parts.iter().cloned().partition(|rule| measured(headline, rule, figures));
    let missing: BTreeSet<String> = left.into_iter().map(|rule| rule.name).collect();
    let main = headline.parts.first().map_or("", |rule| rule.name.as_str());
    let (some, part) = (kept.iter().any(|rule| rule.name == main), missing.contains(main));
    let direction: Vec<Rule> =
        headline.direction.iter().filter(|rule| measured(headline, rule, figures)).cloned().collect();
    let whole = direction.len() == headline.direction.len();
    let asked = Headline { parts: kept, direction, remarks: Vec::new(), ..headline.clone() };
    let judgement = Judgement::of(&asked, figures);
    let holds = whole && judgement.direction_holds();
    let verdict = match judgement.verdict {
        _ if !some => Verdict::Cannot,
        Verdict::Reproduced if part => Verdict::Undecided,
        // A direction of which something was not measured is not shown.
        Verdict::DirectionOnly if !whole => Verdict::Not,
        verdict => verdict,
    };
    Said { verdict, parts: judgement.parts, direction: holds, missing: missing.into_iter().collect() }
}

/// Whether there is all that a rule looks at, with enough seeds for intervals.
fn measured(headline: &Headline, rule: &Rule, figures: &Figures) -> bool {
    there(rule, figures) && {
        let alone =
            Headline { parts: vec![rule.clone()], direction: Vec::new(), remarks: Vec::new(), ..headline.clone() };
        let held = Judgement::of(&alone, figures).parts;
        // A stretch that begins or ends at what has no interval has no x.
        let some = held.iter().all(|held| !held.findings.is_empty());
        some && held.iter().flat_map(|held| &held.findings).all(|finding| !finding.measured.interval.low.is_nan())
    }
}

/// Whether there are the curves and columns that a rule names.
fn there(rule: &Rule, figures: &Figures) -> bool {
    let mut all = true;
    for formula in rule.formulas() {
        formula.visit(&mut |call| {
            all &= call.curves.iter().all(|name| {
                let rows = figures.curves.get(name).map(|curve| curve.rows.iter().flatten());
                let columns = match figures.define.get(&call.metric) {
                    _ if call.metric.is_empty() => Vec::new(),
                    Some(Metric::Share(one, other) | Metric::Sum(one, other)) => vec![one, other],
                    Some(Metric::Column(name)) => vec![name],
                    None => vec![&call.metric],
                };
                rows.is_some_and(|mut rows| rows.any(|row| columns.iter().all(|column| row.contains_key(*column))))
            });
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::motion::Motion;
    use ackgate_sim::scenario::Scenario;

    fn point(curve: &str, x: f64) -> Point {
        let scenario = Scenario::default();
        let motion = Motion::between(1, 1);
        let (curve, watch) = (curve.to_owned(), Vec::new());
        Point { curve, x, payload: 949.0, scenario, motion, watch, rounds: 1, runs: 1, limit_s: 1 }
    }

    fn rows(mbps: f64) -> Vec<Row> {
        let row = [("round_goodput_mbps", mbps), ("goodput_mbps", mbps), ("rounds", 4.0), ("rounds_with_timeout", 0.0)];
        vec![row.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(); 10]
    }

    fn told(curves: &[(&str, f64, f64)], id: &str) -> Said {
        let plan = Plan::all().unwrap_or_else(|error| panic!("{error}"));
        let mut outcome = Outcome::new(plan);
        for (curve, x, mbps) in curves {
            outcome.add(Witness::Kernel, &point(curve, *x), rows(*mbps));
        }
        let told = outcome.told();
        told.iter().find(|told| told.headline.id == id).unwrap_or_else(|| panic!("{id} is told")).said[0].clone()
    }

    #[test]
    fn parts_that_were_not_measured_are_left_out_but_for_the_main_one() {
        let pac = [("edge.pac", 10.0, 800.0), ("edge.pac", 36.0, 850.0), ("edge.pac", 100.0, 850.0)];
        assert_eq!(told(&pac, "PAC-H7").verdict, Verdict::Reproduced);
        let alone = told(&[("edge.ictcp", 10.0, 800.0), ("edge.ictcp", 44.0, 100.0)], "PAC-H8");
        assert_eq!((alone.verdict, alone.missing), (Verdict::Cannot, vec!["a".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn a_main_part_that_was_measured_against_some_of_the_rivals_leaves_it_undecided() {
        let star = |name: &'static str, few: f64, many: f64| [(name, 1.0, few), (name, 16.0, many), (name, 64.0, many)];
        let curves = [star("star.m21", 900.0, 900.0), star("star.droptail", 900.0, 100.0)].concat();
        let told = told(&curves, "M21-H7");
        assert_eq!((told.verdict, told.missing), (Verdict::Undecided, vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn what_has_too_few_seeds_for_an_interval_is_not_judged() {
        let mut outcome = Outcome::new(Plan::all().unwrap_or_else(|error| panic!("{error}")));
        for (x, mbps) in [(4.0, 900.0), (40.0, 100.0)] {
            outcome.add(Witness::Kernel, &point("edge.dctcp", x), rows(mbps)[..3].to_vec());
        }
        let told = outcome.told();
        let told = told.iter().find(|told| told.headline.id == "PAC-H8").unwrap_or_else(|| panic!("it is told"));
        assert_eq!(told.said[0].verdict, Verdict::Cannot);
    }

    #[test]
    fn what_holds_with_the_main_part_alone_is_reproduced_and_says_what_is_missing() {
        let told = told(&[("edge.pac", 10.0, 800.0), ("edge.pac", 100.0, 850.0)], "PAC-H10");
        assert_eq!((told.verdict, told.missing), (Verdict::Reproduced, vec!["b".to_owned()]));
        assert!(!told.direction, "DCTCP was not run");
    }
}
