//! What an operator or an experiment may set. Defaults are PAC's (Table I, Table II) or, where the paper is silent,
//! explained beside the field.

use crate::decision::Settings;
use crate::error::ConfigError;
use crate::units::Span;

/// Most priority levels of the multi-level feedback queue.
pub const MAX_LEVELS: usize = 8;

/// A full Ethernet frame without FCS: what the smallest sensible threshold is counted in.
pub const FULL_FRAME: u64 = 1514;

/// How a slow-starting sender grows with each ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Growth {
    /// One MSS per ACK, as PAC Eq. 3 has it (RFC 5681 with L = 1).
    PerAck,
    /// By the bytes acknowledged, as Linux does and as RFC 3465 allows. Equal to `PerAck` when every segment is
    /// acknowledged; larger for ACKs of aggregates (GRO) and for delayed ACKs.
    #[default]
    PerByte,
}

/// What is done about requests on idle, kept connections, whose response starts with the sender's whole kept window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Requests {
    /// Nothing: PAC as published sees ACKs only.
    Ignore,
    /// Charged by what the response is expected to burst, but never held.
    Charge,
    /// Charged, and held like an ACK when the budget is used up.
    #[default]
    Gate,
}

/// What may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Hold {
    /// Nothing: with exact credit, only windows are lowered.
    Nothing,
    /// Requests and handshakes: what wakes an idle sender.
    Requests,
    /// Whatever triggers data.
    #[default]
    All,
}

/// Where round-trip times come from (PAC §IV-A, "Get Fine-Grained RTT").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RttMethod {
    /// The handshake's round trip plus the delay that holding adds: the paper's default.
    #[default]
    Handshake,
    /// The time from a TSval's first use to its first echo (RFC 7323). No rewriting of TSval to microseconds, as the
    /// paper does, is needed for that: it is the instant of use that is timed, not the value.
    Timestamps,
}

/// How it is known what a release triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prices {
    /// Estimated from a model of the sender's congestion window: PAC (Eq. 3; `core/pac.h`).
    #[default]
    Estimated,
    /// Counted by the advertised right edge, and windows are lowered to the flow's share: exact credit (`core/credit.h`).
    Exact,
}

/// The guards, by the names that the command line and scenario files have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// PAC; requests on kept connections wait like ACKs, windows are bounded.
    Pac,
    /// PAC of ACKs alone, as the paper describes it.
    PacPublished,
    /// Exact credit.
    Credit,
    /// The window half of exact credit alone: nothing is held.
    WindowOnly,
    /// Requests and handshakes wait; ACKs are counted, but never wait.
    RequestsOnly,
}

/// The gate's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The switch port's buffer in bytes: the initial threshold and its cap (PAC §III-B).
    pub buffer: u64,
    /// No ACK, request or copy is held longer: three quarters of Linux's least RTO. Above the queueing that gating itself creates (N·W/C: 131 ms for 256 senders with 64 KB each at
    /// 1 Gb/s), below the senders' RTOmin.
    pub max_hold: Span,
    /// The least retransmission timeout of the guarded host's own TCP; [`Span::ZERO`] when it is not known. No request is held
    /// for longer.
    pub own_timer: Span,
    /// The senders' initial window in segments (10: RFC 6928 and Linux; PAC's testbed had 3, its ns-2 runs 2).
    pub initial_window: u32,
    /// λ in thousandths: throughput at or below this share of what it was is a reduction (PAC §III-C: 0.8).
    pub lambda_permille: u32,
    /// Shortest control interval. The paper's is the mean RTT; below some packets per interval the throughput test only
    /// sees noise.
    pub min_interval: Span,
    /// Rate of the link behind the buffer in Mb/s; 0 when it is not known. Bytes that may still be queued there are not
    /// given up for lost.
    pub rate_mbps: u64,
    /// Charged bytes of a flow that has been silent for this long, and at least twice the RTT, were never sent or were
    /// lost: they are returned.
    pub silence: Span,
    /// Slow-start growth of the senders.
    pub growth: Growth,
    /// What is done about requests.
    pub requests: Requests,
    /// Whether a flow's turn lasts until it has triggered a quarter of the threshold; else it is one ACK long, as §III-D's
    /// "per-flow Round Robin" reads.
    pub long_turns: bool,
    /// Whether no window is advertised beyond three quarters of the buffer. PAC keeps less than the buffer in flight, so a
    /// sender has little use for more; but one that has grown a larger window keeps it, and bursts it when it is asked again.
    pub bound_windows: bool,
    /// How it is known what a release triggers.
    pub prices: Prices,
    /// Whether ACKs are left out where the next one will say it all (where windows are granted; `core/credit.h`, note 6).
    pub thin_acks: bool,
    /// Whether what a long path holds is no part of the budget (see `core/ledger.h`); else everything in flight is, as published.
    pub long_paths: bool,
    /// What carries data of ours is never held: the network card encrypts it (kTLS), and what is sent in its place would leave in plain
    /// text. The guard says so itself, by what the interface can do.
    pub leave_data: bool,
    /// What may be held.
    pub hold: Hold,
    /// Whether the buffer is not known: `buffer` is only the most that is ever tried, and the search for a budget begins with
    /// a few frames (see [`crate::budget`]).
    pub auto: bool,
    /// Whether a PSH at the end of all that was received tells that the sender has nothing more to send (until the next
    /// request, or until the flow shows that it pushes in mid-stream).
    pub push_ends_response: bool,
    /// Where round-trip times come from.
    pub rtt: RttMethod,
    /// Flow sizes in bytes at which a flow sinks one priority level (PAC Table I: one threshold, 20 KB, hence two
    /// levels). Ascending.
    pub demotion: [u64; MAX_LEVELS - 1],
    /// Entries of `demotion` in use.
    pub demotions: usize,
    /// Most ACKs held at once; beyond, they pass.
    pub max_held: u32,
    /// Half-open connections beyond which SYN-ACKs pass uncharged: more than that is a flood, not an incast.
    pub max_half_open: u32,
}

impl Config {
    /// The paper's settings for a switch port of `buffer` bytes.
    #[must_use]
    pub const fn new(buffer: u64) -> Self {
        let mut demotion = [0; MAX_LEVELS - 1];
        demotion[0] = 20_000;
        Self {
            buffer,
            max_hold: Span::millis(150),
            own_timer: Span::ZERO,
            initial_window: 10,
            lambda_permille: 800,
            min_interval: Span::micros(200),
            rate_mbps: 0,
            silence: Span::millis(2),
            growth: Growth::PerByte,
            requests: Requests::Gate,
            long_turns: true,
            bound_windows: true,
            prices: Prices::Estimated,
            thin_acks: false,
            auto: false,
            long_paths: true,
            leave_data: false,
            hold: Hold::All,
            push_ends_response: true,
            rtt: RttMethod::Handshake,
            demotion,
            demotions: 1,
            max_held: 65_536,
            max_half_open: 4_096,
        }
    }

    /// Exact credit for a switch port of `buffer` bytes.
    #[must_use]
    pub const fn credit(buffer: u64) -> Self {
        Self { prices: Prices::Exact, long_turns: false, thin_acks: true, ..Self::new(buffer) }
    }

    /// A guard as the command line and the simulator know it, for a switch port of `buffer` bytes.
    #[must_use]
    pub const fn of(guard: Guard, buffer: u64) -> Self {
        let pac = Self::new(buffer);
        match guard {
            Guard::Pac => pac,
            Guard::PacPublished => {
                Self { requests: Requests::Ignore, long_turns: false, bound_windows: false, long_paths: false, ..pac }
            }
            Guard::Credit => Self::credit(buffer),
            Guard::WindowOnly => Self { hold: Hold::Nothing, thin_acks: false, ..Self::credit(buffer) },
            Guard::RequestsOnly => Self { hold: Hold::Requests, bound_windows: false, ..pac },
        }
    }

    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first value that does not, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok, what| if ok { Ok(()) } else { Err(ConfigError(what)) };
        check(self.buffer >= 2 * FULL_FRAME, "the buffer must hold at least two full frames (3028 bytes)")?;
        check(self.buffer <= 1 << 32, "the buffer must be at most 4 GiB")?;
        check(self.max_hold >= Span::micros(100), "the longest hold must be at least 100us")?;
        check(self.max_hold <= Span::secs(10), "the longest hold must be at most 10s")?;
        check((1..=1000).contains(&self.initial_window), "the initial window must be 1 to 1000 segments")?;
        check((1..1000).contains(&self.lambda_permille), "lambda must lie between 0 and 1")?;
        check(self.min_interval >= Span::micros(1), "the control interval must be at least 1us")?;
        check(self.silence >= Span::micros(10), "the silence must be at least 10us")?;
        check(self.demotions < MAX_LEVELS, "at most 8 priority levels")?;
        check(
            self.demotion[..self.demotions].windows(2).all(|pair| pair[0] < pair[1]),
            "the flow sizes of the priority levels must ascend",
        )?;
        check(self.max_held > 0, "at least one ACK must be holdable")
    }

    /// The same as the decision core takes it: in this process, where nothing needs a heartbeat. The packet path adds what is
    /// its own.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            min_interval: self.min_interval.0,
            silence: self.silence.0,
            max_hold: self.max_hold.0,
            own_timer: self.own_timer.0,
            lambda_permille: u64::from(self.lambda_permille),
            max_held: u64::from(self.max_held),
            max_half_open: u64::from(self.max_half_open),
            rate: self.rate_mbps * 131_072 / 1000,
            initial_window: self.initial_window,
            per_byte_growth: u8::from(self.growth == Growth::PerByte),
            charge_requests: u8::from(self.requests != Requests::Ignore),
            gate_requests: u8::from(self.requests == Requests::Gate),
            push_ends_response: u8::from(self.push_ends_response),
            timestamps: u8::from(self.rtt == RttMethod::Timestamps),
            long_paths: u8::from(self.long_paths),
            leave_data: u8::from(self.leave_data),
            credit: u8::from(self.grants()),
            hold: self.hold as u8,
            thin_acks: u8::from(self.thin_acks),
            bound_windows: u8::from(self.bound_windows),
            ..Settings::default()
        }
    }

    /// Whether windows are granted. What waits then is requests and bare copies: an ACK leaves without its grant, and a request does
    /// when it has waited for long enough.
    #[must_use]
    pub const fn grants(&self) -> bool {
        matches!(self.prices, Prices::Exact)
    }

    /// Priority levels in use.
    #[must_use]
    pub const fn levels(&self) -> usize {
        self.demotions + 1
    }

    /// Level (0 is the highest) of a flow that has received `size` bytes.
    #[must_use]
    pub fn level_of(&self, size: u64) -> usize {
        self.demotion[..self.demotions].iter().take_while(|&&threshold| size >= threshold).count()
    }
}
