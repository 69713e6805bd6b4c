//! Where `ackgate run` shows how things stand: JSON lines, one live line on a terminal, or one line a second elsewhere.

use serde::Serialize;

use crate::output::{Output, Wait};

pub(crate) struct Screen {
    json: bool,
    live: bool,
    /// The live line stands, without an end.
    open: bool,
    output: Output,
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        let output = Output::new();
        Self { json, live: !json && output.is_terminal(), open: false, output }
    }

    /// Whether events are wanted instead of lines.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// A line for good.
    pub(crate) fn line(&mut self, line: &str, wait: Wait) {
        self.end_live();
        self.output.write(&format!("{line}\n"), wait);
    }

    /// A line that the next of its kind replaces, where that can be.
    pub(crate) fn live(&mut self, line: &str) {
        if self.live {
            self.output.write(&format!("\r{line}\x1b[K"), Wait::Never);
            self.open = true;
        } else {
            self.output.write(&format!("{line}\n"), Wait::Never);
        }
    }

    /// Leaves the live line as it is, for others to write below it.
    pub(crate) fn end_live(&mut self) {
        if std::mem::take(&mut self.open) {
            self.output.write("\n", Wait::Never);
        }
    }

    /// A line of `--json`.
    pub(crate) fn event(&mut self, event: &impl Serialize, wait: Wait) {
        let line = serde_json::to_string(event).expect("numbers and text are JSON");
        self.output.write(&(line + "\n"), wait);
    }

    /// Ends it.
    ///
    /// # Errors
    /// When lines were lost.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        self.output.finish()
    }
}
