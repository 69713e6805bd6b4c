//! All experiments, built into the program.

use ackgate_sim::scenario::ScenarioError;

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
    "vas-f6.toml",
    "vas-f7.toml",
    "vas-f8.toml",
    "vas-f9.toml",
    "vas-f11.toml",
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

/// The experiments of these names, or all when there are none.
///
/// # Errors
/// When a name is unknown, or a file is refused.
pub fn load(names: &[String], quick: bool) -> Result<Vec<Experiment>, CatalogueError> {
    for name in names {
        if !ids().contains(&name.to_uppercase()) {
            return Err(CatalogueError::Unknown { name: name.clone(), known: ids().join(", ") });
        }
    }
    let wanted = |file: &str| names.is_empty() || names.iter().any(|name| name.to_uppercase() == id(file));
    let files = FILES.iter().filter(|(file, _)| wanted(file));
    files.map(|(file, text)| Ok(Experiment::parse(file, text, quick)?)).collect()
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
    /// An experiment's file is wrong.
    #[error(transparent)]
    File(#[from] ScenarioError),
}
