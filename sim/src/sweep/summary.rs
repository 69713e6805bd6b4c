//! What a sweep came to, for people: one line for each combination of the varied keys, seeds taken together.

use super::file::Output;
use super::plan::{Plan, Point};
use crate::output::chart::{self, Axis, Chart, Scale, Series, Style};
use crate::output::table::{figure, table};
use crate::scenario::human::{parse_bytes, parse_rate, parse_span};

/// The runs of one combination: the same values of all varied keys but the seed.
struct Group<'a> {
    values: Vec<&'a str>,
    rows: Vec<&'a [String]>,
}

/// Rows by combination, in the order of the sweep.
fn groups<'a>(plan: &'a Plan, points: &'a [Point], output: &'a Output) -> (Vec<&'a str>, Vec<Group<'a>>) {
    let kept: Vec<usize> = (0..plan.keys.len()).filter(|i| plan.keys[*i] != "seed").collect();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for point in points {
        let Some(row) = output.row(point) else { continue };
        let values: Vec<&str> = kept.iter().map(|i| point.values[*i].as_str()).collect();
        match groups.iter_mut().rev().find(|group| group.values == values) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { values, rows: vec![row] }),
        }
    }
    (kept.iter().map(|i| plan.keys[*i].as_str()).collect(), groups)
}

/// Mean, smallest and largest of a column over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    low: f64,
    high: f64,
}

impl Group<'_> {
    fn spread(&self, value: impl Fn(&[String]) -> f64) -> Spread {
        let values: Vec<f64> = self.rows.iter().map(|row| value(row)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a number of seeds")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        Spread { mean, low, high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max) }
    }
}

/// Reads figures out of rows.
struct Columns<'a>(&'a [String]);

impl Columns<'_> {
    fn read(&self, row: &[String], name: &str) -> f64 {
        let cell = self.0.iter().position(|column| column == name).and_then(|i| row.get(i));
        cell.and_then(|cell| cell.parse().ok()).unwrap_or(f64::NAN)
    }

    /// Percentage of rounds that saw a timeout.
    fn timeout_ratio(&self, row: &[String]) -> f64 {
        100.0 * self.read(row, "rounds_with_timeout") / self.read(row, "rounds").max(1.0)
    }
}

/// A table of the sweep: means over the seeds, and the spread of the goodput where there are several.
#[must_use]
pub fn summary(plan: &Plan, points: &[Point], output: &Output) -> String {
    let (keys, groups) = groups(plan, points, output);
    let columns = Columns(output.columns());
    let several = groups.iter().any(|group| group.rows.len() > 1);
    let mut head: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    head.push("goodput Mb/s".into());
    if several {
        head.push("least–most".into());
    }
    let figures = [
        ("RTOs", "rto_timeouts"),
        ("retransmits", "retransmits"),
        ("drops", "drops"),
        ("round p50 ms", "round_ms_p50"),
        ("p99 ms", "round_ms_p99"),
        ("queue mean B", "queue_bytes_mean"),
        ("max B", "queue_bytes_max"),
    ];
    head.push("rounds w/ RTO %".into());
    head.extend(figures.iter().map(|(title, _)| (*title).to_owned()));
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|group| {
            let goodput = group.spread(|row| columns.read(row, "goodput_mbps"));
            let mut cells: Vec<String> = group.values.iter().map(|value| (*value).to_owned()).collect();
            cells.push(figure(goodput.mean));
            if several {
                cells.push(format!("{}–{}", figure(goodput.low), figure(goodput.high)));
            }
            cells.push(figure(group.spread(|row| columns.timeout_ratio(row)).mean));
            cells.extend(figures.iter().map(|(_, name)| figure(group.spread(|row| columns.read(row, name)).mean)));
            cells
        })
        .collect();
    table(&head, &rows)
}

/// The place of the first varied key whose values are quantities, not all the same, and these values with their units.
fn axis(rows: &[&[&str]]) -> Result<(usize, Vec<Quantity>), String> {
    let keys = rows.first().map_or(0, |row| row.len());
    let along = (0..keys).find_map(|i| {
        let values: Option<Vec<Quantity>> = rows.iter().map(|row| quantity(row[i])).collect();
        values.filter(|values| values.iter().any(|value| value.0 != values[0].0)).map(|values| (i, values))
    });
    along.ok_or_else(|| "no varied key has two numbers to put on an axis: vary senders, for instance".into())
}

/// Whether [`plot`] will find an axis, before anything is run.
///
/// # Errors
/// When no varied key has at least two values that can be put on an axis.
pub fn check_plot(plan: &Plan, points: &[Point]) -> Result<(), String> {
    let kept = |point: &Point| -> Vec<String> {
        let values = point.values.iter().zip(&plan.keys).filter(|(_, key)| *key != "seed");
        values.map(|(value, _)| value.clone()).collect()
    };
    let rows: Vec<Vec<String>> = points.iter().map(kept).collect();
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    axis(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).map(|_| ())
}

/// The sweep as SVG: goodput, and rounds with a timeout, over the first varied key that is a quantity; one curve for
/// each combination of the others, with the range over the seeds.
///
/// # Errors
/// When no varied key has at least two values that can be put on an axis.
pub fn plot(title: &str, plan: &Plan, points: &[Point], output: &Output) -> Result<String, String> {
    let (keys, groups) = groups(plan, points, output);
    let all: Vec<&[&str]> = groups.iter().map(|group| group.values.as_slice()).collect();
    let (along, values) = axis(&all)?;
    let units: Vec<&str> = values.iter().map(|value| value.1).filter(|unit| !unit.is_empty()).collect();
    let label = units.first().map_or_else(|| keys[along].to_owned(), |unit| format!("{} ({unit})", keys[along]));
    let ends = values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value.0), high.max(value.0)));
    let scale = if ends.0 > 0.0 && ends.1 / ends.0 >= 8.0 { Scale::Log2 } else { Scale::Linear };
    let range = (scale == Scale::Linear).then_some(ends);

    let name = |group: &Group<'_>| {
        let others = (0..keys.len()).filter(|i| *i != along);
        let names = others.map(|i| {
            if keys[i] == "scheme" { group.values[i].to_owned() } else { format!("{} {}", keys[i], group.values[i]) }
        });
        let name = names.collect::<Vec<_>>().join(", ");
        if name.is_empty() {
            points.first().map_or_else(String::new, |point| point.scenario.scheme.name().into())
        } else {
            name
        }
    };
    let columns = Columns(output.columns());
    let curves = |value: &dyn Fn(&[String]) -> f64| {
        let mut curves: Vec<Series> = Vec::new();
        for (group, (x, _)) in groups.iter().zip(&values) {
            let name = name(group);
            let index = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
                curves.push(Series { name, points: Vec::new(), band: Vec::new(), style: Style::Marks });
                curves.len() - 1
            });
            let spread = group.spread(value);
            curves[index].points.push((*x, spread.mean));
            curves[index].band.push((spread.low, spread.high));
        }
        for curve in &mut curves {
            let mut order: Vec<usize> = (0..curve.points.len()).collect();
            order.sort_by(|a, b| curve.points[*a].0.total_cmp(&curve.points[*b].0));
            curve.points = order.iter().map(|i| curve.points[*i]).collect();
            curve.band = order.iter().map(|i| curve.band[*i]).collect();
        }
        curves
    };
    let x = Axis { label, scale, range };
    let y = |label: &str, range| Axis { label: label.into(), scale: Scale::Linear, range };
    let panels = [
        Chart {
            title: "Goodput".into(),
            x: x.clone(),
            y: y("goodput (Mb/s)", None),
            series: curves(&|row| columns.read(row, "goodput_mbps")),
            levels: Vec::new(),
            height: 300.0,
        },
        Chart {
            title: "Rounds with a retransmission timeout".into(),
            x,
            y: y("rounds (%)", Some((0.0, 100.0))),
            series: curves(&|row| columns.timeout_ratio(row)),
            levels: Vec::new(),
            height: 150.0,
        },
    ];
    let seeds = groups.iter().map(|group| group.rows.len()).max().unwrap_or(1);
    let subtitle = if seeds > 1 {
        format!("mean of {seeds} seeds; the band reaches from the least to the most")
    } else {
        String::new()
    };
    Ok(chart::svg(title, &subtitle, &panels))
}

/// A place on an axis, and its unit there.
type Quantity = (f64, &'static str);

/// What a varied key's value stands for on an axis.
fn quantity(text: &str) -> Option<Quantity> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some((number, ""));
    }
    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    let scaled = |value: u64, by: f64| value as f64 / by;
    let bytes = parse_bytes(text).ok().map(|bytes| (scaled(bytes, 1e3), "KB"));
    let span = || parse_span(text).ok().map(|span| (scaled(span.0, 1e6), "ms"));
    let rate = || parse_rate(text).ok().map(|rate| (scaled(rate.0, 1e6), "Mb/s"));
    let packets = || Some((text.strip_suffix('p')?.parse().ok()?, "packets"));
    bytes.or_else(span).or_else(rate).or_else(packets)
}

#[cfg(test)]
mod tests {
    use super::super::{SweepError, Vary, run};
    use super::*;
    use crate::report::Report;
    use crate::scenario::Document;

    fn swept(vary: &[&str], seeds: u32) -> (Plan, Output) {
        let vary: Vec<Vary> = vary.iter().map(|text| Vary::parse(text).unwrap()).collect();
        let plan = Plan::new(&Document::parse("x.toml", "").unwrap(), &vary, seeds).unwrap();
        let mut output = Output::new(&plan, &plan.points, true, false);
        let figures = |point: &Point| {
            let scenario = &point.scenario;
            let goodput_mbps = 1_000.0 / f64::from(scenario.senders) + scenario.seed as f64;
            let rounds_with_timeout = u32::from(scenario.senders > 2) * 5;
            Ok::<_, SweepError>(Report { rounds: 20, rounds_with_timeout, goodput_mbps, ..Report::default() })
        };
        run(&plan.points, &mut output, 1, figures, |_, _| {}).unwrap();
        (plan, output)
    }

    #[test]
    fn seeds_are_taken_together() {
        let (plan, output) = swept(&["senders=1..4", "scheme=none,pac"], 3);
        let text = summary(&plan, &plan.points, &output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 6);
        assert!(lines[0].starts_with("senders  scheme  goodput Mb/s   least–most"), "{text}");
        assert!(lines[2].contains("1 002") && lines[2].contains("1 001–1 003"), "{text}");
        assert!(lines[6].contains(" 25 "), "{text}");
    }

    #[test]
    fn the_first_quantity_is_the_axis() {
        let (plan, output) = swept(&["scheme=none,pac", "senders=1..64"], 2);
        let text = plot("x", &plan, &plan.points, &output).unwrap();
        assert!(text.contains(">senders<") && text.contains(">pac<") && text.contains("mean of 2 seeds"), "{text}");
        let (plan, output) = swept(&["switch.buffer=64KB,128KB"], 1);
        assert!(plot("x", &plan, &plan.points, &output).unwrap().contains("switch.buffer (KB)"));
        check_plot(&plan, &plan.points).unwrap();
        let (plan, output) = swept(&["scheme=none,pac"], 1);
        assert!(plot("x", &plan, &plan.points, &output).unwrap_err().contains("no varied key"));
        assert!(check_plot(&plan, &plan.points).unwrap_err().contains("no varied key"));
    }
}
