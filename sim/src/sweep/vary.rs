//! `--vary key=LIST`: what a key goes through.
//!
//! A list is items with commas between. An item is a value as `--set` takes it, or a range of whole numbers, with or
//! without a unit: `4..256` doubles from 4 up to 256 and ends with 256 whether hit or not; `10..100:10` goes in steps
//! of 10 and ends with the last step within. `16..256KB` and `1ms..200ms` are ranges too. Commas within quotes, brackets
//! and braces belong to the value: `switch.discipline=droptail,{ kind = "ecn", mark_above = "10p" }`.

use super::SweepError;

/// Values of one ranging range at most; beyond it is a slip of the hand.
const MAX_VALUES: usize = 10_000;

/// A key and the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// Dotted key of a scenario.
    pub key: String,
    /// Values, each as `--set` takes it; no duplicates, at least one.
    pub values: Vec<String>,
}

impl Vary {
    /// Reads `key=LIST`.
    ///
    /// # Errors
    /// When the text is not of that form, or a range in it makes no sense.
    pub fn parse(text: &str) -> Result<Self, SweepError> {
        let wrong = |problem: String| SweepError::Usage(format!("--vary {text}: {problem}"));
        let Some((key, list)) = text.split_once('=') else {
            return Err(wrong("is not of the form key=list, such as senders=1,2,4..256".into()));
        };
        let mut values: Vec<String> = Vec::new();
        for item in items(list).into_iter().map(str::trim) {
            for value in expand(item).map_err(&wrong)? {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        Ok(Self { key: key.trim().into(), values })
    }
}

/// What stands between the commas that are not within a value.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_u32, None);
    for (at, letter) in list.char_indices() {
        match (quoted, letter) {
            (None, '"' | '\'') => quoted = Some(letter),
            (Some(quote), _) if quote == letter => quoted = None,
            (Some(_), _) => {}
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items
}

/// The values that an item stands for.
fn expand(item: &str) -> Result<Vec<String>, String> {
    if item.is_empty() {
        return Err("the list has an empty item".into());
    }
    // A path may have `..` in it, and so may what is quoted.
    let range = item.split_once("..").filter(|_| !item.contains(['/', '"', '\'', '[', '{']));
    let Some((from, rest)) = range else { return Ok(vec![item.into()]) };
    let (to, step) = match rest.split_once(':') {
        Some((to, step)) => (to, Some(step)),
        None => (rest, None),
    };
    let (from, from_unit) = number(from).ok_or_else(|| format!("`{from}` in `{item}` is not a whole number"))?;
    let (to, unit) = number(to).ok_or_else(|| format!("`{to}` in `{item}` is not a whole number"))?;
    if !from_unit.is_empty() && from_unit != unit {
        return Err(format!("the ends of `{item}` have different units"));
    }
    if from > to {
        return Err(format!("`{item}` runs downwards: write the smaller end first"));
    }
    let step = match step.map(|step| (step, number(step))) {
        None if from == 0 => {
            return Err(format!(
                "`{item}` doubles, which leads nowhere from 0: begin at 1, or give a step, `0..{to}:1`"
            ));
        }
        None => None,
        Some((_, Some((step, step_unit)))) if step > 0 && (step_unit.is_empty() || step_unit == unit) => Some(step),
        Some((step, _)) => return Err(format!("`{step}` in `{item}` is not a step: a whole number above 0")),
    };
    let mut values = Vec::new();
    let mut value = from;
    while value <= to {
        values.push(value);
        if values.len() > MAX_VALUES {
            return Err(format!("`{item}` is more than {MAX_VALUES} values"));
        }
        match value.checked_add(step.unwrap_or(value)) {
            Some(next) => value = next,
            None => break,
        }
    }
    if step.is_none() && values.last() != Some(&to) {
        values.push(to);
    }
    Ok(values.into_iter().map(|value| format!("{value}{unit}")).collect())
}

/// A whole number and the letters after it.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    if !unit.chars().all(char::is_alphabetic) {
        return None;
    }
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<String> {
        Vary::parse(text).unwrap().values
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(values("senders=1,2,4..256"), ["1", "2", "4", "8", "16", "32", "64", "128", "256"]);
        assert_eq!(values("senders=1..48"), ["1", "2", "4", "8", "16", "32", "48"]);
        assert_eq!(values("senders=10..45:10"), ["10", "20", "30", "40"]);
        assert_eq!(values("senders=0..2:1"), ["0", "1", "2"]);
        assert_eq!(values("switch.buffer=16..64KB"), ["16KB", "32KB", "64KB"]);
        assert_eq!(values("tcp.rto_min=1ms..4ms"), ["1ms", "2ms", "4ms"]);
        assert_eq!(values("scheme=none, pac,none"), ["none", "pac"]);
        assert_eq!(values("x=18446744073709551615..18446744073709551615"), ["18446744073709551615"]);
    }

    #[test]
    fn commas_and_dots_within_a_value_are_its_own() {
        assert_eq!(
            values("switch.discipline=droptail,{ kind = \"ecn\", mark_above = \"10p\" }, red"),
            ["droptail", "{ kind = \"ecn\", mark_above = \"10p\" }", "red"]
        );
        assert_eq!(values("network.topology.senders_at=[\"a\", \"b\"],[\"a\"]"), ["[\"a\", \"b\"]", "[\"a\"]"]);
        assert_eq!(values("workload.file=../a.csv,b/../c.csv,\"x..y,z\""), ["../a.csv", "b/../c.csv", "\"x..y,z\""]);
        assert_eq!(values("x={[\"]}"), ["{[\"]}"]);
    }

    #[test]
    fn a_bad_range_says_why() {
        let text = |text: &str| Vary::parse(text).unwrap_err().to_string();
        assert_eq!(text("senders"), "--vary senders: is not of the form key=list, such as senders=1,2,4..256");
        assert_eq!(text("n=8..1"), "--vary n=8..1: `8..1` runs downwards: write the smaller end first");
        assert_eq!(text("n=1,,2"), "--vary n=1,,2: the list has an empty item");
        assert_eq!(text("n=1KB..2MB"), "--vary n=1KB..2MB: the ends of `1KB..2MB` have different units");
        assert!(text("n=0..8").contains("leads nowhere"));
        assert!(text("n=1..8:0").contains("is not a step"));
        assert!(text("n=1..x").contains("is not a whole number"));
        assert!(text("n=0..99999999:1").contains("more than 10000 values"));
    }

    proptest! {
        #[test]
        fn arbitrary_lists_never_panic(list in "[0-9a-z.,:]{0,40}") {
            if let Ok(vary) = Vary::parse(&format!("k={list}")) {
                prop_assert!(!vary.values.is_empty());
            }
        }
    }
}
