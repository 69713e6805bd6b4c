//! Sizes, rates and times as people write them on a command line: `96KB`, `1gbit`, `200ms`.

use std::time::Duration;

/// Reads a size in bytes. `KB`, `MB` and `GB` are powers of 1024, as tc counts them and as the papers' buffers are
/// (64KB = 65536); so are `K`, `KiB` and the like. Without a unit: bytes.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let scale = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(1.0),
        "k" | "kb" | "kib" => Some(1024.0),
        "m" | "mb" | "mib" => Some(1024.0 * 1024.0),
        "g" | "gb" | "gib" => Some(1024.0 * 1024.0 * 1024.0),
        _ => None,
    };
    parse(text, scale).ok_or_else(|| format!("`{text}` is no size: write bytes or for example 96KB, 1.5MB"))
}

/// Reads a rate in bits per second: `1gbit`, `100Mbit/s`, `10Gb/s`. Powers of 1000. Without a unit: bits per second.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let scale = |unit: &str| {
        let unit = unit.to_ascii_lowercase();
        let unit = unit.strip_suffix("/s").or(unit.strip_suffix("ps")).unwrap_or(&unit);
        match unit {
            "" | "bit" | "b" => Some(1.0),
            "kbit" | "kb" | "k" => Some(1e3),
            "mbit" | "mb" | "m" => Some(1e6),
            "gbit" | "gb" | "g" => Some(1e9),
            _ => None,
        }
    };
    parse(text, scale)
        .filter(|&rate| rate > 0)
        .ok_or_else(|| format!("`{text}` is no rate: write for example 1gbit or 100mbit"))
}

/// Reads a time: `200ms`, `50us`, `2s`, `1m`. The unit is not optional, except for 0.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let scale = |unit: &str| match unit {
        "ns" => Some(1.0),
        "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        "m" | "min" => Some(60e9),
        "" if text.trim() == "0" => Some(1.0),
        _ => None,
    };
    parse(text, scale)
        .map(Duration::from_nanos)
        .ok_or_else(|| format!("`{text}` is no time: write for example 200ms, 50us or 2s"))
}

/// A number with a unit, as a whole number of the smallest unit.
#[expect(clippy::cast_sign_loss, reason = "checked just before")]
fn parse(text: &str, scale: impl Fn(&str) -> Option<f64>) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let value = number * scale(text[end..].trim())?;
    (value.is_finite() && value < 1e18).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write() {
        assert_eq!(parse_bytes("96KB"), Ok(98_304));
        assert_eq!(parse_bytes("64 KiB"), Ok(65_536));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_bytes("17"), Ok(17));
        assert_eq!(parse_rate("1gbit"), Ok(1_000_000_000));
        assert_eq!(parse_rate("1Gb/s"), Ok(1_000_000_000));
        assert_eq!(parse_rate("2.5Gbps"), Ok(2_500_000_000));
        assert_eq!(parse_time("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_time("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_told_with_an_example() {
        for bad in ["", "KB", "-1KB", "1.2.3KB", "96KX", "1e9", "9999999999GB"] {
            assert!(parse_bytes(bad).unwrap_err().contains("96KB"), "{bad}");
        }
        assert!(parse_rate("0").is_err());
        assert!(parse_rate("fast").is_err());
        assert!(parse_time("200").is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,12}") {
            let _ = (parse_bytes(&text), parse_rate(&text), parse_time(&text));
        }

        #[test]
        fn bytes_come_back(n in 0u64..1 << 40) {
            prop_assert_eq!(parse_bytes(&format!("{n}")), Ok(n));
            prop_assert_eq!(parse_bytes(&format!("{n}B")), Ok(n));
        }
    }
}
