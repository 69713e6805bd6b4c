//! Log lines on standard error: warnings, and whatever else the variable `RUST_LOG` asks for.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// From now on there are log lines. A directive of `RUST_LOG` that makes no sense is told and left out.
pub(crate) fn start() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // The service manager's journal has it.
        .without_time()
        // Standard error may be on a full disk; then nobody can be told.
        .log_internal_errors(false)
        .init();
}
