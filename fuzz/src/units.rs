//! Quantities, lists, ranges, rules and changes as they stand on the command line and in the file of settings.

use ackgate_linux::selection::Rule;
use ackgate_sim::scenario::Assignment;
use ackgate_sim::scenario::human::{parse_bytes, parse_rate, parse_span};
use ackgate_sim::sweep::folder::{format_ranges, parse_ranges};
use ackgate_sim::sweep::{Shard, Vary};

#[path = "../../cli/src/units.rs"]
mod command_line;

/// Most numbers in a range.
const MOST: usize = 1000;

/// Reads the text as each of them.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(size) = parse_bytes(text) {
        assert_eq!(parse_bytes(&format!("{size}B")), Ok(size));
    }
    if let Ok(span) = parse_span(text) {
        assert_eq!(parse_span(&format!("{}ns", span.0)), Ok(span));
    }
    let rate = parse_rate(text);
    if let Ok(rate) = command_line::parse_rate(text) {
        assert!(rate > 0);
    }
    assert_eq!(command_line::parse_time(text).is_ok(), parse_span(text).is_ok());
    let bare = command_line::parse_bytes(text);
    assert!(bare.is_ok() || parse_bytes(text).is_err(), "{text}: {bare:?} {rate:?}");
    if let Ok(vary) = Vary::parse(text) {
        assert!(!vary.values.is_empty());
    }
    if let Ok(Shard { k, n }) = Shard::parse(text) {
        assert!((1..=n).contains(&k));
    }
    if let Some(numbers) = parse_ranges(text, MOST) {
        assert!(numbers.len() <= MOST);
        let mut sorted = numbers;
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(parse_ranges(&format_ranges(&sorted), MOST), Some(sorted));
    }
    match text.parse::<Rule>() {
        Ok(Rule::Group(path)) => assert!(path.is_absolute()),
        Ok(rule) => assert_eq!(rule.to_string().parse(), Ok(rule)),
        Err(_) => {}
    }
    let _ = Assignment::parse("--set", text);
}
