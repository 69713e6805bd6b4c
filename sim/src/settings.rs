//! The schemes' parameters as `control` takes them, from what the scenario says and what it leaves to be derived.

use ackgate_control::error::ConfigError;
use ackgate_control::gate::{self, Guard, RttMethod};
use ackgate_control::{hwatch, ictcp, letter, m21, shaper};

use ackgate_control::units::Span;

use crate::scenario::{Capacity, HeaderField, RttSource, Scenario, Scheme};

/// A port's buffer in bytes, for schemes that are told it.
pub(crate) fn buffer_bytes(scenario: &Scenario) -> u64 {
    let frame = u64::from(scenario.tcp.mss + 40 + scenario.network.framing.in_buffer());
    match scenario.switch.buffer {
        Capacity::Bytes(bytes) => bytes,
        Capacity::Packets(packets) => u64::from(packets) * frame,
        // Without a bound nothing is ever lost: whatever is allowed here is safe.
        Capacity::Unlimited => 1 << 30,
    }
}

/// PAC, or PAC with exact credit, of a scenario whose presets are [resolved](Scenario::resolved).
#[must_use]
pub fn gate(scenario: &Scenario) -> gate::Config {
    let parameters = &scenario.pac;
    let buffer = parameters.threshold.unwrap_or_else(|| buffer_bytes(scenario));
    let mut config = gate::Config::of(guard(scenario.scheme), buffer);
    config.thin_acks &= parameters.thin_acks;
    config.auto = parameters.auto;
    config.rate_mbps = parameters.rate.unwrap_or(scenario.network.rate).0 / 1_000_000;
    config.max_hold = parameters.max_hold.unwrap_or(config.max_hold);
    config.own_timer = scenario.tcp.rto_min;
    config.initial_window = parameters.initial_window.unwrap_or(scenario.tcp.initial_window);
    config.lambda_permille = permille(parameters.lambda);
    config.rtt = match parameters.rtt {
        RttSource::Handshake => RttMethod::Handshake,
        RttSource::Timestamps => RttMethod::Timestamps,
    };
    // Level n begins at n times the first threshold (PAC names only one, for two levels).
    config.demotions = usize::from(parameters.levels.saturating_sub(1)).min(config.demotion.len());
    for (n, slot) in (1..).zip(config.demotion.iter_mut().take(config.demotions)) {
        *slot = parameters.demote_at * n;
    }
    config
}

const fn guard(scheme: Scheme) -> Guard {
    match scheme {
        Scheme::PacPublished => Guard::PacPublished,
        Scheme::Credit => Guard::Credit,
        Scheme::WindowOnly => Guard::WindowOnly,
        Scheme::RequestsOnly => Guard::RequestsOnly,
        _ => Guard::Pac,
    }
}

/// PAC to the letter at a receiver.
#[must_use]
pub fn letter(scenario: &Scenario) -> letter::Config {
    let parameters = &scenario.pac;
    letter::Config {
        buffer: parameters.threshold.unwrap_or_else(|| buffer_bytes(scenario)),
        lambda_permille: permille(parameters.lambda),
        demote_at: parameters.demote_at,
    }
}

/// ICTCP at a receiver.
#[must_use]
pub fn ictcp(scenario: &Scenario) -> ictcp::Config {
    let parameters = &scenario.ictcp;
    ictcp::Config {
        headroom_permille: permille(parameters.headroom),
        history_permille: permille(parameters.history),
        gamma1_permille: permille(parameters.gamma1),
        gamma2_permille: permille(parameters.gamma2),
        min_window: parameters.min_window,
        fairness_permille: permille(parameters.fairness),
        idle: parameters.idle,
        ..ictcp::Config::new(parameters.rate.unwrap_or(scenario.network.rate))
    }
}

/// The ACK shaper at a receiver.
#[must_use]
pub fn shaper(scenario: &Scenario) -> shaper::Config {
    shaper::Config { rate: scenario.shaper.rate, queue: scenario.shaper.queue }
}

/// HWatch at one host; hosts draw from streams of their own.
#[must_use]
pub fn hwatch(scenario: &Scenario, host: u32) -> hwatch::Config {
    let parameters = &scenario.hwatch;
    let half = Span(scenario.network.rtt.0 / 2);
    hwatch::Config {
        probes: parameters.probes,
        probe_span: parameters.probe_span.unwrap_or(half),
        drain: parameters.drain.unwrap_or(half),
        spread: parameters.spread.unwrap_or(scenario.network.rtt * 2),
        max_hold: parameters.max_hold,
        min_window: parameters.min_window,
        halve: parameters.halve,
        seed: scenario.seed ^ (u64::from(host) << 32),
        ..hwatch::Config::new(parameters.rate.unwrap_or(scenario.network.rate), scenario.network.rtt)
    }
}

/// M21TCP-A's field, and the cap of its senders.
///
/// # Errors
/// When no packet would fit the buffer.
pub(crate) fn m21_cap(scenario: &Scenario) -> Result<m21::Cap, ConfigError> {
    let buffer = scenario.m21.buffer.unwrap_or_else(|| buffer_bytes(scenario));
    let rate = scenario.network.sender_rate.unwrap_or(scenario.network.rate);
    m21::Cap::new(u32::try_from(buffer).unwrap_or(u32::MAX), scenario.m21.header, rate)
}

/// Which header carries M21TCP-A's number.
pub(crate) const fn m21_field(scenario: &Scenario) -> m21::Field {
    match scenario.m21.field {
        HeaderField::Ip => m21::Field::Ip,
        HeaderField::Tcp => m21::Field::Tcp,
    }
}

/// What M21TCP-A's switches remember.
pub(crate) const fn m21_counter(scenario: &Scenario) -> m21::counter::Config {
    m21::counter::Config { expiry: scenario.m21.expiry, flows: scenario.m21.flows }
}

#[expect(clippy::cast_sign_loss, reason = "clamped to 0..=1")]
fn permille(fraction: f64) -> u32 {
    (fraction.clamp(0.0, 1.0) * 1_000.0 + 0.5) as u32
}
