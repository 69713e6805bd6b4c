//! Everything at once: incast rounds from near hosts, long flows from far ones, and a mouse.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::rounds::{HOSTS, Rounds, TEN};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{Bulk, Pair, megabits, millis, open_from, plain, receive, send};
use crate::incast::Lab;
use crate::load::report::nearest_rank;
use crate::testbed::Spec;

/// Hosts that send rounds, and behind them those that are far.
const NEAR: usize = HOSTS;
const FAR: usize = 4;
const FAR_RTT: Duration = Duration::from_millis(20);
/// Time for all to be under way.
const WARMUP: Duration = Duration::from_millis(1200);
/// Length of a measurement.
const SPAN: Duration = Duration::from_millis(2000);
/// Time from one request of the mouse to the next, as far as answers come as fast.
const PACE: Duration = Duration::from_millis(2);

struct Mixed {
    connections: usize,
    what: What,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// What the port carries of rounds and long flows together.
    Total,
    /// What 99 of 100 requests of 1 KB take at most.
    Mouse,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "mixed-64",
        what: "rounds of 64 x 64 KB, four long flows at 20 ms, a mouse: what the port carries, 200 Mb/s",
        unit: Unit::Mbps,
        measure: &Mixed { connections: 64, what: What::Total },
    },
    Row {
        name: "mixed-200",
        what: "the same with 200 kept senders",
        unit: Unit::Mbps,
        measure: &Mixed { connections: 200, what: What::Total },
    },
    Row {
        name: "mixed-mouse",
        what: "the mouse of mixed-64: p99 of 1 KB answers",
        unit: Unit::Millis,
        measure: &Mixed { connections: 64, what: What::Mouse },
    },
];

impl Measure for Mixed {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let mut rtts = vec![Duration::ZERO; NEAR];
        rtts.extend([FAR_RTT; FAR]);
        let (lab, guard) = bench.lab(Spec { rtts, ..spec(NEAR + FAR, 200) })?;
        let bulk = Bulk::start(open_from(lab.testbed(), NEAR..NEAR + FAR, FAR, &plain)?)?;
        let mouse = open_from(lab.testbed(), 0..1, 1, &plain)?;
        let limit = WARMUP.saturating_add(SPAN);
        let rounds = Rounds { connections: self.connections, rounds: 100_000, limit, ..TEN };
        let stop = AtomicBool::new(false);
        let (total, waits) = std::thread::scope(|scope| {
            let load = scope.spawn(|| rounds.mbps(&lab, NEAR, bench));
            let asking = scope.spawn(|| ask(&mouse, &stop));
            let total = self.total(&lab, bench);
            stop.store(true, Ordering::Relaxed);
            let waits = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let load = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (load.and(total), waits)
        });
        drop(bulk);
        end(guard)?;
        match self.what {
            What::Total => total,
            What::Mouse => {
                let mut waits = waits.map_err(io_error("the mouse's connection broke"))?;
                waits.sort_unstable();
                Ok(millis(Duration::from_micros(nearest_rank(&waits, 990))))
            }
        }
    }
}

impl Mixed {
    /// What the port carries in megabits per second, once all are under way.
    fn total(&self, lab: &Lab, bench: &Bench<'_>) -> Result<f64, RowError> {
        bench.sleep(WARMUP)?;
        let (before, began) = (lab.testbed().port_stats()?.bytes, Instant::now());
        bench.sleep(SPAN)?;
        Ok(megabits(lab.testbed().port_stats()?.bytes - before, began.elapsed()))
    }
}

/// Asks for 1 KB again and again; what each answer took, in microseconds.
fn ask(mouse: &[Pair], stop: &AtomicBool) -> std::io::Result<Vec<u64>> {
    let mut waits = Vec::new();
    for pair in mouse {
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let until = began + WARMUP + SPAN;
            send(&pair.receiver, 100, until);
            let answered = receive(&pair.sender, 100, until).and_then(|()| {
                send(&pair.sender, 1000, until);
                receive(&pair.receiver, 1000, until)
            });
            match answered {
                Err(e) if e.kind() != ErrorKind::TimedOut => return Err(e),
                _ => waits.push(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)),
            }
            std::thread::sleep(PACE.saturating_sub(began.elapsed()));
        }
    }
    Ok(waits)
}
