//! Exit codes: 0 done, 1 it went wrong, 2 what was asked for cannot be (or not here), 130 stopped by a signal.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use ackgate_lab::harm::RowError;
use ackgate_lab::incast::LabError;
use ackgate_lab::load::LoadError;
use ackgate_lab::reproduce::ReproduceError;
use ackgate_lab::testbed::TestbedError;
use ackgate_lab::web::WebError;
use ackgate_papers::catalogue::CatalogueError;
use ackgate_papers::run::RunError;
use ackgate_sim::scenario::ScenarioError;
use ackgate_sim::sweep::SweepError;

/// Wraps an error whose exit code is 2: a senseless value, a missing privilege or kernel feature.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) anyhow::Error);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Refused {}

/// Rows of the table of harm in which a guard harms: the exit code is 1, and the table has told the rest.
#[derive(Debug)]
pub(crate) struct Harmed(pub(crate) usize);

impl fmt::Display for Harmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a guard does harm in {} {}", self.0, if self.0 == 1 { "row" } else { "rows" })
    }
}

impl std::error::Error for Harmed {}

/// In how many cases, and what they are called, a promise was broken; the table has told which.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) usize, pub(crate) &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a promise was broken in {} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

impl std::error::Error for Broken {}

/// Tells the error, if there is one, and gives the exit code.
pub(crate) fn code(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    // A reader that has seen enough (`| head`) is no failure.
    if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // Standard error may be on a full disk, too; the exit code tells all the same.
    let _ = writeln!(std::io::stderr(), "ackgate: {}", told(&error));
    let stopped = matches!(error.downcast_ref(), Some(LabError::Load(LoadError::Stopped)))
        || matches!(error.downcast_ref(), Some(RowError::Stopped))
        || matches!(error.downcast_ref(), Some(LoadError::Stopped))
        || error.downcast_ref().is_some_and(ReproduceError::is_stop)
        || matches!(error.downcast_ref(), Some(WebError::Stopped))
        || matches!(error.downcast_ref(), Some(SweepError::Simulation { error: ackgate_sim::Error::Stopped, .. }));
    let refused = error.is::<Refused>()
        || error.is::<ScenarioError>()
        || error.is::<CatalogueError>()
        || error.downcast_ref().is_some_and(RunError::is_refusal)
        || error.downcast_ref().is_some_and(SweepError::is_refusal)
        || error.downcast_ref().is_some_and(ackgate_linux::Error::is_refusal)
        || error.downcast_ref().is_some_and(LabError::is_refusal)
        || error.downcast_ref().is_some_and(LoadError::is_refusal)
        || error.downcast_ref().is_some_and(ReproduceError::is_refusal)
        || error.downcast_ref().is_some_and(WebError::is_refusal)
        || error.downcast_ref().is_some_and(TestbedError::is_refusal);
    match (stopped, refused) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::from(2),
        (false, false) => ExitCode::FAILURE,
    }
}

/// The error and its causes in one line; a cause that the error already quotes is not said twice.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
