//! Numbers as people and schedulers write them: `1-3,7`.

/// Rising numbers as ranges: `1-3,7`.
#[must_use]
pub fn format_ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(start, end): (usize, usize)| if start == end { start.to_string() } else { format!("{start}-{end}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Reads `1-3,7`, in its order. `None` when it is not of that form or has more than `most` numbers.
#[must_use]
pub fn parse_ranges(text: &str, most: usize) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (start, end) = item.split_once('-').unwrap_or((item, item));
        let (start, end): (usize, usize) = (start.parse().ok()?, end.parse().ok()?);
        if start > end || end - start >= most.saturating_sub(numbers.len()) {
            return None;
        }
        numbers.extend(start..=end);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges() {
        assert_eq!(format_ranges(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(parse_ranges("1-3, 7", 10), Some(vec![1, 2, 3, 7]));
        assert_eq!(parse_ranges("", 10), Some(Vec::new()));
        assert_eq!(parse_ranges("0-99999999999", 10), None);
        assert!(
            parse_ranges("3-1", 10).is_none() && parse_ranges("x", 10).is_none() && parse_ranges("1-", 10).is_none()
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(set in proptest::collection::btree_set(0_usize..200, 0..50)) {
            let numbers: Vec<usize> = set.into_iter().collect();
            prop_assert_eq!(parse_ranges(&format_ranges(&numbers), 200), Some(numbers));
        }
    }
}
