//! Which connections are guarded: rules by the peer's address, by ports and by control groups, for the packet path to look up when it
//! first sees a connection.
//!
//! A connection is left alone when a rule of `exclude` matches it, or when there are rules of `include` and none matches.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// Bits of `enum select` of `intf.h`.
const EXCLUDE: u32 = 1;
const INCLUDE: u32 = 2;
const GROUPS: u32 = 4;

/// Most prefixes that rules may name (`MAX_RULES` of `intf.h`).
pub const MAX_PREFIXES: usize = 65_536;

/// What is to be guarded, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Left alone.
    pub exclude: Vec<Rule>,
    /// Where there are any, all else is left alone.
    pub include: Vec<Rule>,
}

/// What a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The peer's address, written `10.0.0.0/8`, `fd00::/8`, or an address alone.
    Peer(Prefix),
    /// A port at either end, written `port 22` or `port 8000-8080`.
    Port(RangeInclusive<u16>),
    /// The control group (version 2) that the socket on this side was made in, or one that lies in it: written
    /// `cgroup /system.slice/nginx.service`, from the root of their hierarchy.
    Group(PathBuf),
}

/// The addresses that begin with the same bits; IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// 0 to 128.
    length: u8,
    /// No bit beyond `length` is set.
    bits: u128,
}

/// A rule that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a rule: {problem}; write a prefix of the peer's address like \"10.0.0.0/8\" or \"fd00::/8\", \"port 22\" or \"port 8000-8080\", or \
     \"cgroup /system.slice/nginx.service\""
)]
pub struct RuleError {
    text: String,
    problem: String,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let refused = |problem: String| RuleError { text: text.to_owned(), problem };
        if let Some(group) = text.strip_prefix("cgroup ") {
            return group_path(group.trim()).map(Self::Group).map_err(refused);
        }
        let Some(ports) = text.strip_prefix("port ") else {
            return Prefix::parse(text.trim()).map(Self::Peer).map_err(refused);
        };
        let port = |number: &str| {
            let port = number.trim().parse().ok().filter(|&port: &u16| port > 0);
            port.ok_or_else(|| refused(format!("`{}` is not a port number from 1 to 65535", number.trim())))
        };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(refused(format!("the port range ends at {last}, below its start")));
        }
        Ok(Self::Port(first..=last))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(prefix) => prefix.fmt(f),
            Self::Port(range) if range.start() == range.end() => write!(f, "port {}", range.start()),
            Self::Port(range) => write!(f, "port {}-{}", range.start(), range.end()),
            Self::Group(path) => write!(f, "cgroup {}", path.display()),
        }
    }
}

/// A control group's path from the root of their hierarchy.
fn group_path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain {
        Ok(path.components().collect())
    } else {
        Err(format!("`{text}` is not an absolute path in the cgroup hierarchy, such as /system.slice/nginx.service"))
    }
}

impl Prefix {
    fn parse(text: &str) -> Result<Self, String> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| format!("`{address}` is not an IPv4 or IPv6 address"))?;
        let (bits, before, most) = match address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), 96, 32),
            IpAddr::V6(v6) => (v6.to_bits(), 0, 128),
        };
        let length = match length {
            None => most,
            Some(length) => {
                let length = length.parse().ok().filter(|&length: &u8| length <= most);
                length.ok_or_else(|| format!("the prefix length of this address must be 0 to {most}"))?
            }
        };
        let prefix = Self { length: length + before, bits };
        let kept = Self { bits: bits & prefix.mask(), ..prefix };
        if kept == prefix {
            Ok(prefix)
        } else {
            Err(format!("bits are set beyond the prefix length {length}; write {kept}"))
        }
    }

    const fn mask(self) -> u128 {
        match self.length {
            0 => 0,
            length => u128::MAX << (128 - length),
        }
    }

    const fn covers(self, other: Self) -> bool {
        self.length <= other.length && other.bits & self.mask() == self.bits
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        match address.to_ipv4_mapped() {
            Some(v4) if self.length >= 96 => write!(f, "{v4}/{}", self.length - 96),
            _ => write!(f, "{address}/{}", self.length),
        }
    }
}

impl Selection {
    /// Both lists, with the bit that stands for each in the packet path.
    fn rules(&self) -> impl Iterator<Item = (&Rule, u32)> {
        let excluded = self.exclude.iter().map(|rule| (rule, EXCLUDE));
        excluded.chain(self.include.iter().map(|rule| (rule, INCLUDE)))
    }

    /// Which lists have rules, as bits.
    pub(crate) fn lists(&self) -> u32 {
        let groups = if self.names_groups() { GROUPS } else { 0 };
        self.rules().fold(groups, |lists, (_, bit)| lists | bit)
    }

    /// Whether a rule names a control group.
    pub(crate) fn names_groups(&self) -> bool {
        self.rules().any(|(rule, _)| matches!(rule, Rule::Group(_)))
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.include.is_empty()
    }

    /// What is said of each prefix. The longest one alone is looked up, so each says what those around it say, too.
    pub(crate) fn peers(&self) -> BTreeMap<Prefix, u32> {
        let mut said = BTreeMap::new();
        for (rule, bit) in self.rules() {
            if let Rule::Peer(prefix) = rule {
                *said.entry(*prefix).or_insert(0) |= bit;
            }
        }
        let own: Vec<(Prefix, u32)> = said.iter().map(|(&prefix, &bits)| (prefix, bits)).collect();
        for (prefix, bits) in &mut said {
            // Shorter ones come first.
            let around = own.iter().take_while(|(other, _)| other.length <= prefix.length);
            *bits |= around.filter(|(other, _)| other.covers(*prefix)).fold(0, |all, (_, bits)| all | bits);
        }
        said
    }

    /// What is said of each control group.
    pub(crate) fn groups(&self) -> BTreeMap<&Path, u32> {
        let mut said = BTreeMap::new();
        for (rule, bit) in self.rules() {
            if let Rule::Group(path) = rule {
                *said.entry(path.as_path()).or_insert(0) |= bit;
            }
        }
        said
    }

    /// What is said of each port.
    pub(crate) fn ports(&self) -> BTreeMap<u16, u32> {
        let mut said = BTreeMap::new();
        for (rule, bit) in self.rules() {
            if let Rule::Port(range) = rule {
                range.clone().for_each(|port| *said.entry(port).or_insert(0) |= bit);
            }
        }
        said
    }
}

/// The bytes of a `struct peer_prefix`.
pub(crate) fn key_bytes(prefix: Prefix) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&u32::from(prefix.length).to_ne_bytes());
    bytes[4..].copy_from_slice(&prefix.bits.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_rule_is_printed_as_it_is_written() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "192.0.2.7/32",
            "fd00::/8",
            "::/0",
            "port 22",
            "port 8000-8080",
            "cgroup /",
            "cgroup /system.slice/nginx.service",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(rule("192.0.2.7"), rule("192.0.2.7/32"));
        assert_eq!(rule("fd00::1"), rule("fd00::1/128"));
        assert_eq!(rule("cgroup //system.slice//a/"), rule("cgroup /system.slice/a"));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_what_would_be() {
        for (text, what) in [
            ("10.1.2.3/8", "write 10.0.0.0/8"),
            ("10.0.0.0/33", "must be 0 to 32"),
            ("fd00::/129", "must be 0 to 128"),
            ("localhost", "not an IPv4 or IPv6 address"),
            ("port 0", "`0` is not a port number"),
            ("port 70000", "`70000` is not a port number"),
            ("port 80-22", "ends at 22"),
            ("", "not an IPv4 or IPv6 address"),
            ("cgroup nginx.service", "is not an absolute path"),
            ("cgroup /system.slice/../user.slice", "is not an absolute path"),
            ("cgroup ", "is not an absolute path"),
        ] {
            let said = text.parse::<Rule>().expect_err(text).to_string();
            assert!(said.contains(what) && said.contains("port 22"), "{said}");
        }
    }

    #[test]
    fn a_prefix_says_what_those_around_it_say() {
        let all = |texts: &[&str]| texts.iter().map(|text| rule(text)).collect();
        let selection = Selection {
            exclude: all(&["10.1.0.0/16", "port 22"]),
            include: all(&["10.0.0.0/8", "fd00::/8", "port 20-22"]),
        };
        let said: Vec<(String, u32)> =
            selection.peers().iter().map(|(prefix, bits)| (prefix.to_string(), *bits)).collect();
        assert_eq!(said, [("fd00::/8".into(), 2), ("10.0.0.0/8".into(), 2), ("10.1.0.0/16".into(), 3)]);
        assert_eq!(selection.ports().into_iter().collect::<Vec<_>>(), [(20, 2), (21, 2), (22, 3)]);
        assert_eq!((selection.lists(), Selection::default().lists()), (3, 0));
        let selection = Selection { exclude: all(&["cgroup /a/b", "cgroup /c"]), include: all(&["cgroup /c"]) };
        assert_eq!(selection.groups().into_iter().collect::<Vec<_>>(), [(Path::new("/a/b"), 1), (Path::new("/c"), 3)]);
        assert_eq!(selection.lists(), 7);
    }
}
