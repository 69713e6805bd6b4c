//! Which part of a guard does what: every guard at one base point, and at the points that differ from it in one factor
//! each, all against the same un-congested ceiling.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;

use crate::dctcp;
use crate::guard::GuardConfig;
use crate::incast::{IncastConfig, IncastReport, Lab, LabError};
use crate::load::LoadError;
use crate::load::pull::{Start, Volume};
use crate::machine::Machine;
use crate::testbed::Spec;

/// What is varied, and how long each run may take.
#[derive(Clone, Debug)]
pub struct AblationConfig {
    /// The testbed of the base point.
    pub spec: Spec,
    /// Numbers of connections; every point is run with each.
    pub connections: Vec<usize>,
    /// Measured rounds of a run; one more warms up.
    pub rounds: u32,
    /// Longest time for one run; a collapsed one shows what it is long before.
    pub limit: Duration,
    /// Names of the points to run, or none for all.
    pub only: Vec<String>,
}

/// One guard of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Its name in the table.
    pub name: &'static str,
    /// What `ackgate run --guard` calls it; `None` leaves the receiver alone.
    policy: Option<&'static str>,
    /// The guard is not told the buffer.
    auto: bool,
}

/// The guards: none, PAC, each half of exact credit, the whole, and the whole without a buffer size.
pub const SCHEMES: [Scheme; 6] = [
    Scheme { name: "none", policy: None, auto: false },
    Scheme { name: "pac", policy: Some("pac"), auto: false },
    Scheme { name: "window-only", policy: Some("window-only"), auto: false },
    Scheme { name: "requests-only", policy: Some("requests-only"), auto: false },
    Scheme { name: "credit", policy: Some("credit"), auto: false },
    Scheme { name: "credit, auto", policy: Some("credit"), auto: true },
];

impl Scheme {
    fn guard(self) -> Option<GuardConfig> {
        let extra = if self.auto { vec!["--buffer".into(), "auto".into()] } else { Vec::new() };
        self.policy.map(|policy| GuardConfig { program: None, policy: policy.into(), max_hold: None, extra })
    }
}

/// A point of the comparison: what differs from the base point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name in the table.
    pub name: &'static str,
    fresh: bool,
    push: bool,
    cc: &'static str,
    initial_window: Option<u32>,
    bytes: u64,
}

/// Kept connections, pulled, CUBIC, the kernel's initial window of ten segments, 64 KB per connection and round.
const BASE: Point = Point { name: "base", fresh: false, push: false, cc: "cubic", initial_window: None, bytes: 64_000 };

/// The points.
pub const POINTS: [Point; 10] = [
    BASE,
    Point { name: "fresh", fresh: true, ..BASE },
    Point { name: "push", push: true, ..BASE },
    Point { name: "reno", cc: "reno", ..BASE },
    Point { name: "bbr", cc: "bbr", ..BASE },
    Point { name: "dctcp", cc: dctcp::NAME, ..BASE },
    Point { name: "iw2", initial_window: Some(2), ..BASE },
    Point { name: "16KB", bytes: 16_000, ..BASE },
    Point { name: "256KB", bytes: 256_000, ..BASE },
    Point { name: "1MB", bytes: 1_000_000, ..BASE },
];

impl Point {
    fn spec(&self, base: &Spec) -> Spec {
        let dctcp = self.cc == dctcp::NAME;
        let mark = if dctcp { Some(Spec::USUAL_MARK) } else { base.mark };
        Spec {
            initial_window: self.initial_window.or(base.initial_window),
            ecn: dctcp || base.ecn,
            mark,
            ..base.clone()
        }
    }

    fn config(&self, connections: usize, ablation: &AblationConfig) -> IncastConfig {
        IncastConfig {
            connections,
            volume: Volume::PerConnection(self.bytes),
            rounds: ablation.rounds,
            warmup: 1,
            cc: Some(self.cc.into()),
            mss: None,
            start: if self.push { Start::Push } else { Start::Pull },
            fresh: self.fresh,
            ipv6: false,
            deadline: ablation.limit,
            guard: None,
        }
    }
}

/// One run, reduced to what is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Goodput as a share of the ceiling.
    pub goodput: f64,
    /// Rounds that were complete in time.
    pub rounds: u32,
    /// Of these, with a retransmission timeout at a sender.
    pub rounds_with_timeout: u32,
    /// Retransmission timers that fired.
    pub rto_timeouts: u64,
    /// Frames that the switch dropped.
    pub switch_drops: u64,
}

impl Cell {
    fn of(report: &IncastReport, ceiling: f64) -> Self {
        Self {
            goodput: if ceiling > 0.0 { report.goodput_mbps / ceiling } else { 0.0 },
            rounds: report.rounds,
            rounds_with_timeout: report.rounds_with_timeout,
            rto_timeouts: report.rto_timeouts,
            switch_drops: report.switch_drops,
        }
    }
}

/// All guards at one point.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The point.
    pub point: &'static str,
    /// Connections.
    pub connections: usize,
    /// Goodput without congestion in megabits per second.
    pub ceiling_mbps: f64,
    /// A cell for each of [`SCHEMES`].
    pub cells: Vec<Cell>,
}

/// The whole comparison.
#[derive(Clone, Debug, Serialize)]
pub struct AblationReport {
    /// Names of the guards.
    pub guards: Vec<&'static str>,
    /// Rate of the bottleneck in megabits per second.
    pub rate_mbps: f64,
    /// Buffer of the bottleneck in bytes.
    pub buffer: u64,
    /// Rounds that each run was asked for.
    pub rounds_asked: u32,
    /// The points, each with every number of connections.
    pub rows: Vec<Row>,
    /// What it was measured on.
    pub machine: Machine,
}

impl AblationConfig {
    /// The points that are asked for.
    ///
    /// # Errors
    /// When a name is none of a point's.
    pub fn points(&self) -> Result<Vec<Point>, LabError> {
        let complain = |text: String| Err(LabError::Load(LoadError::Config(text)));
        if let Some(unknown) = self.only.iter().find(|name| POINTS.iter().all(|point| point.name != name.as_str())) {
            let names: Vec<&str> = POINTS.iter().map(|point| point.name).collect();
            return complain(format!("there is no point `{unknown}`; choose from {}", names.join(", ")));
        }
        if self.connections.is_empty() {
            return complain("name at least one number of connections".into());
        }
        let wanted = |point: &Point| self.only.is_empty() || self.only.iter().any(|name| name == point.name);
        Ok(POINTS.into_iter().filter(wanted).collect())
    }
}

/// Runs the comparison. `tell` hears of every run that has ended: its point, connections and guard.
///
/// # Errors
/// When a testbed, a load or a guard fails, or `stop` is set. A run that completes no round in time is a result.
pub fn run_ablation(
    config: &AblationConfig,
    stop: &AtomicBool,
    mut tell: impl FnMut(&str, usize, &str),
) -> Result<AblationReport, LabError> {
    let mut rows = Vec::new();
    for point in config.points()? {
        let mut lab = Lab::new(point.spec(&config.spec))?;
        for &connections in &config.connections {
            let bare = point.config(connections, config);
            let ceiling_mbps = lab.ceiling(&bare, stop)?;
            let mut cells = Vec::new();
            for scheme in SCHEMES {
                let guarded = IncastConfig { guard: scheme.guard(), ..bare.clone() };
                cells.push(match lab.run(&guarded, false, stop, |_| {}) {
                    Ok(report) => Cell::of(&report, ceiling_mbps),
                    Err(LabError::Load(LoadError::Deadline { .. })) => Cell::default(),
                    Err(error) => return Err(error),
                });
                tell(point.name, connections, scheme.name);
            }
            rows.push(Row { point: point.name, connections, ceiling_mbps, cells });
        }
    }
    Ok(AblationReport {
        guards: SCHEMES.iter().map(|scheme| scheme.name).collect(),
        rate_mbps: config.spec.rate as f64 / 1e6,
        buffer: config.spec.buffer,
        rounds_asked: config.rounds,
        rows,
        machine: Machine::this(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_differs_from_the_base_in_one_factor() {
        for point in &POINTS[1..] {
            let factors = [
                point.fresh != BASE.fresh,
                point.push != BASE.push,
                point.cc != BASE.cc,
                point.initial_window != BASE.initial_window,
                point.bytes != BASE.bytes,
            ];
            assert_eq!(factors.iter().filter(|&&differs| differs).count(), 1, "{}", point.name);
        }
    }

    #[test]
    fn unknown_points_are_refused_with_those_there_are() {
        let only = vec!["fresh".into(), "ipx".into()];
        let config =
            AblationConfig { spec: Spec::pac_edge(), connections: vec![4], rounds: 1, limit: Duration::ZERO, only };
        let error = config.points().unwrap_err().to_string();
        assert!(error.contains("`ipx`") && error.contains("dctcp"), "{error}");
    }
}
