//! What came of the experiments, for people and for programs.

mod drawing;
mod html;
mod markdown;

use serde_json::json;

use crate::judge::Verdict;
use crate::run::Outcome;

pub(crate) use drawing::scale;
pub use drawing::{drawing, views};
pub(crate) use html::escape;
pub use html::page;
pub use markdown::markdown;

/// All verdicts, in the order in which they are counted.
const VERDICTS: [Verdict; 4] = [Verdict::Reproduced, Verdict::Partly, Verdict::NotReproduced, Verdict::CannotBeTested];

/// Rows `{experiment, claim, paper, measured, verdict, note}`, one for each claim.
#[must_use]
pub fn json(outcomes: &[Outcome]) -> String {
    let mut rows = Vec::new();
    for outcome in outcomes {
        for (claim, judgement) in outcome.experiment.claims.iter().zip(&outcome.judgements) {
            rows.push(json!({
                "experiment": outcome.experiment.id,
                "claim": claim.says,
                "paper": claim.paper,
                "measured": judgement.measured,
                "verdict": judgement.verdict,
                "note": claim.note,
            }));
        }
    }
    let text = serde_json::to_string_pretty(&rows).expect("strings make valid JSON");
    format!("{text}\n")
}

/// How many claims have each verdict.
#[must_use]
pub fn counts(outcomes: &[Outcome]) -> [(Verdict, usize); 4] {
    VERDICTS.map(|verdict| {
        let all = outcomes.iter().flat_map(|outcome| &outcome.judgements);
        (verdict, all.filter(|judgement| judgement.verdict == verdict).count())
    })
}

/// The counts in one sentence.
#[must_use]
pub fn summary(outcomes: &[Outcome]) -> String {
    let counts = counts(outcomes);
    let testable: usize = counts[..3].iter().map(|(_, count)| count).sum();
    let [reproduced, partly, not, cannot] = counts.map(|(_, count)| count);
    format!(
        "Of {testable} claims that can be tested, {reproduced} are reproduced, {partly} partly, {not} not; \
         {cannot} cannot be tested here."
    )
}
