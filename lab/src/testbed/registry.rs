//! What the lab made and has not yet removed: one file per testbed under /run/ackgate-lab, written before anything is
//! created, so that `lab clean` can remove what a crash left and nothing else.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::namespace::Namespace;
use super::tools::{TestbedError, ip};

/// Every namespace of the lab is called this, a dash, and more.
pub(super) const PREFIX: &str = "ackgate";
const DIRECTORY: &str = "/run/ackgate-lab";

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
        Self { pid, started: start_time(pid).unwrap_or(0) }
    }

    /// Whether that process still runs.
    #[must_use]
    pub fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// When a process started, if it exists.
fn start_time(pid: u32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`. The second field is the program's name in parentheses, which may contain anything.
fn parse_start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn path(id: &str) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("{id}.json"))
}

/// Writes the entry down. It must not exist yet.
pub(super) fn record(entry: &Entry) -> Result<(), TestbedError> {
    let told = |source| TestbedError::Io { what: format!("recording the testbed in {DIRECTORY}"), source };
    fs::create_dir_all(DIRECTORY).map_err(told)?;
    let file = fs::File::create_new(path(&entry.id)).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TestbedError::Exists(entry.id.clone()),
        _ => told(source),
    })?;
    serde_json::to_writer(file, entry).map_err(|e| told(e.into()))
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
    fs::remove_file(path(&entry.id))
        .map_err(|source| TestbedError::Io { what: "removing the testbed's record".into(), source })
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

/// Removes the testbeds whose process is gone; with `standing` also those that `lab up` left. Returns their ids.
///
/// # Errors
/// The first removal that failed; the others are done all the same.
pub fn clean(standing: bool) -> Result<Vec<String>, TestbedError> {
    let mut removed = Vec::new();
    let mut failed = None;
    for entry in entries() {
        let orphan = entry.owner.map_or(standing, |owner| !owner.lives());
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
        assert_eq!(parse_start_time(stat), Some(4242));
        assert_eq!(parse_start_time("7 (x"), None);
        assert_eq!(parse_start_time(""), None);
    }
}
