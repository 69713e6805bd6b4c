//! What is wrong with a scenario: where it was written, which key, what would be right.

use std::fmt;

use super::{limits, schema};

/// How the decoder calls a number without a fraction, whatever its range.
pub(super) const WHOLE_NUMBER: &str = "a whole number";

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file; line 0 stands for the file as a whole.
    File {
        /// Name as the user gave it.
        file: String,
        /// Line, from 1.
        line: usize,
    },
    /// On the command line: the option as it was given.
    Option(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line: 0 } => f.write_str(file),
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Option(text) => f.write_str(text),
        }
    }
}

/// A scenario that was refused. Its text is `place: key `key`: problem`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioError(Box<Fault>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// Where; not known yet while an error climbs out of the decoder.
    place: Option<Place>,
    /// Dotted key; empty when it is not about one.
    key: String,
    problem: Problem,
    /// What was probably meant, where the problem itself does not show it.
    hint: Option<String>,
}

/// Kinds of fault, apart so that hints can be made from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    UnknownKey { name: String, allowed: &'static [&'static str] },
    UnknownName { name: String, allowed: &'static [&'static str] },
    WrongType { found: String, wanted: String },
    Other(String),
}

impl ScenarioError {
    /// A fault at a place, in the value of a dotted key (empty for none).
    pub fn new(place: Place, key: &str, problem: impl Into<String>) -> Self {
        let problem = Problem::Other(problem.into());
        Self(Box::new(Fault { place: Some(place), key: key.into(), problem, hint: None }))
    }

    /// Place and key are added as it climbs out of the decoder.
    pub(super) fn nowhere(problem: Problem) -> Self {
        Self(Box::new(Fault { place: None, key: String::new(), problem, hint: None }))
    }

    pub(super) fn into_problem(self) -> Problem {
        self.0.problem
    }

    /// With a place, unless it has one.
    pub(super) fn or_at(mut self, place: &Place) -> Self {
        self.0.place.get_or_insert_with(|| place.clone());
        self
    }

    /// With better words for what would have been right, if it was of the wrong type.
    pub(super) fn wanting(mut self, better: String) -> Self {
        if let Problem::WrongType { wanted, .. } = &mut self.0.problem {
            *wanted = better;
        }
        self
    }

    /// With what its key tells: the place where a misplaced one would be right, the range of a number.
    pub(super) fn hinted(mut self) -> Self {
        let range = limits::of(&self.0.key);
        if let (Problem::WrongType { wanted, .. }, Some(range)) = (&mut self.0.problem, range)
            && wanted.starts_with(WHOLE_NUMBER)
        {
            *wanted = range.whole_number();
        }
        if let Problem::UnknownKey { name, .. } = &self.0.problem {
            self.0.hint = schema::elsewhere(name);
        }
        self
    }

    /// With one more part before its key.
    pub(super) fn under(mut self, part: &str) -> Self {
        self.0.key = if self.0.key.is_empty() { part.into() } else { format!("{part}.{}", self.0.key) };
        self
    }

    /// The dotted key it is about; empty when it is about the file or the option as a whole.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Where the fault was written.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.0.place {
            write!(f, "{place}: ")?;
        }
        if !self.0.key.is_empty() {
            write!(f, "key `{}`: ", self.0.key)?;
        }
        self.0.problem.fmt(f)?;
        self.0.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { name, allowed: [] } => write!(f, "unknown key `{name}`; no parameters are allowed here"),
            Self::UnknownKey { name, allowed } => choose(f, "key", name, allowed),
            Self::UnknownName { name, allowed } => choose(f, "name", name, allowed),
            Self::WrongType { found, wanted } => write!(f, "is {found}, should be {wanted}"),
            Self::Other(problem) => f.write_str(problem),
        }
    }
}

fn choose(f: &mut fmt::Formatter<'_>, what: &str, name: &str, allowed: &[&str]) -> fmt::Result {
    write!(f, "unknown {what} `{name}`")?;
    match nearest(name, allowed.iter().copied()) {
        Some(near) => write!(f, "; did you mean `{near}`? Allowed: {}", allowed.join(", ")),
        None => write!(f, "; allowed: {}", allowed.join(", ")),
    }
}

/// The word that was probably meant, if any comes near.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    // Swapped letters count as one slip; Jaro-Winkler sees abbreviations and longer forms.
    let slips = |word: &str| strsim::osa_distance(&name, word);
    let alike = |word: &str| strsim::jaro_winkler(&name, word) > 0.75;
    known.filter(|word| slips(word) == 1 || alike(word)).min_by_key(|word| slips(word))
}
