//! The figures of a finished sweep: mean and range over the seeds of any metric at any point.

use std::collections::HashMap;

use ackgate_sim::output::flat;
use ackgate_sim::sweep::Output;

use crate::experiment::Experiment;

/// Metrics made from columns of the report: name, and what it is.
pub const DERIVED: [(&str, &str); 3] = [
    ("timeout_ratio", "rounds with a timeout / rounds, in percent"),
    ("spurious_share", "spurious timeouts / all timeouts, in percent"),
    ("link_use_percent", "share of time that the bottleneck sends, in percent"),
];

/// Says what is wrong when there is no such metric.
pub(crate) fn known(metric: &str) -> Result<(), String> {
    let derived = DERIVED.map(|(name, _)| name.to_owned());
    let mut all: Vec<String> = flat::names().into_iter().filter(|name| name != "wall_s").collect();
    all.extend(derived);
    if all.iter().any(|name| name == metric) {
        return Ok(());
    }
    Err(format!("`{metric}` is not a metric; there are {}", all.join(", ")))
}

/// Mean, smallest and largest over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
}

/// All figures of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    columns: Vec<String>,
    /// By curve, x (its bits), in any order of seeds.
    rows: HashMap<(usize, u64), Vec<Vec<String>>>,
}

impl Figures {
    /// Takes the rows that a sweep left.
    #[must_use]
    pub fn new(experiment: &Experiment, output: &Output) -> Self {
        let mut figures = Self { columns: output.columns().to_vec(), rows: HashMap::new() };
        for (point, (curve, x)) in experiment.plan().points.iter().zip(&experiment.places) {
            if let Some(row) = output.row(point) {
                figures.rows.entry((*curve, x.to_bits())).or_default().push(row.to_vec());
            }
        }
        figures
    }

    /// Figures as they might have been measured: the goodput of each curve, x and y.
    #[cfg(test)]
    pub(crate) fn of_goodput(curves: &[&[(f64, f64)]]) -> Self {
        let mut figures = Self { columns: vec!["goodput_mbps".into()], rows: HashMap::new() };
        for (curve, points) in curves.iter().enumerate() {
            for (x, y) in *points {
                figures.rows.entry((curve, x.to_bits())).or_default().push(vec![y.to_string()]);
            }
        }
        figures
    }

    /// A metric of a curve at one x; `None` when that was not run.
    #[must_use]
    pub fn at(&self, curve: usize, x: f64, metric: &str) -> Option<Spread> {
        let values: Vec<f64> = self.rows.get(&(curve, x.to_bits()))?.iter().map(|row| self.read(row, metric)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a number of seeds")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(f64::NAN);
        Some(Spread { mean, low: fold(f64::min), high: fold(f64::max) })
    }

    /// A metric of a curve, x and mean, by rising x.
    #[must_use]
    pub fn curve(&self, curve: usize, metric: &str) -> Vec<(f64, Spread)> {
        let mut xs: Vec<f64> =
            self.rows.keys().filter(|(known, _)| *known == curve).map(|(_, x)| f64::from_bits(*x)).collect();
        xs.sort_by(f64::total_cmp);
        xs.into_iter().filter_map(|x| Some((x, self.at(curve, x, metric)?))).collect()
    }

    fn read(&self, row: &[String], metric: &str) -> f64 {
        let column = |name: &str| {
            let cell = self.columns.iter().position(|column| column == name).and_then(|i| row.get(i));
            cell.and_then(|cell| cell.parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        match metric {
            "timeout_ratio" => 100.0 * column("rounds_with_timeout") / column("rounds").max(1.0),
            "spurious_share" => 100.0 * column("spurious_timeouts") / column("rto_timeouts").max(1.0),
            "link_use_percent" => 100.0 * column("link_use"),
            name => column(name),
        }
    }
}
