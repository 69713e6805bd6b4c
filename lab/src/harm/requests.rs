//! Closed loops of requests at servers that think, with requests of all sizes.

use std::time::Duration;

use super::exchanges::{Exchanges, Shape};
use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use super::streams::{open, plain};

struct Requests {
    /// Connections that ask again as soon as they have their answer.
    connections: usize,
    mbps: u64,
    shape: Shape,
}

const THINKING: Shape = Shape { request: 100, response: 30_000, think: Duration::from_millis(2), at_random: false };

/// Sixteen connections, 500 Mb/s.
const fn sixteen(shape: Shape) -> Requests {
    Requests { connections: 16, mbps: 500, shape }
}

/// Answers of 5 KB after any time up to 10 ms, 200 Mb/s.
const fn any_time(connections: usize) -> Requests {
    let shape = Shape { response: 5_000, think: Duration::from_millis(10), at_random: true, ..THINKING };
    Requests { connections, mbps: 200, shape }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "think",
        what: "16 connections of 30 KB answers, servers think 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &sixteen(THINKING),
    },
    Row {
        name: "large-requests",
        what: "16 connections, requests of 1100 B, answers of 30 KB after 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &sixteen(Shape { request: 1100, ..THINKING }),
    },
    Row {
        name: "uploads",
        what: "16 connections, requests of 20 KB, answers of 30 KB after 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &sixteen(Shape { request: 20_000, ..THINKING }),
    },
    Row {
        name: "think-any-40",
        what: "40 connections of 5 KB answers, servers think up to 10 ms, 200 Mb/s",
        unit: Unit::PerSecond,
        measure: &any_time(40),
    },
    Row {
        name: "think-any-150",
        what: "the same with 150 connections",
        unit: Unit::PerSecond,
        measure: &any_time(150),
    },
];

impl Measure for Requests {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(4, self.mbps))?;
        let exchanges = Exchanges::start(open(&testbed, self.connections, &plain)?, self.shape)?;
        bench.sleep(Duration::from_millis(500))?;
        let octets = exchanges.octets_per_second(bench, Duration::from_millis(1500))?;
        drop(exchanges);
        end(guard)?;
        Ok(octets / self.shape.response as f64)
    }
}
