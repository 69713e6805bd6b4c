//! The outcome as a page of the documentation: verdicts first.

use super::readings::{dependence, explanations};
use super::{Circumstances, all, each_part, has_witnesses, heard, ours, programs, summary, told, verdict_of};
use crate::headlines::log::Log;
use crate::headlines::run::Outcomes;
use crate::headlines::verdict::Verdict;

/// A page of Markdown.
#[must_use]
pub fn markdown(outcomes: &Outcomes, log: &Log, how: &Circumstances) -> String {
    let mut text = String::from("# Reproduction\n\n");
    text += &format!("Written by `{}`; do not edit by hand.\n\n**{}**\n\n", how.command, summary(outcomes));
    text += &format!("- {}\n", programs(outcomes));
    for made in &log.made {
        text += &format!("- {made}\n");
    }
    text += "- The rules are data in [`papers/headlines/`](../papers/headlines) and were fixed before results were known; one program evaluates \
             all of them ([`papers/src/headlines/`](../papers/src/headlines)).\n\
             - Every point has 10 seeds, or 40 where the 95 % confidence interval includes a limit (except in quick runs).\n\
             - (sim): the paper measured on a testbed, here a simulator stands in for it; the verdict says nothing about the kernel code.\n\
             - “none”: it does not happen within the range; a ratio has no interval (“?”) where that is so of both sides.\n\
             - “depends on”: another reading of something that the paper leaves open changes the verdict: see “Sensitivity of verdicts”.\n\n## Verdicts\n\n";
    text += "| headline | verdict | other simulator | paper | ours, with interval |\n|---|---|---|---|---|\n";
    for (paper, judged) in all(outcomes) {
        let cells = [
            judged.headline.id.clone(),
            told(&paper.book, judged),
            heard(judged),
            judged.headline.paper.clone(),
            ours(judged).join("; "),
        ];
        text += &row(&cells);
    }
    text += &witnesses(outcomes);
    text += "\n## Not or partly reproduced\n\nBelow each headline: its probable cause, and changes of one or a few settings, each with NAME, change, verdict and figures: the best verdict first, then readings that make it worse. \
             To repeat one: `ackgate reproduce --headlines ID --reading NAME --out DIR`.\n\n";
    for (paper, judged) in all(outcomes).filter(|(_, judged)| verdict_of(judged) != Some(Verdict::Reproduced)) {
        let headline = &judged.headline;
        let reason = if headline.cannot.is_empty() { &headline.note } else { &headline.cannot };
        text += &format!("- **{}** ({}): {} {}\n", headline.id, headline.place, headline.claim, reason);
        for one in explanations(&paper.book, judged) {
            let (verdict, figures) = (one.judgement.verdict.text(), one.figures());
            text += &format!("  - {}, {}: **{verdict}**. {figures}. {}", one.name, one.change(), one.other.says);
            text = text.trim_end().to_owned() + "\n";
        }
    }
    text += "\n## Sensitivity of verdicts\n\nEach row changes one setting that a paper leaves open, with 10 seeds. Only changed verdicts are listed.\n\n";
    text += "| | open setting | used | alternative | changed verdicts |\n|---|---|---|---|---|\n";
    for cells in dependence(outcomes) {
        text += &row(&cells);
    }
    text += "\n## Changes after results were known\n\n| change | reason | commit | verdicts |\n|---|---|---|---|\n";
    for entry in &log.entry {
        text += &format!("| {} | {} | {} | {} |\n", entry.what, entry.why, entry.commit, entry.count);
    }
    text
}

/// Verdicts of other simulators' runs, by the same rules.
fn witnesses(outcomes: &Outcomes) -> String {
    let mut text = String::from("\n## Other simulators\n\n");
    text += "The papers' simulators ns-2 and ns-3 at the same settings, evaluated by the same rules (`bench/peers/run witness`). ";
    text += "Neither has PAC, ICTCP, M21TCP-A, HWatch or the papers' kernels, so they can only run baselines. ";
    text += "The table of verdicts gives the reason where none was run; [validation.md](validation.md) explains other differences.\n\n";
    if has_witnesses(outcomes) {
        text += "| headline | simulator | verdict | figures, with intervals | not run there |\n|---|---|---|---|---|\n";
    } else {
        text += "None were run.\n";
    }
    for (_, judged) in all(outcomes) {
        for one in &judged.testimonies {
            let (verdict, found) = (one.judgement.verdict.text(), each_part(&one.judgement.parts).join("; "));
            text += &row(&[&judged.headline.id, &one.witness, verdict, &found, &one.lacks.join("; ")]);
        }
    }
    text
}

/// A row of a table.
fn row<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.as_ref().replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}
