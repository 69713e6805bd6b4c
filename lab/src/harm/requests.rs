//! Closed loops of requests at servers that think, with requests of all sizes.

use std::time::Duration;

use super::exchanges::{Exchanges, Shape};
use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use super::streams::{open, plain};

/// Connections that ask again as soon as they have their answer.
const CONNECTIONS: usize = 16;

struct Requests(Shape);

const THINKING: Shape = Shape { request: 100, response: 30_000, think: Duration::from_millis(2) };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "think",
        what: "16 connections of 30 KB answers, servers think 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &Requests(THINKING),
    },
    Row {
        name: "large-requests",
        what: "16 connections, requests of 1100 B, answers of 30 KB after 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &Requests(Shape { request: 1100, ..THINKING }),
    },
    Row {
        name: "uploads",
        what: "16 connections, requests of 20 KB, answers of 30 KB after 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &Requests(Shape { request: 20_000, ..THINKING }),
    },
];

impl Measure for Requests {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(4, 500))?;
        let exchanges = Exchanges::start(open(&testbed, CONNECTIONS, &plain)?, self.0)?;
        bench.sleep(Duration::from_millis(500))?;
        let octets = exchanges.octets_per_second(bench, Duration::from_millis(1500))?;
        drop(exchanges);
        end(guard)?;
        Ok(octets / self.0.response as f64)
    }
}
