//! What verdicts depend on, and what would have to differ for them to be others.

use super::{all, each_part, flips, verdict_of};
use crate::headlines::book::Book;
use crate::headlines::reading::Alternative;
use crate::headlines::run::{Judged, Outcome, Outcomes};
use crate::headlines::verdict::{Judgement, Verdict};

/// What became of a headline under an alternative or in an experiment.
pub(super) struct Otherwise<'a> {
    /// Its name.
    pub(super) name: String,
    /// What was changed.
    pub(super) other: &'a Alternative,
    /// What came of it.
    pub(super) judgement: &'a Judgement,
}

impl Otherwise<'_> {
    /// What was changed, in words.
    pub(super) fn change(&self) -> String {
        format!("{}: {} instead of {}", self.other.open, self.other.also, self.other.primary)
    }

    /// What was measured, by part.
    pub(super) fn figures(&self) -> String {
        each_part(&self.judgement.parts).join("; ")
    }
}

/// Verdicts from the best to the worst.
const BEST_FIRST: [Verdict; 5] =
    [Verdict::Reproduced, Verdict::Undecided, Verdict::DirectionOnly, Verdict::Not, Verdict::Cannot];

/// What shows why a headline did not come out: experiments, and readings that change its verdict. The best come first.
pub(super) fn explanations<'a>(book: &'a Book, judged: &'a Judged) -> Vec<Otherwise<'a>> {
    let verdict = verdict_of(judged);
    let mut all: Vec<Otherwise<'_>> = judged
        .otherwise
        .iter()
        .map(|(i, judgement)| Otherwise { name: book.reading(*i), other: &book.alternatives[*i], judgement })
        .filter(|one| one.other.is_experiment() || Some(one.judgement.verdict) != verdict)
        .collect();
    all.sort_by_key(|one| BEST_FIRST.iter().position(|verdict| *verdict == one.judgement.verdict));
    all
}

/// One row for each other reading: its name, what is open, both readings, and the verdicts that change.
pub(super) fn dependence(outcomes: &Outcomes) -> Vec<[String; 5]> {
    let rows = |paper: &'_ Outcome| -> Vec<[String; 5]> {
        let readings = paper.book.alternatives.iter().enumerate().filter(|(_, other)| !other.is_experiment());
        readings
            .map(|(number, other)| {
                let told = changes(paper, number, other);
                [paper.book.reading(number), other.open.clone(), other.primary.clone(), other.also.clone(), told]
            })
            .collect()
    };
    outcomes.papers.iter().flat_map(rows).collect()
}

fn changes(paper: &Outcome, number: usize, other: &Alternative) -> String {
    if !other.not_run.is_empty() {
        return format!("not run: {}", other.not_run);
    }
    let dear = if other.takes.is_empty() { String::new() } else { format!(": {}", other.takes) };
    let of = |judged: &&Judged| judged.otherwise.iter().any(|(i, _)| *i == number);
    let (run, left): (Vec<&Judged>, Vec<&Judged>) =
        paper.judged.iter().filter(|judged| other.concerns(&judged.headline)).partition(of);
    if run.is_empty() {
        return format!("not run{dear}");
    }
    let changed = |judged: &&'_ Judged| {
        let (_, verdict) = flips(&paper.book, judged).find(|(known, _)| *known == number)?;
        Some((judged.headline.id.clone(), verdict))
    };
    let mut told = by_verdict(&run.iter().filter_map(changed).collect::<Vec<_>>());
    if told.is_empty() {
        told.push("none".into());
    }
    if !left.is_empty() {
        let ids: Vec<&str> = left.iter().map(|judged| judged.headline.id.as_str()).collect();
        told.push(format!("{} not run{dear}", ids.join(", ")));
    }
    told.join("; ")
}

/// Headlines by what became of them, the best first: `reproduced: A, B`.
fn by_verdict(changed: &[(String, Verdict)]) -> Vec<String> {
    let group = |verdict: Verdict| {
        let ids: Vec<&str> = changed.iter().filter(|one| one.1 == verdict).map(|one| one.0.as_str()).collect();
        (!ids.is_empty()).then(|| format!("{}: {}", verdict.text(), ids.join(", ")))
    };
    BEST_FIRST.into_iter().filter_map(group).collect()
}

/// Whether anything was judged otherwise at all.
pub(super) fn has_any(outcomes: &Outcomes) -> bool {
    all(outcomes).any(|(_, judged)| !judged.otherwise.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headlines_are_grouped_by_what_became_of_them_the_best_first() {
        let changed = [("H1", Verdict::Not), ("H2", Verdict::Reproduced), ("H3", Verdict::Not)]
            .map(|(id, verdict)| (id.to_owned(), verdict));
        assert_eq!(by_verdict(&changed), ["reproduced: H2", "not reproduced: H1, H3"]);
        assert!(by_verdict(&[]).is_empty());
    }
}
