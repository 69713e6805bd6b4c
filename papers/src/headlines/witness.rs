//! A second witness: runs of other simulators at the settings of the headlines, judged by the same rules.
//!
//! One line of JSON is one run, as `bench/peers/run witness` writes it. Only baselines can be run elsewhere: where rows
//! are missing, [`Judgement`] says that it cannot be judged, unless what there is decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use ackgate_sim::scenario::ScenarioError;
use serde::Deserialize;

use super::book::{Book, Headline, payload_rate};
use super::figures::{Curve, Figures, Row};
use super::run::{HeadlineError, Outcomes};
use super::verdict::Judgement;
use crate::experiment::Paper;

/// What another simulator's runs say of a headline.
#[derive(Clone, Debug)]
pub struct Testimony {
    /// Which simulator.
    pub witness: String,
    /// What its runs come to.
    pub judgement: Judgement,
    /// What is lacking, as `curve at x, x`; the whole curve where no x stands.
    pub lacks: Vec<String>,
}

/// All runs of other simulators.
#[derive(Debug, Default)]
pub struct Witnesses {
    runs: BTreeMap<String, Vec<Line>>,
}

#[derive(Debug, Deserialize)]
struct Line {
    witness: String,
    paper: Paper,
    curve: String,
    x: f64,
    seed: u64,
    values: Row,
    /// File and line that it stands in.
    #[serde(skip)]
    place: String,
}

impl Witnesses {
    /// Reads a file of runs. Of two runs of one point and seed the later one counts.
    ///
    /// # Errors
    /// When it cannot be read, or a line is not a run.
    pub fn read(path: &Path) -> Result<Self, HeadlineError> {
        let name = || path.display().to_string();
        let file = |error: std::io::Error| HeadlineError::File { file: name(), error };
        let mut all = Self::default();
        for (i, text) in BufReader::new(File::open(path).map_err(file)?).lines().enumerate() {
            let wrong = |error: serde_json::Error| HeadlineError::Witness {
                file: name(),
                line: i + 1,
                problem: error.to_string(),
            };
            let mut line: Line = serde_json::from_str(&text.map_err(file)?).map_err(wrong)?;
            line.place = format!("{}:{}", name(), i + 1);
            all.runs.entry(line.witness.clone()).or_default().push(line);
        }
        Ok(all)
    }

    /// Whether every run is of a point that a curve has.
    ///
    /// # Errors
    /// When one is not, or a scenario is refused.
    pub fn check(&self, books: &[Book]) -> Result<(), HeadlineError> {
        for line in self.runs.values().flatten() {
            for book in books.iter().filter(|book| book.paper == line.paper) {
                line.is_asked_for(book)?;
            }
        }
        Ok(())
    }

    /// Adds to every headline what the other simulators say of it: those whose runs show a part of it at least.
    ///
    /// # Errors
    /// When a scenario is refused.
    pub fn testify(&self, outcomes: &mut Outcomes) -> Result<(), ScenarioError> {
        for paper in &mut outcomes.papers {
            for (witness, lines) in &self.runs {
                let mine: Vec<&Line> = lines.iter().filter(|line| line.paper == paper.book.paper).collect();
                let ran: BTreeSet<&str> = mine.iter().map(|line| line.curve.as_str()).collect();
                for judged in &mut paper.judged {
                    let headline = &judged.headline;
                    let curves: BTreeSet<&str> = headline.rules().flat_map(super::rule::Rule::curves).collect();
                    if headline.cannot.is_empty() && curves.intersection(&ran).next().is_some() {
                        let figures = figures(&paper.book, &curves, &mine)?;
                        let testimony = Testimony::new(witness, headline, &figures);
                        let has_seen = testimony.judgement.parts.iter().any(|held| held.worst().is_some());
                        judged.testimonies.extend(has_seen.then_some(testimony));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Line {
    fn is_asked_for(&self, book: &Book) -> Result<(), HeadlineError> {
        let places = match book.curve(&self.curve) {
            Some((setting, series)) => book.places(setting, series, None)?,
            None => Vec::new(),
        };
        if places.iter().any(|place| (self.x - place.x).abs() < 1e-9) {
            return Ok(());
        }
        Err(HeadlineError::Stray { place: self.place.clone(), curve: self.curve.clone(), x: self.x })
    }
}

/// The curves of a headline on the book's own grid, with the rows that there are.
fn figures(book: &Book, curves: &BTreeSet<&str>, lines: &[&Line]) -> Result<Figures, ScenarioError> {
    let mut figures = Figures::new(book.define.clone());
    for name in curves {
        let (setting, series) = book.curve(name).expect("checked as the file was read");
        let places = book.places(setting, series, None)?;
        let rows = places.iter().map(|place| {
            let here = lines.iter().filter(|line| line.curve == *name && (line.x - place.x).abs() < 1e-9);
            let by_seed: BTreeMap<u64, Arc<Row>> =
                here.map(|line| (line.seed, Arc::new(line.values.clone()))).collect();
            by_seed.into_values().collect()
        });
        let rows = rows.collect();
        let payload = places.first().map_or(f64::NAN, |place| payload_rate(&place.first.scenario));
        let xs = places.iter().map(|place| place.x).collect();
        figures.curves.insert((*name).to_owned(), Curve { xs, payload, rows });
    }
    Ok(figures)
}

impl Testimony {
    fn new(witness: &str, headline: &Headline, figures: &Figures) -> Self {
        let judgement = Judgement::of(headline, figures);
        let lacks = judgement.lacks.chunk_by(|one, next| one.0 == next.0).map(|cells| {
            let (name, curve) = (&cells[0].0, &figures.curves[&cells[0].0]);
            let xs: Vec<String> = cells.iter().map(|(_, i)| curve.xs[*i].to_string()).collect();
            if cells.len() == curve.xs.len() { name.clone() } else { format!("{name} at {}", xs.join(", ")) }
        });
        Self { witness: witness.to_owned(), lacks: lacks.collect(), judgement }
    }
}
