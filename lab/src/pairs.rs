//! What a guard costs: the same load with and without it in turn, in one testbed, so that whatever else the machine does
//! falls on both alike.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::incast::{IncastConfig, IncastReport, Lab, LabError, Progress};
use crate::load::report::median;
use crate::machine::Machine;

/// One run, reduced to what is compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Goodput in megabits per second.
    pub goodput_mbps: f64,
    /// CPU time of the whole system per gigabyte of payload, in seconds, by the processors' idle time.
    pub cpu_s_per_gb: f64,
    /// Rounds with a timeout.
    pub rounds_with_timeout: u32,
    /// Frames that the switch dropped.
    pub switch_drops: u64,
}

impl Side {
    fn of(report: &IncastReport) -> Self {
        Self {
            goodput_mbps: report.goodput_mbps,
            cpu_s_per_gb: report.not_idle_s / (report.load.bytes as f64 / 1e9),
            rounds_with_timeout: report.rounds_with_timeout,
            switch_drops: report.switch_drops,
        }
    }
}

/// Two runs next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Without the guard.
    pub unguarded: Side,
    /// With it.
    pub guarded: Side,
}

/// Middle and extremes of the pairs' ratios, guarded over unguarded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Half of the pairs lie below.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Ratio {
    /// Of any number of ratios; all 0 when there are none.
    #[must_use]
    pub fn of(ratios: &[f64]) -> Self {
        let over = |start: f64, pick: fn(f64, f64) -> f64| ratios.iter().copied().fold(start, pick);
        if ratios.is_empty() {
            return Self { median: 0.0, min: 0.0, max: 0.0 };
        }
        Self { median: median(ratios), min: over(f64::INFINITY, f64::min), max: over(f64::NEG_INFINITY, f64::max) }
    }
}

/// What came of the pairs.
#[derive(Clone, Debug, Serialize)]
pub struct PairsReport {
    /// Connections.
    pub connections: usize,
    /// Payload of each in each round, in bytes.
    pub bytes: u64,
    /// Rounds in each run.
    pub rounds: u32,
    /// The guard's policy.
    pub guard: String,
    /// Rate of the bottleneck in megabits per second.
    pub rate_mbps: f64,
    /// Goodput, guarded over unguarded: below 1 the guard costs goodput.
    pub goodput_ratio: Ratio,
    /// CPU time per byte of the whole system, guarded over unguarded: above 1 the guard costs CPU.
    pub cpu_ratio: Ratio,
    /// Every pair.
    pub pairs: Vec<Pair>,
    /// What it was measured on.
    pub machine: Machine,
}

/// Runs `config` with its guard and without, `pairs` times, changing which of the two goes first.
///
/// # Errors
/// When `config` has no guard, or a run fails.
pub fn run_pairs(
    lab: &mut Lab,
    config: &IncastConfig,
    pairs: u32,
    stop: &AtomicBool,
    mut tell: impl FnMut(&Pair),
) -> Result<PairsReport, LabError> {
    let Some(guard) = config.guard.as_ref().filter(|_| pairs > 0) else {
        return Err(LabError::Load(crate::load::LoadError::Config(
            "pairs compare a guard with none: choose one (--guard pac), and at least one pair".into(),
        )));
    };
    let bare = IncastConfig { guard: None, ..config.clone() };
    let mut done = Vec::new();
    for index in 0..pairs {
        let mut run =
            |config: &IncastConfig| Ok::<_, LabError>(Side::of(&lab.run(config, false, stop, |_: Progress<'_>| {})?));
        let pair = if index % 2 == 0 {
            let unguarded = run(&bare)?;
            Pair { unguarded, guarded: run(config)? }
        } else {
            let guarded = run(config)?;
            Pair { unguarded: run(&bare)?, guarded }
        };
        tell(&pair);
        done.push(pair);
    }
    let ratios = |of: fn(&Side) -> f64| -> Vec<f64> {
        done.iter().map(|pair| of(&pair.guarded) / of(&pair.unguarded)).filter(|r| r.is_finite()).collect()
    };
    Ok(PairsReport {
        connections: config.connections,
        bytes: config.volume.per_connection(config.connections),
        rounds: config.rounds,
        guard: guard.policy.clone(),
        rate_mbps: lab.testbed().spec().rate as f64 / 1e6,
        goodput_ratio: Ratio::of(&ratios(|side| side.goodput_mbps)),
        cpu_ratio: Ratio::of(&ratios(|side| side.cpu_s_per_gb)),
        pairs: done,
        machine: Machine::this(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_a_middle_and_ends() {
        assert_eq!(Ratio::of(&[1.02, 0.98, 1.0]), Ratio { median: 1.0, min: 0.98, max: 1.02 });
        assert_eq!(Ratio::of(&[]), Ratio { median: 0.0, min: 0.0, max: 0.0 });
    }
}
