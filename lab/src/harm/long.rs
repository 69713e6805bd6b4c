//! Long flows: what bulk gets through the port, near, far, both, and at a port without a limit.

use std::time::Duration;

use super::row::{Bench, Measure, Row, RowError, Unit, end, fast, spec};
use super::streams::{Bulk, open, plain};
use crate::testbed::Spec;

/// Bulk of `flows` connections.
struct Long {
    flows: usize,
    /// Hosts that send, by base round-trip time in milliseconds.
    rtts: &'static [u64],
    /// Rate of the port in megabits per second; `None` for no limit.
    mbps: Option<u64>,
    /// Whether the flows are older than the guard.
    older: bool,
}

const ONE: Long = Long { flows: 1, rtts: &[0], mbps: Some(200), older: false };
const EIGHT: Long = Long { flows: 8, rtts: &[0; 4], ..ONE };
const NEAR_AND_FAR: &[u64] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 20, 20];

const fn row(name: &'static str, what: &'static str, measure: &'static Long) -> Row {
    Row { name, what, unit: Unit::Mbps, measure }
}

pub(super) const ROWS: &[Row] = &[
    row("long-0ms", "one long flow, 200 Mb/s", &ONE),
    row("long-1ms", "one long flow, 200 Mb/s, RTT 1 ms", &Long { rtts: &[1], ..ONE }),
    row("long-5ms", "one long flow, 200 Mb/s, RTT 5 ms", &Long { rtts: &[5], ..ONE }),
    row("long-20ms", "one long flow, 200 Mb/s, RTT 20 ms", &Long { rtts: &[20], ..ONE }),
    row("long8-0ms", "eight long flows, 200 Mb/s", &EIGHT),
    row("long8-1ms", "eight long flows, 200 Mb/s, RTT 1 ms", &Long { rtts: &[1; 4], ..EIGHT }),
    row("long8-5ms", "eight long flows, 200 Mb/s, RTT 5 ms", &Long { rtts: &[5; 4], ..EIGHT }),
    row("long8-20ms", "eight long flows, 200 Mb/s, RTT 20 ms", &Long { rtts: &[20; 4], ..EIGHT }),
    row("near-far", "nine near flows and three at 20 ms, 200 Mb/s", &Long { flows: 12, rtts: NEAR_AND_FAR, ..ONE }),
    row("veth-8", "eight long flows, no limit, offloads on", &Long { mbps: None, ..EIGHT }),
    row("veth-64", "64 long flows, no limit, offloads on", &Long { flows: 64, mbps: None, ..EIGHT }),
    row("older", "eight long flows that are older than the guard, 200 Mb/s", &Long { older: true, ..EIGHT }),
];

impl Long {
    fn spec(&self) -> Spec {
        let hosts = self.rtts.len();
        let base = self.mbps.map_or_else(|| fast(hosts), |mbps| spec(hosts, mbps));
        Spec { rtts: self.rtts.iter().map(|&ms| Duration::from_millis(ms)).collect(), ..base }
    }
}

impl Measure for Long {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let testbed = bench.testbed(self.spec())?;
        let early = if self.older { None } else { bench.guard(&testbed)? };
        let bulk = Bulk::start(open(&testbed, self.flows, &plain)?)?;
        // The farther, the longer until the loss that ends slow start is made up for.
        let farthest = self.rtts.iter().copied().max().unwrap_or(0);
        bench.sleep(Duration::from_millis(500 + 50 * farthest))?;
        // A guard that starts now is measured from its first moment on.
        let late = if self.older { bench.guard(&testbed)? } else { None };
        let mbps = bulk.mbps(bench, Duration::from_millis(1500))?;
        drop(bulk);
        end(early.or(late))?;
        Ok(mbps)
    }
}
