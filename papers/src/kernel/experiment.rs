//! What a file of kernel experiments holds: curves of the headlines' settings, at which x they are measured, for how long.

use ackgate_sim::scenario::{Document, Scenario, ScenarioError};
use serde::Deserialize;

use super::motion::Motion;
use crate::headlines::book::{Alternative, Book, Headline, Setting, payload_rate};
use crate::headlines::probe::Watch;

/// File name and text of the experiments.
const FILE: (&str, &str) = ("kernel.toml", include_str!("../../kernel.toml"));
/// The same for settings that no headline has.
const BESIDE: (&str, &str) = ("kernel-beside.toml", include_str!("../../kernel-beside.toml"));

/// Seeds of the simulator, and stretches that one run on the kernel is cut into.
pub const SEEDS: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    machine: Machine,
    experiment: Vec<Experiment>,
}

/// What is the kernel's and the lab's, whatever the paper had: for the simulator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    /// Changes to every scenario.
    set: Vec<String>,
}

/// One figure, or more of the same curves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub id: String,
    /// Other names that it answers to.
    #[serde(default)]
    pub also: Vec<String>,
    /// What it shows.
    pub title: String,
    /// Headlines that it is judged by.
    pub headlines: Vec<String>,
    /// Curves of those headlines' settings, `setting.curve`.
    pub curves: Vec<String>,
    /// At which x, as a sweep's `--vary` takes them.
    pub x: String,
    /// Fewer of them, for a quick run.
    pub quick_x: String,
    /// The quantities that the table shows.
    pub show: Vec<Shown>,
    /// Rounds of each point.
    #[serde(default = "one")]
    pub rounds: u32,
    /// The same of a quick run.
    #[serde(default = "one")]
    pub quick_rounds: u32,
    /// Times that each point is run anew.
    #[serde(default = "one")]
    pub runs: u32,
    /// The same of a quick run.
    #[serde(default = "one")]
    pub quick_runs: u32,
    /// Longest time of a run, in seconds.
    pub limit_s: u32,
    /// The same of a quick run.
    pub quick_limit_s: u32,
    /// What is not as in the paper, beside what is never.
    #[serde(default)]
    pub differs: Vec<String>,
    /// Why it comes out otherwise than in the paper, as far as that is known.
    #[serde(default)]
    pub why: String,
    /// Whether a quick run of all leaves it out.
    #[serde(default)]
    pub slow: bool,
    /// The link's rate is divided by this: for what needs more of the machine for each byte.
    #[serde(default = "one")]
    pub rate_divisor: u32,
}

/// A quantity of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// As formulas have it.
    pub metric: String,
    /// In words, with its unit.
    pub label: String,
    /// Decimals.
    #[serde(default)]
    pub decimals: usize,
}

const fn one() -> u32 {
    1
}

/// One point of one curve, ready to be run.
#[derive(Clone, Debug)]
pub struct Point {
    /// `setting.curve`.
    pub curve: String,
    /// Its x.
    pub x: f64,
    /// Payload rate of the paper's link, in Mb/s.
    pub payload: f64,
    /// What is run, slowed.
    pub scenario: Scenario,
    /// How much.
    pub motion: Motion,
    /// What the simulator counts beside its own figures.
    pub watch: Vec<Watch>,
    /// Rounds.
    pub rounds: u32,
    /// Times that it is run anew.
    pub runs: u32,
    /// Longest time of a run, in seconds.
    pub limit_s: u32,
}

/// All experiments, with the books that they take their settings and rules from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In the order in which they are run.
    pub experiments: Vec<Experiment>,
    books: Vec<Book>,
    machine: Alternative,
}

impl Plan {
    /// The program's own.
    ///
    /// # Errors
    /// When a file is wrong: says file, line and key.
    pub fn all() -> Result<Self, ScenarioError> {
        let mut books = Book::all()?;
        books.push(Book::parse(BESIDE.0, BESIDE.1)?);
        let document = Document::parse(FILE.0, FILE.1)?;
        let File { machine, experiment } = document.read_as()?;
        let plan = Self { experiments: experiment, books, machine: machine.alternative() };
        for (i, experiment) in plan.experiments.iter().enumerate() {
            let key = format!("experiment.{i}");
            let wrong = |problem: String| ScenarioError::new(document.place_of(&key), &key, problem);
            plan.check(experiment).map_err(wrong)?;
        }
        Ok(plan)
    }

    /// Those that are called so, or judge such headlines; all when `names` is empty.
    ///
    /// # Errors
    /// A name that none has, with those that there are.
    pub fn named(mut self, names: &[String]) -> Result<Self, String> {
        let called =
            |experiment: &Experiment, name: &String| experiment.names().any(|known| known.eq_ignore_ascii_case(name));
        if let Some(name) = names.iter().find(|name| !self.experiments.iter().any(|one| called(one, name))) {
            let known: Vec<&str> = self.experiments.iter().map(|experiment| experiment.id.as_str()).collect();
            return Err(format!("no experiment on the kernel is called `{name}`; there are {}", known.join(", ")));
        }
        if !names.is_empty() {
            self.experiments.retain(|one| names.iter().any(|name| called(one, name)));
            // Who names one wants it.
            self.experiments.iter_mut().for_each(|one| one.slow = false);
        }
        Ok(self)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        for id in &experiment.headlines {
            self.headline(id).ok_or_else(|| format!("there is no headline `{id}`"))?;
        }
        let book = self.book(experiment);
        match experiment.curves.iter().find(|name| book.curve(name).is_none()) {
            Some(name) => Err(format!("there is no curve `{name}`")),
            None => Ok(()),
        }
    }

    /// A headline, and the book that it stands in.
    #[must_use]
    pub fn headline(&self, id: &str) -> Option<(&Book, &Headline)> {
        self.books.iter().find_map(|book| Some((book, book.headlines.iter().find(|headline| headline.id == id)?)))
    }

    /// The book that an experiment's curves stand in.
    #[must_use]
    pub fn book(&self, experiment: &Experiment) -> &Book {
        let first = experiment.headlines.first().and_then(|id| self.headline(id));
        first.map_or(&self.books[0], |(book, _)| book)
    }

    /// What an experiment has to run, on a link of `rate` bits per second.
    ///
    /// # Errors
    /// When a scenario is refused.
    pub fn points(&self, experiment: &Experiment, quick: bool, rate: u64) -> Result<Vec<Point>, ScenarioError> {
        let book = self.book(experiment);
        let mut points = Vec::new();
        for name in &experiment.curves {
            let (setting, series) = book.curve(name).expect("checked as the file was read");
            let mut at = setting.clone();
            at.x.values = experiment.x(quick, setting);
            for place in book.places(&at, series, Some(&self.machine))? {
                let paper = place.first.scenario;
                let motion = Motion::between(paper.network.rate.0, rate / u64::from(experiment.rate_divisor.max(1)));
                let (rounds, runs) = match quick {
                    true => (experiment.quick_rounds, experiment.quick_runs),
                    false => (experiment.rounds, experiment.runs),
                };
                points.push(Point {
                    curve: name.clone(),
                    x: place.x,
                    payload: payload_rate(&paper),
                    scenario: motion.slow(paper),
                    motion,
                    watch: place.watch,
                    rounds,
                    runs,
                    limit_s: if quick { experiment.quick_limit_s } else { experiment.limit_s },
                });
            }
        }
        Ok(points)
    }
}

impl Machine {
    /// As a reading of every setting.
    fn alternative(self) -> Alternative {
        Alternative {
            open: "hosts".into(),
            primary: "the paper's".into(),
            also: "this kernel's".into(),
            set: self.set,
            ..Alternative::default()
        }
    }
}

impl Experiment {
    /// Its names as a heading has them.
    #[must_use]
    pub fn names_told(&self) -> String {
        std::iter::once(&self.id).chain(&self.also).cloned().collect::<Vec<_>>().join(", ")
    }

    /// All names that it answers to.
    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.id).chain(&self.also).chain(&self.headlines)
    }

    /// The x of a setting: this one's, but where the setting has a single x of its own.
    fn x(&self, quick: bool, setting: &Setting) -> String {
        let single = !setting.x.values.contains([',', '.', ':']);
        if single {
            return setting.x.values.clone();
        }
        if quick { self.quick_x.clone() } else { self.x.clone() }
    }
}
