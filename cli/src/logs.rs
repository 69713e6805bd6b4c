//! Log lines on standard error: warnings, and whatever else the variable `RUST_LOG` asks for.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::output;

/// From now on there are log lines.
pub(crate) fn start() {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        // The service manager's journal has it.
        .without_time()
        // Standard error may be on a full disk; then nobody can be told.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(wanted(&asked))).init();
}

/// What `RUST_LOG` asks for; warnings where it asks for nothing, or for what makes no sense.
fn wanted(asked: &str) -> Targets {
    let warnings = Targets::new().with_default(LevelFilter::WARN);
    if asked.is_empty() {
        return warnings;
    }
    asked.parse().unwrap_or_else(|error| {
        output::say(&format!(
            "RUST_LOG={asked}: {error}; write for example RUST_LOG=debug or RUST_LOG=warn,ackgate_linux=debug"
        ));
        warnings
    })
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn warnings_unless_something_else_is_asked_for() {
        let shows = |asked: &str, level| wanted(asked).would_enable("ackgate_linux::guard", &level);
        assert!(shows("", Level::WARN) && !shows("", Level::INFO));
        assert!(shows("debug", Level::DEBUG) && !shows("error", Level::WARN));
        assert!(shows("warn,ackgate_linux=debug", Level::DEBUG) && !shows("warn,ackgate_lab=debug", Level::DEBUG));
        assert!(shows("no=such=level", Level::WARN));
    }
}
