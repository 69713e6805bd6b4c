//! What a guard costs: the same load with and without it in turn, in one testbed, so that whatever else the machine does
//! falls on both alike. Many short pairs tell more than few long ones: the order turns from pair to pair (ABBA), and what the
//! machine does beside spoils single pairs, not their median.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::incast::{IncastConfig, IncastReport, Lab, LabError, Progress};
use crate::load::report::median;
use crate::machine::Machine;

/// Processors busier than this have no time left to show what a guard takes.
const BUSY: f64 = 0.9;

/// One run, reduced to what is compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Goodput in megabits per second.
    pub goodput_mbps: f64,
    /// CPU time of the whole system per gigabyte of payload, in seconds, by the processors' idle time.
    pub cpu_s_per_gb: f64,
    /// Share of the processors' time that was not idle.
    pub busy: f64,
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
            busy: (report.not_idle_s / (report.load.seconds * report.machine.cpus as f64)).min(1.0),
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

/// Median and quartiles of the pairs' ratios, guarded over unguarded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// A quarter of the pairs lie below.
    pub lower_quartile: f64,
    /// Half of the pairs lie below.
    pub median: f64,
    /// A quarter of the pairs lie above.
    pub upper_quartile: f64,
}

impl Ratio {
    /// Of any number of ratios; all 0 when there are none.
    #[must_use]
    pub fn of(ratios: &[f64]) -> Self {
        let mut sorted = ratios.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // The quartiles are the medians of the halves; an odd number's middle belongs to both.
        let half = sorted.len().div_ceil(2);
        Self {
            lower_quartile: median(&sorted[..half]),
            median: median(&sorted),
            upper_quartile: median(&sorted[sorted.len() - half..]),
        }
    }
}

/// What the kernel measured of the guard's programs in a run of its own, for measuring costs some itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Programs {
    /// Mean run time of the ingress program in nanoseconds.
    pub ingress_ns: u64,
    /// Mean run time of the egress program in nanoseconds.
    pub egress_ns: u64,
}

impl Programs {
    fn of(report: &IncastReport) -> Option<Self> {
        let summary = report.guard_summary.as_ref()?;
        let cost = |side: &str| summary[side]["ns_per_packet"].as_u64();
        Some(Self { ingress_ns: cost("bpf_ingress")?, egress_ns: cost("bpf_egress")? })
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
    /// Run time of the guard's programs per packet, if the guard measures it.
    pub programs: Option<Programs>,
    /// What a reader should know about this result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
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
    let mut measured = config.clone();
    if let Some(guard) = &mut measured.guard {
        guard.extra.push("--bpf-stats".into());
    }
    let programs = Programs::of(&lab.run(&measured, false, stop, |_| {})?);
    let busy = median(&done.iter().map(|pair| pair.unguarded.busy).collect::<Vec<_>>());
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
        programs,
        message: (busy > BUSY).then(|| {
            format!(
                "without the guard the processors were busy for {:.0} % of the time: where nothing is idle, CPU time per byte only \
                 says how long the bytes took; take a lower --rate",
                100.0 * busy
            )
        }),
        pairs: done,
        machine: Machine::this(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_a_middle_and_quartiles() {
        let of = |ratios: &[f64]| {
            let ratio = Ratio::of(ratios);
            (ratio.lower_quartile, ratio.median, ratio.upper_quartile)
        };
        assert_eq!(of(&[5.0, 1.0, 2.0, 4.0, 3.0]), (2.0, 3.0, 4.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), (1.5, 2.5, 3.5));
        assert_eq!(of(&[1.0]), (1.0, 1.0, 1.0));
        assert_eq!(of(&[]), (0.0, 0.0, 0.0));
    }
}
