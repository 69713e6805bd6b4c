//! One small chart as inline SVG: two curves over numbers of connections. Sized for a phone's width, coloured by the
//! page's style sheet so that it follows light and dark.

use std::fmt::Write;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// What is drawn.
pub(super) struct Chart<'a> {
    /// What it shows, for readers that cannot see it.
    pub(super) label: &'a str,
    /// Unit of a value, as it stands behind the number: ` Mb/s`.
    pub(super) unit: &'a str,
    /// Numbers of connections.
    pub(super) x: &'a [usize],
    /// One value for each.
    pub(super) unguarded: &'a [f64],
    /// One value for each.
    pub(super) guarded: &'a [f64],
    /// Top of the vertical axis, above 0; the values' maximum when it is larger.
    pub(super) top: f64,
    /// A dashed line with a name.
    pub(super) level: Option<(&'a str, f64)>,
}

impl Chart<'_> {
    /// The SVG element.
    pub(super) fn svg(&self) -> String {
        let highest =
            self.unguarded.iter().chain(self.guarded).copied().filter(|v| v.is_finite()).fold(self.top, f64::max);
        let step = step(highest);
        let top = (highest / step).ceil() * step;
        let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n", self.label);
        let mut tick = 0.0;
        while tick <= top + step / 2.0 {
            let y = at(tick, top);
            put(
                &mut out,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                    WIDTH - RIGHT
                ),
            );
            put(
                &mut out,
                format_args!(
                    "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
                    LEFT - 8.0,
                    y + 4.5
                ),
            );
            tick += step;
        }
        for (i, connections) in self.x.iter().enumerate() {
            put(
                &mut out,
                format_args!(
                    "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{connections}</text>",
                    self.across(i),
                    HEIGHT - BOTTOM + 20.0
                ),
            );
        }
        put(
            &mut out,
            format_args!(
                "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">connections</text>",
                (LEFT + WIDTH - RIGHT) / 2.0,
                HEIGHT - 6.0
            ),
        );
        self.curve(&mut out, "unguarded", self.unguarded, top);
        self.curve(&mut out, "guarded", self.guarded, top);
        if let Some((name, value)) = self.level {
            let y = at(value, top);
            put(
                &mut out,
                format_args!(
                    "<line class=\"level\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                    WIDTH - RIGHT
                ),
            );
            put(
                &mut out,
                format_args!(
                    "<text class=\"tick halo\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                    WIDTH - RIGHT,
                    y - 6.0
                ),
            );
        }
        out + "</svg>\n"
    }

    fn curve(&self, out: &mut String, class: &str, values: &[f64], top: f64) {
        let points: Vec<(f64, f64, f64)> = values
            .iter()
            .enumerate()
            .filter(|(_, v)| v.is_finite())
            .map(|(i, &v)| (self.across(i), at(v, top), v))
            .collect();
        let line: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        put(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", line.join(" ")));
        for (x, y, value) in points {
            put(
                out,
                format_args!(
                    "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{class}: {value:.0}{}</title></circle>",
                    self.unit
                ),
            );
        }
    }

    /// Pixels from the left of the `i`th number of connections; they stand evenly, whatever their distance.
    fn across(&self, i: usize) -> f64 {
        let room = WIDTH - LEFT - RIGHT;
        LEFT + room * (i as f64 + 0.5) / self.x.len().max(1) as f64
    }
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{line}");
}

/// Pixels from the top.
fn at(value: f64, top: f64) -> f64 {
    let room = HEIGHT - TOP - BOTTOM;
    TOP + room * (1.0 - (value / top).clamp(0.0, 1.0))
}

/// Distance of about five round ticks.
pub(crate) fn step(highest: f64) -> f64 {
    let raw = (highest / 5.0).max(f64::MIN_POSITIVE);
    let magnitude = 10f64.powf(raw.log10().floor());
    let lead = raw / magnitude;
    magnitude * [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|s| lead <= s + 1e-9).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!((step(941.0), step(100.0), step(188.0), step(1.0)), (200.0, 20.0, 50.0, 0.2));
    }

    #[test]
    fn values_go_up_and_stay_inside() {
        assert!(at(10.0, 100.0) > at(90.0, 100.0));
        assert_eq!(at(0.0, 100.0), HEIGHT - BOTTOM);
        assert_eq!(at(500.0, 100.0), TOP);
    }

    #[test]
    fn whatever_the_values_it_is_drawn_without_nonsense() {
        for (unguarded, guarded) in [(vec![], vec![]), (vec![f64::NAN, 1e9], vec![0.0, f64::INFINITY])] {
            let x: Vec<usize> = (1..=unguarded.len()).collect();
            let chart =
                Chart { label: "l", unit: "", x: &x, unguarded: &unguarded, guarded: &guarded, top: 1.0, level: None };
            let svg = chart.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
