//! Quantities as people write them: `96KB`, `200ms`, `1gbit`, `100p`.
//!
//! | quantity | units | example |
//! |---|---|---|
//! | bytes | `B`, `KB` `MB` `GB` (1000, as in the papers), `KiB` `MiB` `GiB` (1024) | `96KB` |
//! | time | `ns`, `us` (or `µs`), `ms`, `s` | `1.5ms` |
//! | rate | `bit`, `kbit`, `mbit`, `gbit` (1000), also `bps`, `kbps`, … | `10gbit` |
//!
//! Units are read without regard to case, except that a size in `Mb`, which means bits to many, is refused. Zero needs no
//! unit. A number may have a fraction; the quantity it stands for is rounded to a whole byte, nanosecond or bit.

use std::fmt;

use ackgate_control::units::{Rate, Span};
use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Why a text is not a quantity; says what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {why}; write it like {example}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    why: String,
    example: &'static str,
}

/// Kinds of quantity: the units and what one of each is worth in the base unit.
struct Kind {
    what: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
}

const BYTES: Kind = Kind {
    what: "size",
    example: "\"96KB\" (1000 bytes each) or \"64KiB\" (1024)",
    units: &[
        ("b", 1),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
    ],
};

const SPAN: Kind = Kind {
    what: "time",
    example: "\"120us\", \"200ms\" or \"2s\"",
    units: &[("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
};

const RATE: Kind = Kind {
    what: "rate",
    example: "\"1gbit\" or \"100mbit\"",
    units: &[
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
        ("bps", 1),
        ("kbps", 1_000),
        ("mbps", 1_000_000),
        ("gbps", 1_000_000_000),
    ],
};

impl Kind {
    fn parse(&self, text: &str) -> Result<u64, QuantityError> {
        let error = |why: String| QuantityError { text: text.into(), what: self.what, why, example: self.example };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        if number.is_empty() {
            return Err(error("it does not begin with a number".into()));
        }
        let (digits, decimals) = decimal(number).ok_or_else(|| error(format!("`{number}` is not a number")))?;
        let unit = unit.trim();
        if unit.is_empty() && digits == 0 {
            return Ok(0);
        }
        // `Mb` is a megabit to a network engineer and a megabyte to others: make the writer say which.
        let bits =
            self.what == "size" && unit.len() == 2 && unit.starts_with(char::is_uppercase) && unit.ends_with('b');
        let worth = self.units.iter().find(|(name, _)| unit.to_lowercase() == *name).map(|(_, worth)| *worth);
        let Some(worth) = worth.filter(|_| !bits) else {
            let known: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
            let missing =
                if unit.is_empty() { "its unit is missing".into() } else { format!("unit `{unit}` is unknown") };
            return Err(error(if bits {
                format!("`{unit}` may mean bits")
            } else {
                format!("{missing} (known: {})", known.join(", "))
            }));
        };
        // Round half up in integers: floats would lose the low bits of large sizes.
        let scale = 10u128.pow(decimals);
        let value = digits.checked_mul(u128::from(worth)).and_then(|value| value.checked_add(scale / 2));
        value.and_then(|value| u64::try_from(value / scale).ok()).ok_or_else(|| error("it is too large".into()))
    }
}

/// `"1_000.25"` as (100025, 2): an integer, or the largest one, and how many of its digits are decimals.
fn decimal(number: &str) -> Option<(u128, u32)> {
    let plain: String = number.chars().filter(|c| *c != '_').collect();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    // Digits alone: what cannot be read is too large.
    let digits = format!("{whole}{fraction}").parse().unwrap_or(u128::MAX);
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

/// Reads a size in bytes.
///
/// # Errors
/// When the text is not a number with one of the known units.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    BYTES.parse(text)
}

/// Reads a time.
///
/// # Errors
/// When the text is not a number with one of the known units.
pub fn parse_span(text: &str) -> Result<Span, QuantityError> {
    SPAN.parse(text).map(Span)
}

/// Reads a rate.
///
/// # Errors
/// When the text is not a number with one of the known units.
pub fn parse_rate(text: &str) -> Result<Rate, QuantityError> {
    RATE.parse(text).map(Rate)
}

/// Takes a string or a whole number, and lets `parse` make something of it.
struct Text<F> {
    expecting: &'static str,
    parse: F,
}

impl<T, F: Fn(&str) -> Result<T, QuantityError>> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        // `buffer = 0` is clear without a unit, `buffer = 96` is not: the text parser tells them apart.
        if number < 0 {
            return Err(E::invalid_value(Unexpected::Signed(number), &self));
        }
        (self.parse)(&number.to_string()).map_err(E::custom)
    }
}

pub(super) fn read<'de, D: Deserializer<'de>, T>(
    from: D,
    expecting: &'static str,
    parse: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<T, D::Error> {
    from.deserialize_any(Text { expecting, parse })
}

pub(super) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    read(from, "a time such as \"200ms\"", parse_span)
}

pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
    read(from, "a rate such as \"1gbit\"", parse_rate)
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    read(from, "a size such as \"96KB\"", parse_bytes)
}

pub(super) fn some_span<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    span(from).map(Some)
}

pub(super) fn some_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    rate(from).map(Some)
}

pub(super) fn some_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    bytes(from).map(Some)
}

/// A time, or `"off"` for none.
pub(super) fn span_or_off<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    read(from, "a time such as \"40ms\", or \"off\"", |text| match text {
        "off" => Ok(None),
        _ => parse_span(text).map(Some),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilobytes_are_the_papers() {
        assert_eq!(parse_bytes("96KB"), Ok(96_000));
        assert_eq!(parse_bytes("64 KiB"), Ok(65_536));
        assert_eq!(parse_bytes("1.5kb"), Ok(1_500));
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("1_000B"), Ok(1_000));
    }

    #[test]
    fn times_and_rates() {
        assert_eq!(parse_span("200ms"), Ok(Span::millis(200)));
        assert_eq!(parse_span("0.5us"), Ok(Span::nanos(500)));
        assert_eq!(parse_span("20µs"), Ok(Span::micros(20)));
        assert_eq!(parse_rate("1Gbit"), Ok(Rate(1_000_000_000)));
        assert_eq!(parse_rate("2.5gbps"), Ok(Rate(2_500_000_000)));
    }

    #[test]
    fn a_bad_quantity_says_what_would_be_a_good_one() {
        let text = |e: Result<u64, QuantityError>| e.unwrap_err().to_string();
        assert_eq!(
            text(parse_bytes("96Kb")),
            "`96Kb` is not a size: `Kb` may mean bits; write it like \"96KB\" (1000 bytes each) or \"64KiB\" (1024)"
        );
        assert!(text(parse_bytes("96")).contains("its unit is missing"));
        assert!(text(parse_bytes("KB")).contains("does not begin with a number"));
        assert!(text(parse_bytes("1.2.3KB")).contains("`1.2.3` is not a number"));
        assert!(text(parse_bytes("999999999999999999GB")).contains("too large"));
        assert!(text(parse_bytes("99999999999999999999999999999999999999999.5GB")).contains("too large"));
        assert_eq!(parse_bytes("18446744073709551615B"), Ok(u64::MAX));
        assert!(parse_span("5 parsecs").is_err());
        assert!(parse_rate("-1gbit").is_err());
    }
}
