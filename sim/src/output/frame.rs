//! Figures in columns, each of one type and with a unit: what Parquet files and Arrow tables are made of.

/// Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// In their order.
    pub columns: Vec<Column>,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, as in CSV.
    pub name: String,
    /// What its values count, see [`unit`]; empty for names and truths.
    pub unit: &'static str,
    /// Its values.
    pub data: Data,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Names.
    Text(Vec<String>),
    /// Measured quantities; NaN where there is none.
    Float(Vec<f64>),
    /// Counts, bytes, seeds.
    Unsigned(Vec<u64>),
    /// Numbers that not every row has.
    Number(Vec<Option<u32>>),
    /// Truths.
    Truth(Vec<bool>),
}

impl Data {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Truth(values) => values.len(),
        }
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The narrowest type that takes all of these texts: truths, whole numbers, numbers, or text as it is.
    #[must_use]
    pub fn of_texts(texts: &[&str]) -> Self {
        fn all<T: std::str::FromStr>(texts: &[&str]) -> Option<Vec<T>> {
            texts.iter().map(|text| text.parse().ok()).collect()
        }
        None.or_else(|| all(texts).map(Self::Truth))
            .or_else(|| all(texts).map(Self::Unsigned))
            .or_else(|| all(texts).map(Self::Float))
            .unwrap_or_else(|| Self::Text(texts.iter().map(|text| (*text).to_owned()).collect()))
    }
}

impl Frame {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |column| column.data.len())
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a column whose unit its name tells.
    pub fn add(&mut self, name: &str, data: Data) {
        self.columns.push(Column { name: name.into(), unit: unit(name), data });
    }
}

/// The unit of a column, told by its name: `1` for ratios and counts without a unit, empty for names and truths.
#[must_use]
pub fn unit(name: &str) -> &'static str {
    match name {
        "scheme" | "scenario" | "complete" | "group" => return "",
        "seed" => return "1",
        _ => {}
    }
    let known = name.split('_').rev().find_map(|part| match part {
        "mbps" => Some("Mb/s"),
        "s" => Some("s"),
        "ms" => Some("ms"),
        "us" => Some("us"),
        "bytes" => Some("B"),
        _ => None,
    });
    known.unwrap_or("1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_in_the_names() {
        for (name, wanted) in [
            ("goodput_mbps", "Mb/s"),
            ("round_ms_p99", "ms"),
            ("queue_bytes_mean", "B"),
            ("hold_us_p50", "us"),
            ("wall_s", "s"),
            ("link_use", "1"),
            ("rto_timeouts", "1"),
            ("scheme", ""),
            ("start_us", "us"),
        ] {
            assert_eq!(unit(name), wanted, "{name}");
        }
    }

    #[test]
    fn texts_take_the_narrowest_type() {
        assert_eq!(Data::of_texts(&["1", "20"]), Data::Unsigned(vec![1, 20]));
        assert_eq!(Data::of_texts(&["1", "0.5"]), Data::Float(vec![1.0, 0.5]));
        assert_eq!(Data::of_texts(&["true", "false"]), Data::Truth(vec![true, false]));
        assert_eq!(Data::of_texts(&["64KB", "1"]), Data::Text(vec!["64KB".into(), "1".into()]));
    }
}
