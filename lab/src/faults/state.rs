//! What a guard may leave behind on its host, as text that is compared with what was there before.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ackgate_linux::attach::tcx_programs;

use crate::guard::Place;
use crate::harm::row::{RowError, io_error};
use crate::testbed::{BOTTLENECK, Namespace, RECEIVER_DEVICE, SENDER_DEVICE, Testbed, tc};

/// What stands where a guard runs: links, queueing disciplines, filters, programs, sockets with names of ours, processes.
pub(super) fn state(testbed: &Testbed, places: &[Place]) -> Result<Vec<String>, RowError> {
    let mut lines = Vec::new();
    for (host, device) in hosts(testbed, places) {
        lines.extend(state_of(&host, device)?.into_iter().map(|line| format!("{}: {line}", host.name())));
    }
    lines.sort();
    Ok(lines)
}

/// The namespaces and devices that a guard may touch.
fn hosts(testbed: &Testbed, places: &[Place]) -> Vec<(Namespace, &'static str)> {
    let of = |place: &Place| match place {
        Place::Receiver | Place::Hosts => vec![(testbed.receiver(), RECEIVER_DEVICE)],
        Place::Senders => (0..testbed.spec().hosts).map(|k| (testbed.sender(k), SENDER_DEVICE)).collect(),
        Place::Switch => vec![(testbed.switch(), BOTTLENECK)],
    };
    places.iter().flat_map(of).collect()
}

fn state_of(host: &Namespace, device: &'static str) -> Result<Vec<String>, RowError> {
    let failed = io_error("looking at a host's namespace");
    let mut lines = host.inside(|| own(device)).map_err(&failed)?.map_err(&failed)?;
    // A device that has gone has nothing on it.
    let there = lines.iter().any(|line| *line == format!("link {device}"));
    for what in ["qdisc show dev", "filter show dev"] {
        // Queueing disciplines have no sides; filters are asked for at each.
        let sides: &[&str] = if what.starts_with("qdisc") { &[""] } else { &["", " ingress", " egress"] };
        for side in sides {
            let asked = format!("{what} {device}{side}");
            let told = if there { tc(host, &asked.split(' ').collect::<Vec<_>>())? } else { String::new() };
            lines.extend(told.lines().map(|line| format!("tc: {line}")));
        }
    }
    lines.extend(processes(host).map_err(failed)?.into_iter().map(|(pid, name)| format!("process {pid} {name}")));
    Ok(lines)
}

/// What a thread in the namespace sees.
fn own(device: &str) -> std::io::Result<Vec<String>> {
    let devices = fs::read_to_string("/proc/thread-self/net/dev")?;
    let mut lines: Vec<String> =
        devices.lines().skip(2).filter_map(|line| Some(format!("link {}", line.split_once(':')?.0.trim()))).collect();
    let sockets = fs::read_to_string("/proc/thread-self/net/unix")?;
    lines.extend(sockets.lines().filter_map(|line| Some(format!("socket {}", line.split_once("@ackgate")?.1))));
    lines.extend(tcx_programs(device).unwrap_or_default().into_iter().map(|name| format!("program {name}")));
    Ok(lines)
}

/// Processes in a namespace, and their names.
pub(crate) fn processes(host: &Namespace) -> std::io::Result<Vec<(i32, String)>> {
    use std::os::unix::fs::MetadataExt;
    let namespace = fs::metadata(host.path())?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that ends meanwhile is not there.
        let within = fs::metadata(entry.path().join("ns/net"));
        if within.is_ok_and(|within| (within.ino(), within.dev()) == (namespace.ino(), namespace.dev())) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push((pid, name.trim().to_owned()));
        }
    }
    Ok(found)
}

/// Waits until the state is as it was; what is there and was not, when it does not become so in time.
pub(super) fn wait_for(
    testbed: &Testbed,
    places: &[Place],
    before: &[String],
    patience: Duration,
) -> Result<Vec<String>, RowError> {
    let until = Instant::now() + patience;
    loop {
        let now = state(testbed, places)?;
        let left: Vec<String> = now.into_iter().filter(|line| !before.contains(line)).collect();
        if left.is_empty() || Instant::now() > until {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A memory control group with a limit, removed when dropped.
pub(super) struct Group(PathBuf);

impl Group {
    /// `None` where this host has no memory controller that we may use.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let name = format!("ackgate-lab-{}", std::process::id());
        let kinds = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        kinds.into_iter().find_map(|(root, limit)| {
            let path = PathBuf::from(root).join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// Whether its limit has been met.
    pub(super) fn has_struck(&self) -> std::io::Result<bool> {
        if let Ok(count) = fs::read_to_string(self.0.join("memory.failcnt")) {
            return Ok(count.trim() != "0");
        }
        let events = fs::read_to_string(self.0.join("memory.events"))?;
        let count = |name: &str| events.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        Ok(["max ", "oom "].into_iter().filter_map(count).any(|count| count > 0))
    }

    pub(super) fn add(&self, pid: i32) -> std::io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that were killed take a moment to leave it.
        let until = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
