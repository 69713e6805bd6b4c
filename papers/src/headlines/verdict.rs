//! How a headline is held against the figures: one reader for all rules.

use std::collections::BTreeSet;

use serde::Serialize;

use super::book::Headline;
use super::figures::{Cell, Figures, Measured, Sample};
use super::formula::Formula;
use super::rule::{Rule, Stretch};
use super::run::SEEDS;

/// What became of a headline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Verdict {
    /// The interval of every part lies inside what is accepted.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// Some part lies outside, but the direction holds.
    #[serde(rename = "direction only")]
    DirectionOnly,
    /// Nothing lies wholly outside, but some interval straddles a limit.
    #[serde(rename = "undecided")]
    Undecided,
    /// Some part lies outside, and the direction is not shown to hold.
    #[serde(rename = "not reproduced")]
    Not,
    /// What is needed is missing.
    #[serde(rename = "cannot be judged")]
    Cannot,
}

impl Verdict {
    /// All, in the order in which they are counted.
    pub const ALL: [Self; 5] = [Self::Reproduced, Self::DirectionOnly, Self::Undecided, Self::Not, Self::Cannot];

    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::DirectionOnly => "direction only",
            Self::Undecided => "undecided",
            Self::Not => "not reproduced",
            Self::Cannot => "cannot be judged",
        }
    }
}

/// Where an interval lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stand {
    /// Wholly inside what is accepted.
    Inside,
    /// On a limit.
    Straddles,
    /// Wholly outside, or not measured.
    Outside,
    /// Not outside where it was run, and not run everywhere.
    Lacking,
}

/// A rule at one x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// What was measured.
    pub measured: Measured,
    /// What is accepted.
    pub accepted: (f64, f64),
    /// Where it lies.
    pub stand: Stand,
}

/// A rule over all its x.
#[derive(Clone, Debug)]
pub struct Held {
    /// The part's letter.
    pub name: String,
    /// The rule as it was written.
    pub text: String,
    /// Unit of what was measured.
    pub unit: String,
    /// Whether it goes through x.
    pub over_x: bool,
    /// By x.
    pub findings: Vec<Finding>,
    /// The runs that it needs and that there are not: no finding rests on them.
    pub lacks: Vec<Cell>,
    /// The worst of them.
    pub stand: Stand,
}

/// A verdict with all that it rests on.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What became of the headline.
    pub verdict: Verdict,
    /// Its parts.
    pub parts: Vec<Held>,
    /// What the direction rests on.
    pub direction: Vec<Held>,
    /// What the verdict adds.
    pub remarks: Vec<String>,
    /// The runs that parts and direction need and that there are not.
    pub lacks: Vec<Cell>,
}

impl Held {
    /// The finding that decides: one outside, else one that straddles, else the one nearest to a limit.
    #[must_use]
    pub fn worst(&self) -> Option<&Finding> {
        let room = |finding: &Finding| {
            let (low, high) = finding.accepted;
            let interval = finding.measured.interval;
            ((interval.low - low) / scale(low)).min((high - interval.high) / scale(high))
        };
        let of = |stand: Stand| self.findings.iter().filter(move |finding| finding.stand == stand);
        let nearest = |stand: Stand| of(stand).min_by(|a, b| room(a).total_cmp(&room(b)));
        nearest(Stand::Outside).or_else(|| nearest(Stand::Straddles)).or_else(|| nearest(Stand::Inside))
    }
}

fn scale(limit: f64) -> f64 {
    if limit == 0.0 { 1.0 } else { limit.abs() }
}

impl Judgement {
    /// Judges a headline.
    #[must_use]
    pub fn of(headline: &Headline, figures: &Figures) -> Self {
        let hold = |rules: &[Rule]| -> Vec<Held> { rules.iter().map(|rule| held(rule, figures)).collect() };
        let (parts, direction) = (hold(&headline.parts), hold(&headline.direction));
        let remarks = headline
            .remarks
            .iter()
            .filter(|(rules, _)| together(&hold(rules)) != Stand::Inside)
            .map(|(_, say)| say.clone())
            .collect();
        let verdict = match (together(&parts), together(&direction)) {
            _ if !headline.cannot.is_empty() => Verdict::Cannot,
            (Stand::Outside, Stand::Inside) => Verdict::DirectionOnly,
            (Stand::Outside, Stand::Outside | Stand::Straddles) => Verdict::Not,
            (Stand::Outside | Stand::Lacking, _) => Verdict::Cannot,
            (Stand::Inside, _) => Verdict::Reproduced,
            (Stand::Straddles, _) => Verdict::Undecided,
        };
        let mut lacks: Vec<Cell> = parts.iter().chain(&direction).flat_map(|held| held.lacks.clone()).collect();
        lacks.sort();
        lacks.dedup();
        Self { verdict, parts, direction, remarks, lacks }
    }

    /// Whether the direction is shown to hold.
    #[must_use]
    pub fn direction_holds(&self) -> bool {
        together(&self.direction) == Stand::Inside
    }
}

/// The runs that more seeds would help: those of rules that straddle a limit.
#[must_use]
pub fn straddling(headline: &Headline, figures: &Figures) -> Vec<Cell> {
    let mut cells = Vec::new();
    for rule in headline.rules() {
        for finding in held(rule, figures).findings {
            if finding.stand == Stand::Straddles {
                cells.extend(figures.touched(&rule.of, finding.measured.x));
            }
        }
    }
    cells.sort();
    cells.dedup();
    cells
}

/// The runs that a headline's rules look at. Where a rule looks depends on what was measured: then it is the whole curve.
#[must_use]
pub fn needed(headline: &Headline, figures: &Figures) -> BTreeSet<Cell> {
    let mut cells = BTreeSet::new();
    for rule in headline.rules() {
        let measured =
            rule.at.iter().flat_map(Stretch::formulas).flat_map(|formula| figures.touched(formula, f64::NAN));
        let measured: Vec<Cell> = measured.collect();
        let xs = if measured.is_empty() { xs(rule, figures) } else { figures.xs(&rule.of) };
        cells.extend(measured);
        for formula in [&rule.of, &rule.accepted.low, &rule.accepted.high] {
            cells.extend(xs.iter().flat_map(|x| figures.touched(formula, *x)));
        }
    }
    cells
}

/// Where a rule looks; not a number where it looks at no x.
fn xs(rule: &Rule, figures: &Figures) -> Vec<f64> {
    let whole = Sample::whole(figures);
    match &rule.at {
        None => vec![f64::NAN],
        Some(Stretch::List(list)) => list.iter().map(|x| whole.value(x, f64::NAN)).collect(),
        Some(Stretch::From(from, to, open)) => {
            let (from, to) = (whole.value(from, f64::NAN), whole.value(to, f64::NAN));
            let within = |x: &f64| *x >= from && if *open { *x < to } else { *x <= to };
            figures.xs(&rule.of).into_iter().filter(within).collect()
        }
    }
}

/// The worst of several; nothing at all is outside.
fn together(all: &[Held]) -> Stand {
    worst(all.iter().map(|held| held.stand))
}

fn worst(all: impl Iterator<Item = Stand>) -> Stand {
    let first = [Stand::Outside, Stand::Lacking, Stand::Straddles, Stand::Inside];
    let rank = |stand: &Stand| first.iter().position(|known| known == stand);
    all.min_by_key(rank).unwrap_or(Stand::Outside)
}

/// Holds one rule against the figures.
fn held(rule: &Rule, figures: &Figures) -> Held {
    let whole = Sample::whole(figures);
    let lacking = |formulas: &[&Formula], x: f64| -> Vec<Cell> {
        formulas.iter().flat_map(|formula| figures.lacking(formula, x, SEEDS)).collect()
    };
    let (name, text, unit, over_x) = (rule.name.clone(), rule.text.clone(), rule.unit.clone(), rule.at.is_some());
    let of_x = rule.at.as_ref().map_or_else(Vec::new, |at| lacking(&at.formulas(), f64::NAN));
    if !of_x.is_empty() {
        return Held { name, text, unit, over_x, findings: Vec::new(), lacks: of_x, stand: Stand::Lacking };
    }
    let mut lacks = Vec::new();
    let run = xs(rule, figures).into_iter().filter(|x| {
        let missing = lacking(&[&rule.of, &rule.accepted.low, &rule.accepted.high], *x);
        lacks.extend_from_slice(&missing);
        missing.is_empty()
    });
    let xs: Vec<f64> = run.collect();
    let findings: Vec<Finding> = figures
        .measure(&rule.of, &xs)
        .into_iter()
        .map(|measured| {
            let accepted = (whole.value(&rule.accepted.low, measured.x), whole.value(&rule.accepted.high, measured.x));
            Finding { measured, accepted, stand: stand(&measured, accepted, rule.accepted.open) }
        })
        .collect();
    let lacking = (!lacks.is_empty()).then_some(Stand::Lacking);
    let stand = worst(findings.iter().map(|finding| finding.stand).chain(lacking));
    Held { name, text, unit, over_x, findings, lacks, stand }
}

fn stand(measured: &Measured, (low, high): (f64, f64), open: bool) -> Stand {
    let found = measured.interval;
    if found.low.is_nan() || found.high.is_nan() || measured.value.is_nan() {
        return Stand::Outside;
    }
    let within = |value: f64| {
        let ends = low.is_infinite() && value == low || high.is_infinite() && value == high;
        if open { ends || (value > low && value < high) } else { value >= low && value <= high }
    };
    match (within(found.low), within(found.high)) {
        (true, true) => Stand::Inside,
        (false, false) if found.high <= low || found.low >= high => Stand::Outside,
        _ => Stand::Straddles,
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::figures;
    use super::*;
    use crate::headlines::stats::Interval;

    fn at(low: f64, high: f64) -> Measured {
        Measured { x: 1.0, value: f64::midpoint(low, high), interval: Interval { low, high }, seeds: 10 }
    }

    #[test]
    fn an_interval_is_inside_outside_or_on_a_limit() {
        let closed = |low: f64, high: f64| stand(&at(low, high), (10.0, 20.0), false);
        assert_eq!(closed(10.0, 20.0), Stand::Inside);
        assert_eq!(closed(9.0, 11.0), Stand::Straddles);
        assert_eq!(closed(9.0, 21.0), Stand::Straddles);
        assert_eq!(closed(1.0, 9.0), Stand::Outside);
        assert_eq!(closed(f64::INFINITY, f64::INFINITY), Stand::Outside);
        assert_eq!(closed(f64::NAN, f64::NAN), Stand::Outside, "what was not measured");
        let order = |low: f64, high: f64| stand(&at(low, high), (1.0, f64::INFINITY), true);
        assert_eq!(order(1.1, 3.0), Stand::Inside);
        assert_eq!(order(0.5, 1.0), Stand::Outside, "equal is not more");
        assert_eq!(order(1.0, 1.2), Stand::Straddles);
        assert_eq!(order(f64::INFINITY, f64::INFINITY), Stand::Inside);
    }

    fn headline(parts: &str, direction: &str) -> Headline {
        let text = format!(
            r#"
paper = "pac"
define = {{ G = "goodput_mbps", timeouts = "rounds_with_timeout / rounds" }}
[setting.a]
title = "t"
scenario = {{}}
x = {{ keys = ["senders"], values = "4,8", label = "senders" }}
curves = [{{ name = "b", label = "b" }}]
[[headline]]
id = "X"
where = "w"
claim = "c"
paper = "p"
part = [{parts}]
direction = [{direction}]
"#
        );
        let book = super::super::book::Book::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        book.headlines[0].clone()
    }

    #[test]
    fn verdicts_follow_parts_and_direction() {
        let steady = figures(&[(4.0, &[900.0; 10]), (8.0, &[880.0; 10])]);
        let noisy = figures(&[
            (4.0, &[900.0; 10]),
            (8.0, &[850.0, 950.0, 800.0, 999.0, 820.0, 960.0, 880.0, 930.0, 890.0, 940.0]),
        ]);
        let near = r#"{ name = "a", of = "G(a.b)", at = "4..8", accepted = "870 .. 910" }"#;
        let far = r#"{ name = "a", of = "G(a.b, 8)", accepted = "< 500" }"#;
        let falls = r#"{ of = "G(a.b, 4) - G(a.b, 8)", accepted = "> 0" }"#;
        let judged = |parts: &str, direction: &str, figures: &Figures| {
            Judgement::of(&headline(parts, direction), figures).verdict
        };
        assert_eq!(judged(near, falls, &steady), Verdict::Reproduced);
        assert_eq!(judged(near, falls, &noisy), Verdict::Undecided);
        assert_eq!(judged(&format!("{near}, {far}"), falls, &steady), Verdict::DirectionOnly);
        assert_eq!(judged(far, falls, &noisy), Verdict::Not, "a direction that straddles is not shown");
        let nowhere = r#"{ name = "a", of = "G(a.b)", at = "100 .. 200", accepted = "> 0" }"#;
        assert_eq!(judged(nowhere, falls, &steady), Verdict::DirectionOnly, "no x at all shows nothing");
        assert_eq!(straddling(&headline(near, falls), &noisy), [("a.b".to_owned(), 0), ("a.b".to_owned(), 1)]);
    }

    #[test]
    fn what_is_needed_is_where_rules_look() {
        let figures = figures(&[(4.0, &[900.0; 10]), (8.0, &[10.0; 10])]);
        let needs = |part: &str| -> Vec<usize> {
            needed(&headline(part, part), &figures).into_iter().map(|(_, i)| i).collect()
        };
        assert_eq!(needs(r#"{ name = "a", of = "G(a.b, 8)", accepted = "> 1" }"#), [1]);
        assert_eq!(needs(r#"{ name = "a", of = "G(a.b)", at = "4", accepted = "> 1" }"#), [0]);
        assert_eq!(needs(r#"{ name = "a", of = "onset(G, a.b)", accepted = "> 1" }"#), [0, 1]);
        let past = r#"{ name = "a", of = "G(a.b)", at = "onset(G, a.b) .. 8", accepted = "> 1" }"#;
        assert_eq!(needs(past), [0, 1], "another reading may have its onset elsewhere");
    }

    #[test]
    fn nothing_is_reproduced_by_what_was_not_run() {
        let one_x = figures(&[(4.0, &[900.0; 10]), (8.0, &[])]);
        let here = r#"{ name = "a", of = "G(a.b, 4)", accepted = "> 500" }"#;
        let there = r#"{ name = "a", of = "G(a.b, 8)", accepted = "> 500" }"#;
        let everywhere = r#"{ name = "c", of = "G(a.b)", at = "4..8", accepted = "< 500" }"#;
        let is_high = r#"{ of = "G(a.b, 4)", accepted = "> 500" }"#;
        let judged = |parts: &str, direction: &str| Judgement::of(&headline(parts, direction), &one_x);
        let half = judged(&format!("{here}, {there}"), is_high);
        assert_eq!((half.verdict, half.lacks), (Verdict::Cannot, vec![("a.b".to_owned(), 1)]));
        assert_eq!(judged(here, is_high).verdict, Verdict::Reproduced);
        assert_eq!(judged(everywhere, is_high).verdict, Verdict::DirectionOnly, "outside at one x is outside");
        let collapses = r#"{ of = "onset(G, a.b)", accepted = "<= 8" }"#;
        assert_eq!(judged(everywhere, collapses).verdict, Verdict::Cannot, "the direction is not known");
        let past = r#"{ name = "a", of = "G(a.b)", at = "onset(G, a.b) .. 8", accepted = "> 500" }"#;
        assert_eq!(judged(past, is_high).verdict, Verdict::Cannot, "where it would be judged is not known");
    }
}
