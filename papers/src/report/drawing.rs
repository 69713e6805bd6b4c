//! An experiment's figure in the paper's own axes.

use ackgate_sim::output::chart::{self, Axis, Chart, Series, Style};

use crate::experiment::{Experiment, Scale};
use crate::figures::Figures;
use crate::inside::{Curve, View};

/// The figure as SVG: first the views, in the paper's axes where those are not the sweep's; then a panel for each metric,
/// a curve for each series, with the range over the seeds.
#[must_use]
pub fn drawing(experiment: &Experiment, figures: &Figures, insides: &[Vec<Curve>]) -> String {
    let xs = experiment.xs();
    let ends = (xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0));
    let range = (ends.0 < ends.1).then_some(ends);
    let sweeps = experiment.panels.iter().map(|panel| Chart {
        title: String::new(),
        x: Axis { label: experiment.x.label.clone(), scale: scale(experiment.x.scale), range },
        y: Axis { label: panel.label.clone(), scale: scale(panel.scale), range: None },
        series: (0..experiment.series.len()).map(|curve| series(experiment, figures, curve, &panel.metric)).collect(),
        levels: panel.level.map(|level| (panel.level_name.clone(), level)).into_iter().collect(),
        height: 250.0,
    });
    let panels: Vec<Chart> = experiment
        .views
        .iter()
        .enumerate()
        .map(|(i, view)| chart_of(experiment, i, view, insides))
        .chain(sweeps)
        .collect();
    let subtitle = format!("{}, {} ({})", experiment.paper.name(), experiment.figure, experiment.section);
    chart::svg(&experiment.title, &subtitle, &panels)
}

/// A view as a panel: shares over values, or a course over time.
fn chart_of(experiment: &Experiment, number: usize, view: &View, insides: &[Vec<Curve>]) -> Chart {
    let (_, x, _) = view.runs();
    let place = format!("{}: {x}", experiment.x.label);
    // Milliseconds are told in seconds where they are many.
    let end = named(experiment, number, insides).filter_map(|(_, curve)| curve.points.last()).map(|point| point.0);
    let seconds = matches!(view, View::Course { .. }) && end.fold(0.0, f64::max) >= 10_000.0;
    let (unit, per_unit) = if seconds { ("s", 1e3) } else { ("ms", 1.0) };
    let (across, up) = match view {
        View::Distribution { label, scale: spacing, .. } => (
            Axis { label: format!("{label}; {place}"), scale: scale(*spacing), range: None },
            Axis { label: "share (CDF)".into(), scale: chart::Scale::Linear, range: Some((0.0, 1.0)) },
        ),
        View::Course { label, span_ms, .. } => (
            Axis {
                label: format!("time ({unit}); {place}"),
                scale: chart::Scale::Linear,
                range: span_ms.map(|(from, to)| (from / per_unit, to / per_unit)),
            },
            Axis { label: label.clone(), scale: chart::Scale::Linear, range: None },
        ),
    };
    let series = named(experiment, number, insides).map(|(name, curve)| Series {
        name,
        points: curve.points.iter().map(|(x, y)| (x / per_unit, *y)).collect(),
        band: Vec::new(),
        style: if curve.events { Style::Ticks } else { Style::Line },
    });
    Chart { title: String::new(), x: across, y: up, series: series.collect(), levels: Vec::new(), height: 250.0 }
}

/// The curves of a view with their names: that of the series where there are several, and that of the curve.
fn named<'a>(
    experiment: &'a Experiment,
    number: usize,
    insides: &'a [Vec<Curve>],
) -> impl Iterator<Item = (String, &'a Curve)> {
    let looks = || experiment.looks.iter().zip(insides).filter(move |(look, _)| look.view == number);
    let alone = looks().count() == 1;
    looks().flat_map(move |(look, curves)| {
        let series = &experiment.series[look.curve].name;
        curves.iter().map(move |curve| {
            let name = match (alone, curve.name.is_empty()) {
                (_, true) => series.clone(),
                (true, false) => curve.name.clone(),
                (false, false) => format!("{series}, {}", curve.name),
            };
            (name, curve)
        })
    })
}

/// What the views show, as CSV: number of the view, curve, x and y.
#[must_use]
pub fn views(experiment: &Experiment, insides: &[Vec<Curve>]) -> String {
    let mut text = String::from("view,curve,x,y\n");
    for number in 0..experiment.views.len() {
        for (name, curve) in named(experiment, number, insides) {
            let name = if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name };
            for (x, y) in &curve.points {
                text += &format!("{},{name},{x},{y}\n", number + 1);
            }
        }
    }
    text
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

pub(crate) fn scale(scale: Scale) -> chart::Scale {
    match scale {
        Scale::Linear => chart::Scale::Linear,
        Scale::Log2 => chart::Scale::Log2,
        Scale::Log10 => chart::Scale::Log10,
    }
}
