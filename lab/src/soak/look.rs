//! What is looked at while a guard soaks: its memory, the entries of its flow table, its own account, and the device's counters,
//! which know nothing of it.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use libbpf_rs::{MapCore, MapHandle};
use serde::Serialize;
use serde_json::Value;

use crate::faults::state::processes;
use crate::guard::{Guard, GuardError};
use crate::harm::row::{RowError, io_error};
use crate::testbed::{RECEIVER_DEVICE, Testbed};

/// The hash map that has one entry for each connection that is known.
const FLOWS: &str = "flow_ids";
/// Looks for a moment in which nothing moves.
const LOOKS: u32 = 30;

/// One look.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds since the load began.
    pub at_s: f64,
    /// Resident memory of the guard and its standby process, in KiB.
    pub rss_kib: u64,
    /// Connections in the BPF map that finds them.
    pub flows: usize,
    /// Connections that were active within the last second.
    pub senders: u64,
    /// Frames held.
    pub held: u64,
    /// Wire bytes that were triggered and have not arrived.
    pub in_flight: u64,
    /// Frames released so far.
    pub released: u64,
}

/// A guard that is looked at.
pub(super) struct Looker<'a> {
    testbed: &'a Testbed,
    guard: Guard,
    flows: MapHandle,
}

impl<'a> Looker<'a> {
    pub(super) fn new(testbed: &'a Testbed, guard: Guard) -> Result<Self, RowError> {
        let flows = flow_map(guard.pid())?;
        Ok(Self { testbed, guard, flows })
    }

    /// How things stand.
    pub(super) fn look(&mut self, at: Duration) -> Result<Sample, RowError> {
        let told = self.told()?;
        Ok(Sample {
            at_s: at.as_secs_f64(),
            rss_kib: self.rss_kib()?,
            // Entries that come and go meanwhile may show twice.
            flows: self.flows.keys().collect::<HashSet<_>>().len(),
            senders: field(&told, "senders"),
            held: field(&told, "held"),
            in_flight: field(&told, "in_flight"),
            released: field(&told, "released"),
        })
    }

    /// Frames that the device has carried both ways, and frames that the guard accounts for, at a moment in which nothing moves.
    pub(super) fn frames(&mut self) -> Result<Frames, RowError> {
        for _ in 0..LOOKS {
            let before = self.carried()?;
            let told = self.told()?;
            if self.carried()? == before {
                return Ok(Frames { carried: before, accounted: accounted(&told) });
            }
        }
        Err(lab(format!("{RECEIVER_DEVICE} still carries traffic {LOOKS} s after the load ended")))
    }

    /// Takes the guard off.
    pub(super) fn stop(self) -> Result<Value, GuardError> {
        self.guard.stop()
    }

    fn told(&mut self) -> Result<Value, RowError> {
        self.guard.sample().ok_or_else(|| lab("the guard tells no samples any more".into()))
    }

    fn carried(&self) -> Result<u64, RowError> {
        let failed = io_error("reading the device's counters");
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.testbed.receiver().inside(read).and_then(|text| text).map_err(failed)?;
        carried(&text).ok_or_else(|| lab(format!("{RECEIVER_DEVICE} has no counters")))
    }

    fn rss_kib(&self) -> Result<u64, RowError> {
        let running = processes(&self.testbed.receiver()).map_err(io_error("listing the guard's processes"))?;
        // One that ends meanwhile has none.
        let statuses = running.iter().filter_map(|(pid, _)| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        Ok(statuses.filter_map(|status| resident(&status)).sum())
    }
}

/// Frames of a device, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) carried: u64,
    pub(super) accounted: u64,
}

impl Frames {
    pub(super) const fn since(self, earlier: Self) -> Self {
        Self { carried: self.carried - earlier.carried, accounted: self.accounted - earlier.accounted }
    }
}

/// What came in, and what went out of what the host sent: the rest was left out (`thinned`) or replaced while it was held.
fn accounted(told: &Value) -> u64 {
    const CARRIED: [&str; 10] = [
        "arrivals",
        "passed",
        "released",
        "repeated",
        "handed_back",
        "untracked",
        "not_tcp",
        "fragments",
        "malformed",
        "authenticated",
    ];
    CARRIED.iter().map(|name| field(told, name)).sum::<u64>() - field(told, "lost")
}

fn field(told: &Value, name: &str) -> u64 {
    told[name].as_u64().unwrap_or(0)
}

/// Packets received and sent, as /proc/net/dev has them.
fn carried(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(RECEIVER_DEVICE)?.strip_prefix(':'))?;
    let counters: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(counters.get(1)? + counters.get(9)?)
}

/// `VmRSS` of /proc/PID/status.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The map of connections that a process has open.
fn flow_map(pid: u32) -> Result<MapHandle, RowError> {
    let failed = io_error("listing the guard's BPF maps");
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).map_err(&failed)? {
        let about = fs::read_to_string(entry.map_err(&failed)?.path()).unwrap_or_default();
        let id = about.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok());
        let map = id.and_then(|id| MapHandle::from_map_id(id).ok());
        if let Some(map) = map.filter(|map| map.name() == FLOWS) {
            return Ok(map);
        }
    }
    Err(RowError::Impossible(format!(
        "the guard has no BPF map `{FLOWS}`: `lab soak` works only with guards on the fast path"
    )))
}

fn lab(what: String) -> RowError {
    RowError::Lab(GuardError::End(what).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_understood() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n   rx0: 500 7 0 0 0 0 0 0 900 5 0 0 0 0 0 0\n";
        assert_eq!(carried(text), Some(12));
        assert_eq!(carried("lo: 1 1"), None);
        assert_eq!(resident("Name:\tackgate\nVmRSS:\t    4321 kB\n"), Some(4321));
    }

    #[test]
    fn what_left_the_host_and_what_came_is_accounted_for() {
        let told = serde_json::json!({ "arrivals": 100, "passed": 20, "released": 30, "lost": 1, "thinned": 50, "not_tcp": 2 });
        assert_eq!(accounted(&told), 151);
    }
}
