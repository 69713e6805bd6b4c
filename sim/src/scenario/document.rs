//! A scenario file as a tree of values that remember where they were written, so that whatever is wrong with one can
//! be reported with file, line and key. `--set` and `--vary` change the tree and leave their own mark in it.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::decode;
use super::error::{Place, ScenarioError};
use super::{Scenario, check, traffic_file};

/// A scenario before it is understood.
#[derive(Clone, Debug)]
pub struct Document {
    /// Name of the file for messages.
    file: String,
    /// Folder that relative paths in the scenario start from.
    folder: PathBuf,
    /// Traffic files that have been read, for all that are cloned from this.
    traffic: traffic_file::Cache,
    root: Node,
}

/// A change to a scenario from the command line: `key=value` with a dotted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The option it came with, for messages: `--set`, `--vary`.
    pub option: &'static str,
    /// Dotted key: `tcp.rto_min`, `background.0.senders`.
    pub key: String,
    /// A TOML value, or a bare word such as `64KB` that stands for a string.
    pub value: String,
}

impl Assignment {
    /// Splits `key=value`.
    ///
    /// # Errors
    /// When there is no `=`, or nothing before it.
    pub fn parse(option: &'static str, text: &str) -> Result<Self, ScenarioError> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Self { option, key: key.trim().into(), value: value.trim().into() })
            }
            _ => Err(ScenarioError::new(
                Place::Option(format!("{option} {text}")),
                "",
                "is not of the form key=value, such as tcp.rto_min=10ms",
            )),
        }
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}={}", self.option, self.key, self.value)
    }
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
}

impl Node {
    /// What stands under one part of a dotted key, and where.
    fn child(&self, part: &str) -> Option<(&Self, &Place)> {
        match &self.value {
            Value::Table(entries) => {
                entries.iter().find(|entry| entry.key == part).map(|entry| (&entry.node, &entry.node.place))
            }
            Value::Array(items) => part.parse().ok().and_then(|i: usize| items.get(i)).map(|n| (n, &n.place)),
            _ => None,
        }
    }

    /// Makes room for parameters: `"leaf-spine"` becomes `{ kind = "leaf-spine" }`.
    fn open(&mut self) {
        if let Value::String(kind) = &mut self.value {
            let node = Self { value: Value::String(std::mem::take(kind)), place: self.place.clone() };
            self.value = Value::Table(vec![Entry { key: "kind".into(), place: self.place.clone(), node }]);
        }
    }
}

/// A TOML value. Dates are kept as their text: no key of a scenario takes one.
#[derive(Clone, Debug)]
pub(super) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Date(String),
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

impl Value {
    fn to_toml(&self) -> toml::Value {
        match self {
            Self::String(text) => toml::Value::String(text.clone()),
            Self::Integer(number) => toml::Value::Integer(*number),
            Self::Float(number) => toml::Value::Float(*number),
            Self::Boolean(truth) => toml::Value::Boolean(*truth),
            Self::Date(text) => text.parse().map_or_else(|_| toml::Value::String(text.clone()), toml::Value::Datetime),
            Self::Array(items) => toml::Value::Array(items.iter().map(|item| item.value.to_toml()).collect()),
            Self::Table(entries) => toml::Value::Table(
                entries.iter().map(|entry| (entry.key.clone(), entry.node.value.to_toml())).collect(),
            ),
        }
    }
}

/// A key of a table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Where the key stands, which is before its value.
    pub(super) place: Place,
    pub(super) node: Node,
}

/// Bytes of a scenario file at most: one with ten thousand switches has a tenth of it.
const MAX_FILE: u64 = 8 << 20;

impl Document {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read or is not TOML.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let refused = |problem: String| ScenarioError::new(Place::File { file: file.clone(), line: 0 }, "", problem);
        let mut text = Vec::new();
        let read = std::fs::File::open(path).and_then(|opened| opened.take(MAX_FILE + 1).read_to_end(&mut text));
        read.map_err(|error| refused(format!("cannot be read: {error}")))?;
        if text.len() as u64 > MAX_FILE {
            return Err(refused(format!("is too large for a scenario (limit: {} MiB)", MAX_FILE >> 20)));
        }
        let text = String::from_utf8(text).map_err(|_| refused("is not valid TOML: it is not UTF-8 text".into()))?;
        let mut document = Self::parse(&file, &text)?;
        document.folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(document)
    }

    /// The same with another folder that relative paths in it start from.
    #[must_use]
    pub fn within(self, folder: PathBuf) -> Self {
        Self { folder, ..self }
    }

    /// The folder that relative paths in it start from; empty for the working directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of its file, for messages.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The document with all its changes as the text of a file that says the same.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match self.root.value.to_toml() {
            toml::Value::Table(table) => table.to_string(),
            _ => String::new(),
        }
    }

    /// Takes the text of a scenario; `file` is its name for messages.
    ///
    /// # Errors
    /// When the text is not TOML.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let lines = Lines::of(text);
        let place = |at: usize| Place::File { file: file.into(), line: lines.line(at) };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ScenarioError::new(
                place(at),
                "",
                format!("is not valid TOML: {}", error.message().trim_end().replace('\n', "; ")),
            )
        })?;
        let root = Node { value: convert_table(table.get_ref(), &place)?, place: place(0) };
        Ok(Self { file: file.into(), folder: PathBuf::new(), traffic: traffic_file::Cache::default(), root })
    }

    /// Changes one value, or adds it.
    ///
    /// # Errors
    /// When the key leads through something that is not a table, or past the end of an array.
    pub fn set(&mut self, assignment: &Assignment) -> Result<(), ScenarioError> {
        let place = Place::Option(assignment.to_string());
        let wrong = |key: &str, problem: String| ScenarioError::new(place.clone(), key, problem);
        let value = bare_or_toml(&assignment.value, &place).map_err(|error| error.under(&assignment.key))?;
        let mut node = &mut self.root;
        let mut walked = String::new();
        for part in assignment.key.split('.').map(str::trim) {
            if part.is_empty() {
                return Err(wrong(&assignment.key, "has an empty part".into()));
            }
            node.open();
            node = match &mut node.value {
                Value::Table(entries) => {
                    let index = entries.iter().position(|entry| entry.key == part).unwrap_or_else(|| {
                        let empty = Node { value: Value::Table(Vec::new()), place: place.clone() };
                        entries.push(Entry { key: part.into(), place: place.clone(), node: empty });
                        entries.len() - 1
                    });
                    &mut entries[index].node
                }
                Value::Array(items) => {
                    let length = items.len();
                    let index = part.parse::<usize>().ok().filter(|index| *index < length);
                    let problem = || format!("holds {length} entries: `{part}` must be a number below that");
                    &mut items[index.ok_or_else(|| wrong(&walked, problem()))?]
                }
                _ => return Err(wrong(&walked, format!("is not a table, so it has no `{part}`"))),
            };
            if !walked.is_empty() {
                walked.push('.');
            }
            walked.push_str(part);
        }
        *node = value;
        Ok(())
    }

    /// Whether a dotted key is written in it.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        key.split('.').try_fold(&self.root, |node, part| node.child(part).map(|(inner, _)| inner)).is_some()
    }

    /// Understands a document that is no scenario but is written like one: its faults, too, are told with file, line
    /// and key.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value is of the wrong kind.
    pub fn read_as<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ScenarioError> {
        decode::decode(&self.root).map_err(|error| error.or_at(&self.start()))
    }

    /// The table at a key of the top level as a document of its own, empty when there is none.
    #[must_use]
    pub fn section(&self, key: &str) -> Self {
        let empty = || Node { value: Value::Table(Vec::new()), place: self.start() };
        let found = match &self.root.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| entry.node.clone()),
            _ => None,
        };
        Self { root: found.unwrap_or_else(empty), ..self.clone() }
    }

    /// Understands the document: decodes and checks it.
    ///
    /// # Errors
    /// When a key is unknown, a value is of the wrong kind, or the scenario makes no sense.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = self.decode().map_err(|error| error.or_at(&self.start()).hinted())?;
        self.traffic
            .load(&mut scenario, &self.folder)
            .and_then(|()| check::check(&scenario))
            .map_err(|invalid| ScenarioError::new(self.place_of(&invalid.key), &invalid.key, invalid.problem))?;
        Ok(scenario)
    }

    /// Understands the keys and values, without asking whether they make sense together.
    pub(super) fn decode(&self) -> Result<Scenario, ScenarioError> {
        decode::decode(&self.root)
    }

    /// Where a dotted key was written; the nearest table around it when it was not.
    #[must_use]
    pub fn place_of(&self, key: &str) -> Place {
        let mut node = &self.root;
        let mut place = self.start();
        for part in key.split('.') {
            let Some((inner, at)) = node.child(part) else { break };
            (node, place) = (inner, at.clone());
        }
        place
    }

    /// The document as a whole.
    fn start(&self) -> Place {
        Place::File { file: self.file.clone(), line: 0 }
    }
}

/// Byte offsets of line starts.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// Line number, from 1.
    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }
}

/// A TOML value if it is one, else the text itself as a string.
fn bare_or_toml(text: &str, place: &Place) -> Result<Node, ScenarioError> {
    let value = match DeValue::parse(text) {
        Ok(value) if !matches!(value.get_ref(), DeValue::Datetime(_)) => {
            convert(value.get_ref(), &|_| place.clone(), 0)?.value
        }
        _ => Value::String(text.into()),
    };
    Ok(Node { value, place: place.clone() })
}

fn convert(value: &DeValue<'_>, place: &impl Fn(usize) -> Place, at: usize) -> Result<Node, ScenarioError> {
    let value = match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => Value::Integer(
            i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| ScenarioError::new(place(at), "", format!("`{number}` is too large for an integer")))?,
        ),
        DeValue::Float(number) => Value::Float(
            number
                .as_str()
                .parse()
                .map_err(|_| ScenarioError::new(place(at), "", format!("`{number}` is not a number")))?,
        ),
        DeValue::Boolean(truth) => Value::Boolean(*truth),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::Array(
            items.iter().map(|item| convert(item.get_ref(), place, item.span().start)).collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => convert_table(table, place)?,
    };
    Ok(Node { value, place: place(at) })
}

fn convert_table(table: &DeTable<'_>, place: &impl Fn(usize) -> Place) -> Result<Value, ScenarioError> {
    let mut entries = table
        .iter()
        .map(|(key, value)| {
            let node = convert(value.get_ref(), place, value.span().start);
            let node = node.map_err(|error| error.under(key.get_ref()))?;
            Ok((key.span().start, Entry { key: key.get_ref().to_string(), place: place(key.span().start), node }))
        })
        .collect::<Result<Vec<_>, ScenarioError>>()?;
    // In the order of the file, so that the first of several faults is the one reported.
    entries.sort_by_key(|(at, _)| *at);
    Ok(Value::Table(entries.into_iter().map(|(_, entry)| entry).collect()))
}
