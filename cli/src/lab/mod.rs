//! `ackgate lab`: the papers' edge testbed in network namespaces, measured or left standing to be tried by hand.

mod ablation;
mod faults;
mod harm;
mod mouse;
mod pairs;
mod reproduce;
mod rows;
mod soak;
mod web;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::units::{parse_bytes, parse_rate, parse_time};
use ackgate_lab::background::Background;
use ackgate_lab::dctcp;
use ackgate_lab::guard::GuardConfig;
use ackgate_lab::incast::{IncastConfig, IncastReport, Lab, Progress};
use ackgate_lab::testbed::{self, Entry, Fabric, Spec, Testbed};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand, ValueEnum};

use crate::exit::Refused;
use crate::load::{Shape, add_load, progress_bar};
use crate::run;
use crate::table::{Facts, print_json};

/// What a guard is told of a port without a limit.
const UNLIMITED_RATE: u64 = 100_000_000_000;

/// What to do with the lab.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Builds a testbed, measures incast in synchronised rounds, reports, and removes the testbed.
    Incast(Box<Incast>),
    /// Measures the cost of a guard: alternates runs with and without it, and compares each pair.
    Pairs(Box<pairs::Pairs>),
    /// Measures the effect of each part of a guard: all guards at a base point, then with one factor changed at a time.
    Ablation(Box<ablation::Ablation>),
    /// Measures the response time of small requests that compete with bulk transfers, for each guard.
    Mouse(Box<mouse::Mouse>),
    /// Checks that guards do no harm: measures many kinds of traffic with and without each guard, with a verdict for each.
    Harm(Box<harm::Harm>),
    /// Injects faults under load (kills or stops the guard, removes its device, ...) and reports lost data and pauses.
    Faults(Box<faults::Faults>),
    /// Runs a guard under mixed load for half an hour and checks for leaks, memory growth and inconsistent counters.
    Soak(Box<soak::Soak>),
    /// Measures response times of a real web server (nginx) on persistent connections, for each scheme.
    Web(Box<web::Web>),
    /// Reproduces the papers' figures on this kernel and in the simulator, and compares both with the papers' claims.
    Reproduce(Box<reproduce::Reproduce>),
    /// Builds a testbed and keeps it, for manual experiments.
    Up(Up),
    /// Removes a testbed that `up` built.
    Down {
        /// Name of the testbed.
        #[arg(default_value = "up")]
        name: String,
    },
    /// Lists the running testbeds and the commands to enter them.
    Show,
    /// Removes namespaces and files that a crashed lab left behind.
    Clean {
        /// Also remove testbeds that `up` built.
        #[arg(long)]
        all: bool,
    },
}

#[derive(Args)]
pub(crate) struct Incast {
    #[command(flatten)]
    measurement: Measurement,
    /// With `--topology core` or `leaf-spine`: a long flow of this rate to a second receiving host (PAC Fig. 9: 750mbit of 1gbit).
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    background: Option<u64>,
    /// Skip the measurement of the maximum goodput (without congestion) that precedes the rounds.
    #[arg(long)]
    no_ceiling: bool,
}

/// What is measured, through what network, with what guard.
#[derive(Args)]
struct Measurement {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    guarding: Guarding,
    /// Maximum segment size (MSS) in bytes.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=1460))]
    mss: Option<u32>,
    /// Use IPv6.
    #[arg(long)]
    ipv6: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Measurement {
    fn config(&self) -> IncastConfig {
        IncastConfig {
            connections: self.shape.connections,
            volume: self.shape.volume(),
            rounds: self.shape.rounds,
            warmup: self.shape.warmup,
            cc: self.shape.cc.clone(),
            mss: self.mss,
            start: self.shape.start(),
            fresh: self.shape.fresh,
            ipv6: self.ipv6,
            deadline: self.shape.deadline,
            guard: self.guarding.config(),
        }
    }

    /// The testbed, with the rate chosen where that was left to the machine.
    fn lab(&self, stop: &AtomicBool) -> anyhow::Result<Lab> {
        if matches!(self.guarding.guard.as_str(), "m21" | "rto") && self.guarding.max_hold.is_some() {
            return Err(Refused(anyhow::anyhow!(
                "--max-hold has no effect with m21 and rto, which hold no ACKs; omit it"
            ))
            .into());
        }
        let mut spec = self.network.spec(self.shape.cc.as_deref());
        if let Some(guard) = self.guarding.config() {
            spec = guard.fit(spec);
        }
        let mut lab = Lab::new(spec)?;
        self.network.settle(&mut lab, self.ipv6, stop)?;
        Ok(lab)
    }
}

#[derive(Args)]
pub(crate) struct Up {
    /// Its name.
    #[arg(long, default_value = "up")]
    name: String,
    #[command(flatten)]
    network: Network,
}

/// The testbed.
#[derive(Args)]
pub(crate) struct Network {
    /// Number of sender hosts (namespaces), over which the connections are distributed. Default: 8, or as many as --rtt names.
    #[arg(long)]
    hosts: Option<usize>,
    /// Base round-trip time of all sender hosts, or of groups of them: `20ms`, or `9@0ms,3@20ms` for nine near hosts and
    /// three far ones.
    #[arg(long, value_name = "TIME|COUNT@TIME,...", default_value = "0ms", value_parser = RttArgument::parse)]
    rtt: RttArgument,
    /// Where the bottleneck is.
    #[arg(long, value_enum, default_value_t = Topology::Edge)]
    topology: Topology,
    /// With `--topology leaf-spine`: number of sender racks.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    racks: usize,
    /// Rate of the switch port towards the receiver; `auto`: the highest of 1gbit, 500mbit and 200mbit that this machine
    /// sustains with spare CPU time; `none`: unlimited (guards are configured for 100gbit).
    #[arg(long, default_value = "1gbit", value_parser = RateArgument::parse)]
    rate: RateArgument,
    /// Buffer of that port.
    #[arg(long, value_name = "SIZE", default_value = "96KB", value_parser = parse_bytes)]
    buffer: u64,
    /// Burst of the port's token bucket. It adds to the buffer, so smaller is more realistic, as long as timers are precise enough.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    burst: Option<u64>,
    /// TSO, GSO and GRO on all interfaces.
    #[arg(long, value_enum, default_value_t = Switch::Off, num_args = 0..=1, default_missing_value = "on")]
    offloads: Switch,
    /// Senders' minimum retransmission timeout (kernel default: 200ms).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    rto_min: Option<Duration>,
    /// Receiver's minimum retransmission timeout (kernel default: 200ms).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    receiver_rto_min: Option<Duration>,
    /// Senders' initial congestion window in segments (kernel default: 10).
    #[arg(long, value_name = "SEGMENTS")]
    initial_window: Option<u32>,
    /// Enable delayed ACKs at the receiver; the papers disable them.
    #[arg(long)]
    delayed_ack: bool,
    /// Use ECN: hosts negotiate it, and the port marks. Implied by `--cc dctcp`.
    #[arg(long)]
    ecn: bool,
    /// Queue length above which the port marks. Default: 30KB, or a third of a smaller buffer. Implies --ecn.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    mark_at: Option<u64>,
}

#[derive(Args)]
pub(crate) struct Guarding {
    /// Guard to run at the receiver; hwatch and m21 also run on every sender host, rto runs only there.
    #[arg(long, value_name = "GUARD", value_parser = guard(), default_value = "none")]
    guard: String,
    /// Maximum time that the guard may hold an ACK.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_hold: Option<Duration>,
    /// Another program than this one to guard with; it is called as `ackgate run` is.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    guard_program: Option<PathBuf>,
    /// Additional arguments of `ackgate run`, after `--`.
    #[arg(last = true, value_name = "GUARD_ARGUMENTS")]
    guard_arguments: Vec<String>,
}

/// Reads the name of a guard of the lab: none, one of `ackgate run`, or M21TCP-A at the switch and all hosts.
fn guard() -> PossibleValuesParser {
    PossibleValuesParser::new(guards())
}

/// All that can guard in the lab.
fn guards() -> impl Iterator<Item = PossibleValue> {
    let none = PossibleValue::new("none").help("Leave the receiver alone");
    let m21 = PossibleValue::new("m21").help("M21TCP-A: the switch counts senders, and all hosts take part");
    std::iter::once(none).chain(run::guards()).chain(std::iter::once(m21))
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// On.
    On,
    /// Off: frames of at most 1514 bytes, as on a physical network.
    Off,
}

/// Where the bottleneck is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Topology {
    /// The switch port towards the receiver (PAC Fig. 5).
    Edge,
    /// The link between two switches, shared with a second receiving host (PAC Fig. 6).
    Core,
    /// The link from a spine to the receiver's leaf switch, with the senders in other racks (HWatch, Section VI).
    LeafSpine,
}

/// Base round-trip times of the sender hosts.
#[derive(Clone, PartialEq, Eq)]
enum RttArgument {
    /// The same for all.
    All(Duration),
    /// One for each host.
    Each(Vec<Duration>),
}

impl RttArgument {
    fn parse(text: &str) -> Result<Self, String> {
        let time = |text: &str| parse_time(text).map_err(|error| error.to_string());
        if !text.contains('@') {
            return time(text).map(Self::All);
        }
        let mut each = Vec::new();
        for group in text.split(',') {
            let (count, rtt) = group
                .split_once('@')
                .ok_or_else(|| format!("`{group}` names no number of hosts; write groups like \"9@0ms,3@20ms\""))?;
            let count: usize = count
                .parse()
                .ok()
                .filter(|count| (1..=testbed::MAX_HOSTS).contains(count))
                .ok_or_else(|| format!("`{count}` is no number of hosts from 1 to {}", testbed::MAX_HOSTS))?;
            each.extend(std::iter::repeat_n(time(rtt)?, count));
        }
        Ok(Self::Each(each))
    }
}

/// A rate, the wish that the machine decides, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RateArgument {
    Auto,
    Unlimited,
    Bits(u64),
}

impl RateArgument {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::Unlimited),
            _ => parse_rate(text).map(Self::Bits),
        }
    }
}

impl Network {
    /// Chooses the rate where that was left to the machine.
    fn settle(&self, lab: &mut Lab, ipv6: bool, stop: &AtomicBool) -> anyhow::Result<()> {
        if self.rate == RateArgument::Auto {
            lab.choose_rate(ipv6, stop)?;
        }
        Ok(())
    }

    fn spec(&self, cc: Option<&str>) -> Spec {
        let ecn = self.ecn || self.mark_at.is_some() || cc == Some(dctcp::NAME);
        let rate = match self.rate {
            RateArgument::Bits(rate) => rate,
            RateArgument::Auto => Spec::pac_edge().rate,
            RateArgument::Unlimited => UNLIMITED_RATE,
        };
        let (hosts, rtts) = self.hosts_and_rtts();
        let spec = Spec {
            hosts,
            rate,
            buffer: self.buffer,
            limited: self.rate != RateArgument::Unlimited,
            burst: self.burst.unwrap_or_else(|| Spec::burst_for(rate)),
            offloads: self.offloads == Switch::On,
            rto_min: self.rto_min,
            receiver_rto_min: self.receiver_rto_min,
            initial_window: self.initial_window,
            delayed_ack: self.delayed_ack,
            ecn,
            mark: self.mark_at.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            rtts,
            fabric: match self.topology {
                Topology::Edge => Fabric::Edge,
                Topology::Core => Fabric::Core,
                Topology::LeafSpine => Fabric::LeafSpine { racks: self.racks },
            },
            ..Spec::pac_edge()
        };
        Spec { mark: spec.mark.or_else(|| ecn.then(|| spec.usual_mark())), ..spec }
    }

    /// How many hosts there are, and their base round-trip times. Two numbers that differ are for [`Spec`] to refuse.
    fn hosts_and_rtts(&self) -> (usize, Vec<Duration>) {
        match &self.rtt {
            RttArgument::Each(rtts) => (self.hosts.unwrap_or(rtts.len()), rtts.clone()),
            RttArgument::All(rtt) => {
                let hosts = self.hosts.unwrap_or(Spec::pac_edge().hosts);
                (hosts, if rtt.is_zero() { Vec::new() } else { vec![*rtt; hosts] })
            }
        }
    }
}

impl Guarding {
    /// A guard with nothing else said.
    fn plain(guard: &str) -> Self {
        Self { guard: guard.into(), max_hold: None, guard_program: None, guard_arguments: Vec::new() }
    }

    fn config(&self) -> Option<GuardConfig> {
        (self.guard != "none").then(|| GuardConfig {
            program: self.guard_program.clone(),
            policy: self.guard.clone(),
            max_hold: self.max_hold,
            extra: self.guard_arguments.clone(),
        })
    }
}

/// Runs one of the lab's commands.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Incast(args) => incast(&args),
        Command::Pairs(args) => pairs::run(&args),
        Command::Ablation(args) => ablation::run(&args),
        Command::Mouse(args) => mouse::run(&args),
        Command::Harm(args) => harm::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Web(args) => web::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Up(args) => {
            if args.network.rate == RateArgument::Auto {
                return Err(Refused(anyhow::anyhow!("`lab up` needs a fixed --rate, not `auto`")).into());
            }
            let entry = Testbed::build_standing(args.network.spec(None), &args.name)?;
            describe(&entry)?;
            Ok(())
        }
        Command::Down { name } => Ok(testbed::down(&name)?),
        Command::Show => show(),
        Command::Clean { all } => clean(all),
    }
}

fn incast(args: &Incast) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let config = args.measurement.config();
    let json = args.measurement.json;
    let bar = progress_bar(u64::from(config.rounds), json);
    let mut lab = args.measurement.lab(&stop)?;
    let background =
        args.background.map(|rate| Background::start(lab.testbed(), rate, config.cc.as_deref())).transpose()?;
    let report = lab.run(&config, !args.no_ceiling, &stop, |progress| {
        if let Progress::Round(_) = progress {
            bar.inc(1);
        }
    });
    drop(background);
    bar.finish_and_clear();
    let report = report?;
    if json { print_json(&report) } else { Ok(facts(&report).print()?) }
}

fn facts(report: &IncastReport) -> Facts {
    let mut facts = Facts::default();
    facts
        .add("connections", format!("{} from {} hosts, {} bytes each", report.connections, report.hosts, report.bytes))
        .add("switch port", format!("{} Mb/s, {} bytes of buffer", report.rate_mbps, report.buffer))
        .add("senders", report.cc.clone())
        .add("guard", report.guard.clone());
    add_load(&mut facts, &report.load);
    facts.add(
        "ceiling",
        format!("{:.1} Mb/s without congestion, {:.1} by framing", report.ceiling_mbps, report.framing_limit_mbps),
    );
    facts.add("drops", format!("{} at the switch, {} in this machine", report.switch_drops, report.backlog_drops));
    if let (Some(held), Some(hold)) = (report.held_max, &report.hold_us) {
        facts.add("held", format!("at most {held} ACKs; p50 {} us, p99 {} us", hold["p50"], hold["p99"]));
    }
    facts.add("CPU, whole system", format!("{:.2} s, {:.2} s per GB", report.system_cpu_s, report.cpu_s_per_gb));
    if let Some(message) = &report.message {
        facts.add("note", message.clone());
    }
    facts
}

fn show() -> anyhow::Result<()> {
    let entries = testbed::entries();
    if entries.is_empty() {
        writeln!(io::stdout(), "no testbed stands; `ackgate lab up` builds one")?;
    }
    for entry in entries {
        describe(&entry)?;
    }
    Ok(())
}

/// A testbed's topology, and commands to enter it.
fn describe(entry: &Entry) -> io::Result<()> {
    let owner = match entry.owner {
        None => "left standing; remove it with `ackgate lab down".to_owned() + &format!(" {}`", entry.id),
        Some(owner) if owner.lives() => format!("in use by process {}", owner.pid),
        Some(owner) => format!("left by process {}, which is gone; remove it with `ackgate lab clean`", owner.pid),
    };
    let mut namespaces = entry.namespaces.iter();
    let (Some(receiver), Some(switch)) = (namespaces.next(), namespaces.next()) else { return Ok(()) };
    let part = |name: &str| name.rsplit('-').next().unwrap_or_default().to_owned();
    let (leaves, others): (Vec<&String>, Vec<&String>) = namespaces.partition(|name| part(name).starts_with("leaf"));
    let (beyond, senders): (Vec<&String>, Vec<&String>) =
        others.into_iter().partition(|name| ["far", "beside"].contains(&part(name).as_str()));
    let mut out = io::stdout().lock();
    writeln!(out, "testbed {} ({owner})", entry.id)?;
    writeln!(out, "  receiver  {receiver}  device {}  {}", entry.device, Testbed::receiver_address(false))?;
    writeln!(out, "  switch    {switch}  port to-recv is the bottleneck")?;
    if let [far, beside] = beyond[..] {
        writeln!(out, "  far       {far}  the second switch")?;
        writeln!(out, "  beside    {beside}  device {}  {}", entry.device, Testbed::beside_address(false))?;
    }
    for leaf in leaves {
        writeln!(out, "  leaf      {leaf}  port to-spine")?;
    }
    for (k, sender) in senders.iter().enumerate() {
        writeln!(out, "  sender    {sender}  device tx0  {}", Testbed::sender_address(k, false))?;
    }
    let Some(first) = senders.first() else { return Ok(()) };
    writeln!(out, "  try       ip netns exec {first} ackgate load serve &")?;
    writeln!(out, "            ip netns exec {receiver} ackgate run --dev {} --buffer 96KB &", entry.device)?;
    writeln!(
        out,
        "            ip netns exec {receiver} ackgate load pull {} -n 64",
        Testbed::sender_address(0, false)
    )?;
    writeln!(out, "            tc -n {switch} -s qdisc show dev to-recv")
}

fn clean(all: bool) -> anyhow::Result<()> {
    testbed::require_privilege()?;
    let removed = testbed::clean(all)?;
    let mut out = io::stdout().lock();
    if removed.is_empty() {
        writeln!(out, "nothing to clean")?;
    }
    for id in removed {
        writeln!(out, "removed testbed {id}")?;
    }
    Ok(())
}
