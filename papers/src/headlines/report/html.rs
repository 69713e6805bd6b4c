//! The report as one self-contained page. Verdicts come first; each links to its rules and settings.

use super::readings::{dependence, explanations, has_any};
use super::{
    Circumstances, all, counts, drawing, each_part, flips, heard, measured, ours, programs, stand, summary, told,
    verdict_of,
};
use crate::headlines::log::{Entry, Log};
use crate::headlines::run::{Judged, Outcome, Outcomes};
use crate::headlines::verdict::{Held, Verdict};
use crate::report::escape;

/// Looks of the page: those of all reports, and the board's.
const STYLE: &str = concat!(include_str!("../../report/page.css"), include_str!("board.css"));

/// The page.
#[must_use]
pub fn page(outcomes: &Outcomes, log: &Log, how: &Circumstances) -> String {
    let mut body = format!("<header><h1>The papers' headlines</h1>\n<p>{}</p>\n", escape(&summary(outcomes)));
    body += &board(outcomes);
    body += &format!(
        "<p class=\"faint\"><code>{}</code>, build {}, {:.0} s, peak memory {} MB.</p>\n",
        escape(&how.command),
        escape(&how.build),
        how.seconds,
        how.memory / 1_000_000
    );
    body += &format!("<p class=\"faint\">{}</p>\n", escape(&programs(outcomes)));
    body += "<p class=\"faint\">Rules were fixed before results were known. Every point has 10 seeds, or 40 where the 95 % confidence interval \
             includes a limit (except in quick runs). (sim): the paper measured on a testbed, here a simulator stands in for it; the verdict says nothing \
             about the kernel code. “none”: it does not happen within the range.</p></header>\n";
    body += "<main><table class=\"verdicts\"><thead><tr><th>headline</th><th>paper</th><th>ours, with interval</th><th>verdict</th><th>other simulator</th></tr></thead><tbody>\n";
    for (paper, judged) in all(outcomes) {
        body += &format!(
            "<tr><td data-name=\"headline\"><a href=\"#{id}\">{id}</a> {}</td><td data-name=\"paper\">{}</td>\
             <td data-name=\"ours\">{}</td><td data-name=\"verdict\"><b class=\"{}\">{}</b> {}</td><td data-name=\"other simulator\">{}</td></tr>\n",
            escape(&judged.headline.claim),
            escape(&judged.headline.paper),
            ours(judged).iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br>"),
            class(verdict_of(judged)),
            verdict_of(judged).map_or("not run", Verdict::text),
            escape(rest(&told(&paper.book, judged))),
            escape(&heard(judged)),
            id = judged.headline.id
        );
    }
    body += "</tbody></table>\n";
    body += &changes(&log.entry);
    if has_any(outcomes) {
        body += &sensitivity(outcomes);
    }
    for (number, (paper, judged)) in all(outcomes).enumerate() {
        body += &section(paper, judged, number);
    }
    for paper in &outcomes.papers {
        body += &settings(paper);
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>ackgate: the papers' headlines</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{STYLE}</style></head>\n<body>\n{body}</main></body></html>\n"
    )
}

/// What follows the verdict's own words.
fn rest(told: &str) -> &str {
    let words = std::iter::once("not run").chain(Verdict::ALL.map(Verdict::text));
    let end = words.into_iter().find_map(|words| told.strip_prefix(words));
    end.unwrap_or_default().trim_start_matches(';')
}

/// All verdicts at one glance.
fn board(outcomes: &Outcomes) -> String {
    let mut text = String::from("<div class=\"board\">\n");
    for paper in &outcomes.papers {
        text += &format!("<div><h2>{}</h2>", paper.book.paper.name());
        for judged in &paper.judged {
            let verdict = verdict_of(judged).map_or("not run", Verdict::text);
            let short = judged.headline.id.split_once('-').map_or("", |(_, short)| short);
            let flips = if flips(&paper.book, judged).next().is_some() { "*" } else { "" };
            text += &format!(
                "<a class=\"{}\" href=\"#{id}\" title=\"{id}: {verdict}\">{short}{flips}</a>",
                class(verdict_of(judged)),
                id = judged.headline.id
            );
        }
        text += "</div>\n";
    }
    text += "<p>";
    for (verdict, count) in counts(outcomes).0 {
        text += &format!("<b class=\"{}\">{count}</b> {} ", class(Some(verdict)), verdict.text());
    }
    text + "<span class=\"faint\">* changes with another reading of an open setting</span></p></div>\n"
}

fn section(paper: &Outcome, judged: &Judged, number: usize) -> String {
    let headline = &judged.headline;
    let mut text = format!(
        "<section id=\"{id}\"><h2>{id}: {}</h2>\n<p class=\"faint\">{}, {}</p>\n<p><b class=\"{}\">{}</b>{}</p>\n",
        escape(&headline.claim),
        paper.book.paper.name(),
        escape(&headline.place),
        class(verdict_of(judged)),
        verdict_of(judged).map_or("not run", Verdict::text),
        escape(rest(&told(&paper.book, judged))),
        id = headline.id
    );
    if !headline.note.is_empty() || !headline.cannot.is_empty() {
        text += &format!("<p class=\"note\">{}{}</p>\n", escape(&headline.cannot), escape(&headline.note));
    }
    for left in &headline.left_out {
        text += &format!("<p class=\"note\">Left out: {}.</p>\n", escape(left));
    }
    let svg = drawing(paper, judged);
    if !svg.is_empty() {
        // Names of clipping areas are the page's, not the drawing's: keep them apart.
        let svg = svg.replace("\"panel", &format!("\"h{number}panel")).replace("#panel", &format!("#h{number}panel"));
        text += &format!("<figure>{svg}</figure>\n");
    }
    if let Some(judgement) = &judged.judgement {
        text += "<table class=\"rules\"><thead><tr><th></th><th>rule</th><th>ours, where nearest to a limit</th><th></th></tr></thead><tbody>\n";
        text += &rows(&judgement.parts, "");
        text += &rows(&judgement.direction, "direction");
        text += "</tbody></table>\n";
    }
    for one in &judged.testimonies {
        text += &format!(
            "<p>Other simulator, {}: <b class=\"{}\">{}</b> {}{}</p>\n",
            escape(&one.witness),
            class(Some(one.judgement.verdict)),
            one.judgement.verdict.text(),
            escape(&each_part(&one.judgement.parts).join("; ")),
            if one.lacks.is_empty() {
                String::new()
            } else {
                format!(". Not run there: {}", escape(&one.lacks.join("; ")))
            }
        );
    }
    text += &otherwise(paper, judged);
    let used: std::collections::BTreeSet<&str> = headline
        .rules()
        .flat_map(crate::headlines::rule::Rule::curves)
        .filter_map(|name| name.split('.').next())
        .collect();
    let links: Vec<String> =
        used.iter().map(|name| format!("<a href=\"#{}-{name}\">{name}</a>", paper_id(paper))).collect();
    text += &format!("<p class=\"faint\">Settings: {}. ", links.join(", "));
    text += &format!("Command: <code>ackgate reproduce --headlines {} --out DIR</code></p></section>\n", headline.id);
    text
}

/// What would have to differ.
fn otherwise(paper: &Outcome, judged: &Judged) -> String {
    let all = explanations(&paper.book, judged);
    if all.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<table class=\"otherwise\"><thead><tr><th></th><th>changed setting</th><th>result</th><th></th></tr></thead><tbody>\n",
    );
    for one in all {
        let verdict = one.judgement.verdict;
        text += &format!(
            "<tr><td>{}</td><td data-name=\"otherwise\">{}</td><td data-name=\"comes\"><b class=\"{}\">{}</b> {}</td><td>{}</td></tr>\n",
            one.name,
            escape(&one.change()),
            class(Some(verdict)),
            verdict.text(),
            escape(&one.figures()),
            escape(&one.other.says)
        );
    }
    text + "</tbody></table>\n"
}

fn sensitivity(outcomes: &Outcomes) -> String {
    let mut text = String::from(
        "<section id=\"readings\"><h2>Sensitivity of verdicts</h2>\n<table class=\"readings\"><thead><tr><th></th><th>open setting</th><th>used</th><th>alternative</th><th>changed verdicts</th></tr></thead><tbody>\n",
    );
    for cells in dependence(outcomes) {
        text += &named_row(["", "open setting", "used", "alternative", "changed verdicts"], cells);
    }
    text + "</tbody></table></section>\n"
}

fn rows(all: &[Held], name: &str) -> String {
    all.iter()
        .map(|held| {
            let name = if name.is_empty() { format!("({})", held.name) } else { name.to_owned() };
            format!(
                "<tr><td>{name}</td><td data-name=\"rule\"><code>{}</code></td><td data-name=\"ours\">{}</td><td>{}</td></tr>\n",
                escape(&held.text),
                escape(&measured(held, true)),
                stand(held.stand)
            )
        })
        .collect()
}

/// A row whose cells carry their columns' names, for screens too narrow for a table's head.
fn named_row<const N: usize>(names: [&str; N], cells: [String; N]) -> String {
    let cell = |(name, cell): (&str, String)| format!("<td data-name=\"{name}\">{}</td>", escape(&cell));
    format!("<tr>{}</tr>\n", names.into_iter().zip(cells).map(cell).collect::<String>())
}

fn changes(log: &[Entry]) -> String {
    let mut text = String::from(
        "<section id=\"log\"><h2>Changes after results were known</h2>\n<table class=\"log\"><thead><tr><th>change</th><th>reason</th><th>commit</th><th>verdicts</th></tr></thead><tbody>\n",
    );
    for entry in log {
        let cells = [&entry.what, &entry.why, &entry.commit, &entry.count].map(String::clone);
        text += &named_row(["change", "reason", "commit", "verdicts"], cells);
    }
    text + "</tbody></table></section>\n"
}

fn settings(paper: &Outcome) -> String {
    let mut text = String::new();
    for setting in &paper.book.settings {
        text += &format!(
            "<section id=\"{}-{name}\"><h2>Setting {name}: {}</h2>\n<pre>{}</pre>\n",
            paper_id(paper),
            escape(&setting.title),
            escape(&paper.book.source(&setting.name)),
            name = setting.name
        );
        let hashes: Vec<String> = setting
            .curves
            .iter()
            .filter_map(|curve| {
                Some(format!("{} {}", curve.name, paper.hashes.get(&format!("{}.{}", setting.name, curve.name))?))
            })
            .collect();
        if !hashes.is_empty() {
            text += &format!("<p class=\"faint\">Hashes: {}.</p>\n", hashes.join(", "));
        }
        text += "</section>\n";
    }
    text
}

fn paper_id(paper: &Outcome) -> String {
    paper.book.paper.name().split([' ', '(']).next().unwrap_or_default().to_lowercase()
}

fn class(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Reproduced) => "yes",
        Some(Verdict::DirectionOnly) => "partly",
        Some(Verdict::Undecided) => "unsure",
        Some(Verdict::Not) => "no",
        Some(Verdict::Cannot) | None => "open",
    }
}
