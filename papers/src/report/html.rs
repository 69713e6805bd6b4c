//! The report as one page that needs nothing else: it opens from disk, and fits a phone.

use crate::catalogue;
use crate::experiment::{Claim, Experiment};
use crate::judge::{Judgement, Verdict};
use crate::run::Outcome;

use super::{counts, summary};

/// Looks of the page. Tables become cards on narrow screens.
const STYLE: &str = include_str!("page.css");

/// The page.
#[must_use]
pub fn page(outcomes: &[Outcome], quick: bool) -> String {
    let mut body = String::new();
    body += "<header><h1>The papers, reproduced</h1>\n";
    body += &format!("<p>{}</p>\n", escape(&summary(outcomes)));
    let shares = counts(outcomes);
    body += "<div class=\"bar\" role=\"img\" aria-label=\"shares of verdicts\">";
    for (verdict, count) in shares.iter().filter(|(_, count)| *count > 0) {
        body += &format!("<span class=\"{}\" style=\"flex-grow:{count}\">{count}</span>", class(*verdict));
    }
    body += "</div>\n";
    if quick {
        body += "<p class=\"faint\">A quick run: fewer seeds and points than the full one.</p>\n";
    }
    body += "<p class=\"faint\">Every experiment is a sweep of the simulator with the settings of its paper and common defaults for what the papers \
             leave open. All claims are evaluated by the same rules: a bound is partly met if missed by up to 10 %; “about” means within 15 %, partly within 40 %; \
             a ratio within a factor of 1.5, partly 3 (near 1: its difference from 1); a number of senders at which something begins within 20 % of the sweep’s step, \
             partly within a factor of 2. A curve collapses where it first falls below 80 % of its previous maximum.</p></header>\n";
    body += "<nav><ul>\n";
    for outcome in outcomes {
        let experiment = &outcome.experiment;
        body += &format!("<li><a href=\"#{id}\">{id}</a> {}", escape(&experiment.title), id = experiment.id);
        for judgement in &outcome.judgements {
            let text = judgement.verdict.text();
            body += &format!(" <i class=\"dot {}\" title=\"{text}\"></i>", class(judgement.verdict));
        }
        body += "</li>\n";
    }
    body += "</ul></nav>\n<main>\n";
    for (number, outcome) in outcomes.iter().enumerate() {
        body += &section(outcome, number);
    }
    body += "</main>\n";
    body += &elsewhere();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>ackgate: the papers, reproduced</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n"
    )
}

fn section(outcome: &Outcome, number: usize) -> String {
    let experiment = &outcome.experiment;
    let mut text =
        format!("<section id=\"{}\"><h2>{}: {}</h2>\n", experiment.id, experiment.id, escape(&experiment.title));
    let also =
        if experiment.also.is_empty() { String::new() } else { format!("; covers {}", experiment.also.join(", ")) };
    text += &format!(
        "<p class=\"faint\">{}, {}, {}{}</p>\n",
        experiment.paper.name(),
        escape(&experiment.figure),
        escape(&experiment.section),
        escape(&also)
    );
    // Names of clipping areas are the page's, not the drawing's: keep them apart.
    let svg =
        outcome.svg.replace("\"panel", &format!("\"d{number}panel")).replace("#panel", &format!("#d{number}panel"));
    text += &format!("<figure>{svg}</figure>\n");
    text += "<table><thead><tr><th>claim</th><th>paper</th><th>ours</th><th>verdict</th></tr></thead><tbody>\n";
    for (claim, judgement) in experiment.claims.iter().zip(&outcome.judgements) {
        text += &row(claim, judgement);
    }
    text += "</tbody></table>\n";
    text += &details(experiment);
    text + "</section>\n"
}

/// The figures that no experiment runs.
fn elsewhere() -> String {
    let mut text = String::from("<section id=\"not-run\"><h2>Not run</h2>\n<ul>\n");
    for figure in catalogue::not_run().expect("the file is part of the program, and tested") {
        text += &format!("<li>{}: {}.</li>\n", escape(&figure.what), escape(&figure.why));
    }
    text + "</ul></section>\n"
}

fn row(claim: &Claim, judgement: &Judgement) -> String {
    let note =
        if claim.note.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>", escape(&claim.note)) };
    format!(
        "<tr><td data-name=\"claim\">{}{note}</td><td data-name=\"paper\">{}</td>\
         <td data-name=\"ours\">{}</td><td data-name=\"verdict\"><b class=\"{}\">{}</b></td></tr>\n",
        escape(&claim.says),
        escape(&claim.paper),
        escape(&judgement.measured),
        class(judgement.verdict),
        judgement.verdict.text()
    )
}

fn details(experiment: &Experiment) -> String {
    let mut text = format!(
        "<details><summary>Setting</summary>\n<pre>{}</pre>\n<ul>\n",
        escape(experiment.topology.trim_matches('\n'))
    );
    for setting in &experiment.settings {
        text +=
            &format!("<li>{} <span class=\"faint\">{}</span></li>\n", escape(&setting.what), escape(&setting.source));
    }
    text += "</ul>\n";
    if let Some(hosts) = &experiment.hosts {
        text += &format!("<p>Other settings are the defaults of {}:</p><ul>\n", escape(hosts));
        for given in &experiment.given {
            text += &format!("<li><code>{}</code>: {}</li>\n", escape(&given.set), escape(&given.why));
        }
        text += "</ul>\n";
    }
    if !experiment.chosen.is_empty() {
        text += "<p>Our choice, not stated in the paper:</p><ul>\n";
        for choice in &experiment.chosen {
            text += &format!("<li>{}: {}</li>\n", escape(&choice.what), escape(&choice.why));
        }
        text += "</ul>\n";
    }
    if !experiment.deviations.is_empty() {
        text += "<p>Different from the paper:</p><ul>\n";
        for deviation in &experiment.deviations {
            text += &format!("<li>{}</li>\n", escape(deviation));
        }
        text += "</ul>\n";
    }
    text + &format!("<p>Command: <code>ackgate reproduce {} --out DIR</code></p></details>\n", experiment.id)
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "yes",
        Verdict::Partly => "partly",
        Verdict::NotReproduced => "no",
        Verdict::CannotBeTested => "open",
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
