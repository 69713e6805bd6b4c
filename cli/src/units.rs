//! Sizes, rates and times on the command line, written as in scenario files: `96KB` (1000 bytes each, as in the papers),
//! `64KiB` (1024), `1gbit`, `200ms`. A bare number is a size in bytes.

use std::time::Duration;

use ackgate_sim::scenario::human::{self, QuantityError};

/// A size in bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if bare { human::parse_bytes(&format!("{text}B")) } else { human::parse_bytes(text) }
}

/// A rate in bits per second, above 0. What ends in `bps` is refused: to most people that is bits, to `tc` bytes.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    if let Some(number) = text.to_ascii_lowercase().strip_suffix("bps") {
        return Err(format!(
            "`bps` means bytes to `tc` and bits to most people; write \"{number}bit\" for bits a second, eight times as much for \
             bytes"
        ));
    }
    match human::parse_rate(text) {
        Ok(rate) if rate.0 > 0 => Ok(rate.0),
        Ok(_) => Err("a rate of 0 carries nothing; write it like \"1gbit\"".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// A time.
pub(crate) fn parse_time(text: &str) -> Result<Duration, QuantityError> {
    human::parse_span(text).map(|span| Duration::from_nanos(span.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_scenarios_and_bare_bytes() {
        assert_eq!(parse_bytes("96KB"), Ok(96_000));
        assert_eq!(parse_bytes("98304"), Ok(98_304));
        assert_eq!(parse_rate("1gbit"), Ok(1_000_000_000));
        assert_eq!(parse_time("200ms"), Ok(Duration::from_millis(200)));
        assert!(parse_bytes("").is_err() && parse_rate("0").is_err() && parse_time("200").is_err());
    }

    #[test]
    fn a_rate_that_is_bytes_to_some_is_refused() {
        for text in ["1gbps", "100Mbps"] {
            assert!(parse_rate(text).unwrap_err().contains("bit\""));
        }
    }
}
