//! Limits on memory that this process is under, for whoever is told that there is none.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};

/// The limits in force, and what to do about them, in one sentence. Locked memory is not among them: no kernel that has all
/// that the programs need charges BPF to it.
pub(crate) fn told() -> String {
    let mut limits = Vec::new();
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_AS)
        && soft < 1 << 50
    {
        limits.push(format!("{} KiB of addresses (ulimit -v)", soft / 1024));
    }
    if let Some((bytes, file)) = group_limit(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default()) {
        limits.push(format!("{} KiB of memory ({})", bytes / 1024, file.display()));
    }
    if limits.is_empty() {
        return "this process is under no limit of its own: the machine's memory is full (`free -m`)".into();
    }
    format!("the limits of this process: {}; raise the one that is too small", limits.join(" and "))
}

/// The memory limit of this process's control group in bytes, and the file that says so.
fn group_limit(groups: &str) -> Option<(u64, PathBuf)> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (controllers, path) = (parts.nth(1)?, parts.next()?.trim_start_matches('/'));
        let file = match controllers {
            "" => Path::new("/sys/fs/cgroup").join(path).join("memory.max"),
            "memory" => Path::new("/sys/fs/cgroup/memory").join(path).join("memory.limit_in_bytes"),
            _ => return None,
        };
        // No number (`max`), or one beyond any machine, is no limit.
        let bytes: u64 = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        (bytes < 1 << 50).then_some((bytes, file))
    })
}
