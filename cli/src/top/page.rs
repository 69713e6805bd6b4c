//! The page: a line for each guard, and of one of them what was not guarded and why. Made for 80 columns and 24 rows.

use ackgate_linux::statistics::{STATISTICS, Statistic};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, Widget, Wrap};

use super::view::{Guard, View};

/// Statistics that say why something was not guarded as it might have been.
const REASONS: [&str; 12] = [
    "older",
    "excluded",
    "unguarded",
    "overflow",
    "forced",
    "authenticated",
    "multipath",
    "unacceptable",
    "fragments",
    "malformed",
    "stepped_aside",
    "rescues",
];
/// Lines of the list of guards, at most.
const GUARDS: usize = 6;
/// Columns of the bar that shows how much of the budget is in flight.
const BAR: usize = 10;

/// Draws all of it.
pub(super) fn draw(view: &View, area: Rect, buffer: &mut Buffer) {
    let lines = view.guards().len().clamp(1, GUARDS) as u16;
    let [title, list, releases, reasons, notices] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines + 1),
        Constraint::Length(2),
        Constraint::Length(REASONS.len() as u16 + 1),
        Constraint::Min(0),
    ])
    .areas(area);
    let count = view.guards().len();
    let several = if count > 1 { "   up, down: another interface" } else { "" };
    let interfaces = if count == 1 { "interface" } else { "interfaces" };
    Line::from(format!("ackgate top   {count} {interfaces} guarded{several}   q: quit"))
        .reversed()
        .render(title, buffer);
    let Some(selected) = view.selected() else {
        Paragraph::new("No guard answers in this network namespace; `ackgate run` guards.").render(list, buffer);
        return;
    };
    guards(view).render(list, buffer);
    self::releases(selected, releases, buffer);
    self::reasons(selected, reasons.width).render(reasons, buffer);
    self::notices(selected).render(notices, buffer);
}

fn guards(view: &View) -> Table<'_> {
    // The selected one is always among those that are shown.
    let first = (view.selected_index() + 1).saturating_sub(GUARDS);
    let rows = view.guards().iter().enumerate().skip(first).take(GUARDS).map(|(index, guard)| {
        let row = Row::new(cells(guard));
        if index == view.selected_index() { row.bold() } else { row }
    });
    let names = ["INTERFACE", "GUARD", "SENDERS", "IN FLIGHT OF BUDGET", "HELD", "REL/S", "RTT", "HELD FOR", "RTT X"];
    let widths = [9, 8, 7, 20, 4, 5, 6, 8, 5].map(Constraint::Length);
    Table::new(rows, widths).header(Row::new(names.map(right_but_first())).style(Style::new().fg(Color::Cyan)))
}

/// Names of texts to the left, names of numbers to the right.
fn right_but_first() -> impl FnMut(&'static str) -> Cell<'static> {
    let mut at = 0;
    move |name| {
        at += 1;
        if at > 2 { right(name.to_owned()) } else { Cell::new(name) }
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::new(Line::from(text).right_aligned())
}

fn cells(guard: &Guard) -> [Cell<'static>; 9] {
    let (in_flight, budget) = (guard.number("in_flight"), guard.number("threshold"));
    let rtt = guard.number("mean_rtt_us");
    // Of the last second: of each frame that was held, and of each that left.
    let (held_us, released) = (guard.rate("held_us"), guard.rate("released"));
    let held_for = held_us.checked_div(released).unwrap_or(0);
    let added = held_us.checked_div(released + guard.rate("passed")).unwrap_or(0);
    let what = match guard {
        _ if guard.observes() => "observed",
        _ if guard.number("dormant") > 0 => "dormant",
        _ => guard.text("guard"),
    };
    [
        Cell::new(shortened(guard.text("device"), 9)),
        Cell::new(shortened(what, 8)),
        right(count(guard.number("senders"))),
        right(format!("{} {} {}", count(in_flight), bar(in_flight, budget), count(budget))),
        right(count(guard.number("held"))),
        right(count(guard.rate("released"))),
        right(time(rtt)),
        right(time(held_for)),
        right(inflation(rtt, added)),
    ]
}

/// A text that fits, with its loss shown.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['~']).collect()
}

/// As many words as fit, with their loss shown.
fn whole_words(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        if kept.chars().count() + word.chars().count() + " ...".len() > most {
            break;
        }
        kept += word;
        kept.push(' ');
    }
    kept + "..."
}

/// `[####......]`, short of the frame around it.
fn bar(part: u64, whole: u64) -> String {
    let width = BAR as u64 - 2;
    let filled = part.saturating_mul(width).checked_div(whole).unwrap_or(0).min(width) as usize;
    format!("[{}{}]", "#".repeat(filled), ".".repeat(width as usize - filled))
}

/// By how many times holding lengthens round trips.
fn inflation(rtt: u64, added: u64) -> String {
    match rtt {
        0 => "-".into(),
        rtt => format!("{}.{}", (rtt + added) / rtt, (rtt + added) * 10 / rtt % 10),
    }
}

/// At most four characters: thousands, millions and so on by their letters.
fn count(number: u64) -> String {
    const UNITS: [(u64, char); 4] = [(1_000_000_000_000, 'T'), (1_000_000_000, 'G'), (1_000_000, 'M'), (1_000, 'k')];
    match UNITS.into_iter().find(|&(unit, _)| number >= unit) {
        None => number.to_string(),
        Some((unit, letter)) if number >= 10 * unit => format!("{}{letter}", number / unit),
        Some((unit, letter)) => format!("{}.{}{letter}", number / unit, number * 10 / unit % 10),
    }
}

/// Microseconds, as whatever is short.
fn time(us: u64) -> String {
    match us {
        0..10_000 => format!("{us}us"),
        10_000..10_000_000 => format!("{}ms", us / 1000),
        _ => format!("{}s", us / 1_000_000),
    }
}

fn releases(guard: &Guard, area: Rect, buffer: &mut Buffer) {
    let most = guard.history().iter().copied().max().unwrap_or(0);
    let title = format!("{}: releases a second, up to {}", guard.text("device"), count(most));
    let shown = guard.history().len().saturating_sub(area.width.into());
    Sparkline::default()
        .block(Block::new().title(title))
        .data(&guard.history()[shown..])
        .style(Style::new().fg(Color::Green))
        .render(area, buffer);
}

fn reasons(guard: &Guard, width: u16) -> Table<'_> {
    // Besides the name and two numbers, and a blank.
    let width = usize::from(width).saturating_sub(13 + 6 + 6 + 1);
    let rows = REASONS.iter().filter_map(|name| STATISTICS.iter().find(|statistic| statistic.name == *name)).map(
        move |reason| {
            let &Statistic { name, help, .. } = reason;
            let row = Row::new([
                Cell::new(name),
                right(count(guard.number(name))),
                right(count(guard.rate(name))),
                Cell::new(format!(" {}", whole_words(help, width))),
            ]);
            if guard.rate(name) > 0 {
                row.style(Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD))
            } else {
                row
            }
        },
    );
    let names = [Cell::new("NOT GUARDED"), right("ALL".into()), right("/S".into()), Cell::new(" WHAT IT COUNTS")];
    let widths = [Constraint::Length(13), Constraint::Length(6), Constraint::Length(6), Constraint::Min(0)];
    Table::new(rows, widths).column_spacing(0).header(Row::new(names).style(Style::new().fg(Color::Cyan)))
}

fn notices(guard: &Guard) -> Paragraph<'_> {
    let mut lines: Vec<Line<'_>> =
        guard.notices().map(|(at, text)| Line::from(format!("after {at} s: {text}"))).collect();
    // The latest are what matters where there is no room for all.
    lines.reverse();
    Paragraph::new(lines)
        .wrap(Wrap { trim: true })
        .block(Block::new().borders(Borders::TOP).title("notices, the latest first"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{SMALLEST, text};
    use super::*;

    fn answer(device: &str, seconds: u64, released: u64) -> Value {
        json!({
            "device": device, "guard": "credit", "observe": false, "guarding_s": seconds, "senders": 1234, "in_flight": 9_200,
            "threshold": 9_999, "held": 56, "released": released, "mean_rtt_us": 200, "passed": released, "held_us": released * 680, "excluded": 3,
            "overflow": seconds * 1000, "notices": [{ "at_s": 7, "text": "stepping aside for 30 s" }],
        })
    }

    fn page(view: &View) -> Vec<String> {
        let mut buffer = Buffer::empty(SMALLEST);
        draw(view, SMALLEST, &mut buffer);
        text(&buffer).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_page_of_80_by_24_says_how_each_guard_stands() {
        let mut view = View::default();
        view.update(vec![answer("eth0", 1, 0), answer("bond-storage0", 1, 0)]);
        view.update(vec![answer("eth0", 2, 45_210), answer("bond-storage0", 2, 0)]);
        let page = page(&view);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(page[0].contains("2 interfaces guarded"), "{page:#?}");
        assert_eq!(
            words(&page[2]),
            ["eth0", "credit", "1.2k", "9.2k", "[#######.]", "9.9k", "56", "45k", "200us", "680us", "2.7"],
            "{page:#?}"
        );
        assert!(page[3].starts_with("bond-sto~ credit"), "{page:#?}");
        let line =
            |start: &str| page.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{page:#?}"));
        assert_eq!(words(line("excluded"))[..4], ["excluded", "3", "0", "Connections"]);
        assert_eq!(words(line("overflow"))[..3], ["overflow", "2.0k", "1.0k"]);
        assert!(line("excluded").ends_with(" Connections exempted by `exclude` and `include` rules."), "{page:#?}");
        assert!(line("unguarded").ends_with(" Connections not guarded because the flow table was ..."), "{page:#?}");
        assert!(line("after 7 s").contains("stepping aside"));
    }

    #[test]
    fn without_guards_it_says_so() {
        let page = page(&View::default());
        assert!(page[0].contains("0 interfaces guarded") && page[1].contains("`ackgate run` guards"), "{page:#?}");
    }

    #[test]
    fn of_many_guards_the_selected_one_is_shown() {
        let mut view = View::default();
        view.update((0..20).map(|n| answer(&format!("eth{n}"), 1, 0)).collect());
        (0..20).for_each(|_| view.select_next());
        let page = page(&view);
        assert!(page.iter().any(|line| line.starts_with("eth19 ")), "{page:#?}");
        assert!(page.iter().any(|line| line.starts_with("eth19: releases")), "{page:#?}");
    }

    #[test]
    fn every_reason_is_a_statistic() {
        assert!(REASONS.iter().all(|name| STATISTICS.iter().any(|statistic| statistic.name == *name)));
    }

    #[test]
    fn numbers_are_short() {
        let counts = [0, 999, 1000, 9_999, 10_000, 1_500_000, 2_000_000_000].map(count);
        assert_eq!(counts, ["0", "999", "1.0k", "9.9k", "10k", "1.5M", "2.0G"]);
        assert_eq!([0, 9_999, 12_345, 12_345_678].map(time), ["0us", "9999us", "12ms", "12s"]);
        assert_eq!(
            (inflation(0, 5), inflation(200, 0), inflation(100, 950)),
            ("-".into(), "1.0".into(), "10.5".into())
        );
        assert_eq!(
            (bar(0, 0), bar(50, 100), bar(200, 100)),
            ("[........]".into(), "[####....]".into(), "[########]".into())
        );
    }
}
