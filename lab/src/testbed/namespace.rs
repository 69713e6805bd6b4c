//! Network namespaces by name, as `ip netns` keeps them under /run/netns, and how a thread works inside one.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns};

/// Where `ip netns` keeps namespaces by name. The first one makes it a mount point, which `ip` then leaves.
const KEPT: &str = "/run/netns";

/// Whether namespaces are kept by name already, or were.
pub(super) fn any_kept() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|mount| mount.split(' ').nth(4) == Some(KEPT))
}

/// Leaves the folder of kept namespaces as it was before the first one, if none is left; says whether it did.
pub(super) fn unmount_when_empty() -> bool {
    // Whoever keeps one in this very moment keeps the mount, too: then it is busy.
    std::fs::read_dir(KEPT).is_ok_and(|mut left| left.next().is_none()) && umount2(KEPT, MntFlags::empty()).is_ok()
}

/// A network namespace that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The namespace of that name; nothing is created.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Its name for `ip netns exec`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(KEPT).join(&self.name)
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets opened and processes started there stay in
    /// the namespace; the calling thread stays where it is.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let file = File::open(self.path())?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                setns(file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sets sysctls below /proc/sys/net of the namespace. One that this kernel does not have is an error, since a run
    /// without it would measure something else.
    ///
    /// # Errors
    /// When one cannot be written; the error names it.
    pub fn set_sysctls(&self, settings: &[(&str, &str)]) -> io::Result<()> {
        self.inside(|| {
            for (key, value) in settings {
                std::fs::write(format!("/proc/sys/net/{key}"), value)
                    .map_err(|e| io::Error::new(e.kind(), format!("sysctl net/{key} = {value}: {e}")))?;
            }
            Ok(())
        })?
    }
}
