//! A switch's port of limited rate: its rate and buffer, its marking, its counters.

use std::mem::MaybeUninit;

use ackgate_linux::Error;
use ackgate_linux::load::load;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{OpenObject, TC_EGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;

use super::namespace::Namespace;
use super::spec::Spec;
use super::tools::{TestbedError, tc};
use crate::bpf::{MarkSkel, MarkSkelBuilder};

/// The switch's port towards the receiver.
pub const BOTTLENECK: &str = "to-recv";

/// Ethernet's preamble, frame check sequence and interframe gap, in bytes.
const WIRE_OVERHEAD: u64 = 24;

/// What the bottleneck port counted since it was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames sent.
    pub packets: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
    /// Frames dropped because the buffer was full.
    pub drops: u64,
}

/// Gives a port the spec's rate, and `limit` bytes of buffer; `verb` is tc's `add` or `change`.
pub(super) fn shape(
    (switch, device): &(Namespace, &str),
    verb: &str,
    spec: &Spec,
    limit: u64,
) -> Result<(), TestbedError> {
    let (rate, burst, overhead) = (spec.rate, spec.burst, WIRE_OVERHEAD);
    let queue = format!("qdisc {verb} dev {device} root handle 1:");
    let bucket = format!("tbf rate {rate}bit burst {burst} limit {limit} overhead {overhead}");
    let arguments: Vec<&str> = queue.split(' ').chain(bucket.split(' ')).collect();
    tc(switch, &arguments).map(drop)
}

/// Has a port mark ECN-capable frames that find more than `threshold` bytes queued. It stays until the switch goes.
pub(super) fn mark((switch, device): &(Namespace, &str), threshold: u32) -> Result<(), TestbedError> {
    const WHAT: &str = "cannot have the switch mark frames";
    let told = |error: Error| TestbedError::Bpf { what: WHAT, message: error.to_string() };
    let attach = || {
        const WHAT: &str = "attach the mark to the switch's port";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let mut storage = MaybeUninit::uninit();
        let skel = load_mark(&mut storage, threshold)?;
        let index = if_nametoindex(*device).map_err(|errno| Error::Io { what: WHAT, source: errno.into() })?;
        let mut hook = TcHookBuilder::new(std::os::fd::AsFd::as_fd(&skel.progs.mark))
            .ifindex(i32::try_from(index).unwrap_or(i32::MAX))
            .handle(1)
            .priority(1)
            .hook(TC_EGRESS);
        hook.create().map_err(failed)?;
        hook.attach().map_err(failed)?;
        Ok::<_, Error>(())
    };
    let done = switch.inside(attach);
    done.map_err(|source| TestbedError::Io { what: "entering the switch's namespace".into(), source })?.map_err(told)
}

/// The marking program, loaded.
fn load_mark(storage: &mut MaybeUninit<OpenObject>, threshold: u32) -> Result<MarkSkel<'_>, Error> {
    const WHAT: &str = "load the marking program";
    let mut open = MarkSkelBuilder::default().open(storage).map_err(|error| Error::from_bpf(WHAT, &error))?;
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.threshold = threshold;
    }
    load(WHAT, open)
}

/// What a port counted so far.
pub(super) fn stats((switch, device): &(Namespace, &str)) -> Result<PortStats, TestbedError> {
    let text = tc(switch, &["-s", "-j", "qdisc", "show", "dev", device])?;
    parse(&text).ok_or_else(|| TestbedError::Command { command: "tc -s -j qdisc show".into(), message: text })
}

fn parse(json: &str) -> Option<PortStats> {
    let qdiscs: serde_json::Value = serde_json::from_str(json).ok()?;
    let root = qdiscs.as_array()?.iter().find(|q| q["kind"] == "tbf")?;
    Some(PortStats {
        packets: root["packets"].as_u64()?,
        bytes: root["bytes"].as_u64()?,
        drops: root["drops"].as_u64()?,
    })
}

/// What the tbf's payload ceiling is at this rate, in megabits per second: the share of payload in a full frame with
/// preamble and gap, for segments with timestamps.
#[must_use]
pub fn framing_limit_mbps(rate: u64, ipv6: bool, mss: Option<u32>) -> f64 {
    let headers = if ipv6 { 40 } else { 20 } + 20;
    let segment = mss.map_or(1500 - headers, u64::from).min(1500 - headers);
    let payload = segment.saturating_sub(12);
    rate as f64 / 1e6 * payload as f64 / (segment + headers + 14 + WIRE_OVERHEAD) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_carries_941_megabits_of_payload() {
        assert!((framing_limit_mbps(1_000_000_000, false, None) - 941.48).abs() < 0.01);
        assert!((framing_limit_mbps(1_000_000_000, true, None) - 928.48).abs() < 0.01);
        assert!(framing_limit_mbps(1_000_000_000, false, Some(576)) < 880.0);
    }

    #[test]
    fn tc_is_understood() {
        let json = r#"[{"kind":"tbf","handle":"1:","root":true,"options":{"rate":125000000},"bytes":2996,"packets":2,
            "drops":7,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;
        assert_eq!(parse(json), Some(PortStats { packets: 2, bytes: 2996, drops: 7 }));
        assert_eq!(parse("[]"), None);
        assert_eq!(parse("no json"), None);
    }
}
