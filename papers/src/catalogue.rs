//! All experiments, built into the program, and what of the papers none of them runs.

use ackgate_sim::scenario::{Document, ScenarioError};
use serde::Deserialize;

use crate::experiment::Experiment;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// File name and text of every experiment, paper by paper.
        pub const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../experiments/", $name)))),*];
    };
}

files![
    "pac-f2.toml",
    "pac-f3.toml",
    "pac-f7.toml",
    "pac-f8.toml",
    "pac-f9.toml",
    "pac-f10.toml",
    "pac-f11.toml",
    "pac-f12.toml",
    "pac-f13.toml",
    "pac-f14.toml",
    "pac-f15.toml",
    "pac-t-buf.toml",
    "pac-t-nmax.toml",
    "vas-f2.toml",
    "vas-f3.toml",
    "vas-f4.toml",
    "vas-f5.toml",
    "vas-f6.toml",
    "vas-f7.toml",
    "vas-f8.toml",
    "vas-f9.toml",
    "vas-f11.toml",
    "vas-f12.toml",
    "vas-f13.toml",
    "vas-f15.toml",
    "vas-t-delack.toml",
    "vas-t-jiffy.toml",
    "m21-f4.toml",
    "m21-f5.toml",
    "m21-f6.toml",
    "m21-f7.toml",
    "hw-f1.toml",
    "hw-f2.toml",
    "hw-f8.toml",
    "hw-f9.toml",
    "hw-f11.toml",
];

/// Names of all experiments.
#[must_use]
pub fn ids() -> Vec<String> {
    FILES.iter().map(|(name, _)| id(name)).collect()
}

/// `pac-f13.toml` holds PAC-F13.
fn id(file: &str) -> String {
    file.trim_end_matches(".toml").to_uppercase()
}

/// A figure or table of a paper that no experiment runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotRun {
    /// Its name, as an experiment would have it.
    pub id: String,
    /// Where it stands and what it shows.
    pub what: String,
    /// Why it is not run, and what there is instead.
    pub why: String,
}

/// Figures and tables of the papers that no experiment runs, paper by paper.
///
/// # Errors
/// When their file is wrong.
pub fn not_run() -> Result<Vec<NotRun>, ScenarioError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Elsewhere {
        figure: Vec<NotRun>,
    }
    let document = Document::parse("elsewhere.toml", include_str!("../elsewhere.toml"))?;
    Ok(document.read_as::<Elsewhere>()?.figure)
}

/// The experiments of these names, or all when there are none. A name may also be that of another figure that an
/// experiment covers (its `also`). In the catalogue's order, each once.
///
/// # Errors
/// When a name is unknown, or a file is refused.
pub fn load(names: &[String], quick: bool) -> Result<Vec<Experiment>, CatalogueError> {
    let mut all = Vec::new();
    for (file, text) in FILES {
        all.push(Experiment::parse(file, text, quick)?);
    }
    let covers = |experiment: &Experiment, name: &str| {
        std::iter::once(&experiment.id).chain(&experiment.also).any(|id| id.eq_ignore_ascii_case(name))
    };
    for name in names {
        if all.iter().any(|experiment| covers(experiment, name)) {
            continue;
        }
        if let Some(figure) = not_run()?.into_iter().find(|figure| figure.id.eq_ignore_ascii_case(name)) {
            return Err(CatalogueError::NotRun { id: figure.id, what: figure.what, why: figure.why });
        }
        return Err(CatalogueError::Unknown { name: name.clone(), known: ids().join(", ") });
    }
    all.retain(|experiment| names.is_empty() || names.iter().any(|name| covers(experiment, name)));
    Ok(all)
}

/// Why experiments were not found.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// There is no experiment of this name.
    #[error("there is no experiment `{name}`; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The paper has such a figure, but nothing runs it.
    #[error("{id} is not run: {what}; {why}")]
    NotRun {
        /// Its name.
        id: String,
        /// Where it stands and what it shows.
        what: String,
        /// Why.
        why: String,
    },
    /// An experiment's file is wrong.
    #[error(transparent)]
    File(#[from] ScenarioError),
}
