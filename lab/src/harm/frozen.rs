//! The guard's daemons are stopped (SIGSTOP) while they are needed: what it holds must not be held for longer than it would be.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::rounds::{HOSTS, Rounds, TEN, carried};
use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use crate::guard::{Guard, GuardError};

/// How long what the port carries is measured while the daemon is stopped.
const SPAN: Duration = Duration::from_secs(2);
/// How long the guard has to see that nobody is there.
const NOTICE: Duration = Duration::from_millis(300);
/// Time for the connections to stand and the guard to hold.
const WARMUP: Duration = Duration::from_millis(1000);

struct FrozenDaemon(Rounds);

const fn rounds(connections: usize) -> FrozenDaemon {
    let limit = WARMUP.saturating_add(NOTICE).saturating_add(SPAN).saturating_add(Duration::from_millis(500));
    FrozenDaemon(Rounds { connections, rounds: 100_000, limit, ..TEN })
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "frozen-8",
        what: "rounds of 8 x 64 KB, from 0.3 s after its daemon was stopped, 500 Mb/s",
        unit: Unit::Mbps,
        measure: &rounds(8),
    },
    Row {
        name: "frozen-80",
        what: "rounds of 80 x 64 KB, from 0.3 s after its daemon was stopped, 500 Mb/s",
        unit: Unit::Mbps,
        measure: &rounds(80),
    },
];

impl Measure for FrozenDaemon {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (lab, guard) = bench.lab(spec(HOSTS, 500))?;
        let mbps = self.0.during(&lab, bench, || {
            bench.sleep(WARMUP)?;
            let _frozen = guard.as_ref().map(Frozen::freeze).transpose()?;
            bench.sleep(NOTICE)?;
            carried(&lab, bench, SPAN)
        })?;
        end(guard)?;
        Ok(mbps)
    }
}

/// Daemons that are stopped until this is dropped.
struct Frozen<'a>(&'a Guard);

impl<'a> Frozen<'a> {
    fn freeze(guard: &'a Guard) -> Result<Self, GuardError> {
        guard.signal(Signal::SIGSTOP)?;
        Ok(Self(guard))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // They may have been killed meanwhile.
        let _ = self.0.signal(Signal::SIGCONT);
    }
}
