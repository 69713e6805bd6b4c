//! The mixed load of a soak: incast rounds on kept connections, long flows, requests that servers think about, and new connections
//! all the time.

use std::time::{Duration, Instant};

use crate::harm::churn::Churn;
use crate::harm::exchanges::{Exchanges, Shape};
use crate::harm::rounds::{HOSTS, Rounds, TEN};
use crate::harm::row::{Bench, RowError};
use crate::harm::streams::{Bulk, open, open_from, plain};
use crate::incast::Lab;
use crate::testbed::Testbed;

/// Long flows, and the hosts that they come from.
const LONG: usize = 2;
/// Connections that ask again as soon as they have their answer, and what they ask for.
const ASKING: usize = 16;
const ANSWERS: Shape =
    Shape { outstanding: 1, request: 100, response: 30_000, think: Duration::from_millis(2), at_random: false };
/// Clients that open a connection for each request of 1 KB.
const CHURN: Churn = Churn::of(32);
/// How long the connections of rounds are kept; then the next rounds begin on others.
const KEPT: Duration = Duration::from_secs(10);

/// What a load came to.
pub(super) struct Done {
    /// Connections per second that were opened, answered and closed.
    pub(super) connections_per_s: f64,
    /// Goodput of the incast rounds in Mb/s, in the mean.
    pub(super) incast_mbps: f64,
}

/// Sets up the hosts.
pub(super) fn prepare(testbed: &Testbed) -> Result<(), RowError> {
    CHURN.prepare(testbed)
}

/// Loads the receiver for that long; all connections are closed afterwards.
pub(super) fn run(lab: &Lab, bench: &Bench<'_>, time: Duration) -> Result<Done, RowError> {
    let testbed = lab.testbed();
    let _long = Bulk::start(open_from(testbed, 0..LONG, LONG, &plain)?)?;
    let _asking = Exchanges::start(open(testbed, ASKING, &plain)?, ANSWERS)?;
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| rounds(lab, bench, time));
        let connections_per_s = CHURN.run(testbed, bench, time);
        let incast_mbps = rounds.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Done { connections_per_s: connections_per_s?, incast_mbps: incast_mbps? })
    })
}

/// Rounds until the time is over; their goodput.
fn rounds(lab: &Lab, bench: &Bench<'_>, time: Duration) -> Result<f64, RowError> {
    let until = Instant::now() + time;
    let (mut sum, mut count) = (0.0, 0_u32);
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| *left > KEPT / 10) {
        let rounds = Rounds { rounds: 100_000, limit: left.min(KEPT), ..TEN };
        sum += rounds.mbps(lab, HOSTS, bench)?;
        count += 1;
    }
    Ok(sum / f64::from(count.max(1)))
}
