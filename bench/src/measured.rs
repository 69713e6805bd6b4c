//! What one run of a case came to.

use std::fs;

use ackgate_sim::observer::Nobody;
use ackgate_sim::scenario::Scenario;
use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Figures of one run, printed by the process that made it and read by the one that asked for it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Data packets that reached a receiver's TCP.
    pub packets: u64,
    /// Packets that left TCP, ACKs and those that were dropped included.
    pub sent: u64,
    /// Events that the simulator's core handled.
    pub events: u64,
    /// Wall-clock time of the run, in seconds.
    pub wall_s: f64,
    /// Largest resident memory of the process, in KiB.
    pub peak_kib: u64,
    /// Goodput, in 10^6 bit/s of simulated time: tells two versions that simulate different things apart.
    pub goodput_mbps: f64,
}

impl Measured {
    /// Runs `scenario` in this process.
    ///
    /// # Errors
    /// When the scenario has no result, or the process may not read its own memory use.
    pub fn run(scenario: &Scenario) -> anyhow::Result<Self> {
        let report = ackgate_sim::run(scenario, &mut Nobody)?;
        Ok(Self {
            packets: report.packets_delivered,
            sent: report.packets.sent,
            events: report.events,
            wall_s: report.wall_s,
            peak_kib: peak_kib()?,
            goodput_mbps: report.goodput_mbps,
        })
    }

    /// Data packets delivered per second of wall time.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.packets as f64 / self.wall_s
    }
}

/// Largest resident memory of this process so far, in KiB.
///
/// # Errors
/// When `/proc/self/status` cannot be read or has no `VmHWM`.
pub fn peak_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().trim_end_matches("kB").trim().parse().ok())
        .context("/proc/self/status has no VmHWM: peak memory is known on Linux only")
}
