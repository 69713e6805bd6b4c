//! A headline's figure: its curves with the intervals of their means.

use ackgate_sim::output::chart::{self, Axis, Chart, Series, Style};

use super::curve;
use crate::headlines::run::{Judged, Outcome};
use crate::report::scale;

/// The figure as SVG; empty when there is nothing to draw.
#[must_use]
pub fn drawing(paper: &Outcome, judged: &Judged) -> String {
    let headline = &judged.headline;
    let panels: Vec<Chart> = headline
        .draw
        .iter()
        .filter_map(|drawn| {
            let setting = paper.book.settings.iter().find(|setting| setting.name == drawn.setting)?;
            let series = setting.curves.iter().filter(|curve| drawn.shows(curve)).map(|one| {
                let points = curve(&paper.figures, &drawn.metric, &format!("{}.{}", setting.name, one.name));
                Series {
                    name: one.label.clone(),
                    points: points.iter().map(|point| (point.x, point.value)).collect(),
                    band: points
                        .iter()
                        .map(|point| (point.interval.low.min(point.value), point.interval.high.max(point.value)))
                        .collect(),
                    style: Style::Marks,
                }
            });
            Some(Chart {
                title: setting.title.clone(),
                x: Axis { label: setting.x.label.clone(), scale: scale(setting.x.scale), range: None },
                y: Axis { label: drawn.label.clone(), scale: scale(drawn.scale), range: None },
                series: series.collect(),
                levels: Vec::new(),
                height: 250.0,
            })
        })
        .collect();
    if panels.is_empty() || judged.judgement.is_none() {
        return String::new();
    }
    let subtitle = "means over the seeds, with 95 % confidence intervals";
    chart::svg(&format!("{}: {}", headline.id, paper.book.paper.name()), subtitle, &panels)
}
