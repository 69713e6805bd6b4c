//! A point in the simulator: what the kernel is held beside.

use std::sync::atomic::AtomicBool;

use ackgate_sim::sweep::{Point as SweepPoint, run_all};

use super::experiment::{Point, SEEDS};
use crate::headlines::figures::Row;
use crate::headlines::run::simulate;

/// Runs a point with [`SEEDS`] seeds on all processors, each with a share of its rounds. Figures are as at the paper's rate.
///
/// # Errors
/// When a simulation fails or `stop` is set.
pub fn simulated(point: &Point, stop: &AtomicBool) -> Result<Vec<Row>, ackgate_sim::Error> {
    #[expect(clippy::cast_possible_truncation, reason = "ten")]
    let rounds = (point.rounds * point.runs).div_ceil(SEEDS as u32).max(1);
    let seeds: Vec<SweepPoint> = (0..SEEDS)
        .map(|index| {
            let mut scenario = point.scenario.clone();
            (scenario.seed, scenario.rounds) = (scenario.seed + index as u64, rounds);
            SweepPoint { index, values: Vec::new(), scenario, fingerprint: 0 }
        })
        .collect();
    let mut rows = vec![Row::new(); SEEDS];
    let all: Vec<&SweepPoint> = seeds.iter().collect();
    run_all(
        &all,
        0,
        |seed| simulate(seed, &point.watch, stop),
        |seed, row| {
            rows[seed.index] = point.motion.restore(row);
            Ok::<_, ackgate_sim::Error>(())
        },
    )?;
    Ok(rows)
}
