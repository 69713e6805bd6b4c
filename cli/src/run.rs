//! `ackgate run`: guards an interface in the foreground until Ctrl-C.

mod host;
mod scheme;
mod screen;

use std::os::fd::AsFd;
use std::time::Duration;

use crate::units::{parse_bytes, parse_rate, parse_time};
use ackgate_control::pac::{self, Config};
use ackgate_control::units::{Span, Time};
use ackgate_linux::{Guard, Options, Outcome, Snapshot, Summary};
use ackgate_linux::{attach, hold, route};
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::scheme::Scheme;
use self::screen::Screen;
use crate::exit::Refused;
use crate::stop;

/// What decides when an ACK may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    /// Proactive ACK Control; requests on kept connections wait like ACKs.
    Pac,
    /// Proactive ACK Control of ACKs alone, as the paper describes it.
    PacPublished,
    /// Exact credit: PAC's gate, with what senders may send told by the window instead of estimated.
    Credit,
    /// The window half of exact credit alone: nothing is held.
    WindowOnly,
    /// Requests and handshakes wait; ACKs are counted, but never wait.
    RequestsOnly,
    /// PAC to the letter: Algorithm 1 and Eq. 2 to 6, nothing else. In user space, as those below.
    PacLetter,
    /// ICTCP: windows by the bandwidth that is left (needs --rate where the link tells none).
    Ictcp,
    /// ACKs leave at a constant rate (PAC §II-D).
    Shaper,
    /// HWatch: probes before a SYN, windows by their marks. Run it at the other hosts as well.
    Hwatch,
}

/// What runs a policy.
#[derive(Clone, Copy, Debug)]
enum Runner {
    /// The fast path.
    Gate(pac::Guard),
    /// The generic host.
    Host(Scheme),
}

impl Policy {
    const fn runner(self) -> Runner {
        match self {
            Self::Pac => Runner::Gate(pac::Guard::Pac),
            Self::PacPublished => Runner::Gate(pac::Guard::PacPublished),
            Self::Credit => Runner::Gate(pac::Guard::Credit),
            Self::WindowOnly => Runner::Gate(pac::Guard::WindowOnly),
            Self::RequestsOnly => Runner::Gate(pac::Guard::RequestsOnly),
            Self::PacLetter => Runner::Host(Scheme::PacLetter),
            Self::Ictcp => Runner::Host(Scheme::Ictcp),
            Self::Shaper => Runner::Host(Scheme::Shaper),
            Self::Hwatch => Runner::Host(Scheme::Hwatch),
        }
    }
}

/// The switch port's buffer, or the wish to do without knowing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    Auto,
    Bytes(u64),
}

impl Buffer {
    /// The most that `auto` ever puts in flight.
    const AUTO_CAP: u64 = 4 << 20;

    fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            Ok(Self::Auto)
        } else {
            parse_bytes(text).map(Self::Bytes).map_err(|error| error.to_string())
        }
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::Auto => Self::AUTO_CAP,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// How held ACKs leave the kernel's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HoldChoice {
    /// The cheapest that this host supports.
    Auto,
    /// Copied to a BPF ring buffer.
    Ring,
    /// Redirected to a virtual device that the daemon reads.
    Redirect,
    /// Left in the kernel, in a netfilter queue (needs iptables).
    Nfqueue,
}

/// How the programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AttachChoice {
    /// tcx where the kernel has it, else clsact.
    Auto,
    /// tcx links (Linux 6.6).
    Tcx,
    /// Filters on a clsact qdisc.
    Clsact,
}

impl AttachChoice {
    const fn choice(self) -> attach::Choice {
        match self {
            Self::Auto => attach::Choice::Auto,
            Self::Tcx => attach::Choice::Tcx,
            Self::Clsact => attach::Choice::Clsact,
        }
    }
}

/// Arguments of `ackgate run`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Interface to guard. Without it: the default route's.
    #[arg(long, value_name = "INTERFACE")]
    dev: Option<String>,

    /// Buffer of the switch port in front of this host, in bytes or for example 96KB; `auto` searches for the smallest
    /// budget that keeps the link busy.
    #[arg(long, value_name = "SIZE", value_parser = Buffer::parse, overrides_with = "buffer", default_value = "auto")]
    buffer: Buffer,

    /// Rate of that port, for example 1gbit: tells how long bytes may still be queued there before they count as lost.
    /// Without it: the rate of the interface's link, where there is one.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<u64>,

    /// Leave no ACK out. Exact credit does not send those that the next one makes superfluous.
    #[arg(long)]
    every_ack: bool,

    /// Longest time that an ACK is held. Keep it below the senders' least retransmission timeout (200ms on Linux).
    /// Without it: 150ms for PAC, 100ms for exact credit.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_hold: Option<Duration>,

    /// Segments that a sender puts in flight on a new connection.
    #[arg(long, value_name = "SEGMENTS", default_value_t = 10)]
    initial_window: u32,

    /// Budget to collect before held ACKs are released; 0 releases each as soon as it may leave, which costs more CPU.
    /// Without it: a sixteenth of the buffer.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    batch: Option<u64>,

    /// What decides when an ACK may leave.
    #[arg(long, value_enum, default_value = "credit", overrides_with = "guard")]
    guard: Policy,

    /// A parameter of pac-letter, ictcp, shaper or hwatch, as in a scenario: ictcp.gamma2=0.15 (`ackgate sim keys` lists them).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,

    /// Base round-trip time of the paths, for hwatch: its probes go out in half of it, before each SYN. Without it: 500us.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    rtt: Option<Duration>,

    /// How held ACKs leave the kernel's path.
    #[arg(long, value_enum, default_value = "auto")]
    hold: HoldChoice,

    /// How the BPF programs are attached to the interface.
    #[arg(long, value_enum, default_value = "auto")]
    attach: AttachChoice,

    /// Have the kernel measure the BPF programs' run time per packet, which itself costs a little.
    #[arg(long)]
    bpf_stats: bool,

    /// Print one JSON object per line: `ready`, a `sample` each second, and at the end a `summary`.
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    /// The device is guarded from now on.
    Ready { device: &'a str, guard: Policy, buffer: u64, rate_mbps: Option<u64>, hold: &'a str },
    /// How things stand; counters count from the start.
    Sample(Snapshot),
    /// The guard is off.
    Summary(&'a Summary),
}

/// Guards until SIGINT or SIGTERM.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let place = Place::choose(arguments)?;
    match arguments.guard.runner() {
        Runner::Gate(guard) => gate(arguments, &place, guard),
        Runner::Host(scheme) => host::run(arguments, &place, scheme),
    }
}

fn gate(arguments: &Arguments, place: &Place, guard: pac::Guard) -> anyhow::Result<()> {
    let stop = stop::descriptor()?;
    let mut guard = Guard::start(options(arguments, place, guard)?)?;
    let mut screen = Screen::new(arguments.json);
    ready(&mut screen, arguments, place, guard.back_end())?;
    let mut last = (ackgate_linux::now(), Snapshot::default());
    let mut next = ackgate_linux::now();
    loop {
        next += Span::secs(1);
        match guard.run(next.max(ackgate_linux::now()), stop.as_fd())? {
            Outcome::Deadline => sample(&mut screen, &mut last, guard.snapshot(), next)?,
            Outcome::Stopped => break,
        }
    }
    summary(&mut screen, place, &guard.stop())
}

/// The interface and the port in front of it: what was said, or what this host says.
struct Place {
    device: String,
    /// Nobody named it.
    by_route: bool,
    /// Rate of the port in Mb/s, when it is known.
    rate_mbps: Option<u64>,
    /// Nobody gave it.
    by_link: bool,
}

impl Place {
    fn choose(arguments: &Arguments) -> anyhow::Result<Self> {
        let device = match &arguments.dev {
            Some(device) => device.clone(),
            None => route::default_device().ok_or_else(|| {
                Refused(anyhow::anyhow!(
                    "there is no default route here whose interface could be guarded; name one with --dev (`ip link` lists \
                     those there are)"
                ))
            })?,
        };
        let rate_mbps = match arguments.rate {
            Some(rate) => Some(rate.div_ceil(1_000_000)),
            None => route::link_mbps(&device),
        };
        Ok(Self { device, by_route: arguments.dev.is_none(), rate_mbps, by_link: arguments.rate.is_none() })
    }

    /// What was taken, and why.
    fn told(&self, buffer: Buffer) -> String {
        let device = format!("{}{}", self.device, if self.by_route { " (the default route's interface)" } else { "" });
        let rate = match (self.rate_mbps, self.by_link) {
            (Some(rate), true) => format!("rate {rate} Mb/s (the link's)"),
            (Some(rate), false) => format!("rate {rate} Mb/s"),
            (None, _) => "rate not known (the link tells none)".into(),
        };
        let buffer = match buffer {
            Buffer::Auto => "buffer auto (searched for)".into(),
            Buffer::Bytes(bytes) => format!("buffer {bytes} bytes"),
        };
        format!("{device}: {buffer}, {rate}")
    }
}

fn refuse(message: String) -> anyhow::Error {
    Refused(anyhow::anyhow!(message)).into()
}

fn options(arguments: &Arguments, place: &Place, guard: pac::Guard) -> anyhow::Result<Options> {
    if !arguments.changes.is_empty() || arguments.rtt.is_some() {
        return Err(refuse(format!(
            "--set and --rtt are for guards in user space (pac-letter, ictcp, shaper, hwatch), not for {}",
            name(arguments.guard)
        )));
    }
    let buffer = arguments.buffer.bytes();
    let defaults = Config::of(guard, buffer);
    let max_hold = arguments
        .max_hold
        .map_or(defaults.max_hold, |hold| u64::try_from(hold.as_nanos()).map_or(Span(u64::MAX), Span));
    let mut options = Options::new(&place.device, buffer);
    options.pac = Config {
        max_hold,
        initial_window: arguments.initial_window,
        rate_mbps: place.rate_mbps.unwrap_or(0),
        auto: arguments.buffer == Buffer::Auto,
        thin_acks: defaults.thin_acks && !arguments.every_ack,
        ..defaults
    };
    options.pac.validate().map_err(|error| refuse(error.to_string()))?;
    if let (Some(rate), Buffer::Bytes(_)) = (arguments.rate, arguments.buffer) {
        let drain = ackgate_control::units::Rate(rate).time_for(buffer);
        if max_hold < drain {
            return Err(refuse(format!(
                "--max-hold {max_hold} is shorter than the {drain} that the port takes to send its buffer of {} bytes; ACKs \
                 would be released into a full buffer",
                buffer
            )));
        }
    }
    if let Some(batch) = arguments.batch {
        if batch > buffer / 2 {
            return Err(refuse(format!("--batch {batch} is more than half the buffer of {} bytes", buffer)));
        }
        options.batch = Some(batch);
    }
    options.hold = match arguments.hold {
        HoldChoice::Auto => hold::Choice::Auto,
        HoldChoice::Ring => hold::Choice::Ring,
        HoldChoice::Redirect => hold::Choice::Redirect,
        HoldChoice::Nfqueue => hold::Choice::NfQueue,
    };
    options.attach = arguments.attach.choice();
    options.bpf_stats = arguments.bpf_stats;
    Ok(options)
}

/// What `--guard` calls it.
fn name(policy: Policy) -> String {
    policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn ready(screen: &mut Screen, arguments: &Arguments, place: &Place, back_end: &str) -> anyhow::Result<()> {
    if screen.json() {
        return screen.event(&Event::Ready {
            device: &place.device,
            guard: arguments.guard,
            buffer: arguments.buffer.bytes(),
            rate_mbps: place.rate_mbps,
            hold: back_end,
        });
    }
    let told = place.told(arguments.buffer);
    screen.line(&format!("guarding {told}, hold back-end {back_end}; Ctrl-C stops"))
}

fn sample(screen: &mut Screen, last: &mut (Time, Snapshot), now: Snapshot, time: Time) -> anyhow::Result<()> {
    if screen.json() {
        return screen.event(&Event::Sample(now));
    }
    let rate = per_second(now.released - last.1.released, last.0, time);
    *last = (time, now);
    screen.live(&format!(
        "{:>5} senders  {:>9} of {} bytes in flight  {:>5} held  {rate:>7} released/s",
        now.senders, now.in_flight, now.threshold, now.held
    ))
}

fn per_second(count: u64, from: Time, to: Time) -> u128 {
    u128::from(count) * 1_000_000_000 / u128::from(to.since(from).0.max(1))
}

fn summary(screen: &mut Screen, place: &Place, summary: &Summary) -> anyhow::Result<()> {
    if screen.json() {
        return screen.event(&Event::Summary(summary));
    }
    let Summary { released, forced, passed, held_max, hold_us, .. } = summary;
    screen.line(&format!(
        "{} is as it was. {passed} segments passed at once, {released} were held ({held_max} at most at once,",
        place.device
    ))?;
    screen.line(&format!(
        "for {} us in the median, {} us at the 99th percentile), {forced} of them as long as allowed.",
        hold_us.p50, hold_us.p99
    ))?;
    let programs = [("ingress", summary.bpf_ingress), ("egress", summary.bpf_egress)];
    for (name, cost) in programs.iter().filter_map(|(name, cost)| cost.map(|cost| (name, cost))) {
        screen.line(&format!("The {name} program took {} ns per packet.", cost.ns_per_packet))?;
    }
    Ok(())
}
