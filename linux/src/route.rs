//! Where this host's traffic goes when nothing says otherwise: the interface of the default route, and what it says about
//! its link.

use std::fs;
use std::path::Path;

use nix::net::if_::if_nameindex;

use crate::sys::features;

/// Flags of a route (include/uapi/linux/route.h).
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;
/// Drivers of tunnels that carry Ethernet frames.
const TUNNELS: [&str; 2] = ["vxlan", "geneve"];

/// The interface of the default route of this network namespace: of IPv4, else of IPv6; with several, the one with the
/// least metric, as the kernel chooses.
#[must_use]
pub fn default_device() -> Option<String> {
    let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    ipv4_default(&read("route")).or_else(|| ipv6_default(&read("ipv6_route")))
}

/// From `/proc/net/route`: Iface Destination Gateway Flags RefCnt Use Metric Mask ...
fn ipv4_default(table: &str) -> Option<String> {
    least(table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, destination, _, flags, _, _, metric, mask, ..] = fields[..] else { return None };
        let default = hex(destination)? == 0 && hex(mask)? == 0;
        (default && usable(hex(flags)?)).then(|| Some((metric.parse().ok()?, name)))?
    }))
}

/// From `/proc/net/ipv6_route`: destination, its prefix, source, its prefix, next hop, metric, references, uses, flags,
/// interface. The kernel keeps a route of its own to nowhere, on the loopback interface.
fn ipv6_default(table: &str) -> Option<String> {
    least(table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [destination, prefix, _, _, _, metric, _, _, flags, name] = fields[..] else { return None };
        let default = destination.bytes().all(|digit| digit == b'0') && hex(prefix)? == 0;
        (default && usable(hex(flags)?) && name != "lo").then(|| Some((hex(metric)?, name)))?
    }))
}

fn usable(flags: u32) -> bool {
    flags & UP != 0 && flags & REJECT == 0
}

fn hex(field: &str) -> Option<u32> {
    u32::from_str_radix(field, 16).ok()
}

/// The first interface among those with the least metric.
fn least<'a>(routes: impl Iterator<Item = (u32, &'a str)>) -> Option<String> {
    routes.min_by_key(|&(metric, _)| metric).map(|(_, name)| name.to_owned())
}

/// The rate of an interface's link in Mb/s, where there is a link: that of a virtual pair or a bridge is invented.
#[must_use]
pub fn link_mbps(device: &str) -> Option<u64> {
    link_mbps_below(Path::new("/sys/class/net"), device)
}

fn link_mbps_below(class: &Path, device: &str) -> Option<u64> {
    let folder = class.join(device);
    let kind = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
    let carries_a_link =
        ["DEVTYPE=vlan", "DEVTYPE=bond"].iter().any(|kind_of| kind.lines().any(|line| line == *kind_of));
    if !folder.join("device").exists() && !carries_a_link {
        return None;
    }
    // Without a link the file cannot be read, or says -1.
    let megabits: u64 = fs::read_to_string(folder.join("speed")).ok()?.trim().parse().ok()?;
    (megabits > 0 && megabits < u64::from(u32::MAX)).then_some(megabits)
}

/// The interfaces of this network namespace that carry Ethernet frames through a network of IP (VXLAN, GENEVE), but for `device`: TCP in them is
/// seen there, and is datagrams below.
pub(crate) fn tunnels(device: &str) -> Vec<String> {
    let Ok(interfaces) = if_nameindex() else { return Vec::new() };
    let names = interfaces.iter().map(|interface| interface.name().to_string_lossy().into_owned());
    names
        .filter(|name| name != device && features::driver(name).is_ok_and(|driver| TUNNELS.contains(&driver.as_str())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_with_the_least_metric_wins() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth2\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0
";
        assert_eq!(ipv4_default(table).as_deref(), Some("eth0"));
        assert_eq!(ipv4_default("Iface\tDestination\n"), None);
    }

    #[test]
    fn ipv6_has_a_route_to_nowhere_that_is_no_default() {
        let nothing = "00000000000000000000000000000000";
        let route = |metric: &str, flags: &str, name: &str| {
            format!(
                "{nothing} 00 {nothing} 00 fe800000000000000000000000000001 {metric} 00000001 00000000 {flags} {name}\n"
            )
        };
        let nowhere = route("ffffffff", "00200200", "lo");
        assert_eq!(ipv6_default(&nowhere), None);
        let both = route("00000400", "00000003", "eth1") + &route("00000064", "00000003", "eth0") + &nowhere;
        assert_eq!(ipv6_default(&both).as_deref(), Some("eth0"));
    }

    #[test]
    fn a_rate_is_believed_where_there_is_a_link() {
        let class = std::env::temp_dir().join(format!("ackgate-route-{}", std::process::id()));
        let device = |name: &str, hardware: bool, uevent: &str, speed: &str| {
            let folder = class.join(name);
            fs::create_dir_all(if hardware { folder.join("device") } else { folder.clone() }).unwrap();
            fs::write(folder.join("uevent"), uevent).unwrap();
            fs::write(folder.join("speed"), speed).unwrap();
        };
        device("card", true, "INTERFACE=card\n", "25000\n");
        device("down", true, "INTERFACE=down\n", "-1\n");
        device("pair", false, "INTERFACE=pair\n", "10000\n");
        device("tagged", false, "DEVTYPE=vlan\nINTERFACE=tagged\n", "1000\n");
        device("bridge", false, "DEVTYPE=bridge\n", "10000\n");
        let found = ["card", "down", "pair", "tagged", "bridge", "absent"].map(|name| link_mbps_below(&class, name));
        fs::remove_dir_all(&class).unwrap();
        assert_eq!(found, [Some(25_000), None, None, Some(1_000), None, None]);
    }
}
