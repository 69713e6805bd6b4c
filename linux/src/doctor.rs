//! What this host supports: probed by trying, never by asking for a version. Whatever is tried on a device is tried in a
//! network namespace of its own, which goes when the probe ends.

use std::io;
use std::process::Command;

use ackgate_control::pac::Config;
use libbpf_rs::MapType;
use serde::Serialize;

use crate::attach;
use crate::datapath::{Datapath, Take};
use crate::device::Device;
use crate::error::Error;
use crate::hold;
use crate::sys;

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// It is there.
    Ok,
    /// It is not there, and something else does its work.
    Note,
    /// It is not there, and nothing can be guarded without.
    Missing,
}

/// One probe.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was looked for.
    pub name: &'static str,
    /// What was found.
    pub finding: Finding,
    /// What it means, and how to get what is missing.
    pub detail: String,
}

/// What this host supports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Kernel release.
    pub kernel: String,
    /// The probes.
    pub checks: Vec<Check>,
    /// How `run` would attach the programs; `None` when it could not.
    pub attach: Option<&'static str>,
    /// The hold back-end that `run` would use; `None` when there is none.
    pub hold: Option<&'static str>,
    /// Whether an interface (the one asked for, if one was) can be guarded.
    pub able: bool,
}

/// Probes this host, and the interface if one is named.
#[must_use]
pub fn examine(device: Option<&str>) -> Report {
    let mut checks = Vec::new();
    let mut check = |name, finding, detail: String| checks.push(Check { name, finding, detail });

    let lacking = lacking_capabilities();
    if !lacking.is_empty() {
        let detail = format!("{} missing: run as root; without, nothing else can be told", lacking.join(", "));
        check("privileges", Finding::Missing, detail);
        if let Some(name) = device {
            examine_device(name, &mut check);
        }
        return Report { kernel: kernel(), checks, attach: None, hold: None, able: false };
    }
    check("privileges", Finding::Ok, "CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW".into());
    for (name, kind) in [("BPF ring buffer", MapType::RingBuf), ("BPF stack map", MapType::Stack)] {
        let there = kind.is_supported().unwrap_or(false);
        let finding = if there { Finding::Ok } else { Finding::Missing };
        check(name, finding, if there { "there".into() } else { "needs Linux 5.8 or newer".into() });
    }
    let loads = Datapath::load(&Config::new(96 << 10), Take::Vanish, false);
    match &loads {
        Ok(_) => check("BPF programs", Finding::Ok, "load, with shared memory".into()),
        Err(error) => check("BPF programs", Finding::Missing, format!("{error}; they need Linux 5.17 or newer")),
    }
    let tcx = attach::kernel_has_tcx();
    let clsact = clsact();
    if tcx {
        check("tcx", Finding::Ok, "programs leave the interface with the daemon, however it ends".into());
    } else {
        check("tcx", Finding::Note, "needs Linux 6.6 or newer; clsact and a janitor process do its work".into());
    }
    match &clsact {
        Ok(()) => check("clsact", Finding::Ok, "there".into()),
        Err(_) if tcx => check("clsact", Finding::Note, "not there, and not needed with tcx".into()),
        Err(error) => {
            let detail = format!("{error}; install iproute2, or load the module sch_ingress (CONFIG_NET_SCH_INGRESS)");
            check("clsact", Finding::Missing, detail);
        }
    }
    let raw = sys::raw_sender(1);
    match &raw {
        Ok(_) => check("packet socket", Finding::Ok, "released frames go out past the qdisc".into()),
        Err(error) => check("packet socket", Finding::Note, format!("{error} (CONFIG_PACKET); nfqueue does without")),
    }
    let veth = sys::in_new_namespace(|| quiet("ip", &["link", "add", "a0", "type", "veth", "peer", "name", "b0"]));
    match &veth {
        Ok(()) => check("veth", Finding::Ok, "`--hold redirect` could be used".into()),
        Err(error) => {
            let detail = format!("{error}; `--hold redirect` cannot be used (needs iproute2 and CONFIG_VETH)");
            check("veth", Finding::Note, detail);
        }
    }
    let nfqueue = hold::probe_nfqueue();
    match &nfqueue {
        Ok(()) => check("nfqueue", Finding::Ok, "`--hold nfqueue` could be used".into()),
        Err(error) => {
            let detail =
                format!("{error}; `--hold nfqueue` cannot be used (needs iptables and its matches bpf and NFQUEUE)");
            check("nfqueue", Finding::Note, detail);
        }
    }
    if let Some(name) = device {
        examine_device(name, &mut check);
    }
    let attach = match (&loads, tcx, &clsact) {
        (Ok(_), true, _) => Some("tcx"),
        (Ok(_), false, Ok(())) => Some("clsact"),
        _ => None,
    };
    let hold = match (&raw, &nfqueue) {
        (Ok(_), _) => Some("ring"),
        (Err(_), Ok(())) => Some("nfqueue"),
        _ => None,
    };
    let able = attach.is_some() && hold.is_some() && checks.iter().all(|check| check.finding != Finding::Missing);
    Report { kernel: kernel(), checks, attach, hold: attach.and(hold), able }
}

fn examine_device(name: &str, check: &mut impl FnMut(&'static str, Finding, String)) {
    let device = match Device::find(name) {
        Ok(device) => device,
        Err(error) => return check("interface", Finding::Missing, error.to_string()),
    };
    match device.claim() {
        Ok(_) => check("interface", Finding::Ok, format!("{name} carries Ethernet frames and is not guarded")),
        Err(error @ Error::AlreadyGuarded(_)) => check("interface", Finding::Missing, error.to_string()),
        Err(error) => check("interface", Finding::Note, error.to_string()),
    }
    let speed = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).unwrap_or_default();
    if let Ok(megabits @ 1..) = speed.trim().parse::<u32>() {
        check("link rate", Finding::Ok, format!("--rate {megabits}mbit, if the switch port is as fast as the link"));
    }
    let Ok(offloads) = Command::new("ethtool").args(["-k", name]).output() else {
        return check("offloads", Finding::Note, "unknown: ethtool is not installed".into());
    };
    let offloads = String::from_utf8_lossy(&offloads.stdout).into_owned();
    let on = |feature: &str| offloads.lines().any(|line| line.trim().starts_with(&format!("{feature}: on")));
    if on("large-receive-offload") {
        let detail = format!("LRO is on and hides how many frames arrived: `ethtool -K {name} lro off`");
        check("offloads", Finding::Note, detail);
    } else {
        let features = [("tcp-segmentation-offload", "TSO"), ("generic-receive-offload", "GRO")];
        let names: Vec<&str> = features.iter().filter(|(feature, _)| on(feature)).map(|&(_, name)| name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
        check("offloads", Finding::Ok, format!("{names} on; they may stay as they are"));
    }
}

fn kernel() -> String {
    let name = nix::sys::utsname::uname();
    name.map_or_else(|_| "of unknown release".to_owned(), |name| name.release().to_string_lossy().into_owned())
}

/// Capabilities that guarding needs and this process has not.
fn lacking_capabilities() -> Vec<&'static str> {
    const SYS_ADMIN: u32 = 21;
    const NEEDED: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (39, "CAP_BPF")];
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 != 0;
    NEEDED.iter().filter(|&&(bit, _)| !(has(bit) || (bit == 39 && has(SYS_ADMIN)))).map(|&(_, name)| name).collect()
}

/// Makes a clsact qdisc on the loopback interface of a new namespace.
fn clsact() -> io::Result<()> {
    sys::in_new_namespace(|| quiet("tc", &["qdisc", "add", "dev", "lo", "clsact"]))
}

fn quiet(program: &str, arguments: &[&str]) -> io::Result<()> {
    let missing = |error| io::Error::other(format!("`{program}`: {error}"));
    let output = Command::new(program).args(arguments).output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_explained_and_decides() {
        let report = examine(Some("no-such-dev0"));
        assert!(!report.able, "{report:#?}");
        assert!(report.checks.iter().all(|check| !check.detail.is_empty()));
        let interface = report.checks.iter().find(|check| check.name == "interface").unwrap();
        assert!(interface.detail.contains("`no-such-dev0`"), "{interface:?}");
    }
}
