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
    /// Connections that were charged or heard within the last second.
    Gauge senders,
    /// Wire bytes that released ACKs have triggered and that have not arrived.
    Gauge in_flight,
    /// Wire bytes that may be in flight.
    Gauge threshold,
    /// What the link is reckoned with, in Mb/s: its rate as given, or less where it has shown to carry less; 0 when it is not known.
    Gauge link_mbps,
    /// Frames held now.
    Gauge held,
    /// Frames released after having been held, for whatever reason.
    Counter released,
    /// Frames released because they had been held for the longest time allowed.
    Counter forced,
    /// Window updates sent once more because nothing came of them.
    Counter repeated,
    /// Outgoing segments that were never held.
    Counter passed,
    /// ACKs that were left out because the next one says it all.
    Counter thinned,
    /// Segments whose window was lowered.
    Counter rewritten,
    /// Incoming segments.
    Counter arrivals,
    /// Incoming data segments that came late to fill a hole: what loss looks like at the receiver.
    Counter lost_segments,
    /// Segments that would have been held, with --observe.
    Counter would_hold,
    /// Mean round-trip time of the connections without the time that ACKs are held, in microseconds.
    Gauge mean_rtt_us,
    /// How long all frames that were held and released had been held together, in microseconds.
    Counter held_us,
    /// Connections that are left alone as `exclude` and `include` say.
    Counter excluded,
    /// Connections that found no room in the flow table and are not guarded.
    Counter unguarded,
    /// Segments of connections that are excluded, found no room or were not seen to begin, which pass.
    Counter untracked,
    /// Frames of other protocols, which pass.
    Counter not_tcp,
    /// IP fragments, which pass.
    Counter fragments,
    /// Frames whose headers do not add up, which pass.
    Counter malformed,
    /// Segments signed by TCP-MD5 or TCP-AO, which pass untouched.
    Counter authenticated,
    /// Frames that should have been held but passed: no room, or too large.
    Counter overflow,
    /// Released frames that the device would not take.
    Counter lost,
    /// Frames sent to hand connections back to TCP, when the guard stepped aside or was stopped.
    Counter handed_back,
    /// Segments outside the window that their receiver offers, of which nothing was believed.
    Counter unacceptable,
    /// Times that the guard stepped aside because it seemed to do harm.
    Counter stepped_aside,
    /// Times that the daemon was stopped for so long that its standby process acted in its place.
    Counter rescues,
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
