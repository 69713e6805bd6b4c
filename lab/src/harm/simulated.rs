//! Rows that this machine is too slow, or its kernel's timers too coarse, to run for real: the same guards in the simulator.
//! Every pair has a seed of its own.

use ackgate_sim::observer::Nobody;
use ackgate_sim::scenario::{Assignment, Document, ScenarioError};

use super::Kind;
use super::row::{Bench, Measure, Row, RowError, Unit};

/// A scenario, and what is changed in it.
struct Simulated {
    scenario: &'static str,
    changes: &'static [&'static str],
}

const EDGE: &str = include_str!("../../../scenarios/incast-1g.toml");
const CLUSTER: &str = include_str!("../../../scenarios/my-cluster.toml");
const LONG: &str = include_str!("../../../scenarios/long-flows.toml");
const CLOSED_LOOPS: &str = include_str!("../../../scenarios/closed-loops.toml");
const NEAR_AND_FAR: &str = include_str!("../../../scenarios/near-and-far.toml");
const LEAF_SPINE: &str = include_str!("../../../scenarios/leaf-spine.toml");

/// The receive window that Linux grows to unless told otherwise (`tcp_rmem`). The scenario has a larger one, whose scale is
/// so coarse that exact credit leaves it alone.
const USUAL_WINDOW: &str = "tcp.rwnd=6MB";

/// One CUBIC flow at 1 Gb/s, once its slow start is over.
macro_rules! one_flow {
    ($rtt:literal) => {
        &Simulated { scenario: LONG, changes: &[concat!("network.rtt=", $rtt), USUAL_WINDOW] }
    };
}

/// 200 kept senders on the edge scenario, asked by requests of this size.
macro_rules! requests_of {
    ($size:literal) => {
        &Simulated {
            scenario: EDGE,
            changes: &[
                concat!("workload.request=", $size),
                "senders=200",
                "rounds=10",
                "workload.direction=pull",
                "workload.connections=persistent",
                "tcp.cc=cubic",
                "tcp.sack=true",
                "tcp.timestamps=true",
                "tcp.initial_window=10",
            ],
        }
    };
}

const fn row(name: &'static str, what: &'static str, measure: &'static Simulated) -> Row {
    Row { name, what, unit: Unit::Mbps, measure }
}

pub(super) const ROWS: &[Row] = &[
    row("sim-long-250us", "simulated: one CUBIC flow, 1 Gb/s, 96 KB, RTT 250 us", one_flow!("250us")),
    row("sim-long-1ms", "simulated: the same, RTT 1 ms", one_flow!("1ms")),
    row("sim-long-5ms", "simulated: the same, RTT 5 ms", one_flow!("5ms")),
    row("sim-long-20ms", "simulated: the same, RTT 20 ms", one_flow!("20ms")),
    row(
        "sim-near-far",
        "simulated: near-and-far.toml, what reaches the receiver of rounds and far flows",
        &Simulated { scenario: NEAR_AND_FAR, changes: &[] },
    ),
    row(
        "sim-think",
        "simulated: closed-loops.toml, 16 connections of 30 KB answers, servers think up to 4 ms",
        &Simulated { scenario: CLOSED_LOOPS, changes: &[] },
    ),
    row(
        "sim-rto-1ms",
        "simulated: my-cluster.toml, 128 fresh DCTCP senders, RTOmin 1 ms",
        &Simulated {
            scenario: CLUSTER,
            changes: &[
                "senders=128",
                "rounds=10",
                "tcp.cc=dctcp",
                "tcp.rto_min=1ms",
                "workload.connections=fresh",
                MARKING,
            ],
        },
    ),
    row(
        "sim-leaf-rto-1ms",
        "simulated: leaf-spine.toml, RTOmin 1 ms",
        &Simulated { scenario: LEAF_SPINE, changes: &["tcp.rto_min=1ms"] },
    ),
    row("sim-request-1000", "simulated: 200 kept senders, requests of 1000 B", requests_of!("1000B")),
    row("sim-request-1100", "simulated: 200 kept senders, requests of 1100 B", requests_of!("1100B")),
];

/// Where DCTCP's authors mark at 10 Gb/s: 65 frames (Alizadeh et al., section 3.4).
const MARKING: &str = "switch.discipline={ kind = \"ecn\", mark_above = \"65p\" }";

impl Measure for Simulated {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        if bench.kind == Some(Kind::Rto) {
            return Err(RowError::Impossible(
                "fine timeouts beside TCP's are not simulated: the simulator's TCP has them itself".into(),
            ));
        }
        if matches!(bench.kind, Some(Kind::CreditDefault | Kind::CreditUntold)) {
            return Err(RowError::Impossible("a simulated guard is always told the rate".into()));
        }
        let failed = |error: ScenarioError| RowError::Simulated(error.to_string());
        let mut document = Document::parse("lab harm", self.scenario).map_err(failed)?;
        let seed = format!("seed={}", bench.index + 1);
        let scheme = format!("scheme={}", bench.kind.map_or("none", Kind::policy));
        let auto = (bench.kind == Some(Kind::CreditAuto)).then_some("pac.auto=true");
        for change in self.changes.iter().copied().chain([seed.as_str(), &scheme]).chain(auto) {
            let change = Assignment::parse("lab harm", change).map_err(failed)?;
            document.set(&change).map_err(failed)?;
        }
        let scenario = document.scenario().map_err(failed)?;
        let report =
            ackgate_sim::run(&scenario, &mut Nobody).map_err(|error| RowError::Simulated(error.to_string()))?;
        // Of rounds alone this is their goodput and framing; where there are more groups of senders, of all of them.
        Ok(if report.groups.is_empty() { report.goodput_mbps } else { report.throughput_mbps })
    }
}
