//! Runs what the headlines need, judges them, and adds seeds where an interval straddles a limit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ackgate_sim::observer::Until;
use ackgate_sim::output::flat;
use ackgate_sim::scenario::ScenarioError;
use ackgate_sim::sweep::{self, Point, SweepError};

use super::book::{Book, Headline, Place, payload_rate};
use super::figures::{Cell, Curve, Figures, Metric, Row};
use super::probe::{Probe, Watch};
use super::reading::{Alternative, Readings};
use super::store::Store;
use super::verdict::{Judgement, needed, straddling};
use super::witness::Testimony;

/// Seeds of every point, and of those that a straddling interval rests on.
pub const SEEDS: usize = 10;
/// The most seeds that a point is given.
pub const MORE_SEEDS: usize = 40;

/// What is run, and where results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for all files; made when it is not there.
    pub out: PathBuf,
    /// Threads; 0 for one on each core.
    pub jobs: usize,
    /// Whether slow settings and more seeds are left out.
    pub quick: bool,
    /// What is run beside the primary settings.
    pub readings: Readings,
    /// Whether nothing is run: what the folder has is judged.
    pub only_judge: bool,
    /// Headlines by name; all when empty.
    pub ids: Vec<String>,
    /// Identifies the program.
    pub build: String,
}

/// A headline after its runs.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The headline.
    pub headline: Headline,
    /// What became of it; `None` where it was not run, as when a quick run leaves it out.
    pub judgement: Option<Judgement>,
    /// What becomes of it under alternatives and in experiments, by their number in the book.
    pub otherwise: Vec<(usize, Judgement)>,
    /// What the runs of other simulators come to.
    pub testimonies: Vec<Testimony>,
}

/// A paper after its runs.
#[derive(Debug)]
pub struct Outcome {
    /// Its file.
    pub book: Book,
    /// All its curves.
    pub figures: Figures,
    /// Its headlines.
    pub judged: Vec<Judged>,
    /// What identifies the settings of each curve.
    pub hashes: BTreeMap<String, String>,
}

/// All papers after their runs.
#[derive(Debug)]
pub struct Outcomes {
    /// By paper.
    pub papers: Vec<Outcome>,
    /// How many of the runs that verdicts rest on each program has made.
    pub builds: BTreeMap<String, usize>,
    /// The same of the runs that readings and experiments add.
    pub added: BTreeMap<String, usize>,
}

/// Why running failed.
#[derive(Debug, thiserror::Error)]
pub enum HeadlineError {
    /// A file of headlines, or a name.
    #[error(transparent)]
    Book(#[from] ScenarioError),
    /// There is no such headline.
    #[error("there is no headline `{name}`; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// There is no such alternative or experiment, or it cannot be run.
    #[error(
        "there is no reading `{name}` that can be run; the tables of docs/reproduction.md list them, for example M21/6"
    )]
    NoReading {
        /// What was asked for.
        name: String,
    },
    /// A simulation.
    #[error("{point}: {error}")]
    Simulation {
        /// Which.
        point: String,
        /// What.
        error: ackgate_sim::Error,
    },
    /// The rows of tasks.
    #[error(transparent)]
    Tasks(SweepError),
    /// A file of results.
    #[error("{file}: {error}")]
    File {
        /// Its name.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// A run of another simulator that nothing asks for.
    #[error("{place}: no headline uses `{curve}` at {x}: remove the line, or run `bench/peers/run witness` again")]
    Stray {
        /// File and line.
        place: String,
        /// Its curve.
        curve: String,
        /// Its point.
        x: f64,
    },
    /// A file of another simulator's runs.
    #[error("{file}:{line}: is not a run as `bench/peers/run witness` writes it: {problem}")]
    Witness {
        /// Its name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Why.
        problem: String,
    },
}

/// The points of curves, by the curves' names.
pub(super) type Places = BTreeMap<String, Vec<Place>>;

/// A point of a curve, by number, with a seed.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) curve: &'a str,
    pub(super) i: usize,
    pub(super) place: &'a Place,
    pub(super) seed: usize,
}

impl Wanted<'_> {
    /// What to run, and what identifies it.
    pub(super) fn point(&self) -> (Point, String) {
        let point = self.place.first.with_seed(self.place.first.scenario.seed + self.seed as u64);
        let name = name(&point, &self.place.watch);
        (point, name)
    }
}

/// Runs and judges. `progress` is told what is being run, how many runs of it are done, and how many there are.
///
/// # Errors
/// When a scenario is refused, a simulation fails, or a file cannot be read or written.
pub fn run(
    books: Vec<Book>,
    options: &Options,
    progress: &(impl Fn(&str, usize, usize) + Sync),
) -> Result<Outcomes, HeadlineError> {
    let store = open(&books, options)?;
    let mut runner = Runner { options, store, progress, used: BTreeSet::new(), added: BTreeSet::new() };
    let papers = books.into_iter().map(|book| runner.paper(book)).collect::<Result<_, _>>()?;
    let Runner { store, used, added, .. } = runner;
    Ok(Outcomes { papers, builds: store.builds(used.iter()), added: store.builds(added.difference(&used)) })
}

/// The runs that are there already.
pub(super) fn open(books: &[Book], options: &Options) -> Result<Store, HeadlineError> {
    let known: Vec<&str> = books.iter().flat_map(|book| &book.headlines).map(|headline| headline.id.as_str()).collect();
    if let Some(name) = options.ids.iter().find(|name| !known.iter().any(|id| id.eq_ignore_ascii_case(name))) {
        return Err(HeadlineError::Unknown { name: name.clone(), known: known.join(", ") });
    }
    if let Some(name) = options.readings.unknown(books) {
        return Err(HeadlineError::NoReading { name: name.clone() });
    }
    let path = options.out.join("runs.jsonl");
    let file = |error: std::io::Error| HeadlineError::File { file: path.display().to_string(), error };
    fs::create_dir_all(&options.out).map_err(file)?;
    let wanted = books.iter().flat_map(quantities).collect();
    Store::open(&path, &options.build, wanted).map_err(file)
}

/// The headlines that are asked for.
pub(super) struct Chosen {
    pub(super) headlines: Vec<Headline>,
    /// Whether each is given a verdict, which a quick run does not do to those that take long.
    pub(super) given: Vec<bool>,
    /// The points that the verdicts rest on.
    pub(super) places: Places,
}

pub(super) fn choose(book: &Book, options: &Options) -> Result<Chosen, ScenarioError> {
    let chosen = |headline: &&Headline| {
        options.ids.is_empty() || options.ids.iter().any(|id| id.eq_ignore_ascii_case(&headline.id))
    };
    let headlines: Vec<Headline> = book.headlines.iter().filter(chosen).cloned().collect();
    let given: Vec<bool> = headlines.iter().map(|headline| !options.quick || !is_slow(book, headline)).collect();
    let judged = headlines.iter().zip(&given).filter(|(_, given)| **given).map(|(headline, _)| headline);
    // Who asks for one reading wants its verdict, not the board's drawings.
    let places = curves(book, judged, None, options.readings.named.is_empty())?;
    Ok(Chosen { headlines, given, places })
}

/// All columns that a book's names stand for.
fn quantities(book: &Book) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for headline in &book.headlines {
        names.extend(headline.draw.iter().map(|drawn| drawn.metric.clone()));
        for formula in headline.rules().flat_map(super::rule::Rule::formulas) {
            formula.visit(&mut |call| {
                names.insert(call.metric.clone());
            });
        }
    }
    let others = book.alternatives.iter().flat_map(|other| other.define.values()).map(|text| Metric::parse(text));
    for metric in book.define.values().cloned().chain(others) {
        match metric {
            Metric::Column(name) => names.extend([name]),
            Metric::Share(one, other) | Metric::Sum(one, other) => names.extend([one, other]),
        }
    }
    names
}

struct Runner<'a, F> {
    options: &'a Options,
    store: Store,
    progress: &'a F,
    /// What identifies the runs that verdicts rest on, and those of readings and experiments.
    used: BTreeSet<String>,
    added: BTreeSet<String>,
}

impl<F: Fn(&str, usize, usize) + Sync> Runner<'_, F> {
    fn paper(&mut self, book: Book) -> Result<Outcome, HeadlineError> {
        let name = book.paper.name();
        let Chosen { headlines, given, places } = choose(&book, self.options)?;
        self.fill(name, &every(&places, SEEDS))?;
        let mut figures = figures(&self.store, &book, &places);
        if !self.options.quick {
            let cells: BTreeSet<Cell> = headlines.iter().flat_map(|headline| straddling(headline, &figures)).collect();
            self.fill(&format!("{name}, more seeds"), &more(&places, &cells))?;
            figures = self::figures(&self.store, &book, &places);
        }
        self.used.extend(stored(&self.store, &places));
        let mut judged: Vec<Judged> = headlines
            .into_iter()
            .zip(given)
            .map(|(headline, given)| {
                let judgement = given.then(|| Judgement::of(&headline, &figures)).filter(|it| it.lacks.is_empty());
                Judged { headline, judgement, otherwise: Vec::new(), testimonies: Vec::new() }
            })
            .collect();
        for (number, other) in self.options.readings.of(&book) {
            self.otherwise(&book, number, other, &figures, &mut judged)?;
        }
        let hashes = places.iter().map(|(name, places)| (name.clone(), hash(places))).collect();
        Ok(Outcome { book, figures, judged, hashes })
    }

    /// Judges again with one open setting read otherwise.
    fn otherwise(
        &mut self,
        book: &Book,
        number: usize,
        other: &Alternative,
        figures: &Figures,
        judged: &mut [Judged],
    ) -> Result<(), HeadlineError> {
        let concerned: Vec<usize> = (0..judged.len())
            .filter(|i| judged[*i].judgement.is_some() && other.concerns(&judged[*i].headline))
            .collect();
        let places = curves(book, concerned.iter().map(|i| &judged[*i].headline), Some(other), false)?;
        let cells: BTreeSet<Cell> = concerned.iter().flat_map(|i| needed(&judged[*i].headline, figures)).collect();
        self.fill(&format!("{}: {}", book.paper.name(), other.also), &some(&places, &cells))?;
        self.added.extend(stored(&self.store, &places));
        let mut changed = self::figures(&self.store, book, &places);
        for (name, curve) in &figures.curves {
            changed.curves.entry(name.clone()).or_insert_with(|| curve.clone());
        }
        changed.define.extend(other.define.iter().map(|(name, text)| (name.clone(), Metric::parse(text))));
        for i in concerned {
            let judgement = Judgement::of(&judged[i].headline, &changed);
            if judgement.lacks.is_empty() {
                judged[i].otherwise.push((number, judgement));
            }
        }
        Ok(())
    }

    /// Runs what is not there yet.
    fn fill(&mut self, what: &str, wanted: &[Wanted<'_>]) -> Result<(), HeadlineError> {
        if self.options.only_judge {
            return Ok(());
        }
        let mut names = BTreeSet::new();
        let mut jobs: Vec<(Point, &[Watch])> = Vec::new();
        for one in wanted {
            let (point, name) = one.point();
            if self.store.get(&name).is_none() && names.insert(name) {
                jobs.push((Point { index: jobs.len(), ..point }, &one.place.watch));
            }
        }
        let mut done = 0;
        (self.progress)(what, 0, jobs.len());
        let points: Vec<&Point> = jobs.iter().map(|(point, _)| point).collect();
        let never = AtomicBool::new(false);
        let simulate = |point: &Point| {
            simulate(point, jobs[point.index].1, &never)
                .map_err(|error| HeadlineError::Simulation { point: format!("{:?}", point.scenario), error })
        };
        let (store, progress) = (&mut self.store, self.progress);
        sweep::run_all(&points, self.options.jobs, simulate, |point, row| {
            done += 1;
            progress(what, done, jobs.len());
            let file = |error| HeadlineError::File { file: "runs.jsonl".into(), error };
            store.add(name(point, jobs[point.index].1), row).map_err(file)
        })
    }
}

/// The runs of a point that are there: what identifies each, and its figures.
fn runs<'a>(
    store: &'a Store,
    curve: &'a str,
    i: usize,
    place: &'a Place,
) -> impl Iterator<Item = (String, Arc<Row>)> + 'a {
    let names = (0..MORE_SEEDS).map(move |seed| Wanted { curve, i, place, seed }.point().1);
    names.map_while(|name| store.get(&name).map(|row| (name, row)))
}

/// What identifies the runs that figures of these points are made of.
fn stored(store: &Store, places: &Places) -> Vec<String> {
    let points =
        places.iter().flat_map(|(curve, places)| places.iter().enumerate().map(move |(i, place)| (curve, i, place)));
    points.flat_map(|(curve, i, place)| runs(store, curve, i, place).map(|(name, _)| name)).collect()
}

/// The figures of curves, with as many seeds as each point has.
pub(super) fn figures(store: &Store, book: &Book, places: &Places) -> Figures {
    let mut figures = Figures::new(book.define.clone());
    for (curve, places) in places {
        let payload = places.first().map_or(f64::NAN, |place| payload_rate(&place.first.scenario));
        let xs = places.iter().map(|place| place.x).collect();
        let of = |(i, place)| runs(store, curve, i, place).map(|(_, row)| row).collect();
        let rows = places.iter().enumerate().map(of).collect();
        figures.curves.insert(curve.clone(), Curve { xs, payload, rows });
    }
    figures
}

/// Whether a headline rests on something that a quick run leaves out.
fn is_slow(book: &Book, headline: &Headline) -> bool {
    let slow = |name: &str| {
        book.settings.iter().any(|setting| setting.slow && name.starts_with(&format!("{}.", setting.name)))
    };
    headline.rules().flat_map(super::rule::Rule::curves).any(slow)
}

/// The points of all curves that some headlines need, those that are only drawn among them or not; of those that an
/// alternative changes, when there is one.
pub(super) fn curves<'a>(
    book: &Book,
    headlines: impl Iterator<Item = &'a Headline>,
    other: Option<&Alternative>,
    drawn: bool,
) -> Result<Places, ScenarioError> {
    let mut needed: BTreeSet<String> = BTreeSet::new();
    for headline in headlines {
        needed.extend(headline.rules().flat_map(super::rule::Rule::curves).map(str::to_owned));
        for drawn in headline.draw.iter().filter(|_| drawn) {
            let setting = book.settings.iter().find(|setting| setting.name == drawn.setting);
            let shown = setting.iter().flat_map(|setting| &setting.curves).filter(|curve| drawn.shows(curve));
            needed.extend(shown.map(|curve| format!("{}.{}", drawn.setting, curve.name)));
        }
    }
    let mut places = Places::new();
    for setting in &book.settings {
        for curve in &setting.curves {
            let name = format!("{}.{}", setting.name, curve.name);
            let changes = other.is_none_or(|other| other.changes(&setting.name, &curve.name));
            if needed.contains(&name) && changes {
                places.insert(name, book.places(setting, curve, other)?);
            }
        }
    }
    Ok(places)
}

/// All points with their first seeds.
pub(super) fn every(places: &Places, seeds: usize) -> Vec<Wanted<'_>> {
    let points =
        places.iter().flat_map(|(curve, places)| places.iter().enumerate().map(move |(i, place)| (curve, i, place)));
    points.flat_map(|(curve, i, place)| (0..seeds).map(move |seed| Wanted { curve, i, place, seed })).collect()
}

/// Some points with their first seeds.
pub(super) fn some<'a>(places: &'a Places, cells: &BTreeSet<Cell>) -> Vec<Wanted<'a>> {
    let mut all = every(places, SEEDS);
    all.retain(|one| cells.contains(&(one.curve.to_owned(), one.i)));
    all
}

/// Some points with their further seeds.
pub(super) fn more<'a>(places: &'a Places, cells: &'a BTreeSet<Cell>) -> Vec<Wanted<'a>> {
    let seeds = |(curve, i): &'a Cell| {
        let place = &places[curve][*i];
        (SEEDS..MORE_SEEDS).map(move |seed| Wanted { curve, i: *i, place, seed })
    };
    cells.iter().flat_map(seeds).collect()
}

/// Identifies a run: its scenario with the seed, and what is counted.
fn name(point: &Point, watch: &[Watch]) -> String {
    if watch.is_empty() {
        format!("{:016x}", point.fingerprint)
    } else {
        format!("{:016x} {watch:?}", point.fingerprint)
    }
}

/// Identifies the settings of a curve: those of all its points together.
fn hash(places: &[Place]) -> String {
    let all = places.iter().fold(0_u64, |hash, place| hash.rotate_left(5) ^ place.first.fingerprint);
    format!("{all:016x}")
}

/// One run's figures.
pub(crate) fn simulate(point: &Point, watch: &[Watch], stop: &AtomicBool) -> Result<Row, ackgate_sim::Error> {
    let (report, counted) = if watch.is_empty() {
        (ackgate_sim::run(&point.scenario, &mut Until(stop))?, Row::new())
    } else {
        let mut observer = (Until(stop), Probe::new(watch));
        let report = ackgate_sim::run(&point.scenario, &mut observer)?;
        (report, observer.1.finish())
    };
    let columns: HashMap<String, String> = flat::columns(&report).into_iter().collect();
    let mut row: Row = columns.iter().filter_map(|(name, text)| Some((name.clone(), text.parse().ok()?))).collect();
    let beyond = |share: f64| report.distributions.rtt_us.iter().find(|(_, upto)| *upto >= share).map(|(us, _)| *us);
    row.extend(report.distributions.timeout_us.first().map(|(us, _)| ("timeout_us_min".to_owned(), *us)));
    row.extend(beyond(0.999).map(|us| ("rtt_us_p999".to_owned(), us)));
    row.insert("round_ms_per_sender".into(), report.round_ms.mean / f64::from(report.senders.max(1)));
    // A flow of 200 ms or more has waited for its timer, where that is what RTOmin is.
    let flows = f64::from(report.rounds) * f64::from(report.senders);
    let within =
        |ms: f64| report.distributions.flow_ms.iter().rfind(|(upto, _)| *upto < ms).map_or(0.0, |(_, share)| *share);
    row.insert("flows".into(), flows);
    row.insert("flows_late".into(), flows * (1.0 - within(200.0)));
    row.insert("flows_under_100ms".into(), flows * within(100.0));
    row.extend(counted);
    Ok(row)
}
