//! The outcome as a page of the documentation.

use crate::catalogue;
use crate::judge::Verdict;
use crate::run::Outcome;

use super::summary;

/// A page of Markdown: what was not reproduced first, then every claim.
#[must_use]
pub fn markdown(outcomes: &[Outcome], quick: bool) -> String {
    let mut text = String::from("# Reproduction\n\n");
    let command = if quick { "ackgate reproduce --all --quick" } else { "ackgate reproduce --all" };
    text += &format!("Written by `{command} --out DIR --markdown docs/reproduction.md`; do not edit by hand.\n\n");
    text += &summary(outcomes);
    text += "\n\nEach experiment is a file in [`papers/experiments/`](../papers/experiments) with its settings, our choices for what the paper \
             does not state, and its claims. All claims are evaluated by the same rules, in \
             [`papers/src/judge.rs`](../papers/src/judge.rs). TCP settings that a paper does not state are the defaults of its simulator or \
             kernel, the same in all its experiments: [`papers/hosts/`](../papers/hosts).\n\n## Not or partly reproduced\n\n";
    let mut none = true;
    for outcome in outcomes {
        for (claim, judgement) in outcome.experiment.claims.iter().zip(&outcome.judgements) {
            if matches!(judgement.verdict, Verdict::Reproduced | Verdict::CannotBeTested) {
                continue;
            }
            none = false;
            text += &format!(
                "- **{} {}** ({}): {}. Paper: {}. Ours: {}. {}\n",
                outcome.experiment.id,
                claim.id,
                judgement.verdict.text(),
                claim.says,
                claim.paper,
                judgement.measured,
                claim.note
            );
        }
    }
    if none {
        text += "None.\n";
    }
    text += "\n## All claims\n\n| experiment | claim | paper | ours | verdict |\n|---|---|---|---|---|\n";
    for outcome in outcomes {
        for (claim, judgement) in outcome.experiment.claims.iter().zip(&outcome.judgements) {
            let cells = [
                outcome.experiment.id.as_str(),
                &claim.says,
                &claim.paper,
                &judgement.measured,
                judgement.verdict.text(),
            ];
            text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).join(" | "));
        }
    }
    text += "\n## Not run\n\n";
    for figure in catalogue::not_run().expect("the file is part of the program, and tested") {
        text += &format!("- {}: {}.\n", figure.what, figure.why);
    }
    text
}
