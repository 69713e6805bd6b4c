//! Faults under load: a guard is killed, stopped, starved or robbed of its device while connections run through it. For each: what they
//! lost, the longest that one of them stood still, how long until all went on, and what was left on the host.
//!
//! The switch's buffer is deep and the guard is told a small one: it holds all the time, and nothing is lost but by the fault. What
//! other schemes need instead stands in [`scheme`].

mod case;
mod clock;
mod load;
mod scheme;
mod service;
mod sleep;
pub(crate) mod state;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use self::case::Scene;
pub use self::case::{Case, cases};
use self::load::Load;
use self::scheme::Scheme;
use self::service::Service;
use self::state::{state, wait_for};
use crate::guard::{Guard, Place};
use crate::harm::row::RowError;
use crate::machine::Machine;
use crate::testbed::Testbed;

/// How long the load runs before the fault, and on after every connection has gone on.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_millis(1000);
/// How long may pass until every connection goes on, and until the host is as it was.
const RECOVERY: Duration = Duration::from_secs(20);
const CLEANING: Duration = Duration::from_secs(5);
/// Longest pause of a connection beyond what the fault itself takes.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What to try.
#[derive(Clone, Debug)]
pub struct FaultsConfig {
    /// Connections.
    pub connections: usize,
    /// Names of the faults; none for all.
    pub faults: Vec<String>,
    /// The policies, as `ackgate run --guard` takes them, and `m21`.
    pub policies: Vec<String>,
    /// The part of a guard that is struck; `None`: each by itself, then all at once.
    pub at: Option<Place>,
    /// Another program than this one to guard with.
    pub program: Option<PathBuf>,
    /// The rate of the port, in bits per second.
    pub rate: u64,
    /// What may be done to this whole host.
    pub may: May,
}

/// Faults that strike the whole host, which are tried only where they are allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct May {
    /// Its wall clock may be stepped.
    pub step_clock: bool,
    /// It may be suspended.
    pub suspend: bool,
}

/// What came of one fault. Times are in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    /// The guard.
    pub guard: String,
    /// Its part that was struck: `all` where that are several.
    pub at: &'static str,
    /// The fault's name.
    pub fault: &'static str,
    /// What is done.
    pub what: &'static str,
    /// Connections that broke.
    pub connections_lost: usize,
    /// Bytes that did not come or came wrong.
    pub bytes_lost: u64,
    /// The longest that a connection received nothing.
    pub pause_ms: f64,
    /// The longest without a guard under the same fault; 0 where the fault is the guard's alone.
    pub fault_ms: f64,
    /// From the fault until every connection had received something again; `None` when one never did.
    pub recovered_ms: Option<f64>,
    /// What the guard did.
    pub did: String,
    /// What is on the hosts afterwards that was not there before the guard.
    pub left: Vec<String>,
    /// Promises that were broken, in words.
    pub broken: Vec<String>,
    /// Why it was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// The whole table.
#[derive(Clone, Debug, Serialize)]
pub struct FaultsReport {
    /// Connections under load.
    pub connections: usize,
    /// Every fault.
    pub rows: Vec<FaultReport>,
    /// What it was tried on.
    pub machine: Machine,
}

impl FaultsReport {
    /// Faults in which a promise was broken.
    #[must_use]
    pub fn broken(&self) -> usize {
        self.rows.iter().filter(|row| !row.broken.is_empty()).count()
    }
}

/// What connections noticed.
struct Noticed {
    lost: load::Losses,
    pause: Duration,
    recovered: Option<Duration>,
    did: String,
    left: Vec<String>,
    came_about: bool,
}

/// Tries the faults one after another; `tell` hears of each as it comes.
///
/// # Errors
/// [`RowError::Stopped`] when `stop` is set, [`RowError::Impossible`] for an unknown name, and what keeps the testbed from being built.
pub fn run_faults(
    config: &FaultsConfig,
    stop: &AtomicBool,
    mut tell: impl FnMut(&FaultReport),
) -> Result<FaultsReport, RowError> {
    if let Some(unknown) = config.faults.iter().find(|name| !cases().iter().any(|case| case.name == name.as_str())) {
        return Err(RowError::Impossible(format!("there is no fault `{unknown}`; --list shows all")));
    }
    let mut rows = Vec::new();
    for scheme in config.policies.iter().map(|policy| Scheme::new(policy, config.program.as_ref())) {
        let parts = scheme.parts(config.at);
        if parts.is_empty() {
            let at = config.at.map_or("", Place::name);
            return Err(RowError::Impossible(format!("--at {at}: {} has no part there", scheme.policy())));
        }
        for places in parts {
            for case in cases().iter().filter(|case| config.has(case)) {
                if stop.load(Ordering::Relaxed) {
                    return Err(RowError::Stopped);
                }
                let row = report(case, &scheme, places, config)?;
                tell(&row);
                rows.push(row);
            }
        }
    }
    Ok(FaultsReport { connections: config.connections, rows, machine: Machine::this() })
}

impl FaultsConfig {
    fn has(&self, case: &Case) -> bool {
        self.faults.is_empty() || self.faults.iter().any(|name| name == case.name)
    }
}

/// One fault with the guard, and without it first where connections pause without one, too.
fn report(
    case: &'static Case,
    scheme: &Scheme,
    places: &'static [Place],
    config: &FaultsConfig,
) -> Result<FaultReport, RowError> {
    let mut row = FaultReport {
        guard: scheme.policy().to_owned(),
        at: if let [place] = places { place.name() } else { "all" },
        fault: case.name,
        what: case.what,
        connections_lost: 0,
        bytes_lost: 0,
        pause_ms: 0.0,
        fault_ms: 0.0,
        recovered_ms: None,
        did: String::new(),
        left: Vec::new(),
        broken: Vec::new(),
        skipped: None,
    };
    let tried = || -> Result<(Duration, Noticed), RowError> {
        scheme.allows(case, places)?;
        let mut fault = Duration::ZERO;
        if case.network_returns && (case.strikes_all || scheme.loses_frames()) {
            let alone = strike(case, scheme, places, config, false)?;
            if alone.recovered.is_none() {
                return Err(RowError::Impossible("connections do not recover without a guard either".into()));
            }
            fault = alone.pause;
        }
        Ok((fault, strike(case, scheme, places, config, true)?))
    };
    let (fault, noticed) = match tried() {
        Ok(both) => both,
        Err(RowError::Impossible(reason)) => return Ok(FaultReport { skipped: Some(reason), ..row }),
        Err(error) => {
            row.broken.push(error.to_string());
            return Ok(row);
        }
    };
    row.fault_ms = millis(fault);
    row.connections_lost = noticed.lost.connections;
    row.bytes_lost = noticed.lost.bytes;
    row.pause_ms = millis(noticed.pause);
    row.recovered_ms = noticed.recovered.map(millis);
    row.did = noticed.did;
    row.left = noticed.left;
    let beyond = noticed.pause.saturating_sub(fault);
    let promises = [
        (case.network_returns && row.connections_lost > 0, "a connection was lost"),
        (case.network_returns && row.bytes_lost > 0, "bytes were lost"),
        (case.network_returns && noticed.recovered.is_none(), "a connection did not recover"),
        (case.network_returns && beyond > LONGEST_PAUSE, "a connection paused for too long"),
        (!row.left.is_empty(), "something was left on the host"),
        (!noticed.came_about, "the fault did not take effect"),
    ];
    row.broken.extend(promises.iter().filter(|(broken, _)| *broken).map(|(_, what)| (*what).to_owned()));
    Ok(row)
}

fn strike(
    case: &Case,
    scheme: &Scheme,
    places: &'static [Place],
    config: &FaultsConfig,
    guarded: bool,
) -> Result<Noticed, RowError> {
    let testbed = Testbed::build(scheme.spec(config.rate))?;
    let before = state(&testbed, scheme.places())?;
    let config_of_guard = scheme.config(case.options);
    let service = case.as_service.then(|| Service::install(&testbed, &config_of_guard)).transpose()?;
    let start = |places: &[Place]| match &service {
        Some(service) => service.start(&testbed),
        None => Guard::start_at(&testbed, &config_of_guard, places),
    };
    let others: Vec<Place> = scheme.places().iter().copied().filter(|place| !places.contains(place)).collect();
    let mut rest = (guarded && !others.is_empty()).then(|| start(&others)).transpose()?;
    let mut guard = guarded.then(|| start(places)).transpose()?;
    let load = Load::start(&testbed, config.connections)?;
    std::thread::sleep(BEFORE);
    if load.wait_for_all(RECOVERY).is_none() {
        return Err(RowError::Impossible("a connection is stalled before the fault is injected".into()));
    }
    for part in [&mut guard, &mut rest].into_iter().flatten() {
        scheme.require_work(part)?;
    }
    let mut scene =
        Scene { testbed: &testbed, config: &config_of_guard, places, guard, group: None, service, may: config.may };
    load.mark();
    let done = (case.strike)(&mut scene)?;
    let (recovered, pause, lost);
    if case.network_returns {
        recovered = load.wait_for_all(RECOVERY);
        std::thread::sleep(AFTER);
        pause = load.longest_pause();
        lost = load.finish();
    } else {
        (recovered, pause, lost) = (None, Duration::ZERO, load::Losses { connections: 0, bytes: 0 });
        drop(load);
    }
    let end = scene.guard.take().map(Guard::stop).transpose()?;
    rest.map(Guard::stop).transpose()?;
    let came_about = !scheme.is_fast_path() || end.as_ref().is_none_or(case.came_about);
    let did = [done, end.map(|_| "ended cleanly".to_owned())].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let left = wait_for(&testbed, scheme.places(), &before, CLEANING)?;
    Ok(Noticed { lost, pause, recovered, did, left, came_about })
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        assert!(cases().iter().all(|case| seen.insert(case.name)));
    }

    #[test]
    fn an_unknown_fault_is_named() {
        let config = FaultsConfig {
            connections: 1,
            faults: vec!["kil".into()],
            policies: vec!["credit".into()],
            at: None,
            program: None,
            rate: 500_000_000,
            may: May::default(),
        };
        let error = run_faults(&config, &AtomicBool::new(false), |_| {}).unwrap_err();
        assert!(error.to_string().contains("`kil`"), "{error}");
    }
}
