//! The points of a sweep, in their order, and which of them a shard runs.

use std::collections::HashMap;
use std::fmt::{self, Write};

use ackgate_control::units::Span;

use super::{Grid, SweepError, Vary};
use crate::scenario::{Document, Per, Scenario, Workload};

/// A sweep before it is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The varied keys, as given; the seed last when there are several.
    pub keys: Vec<String>,
    /// Every combination: the first key varies slowest, the seed fastest.
    pub points: Vec<Point>,
}

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Place in the order of the whole sweep.
    pub index: usize,
    /// Values of [`Plan::keys`], as they were given.
    pub values: Vec<String>,
    /// What to run.
    pub scenario: Scenario,
    /// Identifies the scenario with all its values.
    pub fingerprint: u64,
}

impl Point {
    /// How much there is to simulate, in bytes of traffic: longer points start first, and progress is measured in it.
    #[must_use]
    pub fn work(&self) -> u128 {
        work(&self.scenario)
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let scenario = Scenario { seed, ..self.scenario.clone() };
        Self { fingerprint: fingerprint(&scenario), scenario, ..self.clone() }
    }
}

/// A part of a sweep: number `k` of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub k: u32,
    /// Of how many.
    pub n: u32,
}

impl Shard {
    /// The sweep in one piece.
    pub const WHOLE: Self = Self { k: 1, n: 1 };

    /// Reads `k/n`.
    ///
    /// # Errors
    /// When it is not two whole numbers with 1 <= k <= n.
    pub fn parse(text: &str) -> Result<Self, SweepError> {
        let numbers = text.split_once('/').and_then(|(k, n)| Some((k.trim().parse().ok()?, n.trim().parse().ok()?)));
        match numbers {
            Some((k, n)) if 1 <= k && k <= n => Ok(Self { k, n }),
            _ => Err(SweepError::Usage(format!("--shard {text}: is not k/n with 1 <= k <= n, such as 1/4"))),
        }
    }
}

impl Plan {
    /// Every combination of `vary`, each with `seeds` seeds counted up from its own.
    ///
    /// # Errors
    /// When a key is varied twice, a combination is refused, or there are too many.
    pub fn new(document: &Document, vary: &[Vary], seeds: u32) -> Result<Self, SweepError> {
        Self::of(&Grid::new(document, vary, seeds)?)
    }

    /// All points of a grid.
    ///
    /// # Errors
    /// When a combination is refused, or two are the same scenario.
    pub fn of(grid: &Grid) -> Result<Self, SweepError> {
        let plan = Self { keys: grid.keys(), points: grid.points()? };
        let mut seen = HashMap::new();
        for point in &plan.points {
            if let Some(other) = seen.insert(point.fingerprint, &point.values) {
                let (this, other) = (point.values.join(" "), other.join(" "));
                let problem = format!("--vary: `{other}` and `{this}` are the same scenario; leave one of them out");
                return Err(SweepError::Usage(problem));
            }
        }
        Ok(plan)
    }

    /// The points of one shard: a contiguous piece of the order with about 1/n of the expected work.
    #[must_use]
    pub fn shard(&self, shard: Shard) -> &[Point] {
        let total: u128 = self.points.iter().map(Point::work).sum();
        let bound = |k: u32| total * u128::from(k) / u128::from(shard.n);
        // A point belongs to the shard in whose share of the work its middle lies, which leaves none out.
        let mut done = 0;
        let middles = self.points.iter().map(|point| {
            let work = point.work();
            done += work;
            done - work / 2 - 1
        });
        let middles: Vec<u128> = middles.collect();
        let start = middles.partition_point(|middle| *middle < bound(shard.k - 1));
        let end = middles.partition_point(|middle| *middle < bound(shard.k));
        &self.points[start..end]
    }
}

/// Bytes of all traffic.
fn work(scenario: &Scenario) -> u128 {
    let workloads = scenario.workloads();
    let traffic: u128 = workloads.iter().map(|(_, workload, senders)| bytes(workload, *senders, scenario)).sum();
    // Never nothing, so that every point has a place in the division of the work.
    traffic + 1_000
}

fn bytes(workload: &Workload, senders: u32, scenario: &Scenario) -> u128 {
    let senders = u128::from(senders);
    // Endless senders fill the link until they stop; finite ones bring their bytes, and some packets of set-up.
    let link = |until: Option<Span>| {
        u128::from(scenario.network.rate.bytes_in(until.unwrap_or(scenario.time_limit).min(scenario.time_limit)))
    };
    match workload {
        Workload::Rounds(rounds) => {
            let times = if rounds.per == Per::Sender { senders } else { 1 };
            let answers = u128::from(rounds.volume) * times * u128::from(rounds.answers);
            (answers + senders * 3_000) * u128::from(scenario.rounds)
        }
        Workload::Long(long) => link(long.stop),
        Workload::OnOff(on_off) => link(on_off.stop),
        Workload::Datagrams(datagrams) => link(datagrams.stop),
        Workload::Epochs(epochs) => u128::from(epochs.epochs) * senders * (u128::from(epochs.size) + 3_000),
        Workload::Trace(trace) => trace.arrivals.iter().map(|flow| u128::from(flow.bytes) + 3_000).sum(),
    }
}

/// Hash of everything that decides a run's result, the program's version included.
pub(super) fn fingerprint(scenario: &Scenario) -> u64 {
    let mut hash = Fnv::default();
    // A hash takes whatever is written.
    let _ = write!(hash, "{} {scenario:?}", env!("CARGO_PKG_VERSION"));
    hash.0
}

/// FNV-1a.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.take(bytes);
    hash.0
}

/// FNV-1a of what has been written so far.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.take(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, vary: &[&str], seeds: u32) -> Result<Plan, String> {
        let vary: Vec<Vary> = vary.iter().map(|text| Vary::parse(text).unwrap()).collect();
        Plan::new(&Document::parse("x.toml", text).unwrap(), &vary, seeds).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_key_varies_slowest_and_the_seed_fastest() {
        let plan = plan("seed = 7", &["senders=1,2", "scheme=none,pac"], 2).unwrap();
        assert_eq!(plan.keys, ["senders", "scheme", "seed"]);
        let points: Vec<String> = plan.points.iter().map(|point| point.values.join(" ")).collect();
        assert_eq!(
            points,
            ["1 none 7", "1 none 8", "1 pac 7", "1 pac 8", "2 none 7", "2 none 8", "2 pac 7", "2 pac 8"]
        );
        assert_eq!(plan.points[7].scenario.senders, 2);
        assert_eq!(plan.points[7].scenario.seed, 8);
        let mut prints: Vec<u64> = plan.points.iter().map(|point| point.fingerprint).collect();
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), 8);
    }

    #[test]
    fn shards_are_the_whole_in_order() {
        let plan = plan("", &["senders=1..256", "scheme=none,pac"], 3).unwrap();
        for n in [1, 2, 3, 7, 54, 200] {
            let parts: Vec<usize> = (1..=n).flat_map(|k| plan.shard(Shard { k, n })).map(|point| point.index).collect();
            assert_eq!(parts, (0..plan.points.len()).collect::<Vec<_>>(), "{n} shards");
        }
    }

    #[test]
    fn shards_share_the_work_not_the_points() {
        let plan = plan("", &["senders=1..256"], 1).unwrap();
        assert_eq!(plan.shard(Shard { k: 1, n: 2 }).len(), 8);
        assert_eq!(plan.shard(Shard { k: 2, n: 2 }).len(), 1);
    }

    #[test]
    fn refusals() {
        assert_eq!(
            plan("", &["senders=1,0"], 1).unwrap_err(),
            "--vary senders=0: key `senders`: 0 senders send nothing: at least 1"
        );
        assert!(plan("", &["senders=1", "senders=2"], 1).unwrap_err().contains("varied twice"));
        assert!(
            plan("", &["switch.buffer=96KB,96000B"], 1)
                .unwrap_err()
                .contains("`96KB` and `96000B` are the same scenario")
        );
        assert!(plan("", &["seed=1,2"], 2).unwrap_err().contains("varied with --vary already"));
        assert!(plan("", &["senders=1..9999:1", "seed=1..9999:1"], 1).unwrap_err().contains("more than 100000 points"));
        assert!(Shard::parse("0/2").is_err() && Shard::parse("3/2").is_err() && Shard::parse("x").is_err());
        assert_eq!(Shard::parse("2/3").unwrap(), Shard { k: 2, n: 3 });
    }
}
