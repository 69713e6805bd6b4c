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

/// What has arrived out of order at the sockets of a network namespace.
#[derive(Debug)]
pub(crate) struct OutOfOrder {
    file: File,
    text: String,
}

impl OutOfOrder {
    /// Of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel does not count it, or `/proc` is not mounted.
    pub(crate) fn open() -> io::Result<Self> {
        let mut opened = Self { file: File::open("/proc/thread-self/net/netstat")?, text: String::new() };
        opened.segments()?;
        Ok(opened)
    }

    /// Segments, or aggregates of them, so far: each leaves a hole before it, which the next ACK reports (SACK, RFC 2018).
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn segments(&mut self) -> io::Result<u64> {
        self.text.clear();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_string(&mut self.text)?;
        counters(&self.text)
            .find_map(|(group, name, value)| ((group, name) == ("TcpExt", "TCPOFOQueue")).then_some(value))
            .ok_or_else(|| io::Error::other("the kernel does not count TCPOFOQueue"))
    }
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
    fn this_kernel_counts_what_arrives_out_of_order() {
        let mut opened = OutOfOrder::open().expect("the kernel tells");
        let first = opened.segments().expect("the kernel tells");
        assert!(opened.segments().expect("and again") >= first);
    }
}
