//! What a guard counts while it runs, described once: samples, `ackgate status`, the metrics and the manual take names and
//! words from here.

use serde::Serialize;

/// How a statistic behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts from the start of the guard and never falls.
    Counter,
    /// How things stand.
    Gauge,
}

/// A statistic.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// Its name, wherever it is shown.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its value.
    pub read: fn(&Snapshot) -> u64,
}

macro_rules! statistics {
    ($($(#[doc = $help:literal])+ $kind:ident $name:ident,)+) => {
        /// The guard at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Snapshot {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        /// All statistics, in the order in which they are shown.
        pub const STATISTICS: &[Statistic] = &[$(Statistic {
            name: stringify!($name),
            help: concat!($($help),+).trim_ascii(),
            kind: Kind::$kind,
            read: |snapshot| snapshot.$name,
        }),+];
    };
}

statistics! {
    /// Connections that sent data, or were sent a request, within the last second.
    Gauge senders,
    /// Senders with connections opened before the guard started whose window scale is unknown: only their requests can be held.
    Gauge older,
    /// Bytes that ACKs and requests have triggered and that have not arrived yet, headers included.
    Gauge in_flight,
    /// The budget: bytes that may be in flight at once, headers included.
    Gauge threshold,
    /// Link rate that the guard reckons with, in Mb/s: as given, or less if the link has turned out to carry less, or other traffic keeps a part of it; 0 if unknown.
    Gauge link_mbps,
    /// Part of the link that other traffic keeps (datagrams, connections left alone), in percent: as much of link and buffer is left to it.
    Gauge other_percent,
    /// Frames held now.
    Gauge held,
    /// Held frames that were released, for any reason.
    Counter released,
    /// Held frames that were released because --max-hold expired.
    Counter forced,
    /// Window updates retransmitted because no data followed.
    Counter repeated,
    /// Outgoing segments that were not held.
    Counter passed,
    /// ACKs omitted because a later one covers them (ACK thinning).
    Counter thinned,
    /// Outgoing segments whose advertised window was lowered.
    Counter rewritten,
    /// Incoming segments.
    Counter arrivals,
    /// Data segments that filled a gap late: what loss looks like at the receiver.
    Counter lost_segments,
    /// Segments that would have been held, with --observe.
    Counter would_hold,
    /// Mean round-trip time of the connections in microseconds, excluding the time that ACKs are held.
    Gauge mean_rtt_us,
    /// Total hold time of all released frames in microseconds.
    Counter held_us,
    /// Connections exempted by `exclude` and `include` rules.
    Counter excluded,
    /// Connections not guarded because the flow table was full.
    Counter unguarded,
    /// Segments that pass: their connection is excluded, did not fit into the flow table, or its start was not seen.
    Counter untracked,
    /// Frames of other protocols; they pass.
    Counter not_tcp,
    /// IP fragments; they pass.
    Counter fragments,
    /// Frames with inconsistent headers; they pass.
    Counter malformed,
    /// Segments signed by TCP-MD5 or TCP-AO; they pass unchanged.
    Counter authenticated,
    /// Connections of MPTCP; their windows are TCP's own.
    Counter multipath,
    /// Frames that should have been held but passed: no room, or frame too large.
    Counter overflow,
    /// Released frames that the device did not accept.
    Counter lost,
    /// Frames sent to restore TCP's own windows when the guard stepped aside or was stopped.
    Counter handed_back,
    /// Segments outside the advertised window; ignored.
    Counter unacceptable,
    /// Times that the guard paused because it seemed to do harm.
    Counter stepped_aside,
    /// Times that the standby process took over because the daemon did not run.
    Counter rescues,
    /// 1 while the programs are off the interface, because no segments were lost lately (`--follow after-loss`); nothing is counted then.
    Gauge dormant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_reads_its_own_field_and_says_what_it_is() {
        let snapshot = Snapshot { senders: 1, stepped_aside: 2, ..Snapshot::default() };
        let value = |name: &str| STATISTICS.iter().find(|one| one.name == name).map(|one| (one.read)(&snapshot));
        assert_eq!((value("senders"), value("stepped_aside"), value("held")), (Some(1), Some(2), Some(0)));
        assert!(STATISTICS.iter().all(|one| one.help.ends_with('.') && !one.help.starts_with(' ')));
    }
}
