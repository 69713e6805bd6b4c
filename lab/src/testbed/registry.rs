//! What the lab made and has not yet removed: one file per testbed under /run/ackgate-lab, written before anything is
//! created, so that `lab clean` can remove what a crash left and nothing else.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::namespace::{self, Namespace};
use super::tools::{TestbedError, ip};

/// Every namespace of the lab is called this, a dash, and more.
pub(super) const PREFIX: &str = "ackgate";
const DIRECTORY: &str = "/run/ackgate-lab";
/// Is there while the folder of kept namespaces is a mount point because of the lab.
const MOUNTED: &str = "/run/ackgate-lab/mounted";

/// One testbed as its file tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Distinguishes testbeds; part of the namespaces' names.
    pub id: String,
    /// Whose it is; `None` for a testbed that `lab up` left standing.
    pub owner: Option<Owner>,
    /// Namespaces that are or were to be created.
    pub namespaces: Vec<String>,
    /// Device of the receiver that a guard guards.
    pub device: String,
}

/// A process, safe against a reused pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks after boot (`/proc/PID/stat`, field 22).
    pub started: u64,
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn me() -> Self {
        let pid = std::process::id();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self { pid, started: Stat::parse(&stat).map_or(0, |stat| stat.started) }
    }

    /// Whether that process still runs. One that is being ended does, until it is gone: what it holds is still in use.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.life() != Life::Gone
    }

    fn life(&self) -> Life {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).ok();
        match read("stat").as_deref().and_then(Stat::parse) {
            Some(stat) if stat.started == self.started => {
                let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, Iterator::count);
                stat.life(threads, &read("status").unwrap_or_default())
            }
            _ => Life::Gone,
        }
    }

    /// Waits for a process that is being ended, which takes seconds when it held thousands of sockets.
    fn wait_while_ending(&self) -> Life {
        let until = Instant::now() + LONGEST_END;
        loop {
            match self.life() {
                Life::Ending if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
                life => return life,
            }
        }
    }
}

/// How long a killed process may take to let go of what it held.
const LONGEST_END: Duration = Duration::from_secs(60);

/// How far a process's life has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It runs.
    Runs,
    /// It was killed, and the kernel is taking it down.
    Ending,
    /// There is nothing left of it but perhaps the exit status that its parent has not asked for.
    Gone,
}

/// What `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    flags: u32,
    started: u64,
}

impl Stat {
    /// Being taken down (`PF_EXITING` of include/linux/sched.h).
    const EXITING: u32 = 0x4;
    /// SIGKILL in a set of signals.
    const KILL: u64 = 1 << 8;

    /// Fields 3, 9 and 22. The second is the program's name in parentheses, which may contain anything.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        Some(Self { state, flags: fields.get(6)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
    }

    /// `threads` it has, and its `/proc/PID/status`, for the signals that wait for it.
    fn life(self, threads: usize, status: &str) -> Life {
        let ended = matches!(self.state, 'Z' | 'X');
        let pending = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
        };
        let killed = (pending("SigPnd:") | pending("ShdPnd:")) & Self::KILL != 0;
        match (ended, threads) {
            // A process is a zombie as soon as its first thread has ended; the others may still be at work.
            (true, 0 | 1) => Life::Gone,
            (true, _) => Life::Ending,
            (false, _) if killed || self.flags & Self::EXITING != 0 => Life::Ending,
            (false, _) => Life::Runs,
        }
    }
}

fn path(id: &str) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("{id}.json"))
}

/// Writes the entry down. It must not exist yet.
pub(super) fn record(entry: &Entry) -> Result<(), TestbedError> {
    let told = |source| TestbedError::Io { what: format!("recording the testbed in {DIRECTORY}"), source };
    fs::create_dir_all(DIRECTORY).map_err(told)?;
    let _alone = lock().map_err(told)?;
    let file = fs::File::create_new(path(&entry.id)).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TestbedError::Exists(entry.id.clone()),
        _ => told(source),
    })?;
    serde_json::to_writer(file, entry).map_err(|e| told(e.into()))?;
    // The first namespace that is kept by name makes the folder one; the last testbed that is written down undoes it.
    if namespace::any_kept() { Ok(()) } else { fs::write(MOUNTED, "").map_err(told) }
}

/// Every testbed that is written down. Files that cannot be read are passed over.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let Ok(files) = fs::read_dir(DIRECTORY) else { return Vec::new() };
    let mut found: Vec<Entry> =
        files.flatten().filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok()).collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

/// Removes a testbed's namespaces, with what still runs inside them, and its file.
pub(super) fn remove(entry: &Entry) -> Result<(), TestbedError> {
    for name in &entry.namespaces {
        // A file in /run that somebody else wrote must not make the lab remove a namespace that is not its own.
        if !name.starts_with(&format!("{PREFIX}-{}-", entry.id)) {
            continue;
        }
        let namespace = Namespace::named(name.as_str());
        if namespace.path().exists() {
            end_processes_inside(&namespace);
            ip(&["netns", "del", name])?;
        }
    }
    let told = |source| TestbedError::Io { what: "removing the testbed's record".into(), source };
    let _alone = lock().map_err(told)?;
    fs::remove_file(path(&entry.id)).map_err(told)?;
    if entries().is_empty() && fs::exists(MOUNTED).unwrap_or(false) && namespace::unmount_when_empty() {
        fs::remove_file(MOUNTED).map_err(told)?;
    }
    Ok(())
}

/// Until the file is closed no other process writes a testbed down or strikes one off.
fn lock() -> io::Result<fs::File> {
    let file = fs::File::open(DIRECTORY)?;
    file.lock()?;
    Ok(file)
}

/// Sends SIGKILL to processes in a namespace of the lab: a guard whose lab was killed, a shell left in it. Never to this
/// process, whose threads may be in there.
fn end_processes_inside(namespace: &Namespace) {
    use std::os::unix::fs::MetadataExt;
    let Ok(inode) = fs::metadata(namespace.path()).map(|m| m.ino()) else { return };
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let inside = fs::metadata(process.path().join("ns/net")).is_ok_and(|m| m.ino() == inode);
        if inside && u32::try_from(pid) != Ok(std::process::id()) {
            // It may have ended in the meantime, which is as good.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Removes the testbeds whose process is gone; with `standing` also those that `lab up` left. Returns their ids. Waits for
/// a process that is being ended.
///
/// # Errors
/// The first removal that failed; the others are done all the same.
pub fn clean(standing: bool) -> Result<Vec<String>, TestbedError> {
    let mut removed = Vec::new();
    let mut failed = None;
    for entry in entries() {
        let orphan = entry.owner.map_or(standing, |owner| owner.wait_while_ending() == Life::Gone);
        if orphan {
            match remove(&entry) {
                Ok(()) => removed.push(entry.id),
                Err(e) => failed = failed.or(Some(e)),
            }
        }
    }
    failed.map_or(Ok(removed), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_with_its_pid() {
        assert!(Owner::me().lives());
        assert!(!Owner { started: 1, ..Owner::me() }.lives());
    }

    #[test]
    fn a_programs_name_may_contain_anything() {
        let stat = "7 (a) b ) c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 100 200";
        assert_eq!(Stat::parse(stat), Some(Stat { state: 'S', flags: 4_194_560, started: 4242 }));
        assert_eq!(Stat::parse("7 (x"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_killed_process_is_ending_until_nothing_of_it_is_left() {
        let stat = |state, flags| Stat { state, flags, started: 1 };
        let waiting = |set: &str| format!("Name:\tx\nSigPnd:\t{set}\nShdPnd:\t0000000000000000\n");
        let quiet = waiting("0000000000000000");
        assert_eq!(stat('S', 0x40).life(3, &quiet), Life::Runs);
        assert_eq!(stat('S', 0x40).life(3, &waiting("0000000000000002")), Life::Runs, "SIGINT may be handled");
        assert_eq!(stat('D', 0x40).life(3, &waiting("0000000000000100")), Life::Ending);
        assert_eq!(stat('R', 0x44).life(1, &quiet), Life::Ending);
        assert_eq!(stat('Z', 0x44).life(2, &quiet), Life::Ending, "other threads have not ended");
        assert_eq!(stat('Z', 0x44).life(1, &quiet), Life::Gone);
    }
}
