//! The guard starts beside an incast: its connections are older than it, and their handshakes, with window scale and RTT, were not
//! seen.

use std::time::Duration;

use super::rounds::{HOSTS, Rounds, TEN, carried};
use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};

/// How long the connections are there before the guard.
const BEFORE: Duration = Duration::from_millis(1000);
/// How long a guard has to begin.
const BEGIN: Duration = Duration::from_millis(1000);
/// How long what the port carries is measured then.
const SPAN: Duration = Duration::from_secs(3);
/// How long a guard may take to start.
const START: Duration = Duration::from_secs(3);

struct Older(Rounds);

const fn rounds(connections: usize) -> Older {
    let limit = BEFORE.saturating_add(START).saturating_add(BEGIN).saturating_add(SPAN);
    Older(Rounds { connections, rounds: 100_000, limit, ..TEN })
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "older-64",
        what: "rounds of 64 x 64 KB on connections older than the guard, from its second second on, 200 Mb/s",
        unit: Unit::Mbps,
        measure: &rounds(64),
    },
    Row {
        name: "older-200",
        what: "rounds of 200 x 64 KB on connections older than the guard, from its second second on, 200 Mb/s",
        unit: Unit::Mbps,
        measure: &rounds(200),
    },
];

impl Measure for Older {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let lab = bench.unguarded_lab(spec(HOSTS, 200))?;
        self.0.during(&lab, bench, || {
            bench.sleep(BEFORE)?;
            let guard = bench.guard(lab.testbed())?;
            bench.sleep(BEGIN)?;
            let mbps = carried(&lab, bench, SPAN)?;
            end(guard)?;
            Ok(mbps)
        })
    }
}
