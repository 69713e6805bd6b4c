//! Paths that change while connections are used: another route, a guest that moves.

use std::time::Duration;

use super::rounds::{HOSTS, Rounds, TEN, carried};
use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use crate::testbed::Spec;

/// The least base round-trip time in these rows: paths are lengthened from it.
const NEAR: Duration = Duration::from_millis(1);
/// What a long route takes more.
const DETOUR: Duration = Duration::from_millis(19);
/// From the begin of the rounds until the paths change.
const BEFORE: Duration = Duration::from_secs(2);
/// From then until what the port carries is measured: some slow starts.
const SETTLING: Duration = Duration::from_millis(500);
/// How long it is measured.
const AFTER: Duration = Duration::from_secs(3);

/// Rounds through a port of 200 Mb/s whose senders' paths change.
struct Moved {
    /// Whether they become longer, or shorter.
    longer: bool,
    rounds: Rounds,
}

/// Until the time is over.
const ROUNDS: Rounds = Rounds { rounds: 100_000, limit: Duration::from_secs(6), ..TEN };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "longer-8",
        what: "8 senders of 1 MB, kept, 200 Mb/s, after their RTT has grown from 1 to 20 ms",
        unit: Unit::Mbps,
        measure: &Moved { longer: true, rounds: Rounds { connections: 8, bytes: 1_000_000, ..ROUNDS } },
    },
    Row {
        name: "shorter-64",
        what: "64 senders of 64 KB, kept, 200 Mb/s, after their RTT has fallen from 20 to 1 ms",
        unit: Unit::Mbps,
        measure: &Moved { longer: false, rounds: ROUNDS },
    },
];

impl Measure for Moved {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (lab, guard) = bench.lab(Spec { rtts: vec![NEAR; HOSTS], ..spec(HOSTS, 200) })?;
        let lengthen = |by| lab.testbed().lengthen(by);
        let [before, after] = if self.longer { [Duration::ZERO, DETOUR] } else { [DETOUR, Duration::ZERO] };
        lengthen(before)?;
        let mbps = self.rounds.during(&lab, bench, || {
            bench.sleep(BEFORE)?;
            lengthen(after)?;
            bench.sleep(SETTLING)?;
            carried(&lab, bench, AFTER)
        })?;
        end(guard)?;
        Ok(mbps)
    }
}
