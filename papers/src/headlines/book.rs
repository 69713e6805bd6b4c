//! What a file of headlines holds: settings that are run, headlines that are judged, and alternatives to open settings.

use std::collections::{BTreeMap, HashMap};

use ackgate_sim::scenario::{Assignment, Document, Scenario, ScenarioError};
use ackgate_sim::sweep::{Plan, Point, SweepError, Vary};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::figures::Metric;
use super::formula::Formula;
use super::probe::Watch;
pub use super::reading::Alternative;
use super::rule::{Rule, Text};
use crate::experiment::{Paper, Scale, quantity};
use crate::hosts::Hosts;

/// File name and text of every file.
const FILES: [(&str, &str); 4] = [
    ("pac.toml", include_str!("../../headlines/pac.toml")),
    ("vas.toml", include_str!("../../headlines/vas.toml")),
    ("m21.toml", include_str!("../../headlines/m21.toml")),
    ("hw.toml", include_str!("../../headlines/hw.toml")),
];

/// The headlines of one paper.
#[derive(Clone, Debug)]
pub struct Book {
    /// Which paper.
    pub paper: Paper,
    /// What is run.
    pub settings: Vec<Setting>,
    /// What is judged.
    pub headlines: Vec<Headline>,
    /// What could have been set otherwise; experiments behind the readings that the paper leaves open.
    pub alternatives: Vec<Alternative>,
    /// Names of quantities.
    pub define: HashMap<String, Metric>,
    /// The file that all this stands in, and its text.
    document: Document,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    paper: Paper,
    define: BTreeMap<String, String>,
    setting: BTreeMap<String, SettingText>,
    headline: Vec<HeadlineText>,
    #[serde(default)]
    alternative: Vec<Alternative>,
    #[serde(default)]
    experiment: Vec<Alternative>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingText {
    title: String,
    hosts: Option<String>,
    #[serde(rename = "scenario")]
    _scenario: IgnoredAny,
    x: Axis,
    curves: Vec<Series>,
    #[serde(default)]
    watch: Vec<Watch>,
    #[serde(default)]
    slow: bool,
}

/// A setting of an experiment, with its curves.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name in formulas.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What its hosts were, by the name of their file in `papers/hosts/`.
    pub hosts: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The curves.
    pub curves: Vec<Series>,
    /// What is counted beside the simulator's own figures.
    pub watch: Vec<Watch>,
    /// Whether a quick run leaves it out.
    pub slow: bool,
}

/// The horizontal axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Keys of the scenario that take its values.
    pub keys: Vec<String>,
    /// Values, as a sweep's `--vary` takes them.
    pub values: String,
    /// Unit that the axis counts in.
    #[serde(default)]
    pub unit: String,
    /// What is on it.
    pub label: String,
    /// How it is spaced.
    #[serde(default)]
    pub scale: Scale,
}

/// A curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name in formulas, behind that of the setting.
    pub name: String,
    /// Its name in drawings.
    pub label: String,
    /// Changes to the scenario.
    #[serde(default)]
    pub set: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadlineText {
    id: String,
    #[serde(rename = "where")]
    place: String,
    claim: String,
    paper: String,
    #[serde(default)]
    elsewhere: String,
    /// What is drawn: `quantity(setting)`.
    #[serde(default)]
    draw: Vec<Drawn>,
    #[serde(default)]
    sim: bool,
    #[serde(default)]
    part: Vec<Text>,
    #[serde(default)]
    direction: Vec<Text>,
    #[serde(default)]
    remark: Vec<RemarkText>,
    #[serde(default)]
    left_out: Vec<String>,
    #[serde(default)]
    cannot: String,
    #[serde(default)]
    note: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemarkText {
    unless: Text,
    say: String,
}

/// A panel of a headline's figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    /// The setting.
    pub setting: String,
    /// The curves; all of the setting when empty.
    #[serde(default)]
    pub curves: Vec<String>,
    /// The quantity.
    pub metric: String,
    /// What is on the vertical axis.
    pub label: String,
    /// How it is spaced.
    #[serde(default)]
    pub scale: Scale,
}

/// A claim of a paper.
#[derive(Clone, Debug)]
pub struct Headline {
    /// Its name.
    pub id: String,
    /// Where the paper makes it.
    pub place: String,
    /// The claim in our words.
    pub claim: String,
    /// The paper's figures.
    pub paper: String,
    /// What other simulators were not given to run of it, and why.
    pub elsewhere: String,
    /// What is drawn.
    pub draw: Vec<Drawn>,
    /// Whether the paper measured it on a testbed, for which the simulator stands.
    pub sim: bool,
    /// What is to hold for "reproduced".
    pub parts: Vec<Rule>,
    /// What is to hold for "direction only".
    pub direction: Vec<Rule>,
    /// What the verdict adds where a rule does not hold.
    pub remarks: Vec<(Vec<Rule>, String)>,
    /// Parts that cannot be run here.
    pub left_out: Vec<String>,
    /// Why it cannot be judged at all; empty when it can.
    pub cannot: String,
    /// What a reader should know of it.
    pub note: String,
}

/// One point of a curve: the scenario without its seed.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its x.
    pub x: f64,
    /// The scenario with its first seed.
    pub first: Point,
    /// What is counted beside the simulator's own figures.
    pub watch: Vec<Watch>,
}

impl Book {
    /// The files of this program.
    ///
    /// # Errors
    /// When one is wrong: says file, line and key.
    pub fn all() -> Result<Vec<Self>, ScenarioError> {
        FILES.iter().map(|(file, text)| Self::parse(file, text)).collect()
    }

    /// Reads a file's text; `file` is its name for messages.
    ///
    /// # Errors
    /// When something in it is wrong: says file, line and key.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let document = Document::parse(file, text)?;
        let File { paper, define, setting, headline, alternative, experiment } = document.read_as()?;
        let settings = setting.into_iter().map(|(name, text)| {
            let SettingText { title, hosts, x, curves, watch, slow, _scenario: _ } = text;
            Setting { name, title, hosts, x, curves, watch, slow }
        });
        let define = define.iter().map(|(name, text)| (name.clone(), Metric::parse(text))).collect();
        let (settings, headlines) = (settings.collect(), Vec::new());
        let readings = alternative.len();
        let alternatives = alternative.into_iter().chain(experiment).collect();
        let mut book = Self { paper, settings, headlines, alternatives, define, document, text: text.to_owned() };
        for (i, text) in headline.into_iter().enumerate() {
            let key = format!("headline.{i}");
            let headline = book.headline(text);
            let wrong = |problem: String| ScenarioError::new(book.document.place_of(&key), &key, problem);
            book.headlines.push(headline.map_err(wrong)?);
        }
        let ids: Vec<&str> = book.headlines.iter().map(|headline| headline.id.as_str()).collect();
        for (i, other) in book.alternatives.iter().enumerate() {
            let key = i.checked_sub(readings).map_or_else(|| format!("alternative.{i}"), |i| format!("experiment.{i}"));
            let wrong = |problem: String| ScenarioError::new(book.document.place_of(&key), &key, problem);
            other.check(i >= readings, &ids).map_err(wrong)?;
        }
        Ok(book)
    }

    /// The name of an alternative or experiment, by its number from 0.
    #[must_use]
    pub fn reading(&self, number: usize) -> String {
        let paper = self.headlines.first().and_then(|headline| headline.id.split('-').next()).unwrap_or_default();
        format!("{paper}/{}", number + 1)
    }

    /// A setting as its file has it.
    #[must_use]
    pub fn source(&self, setting: &str) -> String {
        let begins = |line: &str, sign: &str| line == format!("[setting.{setting}{sign}");
        let lines = self.text.lines().skip_while(|line| !begins(line, "]"));
        let mut mine = true;
        let own = lines.take_while(|line| {
            mine = !line.starts_with('[') || begins(line, "]") || begins(line, ".scenario]");
            mine && !line.starts_with('#')
        });
        own.collect::<Vec<&str>>().join("\n").trim_end().to_owned()
    }

    fn headline(&self, text: HeadlineText) -> Result<Headline, String> {
        let id = &text.id;
        let rules = |texts: &[Text]| -> Result<Vec<Rule>, String> {
            let mut all = Vec::new();
            for text in texts {
                let found = text.rules().map_err(|problem| format!("{id}: {problem}"))?;
                for rule in &found {
                    self.check(rule)?;
                }
                all.extend(found);
            }
            Ok(all)
        };
        let remarks = text
            .remark
            .iter()
            .map(|remark| Ok::<_, String>((rules(std::slice::from_ref(&remark.unless))?, remark.say.clone())));
        if text.part.is_empty() && text.cannot.is_empty() {
            return Err("needs `part`, or `cannot` with the reason why it cannot be judged".into());
        }
        Ok(Headline {
            remarks: remarks.collect::<Result<_, _>>()?,
            parts: rules(&text.part)?,
            direction: rules(&text.direction)?,
            id: text.id,
            place: text.place,
            claim: text.claim,
            paper: text.paper,
            elsewhere: text.elsewhere,
            draw: text.draw,
            sim: text.sim,
            left_out: text.left_out,
            cannot: text.cannot,
            note: text.note,
        })
    }

    /// Says what is wrong when a rule names a curve that there is not.
    fn check(&self, rule: &Rule) -> Result<(), String> {
        for name in rule.curves() {
            let known = name.split_once('.').and_then(|(setting, curve)| {
                let setting = self.settings.iter().find(|known| known.name == setting)?;
                setting.curves.iter().find(|known| known.name == curve)
            });
            if known.is_none() {
                return Err(format!("`{}`: there is no curve `{name}`", rule.text));
            }
        }
        Ok(())
    }

    /// The setting and the series of a curve named `setting.series`.
    #[must_use]
    pub fn curve(&self, name: &str) -> Option<(&Setting, &Series)> {
        let (setting, series) = name.split_once('.')?;
        let setting = self.settings.iter().find(|known| known.name == setting)?;
        Some((setting, setting.curves.iter().find(|known| known.name == series)?))
    }

    /// The points of a curve, with what an alternative changes.
    ///
    /// # Errors
    /// When a scenario is refused: says file, line and key.
    pub fn places(
        &self,
        setting: &Setting,
        curve: &Series,
        other: Option<&Alternative>,
    ) -> Result<Vec<Place>, ScenarioError> {
        let key = format!("setting.{}", setting.name);
        let at = |problem: String| ScenarioError::new(self.document.place_of(&key), &key, problem);
        let mut base = self.document.section("setting").section(&setting.name).section("scenario");
        if let Some(name) = &setting.hosts {
            let known = Hosts::all()?;
            let hosts = known.iter().find(|hosts| hosts.name == *name);
            hosts.ok_or_else(|| at(format!("`{name}`: unknown hosts")))?.apply(&mut base)?;
        }
        let otherwise = other.map_or(&[][..], |other| &other.set);
        for change in curve.set.iter().chain(otherwise) {
            base.set(&Assignment::parse("change", change)?)?;
        }
        let axis = |values: &str| Vary::parse(&format!("x={values}")).map_err(|error| at(error.to_string()));
        let vary = axis(&setting.x.values)?;
        // What is run at each x: the x itself, unless an alternative says otherwise.
        let run = other.map(|other| other.x.as_str()).filter(|values| !values.is_empty()).map(axis).transpose()?;
        let run = run.unwrap_or_else(|| vary.clone());
        if run.values.len() != vary.values.len() {
            return Err(at(format!("{} values for {} x", run.values.len(), vary.values.len())));
        }
        let watch: Vec<Watch> =
            setting.watch.iter().chain(other.iter().flat_map(|other| &other.watch)).copied().collect();
        let mut places = Vec::new();
        for (value, instead) in vary.values.iter().zip(&run.values) {
            let x = quantity(value, &setting.x.unit).map_err(at)?;
            let mut changed = base.clone();
            for key in &setting.x.keys {
                changed.set(&Assignment { option: "x", key: key.clone(), value: instead.clone() })?;
            }
            let plan = Plan::new(&changed, &[], 1).map_err(|error| match error {
                SweepError::Scenario(error) => error,
                other => at(other.to_string()),
            })?;
            let first = plan.points.into_iter().next().expect("a plan without varied keys has one point");
            places.push(Place { x, first, watch: watch.clone() });
        }
        Ok(places)
    }
}

impl Drawn {
    /// Whether a curve of its setting is in it.
    #[must_use]
    pub fn shows(&self, curve: &Series) -> bool {
        self.curves.is_empty() || self.curves.contains(&curve.name)
    }
}

impl Headline {
    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let remarks = self.remarks.iter().flat_map(|(rules, _)| rules);
        self.parts.iter().chain(&self.direction).chain(remarks)
    }
}

impl Rule {
    /// All curves that it names.
    #[must_use]
    pub fn curves(&self) -> Vec<&str> {
        self.formulas().into_iter().flat_map(Formula::curves).collect()
    }
}

/// Payload rate of a scenario's link in Mb/s: what is left of the rate beside the headers of full segments.
#[must_use]
pub fn payload_rate(scenario: &Scenario) -> f64 {
    let network = &scenario.network;
    let options = if scenario.tcp.timestamps { 12 } else { 0 };
    let frame = scenario.tcp.mss + 40 + network.framing.in_buffer() + network.framing.gap();
    #[expect(clippy::cast_precision_loss, reason = "rates are below 2^53")]
    let rate = network.rate.0 as f64 / 1e6;
    rate * f64::from(scenario.tcp.mss - options) / f64::from(frame)
}
