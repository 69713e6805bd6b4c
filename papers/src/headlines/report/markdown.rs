//! The outcome as a page of the documentation: the board first.

use super::{Circumstances, all, each_part, flips, has_witnesses, heard, ours, summary, told, verdict_of};
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
             nothing of the kernel's code. “none” means that something does not happen within the range.\n\n## The board\n\n";
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
                (false, ..) => "not run".into(),
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

/// What other simulators' runs come to, by the same rules.
fn witnesses(outcomes: &Outcomes) -> String {
    let mut text = String::from("\n## The second witness\n\n");
    text += "The papers' simulators, ns-2 and ns-3, at the same settings, judged by the same rules (`bench/peers/run witness`). ";
    text += "Neither has PAC, ICTCP, M21TCP-A, HWatch or the papers' kernels: only baselines can be run there. ";
    text += "How they differ from ours otherwise stands in [validation.md](validation.md).\n\n";
    if !has_witnesses(outcomes) {
        return text + "Nothing has been run there.\n";
    }
    text += "| headline | simulator | verdict | its figures, with intervals | not run there |\n|---|---|---|---|---|\n";
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
