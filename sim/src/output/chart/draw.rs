//! From charts to SVG elements.

use std::fmt::Write;

use super::axis::{Fitted, label};
use super::{COLOURS, Chart, Series, Style};

/// Width of the document and room around the plotting areas, in pixels.
const WIDTH: f64 = 860.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 22.0;
/// Height of a panel's own heading and legend, and of its axis labels below.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 48.0;
/// Room that a letter of legend text takes; text cannot be measured without a font.
const LETTER: f64 = 7.2;

const FONT: &str = "font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\"";
const INK: &str = "#1f2328";
const FAINT: &str = "#59636e";
const GRID: &str = "#e4e7eb";

/// SVG text. Writing to a string cannot fail, so results of `write!` are let go.
struct Canvas(String);

impl Canvas {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, dash: &str) {
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>\n"
        ));
    }

    fn text(&mut self, at: (f64, f64), text: &str, attributes: &str) {
        let (x, y) = at;
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>\n", escape(text)));
    }
}

pub(super) fn document(title: &str, subtitle: &str, panels: &[Chart]) -> String {
    let heading = match (title.is_empty(), subtitle.is_empty()) {
        (true, true) => 10.0,
        (false, true) | (true, false) => 40.0,
        (false, false) => 60.0,
    };
    let height = heading + panels.iter().map(|panel| above(panel) + panel.height + BELOW).sum::<f64>() + 6.0;
    let mut canvas = Canvas(String::new());
    canvas.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" {FONT} font-size=\"12\" fill=\"{INK}\">\n"
    ));
    canvas.put(format_args!("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"));
    if !title.is_empty() {
        canvas.text((LEFT, 28.0), title, "font-size=\"17\" font-weight=\"600\"");
    }
    if !subtitle.is_empty() {
        let y = if title.is_empty() { 28.0 } else { 48.0 };
        canvas.text((LEFT, y), subtitle, &format!("fill=\"{FAINT}\""));
    }
    let mut top = heading;
    for (number, panel) in panels.iter().enumerate() {
        draw_panel(&mut canvas, panel, top, number);
        top += above(panel) + panel.height + BELOW;
    }
    canvas.put(format_args!("</svg>\n"));
    canvas.0
}

fn draw_panel(canvas: &mut Canvas, chart: &Chart, top: f64, number: usize) {
    let (left, right) = (LEFT, WIDTH - RIGHT);
    let upper = top + above(chart);
    let lower = upper + chart.height;
    let curves = || chart.series.iter().filter(|series| series.style != Style::Ticks);
    let points = || chart.series.iter().flat_map(|series| series.points.iter());
    let heights = curves().flat_map(|series| {
        let band = series.band.iter().flat_map(|(low, high)| [*low, *high]);
        series.points.iter().map(|point| point.1).chain(band)
    });
    let heights = heights.chain(chart.levels.iter().map(|level| level.1));
    let x = chart.x.fit(points().map(|point| point.0), left, right, 9.0);
    let y = chart.y.fit(heights, lower, upper, (chart.height / 42.0).max(2.0));

    for (value, text) in &y.ticks {
        let Some(at) = y.pixel(*value) else { continue };
        canvas.line((left, at), (right, at), GRID, 1.0, "");
        canvas.text((left - 8.0, at + 4.0), text, &format!("text-anchor=\"end\" fill=\"{FAINT}\""));
    }
    let bars = lone_x(chart);
    for (value, text) in x.ticks.iter().filter(|_| bars.is_none()) {
        let Some(at) = x.pixel(*value) else { continue };
        canvas.line((at, upper), (at, lower), GRID, 1.0, "");
        canvas.line((at, lower), (at, lower + 4.0), FAINT, 1.0, "");
        canvas.text((at, lower + 18.0), text, &format!("text-anchor=\"middle\" fill=\"{FAINT}\""));
    }
    canvas.line((left, lower), (right, lower), FAINT, 1.0, "");
    let below = bars.map_or_else(|| chart.x.label.clone(), |x| format!("{}: {}", chart.x.label, short(x)));
    canvas.text(((left + right) / 2.0, lower + 36.0), &below, "text-anchor=\"middle\"");
    let middle = (upper + lower) / 2.0;
    // Long numbers on the ticks push the label aside.
    let aside = if y.ticks.iter().any(|(_, text)| text.chars().count() > 6) { 12.0 } else { 18.0 };
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 {aside} {middle:.1})\"");
    canvas.text((aside, middle), &chart.y.label, &turned);

    canvas.put(format_args!(
        "<clipPath id=\"panel{number}\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/></clipPath>\n",
        left - 5.0,
        upper - 6.0,
        right - left + 10.0,
        chart.height + 7.0
    ));
    canvas.put(format_args!("<g clip-path=\"url(#panel{number})\">\n"));
    for (_, value) in &chart.levels {
        let Some(at) = y.pixel(*value) else { continue };
        canvas.line((left, at), (right, at), FAINT, 1.0, "5 4");
    }
    for (index, series) in chart.series.iter().enumerate() {
        if bars.is_some() {
            draw_bar(canvas, series, &Pen::of(index), &y, lower, place(chart, index));
        } else {
            draw_series(canvas, series, &Pen::of(index), &x, &y, lower);
        }
    }
    for (name, value) in &chart.levels {
        let Some(at) = y.pixel(*value) else { continue };
        // Above the line, unless that is above the panel; on top of the curves, with room around its letters.
        let beside = if at - upper < 14.0 { at + 13.0 } else { at - 4.0 };
        let readable = "stroke=\"#ffffff\" stroke-width=\"4\" stroke-linejoin=\"round\" paint-order=\"stroke\"";
        let attributes = format!("text-anchor=\"end\" font-size=\"11\" fill=\"{FAINT}\" {readable}");
        canvas.text((right - 4.0, beside), name, &attributes);
    }
    canvas.put(format_args!("</g>\n"));
    for (index, series) in chart.series.iter().enumerate().filter(|_| bars.is_some()) {
        let (at, _) = place(chart, index);
        if let Some(point) = series.points.first() {
            let top = series.band.first().map_or(point.1, |band| band.1);
            let height = y.pixel(top.max(point.1)).unwrap_or(lower);
            canvas.text((at, height - 5.0), &brief(point.1), "text-anchor=\"middle\" font-size=\"11\"");
        }
        canvas.text((at, lower + 18.0), &series.name, &format!("text-anchor=\"middle\" fill=\"{FAINT}\""));
    }
    legend(canvas, chart, top + ABOVE - 12.0);
}

/// The one x of all points, where each series was measured at no other: there is no curve to draw, but a bar for each.
fn lone_x(chart: &Chart) -> Option<f64> {
    let mut points = chart.series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let first = points.next()?;
    let names: f64 = chart.series.iter().map(|series| room(&series.name) + 12.0).sum();
    let marks = chart.series.iter().all(|series| series.style == Style::Marks && series.points.len() <= 1);
    #[expect(clippy::float_cmp, reason = "the same measurement's")]
    let lone = points.all(|x| x == first);
    (marks && lone && chart.series.len() > 1 && names < WIDTH - LEFT - RIGHT).then_some(first)
}

/// Middle and half the width of a series' bar.
fn place(chart: &Chart, index: usize) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "a handful of series")]
    let (index, count) = (index as f64, chart.series.len() as f64);
    let each = (WIDTH - LEFT - RIGHT) / count;
    (LEFT + (index + 0.5) * each, (each * 0.3).min(45.0))
}

/// A bar from the foot of the panel, with the range over the seeds.
fn draw_bar(canvas: &mut Canvas, series: &Series, pen: &Pen, y: &Fitted, foot: f64, (at, half): (f64, f64)) {
    let Some((point, top)) = series.points.first().and_then(|point| Some((point, y.pixel(point.1)?))) else { return };
    let (x, width, height) = (at - half, 2.0 * half, (foot - top).max(0.0));
    let said = escape(&format!("{}: {}", series.name, short(point.1)));
    canvas.put(format_args!(
        "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{said}</title></rect>\n",
        pen.colour
    ));
    if let Some((low, high)) = series.band.first().and_then(|band| Some((y.pixel(band.0)?, y.pixel(band.1)?))) {
        canvas.line((at, low), (at, high), INK, 1.2, "");
        canvas.line((at - 5.0, low), (at + 5.0, low), INK, 1.2, "");
        canvas.line((at - 5.0, high), (at + 5.0, high), INK, 1.2, "");
    }
}

/// Pixels that a text takes, roughly.
fn room(text: &str) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few letters")]
    let letters = text.chars().count() as f64;
    letters * LETTER
}

/// Legend entries row by row, with the width of each row. The first row begins beside the title.
fn legend_rows(chart: &Chart) -> Vec<(Vec<usize>, f64)> {
    // One curve needs no legend where a title names it.
    let lone = chart.series.len() == 1 && !chart.title.is_empty() && chart.series[0].style != Style::Ticks;
    // Bars have their names below them.
    let lone = lone || lone_x(chart).is_some();
    let mut rows = vec![(Vec::new(), 0.0)];
    for (index, series) in chart.series.iter().enumerate().filter(|_| !lone) {
        let width = room(&series.name) + 36.0;
        let title = if rows.len() == 1 { room(&chart.title) * 1.2 + 20.0 } else { 0.0 };
        let row = rows.last_mut().expect("there is always a row");
        if row.1 + width > WIDTH - RIGHT - LEFT - title && (!row.0.is_empty() || title > 0.0) {
            rows.push((vec![index], width));
        } else {
            row.0.push(index);
            row.1 += width;
        }
    }
    rows
}

/// Room above a panel for its title and legend.
fn above(chart: &Chart) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few rows")]
    let more = (legend_rows(chart).len() - 1) as f64;
    ABOVE + more * 17.0
}

/// Title and legend above the panel.
fn legend(canvas: &mut Canvas, chart: &Chart, mut y: f64) {
    if !chart.title.is_empty() {
        canvas.text((LEFT, y), &chart.title, "font-weight=\"600\" font-size=\"13\"");
    }
    for (row, width) in legend_rows(chart) {
        // Beside the title, or where a narrow window shows the drawing's begin.
        let mut x = if chart.title.is_empty() { LEFT } else { WIDTH - RIGHT - width + 12.0 };
        for index in row {
            let (series, Pen { colour, dash }) = (&chart.series[index], Pen::of(index));
            match series.style {
                Style::Ticks => canvas.line((x + 9.0, y), (x + 9.0, y - 9.0), colour, 2.0, ""),
                _ => canvas.line((x, y - 4.0), (x + 18.0, y - 4.0), colour, 2.2, dash),
            }
            if series.style == Style::Marks {
                let cx = x + 9.0;
                canvas
                    .put(format_args!("<circle cx=\"{cx:.1}\" cy=\"{:.1}\" r=\"3.2\" fill=\"{colour}\"/>\n", y - 4.0));
            }
            canvas.text((x + 23.0, y), &series.name, "");
            x += room(&series.name) + 36.0;
        }
        y += 17.0;
    }
}

/// What tells curves apart: colours first, then dashes.
struct Pen {
    colour: &'static str,
    dash: &'static str,
}

impl Pen {
    fn of(index: usize) -> Self {
        let dash = ["", "6 3", "2 2"][index / COLOURS.len() % 3];
        Self { colour: COLOURS[index % COLOURS.len()], dash }
    }
}

fn draw_series(canvas: &mut Canvas, series: &Series, pen: &Pen, x: &Fitted, y: &Fitted, foot: f64) {
    let Pen { colour, dash } = pen;
    if series.style == Style::Ticks {
        for at in series.points.iter().filter_map(|point| x.pixel(point.0)) {
            canvas.line((at, foot), (at, foot - 9.0), colour, 1.4, "");
        }
        return;
    }
    let edge = |pick: fn(&(f64, f64)) -> f64| {
        let ends = series.points.iter().zip(&series.band);
        ends.filter_map(move |(point, band)| Some((x.pixel(point.0)?, y.pixel(pick(band))?))).collect::<Vec<_>>()
    };
    if !series.band.is_empty() {
        let outline = edge(|band| band.1).into_iter().chain(edge(|band| band.0).into_iter().rev());
        canvas.put(format_args!("<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>\n", path(outline)));
    }
    let pixels: Vec<Option<(f64, f64)>> =
        series.points.iter().map(|point| Some((x.pixel(point.0)?, y.pixel(point.1)?))).collect();
    for run in pixels.split(Option::is_none).filter(|run| !run.is_empty()) {
        let run: Vec<(f64, f64)> = run.iter().copied().flatten().collect();
        if series.style == Style::Area {
            let (first, last) = (run[0].0, run[run.len() - 1].0);
            let outline = [(first, foot)].into_iter().chain(run.iter().copied()).chain([(last, foot)]);
            canvas
                .put(format_args!("<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.18\"/>\n", path(outline)));
        }
        let width = if series.style == Style::Marks { 2.2 } else { 1.3 };
        canvas.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{}\" stroke-linejoin=\"round\"/>\n",
            path(run.into_iter()),
            if dash.is_empty() { "none" } else { dash }
        ));
    }
    if series.style == Style::Marks {
        for (point, pixel) in series.points.iter().zip(&pixels) {
            let Some((cx, cy)) = pixel else { continue };
            let said = format!("{}: {}, {}", series.name, short(point.0), short(point.1));
            canvas.put(format_args!(
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3.4\" fill=\"{colour}\" stroke=\"#ffffff\"><title>{}</title></circle>\n",
                escape(&said)
            ));
        }
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// A value as a reader wants it said.
fn short(value: f64) -> String {
    let text = label(value, if value.abs() < 10.0 { 3 } else { 1 });
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Three digits, or all before the point.
fn brief(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    label(value, decimals)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
