//! Tasks of about equal cost. What a byte of traffic costs differs between schemes, topologies and sizes: it is
//! measured on a few points, and the others are taken to cost what the most similar of these do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::Point;
use super::super::pool::run_in_order;
use crate::observer::Until;

/// Points measured at most: each value of a key with a dozen values is seen several times.
const SAMPLES: usize = 64;
/// What no point is below, in seconds: laying out the smallest network.
const LEAST_S: f64 = 50e-6;

/// A point's cost, measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The point's index.
    pub index: usize,
    /// Seconds of one core; a lower bound when the measurement was ended before any run was.
    pub seconds: f64,
}

/// The points to measure: spread over the sweep by the golden ratio, which keeps step with no key's period.
#[must_use]
pub fn samples(points: &[Point]) -> Vec<&Point> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "below the number of points")]
    let place = |i: usize| (((i as f64 * GOLDEN).fract() * points.len() as f64) as usize).min(points.len() - 1);
    let mut places: Vec<usize> = (0..if points.is_empty() { 0 } else { SAMPLES }).map(place).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|place| &points[place]).collect()
}

/// Runs sample points, the shortest first, no longer than `budget_s` seconds in all, and tells what they cost. A run
/// that is not over by then says too little, and counts only when there is no other.
///
/// # Errors
/// When a simulation fails.
pub fn measure(points: &[Point], threads: usize, budget_s: f64) -> Result<Vec<Sample>, (String, crate::Error)> {
    let started = Instant::now();
    let over = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    let (mut measured, mut begun_only) = (Vec::new(), None);
    let mut order = samples(points);
    order.sort_by_cached_key(|point| point.work());
    std::thread::scope(|scope| {
        let clock = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let left = budget_s - started.elapsed().as_secs_f64();
                if left <= 0.0 {
                    over.store(true, Ordering::Relaxed);
                    return;
                }
                std::thread::park_timeout(Duration::from_secs_f64(left));
            }
        });
        let run = |point: &Point| {
            if over.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let begun = Instant::now();
            match crate::run(&point.scenario, &mut Until(&over)) {
                Ok(_) => Ok(Some((begun.elapsed().as_secs_f64(), true))),
                Err(crate::Error::Stopped) => Ok(Some((begun.elapsed().as_secs_f64(), false))),
                Err(error) => Err((point.values.join(" "), error)),
            }
        };
        let done = run_in_order(&order, threads, run, |point, result| {
            match result.map(|(seconds, whole)| (Sample { index: point.index, seconds }, whole)) {
                Some((sample, true)) => measured.push(sample),
                Some((sample, false)) => begun_only = Some(sample),
                None => {}
            }
            Ok(())
        });
        ended.store(true, Ordering::Relaxed);
        clock.thread().unpark();
        done
    })?;
    if measured.is_empty() {
        measured.extend(begun_only);
    }
    Ok(measured)
}

/// What each point costs, in seconds of one core: as many per byte of its traffic as those measured points that share
/// most of its values. `keys` are the varied keys; the seed says nothing about cost.
#[must_use]
pub fn estimate(keys: &[String], points: &[Point], measured: &[Sample]) -> Vec<f64> {
    let kept: Vec<usize> = (0..keys.len()).filter(|i| keys[*i] != "seed").collect();
    let measured: Vec<(&Point, f64)> =
        measured.iter().filter_map(|sample| Some((points.get(sample.index)?, sample.seconds))).collect();
    let mut known: Option<(&[String], f64)> = None;
    points
        .iter()
        .map(|point| {
            // Seeds of one combination stand side by side.
            let same = |values: &[String]| kept.iter().all(|i| values[*i] == point.values[*i]);
            let rate = match known {
                Some((values, rate)) if same(values) => rate,
                _ => rate(&kept, point, &measured),
            };
            known = Some((&point.values, rate));
            (rate * float(point.work())).max(LEAST_S)
        })
        .collect()
}

/// Seconds for each byte, by the most similar of the measured points.
fn rate(kept: &[usize], point: &Point, measured: &[(&Point, f64)]) -> f64 {
    let alike = |other: &Point| kept.iter().filter(|i| other.values[**i] == point.values[**i]).count();
    let most = measured.iter().map(|(other, _)| alike(other)).max().unwrap_or(0);
    let nearest = measured.iter().filter(|(other, _)| alike(other) == most);
    let (seconds, bytes) = nearest.fold((0.0, 0.0), |(s, b), (other, seconds)| (s + seconds, b + float(other.work())));
    // Unmeasured, all bytes cost the same; what exactly does not matter for dividing them.
    if bytes > 0.0 { seconds / bytes } else { 1e-9 }
}

/// Deals the points into at most `tasks` tasks: dearest first, each to the task that has least so far. No more tasks
/// than the dearest point fits into the whole, so that none is much shorter than another; each lists its points in
/// rising order.
#[must_use]
pub fn deal(costs: &[f64], tasks: usize) -> Vec<Vec<usize>> {
    let dearest = costs.iter().copied().fold(0.0, f64::max);
    #[expect(clippy::cast_sign_loss, reason = "a ratio of costs is not negative")]
    let fitting = (costs.iter().sum::<f64>() / dearest + 1e-9) as usize;
    let tasks = tasks.min(fitting).clamp(1, costs.len().max(1));
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by(|a, b| costs[*b].total_cmp(&costs[*a]));
    // Costs as whole picoseconds can be ordered in a heap.
    #[expect(clippy::cast_sign_loss, reason = "costs are not negative")]
    let whole = |cost: f64| (cost * 1e12) as u128;
    let mut heap: BinaryHeap<Reverse<(u128, usize)>> = (0..tasks).map(|task| Reverse((0, task))).collect();
    let mut dealt = vec![Vec::new(); tasks];
    for point in order {
        let Some(Reverse((cost, task))) = heap.pop() else { break };
        dealt[task].push(point);
        heap.push(Reverse((cost + whole(costs[point]), task)));
    }
    dealt.iter_mut().for_each(|points| points.sort_unstable());
    dealt
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a run, for estimating")]
fn float(bytes: u128) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::{Plan, Vary};
    use super::*;
    use crate::scenario::Document;

    fn plan(vary: &[&str], seeds: u32) -> Plan {
        let vary: Vec<Vary> = vary.iter().map(|text| Vary::parse(text).unwrap()).collect();
        Plan::new(&Document::parse("x.toml", "rounds = 2").unwrap(), &vary, seeds).unwrap()
    }

    /// Dearest task over cheapest.
    fn spread(tasks: &[Vec<usize>], costs: &[f64]) -> f64 {
        let sums: Vec<f64> = tasks.iter().map(|task| task.iter().map(|point| costs[*point]).sum()).collect();
        sums.iter().copied().fold(0.0, f64::max) / sums.iter().copied().fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn every_point_is_in_one_task_and_no_task_is_dwarfed() {
        for (costs, tasks) in [
            (vec![1.0; 10], 4),
            (vec![100.0, 1.0, 1.0, 1.0], 4),
            ((1..=1000).map(f64::from).collect(), 77),
            ((0..30).map(|i| 2_f64.powi(i)).collect(), 30),
            (vec![0.5], 8),
        ] {
            let dealt = deal(&costs, tasks);
            let mut all: Vec<usize> = dealt.concat();
            all.sort_unstable();
            assert_eq!(all, (0..costs.len()).collect::<Vec<_>>());
            assert!(dealt.len() <= tasks && spread(&dealt, &costs) <= 3.0, "{dealt:?}");
        }
        assert!(deal(&[], 3).concat().is_empty());
    }

    #[test]
    fn what_a_scheme_costs_is_seen_in_the_samples() {
        let plan = plan(&["senders=1..64", "scheme=none,pac,credit"], 4);
        // A world where `pac` costs twenty times as much per byte as the others.
        let cost = |point: &Point| float(point.work()) * if point.values[1] == "pac" { 20.0 } else { 1.0 };
        let costs: Vec<f64> = plan.points.iter().map(cost).collect();
        let measured: Vec<Sample> =
            samples(&plan.points).iter().map(|point| Sample { index: point.index, seconds: cost(point) }).collect();
        let dealt = deal(&estimate(&plan.keys, &plan.points, &measured), 8);
        assert!(dealt.len() > 1 && spread(&dealt, &costs) < 3.0, "{}", spread(&dealt, &costs));
        // By traffic alone, the dearest task would be many times the cheapest.
        let blind = deal(&estimate(&plan.keys, &plan.points, &[]), 8);
        assert!(spread(&blind, &costs) > spread(&dealt, &costs));
    }

    #[test]
    fn measuring_ends_in_time_and_tells_what_it_has() {
        let plan = plan(&["senders=1..8", "scheme=none,pac"], 1);
        let all = measure(&plan.points, 1, 1e6).unwrap();
        assert_eq!(all.len(), samples(&plan.points).len());
        assert!(all.iter().all(|sample| sample.seconds > 0.0));
        let long = Document::parse("x.toml", "senders = 64\nrounds = 100000").unwrap();
        let long = Plan::new(&long, &[Vary::parse("scheme=none,pac").unwrap()], 1).unwrap();
        // Would take minutes.
        assert!(measure(&long.points, 1, 0.05).unwrap().len() <= 1);
    }
}
