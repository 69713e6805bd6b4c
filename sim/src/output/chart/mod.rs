//! Line charts as self-contained SVG: no script, no font file, the same bytes for the same data.
//!
//! Own code because charting crates either need font files to lay out text or bring a drawing engine along; papers'
//! axes (senders in powers of two, bands over seeds, marks for timeouts) need little and want control.

mod axis;
mod draw;

pub use axis::{Axis, Scale};

/// One panel: axes, curves, a legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Heading; may be empty.
    pub title: String,
    /// Horizontal axis. Stacked panels should have the same.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves, drawn in this order.
    pub series: Vec<Series>,
    /// Horizontal lines with a name: a buffer's size, a link's rate.
    pub levels: Vec<(String, f64)>,
    /// Height of the plotting area in pixels.
    pub height: f64,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points by rising x; a point that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// Lower and upper end of a band around the curve, point by point; empty for none.
    pub band: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with a mark at each point: few points, each measured.
    Marks,
    /// A line.
    Line,
    /// A line with the area under it filled.
    Area,
    /// A short stroke at the foot of the panel for each point, whatever its y: events.
    Ticks,
}

/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008), darkest first.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d", "#8c6d31"];

/// Panels one below the other, under a common heading, as one SVG document.
#[must_use]
pub fn svg(title: &str, subtitle: &str, panels: &[Chart]) -> String {
    draw::document(title, subtitle, panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let curve = |name: &str, style, points: &[(f64, f64)]| Series {
            name: name.into(),
            points: points.to_vec(),
            band: Vec::new(),
            style,
        };
        Chart {
            title: "Goodput".into(),
            x: Axis { label: "senders".into(), scale: Scale::Log2, range: None },
            y: Axis { label: "goodput (Mb/s)".into(), scale: Scale::Linear, range: Some((0.0, 1_000.0)) },
            series: vec![
                Series {
                    band: vec![(800.0, 900.0), (700.0, 940.0), (20.0, 90.0)],
                    ..curve("none <&>", Style::Marks, &[(1.0, 850.0), (8.0, 900.0), (64.0, 50.0)])
                },
                curve("pac", Style::Line, &[(1.0, 840.0), (8.0, f64::NAN), (64.0, 930.0)]),
                curve("timeouts", Style::Ticks, &[(2.0, 0.0)]),
            ],
            levels: vec![("link".into(), 949.0)],
            height: 260.0,
        }
    }

    #[test]
    fn whatever_the_data_it_is_well_formed() {
        let empty = Chart { series: Vec::new(), levels: Vec::new(), ..chart() };
        let single = Chart {
            series: vec![Series { name: "one".into(), points: vec![(5.0, 5.0)], band: Vec::new(), style: Style::Area }],
            ..chart()
        };
        let hollow = Chart {
            series: vec![Series {
                name: "nan".into(),
                points: vec![(f64::NAN, f64::INFINITY)],
                band: Vec::new(),
                style: Style::Line,
            }],
            y: Axis { range: None, ..chart().y },
            ..chart()
        };
        for panels in [vec![], vec![empty], vec![single.clone()], vec![hollow], vec![chart(), single]] {
            let text = svg("a < b", "", &panels);
            let mut depth = 0_i32;
            // Every tag is closed, and no number is one that SVG does not know.
            for tag in text.split('<').skip(1) {
                depth +=
                    if tag.starts_with('/') { -1 } else { i32::from(!tag.split('>').next().unwrap().ends_with('/')) };
            }
            assert_eq!(depth, 0, "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn series_with_one_common_x_become_bars_under_their_names() {
        let bar = |name: &str, y| Series {
            name: name.into(),
            points: vec![(25.0, y)],
            band: vec![(y * 0.9, y * 1.1)],
            style: Style::Marks,
        };
        let bars = Chart { series: vec![bar("DCTCP", 300.0), bar("HWatch", 100.0)], levels: Vec::new(), ..chart() };
        let text = svg("", "", &[bars]);
        assert_eq!(text.matches("<rect x=").count(), 2 + 1, "two bars and the clipping area: {text}");
        assert!(text.contains(">DCTCP</text>") && text.contains("senders: 25<") && !text.contains("<polyline"));
    }

    #[test]
    fn names_are_escaped_and_marks_tell_their_values() {
        let text = svg("", "", &[chart()]);
        assert!(text.contains("none &lt;&amp;&gt;"));
        assert!(text.contains("<title>none &lt;&amp;&gt;: 8, 900</title>"), "{text}");
    }
}
