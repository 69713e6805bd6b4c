//! The programs that build a testbed (`ip` and `tc` of iproute2), and what can go wrong.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::namespace::Namespace;

/// Why there is no testbed.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// Namespaces need privilege.
    #[error("the lab builds network namespaces and needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run it with sudo")]
    Privilege,
    /// A program is missing.
    #[error("`{0}` is not installed; it comes with iproute2 (apt-get install iproute2)")]
    Missing(&'static str),
    /// A program failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// What was run.
        command: String,
        /// What it printed.
        message: String,
    },
    /// Another testbed has that name.
    #[error("a testbed called `{0}` exists already: remove it with `ackgate lab down {0}`, or give another --name")]
    Exists(String),
    /// No such testbed.
    #[error("there is no testbed called `{0}`: `ackgate lab show` lists them")]
    Unknown(String),
    /// A BPF program of the lab's own does not load.
    #[error("{what}: {message}")]
    Bpf {
        /// What it is for.
        what: &'static str,
        /// What the kernel or libbpf said.
        message: String,
    },
    /// A senseless setting.
    #[error("{0}")]
    Config(String),
    /// Anything else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TestbedError {
    /// Whether what was asked for cannot be, or not on this host, rather than that it went wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

/// Whether this process may build namespaces.
///
/// # Errors
/// [`TestbedError::Privilege`] when it may not.
pub fn require_privilege() -> Result<(), TestbedError> {
    // CAP_NET_ADMIN is bit 12, CAP_SYS_ADMIN bit 21 (include/uapi/linux/capability.h).
    const NEED: u64 = 1 << 12 | 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:")).map(str::trim);
    match effective.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
        Some(caps) if caps & NEED == NEED => Ok(()),
        _ => Err(TestbedError::Privilege),
    }
}

pub(super) fn ip(arguments: &[&str]) -> Result<String, TestbedError> {
    run("ip", arguments, "")
}

pub(super) fn ip_batch(inside: Option<&Namespace>, lines: &str) -> Result<String, TestbedError> {
    match inside {
        Some(namespace) => within(namespace, "ip", &["-batch", "-"], lines),
        None => run("ip", &["-batch", "-"], lines),
    }
}

pub(crate) fn tc(inside: &Namespace, arguments: &[&str]) -> Result<String, TestbedError> {
    within(inside, "tc", arguments, "")
}

/// Runs a program in a namespace. Not by its own `-n`, which mounts what a root that is no mount point does not allow (a
/// chroot, some containers).
fn within(
    namespace: &Namespace,
    program: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, TestbedError> {
    let entered = namespace.inside(|| run(program, arguments, input));
    entered.map_err(|source| TestbedError::Io { what: format!("entering {}", namespace.name()), source })?
}

pub(super) fn run(program: &'static str, arguments: &[&str], input: &str) -> Result<String, TestbedError> {
    let told = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => TestbedError::Missing(program),
        _ => TestbedError::Io { what: format!("running {program}"), source },
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(told)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early tells why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(TestbedError::Command {
        command: format!("{program} {}", arguments.join(" ")),
        message: String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
    })
}
