//! Incast rounds, alone, as what other rows disturb or are disturbed by.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use super::streams::megabits;
use crate::incast::{Lab, LabError};
use crate::load::pull::{PullConfig, Start, Volume};
use crate::load::{LoadError, PORT};
use crate::testbed::{Spec, Testbed};

/// Barrier-synchronised rounds on kept connections.
#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) connections: usize,
    pub(crate) bytes: u64,
    pub(crate) rounds: u32,
    pub(crate) start: Start,
    pub(crate) limit: Duration,
}

/// Hosts that send rounds.
pub(crate) const HOSTS: usize = 8;

/// 64 senders of 64 KB each, ten times, given four seconds.
pub(crate) const TEN: Rounds =
    Rounds { connections: 64, bytes: 64_000, rounds: 10, start: Start::Pull, limit: Duration::from_secs(4) };

impl Rounds {
    /// Payload over time in megabits per second, the round that stood still when the time was over included.
    /// The first `hosts` send.
    pub(crate) fn mbps(&self, lab: &Lab, hosts: usize, bench: &Bench<'_>) -> Result<f64, RowError> {
        let config = PullConfig {
            servers: (0..hosts).map(|k| SocketAddr::new(Testbed::sender_address(k, false), PORT)).collect(),
            connections: self.connections,
            volume: Volume::PerConnection(self.bytes),
            rounds: self.rounds,
            warmup: 1,
            start: self.start,
            fresh: false,
            cc: Some(lab.testbed().spec().cc.to_string()),
            own_cc: None,
            mss: None,
            quickack: false,
            pace: None,
            deadline: self.limit,
        };
        let began = Instant::now();
        match lab.load(config, bench.stop, |_| {}) {
            Ok(report) if report.rounds < report.rounds_asked => Ok(megabits(report.bytes, began.elapsed())),
            Ok(report) => Ok(report.goodput_mbps),
            Err(LabError::Load(LoadError::Deadline { .. })) => Ok(0.0),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends rounds while `measure` looks at the port; the rounds end with their limit.
    pub(crate) fn during(
        &self,
        lab: &Lab,
        bench: &Bench<'_>,
        measure: impl FnOnce() -> Result<f64, RowError>,
    ) -> Result<f64, RowError> {
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.mbps(lab, HOSTS, bench));
            let measured = measure();
            load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(measured)
        })
    }
}

/// What the port carries during so long, in megabits per second.
pub(super) fn carried(lab: &Lab, bench: &Bench<'_>, span: Duration) -> Result<f64, RowError> {
    let (before, began) = (lab.testbed().port_stats()?.bytes, Instant::now());
    bench.sleep(span)?;
    Ok(megabits(lab.testbed().port_stats()?.bytes - before, began.elapsed()))
}

/// Rounds through a port of `mbps`, from hosts at a base round-trip time of `rtt`.
struct Incast {
    mbps: u64,
    rtt: Duration,
    /// Least retransmission timeout of all hosts; `None` keeps the kernel's.
    rto_min: Option<Duration>,
    /// What guards are told of the port's buffer; what it is where `None`.
    told: Option<u64>,
    rounds: Rounds,
}

/// Rounds at the bench's own base round-trip time.
const NEAR: Incast = Incast { mbps: 500, rtt: Duration::ZERO, rto_min: None, told: None, rounds: TEN };

/// Rounds of the far rows: the guard has to learn round trips first, and they are long.
const FAR: Incast = Incast {
    mbps: 200,
    rtt: Duration::from_millis(5),
    rounds: Rounds { rounds: 12, limit: Duration::from_secs(10), ..TEN },
    ..NEAR
};

/// The port holds a tenth of what guards are told.
const OVERSTATED: Incast = Incast {
    mbps: 200,
    told: Some(1_000_000),
    rounds: Rounds { rounds: 20, limit: Duration::from_secs(15), ..TEN },
    ..NEAR
};

/// Timers fire long before all flows have had a turn.
const HASTY: Incast = Incast { rtt: Duration::ZERO, rto_min: Some(Duration::from_millis(5)), ..FAR };

/// Each sender pushes a short message in each round; those of 12 fit the buffer.
const PUSH: Incast = Incast {
    rtt: Duration::from_millis(1),
    rounds: Rounds { connections: 12, bytes: 5_000, rounds: 400, start: Start::Push, ..FAR.rounds },
    ..FAR
};

/// Each sender answers with little; the answers of 40 fit the buffer.
const SHORT: Incast =
    Incast { rtt: Duration::ZERO, rounds: Rounds { connections: 40, bytes: 1_000, rounds: 400, ..FAR.rounds }, ..FAR };

const fn row(name: &'static str, what: &'static str, measure: &'static Incast) -> Row {
    Row { name, what, unit: Unit::Mbps, measure }
}

pub(super) const ROWS: &[Row] = &[
    row(
        "incast-8",
        "8 senders of 64 KB, kept, 500 Mb/s",
        &Incast { rounds: Rounds { connections: 8, rounds: 40, ..TEN }, ..NEAR },
    ),
    row("incast-64", "64 senders of 64 KB, kept, 500 Mb/s", &NEAR),
    row("incast-64-5ms", "64 senders of 64 KB, kept, 200 Mb/s, RTT 5 ms", &FAR),
    row(
        "incast-200-5ms",
        "the same with 200 senders",
        &Incast { rounds: Rounds { connections: 200, ..FAR.rounds }, ..FAR },
    ),
    row(
        "incast-64-20ms",
        "64 senders of 64 KB, kept, 200 Mb/s, RTT 20 ms",
        &Incast { rtt: Duration::from_millis(20), ..FAR },
    ),
    row(
        "incast-200-20ms",
        "the same with 200 senders",
        &Incast { rtt: Duration::from_millis(20), rounds: Rounds { connections: 200, ..FAR.rounds }, ..FAR },
    ),
    row("push-12", "12 senders push 5 KB unasked, kept, 200 Mb/s, RTT 1 ms", &PUSH),
    row(
        "push-24",
        "24 of them without delay: more than the buffer",
        &Incast { rtt: Duration::ZERO, rounds: Rounds { connections: 24, rounds: 100, ..PUSH.rounds }, ..PUSH },
    ),
    row("short-40", "40 senders of 1 KB, kept, 200 Mb/s", &SHORT),
    row(
        "short-200",
        "200 of 2 KB: more than the buffer",
        &Incast { rounds: Rounds { connections: 200, bytes: 2_000, rounds: 20, ..SHORT.rounds }, ..SHORT },
    ),
    row("overstated-64", "64 senders of 64 KB, kept, 200 Mb/s, 96 KB, guards told 1 MB", &OVERSTATED),
    row(
        "overstated-200",
        "the same with 200 senders, guards told 384 KB",
        &Incast {
            told: Some(384_000),
            rounds: Rounds { connections: 200, rounds: 8, ..OVERSTATED.rounds },
            ..OVERSTATED
        },
    ),
    row("rto-64", "64 senders of 64 KB, kept, 200 Mb/s, RTOmin 5 ms at all hosts", &HASTY),
    row(
        "rto-200",
        "the same with 200 senders",
        &Incast { rounds: Rounds { connections: 200, rounds: 5, ..HASTY.rounds }, ..HASTY },
    ),
];

impl Measure for Incast {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (rtts, rto_min, told) = (vec![self.rtt; HOSTS], self.rto_min, self.told);
        let (lab, guard) =
            bench.lab(Spec { rtts, rto_min, told, receiver_rto_min: rto_min, ..spec(HOSTS, self.mbps) })?;
        let mbps = self.rounds.mbps(&lab, HOSTS, bench)?;
        end(guard)?;
        Ok(mbps)
    }
}
