//! `ackgate run`: guards an interface in the foreground until Ctrl-C.

mod host;
mod publish;
mod scheme;
mod screen;
mod service;
mod wait;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::units::{parse_bytes, parse_rate, parse_time};
use ackgate_control::pac::{self, Config};
use ackgate_control::units::{Span, Time};
use ackgate_linux::{Error, Guard, Notice, Options, Outcome, Snapshot, Summary};
use ackgate_linux::{attach, hold, route};
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::publish::{Identity, Publisher};
use self::scheme::Scheme;
pub(crate) use self::screen::Screen;
use crate::exit::Refused;
use crate::output::{self, Wait};
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
    /// Fine-grained timeouts beside TCP's: the first unacknowledged segment is sent again. On sending hosts.
    Rto,
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
            Self::Rto => Runner::Host(Scheme::Rto),
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

/// For how long to step aside at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepAside {
    Never,
    For(Duration),
}

impl StepAside {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        match parse_time(text) {
            Ok(time) if time >= Duration::from_secs(1) => Ok(Self::For(time)),
            Ok(_) => Err("less than 1s is no time to see whether it is better without".into()),
            Err(error) => Err(format!("{error}, or `never`")),
        }
    }

    /// As the guard wants it.
    fn span(self) -> Option<Span> {
        match self {
            Self::Never => None,
            Self::For(time) => Some(u64::try_from(time.as_nanos()).map_or(Span(u64::MAX), Span)),
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
pub(crate) enum AttachChoice {
    /// tcx where the kernel has it, else clsact.
    Auto,
    /// tcx links (Linux 6.6).
    Tcx,
    /// Filters on a clsact qdisc.
    Clsact,
}

impl AttachChoice {
    pub(crate) const fn choice(self) -> attach::Choice {
        match self {
            Self::Auto => attach::Choice::Auto,
            Self::Tcx => attach::Choice::Tcx,
            Self::Clsact => attach::Choice::Clsact,
        }
    }
}

/// How long exact credit steps aside at first.
const USUAL_PAUSE: Duration = Duration::from_secs(30);

/// Where metrics are served when no address is given.
const METRICS: &str = "127.0.0.1:9477";

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

    /// The least timeout, for rto. Without it: 2ms.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    rto_floor: Option<Duration>,

    /// How held ACKs leave the kernel's path.
    #[arg(long, value_enum, default_value = "auto")]
    hold: HoldChoice,

    /// How the BPF programs are attached to the interface.
    #[arg(long, value_enum, default_value = "auto")]
    attach: AttachChoice,

    /// Frames held at once at most; what comes beyond passes. Small for trying what then happens.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..), hide = true)]
    max_held: Option<u32>,

    /// Wait for the interface where it is not there or down, also when it goes and comes back later. Without it: refuse to
    /// start, and end with exit code 1.
    #[arg(long)]
    wait: bool,

    /// When guarding seems to do harm, step aside for this long at first, longer each time that it recurs; `never` to guard on.
    /// Without it: 30s for exact credit, never for the others, which are for comparison.
    #[arg(long, value_name = "TIME", value_parser = StepAside::parse)]
    step_aside: Option<StepAside>,

    /// Only look: account and decide as ever, but hold, leave out and rewrite nothing; say at the end whether guarding would
    /// help.
    #[arg(long, conflicts_with_all = ["hold", "batch"])]
    observe: bool,

    /// Serve metrics (OpenMetrics, for Prometheus) at http://ADDRESS/metrics; without an address on the loopback interface only.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = METRICS)]
    metrics: Option<SocketAddr>,

    /// Have the kernel measure the BPF programs' run time per packet, which itself costs a little.
    #[arg(long)]
    bpf_stats: bool,

    /// Print one JSON object per line: `ready`, a `sample` each second, a `notice` of what is out of order, and at the end a
    /// `summary`.
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    /// The device is guarded from now on.
    Ready { device: &'a str, guard: Policy, buffer: u64, rate_mbps: Option<u64>, hold: &'a str, observe: bool },
    /// How things stand; counters count from the start.
    Sample(Snapshot),
    /// Something is out of order; the text says what, and what to do.
    Notice {
        #[serde(flatten)]
        notice: &'a Notice,
        text: String,
    },
    /// The guard is off.
    Summary(&'a Summary),
}

/// Guards until SIGINT, SIGTERM or SIGHUP.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.guard.runner() {
        Runner::Gate(guard) => gate(arguments, guard),
        Runner::Host(scheme) => host::run(arguments, &Place::choose(arguments)?, scheme),
    }
}

/// Guards by the fast path.
fn gate(arguments: &Arguments, policy: pac::Guard) -> anyhow::Result<()> {
    let stop = stop::of_a_guard()?;
    let mut screen = Screen::new(arguments.json);
    let done = loop {
        let place = Place::choose(arguments)?;
        let options = options(arguments, &place, policy)?;
        let started = if arguments.wait { wait::start(&options, &stop)? } else { Some(Guard::start(options)?) };
        let Some(guard) = started else { break Ok(()) };
        match guard_until_stopped(guard, &stop, arguments, &place, &mut screen) {
            Err(error) if arguments.wait && matches!(error.downcast_ref(), Some(Error::Gone(_))) => {
                output::say(&error.to_string());
            }
            done => break done,
        }
    };
    let written = screen.finish();
    done?;
    written
}

/// Guards until `stop` is readable, or until there is nothing to guard any more.
fn guard_until_stopped(
    mut guard: Guard,
    stop: &UnixStream,
    arguments: &Arguments,
    place: &Place,
    screen: &mut Screen,
) -> anyhow::Result<()> {
    let identity = Identity {
        device: place.device.clone(),
        guard: name(arguments.guard),
        buffer: arguments.buffer.bytes(),
        rate_mbps: place.rate_mbps,
        hold: guard.back_end().to_owned(),
        observe: arguments.observe,
    };
    let publisher = Publisher::start(&guard, identity, arguments.metrics)?;
    ready(screen, arguments, place, guard.back_end());
    let mut last = (ackgate_linux::now(), Snapshot::default());
    let mut next = last.0;
    let end = loop {
        next += Span::secs(1);
        match guard.run(next.max(ackgate_linux::now()), stop.as_fd()) {
            Ok(Outcome::Deadline) => {
                let (snapshot, notices) = (guard.snapshot(), guard.notices());
                publisher.update(snapshot, &notices);
                service::alive();
                sample(screen, arguments, &mut last, snapshot, next);
                notices.iter().for_each(|told| notice(screen, told));
            }
            Ok(Outcome::Stopped) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    drop(publisher);
    service::stopping();
    summary(screen, place, &guard.stop());
    end
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

/// The least retransmission timeout of this host's TCP where the sysctl has lowered it from the usual 200 ms; routes and sockets may
/// set others, which show when they fire.
fn lowered_timer() -> Span {
    const USUAL: Duration = Duration::from_millis(200);
    let lowered = ackgate_linux::rto::sysctl().filter(|&floor| floor < USUAL);
    lowered.map_or(Span::ZERO, |floor| Span(u64::try_from(floor.as_nanos()).unwrap_or(u64::MAX)))
}

fn options(arguments: &Arguments, place: &Place, guard: pac::Guard) -> anyhow::Result<Options> {
    if !arguments.changes.is_empty() || arguments.rtt.is_some() || arguments.rto_floor.is_some() {
        return Err(refuse(format!(
            "--set, --rtt and --rto-floor are for guards in user space (pac-letter, ictcp, shaper, hwatch, rto), not for {}",
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
        own_timer: lowered_timer(),
        initial_window: arguments.initial_window,
        rate_mbps: place.rate_mbps.unwrap_or(0),
        auto: arguments.buffer == Buffer::Auto,
        thin_acks: defaults.thin_acks && !arguments.every_ack,
        max_held: arguments.max_held.unwrap_or(defaults.max_held),
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
    let usual = if arguments.guard == Policy::Credit { StepAside::For(USUAL_PAUSE) } else { StepAside::Never };
    options.step_aside = arguments.step_aside.unwrap_or(usual).span();
    options.observe = arguments.observe;
    Ok(options)
}

/// What `--guard` calls it.
fn name(policy: Policy) -> String {
    policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn ready(screen: &mut Screen, arguments: &Arguments, place: &Place, back_end: &str) {
    let told = place.told(arguments.buffer);
    let doing = if arguments.observe { "observing" } else { "guarding" };
    service::ready(&format!("{doing} {told}"));
    if screen.json() {
        let ready = Event::Ready {
            device: &place.device,
            guard: arguments.guard,
            buffer: arguments.buffer.bytes(),
            rate_mbps: place.rate_mbps,
            hold: back_end,
            observe: arguments.observe,
        };
        return screen.event(&ready, Wait::Never);
    }
    let how = if arguments.observe { "nothing is held or changed".into() } else { format!("hold back-end {back_end}") };
    let separator = if arguments.observe { ";" } else { "," };
    screen.line(&format!("{doing} {told}{separator} {how}; Ctrl-C stops"), Wait::Never);
}

fn sample(screen: &mut Screen, arguments: &Arguments, last: &mut (Time, Snapshot), now: Snapshot, time: Time) {
    if screen.json() {
        return screen.event(&Event::Sample(now), Wait::Never);
    }
    let rate = per_second(now.released.saturating_sub(last.1.released), last.0, time);
    *last = (time, now);
    let line = if arguments.observe {
        let Snapshot { senders, arrivals, lost_segments, would_hold, .. } = now;
        format!(
            "{senders:>5} senders  {arrivals:>9} arrived  {lost_segments:>7} lost  {would_hold:>9} would have been held"
        )
    } else {
        format!(
            "{:>5} senders  {:>9} of {} bytes in flight  {:>5} held  {rate:>7} released/s",
            now.senders, now.in_flight, now.threshold, now.held
        )
    };
    screen.live(&line);
}

fn per_second(count: u64, from: Time, to: Time) -> u128 {
    u128::from(count) * 1_000_000_000 / u128::from(to.since(from).0.max(1))
}

fn notice(screen: &mut Screen, notice: &Notice) {
    if screen.json() {
        return screen.event(&Event::Notice { notice, text: notice.to_string() }, Wait::Never);
    }
    screen.end_live();
    output::say(&notice.to_string());
}

fn summary(screen: &mut Screen, place: &Place, summary: &Summary) {
    if screen.json() {
        return screen.event(&Event::Summary(summary), Wait::Briefly);
    }
    if let Some(observed) = &summary.observed {
        return screen.line(&format!("{}: {}.", place.device, observed.advice), Wait::Briefly);
    }
    let Summary { released, forced, passed, held_max, hold_us, .. } = summary;
    let mut text = format!(
        "{} is no longer guarded. {passed} segments passed at once. {released} were held, {held_max} at most at the same time, \
         for\n{} us in the median and {} us at the 99th percentile; {forced} of them left because the longest hold was over.",
        place.device, hold_us.p50, hold_us.p99
    );
    let programs = [("ingress", summary.bpf_ingress), ("egress", summary.bpf_egress)];
    for (name, cost) in programs.iter().filter_map(|(name, cost)| cost.map(|cost| (name, cost))) {
        text += &format!("\nThe {name} program took {} ns per packet.", cost.ns_per_packet);
    }
    screen.line(&text, Wait::Briefly);
}
