//! What can be set of a device's guard: the options of `ackgate run`, and the keys of a device in a file of settings.

use std::time::Duration;

use ackgate_control::gate::{self, Config};
use ackgate_control::units::Span;
use ackgate_linux::{Follow, Options, Rule, Selection, attach, hold};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::place::Place;
use super::refuse;
use super::scheme::Scheme;
use crate::units::{parse_bytes, parse_rate, parse_time};

/// What decides when an ACK may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Policy {
    /// Proactive ACK Control; requests on persistent connections are held like ACKs.
    Pac,
    /// Proactive ACK Control as the paper describes it: only ACKs are held.
    PacPublished,
    /// Exact credit: senders are limited by the advertised window, and what they may send is counted instead of estimated.
    Credit,
    /// Only the window half of exact credit: windows are lowered, nothing is held.
    WindowOnly,
    /// Requests and handshakes are held; ACKs are counted, but never held.
    RequestsOnly,
    /// PAC to the letter: Algorithm 1 and Eq. 2 to 6 only. In user space, like all schemes below.
    PacLetter,
    /// ICTCP: windows sized by the available bandwidth (needs --rate if the link reports none).
    Ictcp,
    /// ACK shaper: sends ACKs at a constant rate (PAC §II-D).
    Shaper,
    /// HWatch: sends probes before each SYN and sizes windows by the number of CE marks on them. Must run on the peers as well.
    Hwatch,
    /// Fine-grained timeouts beside TCP's: retransmits the first unacknowledged segment. For sending hosts.
    Rto,
}

/// Every guard by its name, with what it is.
pub(crate) fn guards() -> impl Iterator<Item = PossibleValue> {
    Policy::value_variants().iter().filter_map(ValueEnum::to_possible_value)
}

/// What runs a policy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Runner {
    /// The fast path.
    Gate(gate::Guard),
    /// The generic host.
    Host(Scheme),
}

impl Policy {
    pub(super) const fn runner(self) -> Runner {
        match self {
            Self::Pac => Runner::Gate(gate::Guard::Pac),
            Self::PacPublished => Runner::Gate(gate::Guard::PacPublished),
            Self::Credit => Runner::Gate(gate::Guard::Credit),
            Self::WindowOnly => Runner::Gate(gate::Guard::WindowOnly),
            Self::RequestsOnly => Runner::Gate(gate::Guard::RequestsOnly),
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
pub(super) enum Buffer {
    Auto,
    Bytes(u64),
}

impl Buffer {
    /// The most that `auto` ever puts in flight.
    const AUTO_CAP: u64 = 4 << 20;

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            Ok(Self::Auto)
        } else {
            parse_bytes(text).map(Self::Bytes).map_err(|error| error.to_string())
        }
    }

    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Auto => Self::AUTO_CAP,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The switch port's rate, or the wish to do without knowing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortRate {
    Unknown,
    /// Bits per second.
    Bits(u64),
}

impl PortRate {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "unknown" { Ok(Self::Unknown) } else { parse_rate(text).map(Self::Bits) }
    }
}

/// For how long to step aside at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepAside {
    Never,
    For(Duration),
}

impl StepAside {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
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
    pub(super) fn span(self) -> Option<Span> {
        match self {
            Self::Never => None,
            Self::For(time) => Some(u64::try_from(time.as_nanos()).map_or(Span(u64::MAX), Span)),
        }
    }
}

/// How ACKs are held: how they are taken off the kernel's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HoldChoice {
    /// The cheapest one that this host supports.
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
    /// tcx if the kernel supports it, else clsact.
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

/// From when on connections are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FollowChoice {
    /// From the start: guards the first burst, and takes processor time for each segment.
    Always,
    /// Once segments are lost, until nothing was held or lost for ten minutes: costs nothing otherwise, and does not guard the burst
    /// that is lost first.
    AfterLoss,
}

impl FollowChoice {
    const fn follow(self) -> Follow {
        match self {
            Self::Always => Follow::Always,
            Self::AfterLoss => Follow::AfterLoss,
        }
    }
}

/// How long exact credit steps aside at first.
const USUAL_PAUSE: Duration = Duration::from_secs(30);

/// Settings of a device's guard.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Buffer of the switch port that this host is connected to, in bytes or for example 96KB; with `auto`, ackgate looks for
    /// the smallest budget that keeps the link busy.
    #[arg(long, value_name = "SIZE", value_parser = Buffer::parse, overrides_with = "buffer", default_value = "auto")]
    pub(super) buffer: Buffer,

    /// Rate of that port, for example 1gbit; it determines how long bytes may be queued there before they count as lost.
    /// With `unknown`, the link rate that the interface reports is ignored. Default: that link rate, if any.
    #[arg(long, value_name = "RATE", value_parser = PortRate::parse, overrides_with = "rate")]
    pub(super) rate: Option<PortRate>,

    /// Disable ACK thinning: send every ACK. By default exact credit omits ACKs that the next one covers.
    #[arg(long)]
    pub(super) every_ack: bool,

    /// Maximum time that an ACK may be held. Keep it below the senders' minimum RTO (200ms on Linux). Default: 150ms.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) max_hold: Option<Duration>,

    /// The senders' initial window, in segments.
    #[arg(long, value_name = "SEGMENTS", default_value_t = 10)]
    pub(super) initial_window: u32,

    /// Free budget to wait for before held ACKs are released; 0 releases each one as soon as possible, which costs more CPU.
    /// Default: a sixteenth of the buffer.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) batch: Option<u64>,

    /// The scheme that decides when an ACK may be sent.
    #[arg(long, value_enum, default_value = "credit", overrides_with = "guard")]
    pub(super) guard: Policy,

    /// A parameter of pac-letter, ictcp, shaper or hwatch, as in a scenario: ictcp.gamma2=0.15 (`ackgate sim keys` lists them).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) changes: Vec<String>,

    /// For hwatch: base round-trip time of the paths; the probes before each SYN are sent within half of it. Default: 500us.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) rtt: Option<Duration>,

    /// For rto: the minimum timeout. Default: 2ms.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) rto_floor: Option<Duration>,

    /// How held ACKs leave the kernel's path.
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) hold: HoldChoice,

    /// How the BPF programs are attached to the interface.
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) attach: AttachChoice,

    /// Pause for this long when guarding seems to do harm, and longer each time that it recurs; with `never`, keep guarding.
    /// Default: 30s for exact credit, `never` for the other guards.
    #[arg(long, value_name = "TIME", value_parser = StepAside::parse)]
    pub(super) step_aside: Option<StepAside>,

    /// From when on to follow connections. Default: always if the port's buffer or rate is given, else after-loss.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(super) follow: Option<FollowChoice>,

    /// Observe only: make the same decisions, but hold, omit and rewrite nothing; report at the end whether guarding would
    /// help.
    #[arg(long, conflicts_with_all = ["hold", "batch"])]
    pub(super) observe: bool,

    /// Measure the BPF programs' run time per packet; this adds a small overhead.
    #[arg(long)]
    pub(super) bpf_stats: bool,

    /// The most frames held at once; further ones pass. A small number shows what happens then.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..), hide = true)]
    pub(super) max_held: Option<u32>,

    /// Exempt these connections: by the peer's address (10.0.0.0/8, fd00::/8), by a port at either end ("port 22",
    /// "port 8000-8080"), or by the control group of the local socket ("cgroup /system.slice/nginx.service"). May be given several times.
    #[arg(long, value_name = "RULE")]
    pub(super) exclude: Vec<Rule>,

    /// Guard only connections that one of these rules matches. May be given several times.
    #[arg(long, value_name = "RULE")]
    pub(super) include: Vec<Rule>,
}

impl Settings {
    /// What the fast path is to do at a place.
    ///
    /// # Errors
    /// When the settings make no sense together.
    pub(super) fn options(&self, place: &Place, guard: gate::Guard) -> anyhow::Result<Options> {
        if !self.changes.is_empty() || self.rtt.is_some() || self.rto_floor.is_some() {
            return Err(refuse(format!(
                "--set, --rtt and --rto-floor are for guards in user space (pac-letter, ictcp, shaper, hwatch, rto), not for {}",
                self.guard_name()
            )));
        }
        let buffer = self.buffer.bytes();
        let defaults = Config::of(guard, buffer);
        let max_hold =
            self.max_hold.map_or(defaults.max_hold, |hold| u64::try_from(hold.as_nanos()).map_or(Span(u64::MAX), Span));
        let mut options = Options::new(&place.device, buffer);
        options.gate = Config {
            max_hold,
            own_timer: lowered_timer(),
            initial_window: self.initial_window,
            rate_mbps: place.rate_mbps.unwrap_or(0),
            auto: self.buffer == Buffer::Auto,
            thin_acks: defaults.thin_acks && !self.every_ack,
            max_held: self.max_held.unwrap_or(defaults.max_held),
            ..defaults
        };
        options.gate.validate().map_err(|error| refuse(error.to_string()))?;
        if let (Some(PortRate::Bits(rate)), Buffer::Bytes(_)) = (self.rate, self.buffer) {
            let drain = ackgate_control::units::Rate(rate).time_for(buffer);
            if max_hold < drain {
                return Err(refuse(format!(
                    "--max-hold {max_hold} is shorter than the {drain} that the port takes to send its buffer of {} bytes; ACKs \
                     would be released into a full buffer",
                    buffer
                )));
            }
        }
        if let Some(batch) = self.batch {
            if batch > buffer / 2 {
                return Err(refuse(format!("--batch {batch} is more than half the buffer of {} bytes", buffer)));
            }
            options.batch = Some(batch);
        }
        options.hold = match self.hold {
            HoldChoice::Auto => hold::Choice::Auto,
            HoldChoice::Ring => hold::Choice::Ring,
            HoldChoice::Redirect => hold::Choice::Redirect,
            HoldChoice::Nfqueue => hold::Choice::NfQueue,
        };
        options.attach = self.attach.choice();
        options.bpf_stats = self.bpf_stats;
        let usual = if self.guard == Policy::Credit { StepAside::For(USUAL_PAUSE) } else { StepAside::Never };
        options.step_aside = self.step_aside.unwrap_or(usual).span();
        options.follow = self.follow();
        options.observe = self.observe;
        options.selection = Selection { exclude: self.exclude.clone(), include: self.include.clone() };
        Ok(options)
    }

    /// From when on connections are followed: whoever tells of the port wants each burst guarded.
    fn follow(&self) -> Follow {
        let told = matches!(self.buffer, Buffer::Bytes(_)) || matches!(self.rate, Some(PortRate::Bits(_)));
        match self.follow {
            Some(choice) => choice.follow(),
            None if told => Follow::Always,
            None => Follow::AfterLoss,
        }
    }

    /// What `guard` is called.
    pub(super) fn guard_name(&self) -> String {
        self.guard.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The least retransmission timeout of this host's TCP where the sysctl has lowered it from the usual 200 ms; routes and sockets may
/// set others, which show when they fire.
fn lowered_timer() -> Span {
    const USUAL: Duration = Duration::from_millis(200);
    let lowered = ackgate_linux::rto::sysctl().filter(|&floor| floor < USUAL);
    lowered.map_or(Span::ZERO, |floor| Span(u64::try_from(floor.as_nanos()).unwrap_or(u64::MAX)))
}
