//! Closed loops of requests: beside a daemon that is stopped, and at servers that think.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::exchanges::{Exchanges, Shape};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{open, plain};
use crate::guard::Guard;

/// Connections that ask again as soon as they have their answer.
struct Requests {
    connections: usize,
    shape: Shape,
    mbps: u64,
    /// How long the guard's daemon is stopped while it is measured.
    frozen: bool,
}

const THINKING: Requests = Requests {
    connections: 16,
    shape: Shape { request: 100, response: 30_000, think: Duration::from_millis(2) },
    mbps: 500,
    frozen: false,
};
const FROZEN: Requests = Requests {
    connections: 80,
    shape: Shape { request: 100, response: 16_000, think: Duration::ZERO },
    mbps: 200,
    frozen: true,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "frozen",
        what: "80 connections of 16 KB answers, daemon stopped for 3 s, 200 Mb/s",
        unit: Unit::PerSecond,
        measure: &FROZEN,
    },
    Row {
        name: "frozen-8",
        what: "eight connections of 16 KB answers, daemon stopped for 3 s, 200 Mb/s",
        unit: Unit::PerSecond,
        measure: &Requests { connections: 8, ..FROZEN },
    },
    Row {
        name: "think",
        what: "16 connections of 30 KB answers, servers think 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &THINKING,
    },
    Row {
        name: "large-requests",
        what: "16 connections, requests of 1100 B, answers of 30 KB after 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &Requests { shape: Shape { request: 1100, ..THINKING.shape }, ..THINKING },
    },
    Row {
        name: "uploads",
        what: "16 connections, requests of 20 KB, answers of 30 KB after 2 ms, 500 Mb/s",
        unit: Unit::PerSecond,
        measure: &Requests { shape: Shape { request: 20_000, ..THINKING.shape }, ..THINKING },
    },
];

impl Measure for Requests {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(4, self.mbps))?;
        let exchanges = Exchanges::start(open(&testbed, self.connections, &plain)?, self.shape)?;
        bench.sleep(Duration::from_millis(500))?;
        let frozen = guard.as_ref().filter(|_| self.frozen).map(Frozen::freeze).transpose()?;
        let span = Duration::from_millis(if self.frozen { 3000 } else { 1500 });
        let octets = exchanges.octets_per_second(bench, span)?;
        drop(frozen);
        drop(exchanges);
        end(guard)?;
        Ok(octets / self.shape.response as f64)
    }
}

/// A daemon that is stopped until this is dropped.
struct Frozen(Pid);

impl Frozen {
    fn freeze(guard: &Guard) -> Result<Self, RowError> {
        let stopping = io_error("stopping the guard's daemon");
        let pid = Pid::from_raw(i32::try_from(guard.pid()).map_err(|e| stopping(std::io::Error::other(e)))?);
        kill(pid, Signal::SIGSTOP).map_err(|e| stopping(e.into()))?;
        Ok(Self(pid))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may have been killed meanwhile.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}
