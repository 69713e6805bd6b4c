//! The host's counters of TCP (`/proc/net/netstat`, `/proc/net/snmp`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The counters in such a text, which has a line of names and a line of values for each group: group, name, value.
pub fn counters(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    let mut lines = text.lines();
    let pairs = std::iter::from_fn(move || Some((lines.next()?, lines.next()?)));
    pairs.filter_map(|(names, values)| Some((names.split_once(':')?, values.split_once(':')?))).flat_map(
        |((group, names), (_, values))| {
            let values = values.split_ascii_whitespace().map(|value| value.parse().unwrap_or(0));
            names.split_ascii_whitespace().zip(values).map(move |(name, value)| (group, name, value))
        },
    )
}

/// Holes in what has arrived at the sockets of a network namespace.
#[derive(Debug)]
pub(crate) struct Holes {
    file: File,
    text: String,
}

impl Holes {
    /// Of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel does not count it, or `/proc` is not mounted.
    pub(crate) fn open() -> io::Result<Self> {
        let mut opened = Self { file: File::open("/proc/thread-self/net/netstat")?, text: String::new() };
        opened.count()?;
        Ok(opened)
    }

    /// Segments, or aggregates of them, that came after a hole so far, less those that came twice: what others have only overtaken is
    /// sent again all the same, and reported as a duplicate (RFC 2883). There are other duplicates, too: only what it grows by tells.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn count(&mut self) -> io::Result<i64> {
        self.text.clear();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_string(&mut self.text)?;
        holes(&self.text).ok_or_else(|| io::Error::other("the kernel does not count TCPOFOQueue"))
    }
}

fn holes(text: &str) -> Option<i64> {
    let sum = |names: &[&str]| {
        let wanted = |(group, name, value)| (group == "TcpExt" && names.contains(&name)).then_some(value);
        counters(text).filter_map(wanted).reduce(u64::wrapping_add)
    };
    let twice = sum(&["TCPDSACKOldSent", "TCPDSACKOfoSent"]).unwrap_or(0);
    Some(sum(&["TCPOFOQueue"])?.wrapping_sub(twice).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stand_in_pairs_of_lines() {
        let text = "TcpExt: SyncookiesSent TCPOFOQueue\nTcpExt: 3 41\nIpExt: InOctets\nIpExt: 7\nodd\n";
        let all: Vec<_> = counters(text).collect();
        assert_eq!(all, [("TcpExt", "SyncookiesSent", 3), ("TcpExt", "TCPOFOQueue", 41), ("IpExt", "InOctets", 7)]);
        assert_eq!(counters("no colon\nnor here\n").count(), 0);
    }

    #[test]
    fn this_kernel_counts_holes() {
        let mut opened = Holes::open().expect("the kernel tells");
        assert!(opened.count().is_ok(), "and again");
    }

    #[test]
    fn what_came_twice_was_no_hole() {
        let text = |names: &str, values: &str| holes(&format!("TcpExt: {names}\nTcpExt: {values}\n"));
        assert_eq!(text("TCPOFOQueue TCPDSACKOldSent TCPDSACKOfoSent", "50 9 1"), Some(40));
        assert_eq!(text("TCPOFOQueue TCPDSACKOldSent", "5 9"), Some(-4));
        assert_eq!(text("TCPDSACKOldSent", "9"), None);
    }
}
