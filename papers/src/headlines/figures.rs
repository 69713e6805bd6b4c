//! What was measured, by curve, x and seed, and what formulas make of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use super::formula::{Call, Formula, Operator, Word};
use super::stats::{Interval, median};

/// A curve has collapsed where it has less than this share of its best.
const COLLAPSED: f64 = 0.8;

/// A curve is at its full height where it has this share of its best.
const FULL: f64 = 0.9;

/// Timeouts begin where this share of the rounds has one, in percent.
const MANY_TIMEOUTS: f64 = 10.0;

/// How a name stands for columns of a run's figures.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// A column; its mean over the seeds.
    Column(String),
    /// One column as a share of another, in percent, over all seeds together.
    Share(String, String),
    /// Two columns together; the mean of the sums over the seeds.
    Sum(String, String),
}

impl Metric {
    /// `column`, `column / column` or `column + column`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if let Some((part, whole)) = text.split_once('/') {
            return Self::Share(part.trim().into(), whole.trim().into());
        }
        match text.split_once('+') {
            Some((one, other)) => Self::Sum(one.trim().into(), other.trim().into()),
            None => Self::Column(text.trim().into()),
        }
    }
}

/// A run's figures by name.
pub type Row = BTreeMap<String, f64>;

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its x, rising.
    pub xs: Vec<f64>,
    /// Payload rate of its link, in Mb/s.
    pub payload: f64,
    /// For each x the runs, by seed.
    pub rows: Vec<Vec<Arc<Row>>>,
}

/// All curves by their names, `setting.curve`, and what the names of quantities mean.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The curves.
    pub curves: HashMap<String, Curve>,
    /// Names of quantities that are no columns themselves.
    pub define: HashMap<String, Metric>,
    /// What each seed has by itself, once it has been looked for.
    each: RefCell<HashMap<String, Rc<Vec<f64>>>>,
}

/// A quantity and a curve.
type Key = (String, String);

/// A curve and the number of one of its x.
pub type Cell = (String, usize);

impl Figures {
    /// None yet.
    #[must_use]
    pub fn new(define: HashMap<String, Metric>) -> Self {
        Self { curves: HashMap::new(), define, each: RefCell::default() }
    }

    fn curve(&self, name: &str) -> &Curve {
        self.curves.get(name).expect("checked as the file was read")
    }

    fn metric(&self, name: &str) -> Metric {
        self.define.get(name).cloned().unwrap_or_else(|| Metric::Column(name.to_owned()))
    }

    /// The first curve that a formula names decides which x there are.
    #[must_use]
    pub fn xs(&self, formula: &Formula) -> Vec<f64> {
        formula.curves().first().map(|name| self.curve(name).xs.clone()).unwrap_or_default()
    }

    /// All runs that a formula looks at.
    #[must_use]
    pub fn touched(&self, formula: &Formula, x: f64) -> Vec<Cell> {
        let mut cells = Vec::new();
        self.touch(formula, x, &mut cells);
        cells.sort();
        cells.dedup();
        cells
    }

    fn touch(&self, formula: &Formula, x: f64, cells: &mut Vec<Cell>) {
        match formula {
            Formula::Number(_) | Formula::X => {}
            Formula::Join(left, _, right) => {
                self.touch(left, x, cells);
                self.touch(right, x, cells);
            }
            Formula::Extreme(_, all) => all.iter().for_each(|one| self.touch(one, x, cells)),
            Formula::Call(Word::Payload, _) => {}
            Formula::Call(word, call) => {
                let sample = Sample::whole(self);
                for name in &call.curves {
                    let curve = self.curve(name);
                    let (from, to) = match word {
                        Word::At | Word::Most => {
                            let x = call.numbers.first().map_or(x, |number| sample.value(number, x));
                            let here = curve.index(x).map_or(f64::NAN, |i| curve.xs[i]);
                            (here, here)
                        }
                        _ => sample.range(*word, call, x),
                    };
                    let within = (0..curve.xs.len()).filter(|i| (from..=to).contains(&curve.xs[*i]));
                    cells.extend(within.map(|i| (name.clone(), i)));
                }
                call.numbers.iter().for_each(|one| self.touch(one, x, cells));
            }
        }
    }

    /// The runs that a formula looks at and that have fewer seeds than a point needs.
    #[must_use]
    pub fn lacking(&self, formula: &Formula, x: f64, seeds: usize) -> Vec<Cell> {
        let too_few = |(name, i): &Cell| self.curve(name).rows.get(*i).is_none_or(|rows| rows.len() < seeds);
        self.touched(formula, x).into_iter().filter(too_few).collect()
    }

    /// How many seeds all runs have that a formula looks at.
    #[must_use]
    pub fn seeds(&self, formula: &Formula, x: f64) -> usize {
        let runs = |(name, i): &Cell| self.curve(name).rows.get(*i).map_or(0, Vec::len);
        self.touched(formula, x).iter().map(runs).min().unwrap_or(0)
    }

    /// What a formula comes to at each of some x, with its interval.
    #[must_use]
    pub fn measure(&self, formula: &Formula, xs: &[f64]) -> Vec<Measured> {
        let seeds: Vec<usize> = xs.iter().map(|x| self.seeds(formula, *x)).collect();
        let mut found: Vec<Measured> = xs
            .iter()
            .zip(&seeds)
            .map(|(x, seeds)| {
                let pick: Vec<usize> = (0..*seeds).collect();
                let sample = Sample::new(self, &pick);
                let interval = self.direct(formula, *x, *seeds).unwrap_or(Interval::UNKNOWN);
                Measured { x: *x, value: sample.value(formula, *x), interval, seeds: *seeds }
            })
            .collect();
        let mut counts: Vec<usize> = seeds.clone();
        counts.sort_unstable();
        counts.dedup();
        for count in counts {
            let here: Vec<usize> =
                (0..xs.len()).filter(|i| seeds[*i] == count && self.direct(formula, xs[*i], count).is_none()).collect();
            if here.is_empty() {
                continue;
            }
            let intervals = Interval::of_resamples(count, here.len(), |pick| {
                let sample = Sample::new(self, pick);
                here.iter().map(|i| sample.value(formula, xs[*i])).collect()
            });
            for (i, interval) in here.into_iter().zip(intervals) {
                found[i].interval = interval;
            }
        }
        found
    }

    /// The interval of a mean, a median or a share that is always nothing or everything; others need resamples.
    fn direct(&self, formula: &Formula, x: f64, seeds: usize) -> Option<Interval> {
        let Formula::Call(word, call) = formula else { return None };
        if word.is_of_each_seed() {
            return Some(Interval::of_median(&self.of_each_seed(*word, call, x, seeds)));
        }
        if *word != Word::At {
            return None;
        }
        let sample = Sample::whole(self);
        let x = call.numbers.first().map_or(x, |number| sample.value(number, x));
        let curve = self.curve(&call.curves[0]);
        let i = curve.index(x)?;
        let column = |name: &str| -> Vec<f64> {
            (0..seeds).map(|seed| curve.rows[i][seed].get(name).copied().unwrap_or(f64::NAN)).collect()
        };
        match self.metric(&call.metric) {
            Metric::Column(name) => Some(Interval::of_mean(&column(&name))),
            Metric::Sum(one, other) => {
                let sums: Vec<f64> = column(&one).iter().zip(column(&other)).map(|(a, b)| a + b).collect();
                Some(Interval::of_mean(&sums))
            }
            Metric::Share(part, whole) => {
                let (hits, all): (f64, f64) = (column(&part).iter().sum(), column(&whole).iter().sum());
                (hits == 0.0 || hits == all).then(|| Interval::of_share(hits, all))
            }
        }
    }

    /// The value that each seed has by itself.
    fn of_each_seed(&self, word: Word, call: &Call, x: f64, seeds: usize) -> Rc<Vec<f64>> {
        let key = format!("{word:?} {call:?} {x} {seeds}");
        if let Some(known) = self.each.borrow().get(&key) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.look_at_each_seed(word, call, x, seeds));
        self.each.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    fn look_at_each_seed(&self, word: Word, call: &Call, x: f64, seeds: usize) -> Vec<f64> {
        (0..seeds)
            .map(|seed| {
                let pick = [seed];
                let sample = Sample::new(self, &pick);
                let xs = &self.curve(&call.curves[0]).xs;
                let values = sample.means(&call.metric, &call.curves[0]);
                let level = call.numbers.first().map_or(f64::NAN, |number| sample.value(number, x));
                let first =
                    |is: &dyn Fn(usize) -> bool| (0..xs.len()).find(|i| is(*i)).map_or(f64::INFINITY, |i| xs[i]);
                let peak = (0..xs.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best });
                let fallen = |i: usize| i > peak && values[i] < COLLAPSED * values[peak];
                match word {
                    Word::Onset => first(&fallen),
                    Word::BeforeOnset => {
                        let end = (0..xs.len()).find(|i| fallen(*i)).unwrap_or(xs.len());
                        xs[end - 1]
                    }
                    Word::FirstBelow => {
                        let other = sample.means(&call.metric, &call.curves[1]);
                        first(&|i| values[i] < level * other[i])
                    }
                    Word::FirstAbove => first(&|i| values[i] >= level),
                    _ => {
                        let timeouts = sample.means("timeouts", &call.curves[0]);
                        let good = |i: &usize| values[*i] >= level && timeouts[*i] <= MANY_TIMEOUTS;
                        (0..xs.len()).rfind(good).map_or(0.0, |i| xs[i])
                    }
                }
            })
            .collect()
    }
}

impl Curve {
    /// The point at x; the next one where x is the median of two seeds' points.
    fn index(&self, x: f64) -> Option<usize> {
        self.xs.iter().position(|known| *known >= x)
    }
}

/// What a formula came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// At which x.
    pub x: f64,
    /// The best guess.
    pub value: f64,
    /// Where it may be.
    pub interval: Interval,
    /// Seeds that it is from.
    pub seeds: usize,
}

/// Some of the seeds, perhaps several times.
pub(super) struct Sample<'a> {
    figures: &'a Figures,
    /// Which seeds; all that a run has when absent.
    pick: Option<&'a [usize]>,
    means: RefCell<HashMap<Key, Rc<Vec<f64>>>>,
}

impl<'a> Sample<'a> {
    fn new(figures: &'a Figures, pick: &'a [usize]) -> Self {
        Self { figures, pick: Some(pick), means: RefCell::default() }
    }

    /// All seeds that there are.
    pub(super) fn whole(figures: &'a Figures) -> Self {
        Self { figures, pick: None, means: RefCell::default() }
    }

    /// A quantity of a curve at all its x.
    fn means(&self, metric: &str, name: &str) -> Rc<Vec<f64>> {
        let key = (metric.to_owned(), name.to_owned());
        if let Some(known) = self.means.borrow().get(&key) {
            return Rc::clone(known);
        }
        let meaning = self.figures.metric(metric);
        let found: Vec<f64> = self.figures.curve(name).rows.iter().map(|runs| self.mean(&meaning, runs)).collect();
        let found = Rc::new(found);
        self.means.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    fn mean(&self, metric: &Metric, runs: &[Arc<Row>]) -> f64 {
        let sum = |column: &str| {
            let of = |run: &Row| run.get(column).copied().unwrap_or(f64::NAN);
            match self.pick {
                // A run that there is not makes it nothing.
                Some(pick) => pick.iter().map(|i| runs.get(*i).map_or(f64::NAN, |run| of(run))).sum::<f64>(),
                None => runs.iter().map(|run| of(run)).sum(),
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "a number of seeds")]
        let count = self.pick.map_or(runs.len(), <[usize]>::len) as f64;
        match metric {
            Metric::Column(name) => sum(name) / count,
            Metric::Share(part, whole) => 100.0 * sum(part) / sum(whole),
            Metric::Sum(one, other) => (sum(one) + sum(other)) / count,
        }
    }

    /// The part of the axis that a word looks at.
    fn range(&self, word: Word, call: &Call, x: f64) -> (f64, f64) {
        match (word, call.numbers.as_slice()) {
            (Word::Best | Word::Least | Word::Average | Word::StepUp | Word::Full, [from, to]) => {
                (self.value(from, x), self.value(to, x))
            }
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// What a formula comes to.
    pub(super) fn value(&self, formula: &Formula, x: f64) -> f64 {
        match formula {
            Formula::Number(number) => *number,
            Formula::X => x,
            Formula::Join(left, operator, right) => {
                let (left, right) = (self.value(left, x), self.value(right, x));
                match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                }
            }
            Formula::Extreme(largest, all) => {
                let values = all.iter().map(|one| self.value(one, x));
                let pick = if *largest { f64::max } else { f64::min };
                values.reduce(pick).unwrap_or(f64::NAN)
            }
            Formula::Call(word, call) => self.word(*word, call, x),
        }
    }

    fn word(&self, word: Word, call: &Call, x: f64) -> f64 {
        let curve = self.figures.curve(&call.curves[0]);
        if word == Word::Payload {
            return curve.payload;
        }
        if word.is_of_each_seed() {
            let seeds = curve.rows.iter().map(Vec::len).min().unwrap_or(0);
            let each = self.figures.of_each_seed(word, call, x, seeds);
            let Some(pick) = self.pick else { return median(&each) };
            let picked: Vec<f64> = pick.iter().map(|i| each.get(*i).copied().unwrap_or(f64::NAN)).collect();
            return median(&picked);
        }
        let x = if matches!(word, Word::At | Word::Most) {
            call.numbers.first().map_or(x, |number| self.value(number, x))
        } else {
            x
        };
        if word == Word::Most {
            let Some(i) = curve.index(x) else { return f64::NAN };
            let seeds = 0..curve.rows[i].len();
            let each = |seed: usize| Sample::new(self.figures, &[seed]).means(&call.metric, &call.curves[0])[i];
            let picked = self.pick.map_or_else(|| seeds.collect(), <[usize]>::to_vec);
            return picked.into_iter().map(each).fold(f64::NEG_INFINITY, f64::max);
        }
        let values = self.means(&call.metric, &call.curves[0]);
        if word == Word::At {
            return curve.index(x).map_or(f64::NAN, |i| values[i]);
        }
        let (from, to) = self.range(word, call, x);
        let within: Vec<usize> = (0..curve.xs.len()).filter(|i| (from..=to).contains(&curve.xs[*i])).collect();
        let fold = |pick: fn(f64, f64) -> f64| within.iter().map(|i| values[*i]).reduce(pick).unwrap_or(f64::NAN);
        match word {
            Word::Best => fold(f64::max),
            Word::Least => fold(f64::min),
            #[expect(clippy::cast_precision_loss, reason = "a number of x")]
            Word::Average => within.iter().map(|i| values[*i]).sum::<f64>() / within.len() as f64,
            Word::StepUp => {
                let steps = within.windows(2).map(|pair| values[pair[1]] / values[pair[0]]);
                steps.reduce(f64::max).unwrap_or(f64::NAN)
            }
            _ => {
                let best = fold(f64::max);
                within.iter().find(|i| values[**i] >= FULL * best).map_or(f64::NAN, |i| curve.xs[*i])
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One curve `a.b` of quantity `G`, runs by x and seed.
    pub(in super::super) fn figures(points: &[(f64, &[f64])]) -> Figures {
        let row = |value: &f64| {
            let timeouts = f64::from(u8::from(*value < 500.0)) * 20.0;
            let cells = [("goodput_mbps", *value), ("rounds_with_timeout", timeouts), ("rounds", 20.0)];
            Arc::new(cells.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
        };
        let curve = Curve {
            xs: points.iter().map(|(x, _)| *x).collect(),
            payload: 949.0,
            rows: points.iter().map(|(_, runs)| runs.iter().map(row).collect()).collect(),
        };
        let define = [("G", "goodput_mbps"), ("timeouts", "rounds_with_timeout / rounds")];
        Figures {
            curves: [("a.b".to_owned(), curve)].into(),
            define: define.iter().map(|(name, text)| ((*name).to_owned(), Metric::parse(text))).collect(),
            each: RefCell::default(),
        }
    }

    fn value(figures: &Figures, text: &str, x: f64) -> Measured {
        figures.measure(&Formula::parse(text).unwrap_or_else(|told| panic!("{told}")), &[x])[0]
    }

    #[test]
    fn words_over_a_curve() {
        let falls =
            figures(&[(4.0, &[800.0, 700.0]), (8.0, &[900.0, 900.0]), (16.0, &[890.0, 700.0]), (32.0, &[90.0, 80.0])]);
        let is = |text: &str| value(&falls, text, 8.0).value;
        assert_eq!(is("best(G, a.b)"), 900.0);
        assert_eq!(is("avg(G, a.b, 4, 8)"), 825.0);
        assert_eq!(is("full(G, a.b, 4, 32)"), 8.0);
        assert_eq!(is("step_up(G, a.b, 4, 16)"), 1.2);
        assert_eq!(is("max(P(a.b), G(a.b)) - x"), 941.0);
        assert_eq!(is("timeouts(a.b, 32)"), 100.0);
        // One seed falls at 16, the other at 32.
        assert_eq!(is("onset(G, a.b)"), 24.0);
        assert_eq!(is("before_onset(G, a.b)"), 12.0);
        assert_eq!(is("first_above(timeouts, a.b, 10)"), 32.0);
        assert_eq!(is("last_good(G, a.b, 600)"), 16.0);
    }

    #[test]
    fn no_fall_is_beyond_the_end() {
        let flat = figures(&[(4.0, &[900.0; 10]), (8.0, &[880.0; 10])]);
        let onset = value(&flat, "onset(G, a.b)", 0.0);
        assert_eq!((onset.value, onset.interval.low), (f64::INFINITY, f64::INFINITY));
        assert_eq!(value(&flat, "before_onset(G, a.b)", 0.0).value, 8.0);
    }

    #[test]
    fn more_seeds_at_one_x_are_used_where_only_that_is_looked_at() {
        let some = figures(&[(4.0, &[900.0, 880.0]), (8.0, &[800.0, 820.0, 840.0])]);
        assert_eq!(value(&some, "G(a.b)", 8.0).seeds, 3);
        let ratio = value(&some, "G(a.b) / best(G, a.b)", 8.0);
        assert_eq!(ratio.seeds, 2);
        assert!((ratio.value - 810.0 / 890.0).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn a_share_that_is_nothing_has_an_exact_bound() {
        let calm = figures(&[(4.0, &[900.0; 10])]);
        let share = value(&calm, "timeouts(a.b)", 4.0);
        assert!(share.interval.low == 0.0 && (share.interval.high - 1.8275).abs() < 1e-3, "{share:?}");
    }
}
