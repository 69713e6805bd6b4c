//! Where `ackgate run` shows how things stand: JSON lines, one live line on a terminal, or one line a second elsewhere.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub(super) struct Screen {
    json: bool,
    live: bool,
    /// The live line stands, without an end.
    open: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json, live: !json && io::stdout().is_terminal(), open: false }
    }

    /// Whether events are wanted instead of lines.
    pub(super) const fn json(&self) -> bool {
        self.json
    }

    /// A line for good.
    pub(super) fn line(&mut self, line: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        if std::mem::take(&mut self.open) {
            writeln!(out)?;
        }
        Ok(writeln!(out, "{line}")?)
    }

    /// A line that the next of its kind replaces, where that can be.
    pub(super) fn live(&mut self, line: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        if self.live {
            write!(out, "\r{line}\x1b[K")?;
            self.open = true;
        } else {
            writeln!(out, "{line}")?;
        }
        Ok(out.flush()?)
    }

    /// A line of `--json`.
    pub(super) fn event(&self, event: &impl Serialize) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, event)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }
}
