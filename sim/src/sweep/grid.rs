//! The points of a sweep one at a time: a task of a thousand makes its own alone.

use super::plan::{Point, fingerprint};
use super::row::Layout;
use super::{SweepError, Vary};
use crate::scenario::{Assignment, Document, Scenario};

/// Points of one sweep at most.
const MAX_POINTS: usize = 100_000;

/// What is varied in a scenario, and with how many seeds.
#[derive(Clone, Debug)]
pub struct Grid {
    document: Document,
    vary: Vec<Vary>,
    seeds: u32,
    combinations: usize,
    layout: Layout,
}

impl Grid {
    /// Every combination of `vary`, each with `seeds` seeds counted up from its own.
    ///
    /// # Errors
    /// When a key is varied twice, or there are too many points. Whether the combinations make sense shows when they
    /// are made.
    pub fn new(document: &Document, vary: &[Vary], seeds: u32) -> Result<Self, SweepError> {
        let usage = |problem: String| Err(SweepError::Usage(problem));
        for (i, this) in vary.iter().enumerate() {
            if vary[..i].iter().any(|other| other.key == this.key) {
                return usage(format!("--vary {}: this key is varied twice; put all values in one list", this.key));
            }
        }
        if seeds == 0 {
            return usage("--seeds 0: at least 1".into());
        }
        if seeds > 1 && vary.iter().any(|vary| vary.key == "seed") {
            return usage(format!("--seeds {seeds}: the seed is varied with --vary already"));
        }
        let combinations = vary.iter().try_fold(1_usize, |count, vary| count.checked_mul(vary.values.len()));
        match combinations.filter(|count| count.checked_mul(seeds as usize).is_some_and(|all| all <= MAX_POINTS)) {
            Some(combinations) => {
                let (document, vary) = (document.clone(), vary.to_vec());
                let layout = Layout::new(&keys(&vary, seeds), false);
                Ok(Self { document, vary, seeds, combinations, layout })
            }
            None => usage(format!("this sweep has more than {MAX_POINTS} points")),
        }
    }

    /// The scenario in which something is varied.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What is varied.
    #[must_use]
    pub fn vary(&self) -> &[Vary] {
        &self.vary
    }

    /// Seeds of each combination.
    #[must_use]
    pub fn seeds(&self) -> u32 {
        self.seeds
    }

    /// The varied keys, as given; the seed last when there are several.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        keys(&self.vary, self.seeds)
    }

    /// The columns of its rows.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.combinations * self.seeds as usize
    }

    /// Whether there is no point, which is when a varied key has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All points in order: the first key varies slowest, the seed fastest.
    pub(super) fn points(&self) -> Result<Vec<Point>, SweepError> {
        self.points_at(&(0..self.len()).collect::<Vec<_>>())
    }

    /// The points at places of that order, each below [`len`](Self::len).
    ///
    /// # Errors
    /// When a scenario is refused.
    pub fn points_at(&self, places: &[usize]) -> Result<Vec<Point>, SweepError> {
        let seeds = self.seeds as usize;
        let mut points = Vec::with_capacity(places.len());
        // Seeds of one combination stand side by side, and differ in nothing else.
        for places in places.chunk_by(|a, b| a / seeds == b / seeds) {
            let combination = places[0] / seeds;
            let (values, scenario) = self.combination(combination)?;
            points.extend(
                places.iter().map(|place| self.seeded(combination, (place % seeds) as u32, &values, &scenario)),
            );
        }
        Ok(points)
    }

    /// Values and scenario of a combination.
    fn combination(&self, number: usize) -> Result<(Vec<String>, Scenario), SweepError> {
        let mut document = self.document.clone();
        let mut values = Vec::with_capacity(self.vary.len() + 1);
        let mut slower = self.combinations;
        for vary in &self.vary {
            slower /= vary.values.len();
            let value = &vary.values[number / slower % vary.values.len()];
            document.set(&Assignment { option: "--vary", key: vary.key.clone(), value: value.clone() })?;
            values.push(value.clone());
        }
        Ok((values, document.scenario()?))
    }

    fn seeded(&self, combination: usize, seed: u32, values: &[String], scenario: &Scenario) -> Point {
        let scenario = Scenario { seed: scenario.seed.wrapping_add(seed.into()), ..scenario.clone() };
        let mut values = values.to_vec();
        if self.seeds > 1 {
            values.push(scenario.seed.to_string());
        }
        let fingerprint = fingerprint(&scenario);
        Point { index: combination * self.seeds as usize + seed as usize, values, scenario, fingerprint }
    }
}

fn keys(vary: &[Vary], seeds: u32) -> Vec<String> {
    let seed = (seeds > 1).then(|| "seed".to_owned());
    vary.iter().map(|vary| vary.key.clone()).chain(seed).collect()
}
