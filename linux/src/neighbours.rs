//! Whoever else is at the device's hooks, and whether the programs see what the device carries.
//!
//! Our programs stand first at both hooks and pass everything on, so that nobody hides packets from us or we from others.
//! Somebody may come later and stand in front, traffic may take another way back, and on a router the wrong device may be
//! guarded. None of these can be prevented; all show, once a second, in the order of the hooks and in counters, and are told.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::device::Device;
use crate::error::Error;
use crate::qdisc;
use crate::route;
use crate::sys::{Side, tcx};
use crate::watchdog::{Harm, Turn};

/// TCP segments within a second from which silence on the other side means something.
const BUSY: u64 = 100;
/// Seconds in a row that it must last.
const LASTING: u32 = 2;
/// Active connections from which on their age means something.
const SEVERAL: u64 = 4;
/// Bytes that must have left before the direction of traffic means something.
const MUCH: u64 = 10_000_000;
/// Of what is so many times as much as the rest, the rest is hardly anything.
const TIMES: u64 = 10;

/// Something that the operator should know, said once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "notice", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Notice {
    /// A program stands before ours at a hook of the device.
    InFront {
        /// `ingress` or `egress`.
        hook: &'static str,
        /// Its name, or its kernel id.
        program: String,
    },
    /// Our side sends, and no TCP segment has been seen to arrive.
    NoArrivals {
        /// Programs that stand before ours.
        hidden_by: Vec<String>,
    },
    /// TCP segments arrive, and none has been seen to leave.
    NoDepartures {
        /// Programs that stand before ours.
        hidden_by: Vec<String>,
    },
    /// The device carries frames both ways, and neither program has seen TCP in them.
    NothingSeen,
    /// Hardly anything of what the device carries is TCP, and there are tunnels.
    Tunnelled {
        /// Their devices.
        tunnels: Vec<String>,
    },
    /// Most of the active connections were open before the guard began, and are hardly guarded.
    OlderConnections,
    /// The device of a router sends what the receivers behind it get.
    WrongSide,
    /// What the port was said to hold overflows it.
    BufferTooLarge {
        /// The given buffer.
        bytes: u64,
    },
    /// The guard seems to do harm: it holds nothing and lowers no window for that long.
    SteppedAside {
        /// What it has seen.
        #[serde(flatten)]
        harm: Harm,
        /// For how long.
        seconds: u64,
    },
    /// It guards again.
    Returned,
    /// A rule names a control group that is not there.
    NoGroup {
        /// Its folder.
        group: PathBuf,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CAUSE: &str = "another program ends the chain before ackgate's, or that traffic uses another device";
        let cause = |programs: &[String]| match programs {
            [] => CAUSE.to_owned(),
            some => format!("hidden by {}, which runs first (restart ackgate: it attaches in front)", some.join(", ")),
        };
        match self {
            Self::SteppedAside { harm, seconds } => {
                write!(f, "stepping aside for {seconds} s (nothing is held, no window is lowered): {harm}")
            }
            Self::Returned => f.write_str("guarding again"),
            Self::NoGroup { group } => {
                write!(f, "control group {} does not exist: rules that name it match nothing until it does", group.display())
            }
            Self::InFront { hook, program } => write!(
                f,
                "{program} was attached before ackgate at the {hook} hook: packets that it does not pass on (TC_ACT_OK instead \
                 of TC_ACT_UNSPEC) are not seen by ackgate; restart ackgate to attach in front of it"
            ),
            Self::NoArrivals { hidden_by } => {
                write!(f, "TCP segments leave by this device, but none arrive: {}; nothing is guarded", cause(hidden_by))
            }
            Self::NoDepartures { hidden_by } => {
                write!(f, "TCP segments arrive at this device, but none leave: {}; nothing is guarded", cause(hidden_by))
            }
            Self::NothingSeen => {
                write!(f, "the device carries frames in both directions, but no TCP: {CAUSE}; nothing is guarded")
            }
            Self::Tunnelled { tunnels } => write!(
                f,
                "hardly any of what the device carries is TCP that can be seen: what comes through a tunnel ({}) is guarded on the tunnel's \
                 own device (`--dev`), not here",
                tunnels.join(", ")
            ),
            Self::OlderConnections => f.write_str(
                "most of the active connections were open before the guard started, and the kernel has no socket for them here (they belong \
                 to a container or guest, or their addresses are translated): only their requests can be held, because TCP sends the \
                 window scale in the handshake only; connections opened from now on are guarded, so let the application reconnect \
                 (`older` counts those that are left)",
            ),
            Self::BufferTooLarge { bytes } => write!(
                f,
                "segments that the given buffer of {bytes} bytes has room for are lost: the port holds less, or shares it with others; from \
                 now on the guard finds out by itself what fits",
            ),
            Self::WrongSide => f.write_str(
                "this host forwards packets, and this device sends ten times what it receives: if the receivers are behind it, \
                 guard the device on which their data arrives instead",
            ),
        }
    }
}

impl From<Turn> for Notice {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::Aside(harm, pause) => Self::SteppedAside { harm, seconds: pause.0 / 1_000_000_000 },
            Turn::Back => Self::Returned,
        }
    }
}

/// TCP segments that the programs have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) arrivals: u64,
    pub(crate) departures: u64,
    /// Frames in either direction that are no TCP of known connections.
    pub(crate) other: u64,
    /// Connections that were active within the last second.
    pub(crate) senders: u64,
    /// Of these, those that were open before the guard began.
    pub(crate) older: u64,
    /// The programs are not on the device.
    pub(crate) dormant: bool,
    /// The given buffer in bytes, where the port has shown that it holds less.
    pub(crate) overstated: Option<u64>,
}

/// What the device has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Carried {
    bytes_in: u64,
    frames_in: u64,
    bytes_out: u64,
    frames_out: u64,
}

impl Carried {
    /// From `/proc/net/dev`; nothing when the device is not there.
    fn read(device: &str) -> Self {
        Self::parse(&fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default(), device).unwrap_or_default()
    }

    fn parse(table: &str, device: &str) -> Option<Self> {
        let row = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
        let numbers: Vec<u64> = row.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        let &[bytes_in, frames_in, _, _, _, _, _, _, bytes_out, frames_out, ..] = &numbers[..] else { return None };
        Some(Self { bytes_in, frames_in, bytes_out, frames_out })
    }
}

/// How traffic looked for some seconds in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Fine,
    NoArrivals,
    NoDepartures,
    NothingSeen,
    HardlyTcp,
}

/// The watch on neighbours.
#[derive(Debug)]
pub(crate) struct Neighbours {
    device: Device,
    /// Kernel ids of our programs, when they stand at the tcx hooks.
    ours: Option<(u32, u32)>,
    forwards: bool,
    start: Carried,
    last: (Carried, Seen),
    looks: (Looks, u32),
    told: BTreeSet<Notice>,
}

impl Neighbours {
    /// `ours` are the ids of our programs at the tcx hooks, arrivals first; without them they are filters.
    pub(crate) fn new(device: &Device, ours: Option<(u32, u32)>) -> Self {
        let start = Carried::read(&device.name);
        Self {
            device: device.clone(),
            ours,
            forwards: device.forwards(),
            start,
            last: (start, Seen::default()),
            looks: (Looks::Fine, 0),
            told: BTreeSet::new(),
        }
    }

    /// Our programs are others now, or back on the device.
    pub(crate) fn replaced(&mut self, ours: Option<(u32, u32)>) {
        self.ours = ours;
    }

    /// Looks around; returns what has not been told yet. To be called once a second.
    ///
    /// # Errors
    /// [`Error::Detached`] when our programs are no longer there.
    pub(crate) fn look(&mut self, seen: Seen) -> Result<Vec<Notice>, Error> {
        if seen.dormant {
            self.last.1 = seen;
            return Ok(Vec::new());
        }
        let before_us = [self.before(Side::Ingress)?, self.before(Side::Egress)?];
        let mut notices = Vec::new();
        for (hook, programs) in ["ingress", "egress"].into_iter().zip(&before_us) {
            notices.extend(programs.iter().map(|program| Notice::InFront { hook, program: program.clone() }));
        }
        let carried = Carried::read(&self.device.name);
        let (carried_before, seen_before) = std::mem::replace(&mut self.last, (carried, seen));
        let looks = judge(carried_before, carried, seen_before, seen);
        self.looks = (looks, if looks == self.looks.0 { self.looks.1 + 1 } else { 1 });
        let [hidden_in, hidden_out] = before_us;
        if self.looks.1 >= LASTING {
            notices.extend(match looks {
                Looks::Fine => None,
                Looks::NoArrivals => Some(Notice::NoArrivals { hidden_by: hidden_in }),
                Looks::NoDepartures => Some(Notice::NoDepartures { hidden_by: hidden_out }),
                Looks::NothingSeen => Some(Notice::NothingSeen),
                Looks::HardlyTcp => {
                    let tunnels = route::tunnels(&self.device.name);
                    (!tunnels.is_empty()).then_some(Notice::Tunnelled { tunnels })
                }
            });
        }
        if mostly_older(seen) {
            notices.push(Notice::OlderConnections);
        }
        if self.forwards && sends_what_others_get(self.start, carried) {
            notices.push(Notice::WrongSide);
        }
        notices.extend(seen.overstated.map(|bytes| Notice::BufferTooLarge { bytes }));
        notices.retain(|notice| self.told.insert(notice.clone()));
        Ok(notices)
    }

    /// Programs that run before ours.
    fn before(&self, side: Side) -> Result<Vec<String>, Error> {
        // A kernel without tcx has no program there.
        let ids = tcx::programs(self.device.index, side).unwrap_or_default();
        let before = match self.ours {
            None => &ids[..],
            Some((ingress, egress)) => {
                let ours = if side == Side::Ingress { ingress } else { egress };
                let place = ids.iter().position(|&id| id == ours);
                &ids[..place.ok_or_else(|| Error::Detached(self.device.name.clone()))?]
            }
        };
        let named = |&id: &u32| match tcx::name(id) {
            // Passes everything on.
            Some(name) if name == crate::watch::PROGRAM => None,
            Some(name) => Some(format!("`{name}` ({id})")),
            None => Some(format!("program {id}")),
        };
        Ok(before.iter().filter_map(named).collect())
    }
}

/// Whether anybody else has a program or a filter at a hook of the device.
pub(crate) fn others(device: &Device, side: Side) -> bool {
    tcx::programs(device.index, side).is_ok_and(|ids| !ids.is_empty())
        || qdisc::filters(device, side).is_ok_and(|filters| !filters.is_empty())
}

fn judge(before: Carried, carried: Carried, seen_before: Seen, seen: Seen) -> Looks {
    if seen_before.dormant {
        return Looks::Fine;
    }
    let arrivals = seen.arrivals - seen_before.arrivals;
    let departures = seen.departures.saturating_sub(seen_before.departures);
    let other = seen.other - seen_before.other;
    let frames_in = carried.frames_in.saturating_sub(before.frames_in);
    let frames_out = carried.frames_out.saturating_sub(before.frames_out);
    match (arrivals, departures) {
        (0, 0) if frames_in.min(frames_out) >= BUSY && other < frames_in.max(frames_out) / 10 => Looks::NothingSeen,
        (0, BUSY..) => Looks::NoArrivals,
        (BUSY.., 0) => Looks::NoDepartures,
        (seen_in, seen_out) if other >= BUSY && other / TIMES >= seen_in + seen_out => Looks::HardlyTcp,
        _ => Looks::Fine,
    }
}

const fn mostly_older(seen: Seen) -> bool {
    seen.senders >= SEVERAL && seen.older > seen.senders / 2
}

fn sends_what_others_get(start: Carried, now: Carried) -> bool {
    let sent = now.bytes_out.saturating_sub(start.bytes_out);
    sent >= MUCH && sent / TIMES >= now.bytes_in.saturating_sub(start.bytes_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_among_those_whose_names_begin_alike() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n  eth0.1: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n\
            \x20   eth0: 10 20 0 0 0 0 0 0 30 40 0 0 0 0 0 0\n";
        let found = Carried { bytes_in: 10, frames_in: 20, bytes_out: 30, frames_out: 40 };
        assert_eq!(Carried::parse(table, "eth0"), Some(found));
        assert_eq!(Carried::parse(table, "eth1"), None);
    }

    #[test]
    fn silence_means_something_only_beside_traffic() {
        let frames = |n| Carried { frames_in: n, frames_out: n, ..Carried::default() };
        let seen = |arrivals, departures, other| Seen { arrivals, departures, other, ..Seen::default() };
        let looks = |n, seen| judge(frames(0), frames(n), Seen::default(), seen);
        assert_eq!(looks(0, seen(0, 0, 0)), Looks::Fine);
        assert_eq!(looks(1000, seen(500, 500, 0)), Looks::Fine);
        assert_eq!(looks(1000, seen(0, 500, 0)), Looks::NoArrivals);
        assert_eq!(looks(1000, seen(500, 0, 0)), Looks::NoDepartures);
        assert_eq!(looks(1000, seen(0, 0, 3)), Looks::NothingSeen);
        assert_eq!(looks(1000, seen(0, 0, 2000)), Looks::HardlyTcp, "a host that talks UDP");
        assert_eq!(looks(1000, seen(3, 3, 2000)), Looks::HardlyTcp, "and of whose TCP there is next to nothing");
        assert_eq!(looks(1000, seen(150, 150, 2000)), Looks::Fine);
        assert_eq!(looks(1000, seen(0, 0, 99)), Looks::NothingSeen);
        assert_eq!(looks(50, seen(0, 0, 99)), Looks::Fine, "too little to tell");
        assert_eq!(looks(10, seen(0, 10, 0)), Looks::Fine, "too little to tell");
    }

    #[test]
    fn the_age_of_connections_matters_where_most_are_old() {
        let seen = |senders, older| Seen { senders, older, ..Seen::default() };
        assert!(mostly_older(seen(4, 3)) && mostly_older(seen(64, 64)));
        assert!(!mostly_older(seen(4, 2)) && !mostly_older(seen(3, 3)) && !mostly_older(seen(0, 0)));
    }

    #[test]
    fn a_router_guarded_towards_its_receivers_sends_what_they_get() {
        let carried = |bytes_in, bytes_out| Carried { bytes_in, bytes_out, ..Carried::default() };
        let start = carried(5, 5);
        assert!(sends_what_others_get(start, carried(100_000, 20_000_000)));
        assert!(!sends_what_others_get(start, carried(20_000_000, 100_000)));
        assert!(!sends_what_others_get(start, carried(0, 1_000_000)), "too little to tell");
    }
}
