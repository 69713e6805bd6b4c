//! The outcome as a page of the documentation: the board first.

use super::readings::{dependence, explanations};
use super::{Circumstances, all, each_part, has_witnesses, heard, ours, summary, told, verdict_of};
use crate::headlines::log::Log;
use crate::headlines::run::Outcomes;
use crate::headlines::verdict::Verdict;

/// A page of Markdown.
#[must_use]
pub fn markdown(outcomes: &Outcomes, log: &Log, how: &Circumstances) -> String {
    let mut text = String::from("# Reproduction\n\n");
    text += &format!("Written by `{}`; do not edit by hand.\n\n**{}**\n\n", how.command, summary(outcomes));
    for made in &log.made {
        text += &format!("- {made}\n");
    }
    text += "\n";
    text += "The rules stand in [`papers/headlines/`](../papers/headlines) as data and were fixed before results were seen; one reader \
             holds all of them against the figures ([`papers/src/headlines/`](../papers/src/headlines)). Every point has 10 seeds, one \
             that an interval of 95 % leaves open has 40, but for a quick run. A verdict marked (sim) is of a testbed for which the simulator stands: it says \
             nothing of the kernel's code. “none” means that something does not happen within the range. A verdict depends on what its row names: see “What verdicts depend on”.\n\n## The board\n\n";
    text += "| headline | verdict | second witness | the paper | ours, with its interval |\n|---|---|---|---|---|\n";
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
    text += "\n## What did not come out\n\nUnder each headline stands what would have to differ: the change of settings, the verdict and the figures that come of \
             it, and the name NAME of the run: `ackgate reproduce --headlines ID --reading NAME --out DIR`.\n\n";
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
    text += "\n## What verdicts depend on\n\nOne open setting at a time, read otherwise, 10 seeds. Only changes are shown.\n\n";
    text += "| | open | primary | also | verdicts that change |\n|---|---|---|---|---|\n";
    for cells in dependence(outcomes) {
        text += &row(&cells);
    }
    text += "\n## What was changed, and what it did to the count\n\n| change | why | in | count |\n|---|---|---|---|\n";
    for entry in &log.entry {
        text += &format!("| {} | {} | {} | {} |\n", entry.what, entry.why, entry.commit, entry.count);
    }
    text
}

/// What other simulators' runs come to, by the same rules.
fn witnesses(outcomes: &Outcomes) -> String {
    let mut text = String::from("\n## The second witness\n\n");
    text += "The papers' simulators, ns-2 and ns-3, at the same settings, judged by the same rules (`bench/peers/run witness`). ";
    text += "Neither has PAC, ICTCP, M21TCP-A, HWatch or the papers' kernels: only baselines can be run there. ";
    text += "Why there are no more stands on the board; how they differ from ours otherwise, in [validation.md](validation.md).\n\n";
    if has_witnesses(outcomes) {
        text +=
            "| headline | simulator | verdict | its figures, with intervals | not run there |\n|---|---|---|---|---|\n";
    } else {
        text += "Nothing has been run there.\n";
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
