//! The file of kernel experiments: every point is a scenario that makes sense, slowed or not, and a quick run is a part.

use ackgate_papers::kernel::Plan;
use ackgate_papers::kernel::experiment::SEEDS;

#[test]
fn every_point_is_a_scenario_at_every_speed() {
    let plan = Plan::all().unwrap_or_else(|error| panic!("{error}"));
    for experiment in &plan.experiments {
        for rate in [1_000_000_000, 200_000_000] {
            let of = |quick| {
                let points = plan.points(experiment, quick, rate);
                let points = points.unwrap_or_else(|error| panic!("{}: {error}", experiment.id));
                for point in &points {
                    point.scenario.check().unwrap_or_else(|error| panic!("{} at {}: {error:?}", point.curve, point.x));
                }
                points
            };
            let (all, quick) = (of(false), of(true));
            assert!(!quick.is_empty() && quick.len() <= all.len(), "{}", experiment.id);
            for point in &quick {
                let known = all.iter().any(|one| one.curve == point.curve && one.x == point.x);
                assert!(known, "{}: {} is in the quick run alone", point.curve, point.x);
            }
        }
    }
}

#[test]
fn what_is_judged_has_enough_seeds_for_an_interval() {
    let plan = Plan::all().unwrap_or_else(|error| panic!("{error}"));
    for one in plan.experiments.iter().filter(|one| !one.headlines.is_empty()) {
        let rows = if one.runs > 1 { one.runs } else { one.rounds };
        assert!(rows as usize >= SEEDS, "{}: {rows}", one.id);
    }
}

#[test]
fn experiments_are_found_by_their_names_and_by_their_headlines() {
    let found = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Plan::all()
            .unwrap_or_else(|error| panic!("{error}"))
            .named(&names)
            .map(|plan| plan.experiments.into_iter().map(|experiment| experiment.id).collect::<Vec<_>>())
    };
    assert_eq!(found(&["pac-f8", "M21-H3"]), Ok(vec!["PAC-F7".to_owned(), "M21-F6".to_owned()]));
    assert!(found(&["PAC-F99"]).is_err_and(|told| told.contains("`PAC-F99`; there are PAC-F2")));
}
