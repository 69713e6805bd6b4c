//! What a row of the table is.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

use super::Kind;
use crate::guard::{Guard, GuardConfig, GuardError};
use crate::incast::{Lab, LabError};
use crate::load::LoadError;
use crate::pause::sleep_until;
use crate::testbed::{Spec, Testbed, TestbedError};

/// One case in which a guard might harm.
pub struct Row {
    /// Its name, for `--row`.
    pub name: &'static str,
    /// What happens, in one line.
    pub what: &'static str,
    /// What is measured.
    pub unit: Unit,
    /// What it is measured by.
    pub(super) measure: &'static (dyn Measure + Sync),
}

/// What a row measures, and which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Megabits per second of payload: more is better.
    #[serde(rename = "Mb/s")]
    Mbps,
    /// Things done per second: more is better.
    #[serde(rename = "/s")]
    PerSecond,
    /// Milliseconds: less is better.
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds of something that happens so often that chance does not matter: less is better.
    #[serde(rename = "us")]
    Micros,
}

impl Unit {
    /// As it is written behind a number.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Mbps => "Mb/s",
            Self::PerSecond => "/s",
            Self::Millis => "ms",
            Self::Micros => "us",
        }
    }

    /// What the guarded value is worth beside the unguarded one: 1 for the same, less than 1 for harm. Differences of
    /// milliseconds within [`TIMER`] are none.
    #[must_use]
    pub fn ratio(self, guarded: f64, unguarded: f64) -> f64 {
        let (worth, of) = match self {
            Self::Mbps | Self::PerSecond => (guarded, unguarded),
            Self::Millis if guarded <= unguarded + TIMER => return (unguarded / guarded.max(TIMER)).max(1.0),
            Self::Millis => (unguarded.max(TIMER), guarded),
            Self::Micros => (unguarded, guarded),
        };
        // Where nothing goes through unguarded either, nothing is harmed.
        if of > 0.0 { worth / of } else { 1.0 }
    }
}

/// What the timers and the scheduler of a small machine add to a time by chance, in milliseconds.
const TIMER: f64 = 1.0;

/// The runner of a row.
pub(super) trait Measure {
    /// One measurement in the row's unit, within a few seconds.
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError>;
}

/// Why a row has no value.
#[derive(Debug, Error)]
pub enum RowError {
    /// This machine cannot run it; a sentence that says what is missing.
    #[error("{0}")]
    Impossible(String),
    /// It was stopped by a signal.
    #[error("stopped")]
    Stopped,
    /// It went wrong.
    #[error("{0}")]
    Lab(LabError),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The simulator refused or gave up.
    #[error("simulation failed: {0}")]
    Simulated(String),
}

impl From<TestbedError> for RowError {
    fn from(error: TestbedError) -> Self {
        Self::Lab(error.into())
    }
}

impl From<GuardError> for RowError {
    fn from(error: GuardError) -> Self {
        Self::Lab(error.into())
    }
}

impl From<LoadError> for RowError {
    fn from(error: LoadError) -> Self {
        LabError::from(error).into()
    }
}

impl From<LabError> for RowError {
    fn from(error: LabError) -> Self {
        if matches!(error, LabError::Load(LoadError::Stopped)) { Self::Stopped } else { Self::Lab(error) }
    }
}

/// Says what was tried when a system call failed.
pub(crate) fn io_error(what: &'static str) -> impl Fn(io::Error) -> RowError {
    move |source| RowError::Io { what, source }
}

/// What a runner is given.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    /// The guard to measure; `None` unguarded.
    pub(crate) kind: Option<Kind>,
    /// The guard as a program; `None` unguarded.
    pub(crate) guard: Option<&'a GuardConfig>,
    /// Congestion control of the senders.
    pub(crate) cc: &'a str,
    /// Which pair it is, from 0.
    pub(crate) index: u32,
    /// Set when the user has had enough.
    pub(crate) stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Starts the guard, if there is one to measure.
    pub(super) fn guard(&self, testbed: &Testbed) -> Result<Option<Guard>, RowError> {
        Ok(self.guard.map(|config| Guard::start(testbed, config)).transpose()?)
    }

    fn fit(&self, spec: Spec) -> Spec {
        let spec = Spec { cc: self.cc.to_owned().into(), ..spec };
        match self.guard {
            Some(guard) => guard.fit(spec),
            None => spec,
        }
    }

    /// A testbed as the guard wants it, which is not started yet.
    pub(super) fn testbed(&self, spec: Spec) -> Result<Testbed, RowError> {
        Ok(Testbed::build(self.fit(spec))?)
    }

    /// A testbed with its guard.
    pub(super) fn bed(&self, spec: Spec) -> Result<(Testbed, Option<Guard>), RowError> {
        let testbed = self.testbed(spec)?;
        let guard = self.guard(&testbed)?;
        Ok((testbed, guard))
    }

    /// A testbed with senders that serve, and its guard.
    pub(super) fn lab(&self, spec: Spec) -> Result<(Lab, Option<Guard>), RowError> {
        let lab = self.unguarded_lab(spec)?;
        let guard = self.guard(lab.testbed())?;
        Ok((lab, guard))
    }

    /// The same before the guard starts.
    pub(super) fn unguarded_lab(&self, spec: Spec) -> Result<Lab, RowError> {
        Ok(Lab::new(self.fit(spec))?)
    }

    /// Sleeps.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), RowError> {
        sleep_until(self.stop, Instant::now() + time).ok_or(RowError::Stopped)
    }
}

/// Ends the guard, which must still run: a guard that fell silent would look harmless.
pub(super) fn end(guard: Option<Guard>) -> Result<(), RowError> {
    guard.map(Guard::stop).transpose()?;
    Ok(())
}

/// A testbed of `hosts` senders and a port of `mbps` megabits per second with PAC's 96 KB.
pub(crate) fn spec(hosts: usize, mbps: u64) -> Spec {
    let rate = mbps * 1_000_000;
    Spec { hosts, rate, burst: Spec::burst_for(rate), ..Spec::pac_edge() }
}

/// A port without a limit, offloads on: 17 Gb/s on two processors. Guards are told 100 Gb/s and 4 MB.
pub(super) fn fast(hosts: usize) -> Spec {
    Spec {
        hosts,
        rate: 100_000_000_000,
        buffer: 4_000_000,
        limited: false,
        offloads: true,
        delayed_ack: true,
        ..Spec::pac_edge()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_one_is_harm_whichever_way_is_better() {
        assert_eq!(Unit::Mbps.ratio(90.0, 100.0), 0.9);
        assert_eq!(Unit::Millis.ratio(200.0, 100.0), 0.5);
        assert_eq!(Unit::Millis.ratio(50.0, 100.0), 2.0);
        assert_eq!(Unit::Micros.ratio(125.0, 100.0), 0.8);
        assert_eq!(Unit::PerSecond.ratio(0.0, 0.0), 1.0);
    }

    #[test]
    fn a_timer_that_came_late_is_no_harm() {
        assert_eq!(Unit::Millis.ratio(0.9, 0.02), 1.0);
        assert!(Unit::Millis.ratio(3.0, 0.02) < 0.95);
    }
}
