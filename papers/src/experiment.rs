//! What an experiment's file holds. Reading it checks it: faults are told with file, line and key.

use std::path::Path;

use ackgate_sim::scenario::human::{parse_bytes, parse_rate, parse_span};
use ackgate_sim::scenario::{Assignment, Document, Place, ScenarioError};
use ackgate_sim::sweep::{self, Plan, SweepError, Vary};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::figures;
use crate::hosts::{Given, Hosts};
use crate::inside::View;
use crate::judge::Rule;

/// One figure or table of a paper: what is run, what is drawn, what is claimed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name, such as `PAC-F13`; also the name of its files.
    pub id: String,
    /// Other figures and tables of the paper that it covers, by the same kind of name.
    #[serde(default)]
    pub also: Vec<String>,
    /// Which paper.
    pub paper: Paper,
    /// The figure or table in the paper's own numbering.
    pub figure: String,
    /// Section of the paper.
    pub section: String,
    /// What it shows, in one line.
    pub title: String,
    /// A small drawing.
    pub topology: String,
    /// What the paper's hosts were, by the name of their file in `papers/hosts/`.
    pub hosts: Option<String>,
    /// What these hosts set that the scenario does not; empty until the file has been checked.
    #[serde(skip)]
    pub given: Vec<Given>,
    /// Settings that the paper gives.
    pub settings: Vec<Setting>,
    /// Settings that the paper's text leaves open.
    #[serde(default)]
    pub chosen: Vec<Choice>,
    /// Where this differs from what the paper did.
    #[serde(default)]
    pub deviations: Vec<String>,
    /// Runs of each point, with seeds counted up from the scenario's.
    pub seeds: u32,
    /// What a quick run does instead.
    pub quick: Quick,
    /// The scenario that everything starts from; read by the simulator.
    #[serde(rename = "scenario")]
    _scenario: IgnoredAny,
    /// The horizontal axis.
    pub x: Abscissa,
    /// What is drawn over it: one panel each. Claims speak of the first one unless they name another metric.
    #[serde(rename = "panel")]
    pub panels: Vec<Panel>,
    /// The curves.
    pub series: Vec<Curve>,
    /// Figures of single runs, where the paper's has another axis than the sweep.
    #[serde(default, rename = "view")]
    pub views: Vec<View>,
    /// What the paper says came out.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
    /// Points of the sweep; empty until the file has been checked.
    #[serde(skip)]
    pub plan: Option<Plan>,
    /// Curve and x of each point of the plan.
    #[serde(skip)]
    pub places: Vec<(usize, f64)>,
    /// The runs that views look into; empty until the file has been checked.
    #[serde(skip)]
    pub looks: Vec<Look>,
}

/// One run that a view looks into.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which view.
    pub view: usize,
    /// Which series.
    pub curve: usize,
    /// What is run.
    pub point: sweep::Point,
}

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Bai et al., "PAC: Taming TCP Incast Congestion using Proactive ACK Control".
    Pac,
    /// Vasudevan et al., "A (In)Cast of Thousands", CMU-PDL-09-101.
    Vasudevan,
    /// Adesanmi and Mhamdi, "Controlling TCP Incast Congestion in Data Centre Networks" (M21TCP-A).
    M21,
    /// Abdelmoniem et al., HWatch (ICPP 2020).
    Hwatch,
}

impl Paper {
    /// How the paper is called here.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pac => "PAC",
            Self::Vasudevan => "A (In)Cast of Thousands",
            Self::M21 => "M21TCP-A",
            Self::Hwatch => "HWatch",
        }
    }
}

/// A setting and where the paper gives it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The setting in words.
    pub what: String,
    /// Section, table or figure.
    pub source: String,
}

/// A setting that was chosen for want of one in the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The setting in words.
    pub what: String,
    /// Why this one.
    pub why: String,
}

/// What a quick run does differently.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Runs of each point.
    pub seeds: u32,
    /// Values of the axis, when not all.
    pub values: Option<String>,
    /// Changes to the scenario, `key=value` each.
    #[serde(default)]
    pub set: Vec<String>,
}

/// The horizontal axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abscissa {
    /// Keys of the scenario that take its values, all the same.
    pub keys: Vec<String>,
    /// Values, as a sweep's `--vary` takes them.
    pub values: String,
    /// Unit that the axis counts in, for values with one.
    #[serde(default)]
    pub unit: String,
    /// What is on the axis, with its unit.
    pub label: String,
    /// How it is spaced.
    #[serde(default)]
    pub scale: Scale,
}

/// How an axis is spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of two.
    Log2,
    /// By powers of ten.
    Log10,
}

/// One vertical axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// A column of the simulator's report, or one of [`figures::DERIVED`].
    pub metric: String,
    /// What is on the axis, with its unit.
    pub label: String,
    /// How it is spaced.
    #[serde(default)]
    pub scale: Scale,
    /// Horizontal line that the data should be seen against: its name.
    #[serde(default)]
    pub level_name: String,
    /// Its height.
    pub level: Option<f64>,
}

/// One curve: the scenario with some changes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Name in the legend and in claims.
    pub name: String,
    /// Changes to the scenario, `key=value` each.
    #[serde(default)]
    pub set: Vec<String>,
}

/// Something that the paper says, and how we judge whether it came out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short name, unique in the experiment.
    pub id: String,
    /// What the paper claims, in our words.
    pub says: String,
    /// The paper's figure.
    pub paper: String,
    /// How it is judged.
    pub judge: Rule,
    /// What a reader should know of the comparison; our explanation where it did not come out.
    #[serde(default)]
    pub note: String,
}

impl Experiment {
    /// Reads an experiment from a file.
    ///
    /// # Errors
    /// When it cannot be read or something in it is wrong: says file, line and key.
    pub fn read(path: &Path, quick: bool) -> Result<Self, ScenarioError> {
        Self::of(&Document::read(path)?, quick)
    }

    /// Reads an experiment from its text; `file` is its name for messages.
    ///
    /// # Errors
    /// When something in it is wrong: says file, line and key.
    pub fn parse(file: &str, text: &str, quick: bool) -> Result<Self, ScenarioError> {
        Self::of(&Document::parse(file, text)?, quick)
    }

    fn of(document: &Document, quick: bool) -> Result<Self, ScenarioError> {
        let mut experiment: Self = document.read_as()?;
        let at = |key: &str, problem: String| ScenarioError::new(document.place_of(key), key, problem);
        if experiment.panels.is_empty() {
            return Err(at("panel", "is empty: nothing would be drawn".into()));
        }
        for (i, panel) in experiment.panels.iter().enumerate() {
            figures::known(&panel.metric).map_err(|problem| at(&format!("panel.{i}.metric"), problem))?;
        }
        for (i, curve) in experiment.series.iter().enumerate() {
            if experiment.series[..i].iter().any(|other| other.name == curve.name) {
                return Err(at(&format!("series.{i}.name"), format!("`{}` names two series", curve.name)));
            }
        }
        for (i, claim) in experiment.claims.iter().enumerate() {
            if experiment.claims[..i].iter().any(|other| other.id == claim.id) {
                return Err(at(&format!("claim.{i}.id"), format!("`{}` names two claims", claim.id)));
            }
        }
        experiment.expand(document, quick)?;
        for (i, claim) in experiment.claims.iter().enumerate() {
            let key = format!("claim.{i}.judge");
            claim.judge.check(&experiment).map_err(|problem| at(&key, problem))?;
        }
        Ok(experiment)
    }

    /// Makes the points of the sweep.
    fn expand(&mut self, document: &Document, quick: bool) -> Result<(), ScenarioError> {
        let at = |key: &str, problem: String| ScenarioError::new(document.place_of(key), key, problem);
        let (values_key, values) = match &self.quick.values {
            Some(values) if quick => ("quick.values", values),
            _ => ("x.values", &self.x.values),
        };
        let vary = Vary::parse(&format!("x={values}")).map_err(|error| at(values_key, error.to_string()))?;
        let seeds = if quick { self.quick.seeds } else { self.seeds };
        let mut base = document.section("scenario");
        if let Some(name) = &self.hosts {
            let known = Hosts::all()?;
            let hosts = known.iter().find(|hosts| hosts.name == *name).ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|hosts| hosts.name.as_str()).collect();
                at("hosts", format!("`{name}`: unknown hosts; there are {}", names.join(", ")))
            })?;
            self.given = hosts.apply(&mut base)?;
        }
        if quick {
            self.quick.set.iter().enumerate().try_for_each(|(i, change)| {
                apply(&mut base, change).map_err(|error| at(&format!("quick.set.{i}"), error.to_string()))
            })?;
        }
        self.looks = self.looks(document, &base)?;
        let mut plan = Plan { keys: vec!["series".into(), self.x.label.clone()], points: Vec::new() };
        if seeds > 1 {
            plan.keys.push("seed".into());
        }
        let mut places: Vec<(usize, f64)> = Vec::new();
        for (i, curve) in self.series.iter().enumerate() {
            let mut changed = base.clone();
            for (j, change) in curve.set.iter().enumerate() {
                let key = format!("series.{i}.set.{j}");
                apply(&mut changed, change).map_err(|error| at(&key, error.to_string()))?;
            }
            for value in &vary.values {
                let x = quantity(value, &self.x.unit).map_err(|problem| at(values_key, problem))?;
                let mut point = changed.clone();
                for (j, key) in self.x.keys.iter().enumerate() {
                    let change = Assignment { option: "x", key: key.clone(), value: value.clone() };
                    point.set(&change).map_err(|error| at(&format!("x.keys.{j}"), error.to_string()))?;
                }
                let points = match Plan::new(&point, &[], seeds) {
                    Ok(plan) => plan.points,
                    Err(SweepError::Scenario(error)) if matches!(error.place(), Some(Place::File { .. })) => {
                        return Err(error);
                    }
                    // What a change brought has no line of its own: that of the curve is near enough.
                    Err(SweepError::Scenario(error)) => return Err(at(&format!("series.{i}"), error.to_string())),
                    Err(other) => return Err(at("seeds", other.to_string())),
                };
                for mut point in points {
                    if let Some(twin) = plan.points.iter().position(|known| known.fingerprint == point.fingerprint) {
                        let (other, x) = places[twin];
                        let problem = format!("is the same scenario as {} at {x}", self.series[other].name);
                        return Err(at(&format!("series.{i}"), problem));
                    }
                    point.index = plan.points.len();
                    point.values.splice(0..0, [curve.name.clone(), value.clone()]);
                    plan.points.push(point);
                    places.push((i, x));
                }
            }
        }
        self.plan = Some(plan);
        self.places = places;
        Ok(())
    }

    /// The runs that views look into, of a scenario that hosts and a quick run have changed already.
    fn looks(&self, document: &Document, base: &Document) -> Result<Vec<Look>, ScenarioError> {
        let at = |key: &str, problem: String| ScenarioError::new(document.place_of(key), key, problem);
        let mut looks = Vec::new();
        for (i, view) in self.views.iter().enumerate() {
            let wrong = |problem: String| at(&format!("view.{i}"), problem);
            view.check().map_err(wrong)?;
            let (wanted, x, set) = view.runs();
            if let Some(name) = wanted.iter().find(|name| self.series.iter().all(|curve| curve.name != **name)) {
                return Err(wrong(format!("`{name}` is not a series")));
            }
            for (curve, series) in self.series.iter().enumerate() {
                if !wanted.is_empty() && !wanted.contains(&series.name) {
                    continue;
                }
                let value = format!("{x}{}", self.x.unit);
                let places = self.x.keys.iter().map(|key| format!("{key}={value}"));
                let mut changed = base.clone();
                for change in series.set.iter().cloned().chain(places).chain(set.iter().cloned()) {
                    apply(&mut changed, &change).map_err(|error| wrong(error.to_string()))?;
                }
                let plan = Plan::new(&changed, &[], 1).map_err(|error| wrong(error.to_string()))?;
                looks.extend(plan.points.into_iter().map(|point| Look { view: i, curve, point }));
            }
        }
        Ok(looks)
    }

    /// The plan of the sweep, with at least no points.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.plan.as_ref().expect("every way to make an experiment expands it")
    }

    /// The values on the axis, rising.
    #[must_use]
    pub fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.places.iter().map(|(_, x)| *x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }
}

fn apply(document: &mut Document, change: &str) -> Result<(), ScenarioError> {
    document.set(&Assignment::parse("change", change)?)
}

/// A value of the axis as a number, in the axis' unit.
pub(crate) fn quantity(text: &str, unit: &str) -> Result<f64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes, times and rates of scenarios are below 2^53")]
    let read = |text: &str| {
        let size = parse_bytes(text).ok();
        let time = || parse_span(text).ok().map(|span| span.0);
        size.or_else(time).or_else(|| parse_rate(text).ok().map(|rate| rate.0)).map(|value| value as f64)
    };
    match (read(text), read(&format!("1{unit}"))) {
        (Some(value), Some(one)) => Ok(value / one),
        (None, _) => Err(format!("`{text}` is not a quantity that can be put on an axis")),
        (_, None) => Err(format!("`{unit}` is not a unit: `x.unit` must be one for values such as `{text}`")),
    }
}
