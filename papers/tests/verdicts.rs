//! What the quickest experiments come to, so that a change of behaviour that costs a claim shows in a review. After a
//! change that is meant to move them: `INSTA_UPDATE=always cargo test -p ackgate-papers --test verdicts`, then read the diff.

use ackgate_papers::catalogue;
use ackgate_papers::run::{Options, run};

const QUICKEST: [&str; 9] =
    ["PAC-F2", "PAC-F3", "PAC-F7", "PAC-F8", "PAC-F13", "PAC-T-NMAX", "VAS-F12", "VAS-T-JIFFY", "M21-F4"];

#[test]
fn the_quickest_experiments_keep_their_verdicts() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = Options { out: folder.path().to_path_buf(), jobs: 0, stop: std::sync::Arc::default() };
    let names = QUICKEST.map(String::from);
    let mut table = String::new();
    for experiment in catalogue::load(&names, true).expect("all files are right") {
        let outcome = run(experiment, &options, |_| ()).expect("it runs");
        for (claim, judgement) in outcome.experiment.claims.iter().zip(&outcome.judgements) {
            table += &format!(
                "{:12} {:16} {:16} {}\n",
                outcome.experiment.id,
                claim.id,
                judgement.verdict.text(),
                judgement.measured
            );
        }
    }
    insta::assert_snapshot!(table);
}
