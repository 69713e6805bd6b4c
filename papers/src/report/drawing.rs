//! An experiment's figure in the paper's own axes.

use ackgate_sim::output::chart::{self, Axis, Chart, Series, Style};

use crate::experiment::{Experiment, Scale};
use crate::figures::Figures;

/// The figure as SVG: a panel for each metric, a curve for each series, with the range over the seeds.
#[must_use]
pub fn drawing(experiment: &Experiment, figures: &Figures) -> String {
    let xs = experiment.xs();
    let ends = (xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0));
    let range = (ends.0 < ends.1).then_some(ends);
    let panels: Vec<Chart> = experiment
        .panels
        .iter()
        .map(|panel| Chart {
            title: String::new(),
            x: Axis { label: experiment.x.label.clone(), scale: scale(experiment.x.scale), range },
            y: Axis { label: panel.label.clone(), scale: scale(panel.scale), range: None },
            series: (0..experiment.series.len())
                .map(|curve| series(experiment, figures, curve, &panel.metric))
                .collect(),
            levels: panel.level.map(|level| (panel.level_name.clone(), level)).into_iter().collect(),
            height: 250.0,
        })
        .collect();
    let subtitle = format!("{}, {} ({})", experiment.paper.name(), experiment.figure, experiment.section);
    chart::svg(&experiment.title, &subtitle, &panels)
}

fn series(experiment: &Experiment, figures: &Figures, curve: usize, metric: &str) -> Series {
    let points = figures.curve(curve, metric);
    let several = points.iter().any(|(_, spread)| spread.low < spread.high);
    Series {
        name: experiment.series[curve].name.clone(),
        points: points.iter().map(|(x, spread)| (*x, spread.mean)).collect(),
        band: if several { points.iter().map(|(_, spread)| (spread.low, spread.high)).collect() } else { Vec::new() },
        style: Style::Marks,
    }
}

fn scale(scale: Scale) -> chart::Scale {
    match scale {
        Scale::Linear => chart::Scale::Linear,
        Scale::Log2 => chart::Scale::Log2,
        Scale::Log10 => chart::Scale::Log10,
    }
}
