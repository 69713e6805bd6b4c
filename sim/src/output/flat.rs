//! A report as named columns: nested figures are joined with `_`, as in `round_ms_p99`.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::report::Report;

/// Decimals that are kept: a millionth of a megabit, a nanosecond in a millisecond. Shortest-form digits beyond them
/// only make tables unreadable.
const DECIMALS: f64 = 1e6;

/// The report as JSON, floats rounded to six decimals.
#[must_use]
pub fn json(report: &Report) -> Value {
    let mut value = serde_json::to_value(report).expect("a report has only string keys and plain values");
    round(&mut value);
    value
}

/// The report's columns, in the order of its fields.
#[must_use]
pub fn columns(report: &Report) -> Vec<(String, String)> {
    let mut columns = Vec::new();
    flatten("", &json(report), &mut |name, value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        columns.push((name, text));
    });
    columns
}

/// The names alone.
#[must_use]
pub fn names() -> Vec<String> {
    columns(&Report::default()).into_iter().map(|(name, _)| name).collect()
}

/// The columns of an empty report, which show each one's type.
#[must_use]
pub fn shapes() -> Vec<(String, Value)> {
    let mut shapes = Vec::new();
    flatten("", &json(&Report::default()), &mut |name, value| shapes.push((name, value.clone())));
    shapes
}

/// The fields of a report's JSON, made of its columns; those that are not there are left out.
#[must_use]
pub fn from_columns(columns: &HashMap<&str, &str>) -> Map<String, Value> {
    match fill("", json(&Report::default()), columns) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A value of the same shape with what the columns say.
fn fill(name: &str, shape: Value, columns: &HashMap<&str, &str>) -> Option<Value> {
    match shape {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .into_iter()
                .filter_map(|(field, shape)| Some((field.clone(), fill(&joined(name, &field), shape, columns)?)))
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::String(_) => columns.get(name).map(|text| Value::from(*text)),
        _ => serde_json::from_str(columns.get(name)?).ok(),
    }
}

fn joined(name: &str, field: &str) -> String {
    if name.is_empty() { field.to_owned() } else { format!("{name}_{field}") }
}

/// Shows each figure under its joined name.
fn flatten(name: &str, value: &Value, show: &mut impl FnMut(String, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(field, value)| flatten(&joined(name, field), value, show)),
        // Groups and warnings: as many as the scenario has are no columns.
        Value::Array(_) => {}
        figure => show(name.into(), figure),
    }
}

fn round(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map(|number| (number * DECIMALS).round() / DECIMALS);
            *value = rounded
                .map_or(Value::Null, |number| number.serialize(serde_json::value::Serializer).unwrap_or_default());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Quantiles;

    #[test]
    fn the_names_that_others_rely_on() {
        let names = names();
        for name in [
            "scheme",
            "senders",
            "seed",
            "goodput_mbps",
            "round_ms_p99",
            "queue_bytes_mean",
            "held_max",
            "hold_us_p50",
            "events",
            "packets_delivered",
            "wall_s",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        assert_eq!(names[..3], ["scheme", "senders", "seed"]);
    }

    #[test]
    fn columns_are_the_whole_report() {
        let report = Report {
            scheme: "7".into(),
            complete: true,
            goodput_mbps: 2.0 / 3.0,
            round_ms: Quantiles { p99: 10.0, ..Quantiles::default() },
            ..Report::default()
        };
        let columns = columns(&report);
        let mut map: HashMap<&str, &str> = columns.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(Value::Object(from_columns(&map)), json(&report));
        map.remove("wall_s");
        assert!(!from_columns(&map).contains_key("wall_s"));
    }

    #[test]
    fn floats_keep_six_decimals() {
        let report = Report {
            goodput_mbps: 2.0 / 3.0,
            round_ms: Quantiles { p50: 10.0, ..Quantiles::default() },
            ..Report::default()
        };
        let columns = columns(&report);
        let find = |name: &str| columns.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!(find("goodput_mbps"), "0.666667");
        assert_eq!(find("round_ms_p50"), "10.0");
    }
}
