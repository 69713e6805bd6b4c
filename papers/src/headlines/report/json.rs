//! `results.json`: every verdict with its intervals, seeds and settings.

use serde_json::{Value, json};

use super::{Circumstances, all, counts, verdict_of};
use crate::headlines::run::{Judged, Outcomes};
use crate::headlines::verdict::Held;
use crate::headlines::witness::Testimony;

/// One object: the program, the counts, and one entry for each headline.
#[must_use]
pub fn json(outcomes: &Outcomes, how: &Circumstances) -> String {
    let (counts, left) = counts(outcomes);
    let counts: serde_json::Map<String, Value> =
        counts.iter().map(|(verdict, count)| (verdict.text().to_owned(), Value::from(*count))).collect();
    let headlines: Vec<Value> = all(outcomes)
        .map(|(paper, judged)| {
            let curves: std::collections::BTreeSet<&str> =
                judged.headline.rules().flat_map(crate::headlines::rule::Rule::curves).collect();
            let settings: serde_json::Map<String, Value> = curves
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), Value::from(paper.hashes.get(*name)?.as_str()))))
                .collect();
            let otherwise: Vec<Value> = judged
                .otherwise
                .iter()
                .map(|(i, judgement)| {
                    let other = &paper.book.alternatives[*i];
                    json!({
                        "name": paper.book.reading(*i),
                        "experiment": other.is_experiment(),
                        "open": other.open,
                        "alternative": other.also,
                        "verdict": judgement.verdict,
                        "parts": judgement.parts.iter().map(part).collect::<Vec<_>>(),
                    })
                })
                .collect();
            json!({
                "id": judged.headline.id,
                "where": judged.headline.place,
                "claim": judged.headline.claim,
                "paper": judged.headline.paper,
                "verdict": verdict_of(judged),
                "simulator_for_testbed": judged.headline.sim,
                "parts": parts(judged, false),
                "direction": parts(judged, true),
                "remarks": judged.judgement.iter().flat_map(|judgement| &judgement.remarks).collect::<Vec<_>>(),
                "left_out": judged.headline.left_out,
                "cannot": judged.headline.cannot,
                "note": judged.headline.note,
                "otherwise": otherwise,
                "elsewhere": judged.headline.elsewhere,
                "witnesses": judged.testimonies.iter().map(testimony).collect::<Vec<_>>(),
                "settings": settings,
            })
        })
        .collect();
    let whole = json!({
        "build": how.build,
        "runs": { "verdicts": outcomes.builds, "readings_and_experiments": outcomes.added },
        "command": how.command,
        "seconds": how.seconds,
        "peak_memory_bytes": how.memory,
        "confidence": crate::headlines::stats::CONFIDENCE,
        "counts": counts,
        "not_run": left,
        "headlines": headlines,
    });
    format!("{whole:#}\n")
}

fn testimony(one: &Testimony) -> Value {
    let all = |held: &[Held]| held.iter().map(part).collect::<Vec<_>>();
    json!({
        "witness": one.witness,
        "verdict": one.judgement.verdict,
        "parts": all(&one.judgement.parts),
        "direction": all(&one.judgement.direction),
        "not_run": one.lacks,
    })
}

fn parts(judged: &Judged, direction: bool) -> Vec<Value> {
    let all =
        judged.judgement.iter().flat_map(|judgement| if direction { &judgement.direction } else { &judgement.parts });
    all.map(part).collect()
}

fn part(held: &Held) -> Value {
    // What is infinite has no number in JSON: null is "none".
    let findings: Vec<Value> = held
        .findings
        .iter()
        .map(|finding| {
            let measured = finding.measured;
            json!({
                "x": held.over_x.then_some(measured.x),
                "value": measured.value,
                "interval": [measured.interval.low, measured.interval.high],
                "accepted": [finding.accepted.0, finding.accepted.1],
                "seeds": measured.seeds,
                "stand": finding.stand,
            })
        })
        .collect();
    json!({ "part": held.name, "rule": held.text, "unit": held.unit, "stand": held.stand, "findings": findings })
}
