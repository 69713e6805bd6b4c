//! One rule: what is measured, at which x, and what is accepted.

use serde::Deserialize;

use super::formula::Formula;

/// A part of a headline as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The part's letter in the list of headlines.
    #[serde(default)]
    name: String,
    /// What is measured.
    of: Option<String>,
    /// Instead of `of`: the curve that is to keep at least 90 % of its best, ramp-up apart.
    no_collapse: Option<String>,
    /// At which x: `20..100`, `4 ..< onset(G, a.b)`, or a list.
    #[serde(default)]
    at: String,
    /// `686 .. 928`, `> 1`, `<= 0.8`.
    #[serde(default)]
    accepted: String,
    /// Unit of what is measured.
    #[serde(default)]
    unit: String,
}

/// A part of a headline.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The part's letter.
    pub name: String,
    /// As it was written.
    pub text: String,
    /// What is measured.
    pub of: Formula,
    /// At which x, if at any.
    pub at: Option<Stretch>,
    /// What is accepted.
    pub accepted: Range,
    /// Unit of what is measured.
    pub unit: String,
}

/// Some of an axis.
#[derive(Clone, Debug)]
pub enum Stretch {
    /// From one x to another, which may be left out.
    From(Formula, Formula, bool),
    /// These.
    List(Vec<Formula>),
}

/// A range of values; an end may be left out.
#[derive(Clone, Debug)]
pub struct Range {
    /// Lower end.
    pub low: Formula,
    /// Upper end.
    pub high: Formula,
    /// Whether the ends are left out.
    pub open: bool,
}

/// Share of the best that is no collapse, and the share of the range that ramp-up may fill.
const KEPT: f64 = 0.9;
const RAMP: f64 = 0.25;

impl Text {
    /// Understands a part, which may be several rules.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn rules(&self) -> Result<Vec<Rule>, String> {
        match (&self.of, &self.no_collapse) {
            (Some(of), None) => {
                let at = if self.at.is_empty() { None } else { Some(Stretch::parse(&self.at)?) };
                Ok(vec![self.rule(of, at, &self.accepted)?])
            }
            (None, Some(curve)) => {
                let stretch = Stretch::parse(&self.at)?;
                let Some((from, to)) = self.at.split_once("..").filter(|_| matches!(stretch, Stretch::From(..))) else {
                    return Err("`no_collapse` needs a range in `at`".into());
                };
                let full = format!("full(G, {curve}, {from}, {to})");
                let kept = Stretch::parse(&format!("{full} .. {to}"))?;
                let ramp = format!("<= {from} + {RAMP} * ({to} - {from})");
                Ok(vec![
                    self.rule(
                        &format!("G({curve}) / best(G, {curve}, {from}, {to})"),
                        Some(kept),
                        &format!(">= {KEPT}"),
                    )?,
                    self.rule(&full, None, &ramp)?,
                ])
            }
            _ => Err("needs one of `of` and `no_collapse`".into()),
        }
    }

    fn rule(&self, of: &str, at: Option<Stretch>, accepted: &str) -> Result<Rule, String> {
        let place = if self.at.is_empty() { String::new() } else { format!(" at {}", self.at) };
        let text = format!("{of}{place}: {accepted}");
        let (of, accepted) = (Formula::parse(of)?, Range::parse(accepted)?);
        let unit = if self.no_collapse.is_some() { String::new() } else { self.unit.clone() };
        Ok(Rule { name: self.name.clone(), text, of, at, accepted, unit })
    }
}

impl Rule {
    /// All formulas in it.
    #[must_use]
    pub fn formulas(&self) -> Vec<&Formula> {
        let mut all = vec![&self.of, &self.accepted.low, &self.accepted.high];
        all.extend(self.at.iter().flat_map(Stretch::formulas));
        all
    }
}

impl Stretch {
    /// All formulas in it.
    #[must_use]
    pub fn formulas(&self) -> Vec<&Formula> {
        match self {
            Self::From(from, to, _) => vec![from, to],
            Self::List(list) => list.iter().collect(),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("..") {
            Some((from, to)) => {
                let open = to.trim_start().starts_with('<');
                let to = to.trim_start().trim_start_matches('<');
                Ok(Self::From(Formula::parse(from)?, Formula::parse(to)?, open))
            }
            None => Ok(Self::List(text.split(';').map(Formula::parse).collect::<Result<_, _>>()?)),
        }
    }
}

impl Range {
    fn parse(text: &str) -> Result<Self, String> {
        let end = |sign: &str| text.trim().strip_prefix(sign).map(Formula::parse).transpose();
        let (least, most) = (Formula::Number(f64::NEG_INFINITY), Formula::Number(f64::INFINITY));
        if let Some(low) = end(">=")? {
            return Ok(Self { low, high: most, open: false });
        }
        if let Some(high) = end("<=")? {
            return Ok(Self { low: least, high, open: false });
        }
        if let Some(low) = end(">")? {
            return Ok(Self { low, high: most, open: true });
        }
        if let Some(high) = end("<")? {
            return Ok(Self { low: least, high, open: true });
        }
        let ends = text.split_once("..").ok_or_else(|| format!("`{text}` is not a range such as `1 .. 2` or `> 1`"))?;
        Ok(Self { low: Formula::parse(ends.0)?, high: Formula::parse(ends.1)?, open: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: Option<&str>, no_collapse: Option<&str>, at: &str, accepted: &str) -> Text {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (of, no_collapse, unit) = (owned(of), owned(no_collapse), "Mb/s".to_owned());
        Text { name: "a".into(), of, no_collapse, at: at.into(), accepted: accepted.into(), unit }
    }

    #[test]
    fn no_collapse_is_a_share_of_the_best_behind_a_short_ramp() {
        let rules = text(None, Some("edge.pac"), "4..100", "").rules().unwrap_or_else(|told| panic!("{told}"));
        let told: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(told[0], "G(edge.pac) / best(G, edge.pac, 4, 100) at 4..100: >= 0.9");
        assert_eq!(told[1], "full(G, edge.pac, 4, 100) at 4..100: <= 4 + 0.25 * (100 - 4)");
    }

    #[test]
    fn what_is_neither_range_nor_bound_is_refused() {
        for (of, at, accepted) in [("G(a.b)", "", "5"), ("G(a.b", "", "> 1"), ("G(a.b)", "1..", "> 1")] {
            assert!(text(Some(of), None, at, accepted).rules().is_err(), "{of} {at} {accepted}");
        }
        assert!(text(None, None, "", "> 1").rules().is_err());
        assert!(text(None, Some("a.b"), "1; 2", "").rules().is_err());
    }
}
