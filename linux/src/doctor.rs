//! What this host supports: probed by trying, never by asking for a version. Whatever is tried on a device is tried in a
//! network namespace of its own, which goes when the probe ends.

use std::io;
use std::process::Command;

use ackgate_control::gate::Config;
use libbpf_rs::MapType;
use serde::Serialize;

use crate::attach;
use crate::datapath::{Datapath, Take};
use crate::device::Device;
use crate::error::{COMPILER, Error};
use crate::hold;
use crate::host::{self, HostPath};
use crate::load::Verified;
use crate::privilege::{NEEDED, Process};
use crate::promptness;
use crate::route;
use crate::sys;

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// It is there.
    Ok,
    /// It is not there, and something else does its work.
    Note,
    /// This host does not have it, and nothing can be guarded without.
    Missing,
    /// It should work here and does not: nothing can be guarded until that is mended.
    Failed,
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
    /// The compiler that built the BPF programs.
    pub compiler: &'static str,
    /// The BPF programs as this kernel's verifier took them; empty when it did not.
    pub programs: Vec<Verified>,
    /// How `run` would attach the programs; `None` when nothing can be guarded.
    pub attach: Option<&'static str>,
    /// The hold back-end that `run` would use; `None` when nothing can be guarded.
    pub hold: Option<&'static str>,
    /// Whether an interface (the one asked for, if one was) can be guarded.
    pub able: bool,
}

impl Report {
    /// The first thing that should work here and does not.
    #[must_use]
    pub fn fault(&self) -> Option<&Check> {
        self.checks.iter().find(|check| check.finding == Finding::Failed)
    }
}

/// What works all the same where nothing can be guarded.
const WITHOUT_A_GUARD: &str = "no guard; `ackgate sim`, `reproduce`, `load` and an unguarded `lab` work all the same";

/// Probes this host, and the interface if one is named.
#[must_use]
pub fn examine(device: Option<&str>) -> Report {
    let mut report = Report {
        kernel: sys::kernel_release(),
        checks: Vec::new(),
        compiler: COMPILER,
        programs: Vec::new(),
        attach: None,
        hold: None,
        able: false,
    };
    let process = Process::this();
    let lacking = process.lacking();
    let mut check = |name, finding, detail: String| report.checks.push(Check { name, finding, detail });
    if !lacking.is_empty() {
        let detail = format!(
            "{} missing: run as root; without, nothing else can be told; {WITHOUT_A_GUARD}",
            lacking.join(", ")
        );
        check("privileges", Finding::Missing, detail);
        if let Some(name) = device {
            examine_device(name, &mut check);
        }
        return report;
    }
    check("privileges", Finding::Ok, NEEDED.map(|(_, name)| name).join(", "));
    match promptness::probe() {
        Ok(()) => check("real-time priority", Finding::Ok, "the daemon goes before ordinary processes".into()),
        Err(error) => {
            let detail = format!(
                "{error}; on busy processors what is held leaves later (CAP_SYS_NICE or LimitRTPRIO=1 gives it)"
            );
            check("real-time priority", Finding::Note, detail);
        }
    }
    for (name, kind) in [("BPF ring buffer", MapType::RingBuf), ("BPF stack map", MapType::Stack)] {
        let there = kind.is_supported().unwrap_or(false);
        let finding = if there { Finding::Ok } else { Finding::Missing };
        check(name, finding, if there { "there".into() } else { format!("not there: {WITHOUT_A_GUARD}") });
    }
    let loads = programs();
    match &loads {
        Ok(programs) => {
            let told: Vec<String> =
                programs.iter().map(|program| format!("{} {}", program.name, program.instructions)).collect();
            check("BPF programs", Finding::Ok, format!("the verifier accepts them; instructions: {}", told.join(", ")));
        }
        Err(error) => {
            // A kernel that lacks something is a host that cannot; all else is a fault that can be mended.
            let lacks = matches!(error, Error::Unsupported { .. });
            let finding = if lacks { Finding::Missing } else { Finding::Failed };
            check("BPF programs", finding, format!("{error}; {WITHOUT_A_GUARD}"));
        }
    }
    let tcx = attach::kernel_has_tcx();
    let clsact = process.may_unshare().then(clsact);
    if tcx {
        check("tcx", Finding::Ok, "programs leave the interface with the daemon, however it ends".into());
    } else {
        check("tcx", Finding::Note, "not there (Linux 6.6 has it); clsact and a janitor process do its work".into());
    }
    match &clsact {
        None => check("clsact", Finding::Note, NOT_TRIED.into()),
        Some(Ok(())) => check("clsact", Finding::Ok, "there".into()),
        Some(Err(_)) if tcx => check("clsact", Finding::Note, "not there; tcx does its work".into()),
        Some(Err(error)) => {
            let detail = format!(
                "{error}; install iproute2, or load the module sch_ingress (CONFIG_NET_SCH_INGRESS); until then {WITHOUT_A_GUARD}"
            );
            check("clsact", Finding::Missing, detail);
        }
    }
    let raw = sys::raw_sender(1);
    match &raw {
        Ok(_) => check("packet socket", Finding::Ok, "released frames go out past the qdisc".into()),
        Err(error) => {
            let detail = format!("{error} (CONFIG_PACKET); only `--hold nfqueue` works without it");
            check("packet socket", Finding::Note, detail);
        }
    }
    if process.may_unshare() {
        let veth = sys::in_new_namespace(|| quiet("ip", &["link", "add", "a0", "type", "veth", "peer", "name", "b0"]));
        match veth {
            Ok(()) => check("veth", Finding::Ok, "`--hold redirect` and the lab could be used".into()),
            Err(error) => {
                let detail = format!(
                    "{error}; `--hold redirect` and the lab cannot be used (they need iproute2 and CONFIG_VETH), the other ways \
                     to hold can"
                );
                check("veth", Finding::Note, detail);
            }
        }
    } else {
        check("veth", Finding::Note, NOT_TRIED.into());
    }
    match process.may_unshare().then(host::probe_inward) {
        None => check("TAP", Finding::Note, NOT_TRIED.into()),
        Some(Ok(())) => check("TAP", Finding::Ok, "`--guard hwatch` could be used".into()),
        Some(Err(error)) => {
            check("TAP", Finding::Note, format!("{error}; `--guard hwatch` cannot be used, the other guards can"));
        }
    }
    let nfqueue = hold::probe_nfqueue();
    match &nfqueue {
        Ok(()) => check("nfqueue", Finding::Ok, "`--hold nfqueue` could be used".into()),
        Err(_) if !process.may_unshare() => check("nfqueue", Finding::Note, NOT_TRIED.into()),
        Err(error) => {
            let detail = format!(
                "{error}; `--hold nfqueue` cannot be used (it needs iptables and its matches bpf and NFQUEUE), the other ways \
                 to hold can"
            );
            check("nfqueue", Finding::Note, detail);
        }
    }
    if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        check("kernel types", Finding::Ok, "the lab can mark (`--ecn`) and bring DCTCP".into());
    } else {
        let detail =
            "no BTF (CONFIG_DEBUG_INFO_BTF); the lab goes without `--ecn` and `--cc dctcp`, guarding does not need it";
        check("kernel types", Finding::Note, detail.into());
    }
    if let Some(name) = device {
        examine_device(name, &mut check);
    }
    let clsact_attaches = clsact.is_none_or(|tried| tried.is_ok());
    report.programs = loads.unwrap_or_default();
    report.able = report.checks.iter().all(|check| !matches!(check.finding, Finding::Missing | Finding::Failed))
        && (tcx || clsact_attaches)
        && (raw.is_ok() || nfqueue.is_ok());
    if report.able {
        report.attach = Some(if tcx { "tcx" } else { "clsact" });
        report.hold = Some(if raw.is_ok() { "ring" } else { "nfqueue" });
    }
    report
}

/// What was not tried for want of a privilege that `run` does not need.
const NOT_TRIED: &str = "not tried: making a network namespace to try it in needs CAP_SYS_ADMIN";

/// Loads every program there is, as `run` would.
fn programs() -> Result<Vec<Verified>, Error> {
    let mut all = Vec::new();
    for take in [Take::Vanish, Take::Queue] {
        let datapath = Datapath::load(&Config::credit(96 << 10), take, false)?;
        all.extend_from_slice(datapath.programs());
    }
    all.extend_from_slice(HostPath::load(host::Task::whole(1))?.programs());
    // The larger count where both ways have it.
    all.sort_by(|a, b| a.name.cmp(&b.name).then(b.instructions.cmp(&a.instructions)));
    all.dedup_by(|next, kept| next.name == kept.name);
    Ok(all)
}

fn examine_device(name: &str, check: &mut impl FnMut(&'static str, Finding, String)) {
    let device = match Device::find(name) {
        Ok(device) => device,
        Err(error) => return check("interface", Finding::Missing, error.to_string()),
    };
    if let Err(error) = device.require_up() {
        return check("interface", Finding::Missing, error.to_string());
    }
    match device.claim() {
        Ok(_) => check("interface", Finding::Ok, format!("{name} is an Ethernet interface and is not guarded yet")),
        Err(error @ Error::AlreadyGuarded(_)) => check("interface", Finding::Missing, error.to_string()),
        Err(error) => check("interface", Finding::Note, error.to_string()),
    }
    match route::link_mbps(name) {
        Some(megabits) => {
            check("link rate", Finding::Ok, format!("{megabits} Mb/s; used by `run` unless --rate is given"))
        }
        None => check("link rate", Finding::Note, "the interface reports none; give `run --rate`".into()),
    }
    let tunnels = route::tunnels(name);
    if !tunnels.is_empty() {
        let detail =
            format!("what comes through a tunnel is guarded on its own device: `--dev {}`", tunnels.join("`, `--dev "));
        check("tunnels", Finding::Note, detail);
    }
    let Ok(offloads) = Command::new("ethtool").args(["-k", name]).output() else {
        return check("offloads", Finding::Note, "unknown: ethtool is not installed".into());
    };
    let offloads = String::from_utf8_lossy(&offloads.stdout).into_owned();
    let on = |feature: &str| offloads.lines().any(|line| line.trim().starts_with(&format!("{feature}: on")));
    if on("large-receive-offload") {
        let detail = format!(
            "LRO is on, which hides the number of frames that arrived; turn it off: `ethtool -K {name} lro off`"
        );
        check("offloads", Finding::Note, detail);
    } else {
        let features = [("tcp-segmentation-offload", "TSO"), ("generic-receive-offload", "GRO")];
        let names: Vec<&str> = features.iter().filter(|(feature, _)| on(feature)).map(|&(_, name)| name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
        check("offloads", Finding::Ok, format!("{names} on; no change needed"));
    }
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
        assert!(!report.able && report.attach.is_none() && report.hold.is_none(), "{report:#?}");
        assert!(report.checks.iter().all(|check| !check.detail.is_empty()));
        let interface = report.checks.iter().find(|check| check.name == "interface").unwrap();
        assert!(interface.detail.contains("`no-such-dev0`"), "{interface:?}");
    }
}
