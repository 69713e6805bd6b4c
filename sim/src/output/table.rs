//! Tables for people: aligned columns with a rule under the head.

/// Lines up `rows` under `head`; columns of numbers are set flush right.
#[must_use]
pub fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let cells = |row: &[String], i: usize| row.get(i).cloned().unwrap_or_default();
    let columns: Vec<(usize, bool)> = (0..head.len())
        .map(|i| {
            let widest = rows.iter().map(|row| cells(row, i).chars().count()).max().unwrap_or(0);
            let numeric = rows
                .iter()
                .map(|row| cells(row, i))
                .all(|cell| cell.starts_with(|c: char| "0123456789-+.".contains(c)));
            (widest.max(head[i].chars().count()), numeric)
        })
        .collect();
    let line = |row: &[String]| {
        let cells = columns.iter().enumerate().map(|(i, &(width, right))| {
            let cell = cells(row, i);
            if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rule = columns.iter().map(|(width, _)| "─".repeat(*width)).collect::<Vec<_>>().join("  ");
    let mut text = format!("{}\n{rule}\n", line(head));
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

/// A figure with as many digits as one reads: three or so, thousands apart.
#[must_use]
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => return "0".into(),
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    if decimals > 0 {
        let text = format!("{value:.decimals$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let grouped: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_names_left() {
        let own = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let text = table(&own(&["scheme", "Mb/s"]), &[own(&["none", "1"]), own(&["pac", "940"])]);
        assert_eq!(text, "scheme  Mb/s\n──────  ────\nnone       1\npac      940\n");
    }

    #[test]
    fn figures() {
        for (value, text) in [
            (0.0, "0"),
            (949.28, "949"),
            (1_234_567.0, "1 234 567"),
            (12.34, "12.3"),
            (1.5, "1.5"),
            (0.0123, "0.012"),
            (-1000.0, "-1 000"),
            (2.0, "2"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
