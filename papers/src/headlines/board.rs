//! The runs that headlines lack, as work for many machines. That more seeds are needed shows only when the first ones
//! are there: what is run at once is one stage, and the next is found in what the runs of the first left.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ackgate_sim::sweep::folder::{Folder, Work};
use ackgate_sim::sweep::{Point, SweepError, hash};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::book::{Book, Headline, Place};
use super::figures::{Cell, Row};
use super::reading::Readings;
use super::run::{
    Chosen, HeadlineError, Options, SEEDS, Wanted, choose, curves, every, figures, more, open, simulate, some,
};
use super::store::Store;
use super::verdict::{needed, straddling};

/// One stage of the runs.
#[derive(Clone, Debug)]
pub struct Board {
    asked: Asked,
    /// Of each of `asked.lacking`: what it is called, and the point.
    places: Vec<([String; 3], Place)>,
    /// Which of `asked.lacking`, and the seed.
    runs: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    ids: Vec<String>,
    quick: bool,
    readings: Readings,
    lacking: Vec<Lacking>,
}

/// Runs of one point of a curve that are not there yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lacking {
    /// Number of the paper's book.
    paper: usize,
    /// Number of the alternative, if it is of one.
    other: Option<usize>,
    /// The curve's name.
    curve: String,
    /// Number of the point on it.
    i: usize,
    /// How far from the scenario's own.
    seeds: Vec<usize>,
}

impl Board {
    /// What has to be run next, beside what there is in the folder of `options`.
    ///
    /// # Errors
    /// When a headline is unknown, a scenario is refused, or the runs that are there cannot be read.
    pub fn next(books: &[Book], options: &Options) -> Result<Self, HeadlineError> {
        let store = open(books, options)?;
        let Options { ids, quick, readings, .. } = options.clone();
        let asked = Asked { ids, quick, readings, lacking: lacking(books, options, &store)? };
        Self::of(books, asked).map_err(HeadlineError::Tasks)
    }

    fn of(books: &[Book], asked: Asked) -> Result<Self, SweepError> {
        let mut curves: BTreeMap<(usize, Option<usize>, &str), Vec<Place>> = BTreeMap::new();
        let mut places = Vec::new();
        for Lacking { paper, other, curve, i, .. } in &asked.lacking {
            let unknown = || SweepError::Usage(format!("there is no curve `{curve}` with a point {i}"));
            let book = books.get(*paper).ok_or_else(unknown)?;
            let known = match curves.entry((*paper, *other, curve)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(none) => {
                    let (setting, series) = book.curve(curve).ok_or_else(unknown)?;
                    let other = other.map(|other| book.alternatives.get(other).ok_or_else(unknown)).transpose()?;
                    none.insert(book.places(setting, series, other)?)
                }
            };
            let place = known.get(*i).ok_or_else(unknown)?;
            let reading = other.map_or_else(String::new, |other| format!(", reading {}", other + 1));
            let called = [book.paper.name().to_owned(), format!("{curve}{reading}"), place.x.to_string()];
            places.push((called, place.clone()));
        }
        let seeds =
            |(number, lacking): (usize, &Lacking)| lacking.seeds.clone().into_iter().map(move |seed| (number, seed));
        let runs = asked.lacking.iter().enumerate().flat_map(seeds).collect();
        Ok(Self { asked, places, runs })
    }

    /// Whether nothing has to be run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What was asked for, with results in `out`; `build` identifies the program.
    #[must_use]
    pub fn options(&self, out: PathBuf, build: String) -> Options {
        let Asked { ids, quick, readings, .. } = self.asked.clone();
        Options { out, jobs: 0, quick, readings, only_judge: false, ids, build }
    }

    /// All runs, in their order.
    #[must_use]
    pub fn all(&self) -> Vec<Point> {
        (0..self.runs.len()).map(|place| self.at(place).0).collect()
    }

    /// Adds what tasks have run to the runs of the folder of `options`.
    ///
    /// # Errors
    /// When rows are missing or disagree, or the runs cannot be read or written.
    pub fn collect(&self, folder: &Folder, books: &[Book], options: &Options) -> Result<(), HeadlineError> {
        let rows = folder.rows(&self.all()).map_err(HeadlineError::Tasks)?;
        let mut store = open(books, options)?;
        for (place, row) in rows.iter().enumerate() {
            let name = self.at(place).1;
            if store.get(&name).is_some() {
                continue;
            }
            let text = row.first().map_or("", String::as_str);
            let file = |error: std::io::Error| HeadlineError::File { file: "runs.jsonl".into(), error };
            let row: Row = serde_json::from_str(text).map_err(|error| file(error.into()))?;
            store.add(name, row).map_err(file)?;
        }
        Ok(())
    }

    /// A run, and what identifies it.
    fn at(&self, index: usize) -> (Point, String) {
        let (number, seed) = self.runs[index];
        let (called, place) = &self.places[number];
        let (point, name) = Wanted { curve: &called[1], i: 0, place, seed }.point();
        (Point { index, values: called.to_vec(), scenario: point.scenario, fingerprint: hash(name.as_bytes()) }, name)
    }
}

impl Work for Board {
    const KIND: &'static str = "headlines";
    const COMMAND: &'static str = "reproduce";

    fn to_plan(&self) -> Result<Value, SweepError> {
        serde_json::to_value(&self.asked)
            .map_err(|error| SweepError::Output(format!("the plan of the runs cannot be written: {error}")))
    }

    fn from_plan(name: &str, plan: Value) -> Result<Self, SweepError> {
        let asked: Asked = serde_json::from_value(plan)
            .map_err(|error| SweepError::Usage(format!("{name}: not a plan of headlines: {error}")))?;
        Self::of(&Book::all()?, asked)
    }

    fn keys(&self) -> Vec<String> {
        ["paper", "curve", "x"].map(str::to_owned).to_vec()
    }

    fn count(&self) -> usize {
        self.runs.len()
    }

    fn points(&self, places: &[usize]) -> Result<Vec<Point>, SweepError> {
        Ok(places.iter().map(|place| self.at(*place).0).collect())
    }

    fn run(&self, point: &Point, stop: &AtomicBool) -> Result<Vec<String>, SweepError> {
        let watch = &self.places[self.runs[point.index].0].1.watch;
        let row = simulate(point, watch, stop)
            .map_err(|error| SweepError::Simulation { point: point.values.join(" "), error })?;
        let text = serde_json::to_string(&row).map_err(|error| {
            SweepError::Output(format!("the figures of {} cannot be written: {error}", point.values.join(" ")))
        })?;
        Ok(vec![text, format!("{:016x}", point.fingerprint)])
    }
}

/// What has to be run next. Where the first seeds of a paper are there, those are looked at, and more seeds are wanted
/// where an interval lies on a limit.
fn lacking(books: &[Book], options: &Options, store: &Store) -> Result<Vec<Lacking>, HeadlineError> {
    let mut all: Vec<Lacking> = Vec::new();
    // Curves share points.
    let mut names = BTreeSet::new();
    for (paper, book) in books.iter().enumerate() {
        let Chosen { headlines, given, places } = choose(book, options)?;
        let mut add = |other: Option<usize>, wanted: Vec<Wanted<'_>>| {
            let before = all.len();
            for one in wanted {
                let name = one.point().1;
                if store.get(&name).is_some() || !names.insert(name) {
                    continue;
                }
                match all[before..].last_mut() {
                    Some(Lacking { curve, i, seeds, .. }) if curve == one.curve && *i == one.i => seeds.push(one.seed),
                    _ => {
                        let (curve, i, seeds) = (one.curve.to_owned(), one.i, vec![one.seed]);
                        all.push(Lacking { paper, other, curve, i, seeds });
                    }
                }
            }
            all.len() - before
        };
        if add(None, every(&places, SEEDS)) == 0 && !options.quick {
            let figures = figures(store, book, &places);
            let cells: BTreeSet<Cell> = headlines.iter().flat_map(|headline| straddling(headline, &figures)).collect();
            add(None, more(&places, &cells));
        }
        let judged: Vec<&Headline> =
            headlines.iter().zip(given).filter(|(_, given)| *given).map(|(headline, _)| headline).collect();
        for (number, other) in options.readings.of(book) {
            let concerned: Vec<&Headline> =
                judged.iter().copied().filter(|headline| other.concerns(headline)).collect();
            let figures = figures(store, book, &places);
            let cells: BTreeSet<Cell> = concerned.iter().flat_map(|headline| needed(headline, &figures)).collect();
            let places = curves(book, concerned.into_iter(), Some(other), false)?;
            add(Some(number), some(&places, &cells));
        }
    }
    Ok(all)
}
