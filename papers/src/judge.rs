//! How a claim is held against the figures. The rules are the same for every experiment; a claim brings only numbers.
//!
//! | measured against the paper | reproduced | partly |
//! |---|---|---|
//! | a bound | kept | missed by at most 10 % |
//! | "about" a value, "almost" a range | within 15 %, of the range's ends | within 40 % |
//! | a ratio "about" a value | within a factor 1.5; of one near 1 ("10 % less") the difference from 1 | within a factor 3 |
//! | "significantly" more or less, no figure given | by a factor of 2 | missed by at most 10 % |
//! | a number of senders at which something begins | the sweep's step that holds it comes within 20 % of it | within a factor 2 |
//! | a ranking | all pairs in order (3 % apart is a tie) | two thirds of them |
//!
//! **Collapse** is the first x at which a curve has less than 80 % of the best that it had at smaller x.

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::figures::{self, Figures};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// As the paper says.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The same in kind, not in degree.
    #[serde(rename = "partly")]
    Partly,
    /// Otherwise than the paper says.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// No figure of ours can speak to it.
    #[serde(rename = "cannot be tested here")]
    CannotBeTested,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Partly => "partly",
            Self::NotReproduced => "not reproduced",
            Self::CannotBeTested => "cannot be tested here",
        }
    }

    fn of(full: bool, part: bool) -> Self {
        match (full, part) {
            (true, _) => Self::Reproduced,
            (_, true) => Self::Partly,
            _ => Self::NotReproduced,
        }
    }
}

/// A verdict with what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// What became of it.
    pub verdict: Verdict,
    /// Our figures in words.
    pub measured: String,
}

/// How a claim is judged. `metric` is that of the first panel unless it is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// The curve at `x` is at least `value`.
    AtLeast {
        /// Curve.
        series: String,
        /// Where.
        x: f64,
        /// Bound.
        value: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// The curve at `x` is at most `value`.
    AtMost {
        /// Curve.
        series: String,
        /// Where.
        x: f64,
        /// Bound.
        value: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// The curve at `x` is about `value`.
    About {
        /// Curve.
        series: String,
        /// Where.
        x: f64,
        /// Expected.
        value: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// The curve stays between `low` and `high` at every x from `from` to `to`; either bound may be left out. `about` when
    /// the paper calls the range approximate.
    Within {
        /// Curve.
        series: String,
        /// First x.
        from: f64,
        /// Last x.
        to: f64,
        /// Lower bound.
        low: Option<f64>,
        /// Upper bound.
        high: Option<f64>,
        /// Whether the bounds are rough.
        #[serde(default)]
        about: bool,
        /// Of what.
        metric: Option<String>,
    },
    /// The curve collapses at about `at`.
    Collapse {
        /// Curve.
        series: String,
        /// The paper's x.
        at: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// The curve does not collapse anywhere up to `to`.
    NoCollapse {
        /// Curve.
        series: String,
        /// Last x.
        to: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// The curve first rises above `above` at about `at`.
    Onset {
        /// Curve.
        series: String,
        /// Level.
        above: f64,
        /// The paper's x.
        at: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// One figure divided by another; exactly one of `about`, `at_least` and `at_most`.
    Ratio {
        /// Curve above the line.
        series: String,
        /// Its x.
        x: f64,
        /// Curve below the line; the same when absent.
        over: Option<String>,
        /// Its x; the same when absent.
        over_x: Option<f64>,
        /// Its metric; the same when absent.
        over_metric: Option<String>,
        /// Expected.
        about: Option<f64>,
        /// Lower bound.
        at_least: Option<f64>,
        /// Upper bound.
        at_most: Option<f64>,
        /// Of what.
        metric: Option<String>,
    },
    /// The curves at `x` are in this order, the best first.
    Ranking {
        /// Curves.
        order: Vec<String>,
        /// Where.
        x: f64,
        /// Whether less is better.
        #[serde(default)]
        lowest_first: bool,
        /// Of what.
        metric: Option<String>,
    },
    /// From each curve to the next, the x of the collapse grows by about `factor`.
    CollapseGrows {
        /// Curves.
        series: Vec<String>,
        /// Expected.
        factor: f64,
        /// Of what.
        metric: Option<String>,
    },
    /// No figure of ours can speak to it.
    Untestable {
        /// Why.
        reason: String,
    },
}

/// A curve has collapsed when it has less than this share of the best it had.
const COLLAPSED: f64 = 0.8;

/// By what factor a ratio misses the one that it should be about. Near 1, where every ratio is within a small factor of every
/// other, it is the difference from 1 that counts.
fn missed(got: f64, about: f64) -> f64 {
    let (got, about) = if (2.0 / 3.0..=1.5).contains(&about) { (1.0 - got, 1.0 - about) } else { (got, about) };
    if got * about > 0.0 { (got / about).max(about / got) } else { f64::INFINITY }
}

impl Rule {
    /// Says what is wrong when a curve, an x or a metric is not in the experiment.
    pub(crate) fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let (series, xs, metric) = self.mentions();
        for name in series {
            if !experiment.series.iter().any(|curve| curve.name == *name) {
                let names: Vec<&str> = experiment.series.iter().map(|curve| curve.name.as_str()).collect();
                return Err(format!("`{name}` is not a series; there are {}", names.join(", ")));
            }
        }
        let known = experiment.xs();
        for x in xs {
            if !known.contains(&x) {
                return Err(format!("{x} is not among the values of the axis, {known:?}"));
            }
        }
        if let Self::Ratio { about, at_least, at_most, .. } = self
            && [about, at_least, at_most].into_iter().flatten().count() != 1
        {
            return Err("needs exactly one of `about`, `at_least` and `at_most`".into());
        }
        if let Self::Ratio { over_metric: Some(below), .. } = self {
            figures::known(below)?;
        }
        metric.map_or(Ok(()), figures::known)
    }

    /// Curves, x and metric that it names.
    fn mentions(&self) -> (Vec<&String>, Vec<f64>, Option<&str>) {
        match self {
            Self::AtLeast { series, x, metric, .. }
            | Self::AtMost { series, x, metric, .. }
            | Self::About { series, x, metric, .. } => (vec![series], vec![*x], metric.as_deref()),
            Self::Within { series, from, to, metric, .. } => (vec![series], vec![*from, *to], metric.as_deref()),
            Self::NoCollapse { series, to, metric } => (vec![series], vec![*to], metric.as_deref()),
            Self::Collapse { series, metric, .. } | Self::Onset { series, metric, .. } => {
                (vec![series], Vec::new(), metric.as_deref())
            }
            Self::Ratio { series, x, over, over_x, metric, .. } => (
                std::iter::once(series).chain(over).collect(),
                std::iter::once(*x).chain(*over_x).collect(),
                metric.as_deref(),
            ),
            Self::Ranking { order, x, metric, .. } => (order.iter().collect(), vec![*x], metric.as_deref()),
            Self::CollapseGrows { series, metric, .. } => (series.iter().collect(), Vec::new(), metric.as_deref()),
            Self::Untestable { .. } => (Vec::new(), Vec::new(), None),
        }
    }

    /// Holds the claim against the figures.
    #[must_use]
    pub fn judge(&self, experiment: &Experiment, figures: &Figures) -> Judgement {
        let metric = self.mentions().2.unwrap_or(&experiment.panels[0].metric);
        let view = View { experiment, figures, metric };
        match self {
            Self::AtLeast { series, x, value, .. } => {
                let got = view.at(series, *x);
                verdict(got >= *value, got >= 0.9 * value, view.told(got))
            }
            Self::AtMost { series, x, value, .. } => {
                let got = view.at(series, *x);
                verdict(got <= *value, got <= 1.1 * value, view.told(got))
            }
            Self::About { series, x, value, .. } => {
                let got = view.at(series, *x);
                let off = (got / value - 1.0).abs();
                verdict(off <= 0.15, off <= 0.4, view.told(got))
            }
            Self::Within { series, to, .. } | Self::NoCollapse { series, to, .. } if !view.is_whole(series, *to) => {
                verdict(false, false, format!("no result for some x up to {to}"))
            }
            Self::Within { series, from, to, low, high, about, .. } => {
                let points = view.points(series);
                let points = points.iter().filter(|point| (*from..=*to).contains(&point.0)).map(|point| point.1);
                let (least, most) = points.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), y| (a.min(y), b.max(y)));
                let wider = |by: f64| {
                    low.is_none_or(|low| low - by * low.abs() <= least)
                        && high.is_none_or(|high| most <= high + by * high.abs())
                };
                let (full, part) = if *about { (0.15, 0.4) } else { (0.0, 0.1) };
                verdict(wider(full), wider(part), told_within(least, most, *from, *to))
            }
            Self::Collapse { series, at, .. } => view.begins(view.collapse(series), *at, "collapses"),
            Self::Onset { series, above, at, .. } => {
                let points = view.points(series);
                view.begins(step(&points, |_, y| y > *above), *at, "begins")
            }
            Self::NoCollapse { series, to, .. } => match view.collapse(series).filter(|step| step.1 <= *to) {
                None => {
                    let points = view.points(series);
                    let last = points.iter().rfind(|point| point.0 <= *to).map_or(f64::NAN, |point| point.1);
                    verdict(true, true, format!("no collapse; {} at {to}", number(last)))
                }
                Some((_, first)) => verdict(false, first > to / 2.0, format!("collapses at {first}")),
            },
            Self::Ratio { series, x, over, over_x, over_metric, about, at_least, at_most, .. } => {
                let divisor = View { metric: over_metric.as_deref().unwrap_or(metric), ..view };
                let (above, below) =
                    (view.at(series, *x), divisor.at(over.as_ref().unwrap_or(series), over_x.unwrap_or(*x)));
                let got = above / below;
                let measured = format!("{} / {} = {}", number(above), number(below), number(got));
                match (about, at_least, at_most) {
                    (Some(about), _, _) => {
                        let off = missed(got, *about);
                        verdict(off <= 1.5, off <= 3.0, measured)
                    }
                    (_, Some(least), _) => verdict(got >= *least, got >= 0.9 * least, measured),
                    (_, _, most) => {
                        let most = most.unwrap_or(f64::NAN);
                        verdict(got <= most, got <= 1.1 * most, measured)
                    }
                }
            }
            Self::Ranking { order, x, lowest_first, .. } => view.ranking(order, *x, *lowest_first),
            Self::CollapseGrows { series, factor, .. } => view.growth(series, *factor),
            Self::Untestable { reason } => {
                Judgement { verdict: Verdict::CannotBeTested, measured: format!("not measured: {reason}") }
            }
        }
    }
}

fn verdict(full: bool, part: bool, measured: String) -> Judgement {
    Judgement { verdict: Verdict::of(full, part), measured }
}

/// The figures of one metric.
struct View<'a> {
    experiment: &'a Experiment,
    figures: &'a Figures,
    metric: &'a str,
}

impl View<'_> {
    /// Whether a curve has a figure at every x up to `to`.
    fn is_whole(&self, series: &str, to: f64) -> bool {
        let points = self.points(series);
        !points.is_empty() && points.iter().all(|(x, y)| *x > to || y.is_finite())
    }

    fn points(&self, series: &str) -> Vec<(f64, f64)> {
        let curve = self.experiment.series.iter().position(|curve| curve.name == series);
        let points = curve.map(|curve| self.figures.curve(curve, self.metric)).unwrap_or_default();
        points.into_iter().map(|(x, spread)| (x, spread.mean)).collect()
    }

    /// Not a number when there is none, which no bound admits.
    #[expect(clippy::float_cmp, reason = "both come from the same text")]
    fn at(&self, series: &str, x: f64) -> f64 {
        self.points(series).iter().find(|point| point.0 == x).map_or(f64::NAN, |point| point.1)
    }

    fn told(&self, value: f64) -> String {
        let unit = match self.metric {
            name if name.contains("ratio") || name.contains("percent") || name.contains("share") => " %",
            name if name.ends_with("_mbps") => " Mb/s",
            name if name.contains("_ms") => " ms",
            name if name.contains("_us") => " us",
            name if name.contains("_bytes") => " bytes",
            _ => "",
        };
        format!("{}{unit}", number(value))
    }

    /// Last x before and first x of a collapse.
    fn collapse(&self, series: &str) -> Option<(f64, f64)> {
        step(&self.points(series), |best, y| y < COLLAPSED * best)
    }

    fn begins(&self, found: Option<(f64, f64)>, at: f64, what: &str) -> Judgement {
        let Some((before, first)) = found else {
            let last = self.experiment.xs().last().copied().unwrap_or_default();
            return verdict(false, false, format!("never {what} up to {last}"));
        };
        let comes_within = |factor: f64| before <= at * factor && first >= at / factor;
        let measured = if before.is_finite() {
            format!("{what} between {before} and {first}")
        } else {
            format!("{what} at or before {first}")
        };
        verdict(comes_within(1.2), comes_within(2.0), measured)
    }

    fn ranking(&self, order: &[String], x: f64, lowest_first: bool) -> Judgement {
        let values: Vec<f64> = order.iter().map(|series| self.at(series, x)).collect();
        let (mut right, mut pairs) = (0, 0);
        for (i, better) in values.iter().enumerate() {
            for worse in &values[i + 1..] {
                pairs += 1;
                let (high, low) = if lowest_first { (worse, better) } else { (better, worse) };
                right += i32::from(*high >= 0.97 * low);
            }
        }
        let told: Vec<String> =
            order.iter().zip(&values).map(|(series, value)| format!("{series} {}", self.told(*value))).collect();
        verdict(right == pairs, 3 * right >= 2 * pairs, format!("at {x}: {}", told.join(", ")))
    }

    fn growth(&self, series: &[String], factor: f64) -> Judgement {
        let points: Vec<Option<(f64, f64)>> = series.iter().map(|name| self.collapse(name)).collect();
        let told: Vec<String> = series
            .iter()
            .zip(&points)
            .map(|(name, step)| match step {
                Some((_, first)) => format!("{name} at {first}"),
                None => format!("{name} never"),
            })
            .collect();
        let told = told.join(", ");
        // A curve that never collapses says only that its point is beyond the axis.
        let steps: Option<Vec<(f64, f64)>> = points.iter().copied().take_while(Option::is_some).collect();
        let steps = steps.unwrap_or_default();
        if steps.len() < 2 {
            return verdict(false, false, format!("collapses: {told}"));
        }
        let off = |pair: &[(f64, f64)]| {
            let grown = pair[1].1 / pair[0].1;
            (grown / factor).max(factor / grown)
        };
        let worst = steps.windows(2).map(off).fold(1.0, f64::max);
        verdict(worst <= 1.5, worst <= 3.0, format!("collapses: {told}"))
    }
}

/// Last x before and first x at which `is` holds of the best so far and y. Before the first point is minus infinity.
fn step(points: &[(f64, f64)], is: impl Fn(f64, f64) -> bool) -> Option<(f64, f64)> {
    let (mut before, mut best) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (x, y) in points {
        best = best.max(*y);
        if is(best, *y) {
            return Some((before, *x));
        }
        before = *x;
    }
    None
}

/// The range of a curve over a stretch of its axis, either of which may be a point.
fn told_within(least: f64, most: f64, from: f64, to: f64) -> String {
    let (least, most) = (number(least), number(most));
    let range = if least == most { least } else { format!("{least} to {most}") };
    if from < to { format!("{range} for x from {from} to {to}") } else { format!("{range} at {to}") }
}

/// Three significant digits, whole numbers from 100.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "nothing".into(),
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_ratio_near_one_the_difference_from_one_counts() {
        for (got, about, within) in [(78.0, 100.0, true), (66.0, 100.0, false), (0.91, 0.9, true), (0.988, 0.9, false)]
        {
            assert_eq!(missed(got, about) <= 1.5, within, "{got} for about {about}");
        }
        assert!(missed(1.02, 0.9).is_infinite(), "a gain is no loss");
    }

    /// The verdict of a rule on two curves, measured at 10, 20, 40 and 80.
    fn judged(rule: &str, good: [f64; 4], bad: [f64; 4]) -> (Verdict, String) {
        let text = format!(
            r#"
id = "X"
paper = "pac"
figure = "none"
section = "none"
title = "none"
topology = "none"
settings = []
seeds = 1
quick = {{ seeds = 1 }}
scenario = {{}}
x = {{ keys = ["senders"], values = "10,20,40,80", label = "senders" }}
panel = [{{ metric = "goodput_mbps", label = "goodput (Mb/s)" }}]
series = [{{ name = "good" }}, {{ name = "bad", set = ["scheme=fixed-window"] }}]
claim = [{{ id = "1", says = "a", paper = "b", judge = {rule} }}]
"#
        );
        let experiment = Experiment::parse("x.toml", &text, false).unwrap_or_else(|error| panic!("{error}"));
        let curve = |ys: [f64; 4]| -> Vec<(f64, f64)> { [10.0, 20.0, 40.0, 80.0].into_iter().zip(ys).collect() };
        let figures = Figures::of_goodput(&[&curve(good), &curve(bad)]);
        let judgement = experiment.claims[0].judge.judge(&experiment, &figures);
        (judgement.verdict, judgement.measured)
    }

    #[test]
    fn every_rule_has_its_three_verdicts() {
        use Verdict::{NotReproduced, Partly, Reproduced};
        let flat = [900.0; 4];
        let falls_at = |x: usize| -> [f64; 4] { std::array::from_fn(|i| if i < x { 900.0 } else { 90.0 }) };
        let ends_with = |y: f64| [900.0, 900.0, 900.0, y];
        // A rule, and for the curve `good` what makes it come out, nearly, and not at all; `bad` falls at 40.
        let cases = [
            (
                r#"{ kind = "at_least", series = "good", x = 80, value = 900 }"#,
                [ends_with(900.0), ends_with(811.0), ends_with(809.0)],
            ),
            (
                r#"{ kind = "at_most", series = "good", x = 80, value = 100 }"#,
                [ends_with(100.0), ends_with(109.0), ends_with(111.0)],
            ),
            (
                r#"{ kind = "about", series = "good", x = 80, value = 1000 }"#,
                [ends_with(1149.0), ends_with(601.0), ends_with(599.0)],
            ),
            (
                r#"{ kind = "within", series = "good", from = 20, to = 80, low = 500, high = 1000 }"#,
                [ends_with(500.0), ends_with(451.0), ends_with(449.0)],
            ),
            (
                r#"{ kind = "within", series = "good", from = 20, to = 80, low = 500, high = 1000, about = true }"#,
                [ends_with(426.0), ends_with(301.0), ends_with(299.0)],
            ),
            (r#"{ kind = "collapse", series = "good", at = 50 }"#, [falls_at(3), falls_at(2), falls_at(1)]),
            (r#"{ kind = "no_collapse", series = "good", to = 80 }"#, [falls_at(4), falls_at(3), falls_at(2)]),
            (
                r#"{ kind = "onset", series = "good", above = 1000, at = 50 }"#,
                [ends_with(1001.0), [900.0, 900.0, 1001.0, 1001.0], [900.0, 1001.0, 1001.0, 1001.0]],
            ),
            (
                r#"{ kind = "ratio", series = "good", over = "bad", x = 80, about = 10 }"#,
                [ends_with(1300.0), ends_with(310.0), ends_with(260.0)],
            ),
            (
                r#"{ kind = "ratio", series = "good", x = 80, over_x = 10, at_least = 0.5 }"#,
                [ends_with(450.0), ends_with(410.0), ends_with(400.0)],
            ),
            (
                r#"{ kind = "ratio", series = "good", x = 80, over_x = 10, at_most = 0.5 }"#,
                [ends_with(450.0), ends_with(490.0), ends_with(500.0)],
            ),
        ];
        for (rule, curves) in cases {
            let verdicts = curves.map(|curve| judged(rule, curve, falls_at(2)).0);
            assert_eq!(verdicts, [Reproduced, Partly, NotReproduced], "{rule}");
        }
        let ranking = r#"{ kind = "ranking", order = ["good", "bad"], x = 80 }"#;
        assert_eq!(judged(ranking, flat, falls_at(3)).0, Reproduced);
        assert_eq!(judged(ranking, ends_with(97.1), ends_with(100.0)).0, Reproduced, "3 % apart is a tie");
        assert_eq!(judged(ranking, ends_with(90.0), ends_with(100.0)).0, NotReproduced);
        let grows = r#"{ kind = "collapse_grows", series = ["bad", "good"], factor = 2 }"#;
        assert_eq!(judged(grows, falls_at(3), falls_at(2)).0, Reproduced);
        assert_eq!(judged(grows, falls_at(2), falls_at(2)).0, Partly);
        assert_eq!(judged(grows, flat, falls_at(2)).0, NotReproduced, "one point says nothing of growth");
    }

    #[test]
    fn what_was_not_measured_is_not_reproduced() {
        let missing = [900.0, 900.0, 900.0, f64::NAN];
        for rule in [
            r#"{ kind = "at_least", series = "good", x = 80, value = 1 }"#,
            r#"{ kind = "at_most", series = "good", x = 80, value = 1000 }"#,
            r#"{ kind = "about", series = "good", x = 80, value = 900 }"#,
            r#"{ kind = "within", series = "good", from = 20, to = 80, low = 1 }"#,
            r#"{ kind = "ratio", series = "good", x = 80, over_x = 10, at_most = 5 }"#,
            r#"{ kind = "ranking", order = ["good", "bad"], x = 80 }"#,
            r#"{ kind = "no_collapse", series = "good", to = 80 }"#,
        ] {
            let (verdict, told) = judged(rule, missing, [900.0; 4]);
            assert_eq!(verdict, Verdict::NotReproduced, "{rule}: {told}");
        }
    }
}
