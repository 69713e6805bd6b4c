//! The small language in which a rule says what it measures: arithmetic over quantities of curves.
//!
//! `G(edge.dctcp, 10) - G(edge.pac, 10)` is a difference of two means at 10 senders; without an x, a quantity is taken
//! at the x that the rule goes through. The words are those of [`Word`].

use std::fmt;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// A number; `inf` is one.
    Number(f64),
    /// The x that the rule goes through.
    X,
    /// Two expressions joined.
    Join(Box<Formula>, Operator, Box<Formula>),
    /// A word with its arguments.
    Call(Word, Call),
    /// The larger or smaller of several.
    Extreme(bool, Vec<Formula>),
}

/// How two expressions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Sum.
    Plus,
    /// Difference.
    Minus,
    /// Product.
    Times,
    /// Quotient.
    Over,
}

/// What a word is applied to.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The quantity: a column of a run's figures, or a name that the file defines for one.
    pub metric: String,
    /// The curves, `setting.curve` each.
    pub curves: Vec<String>,
    /// What else was given.
    pub numbers: Vec<Formula>,
}

/// The words that a formula may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `name(curve)`, `name(curve, x)`: the mean over the seeds.
    At,
    /// `best(name, curve)`, `best(name, curve, from, to)`: the largest mean over a range of x.
    Best,
    /// `least(name, curve, from, to)`: the smallest mean over a range of x.
    Least,
    /// `avg(name, curve, from, to)`: the mean over a range of x.
    Average,
    /// `step_up(name, curve, from, to)`: the largest ratio of a mean to the one at the x before.
    StepUp,
    /// `full(name, curve, from, to)`: the first x of the range with 90 % of its best.
    Full,
    /// `onset(name, curve)`: for each seed the first x beyond its best with less than 80 % of it; `inf` when there is none.
    Onset,
    /// `first_below(name, curve, other, share)`: for each seed the first x with less than that share of the other's.
    FirstBelow,
    /// `first_above(name, curve, level)`: for each seed the first x at which the quantity is at least `level`.
    FirstAbove,
    /// `last_good(name, curve, level)`: for each seed the last x with at least `level`, and timeouts in at most 10 % of the rounds.
    LastGood,
    /// `before_onset(name, curve)`: for each seed the last x before its onset.
    BeforeOnset,
    /// `most(name, curve, x)`: the largest of all seeds.
    Most,
    /// `P(curve)`: the payload rate of the curve's link in Mb/s.
    Payload,
}

impl Word {
    const NAMED: [(&'static str, Self); 11] = [
        ("best", Self::Best),
        ("least", Self::Least),
        ("avg", Self::Average),
        ("step_up", Self::StepUp),
        ("full", Self::Full),
        ("onset", Self::Onset),
        ("first_below", Self::FirstBelow),
        ("first_above", Self::FirstAbove),
        ("last_good", Self::LastGood),
        ("before_onset", Self::BeforeOnset),
        ("most", Self::Most),
    ];

    /// Whether each seed has a value of its own, of which the median is taken.
    #[must_use]
    pub fn is_of_each_seed(self) -> bool {
        matches!(self, Self::Onset | Self::FirstBelow | Self::FirstAbove | Self::LastGood | Self::BeforeOnset)
    }

    /// Curves, and least and most other numbers that it takes.
    fn shape(self) -> (usize, usize, usize) {
        match self {
            Self::At | Self::Most => (1, 0, 1),
            Self::Best => (1, 0, 2),
            Self::Least | Self::Average | Self::StepUp | Self::Full => (1, 2, 2),
            Self::Onset | Self::BeforeOnset | Self::Payload => (1, 0, 0),
            Self::FirstBelow => (2, 1, 1),
            Self::FirstAbove | Self::LastGood => (1, 1, 1),
        }
    }
}

impl Formula {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, rest: text };
        let formula = parser.sum()?;
        parser.blanks();
        if parser.rest.is_empty() { Ok(formula) } else { Err(parser.wrong("an operator or the end")) }
    }

    /// All curves that it names.
    #[must_use]
    pub fn curves(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.visit(&mut |call| found.extend(call.curves.iter().map(String::as_str)));
        found
    }

    /// Shows each word's arguments to `see`.
    pub fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Call)) {
        match self {
            Self::Number(_) | Self::X => {}
            Self::Join(left, _, right) => {
                left.visit(see);
                right.visit(see);
            }
            Self::Extreme(_, all) => all.iter().for_each(|one| one.visit(see)),
            Self::Call(_, call) => {
                see(call);
                call.numbers.iter().for_each(|one| one.visit(see));
            }
        }
    }
}

impl std::str::FromStr for Formula {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn wrong(&self, wanted: impl fmt::Display) -> String {
        let at = self.text.len() - self.rest.len() + 1;
        format!("`{}` cannot be read at character {at}: {wanted} was expected", self.text)
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: char) -> bool {
        self.blanks();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(self.wrong(format!("`{wanted}`"))) }
    }

    fn sum(&mut self) -> Result<Formula, String> {
        let mut left = self.product()?;
        loop {
            let operator = match (self.take('+'), self.take('-')) {
                (true, _) => Operator::Plus,
                (_, true) => Operator::Minus,
                _ => return Ok(left),
            };
            left = Formula::Join(Box::new(left), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Formula, String> {
        let mut left = self.term()?;
        loop {
            let operator = match (self.take('*'), self.take('/')) {
                (true, _) => Operator::Times,
                (_, true) => Operator::Over,
                _ => return Ok(left),
            };
            left = Formula::Join(Box::new(left), operator, Box::new(self.term()?));
        }
    }

    fn term(&mut self) -> Result<Formula, String> {
        if self.take('(') {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        if self.take('-') {
            let inner = self.term()?;
            return Ok(Formula::Join(Box::new(Formula::Number(0.0)), Operator::Minus, Box::new(inner)));
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.wrong("a number, a word or `(`"));
        }
        if let Ok(number) = word.parse() {
            return Ok(Formula::Number(number));
        }
        match word {
            "x" => Ok(Formula::X),
            "max" | "min" => {
                self.expect('(')?;
                Ok(Formula::Extreme(word == "max", self.numbers()?))
            }
            "P" => self.call(Word::Payload, String::new()),
            _ => match Word::NAMED.iter().find(|(name, _)| *name == word) {
                Some((_, named)) => {
                    self.expect('(')?;
                    let metric = self.word().to_owned();
                    self.expect(',')?;
                    self.arguments(*named, metric)
                }
                None => self.call(Word::At, word.to_owned()),
            },
        }
    }

    fn call(&mut self, word: Word, metric: String) -> Result<Formula, String> {
        self.expect('(')?;
        self.arguments(word, metric)
    }

    fn arguments(&mut self, word: Word, metric: String) -> Result<Formula, String> {
        let (curves, least, most) = word.shape();
        let mut call = Call { metric, curves: Vec::new(), numbers: Vec::new() };
        for i in 0..curves {
            if i > 0 {
                self.expect(',')?;
            }
            let curve = self.word();
            if !curve.contains('.') {
                return Err(self.wrong("`setting.curve`"));
            }
            call.curves.push(curve.to_owned());
        }
        call.numbers = if self.take(',') {
            self.numbers()?
        } else {
            self.expect(')')?;
            Vec::new()
        };
        if (least..=most).contains(&call.numbers.len()) {
            Ok(Formula::Call(word, call))
        } else {
            Err(self.wrong(format!("{least} to {most} numbers behind the curve")))
        }
    }

    /// Expressions up to the closing bracket.
    fn numbers(&mut self) -> Result<Vec<Formula>, String> {
        let mut all = vec![self.sum()?];
        while self.take(',') {
            all.push(self.sum()?);
        }
        self.expect(')')?;
        Ok(all)
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_bind_before_sums_and_curves_are_found() {
        let formula = Formula::parse("G(a.b, 10) - 2 * best(G, a.c) / (x + 1)").unwrap_or_else(|told| panic!("{told}"));
        assert_eq!(formula.curves(), ["a.b", "a.c"]);
        let Formula::Join(_, Operator::Minus, right) = formula else { panic!("{formula:?}") };
        assert!(matches!(*right, Formula::Join(_, Operator::Over, _)));
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let told = |text: &str| Formula::parse(text).expect_err(text);
        assert!(told("G(edge)").contains("`setting.curve`"), "{}", told("G(edge)"));
        assert!(told("avg(G, a.b, 1)").contains("2 to 2 numbers"));
        assert!(told("G(a.b) 3").contains("character 8"), "{}", told("G(a.b) 3"));
        assert!(told("").contains("a number, a word"));
    }
}
