//! What makes no sense although every key of it is well written: refused before a run, with the key and the reason.

use ackgate_control::units::{Rate, Span};

use super::limits::{self, MAX_BUFFER, MAX_SENDERS, Range};
use super::{
    Capacity, Change, CongestionControl, DelayedAck, Destination, Discipline, EcnMode, Group, Network, Per, Red,
    RttSource, Scenario, Scheme, Spurious, Switch, Tcp, Topology, Tree, Workload,
};
use crate::settings;

/// A scenario that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key `{key}`: {problem}")]
pub struct Invalid {
    /// Dotted key.
    pub key: String,
    /// What is wrong with its value, and what would be right.
    pub problem: String,
}

type Checked = Result<(), Invalid>;

fn refuse<T>(key: impl Into<String>, problem: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid { key: key.into(), problem: problem.into() })
}

/// Refuses what lies outside of the key's range ([`limits`]).
fn whole(key: &str, value: impl Into<u64>) -> Checked {
    let value = value.into();
    match limits::of(key) {
        Some(Range::Whole(low, high) | Range::Bytes(low, high)) if value < low || value > high => {
            refuse(key, format!("{value} is not between {low} and {high}"))
        }
        range => listed(key, range.is_some()),
    }
}

/// The same for a number with a fraction. NaN is in no range.
fn number(key: &str, value: f64) -> Checked {
    let (inside, problem) = match limits::of(key) {
        Some(Range::Number(low, high)) => (value >= low && value <= high, format!("between {low} and {high}")),
        Some(Range::Above(low, high)) => (value > low && value <= high, format!("above {low} and at most {high}")),
        Some(Range::Inside(low, high)) => (value > low && value < high, format!("between {low} and {high}")),
        range => return listed(key, range.is_some()),
    };
    if inside { Ok(()) } else { refuse(key, format!("{value} is not {problem}")) }
}

/// The same for a time.
fn span(key: &str, value: Span) -> Checked {
    match limits::of(key) {
        Some(Range::Time(low, high)) if value < low || value > high => {
            refuse(key, format!("{value} is not between {low} and {high}"))
        }
        range => listed(key, range.is_some()),
    }
}

/// The same for a rate.
fn rate(key: &str, value: Rate) -> Checked {
    match limits::of(key) {
        Some(Range::Rate(..)) if value.0 == 0 => refuse(key, "a rate of 0 never sends anything"),
        Some(range @ Range::Rate(low, high)) if value < low || value > high => {
            refuse(key, format!("{} bit/s is out of range: {range}", value.0))
        }
        range => listed(key, range.is_some()),
    }
}

/// A key that is checked has a range.
fn listed(key: &str, it_is: bool) -> Checked {
    debug_assert!(it_is, "`{key}` is not in the table of ranges");
    Ok(())
}

/// Application data of one run, all rounds and senders: an hour of simulation on a fast core.
const MAX_TRAFFIC: u128 = 100_000_000_000_000;
/// Links of a fabric: more than the largest that are built, and a few hundred bytes of memory each.
const MAX_FABRIC: u32 = 65_536;
/// Ways from all senders together through a fabric at most.
const MAX_PATHS: u64 = 1_000_000;

/// Refuses a scenario that makes no sense.
///
/// # Errors
/// The first fault found.
pub(super) fn check(scenario: &Scenario) -> Checked {
    senders(scenario)?;
    network(&scenario.network, scenario.parties().iter().map(|party| party.senders).sum())?;
    switch(&scenario.switch, scenario)?;
    host(scenario)?;
    tcp(&scenario.tcp)?;
    for (key, what, senders) in scenario.workloads() {
        workload(&key, &what, senders, scenario)?;
    }
    for party in scenario.parties() {
        if let Some(group) = party.group {
            check_group(&party.key, group, scenario)?;
        }
    }
    for (nth, change) in scenario.change.iter().enumerate() {
        check_change(&format!("change.{nth}"), change, scenario)?;
    }
    scheme(scenario)?;
    span("time_limit", scenario.time_limit)?;
    span("warm_up", scenario.warm_up)?;
    if scenario.warm_up >= scenario.time_limit {
        let problem = format!(
            "{} is not below time_limit, {}, so nothing would be measured",
            scenario.warm_up, scenario.time_limit
        );
        return refuse("warm_up", problem);
    }
    Ok(())
}

/// What a group has of its own: its path and its TCP.
fn check_group(key: &str, group: &Group, scenario: &Scenario) -> Checked {
    let at = |part: &str| format!("{key}.{part}");
    if group.workload.is_none() && key.starts_with("group") && group.to == Destination::Beside {
        return refuse(
            at("to"),
            "takes part in the main workload, which goes to the receiver: give it a workload of its own",
        );
    }
    if let Some(rtt) = group.rtt {
        span(&at("rtt"), rtt)?;
        // Every link has the same share of the longest way's time, each way; a group's own link has the rest of its own.
        let links = scenario.network.topology.longest_way();
        let others = Span(scenario.network.rtt.0 / links * (links - 1));
        if rtt < others {
            let problem =
                format!("{rtt} is less than {others}, the delay of the links that it shares with other senders");
            return refuse(at("rtt"), problem);
        }
    }
    group.jitter.map_or(Ok(()), |value| span(&at("jitter"), value))?;
    group.rate.map_or(Ok(()), |value| rate(&at("rate"), value))?;
    group.mss.map_or(Ok(()), |value| whole(&at("mss"), value))?;
    group.initial_window.map_or(Ok(()), |value| whole(&at("initial_window"), value))?;
    group.rto_min.map_or(Ok(()), |value| span(&at("rto_min"), value))?;
    if let Some(DelayedAck(delay)) = group.delayed_ack {
        delay.map_or(Ok(()), |value| span(&at("delayed_ack"), value))?;
    }
    let own = group.tcp(&scenario.tcp);
    if own.cc == CongestionControl::Dctcp && own.ecn == EcnMode::Off {
        let key = if group.ecn.is_some() { "ecn" } else { "cc" };
        return refuse(at(key), "dctcp needs ECN, and it is off");
    }
    // What else may be at odds with other keys of `tcp`.
    tcp(&own).map_err(|Invalid { key, problem }| match key.strip_prefix("tcp.") {
        Some("rwnd") => Invalid { key: at("mss"), problem },
        Some(part) => Invalid { key: at(part), problem },
        None => Invalid { key, problem },
    })
}

/// What becomes of the network, and that something does.
fn check_change(key: &str, change: &Change, scenario: &Scenario) -> Checked {
    let at = |part: &str| format!("{key}.{part}");
    span(&at("at"), change.at)?;
    change.rate.map_or(Ok(()), |value| rate(&at("rate"), value))?;
    change.rtt.map_or(Ok(()), |value| span(&at("rtt"), value))?;
    if change.rtt.is_some() && scenario.network.rtt == Span::ZERO {
        return refuse(at("rtt"), "network.rtt is 0, so no link has a delay that could change");
    }
    if let Some(buffer) = change.buffer {
        capacity(&at("buffer"), buffer, full_frame(scenario))?;
    }
    if change.rate.is_none() && change.rtt.is_none() && change.buffer.is_none() {
        return refuse(key, "nothing changes: give rate, rtt, buffer or several of them");
    }
    Ok(())
}

fn senders(scenario: &Scenario) -> Checked {
    if scenario.senders == 0 {
        return refuse("senders", "0 senders send nothing: at least 1");
    }
    let mut total = u64::from(scenario.senders);
    whole("senders", scenario.senders)?;
    let mut list = "background";
    for party in scenario.parties().iter().filter(|party| party.group.is_some()) {
        whole(&format!("{}.senders", party.key), party.senders)?;
        total += u64::from(party.senders);
        list = if party.key.starts_with("group") { "group" } else { list };
    }
    if total > MAX_SENDERS {
        return refuse(
            list,
            format!("{total} senders in total, including the main ones; at most {MAX_SENDERS} are allowed"),
        );
    }
    if scenario.rounds == 0 {
        return refuse("rounds", "0 rounds measure nothing: at least 1");
    }
    whole("rounds", scenario.rounds)
}

fn network(network: &Network, senders: u32) -> Checked {
    rate("network.rate", network.rate)?;
    for (key, value) in [("network.sender_rate", network.sender_rate), ("network.core_rate", network.core_rate)] {
        value.map_or(Ok(()), |value| rate(key, value))?;
    }
    span("network.rtt", network.rtt)?;
    number("network.reorder", network.reorder)?;
    span("network.detour", network.detour)?;
    if network.reorder > 0.0 && network.detour == Span::ZERO {
        return refuse("network.detour", "without it nothing comes late: say how late packets may come");
    }
    if let Some(hosts) = network.sender_hosts {
        whole("network.sender_hosts", hosts)?;
    }
    match &network.topology {
        Topology::Star | Topology::Core(_) => Ok(()),
        Topology::Dumbbell(dumbbell) => dumbbell.receivers.map_or(Ok(()), |n| whole("network.topology.receivers", n)),
        Topology::LeafSpine(fabric) => {
            whole("network.topology.leaves", fabric.leaves)?;
            whole("network.topology.spines", fabric.spines)?;
            let links = fabric.leaves * fabric.spines;
            if links > MAX_FABRIC {
                return refuse(
                    "network.topology.spines",
                    format!("{links} links between switches; at most {MAX_FABRIC} are allowed"),
                );
            }
            let paths = u64::from(senders) * u64::from(fabric.spines);
            if paths > MAX_PATHS {
                return refuse(
                    "network.topology.spines",
                    format!("{paths} paths from senders over spines; at most {MAX_PATHS} are allowed"),
                );
            }
            Ok(())
        }
        Topology::Tree(tree) => check_tree(tree),
    }
}

/// One root, no cycle, every name known.
fn check_tree(tree: &Tree) -> Checked {
    let switches = &tree.switches;
    if switches.is_empty() {
        return refuse("network.topology.switches", "a tree needs at least one switch, `{ name = \"root\" }`");
    }
    if switches.len() > 10_000 {
        return refuse("network.topology.switches", format!("{} switches; at most 10000 are allowed", switches.len()));
    }
    let index = |name: &str| switches.iter().position(|switch| switch.name == name);
    for (i, switch) in switches.iter().enumerate() {
        let key = format!("network.topology.switches.{i}");
        if index(&switch.name) != Some(i) {
            return refuse(format!("{key}.name"), format!("`{}` is the name of an earlier switch", switch.name));
        }
        if let Some(value) = switch.rate {
            rate(&format!("{key}.rate"), value)?;
        }
        if switch.uplink.as_deref().is_some_and(|uplink| index(uplink).is_none()) {
            return refuse(format!("{key}.uplink"), "there is no switch of this name");
        }
    }
    for (i, switch) in switches.iter().enumerate() {
        // Whoever climbs for longer than there are switches goes in a circle.
        let mut above = switch.uplink.as_deref().and_then(index);
        for _ in 0..switches.len() {
            above = above.and_then(|at| switches[at].uplink.as_deref()).and_then(index);
        }
        if above.is_some() {
            let key = format!("network.topology.switches.{i}.uplink");
            return refuse(key, format!("the topology is cyclic: uplinks from `{}` never reach a root", switch.name));
        }
    }
    let mut roots = switches.iter().enumerate().filter(|(_, switch)| switch.uplink.is_none()).skip(1);
    if let Some((i, switch)) = roots.next() {
        let key = format!("network.topology.switches.{i}");
        return refuse(
            key,
            format!(
                "`{}` has no uplink, but another switch is the root already; all other switches need an uplink",
                switch.name
            ),
        );
    }
    if index(&tree.receiver_at).is_none() {
        return refuse("network.topology.receiver_at", format!("there is no switch `{}`", tree.receiver_at));
    }
    if tree.senders_at.is_empty() {
        return refuse("network.topology.senders_at", "name at least one switch for the senders");
    }
    match tree.senders_at.iter().find(|name| index(name).is_none()) {
        Some(name) => refuse("network.topology.senders_at", format!("there is no switch `{name}`")),
        None => Ok(()),
    }
}

fn switch(switch: &Switch, scenario: &Scenario) -> Checked {
    let frame = full_frame(scenario);
    capacity("switch.buffer", switch.buffer, frame)?;
    if let Some(pool) = switch.pool {
        capacity("switch.pool", Capacity::Bytes(pool), frame)?;
        if switch.pause {
            return refuse("switch.pause", "ports that share a pool cannot pause: leave switch.pool out");
        }
    }
    if let Some(alpha) = switch.alpha {
        number("switch.alpha", alpha)?;
        if switch.pool.is_none() {
            return refuse("switch.alpha", "dynamic thresholds are of a memory that ports share: give switch.pool");
        }
    }
    number("switch.loss", switch.loss)?;
    match &switch.discipline {
        Discipline::DropTail => Ok(()),
        Discipline::Ecn(ecn) => marking("switch.discipline", ecn.mark_above),
        Discipline::Red(parameters) => red("switch.discipline", parameters),
    }
}

fn marking(table: &str, mark_above: Capacity) -> Checked {
    if mark_above == Capacity::Unlimited {
        return refuse(format!("{table}.mark_above"), "an unlimited threshold never marks");
    }
    Ok(())
}

fn red(table: &str, red: &Red) -> Checked {
    let at = |key: &str| format!("{table}.{key}");
    number(&at("min"), red.min)?;
    number(&at("max"), red.max)?;
    if red.max < red.min {
        return refuse(at("max"), format!("{} must not be below min, which is {}", red.max, red.min));
    }
    number(&at("max_probability"), red.max_probability)?;
    number(&at("weight"), red.weight)
}

/// Bytes that a full segment takes in a buffer.
fn full_frame(scenario: &Scenario) -> u64 {
    u64::from(scenario.tcp.mss) + 40 + u64::from(scenario.network.framing.in_buffer())
}

fn capacity(key: &str, capacity: Capacity, frame: u64) -> Checked {
    match capacity {
        Capacity::Bytes(0) | Capacity::Packets(0) => refuse(key, "a buffer of 0 drops every frame that has to wait"),
        Capacity::Bytes(bytes) if bytes < frame => {
            refuse(key, format!("{bytes} bytes cannot hold a full frame of {frame} bytes"))
        }
        Capacity::Bytes(bytes) if bytes > MAX_BUFFER => {
            refuse(key, format!("{bytes} bytes are out of range: at most {MAX_BUFFER}, or \"unlimited\""))
        }
        _ => Ok(()),
    }
}

fn host(scenario: &Scenario) -> Checked {
    let host = &scenario.host;
    span("host.delay", host.delay)?;
    span("host.jitter", host.jitter)?;
    span("host.timer_jitter", host.timer_jitter)?;
    span("host.rtt_spread", host.rtt_spread)?;
    span("host.burst_time", host.burst_time)?;
    host.tso.map_or(Ok(()), |segments| whole("host.tso", segments))?;
    if host.gro && host.tso.is_none() {
        return refuse("host.gro", "bursts arrive where bursts are sent: set host.tso");
    }
    capacity("host.nic_queue", host.nic_queue, full_frame(scenario))
}

fn tcp(tcp: &Tcp) -> Checked {
    whole("tcp.mss", tcp.mss)?;
    whole("tcp.initial_window", tcp.initial_window)?;
    for (key, value) in [("tcp.initial_ssthresh", tcp.initial_ssthresh), ("tcp.max_window", tcp.max_window)] {
        value.map_or(Ok(()), |value| whole(key, value))?;
    }
    span("tcp.rto_min", tcp.rto_min)?;
    span("tcp.rto_initial", tcp.rto_initial)?;
    span("tcp.rto_granularity", tcp.rto_granularity)?;
    span("tcp.timestamp_clock", tcp.timestamp_clock)?;
    span("tcp.rto_variance_floor", tcp.rto_variance_floor)?;
    if let Some(from) = tcp.rto_coarse_from {
        span("tcp.rto_coarse_from", from)?;
        span("tcp.rto_coarse_min", tcp.rto_coarse_min)?;
    }
    if tcp.spurious == Spurious::Eifel && !tcp.timestamps {
        return refuse("tcp.spurious", "eifel compares timestamps, and tcp.timestamps is false");
    }
    tcp.probe_ack_delay.map_or(Ok(()), |delay| span("tcp.probe_ack_delay", delay))?;
    if tcp.rack && !tcp.sack {
        return refuse("tcp.rack", "it is told by SACK blocks what has arrived, and tcp.sack is false");
    }
    if tcp.fack && (!tcp.sack || tcp.rack) {
        return refuse("tcp.fack", "it needs SACK blocks, tcp.sack, and stands in the place of tcp.rack");
    }
    if tcp.dsack && !tcp.sack {
        return refuse("tcp.dsack", "duplicates are reported in SACK blocks, and tcp.sack is false");
    }
    if tcp.idle_halving && !tcp.idle_restart {
        return refuse(
            "tcp.idle_halving",
            "it says how a sender restarts after it was idle, and tcp.idle_restart is false",
        );
    }
    if tcp.delayed_ack_adaptive && tcp.delayed_ack.is_none() {
        return refuse("tcp.delayed_ack_adaptive", "tcp.delayed_ack must say how long an ACK waits at most");
    }
    if !tcp.rto_backoff_max.is_power_of_two() || tcp.rto_backoff_max > 65_536 {
        return refuse("tcp.rto_backoff_max", format!("{} is not a power of two up to 65536", tcp.rto_backoff_max));
    }
    number("tcp.rto_randomize", tcp.rto_randomize)?;
    if let Some(delay) = tcp.delayed_ack {
        span("tcp.delayed_ack", delay)?;
    }
    if tcp.cc == CongestionControl::Dctcp && tcp.ecn == EcnMode::Off {
        return refuse("tcp.ecn", "dctcp needs ECN: \"auto\", \"on\" or \"plus\"");
    }
    number("tcp.dctcp_gain", tcp.dctcp_gain)?;
    whole("tcp.ecn_min_window", tcp.ecn_min_window)?;
    whole("tcp.dctcp_min_window", tcp.dctcp_min_window)?;
    tcp.wscale.map_or(Ok(()), |shift| whole("tcp.wscale", shift))?;
    let largest = 0xffff << tcp.wscale.unwrap_or(14);
    if tcp.rwnd < u64::from(tcp.mss) || tcp.rwnd > largest {
        let problem = format!(
            "{} bytes are not between one MSS, {}, and {largest}, the largest window that its scale allows",
            tcp.rwnd, tcp.mss
        );
        return refuse("tcp.rwnd", problem);
    }
    Ok(())
}

fn workload(key: &str, workload: &Workload, senders: u32, scenario: &Scenario) -> Checked {
    let at = |part: &str| format!("{key}.{part}");
    let limit = |part: &str, bytes: u128| {
        let problem = format!("{bytes} bytes in total are out of range: at most {MAX_TRAFFIC}");
        if bytes > MAX_TRAFFIC { refuse(at(part), problem) } else { Ok(()) }
    };
    match workload {
        Workload::Rounds(rounds) => {
            let shares = if rounds.per == Per::Round { u64::from(senders) } else { 1 };
            if rounds.volume < shares {
                let problem =
                    format!("{} bytes are too few for {shares} senders: some would send nothing", rounds.volume);
                return refuse(
                    at("volume"),
                    if shares == 1 { "0 bytes are no traffic: at least 1B".into() } else { problem },
                );
            }
            let each = if rounds.per == Per::Round { 1 } else { u128::from(senders) };
            whole(&at("answers"), rounds.answers)?;
            let answers = u128::from(scenario.rounds) * u128::from(rounds.answers);
            limit("volume", u128::from(rounds.volume) * each * answers)?;
            whole(&at("request"), rounds.request)?;
            whole(&at("outstanding"), rounds.outstanding)?;
            let several = [("answers", rounds.answers), ("outstanding", rounds.outstanding)];
            let asked_for = several.into_iter().find(|&(_, number)| number > 1);
            if let (super::Direction::Push, Some((part, _))) = (rounds.direction, asked_for) {
                let problem = "senders that push are not asked: 1 or none, or `direction = \"pull\"`";
                return refuse(at(part), problem);
            }
            span(&at("start_jitter"), rounds.start_jitter)?;
            span(&at("pause"), rounds.pause)
        }
        Workload::Long(long) => {
            span(&at("start"), long.start)?;
            span(&at("stagger"), long.stagger)?;
            span(&at("stop_stagger"), long.stop_stagger)?;
            long.rate.map_or(Ok(()), |value| rate(&at("rate"), value))?;
            let Some(stop) = long.stop else { return Ok(()) };
            let last = u64::from(senders.saturating_sub(1));
            if stop <= long.start || stop + long.stop_stagger * last <= long.start + long.stagger * last {
                return refuse(at("stop"), "some sender would stop before it starts");
            }
            Ok(())
        }
        Workload::Epochs(epochs) => {
            whole(&at("epochs"), epochs.epochs)?;
            whole(&at("size"), epochs.size)?;
            limit("size", u128::from(epochs.size) * u128::from(senders) * u128::from(epochs.epochs))?;
            span(&at("start"), epochs.start)?;
            span(&at("interval"), epochs.interval)?;
            span(&at("mean_gap"), epochs.mean_gap)
        }
        Workload::OnOff(on_off) => {
            span(&at("on"), on_off.on)?;
            span(&at("off"), on_off.off)?;
            on_off.stop.map_or(Ok(()), |stop| span(&at("stop"), stop))?;
            on_off.rate.map_or(Ok(()), |value| rate(&at("rate"), value))
        }
        Workload::Datagrams(datagrams) => {
            if key == "workload" {
                let problem =
                    "datagrams are no main workload, for nothing would end the run: let a [[background]] send them";
                return refuse(at("kind"), problem);
            }
            rate(&at("rate"), datagrams.rate)?;
            let largest = scenario.tcp.mss + 12;
            if datagrams.payload == 0 || datagrams.payload > u64::from(largest) {
                let problem = format!("{} bytes are not between 1 and {largest}, what fits a frame", datagrams.payload);
                return refuse(at("payload"), problem);
            }
            whole(&at("burst"), datagrams.burst)?;
            span(&at("start"), datagrams.start)?;
            let Some(stop) = datagrams.stop else { return Ok(()) };
            if stop <= datagrams.start {
                return refuse(at("stop"), "the senders would stop before they start");
            }
            span(&at("stop"), stop)
        }
        Workload::Trace(trace) => {
            if let Some(flow) = trace.arrivals.iter().find(|flow| flow.sender >= senders) {
                let problem = format!("it names sender {}, but the senders are 0 to {}", flow.sender, senders - 1);
                return refuse(at("file"), problem);
            }
            limit("file", trace.arrivals.iter().map(|flow| u128::from(flow.bytes)).sum())
        }
    }
}

/// The parameters of the scheme that runs; the tables of others are not looked at.
fn scheme(scenario: &Scenario) -> Checked {
    let table = scenario.scheme.name();
    match scenario.scheme {
        Scheme::None => Ok(()),
        Scheme::Pac | Scheme::PacPublished | Scheme::Credit | Scheme::WindowOnly | Scheme::RequestsOnly => {
            pac(scenario)
        }
        Scheme::PacLetter => {
            pac(scenario)?;
            settings::letter(scenario).validate().or_else(|problem| refuse(table, problem.0))
        }
        Scheme::Ictcp => settings::ictcp(scenario).validate().or_else(|problem| refuse(table, problem.0)),
        Scheme::Shaper => settings::shaper(scenario).validate().or_else(|problem| refuse(table, problem.0)),
        Scheme::Hwatch => settings::hwatch(scenario, 0).validate().or_else(|problem| refuse(table, problem.0)),
        Scheme::M21 => {
            whole("m21.flows", scenario.m21.flows)?;
            if let Some(expiry) = scenario.m21.expiry {
                span("m21.expiry", expiry)?;
            }
            settings::m21_cap(scenario).map(|_| ()).or_else(|problem| refuse("m21.buffer", problem.0))
        }
        Scheme::Dctcp => marking("dctcp", scenario.dctcp.mark_above),
        Scheme::Ecn | Scheme::Red => red("red", &scenario.red),
        Scheme::FixedWindow => whole("fixed_window.segments", scenario.fixed_window.segments),
    }
}

fn pac(scenario: &Scenario) -> Checked {
    let pac = &scenario.pac;
    let frame = full_frame(scenario);
    if pac.threshold.is_none() && scenario.switch.buffer == Capacity::Unlimited {
        return refuse("pac.threshold", "must be given, since switch.buffer is unlimited");
    }
    let (least, most) = (2 * frame, 1 << 32);
    let config = settings::gate(scenario);
    if config.buffer < least || config.buffer > most {
        let problem = format!("{} bytes are not between two full frames, {least}, and {most}", config.buffer);
        return match pac.threshold {
            Some(_) => refuse("pac.threshold", problem),
            None => refuse("switch.buffer", format!("{problem}, as pac.threshold must be, which it stands for")),
        };
    }
    number("pac.lambda", pac.lambda)?;
    whole("pac.levels", pac.levels)?;
    whole("pac.demote_at", pac.demote_at)?;
    pac.rate.map_or(Ok(()), |told| rate("pac.rate", told))?;
    pac.max_hold.map_or(Ok(()), |hold| span("pac.max_hold", hold))?;
    pac.initial_window.map_or(Ok(()), |segments| whole("pac.initial_window", segments))?;
    if pac.rtt == RttSource::Timestamps && !scenario.tcp.timestamps {
        return refuse("pac.rtt", "timestamps cannot be read while tcp.timestamps is false");
    }
    config.validate().or_else(|problem| refuse("pac", problem.0))
}
