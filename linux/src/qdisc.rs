//! What `tc` shows of a device: its queueing disciplines for filters, and the filters there.

use std::process::Command;

use crate::device::Device;
use crate::error::Error;
use crate::sys::Side;

/// The queueing discipline that filters hang on. A device has one of the two at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForFilters {
    /// None.
    None,
    /// `clsact`: filters for what arrives and for what leaves.
    Clsact,
    /// `ingress`: for what arrives only. It takes filters for what leaves as well, and runs them on what arrives.
    Ingress,
}

/// A filter as a line of `tc filter show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Its place: 1 runs first.
    pub(crate) priority: u32,
    /// The protocol of the packets that it is asked about.
    pub(crate) protocol: String,
    /// Its kind, such as `bpf` or `u32`.
    pub(crate) kind: String,
}

/// The device's queueing discipline for filters.
pub(crate) fn for_filters(device: &Device) -> Result<ForFilters, Error> {
    let shown = tc(&["qdisc", "show", "dev", &device.name], "ask tc (package iproute2) for the device's qdiscs")?;
    let has = |kind: &str| shown.lines().any(|line| line.starts_with(&format!("qdisc {kind} ")));
    Ok(match (has("clsact"), has("ingress")) {
        (true, _) => ForFilters::Clsact,
        (false, true) => ForFilters::Ingress,
        (false, false) => ForFilters::None,
    })
}

/// Refuses a device whose queue cannot be seen as a whole: it has none, one for each transmit queue, or one that keeps its books
/// for each processor.
pub(crate) fn require_one_queue(device: &Device) -> Result<(), Error> {
    let shown = tc(&["qdisc", "show", "dev", &device.name], "ask tc (package iproute2) for the device's qdiscs")?;
    match root(&shown) {
        None | Some("noqueue" | "mq" | "mqprio" | "taprio" | "pfifo_fast") => Err(Error::InTheWay {
            device: device.name.clone(),
            what: "no single queue whose length --mark-above could read; give the port one, such as tbf, htb, bfifo or fq \
                   (`tc qdisc replace dev ... root ...`)",
        }),
        Some(_) => Ok(()),
    }
}

/// Kind of the root of a device's queueing disciplines, from lines like `qdisc tbf 1: root refcnt 2 rate 1Gbit`.
fn root(shown: &str) -> Option<&str> {
    shown.lines().find_map(|line| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["qdisc", kind, _, "root", ..] => Some(kind),
        _ => None,
    })
}

/// The filters of one side, in the order in which they run.
pub(crate) fn filters(device: &Device, side: Side) -> Result<Vec<Filter>, Error> {
    let side = match side {
        Side::Ingress => "ingress",
        Side::Egress => "egress",
    };
    let shown =
        tc(&["filter", "show", "dev", &device.name, side], "ask tc (package iproute2) for the device's filters")?;
    Ok(parse(&shown))
}

/// From lines like `filter protocol all pref 1 bpf chain 0 handle 0x1 name:[function] direct-action`.
fn parse(shown: &str) -> Vec<Filter> {
    let mut filters = Vec::new();
    for line in shown.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let at = usize::from(words.get(1).is_some_and(|&word| word == "parent")) * 2;
        let (Some(&"filter"), Some([_, protocol, _, priority, kind, ..])) = (words.first(), words.get(1 + at..)) else {
            continue;
        };
        let Ok(priority) = priority.parse() else { continue };
        let filter = Filter { priority, protocol: (*protocol).to_owned(), kind: (*kind).to_owned() };
        if !filters.contains(&filter) {
            filters.push(filter);
        }
    }
    filters
}

fn tc(arguments: &[&str], what: &'static str) -> Result<String, Error> {
    let output = Command::new("tc").args(arguments).output().map_err(|source| Error::from_io(what, source))?;
    // An interface without a place for filters has none; whatever else is wrong shows when filters are attached.
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_among_the_qdiscs() {
        let shown = "qdisc clsact ffff: parent ffff:fff1 \nqdisc tbf 1: root refcnt 5 rate 1Gbit burst 8Kb\n\
            qdisc bfifo 10: parent 1:1 limit 100000b\n";
        assert_eq!(root(shown), Some("tbf"));
        assert_eq!(root("qdisc noqueue 0: root refcnt 2 \n"), Some("noqueue"));
        assert_eq!(root(""), None);
    }

    #[test]
    fn filters_are_read_as_tc_prints_them() {
        let shown = "filter protocol ip pref 1 u32 chain 0 \n\
            filter protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1 \n  match 0a000001/ffffffff at 16\n\
            filter parent ffff: protocol all pref 49152 bpf chain 0 handle 0x1 a:[b] direct-action not_in_hw id 7\n";
        let filter =
            |priority, protocol: &str, kind: &str| Filter { priority, protocol: protocol.into(), kind: kind.into() };
        assert_eq!(parse(shown), [filter(1, "ip", "u32"), filter(49_152, "all", "bpf")]);
        assert_eq!(parse("Error: Parent Qdisc doesn't exists.\n"), []);
    }
}
