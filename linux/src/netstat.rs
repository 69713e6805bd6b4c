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

/// What sockets have seen so far that speaks for losses of what arrives. Some of it is due to other things: only what it grows by tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Segments, or aggregates of them, that came after a hole, less those that came twice: what others have only overtaken is
    /// sent again all the same, and reported as a duplicate (RFC 2883).
    pub(crate) holes: i64,
    /// Timers of this host that have fired for what it had sent: retransmission timers and tail loss probes.
    pub(crate) repeats: i64,
    /// Reports of peers that they had got before what was sent again.
    pub(crate) needless: i64,
}

impl Signs {
    /// Losses since then. What is sent again although the peer has it was answered, and the answer was lost: where that was one segment, there
    /// is no hole.
    pub(crate) fn losses_since(self, before: Self) -> i64 {
        let unheard = self.repeats.wrapping_sub(before.repeats).min(self.needless.wrapping_sub(before.needless));
        self.holes.wrapping_sub(before.holes).max(0) + unheard.max(0)
    }
}

/// Counts them for the sockets of a network namespace.
#[derive(Debug)]
pub(crate) struct Losses {
    file: File,
    text: String,
}

impl Losses {
    /// Of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel does not count them, or `/proc` is not mounted.
    pub(crate) fn open() -> io::Result<Self> {
        let mut opened = Self { file: File::open("/proc/thread-self/net/netstat")?, text: String::new() };
        opened.count()?;
        Ok(opened)
    }

    /// What there has been so far.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn count(&mut self) -> io::Result<Signs> {
        self.text.clear();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_string(&mut self.text)?;
        signs(&self.text).ok_or_else(|| io::Error::other("the kernel does not count TCPOFOQueue"))
    }
}

fn signs(text: &str) -> Option<Signs> {
    let sum = |names: &[&str]| {
        let wanted = |(group, name, value)| (group == "TcpExt" && names.contains(&name)).then_some(value);
        counters(text).filter_map(wanted).reduce(u64::wrapping_add)
    };
    let twice = sum(&["TCPDSACKOldSent", "TCPDSACKOfoSent"]).unwrap_or(0);
    Some(Signs {
        holes: sum(&["TCPOFOQueue"])?.wrapping_sub(twice).cast_signed(),
        repeats: sum(&["TCPTimeouts", "TCPLossProbes"]).unwrap_or(0).cast_signed(),
        needless: sum(&["TCPDSACKRecv"]).unwrap_or(0).cast_signed(),
    })
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
    fn this_kernel_counts_losses() {
        let mut opened = Losses::open().expect("the kernel tells");
        assert!(opened.count().is_ok(), "and again");
    }

    #[test]
    fn what_came_twice_was_no_hole() {
        let holes =
            |names: &str, values: &str| signs(&format!("TcpExt: {names}\nTcpExt: {values}\n")).map(|signs| signs.holes);
        assert_eq!(holes("TCPOFOQueue TCPDSACKOldSent TCPDSACKOfoSent", "50 9 1"), Some(40));
        assert_eq!(holes("TCPOFOQueue TCPDSACKOldSent", "5 9"), Some(-4));
        assert_eq!(holes("TCPDSACKOldSent", "9"), None);
    }

    #[test]
    fn what_a_timer_repeats_although_the_peer_has_it_tells_of_a_lost_answer() {
        let text = "TcpExt: TCPOFOQueue TCPTimeouts TCPLossProbes TCPDSACKRecv\nTcpExt: 0 3 40 41\n";
        let before = signs(text).expect("holes are counted");
        assert_eq!(before, Signs { holes: 0, repeats: 43, needless: 41 });
        let since = |holes, repeats, needless| {
            Signs {
                holes: before.holes + holes,
                repeats: before.repeats + repeats,
                needless: before.needless + needless,
            }
            .losses_since(before)
        };
        assert_eq!(since(0, 9, 9), 9);
        assert_eq!(since(0, 9, 2), 2, "the rest was lost on its way to the peer");
        assert_eq!(since(0, 1, 9), 1, "the rest is what fast retransmits repeat");
        assert_eq!(since(-3, 4, 4), 4, "more came twice than there were holes");
        assert_eq!(since(5, 1, 1), 6);
    }
}
