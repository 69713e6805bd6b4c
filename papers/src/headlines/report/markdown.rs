//! The outcome as a page of the documentation: the board first.

use super::{Circumstances, all, flips, ours, summary, told, verdict_of};
use crate::headlines::log::Entry;
use crate::headlines::run::Outcomes;
use crate::headlines::verdict::Verdict;

/// A page of Markdown.
#[must_use]
pub fn markdown(outcomes: &Outcomes, log: &[Entry], how: &Circumstances) -> String {
    let mut text = String::from("# Reproduction\n\n");
    text += &format!("Written by `{}`; do not edit by hand.\n\n**{}**\n\n", how.command, summary(outcomes));
    text += "The rules stand in [`papers/headlines/`](../papers/headlines) as data and were fixed before results were seen; one reader \
             holds all of them against the figures ([`papers/src/headlines/`](../papers/src/headlines)). Every point has 10 seeds, one \
             that an interval of 95 % leaves open has 40, but for a quick run. A verdict marked (sim) is of a testbed for which the simulator stands: it says \
             nothing of the kernel's code. “none” means that something does not happen within the range. \
             No second simulator has judged the headlines; [validation.md](validation.md) compares ours with ns-2 and ns-3 at settings of its own.\n\n## The board\n\n";
    text += "| headline | verdict | the paper | ours, with its interval |\n|---|---|---|---|\n";
    for (paper, judged) in all(outcomes) {
        let cells = [
            judged.headline.id.clone(),
            told(&paper.book, judged),
            judged.headline.paper.clone(),
            ours(judged).join("; "),
        ];
        text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text += "\n## What did not come out\n\n";
    for (_, judged) in all(outcomes).filter(|(_, judged)| verdict_of(judged) != Some(Verdict::Reproduced)) {
        let headline = &judged.headline;
        let reason = if headline.cannot.is_empty() { &headline.note } else { &headline.cannot };
        text += &format!("- **{}** ({}): {} {}\n", headline.id, headline.place, headline.claim, reason);
    }
    text += "\n## What verdicts depend on\n\nOne open setting at a time, read otherwise, 10 seeds. Only changes are shown.\n\n";
    text += "| open | primary | also | verdicts that change |\n|---|---|---|---|\n";
    for paper in &outcomes.papers {
        for (number, other) in paper.book.alternatives.iter().enumerate() {
            let run = paper.judged.iter().any(|judged| judged.otherwise.iter().any(|(i, _)| *i == number));
            let changes: Vec<String> = paper
                .judged
                .iter()
                .flat_map(|judged| flips(&paper.book, judged).map(move |flip| (judged, flip)))
                .filter(|(_, (known, _))| std::ptr::eq(*known, other))
                .map(|(judged, (_, verdict))| format!("{}: {}", judged.headline.id, verdict.text()))
                .collect();
            let changes = match (run, other.not_run.is_empty(), changes.is_empty()) {
                (_, false, _) => format!("not run: {}", other.not_run),
                (false, ..) => "not run this time".into(),
                (true, _, true) => "none".into(),
                _ => changes.join("; "),
            };
            text += &format!(
                "| {}, {} | {} | {} | {changes} |\n",
                paper.book.paper.name(),
                other.open,
                other.primary,
                other.also
            );
        }
    }
    text += "\n## What was changed, and what it did to the count\n\n| change | why | in | count |\n|---|---|---|---|\n";
    for entry in log {
        text += &format!("| {} | {} | {} | {} |\n", entry.what, entry.why, entry.commit, entry.count);
    }
    text
}
