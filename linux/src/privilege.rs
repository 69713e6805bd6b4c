//! What the kernel lets this process do: its capabilities, and what stands above them.

use std::fmt;
use std::fs;
use std::io;

use crate::error::Error;

/// The capabilities that guarding needs, with their bits (include/uapi/linux/capability.h).
pub const NEEDED: [(u32, &str); 4] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// By which the daemon goes before ordinary processes, where it is permitted.
pub const USEFUL: (u32, &str) = (23, "CAP_SYS_NICE");
/// For network namespaces. It also implies CAP_PERFMON and CAP_BPF, which were split from it.
pub const SYS_ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");

/// Whether this process has the capabilities that guarding needs.
///
/// # Errors
/// [`Error::NotPermitted`], which names those that it lacks.
pub fn require() -> Result<(), Error> {
    let process = Process::this();
    if process.lacking().is_empty() { Ok(()) } else { Err(Error::NotPermitted(process.denied("guard an interface"))) }
}

/// Gives up all capabilities except those that guarding needs or uses, for the calling thread and for whatever it starts from now on.
/// With `namespaces` it keeps CAP_SYS_ADMIN too, in which a guard with `--hold redirect` makes its network namespace when it starts. Programs that
/// it executes do not get the others back.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_needed(namespaces: bool) -> io::Result<()> {
    let needed = NEEDED.iter().fold(1 << USEFUL.0, |mask, (bit, _)| mask | 1 << bit);
    keep(needed | u64::from(namespaces) << SYS_ADMIN.0)
}

/// Gives up all capabilities likewise: for threads that answer others.
///
/// # Errors
/// When the kernel refuses.
pub fn give_up() -> io::Result<()> {
    keep(0)
}

/// Of the capabilities that the calling thread has, those of `mask` stay.
fn keep(mask: u64) -> io::Result<()> {
    /// `struct __user_cap_header_struct` and `struct __user_cap_data_struct` (include/uapi/linux/capability.h).
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    /// `_LINUX_CAPABILITY_VERSION_3`: 64 bits, the lower half first.
    const VERSION: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION, pid: 0 };
    let mut data = [Data::default(); 2];
    let done = |result: libc::c_long| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: header and data have the kernel's layout for this version and are alive during the call.
    done(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) })?;
    for (data, mask) in data.iter_mut().zip([mask as u32, (mask >> 32) as u32]) {
        *data = Data { effective: data.effective & mask, permitted: data.permitted & mask, inheritable: 0 };
    }
    // SAFETY: as above.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) })?;
    // SAFETY: takes integers.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}

/// What this process may, as /proc tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// Effective capabilities.
    capabilities: u64,
    /// In a user namespace of its own, as in a rootless container.
    user_namespace: bool,
    /// Under a seccomp filter.
    filtered: bool,
    /// The kernel's lockdown mode, when there is one.
    lockdown: Option<String>,
}

impl Process {
    /// The calling thread.
    pub(crate) fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(
            &read("/proc/thread-self/status"),
            &read("/proc/thread-self/uid_map"),
            &read("/sys/kernel/security/lockdown"),
        )
    }

    fn parse(status: &str, uid_map: &str, lockdown: &str) -> Self {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim);
        // The modes in a row, the one in force in brackets.
        let mode = lockdown.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(mode, _)| mode);
        Self {
            capabilities: u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0),
            user_namespace: !uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"]),
            filtered: !matches!(field("Seccomp:"), "" | "0"),
            lockdown: mode.filter(|&mode| mode != "none").map(str::to_owned),
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.capabilities >> bit & 1 != 0
    }

    /// The needed capabilities that it has not.
    pub(crate) fn lacking(&self) -> Vec<&'static str> {
        let held = |bit| self.has(bit) || (bit >= 38 && self.has(SYS_ADMIN.0));
        NEEDED.iter().filter(|&&(bit, _)| !held(bit)).map(|&(_, name)| name).collect()
    }

    /// Whether it may make network namespaces, in which things are tried.
    pub(crate) fn may_unshare(&self) -> bool {
        self.has(SYS_ADMIN.0)
    }

    /// Why the kernel says "not permitted" to whoever wants a network namespace of its own.
    pub(crate) fn denied_namespace(&self, what: &'static str) -> Denied {
        if self.may_unshare() { self.denied(what) } else { Denied { what, reason: Reason::Namespaces } }
    }

    /// Why the kernel says "not permitted".
    pub(crate) fn denied(&self, what: &'static str) -> Denied {
        let lacking = self.lacking();
        let reason = if !lacking.is_empty() {
            Reason::Capabilities(lacking)
        } else if self.user_namespace {
            Reason::UserNamespace
        } else if let Some(mode) = &self.lockdown {
            Reason::Lockdown(mode.clone())
        } else if self.filtered {
            Reason::Seccomp
        } else {
            Reason::Unknown
        };
        Denied { what, reason }
    }
}

/// What was not permitted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    what: &'static str,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Capabilities(Vec<&'static str>),
    Namespaces,
    UserNamespace,
    Lockdown(String),
    Seccomp,
    Unknown,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        match &self.reason {
            Reason::Capabilities(lacking) => {
                let needed = NEEDED.map(|(_, name)| name).join(", ");
                write!(f, "this process lacks {}; run ackgate as root, or with {needed}", lacking.join(" and "))
            }
            Reason::Namespaces => write!(
                f,
                "this process lacks {}, which `--hold redirect` needs; run ackgate as root. A running `ackgate run --config` has \
                 given it up if no interface in its file used `redirect` when it started: restart it",
                SYS_ADMIN.1
            ),
            Reason::UserNamespace => f.write_str(
                "its capabilities hold in a user namespace only (a rootless container), and the kernel takes BPF programs \
                 only from outside; run ackgate on the host",
            ),
            Reason::Lockdown(mode) => write!(
                f,
                "the capabilities are there, but kernel lockdown is in mode `{mode}` (/sys/kernel/security/lockdown); boot \
                 with less of it (`lockdown=integrity` or none)"
            ),
            Reason::Seccomp => f.write_str(
                "the capabilities are there, but a seccomp filter is in force (a container's?); allow the system calls bpf \
                 and perf_event_open, or run ackgate on the host",
            ),
            Reason::Unknown => f.write_str(
                "the capabilities are there, but something else forbids it; a security module (SELinux, AppArmor, BPF) would \
                 say so in the kernel's log (`dmesg`)",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What /proc says of root on a plain host.
    const ROOT: &str = "Name:\tackgate\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n";
    const PLAIN: &str = "         0          0 4294967295\n";

    #[test]
    fn each_missing_capability_is_named() {
        let status = |bits: u64| format!("CapEff:\t{bits:016x}\nSeccomp:\t0\n");
        let all = NEEDED.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
        assert!(Process::parse(&status(all), PLAIN, "").lacking().is_empty());
        for (bit, name) in NEEDED {
            let process = Process::parse(&status(all & !(1 << bit)), PLAIN, "");
            assert_eq!(process.lacking(), [name]);
            assert!(process.denied("guard").to_string().contains(&format!("lacks {name};")));
        }
        // CAP_SYS_ADMIN stands for the two younger ones.
        assert_eq!(Process::parse(&status(1 << SYS_ADMIN.0), PLAIN, "").lacking(), ["CAP_NET_ADMIN", "CAP_NET_RAW"]);
        assert_eq!(Process::parse("", PLAIN, "").lacking().len(), NEEDED.len());
    }

    #[test]
    fn what_stands_above_the_capabilities_is_named() {
        let said = |status: &str, uid_map: &str, lockdown: &str| {
            Process::parse(status, uid_map, lockdown).denied("load the BPF programs").to_string()
        };
        assert!(said(ROOT, "0 1000 1\n", "").contains("user namespace"));
        assert!(said(ROOT, PLAIN, "none integrity [confidentiality]\n").contains("mode `confidentiality`"));
        assert!(
            said(&ROOT.replace("Seccomp:\t0", "Seccomp:\t2"), PLAIN, "[none] integrity confidentiality\n")
                .contains("seccomp")
        );
        let unknown = said(ROOT, PLAIN, "[none] integrity confidentiality\n");
        assert!(unknown.contains("dmesg") && !unknown.contains("as root"), "{unknown}");
    }
}
