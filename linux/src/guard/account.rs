//! What a guard tells of itself: how things stand, what it did in the end, and the figures that its own watch goes by.

use std::os::fd::{AsFd, BorrowedFd};

use ackgate_control::budget::Budget;
use ackgate_control::decision;
use ackgate_control::gate::{State, Stats};
use ackgate_control::units::Span;
use serde::Serialize;

use super::Guard;
use crate::neighbours::Seen;
use crate::observe::Observation;
use crate::standby::Standby;
use crate::statistics::Snapshot;
use crate::sweep::Senders;
use crate::sys;
use crate::watchdog::Signs;

/// A connection is a sender of now if it was charged or heard within this time.
const ACTIVE: Span = Span::secs(1);

/// Microseconds that frames were held.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HoldTimes {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

/// What the kernel measured of one program.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ProgramCost {
    /// Packets that it ran for.
    pub packets: u64,
    /// Mean run time in nanoseconds.
    pub ns_per_packet: u64,
}

/// What the guard did, all in all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// How held frames were taken: the back-end's name.
    pub hold: &'static str,
    /// Most frames held at once.
    pub held_max: u64,
    /// How long frames were held.
    pub hold_us: HoldTimes,
    /// Frames released after having been held.
    pub released: u64,
    /// Of these, because they had been held for the longest time allowed.
    pub forced: u64,
    /// Of these, at once with a connection in loss recovery.
    pub hurried: u64,
    /// Of these, after the longest time allowed and without a grant, while a bare copy went on waiting (exact credit).
    pub split: u64,
    /// Held ACKs dropped because a later one said the same.
    pub discarded: u64,
    /// Outgoing segments that were never held.
    pub passed: u64,
    /// ACKs that were left out because the next one says it all (exact credit).
    pub thinned: u64,
    /// Incoming segments.
    pub arrivals: u64,
    /// Times that Eq. 6 corrected the estimate of bytes in flight.
    pub corrections: u64,
    /// Wire bytes that were charged and never came.
    pub voided: u64,
    /// Entries of the flow table that were used: connections at once, at most.
    pub connections: u64,
    /// Connections that the rules leave alone.
    pub excluded: u64,
    /// Connections that found no room in the flow table.
    pub unguarded: u64,
    /// Segments of connections that are not in the flow table, which passed.
    pub untracked: u64,
    /// Frames that should have been held but passed.
    pub overflow: u64,
    /// Frames of other protocols, which passed.
    pub not_tcp: u64,
    /// IP fragments, which passed.
    pub fragments: u64,
    /// Frames whose headers do not add up, which passed.
    pub malformed: u64,
    /// Segments signed by TCP-MD5 or TCP-AO, which passed untouched.
    pub authenticated: u64,
    /// Connections of MPTCP, whose windows were TCP's own.
    pub multipath: u64,
    /// Segments whose window was lowered: 0 as long as nothing was in danger.
    pub rewritten: u64,
    /// Segments outside the window that their receiver offers, of which nothing was believed.
    pub unacceptable: u64,
    /// Released frames that the device would not take.
    pub lost: u64,
    /// Times that the guard stepped aside because it seemed to do harm.
    pub stepped_aside: u64,
    /// Times that the daemon was stopped for so long that its standby acted in its place.
    pub rescues: u64,
    /// Wake-ups of the daemon.
    pub wakeups: u64,
    /// CPU time of the daemon, s.
    pub daemon_cpu_s: f64,
    /// Peak memory of the process, KiB.
    pub peak_rss_kb: u64,
    /// Cost of the ingress program, when it was measured.
    pub bpf_ingress: Option<ProgramCost>,
    /// Cost of the egress program, when it was measured.
    pub bpf_egress: Option<ProgramCost>,
    /// What would have been done, when nothing was ([`Options::observe`]).
    pub observed: Option<Observation>,
}

impl Guard {
    /// What tells whether guarding does harm.
    pub(super) fn signs(&self) -> Signs {
        let gate = self.datapath.shared().gate();
        let stats = self.scheduler.stats();
        Signs {
            released: all_released(&stats),
            forced: stats.forced,
            held_for: self.held_for,
            bytes: gate.bytes.get(),
            link: decision::link_rate(&self.rules, gate),
        }
    }

    /// What the packet path has counted of TCP and the rest.
    pub(super) fn seen(&self) -> Seen {
        let shared = self.datapath.shared();
        let (gate, books) = (shared.gate(), shared.books());
        let Senders { all: senders, older } = self.senders();
        Seen {
            senders,
            older,
            arrivals: gate.arrivals.get(),
            departures: gate.passed.get()
                + gate.thinned.get()
                + gate.held.get()
                + all_released(&self.scheduler.stats()),
            other: books.not_tcp.get() + books.fragments.get() + books.malformed.get() + books.authenticated.get(),
            dormant: self.dormancy.is_dormant(),
            overstated: Some(self.rules.buffer).filter(|_| gate.port.get() == 0 && Budget::given(&self.rules) > 0),
        }
    }

    fn senders(&self) -> Senders {
        Senders::count(self.datapath.shared(), sys::now(), ACTIVE)
    }

    /// How things stand.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.datapath.shared();
        let gate = shared.gate();
        let stats = self.scheduler.stats();
        let books = shared.books();
        // Where nothing is touched, nothing has been left out or lowered.
        let done = |count: u64| if self.options.observe { 0 } else { count };
        let senders = self.senders();
        Snapshot {
            senders: senders.all,
            older: senders.older,
            in_flight: decision::in_flight(&self.rules, gate),
            threshold: gate.threshold.get(),
            link_mbps: (decision::link_rate(&self.rules, gate) + 62_500) / 125_000,
            other_percent: u64::from(gate.other_part.get()) * 100 / 1024,
            held: gate.held.get(),
            released: all_released(&stats),
            forced: stats.forced,
            repeated: stats.repeated,
            passed: gate.passed.get(),
            thinned: done(gate.thinned.get()),
            rewritten: done(gate.rewritten.get()),
            arrivals: gate.arrivals.get(),
            lost_segments: gate.lost.get(),
            would_hold: books.would_hold.get(),
            mean_rtt_us: gate.mean_rtt.get() / 1000,
            held_us: self.held_for.0 / 1000,
            excluded: books.excluded.get(),
            unguarded: books.unguarded.get(),
            untracked: books.untracked.get(),
            not_tcp: books.not_tcp.get(),
            fragments: books.fragments.get(),
            malformed: books.malformed.get(),
            authenticated: books.authenticated.get(),
            multipath: gate.multipath.get(),
            overflow: books.overflow.get(),
            lost: self.hold.lost(),
            handed_back: self.standby.as_ref().map_or(0, Standby::sent),
            unacceptable: gate.unacceptable.get(),
            stepped_aside: self.watchdog.times(),
            rescues: self.rescues,
            dormant: self.dormancy.is_dormant().into(),
        }
    }

    /// What it did.
    pub(super) fn summary(&self) -> Summary {
        let shared = self.datapath.shared();
        let (gate, books, stats) = (shared.gate(), shared.books(), self.scheduler.stats());
        let quantile = |q| if self.hold_times.is_empty() { 0 } else { self.hold_times.value_at_quantile(q) };
        let (daemon_cpu_s, peak_rss_kb) = sys::usage();
        let observed = self
            .options
            .observe
            .then(|| Observation::read(gate, books, self.peak_active, &self.options.as_arguments()));
        let done = |count: u64| if observed.is_some() { 0 } else { count };
        Summary {
            hold: self.back_end(),
            held_max: stats.held_max,
            hold_us: HoldTimes { p50: quantile(0.5), p99: quantile(0.99), max: self.hold_times.max() },
            released: all_released(&stats),
            forced: stats.forced,
            hurried: stats.hurried,
            split: stats.split,
            discarded: stats.discarded,
            passed: gate.passed.get(),
            thinned: done(gate.thinned.get()),
            arrivals: gate.arrivals.get(),
            corrections: gate.corrections.get(),
            voided: gate.voided.get(),
            connections: books.fresh.get(),
            excluded: books.excluded.get(),
            unguarded: books.unguarded.get(),
            untracked: books.untracked.get(),
            overflow: books.overflow.get(),
            not_tcp: books.not_tcp.get(),
            fragments: books.fragments.get(),
            malformed: books.malformed.get(),
            authenticated: books.authenticated.get(),
            multipath: gate.multipath.get(),
            rewritten: done(gate.rewritten.get()),
            unacceptable: gate.unacceptable.get(),
            lost: self.hold.lost(),
            stepped_aside: self.watchdog.times(),
            rescues: self.rescues,
            wakeups: self.wakeups,
            daemon_cpu_s,
            peak_rss_kb,
            bpf_ingress: cost(self.datapath.ingress()),
            bpf_egress: cost(self.datapath.egress()),
            observed,
        }
    }
}

const fn all_released(stats: &Stats) -> u64 {
    stats.released + stats.forced + stats.hurried + stats.split
}

fn cost(program: BorrowedFd<'_>) -> Option<ProgramCost> {
    let (packets, nanos) = sys::run_time(program.as_fd()).ok()?;
    Some(ProgramCost { packets, ns_per_packet: nanos.checked_div(packets)? })
}
