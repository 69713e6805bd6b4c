//! The hosts' part: programs that the kernel's TCP asks about the sockets of a control group.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use ackgate_control::cell::U64;
use ackgate_control::units::Rate;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle};
use nix::sched::{CloneFlags, setns};
use serde::Serialize;

use crate::error::Error;
use crate::load::load;
use crate::shared::Mapping;
use crate::skel::m21::{M21SkelBuilder, types};
use crate::sys;

/// Where `ip netns` keeps namespaces by name.
const KEPT: &str = "/run/netns";

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(PathBuf);

impl Namespace {
    /// That of the calling thread.
    #[must_use]
    pub fn own() -> Self {
        // By number: whoever uses it may be another thread.
        let thread = nix::unistd::gettid();
        Self(format!("/proc/{}/task/{thread}/ns/net", std::process::id()).into())
    }

    /// By its name, or by the path of a file that stands for it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(if name.contains('/') { name.into() } else { Path::new(KEPT).join(name) })
    }

    /// What the kernel calls it, as programs at sockets see it.
    ///
    /// # Errors
    /// When it cannot be entered.
    pub fn cookie(&self) -> io::Result<u64> {
        self.inside(sys::namespace_cookie)
    }

    /// Runs something inside, on a thread of its own.
    fn inside<T: Send>(&self, run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let file = File::open(&self.0)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.0.display())))?;
        std::thread::scope(|scope| {
            let run = move || {
                setns(file, CloneFlags::CLONE_NEWNET)?;
                run()
            };
            scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// What is known of the switch, and whose sockets take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketsOptions {
    /// B of Eq. 1: the buffer of the switch port, bytes.
    pub buffer: u32,
    /// MHS of Eq. 1, bytes.
    pub header: u32,
    /// Rate of this host's own link.
    pub rate: Rate,
    /// A control group (version 2); `None` for the root of all.
    pub cgroup: Option<PathBuf>,
    /// Sockets of these network namespaces take part.
    pub namespaces: Vec<Namespace>,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SocketsStatus {
    /// Segments that brought a number from a switch.
    pub numbers: u64,
    /// ACKs that brought a number back.
    pub echoes: u64,
    /// Changes of a window's clamp.
    pub clamped: u64,
    /// Changes of a pace, for less than a segment per round trip.
    pub paced: u64,
    /// Changes that the kernel did not take.
    pub refused: u64,
}

/// Sockets that take part. Dropping it ends that and takes their caps off.
pub struct Sockets {
    /// Gone when the caps are being taken off.
    link: Option<Link>,
    release: Link,
    variables: Mapping,
    namespaces: Vec<Namespace>,
}

impl Sockets {
    /// Connections that are opened from now on take part, those that listeners accept included.
    ///
    /// # Errors
    /// When they cannot; then nothing has been changed.
    pub fn start(options: &SocketsOptions) -> Result<Self, Error> {
        const WHAT: &str = "load the programs for TCP's sockets";
        const ATTACH: &str = "attach the program to the control group";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let cap = Cap::of(options)?;
        let cgroup = match &options.cgroup {
            Some(path) => path.clone(),
            None => root_cgroup()?,
        };
        let group = File::open(&cgroup)
            .map_err(|error| Error::Settings(format!("the control group {}: {error}", cgroup.display())))?;
        let mut storage = MaybeUninit::uninit();
        let mut open = M21SkelBuilder::default().open(&mut storage).map_err(failed)?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the programs have settings");
        (rodata.cap.buffer, rodata.cap.header, rodata.cap.drain) = (cap.buffer, cap.header, cap.drain);
        let skel = load(WHAT, open)?;
        let variables = Mapping::new(&skel.maps.bss, size_of::<types::bss>())
            .map_err(|source| Error::from_io("map the programs' memory", source))?;
        let namespaces = MapHandle::try_from(&skel.maps.namespaces).map_err(failed)?;
        for namespace in &options.namespaces {
            let cookie = namespace.cookie().map_err(|source| Error::from_io("find a network namespace", source))?;
            namespaces.update(&cookie.to_ne_bytes(), &[1], MapFlags::ANY).map_err(failed)?;
        }
        let release = skel.progs.m21_release.attach().map_err(|error| Error::from_bpf(WHAT, &error))?;
        let link =
            skel.progs.m21_host.attach_cgroup(group.as_raw_fd()).map_err(|error| Error::from_bpf(ATTACH, &error))?;
        let namespaces = options.namespaces.clone();
        Ok(Self { link: Some(link), release, variables, namespaces })
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> SocketsStatus {
        let books = offset_of!(types::bss, books);
        let count = |offset: usize| {
            // SAFETY: the programs' variables hold 64-bit integers here, which are read and written atomically.
            let cell: &U64 = unsafe { &*self.variables.as_ptr(books + offset) };
            cell.get()
        };
        SocketsStatus {
            numbers: count(offset_of!(types::host_books, numbers)),
            echoes: count(offset_of!(types::host_books, echoes)),
            clamped: count(offset_of!(types::host_books, clamped)),
            paced: count(offset_of!(types::host_books, paced)),
            refused: count(offset_of!(types::host_books, refused)),
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        if self.link.take().is_none() {
            return;
        }
        for namespace in &self.namespaces {
            // A namespace that is gone has no connections either.
            let _ =
                namespace.inside(|| Iter::new(&self.release).map_err(io::Error::other)?.read_to_end(&mut Vec::new()));
        }
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

/// The root of the control groups of version 2, also where version 1 has its mounts beside it.
///
/// # Errors
/// When none is mounted.
pub fn root_cgroup() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|source| Error::Io { what: "read /proc/self/mountinfo", source })?;
    mounted_cgroup(&mounts).ok_or_else(|| {
        Error::Settings(
            "no cgroup v2 hierarchy is mounted here; mount it (`mount -t cgroup2 none /mnt`) and name it with --cgroup"
                .into(),
        )
    })
}

/// From lines like `33 24 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw`: the first whose root is mounted.
fn mounted_cgroup(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let [_, _, _, "/", point, ..] = place.split(' ').collect::<Vec<_>>()[..] else { return None };
        (kind.split(' ').next() == Some("cgroup2")).then(|| PathBuf::from(point))
    })
}

/// `struct m21_cap` of `bpf/m21.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Cap {
    pub(super) buffer: u32,
    pub(super) header: u32,
    pub(super) drain: u64,
}

impl Cap {
    pub(super) fn of(options: &SocketsOptions) -> Result<Self, Error> {
        let cap = ackgate_control::m21::Cap::new(options.buffer, options.header, options.rate);
        let cap = cap.map_err(|error| Error::Settings(error.to_string()))?;
        Ok(Self { buffer: options.buffer, header: options.header, drain: cap.drain().0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let mounts = "25 20 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
            26 25 0:23 / /sys/fs/cgroup/cpu rw shared:1 - cgroup cgroup rw,cpu\n\
            27 25 0:24 /user.slice /elsewhere rw - cgroup2 cgroup2 rw\n\
            28 25 0:24 / /sys/fs/cgroup/unified rw shared:2 master:3 - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted_cgroup(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mounted_cgroup("26 25 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"), None);
    }
}
