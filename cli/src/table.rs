//! Small tables for people: a name, a value, one line each.

use std::io::{self, Write};

/// Lines of a name and a value, aligned.
#[derive(Default)]
pub(crate) struct Facts {
    lines: Vec<(&'static str, String)>,
}

impl Facts {
    /// Adds a line.
    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        self.lines.push((name, value.into()));
        self
    }

    /// Prints the lines on standard output.
    pub(crate) fn print(&self) -> io::Result<()> {
        let width = self.lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut out = io::stdout().lock();
        for (name, value) in &self.lines {
            writeln!(out, "{name:<width$}  {value}")?;
        }
        Ok(())
    }
}

/// Prints text on standard output; that nobody reads any further is an error of its own kind.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// Prints a value as one line of JSON on standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
