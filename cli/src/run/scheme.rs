//! The schemes of the generic host. Their parameters are the keys of a scenario, so that the simulator and the kernel run
//! the same scheme with the same words.

use ackgate_control::hwatch::HWatch;
use ackgate_control::ictcp::Ictcp;
use ackgate_control::letter::Letter;
use ackgate_control::policy;
use ackgate_control::resend::{self, Resend};
use ackgate_control::shaper::Shaper;
use ackgate_control::units::Span;
use ackgate_sim::scenario::{Assignment, Document};
use ackgate_sim::settings as parameters;

use super::settings::{Buffer, Settings};
use super::{Place, refuse};

/// A scheme that needs no fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    PacLetter,
    Ictcp,
    Shaper,
    Hwatch,
    Rto,
}

/// The longest that anything is held unless `--max-hold` says otherwise: below the senders' least timeout, as PAC's.
const MAX_HOLD: Span = Span::millis(150);

/// The least timeout of the timers beside TCP's. Vasudevan's 200 us (§5) repeats some six times as much here as this does, most of it
/// not lost but late: through user space, a round trip differs by more than that (docs/lab.md).
const RTO_FLOOR: Span = Span::millis(2);

impl Scheme {
    /// The table of a scenario that its parameters stand in, if it is a scenario's.
    const fn table(self) -> Option<&'static str> {
        match self {
            Self::PacLetter => Some("pac"),
            Self::Ictcp => Some("ictcp"),
            Self::Shaper => Some("shaper"),
            Self::Hwatch => Some("hwatch"),
            Self::Rto => None,
        }
    }
}

/// The longest time that the host holds a frame.
pub(super) fn max_hold(settings: &Settings) -> Span {
    settings.max_hold.map_or(MAX_HOLD, |hold| u64::try_from(hold.as_nanos()).map_or(Span(u64::MAX), Span))
}

/// The scheme as the arguments want it.
pub(super) fn policy(scheme: Scheme, settings: &Settings, place: &Place) -> anyhow::Result<Box<dyn policy::Policy>> {
    let guard = settings.guard_name();
    let Some(table) = scheme.table() else { return resend(settings) };
    if settings.rto_floor.is_some() {
        return Err(refuse(format!("--rto-floor is for rto, not for {guard}")));
    }
    let mut document = Document::parse("the defaults", "")?;
    let mut set = |option, key: &str, value: String| document.set(&Assignment { option, key: key.into(), value });
    set("--guard", "scheme", guard.clone())?;
    if let Some(mbps) = place.rate_mbps {
        set("--rate", "network.rate", format!("{mbps}mbit"))?;
    }
    if let Buffer::Bytes(bytes) = settings.buffer {
        set("--buffer", "switch.buffer", format!("{bytes}B"))?;
    }
    if scheme == Scheme::Hwatch {
        let rtt = settings.rtt.map_or(500_000, |rtt| rtt.as_nanos());
        set("--rtt", "network.rtt", format!("{rtt}ns"))?;
        if settings.max_hold.is_some() {
            set("--max-hold", "hwatch.max_hold", format!("{}ns", max_hold(settings).0))?;
        }
    } else if settings.rtt.is_some() {
        return Err(refuse(format!("--rtt is for hwatch, not for {guard}")));
    }
    for change in &settings.changes {
        let change = Assignment::parse("--set", change)?;
        if change.key.split_once('.').is_none_or(|(head, _)| head != table) {
            return Err(refuse(format!(
                "--set {}: {guard} has the parameters {table}.KEY only (`ackgate sim keys` lists them)",
                change.key
            )));
        }
        document.set(&change)?;
    }
    let known = |given: bool, key: &str, option: &str| {
        if given || document.has(&format!("{table}.{key}")) {
            return Ok(());
        }
        Err(refuse(format!("{guard} must know the port's {key}, which this interface does not tell: give {option}")))
    };
    match scheme {
        Scheme::Ictcp | Scheme::Hwatch => known(place.rate_mbps.is_some(), "rate", "--rate")?,
        Scheme::PacLetter => known(settings.buffer != Buffer::Auto, "threshold", "--buffer")?,
        Scheme::Shaper | Scheme::Rto => {}
    }
    let scenario = document.scenario()?;
    let senseless = |problem: &dyn std::fmt::Display| refuse(format!("{guard}: {problem}"));
    Ok(match scheme {
        Scheme::PacLetter => Box::new(Letter::new(parameters::letter(&scenario)).map_err(|e| senseless(&e))?),
        Scheme::Ictcp => Box::new(Ictcp::new(parameters::ictcp(&scenario)).map_err(|e| senseless(&e))?),
        Scheme::Shaper => Box::new(Shaper::new(parameters::shaper(&scenario)).map_err(|e| senseless(&e))?),
        // Hosts must not send their probes in step.
        Scheme::Hwatch => {
            Box::new(HWatch::new(parameters::hwatch(&scenario, std::process::id())).map_err(|e| senseless(&e))?)
        }
        Scheme::Rto => return resend(settings),
    })
}

/// The timers beside TCP's.
fn resend(settings: &Settings) -> anyhow::Result<Box<dyn policy::Policy>> {
    let given = [
        ("--set", !settings.changes.is_empty()),
        ("--rtt", settings.rtt.is_some()),
        ("--max-hold", settings.max_hold.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        return Err(refuse(format!("{option} is not for rto, which holds nothing")));
    }
    // Hosts must not time out in step.
    let mut config = resend::Config { seed: std::process::id().into(), ..resend::Config::default() };
    config.rto.floor =
        settings.rto_floor.map_or(RTO_FLOOR, |floor| u64::try_from(floor.as_nanos()).map_or(Span(u64::MAX), Span));
    Ok(Box::new(Resend::new(config).map_err(|problem| refuse(format!("rto: {problem}")))?))
}
