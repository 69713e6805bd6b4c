//! Closed loops of requests: at servers that think, with requests of all sizes, and several outstanding on each connection.

use std::time::Duration;

use super::exchanges::{Exchanges, Shape};
use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use super::streams::{open, plain};
use crate::testbed::Spec;

struct Requests {
    /// Connections that ask again as soon as they have their answer.
    connections: usize,
    mbps: u64,
    /// Of the paths to each of four hosts, ms.
    rtt: u64,
    shape: Shape,
}

const THINKING: Shape =
    Shape { outstanding: 1, request: 100, response: 30_000, think: Duration::from_millis(2), at_random: false };

/// Sixteen connections, 500 Mb/s.
const fn sixteen(shape: Shape) -> Requests {
    Requests { connections: 16, mbps: 500, rtt: 0, shape }
}

/// Answers of 5 KB after any time up to 10 ms, 200 Mb/s.
const fn any_time(connections: usize) -> Requests {
    let shape = Shape { response: 5_000, think: Duration::from_millis(10), at_random: true, ..THINKING };
    Requests { connections, mbps: 200, rtt: 0, shape }
}

/// Several requests outstanding on each connection, as clients of storage and of HTTP/2 have, 200 Mb/s.
const fn pipelined(connections: usize, rtt: u64, outstanding: usize, response: usize) -> Requests {
    let shape = Shape { outstanding, response, think: Duration::ZERO, ..THINKING };
    Requests { connections, mbps: 200, rtt, shape }
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
    Row {
        name: "pipelined-1",
        what: "one connection, four answers of 20 KB outstanding, 200 Mb/s, RTT 5 ms",
        unit: Unit::PerSecond,
        measure: &pipelined(1, 5, 4, 20_000),
    },
    Row {
        name: "pipelined-8",
        what: "eight connections, two answers of 4 KB outstanding on each, 200 Mb/s, RTT 5 ms",
        unit: Unit::PerSecond,
        measure: &pipelined(8, 5, 2, 4_000),
    },
    Row {
        name: "pipelined-64",
        what: "64 connections, four answers of 20 KB outstanding on each, 200 Mb/s",
        unit: Unit::PerSecond,
        measure: &pipelined(64, 0, 4, 20_000),
    },
];

impl Measure for Requests {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let rtts = vec![Duration::from_millis(self.rtt); 4];
        let (testbed, guard) = bench.bed(Spec { rtts, ..spec(4, self.mbps) })?;
        let exchanges = Exchanges::start(open(&testbed, self.connections, &plain)?, self.shape)?;
        bench.sleep(Duration::from_millis(500))?;
        let octets = exchanges.octets_per_second(bench, Duration::from_millis(1500))?;
        drop(exchanges);
        end(guard)?;
        Ok(octets / self.shape.response as f64)
    }
}
