//! A report as named columns: nested figures are joined with `_`, as in `round_ms_p99`.

use serde::Serialize;
use serde_json::Value;

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
    flatten("", &json(report), &mut columns);
    columns
}

/// The names alone.
#[must_use]
pub fn names() -> Vec<String> {
    columns(&Report::default()).into_iter().map(|(name, _)| name).collect()
}

fn flatten(name: &str, value: &Value, columns: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}_{field}") };
                flatten(&name, value, columns);
            }
        }
        Value::String(text) => columns.push((name.into(), text.clone())),
        other => columns.push((name.into(), other.to_string())),
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
