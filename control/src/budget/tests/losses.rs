//! Which losses speak of the budget.

use super::*;

/// Ten megabytes with so many losses, and a cut then: whether the budget is low, and was cut of late. Says whether that was in vain.
fn cut(losses: &mut Losses, gate: &Gate, (lost, low, again): (u64, bool, bool)) -> bool {
    gate.overflow.add(lost);
    gate.bytes.add(10_000_000);
    losses.cut(gate, low, again, Time(1))
}

#[test]
fn cuts_are_in_vain_where_the_fourth_has_saved_nothing() {
    let first = |cuts: &[(u64, bool, bool)]| {
        let gate = Gate::new(&auto(1_000_000));
        let mut losses = Losses::anew(&gate);
        cuts.iter().position(|&each| cut(&mut losses, &gate, each))
    };
    let low = |lost| (lost, true, true);
    assert_eq!(first(&[low(1_000); 5]), Some(3));
    assert_eq!(first(&[1_000, 1_000, 200, 1_000].map(low)), None, "a smaller budget lost less");
    assert_eq!(first(&[low(1_000), low(1_000), (1_000, true, false), low(1_000)]), None, "the third came long after");
    assert_eq!(
        first(&[(190, false, true); 5]),
        Some(3),
        "of a large budget, too, if hardly three in a hundred are lost"
    );
    assert_eq!(first(&[(1_000, false, true); 8]), None, "else much more may come than the port holds");
}

#[test]
fn losses_after_a_cut_are_by_chance_if_they_are_hardly_rarer_than_before() {
    // Of ten megabytes before it, taken in or overlooked, and of a gigabyte after it; twenty more in ten megabytes are an overflow then, or not.
    let overflows = |before: u64, overlooked: bool, after: u64| {
        let gate = Gate::new(&auto(1_000_000));
        let mut losses = Losses::anew(&gate);
        gate.overflow.add(before);
        gate.bytes.add(10_000_000);
        if overlooked {
            losses.overlook(&gate, Time(1));
        } else {
            losses.take_in(&gate, 1, Time(1));
        }
        losses.cut(&gate, false, false, Time(1));
        gate.overflow.add(after);
        gate.bytes.add(1_000_000_000);
        losses.settle(&gate);
        losses.note(&gate);
        gate.overflow.add(20);
        gate.bytes.add(10_000_000);
        losses.overflow(&gate, Evidence::All, Time(2))
    };
    for overlooked in [false, true] {
        assert!(overflows(100, overlooked, 1_000), "ten times rarer");
        assert!(!overflows(20, overlooked, 1_000), "half as often");
    }
    assert!(overflows(0, false, 7), "hardly any");
}

#[test]
fn what_is_lost_by_chance_is_forgotten_when_it_is_lost_no_longer() {
    let gate = Gate::new(&auto(1_000_000));
    let mut losses = Losses::anew(&gate);
    assert!((0..4).any(|_| cut(&mut losses, &gate, (1_000, true, true))));
    let overflows = |losses: &mut Losses| {
        losses.note(&gate);
        gate.overflow.add(OVERFLOW);
        gate.bytes.add(1_000_000);
        losses.overflow(&gate, Evidence::All, Time(1))
    };
    assert!(!overflows(&mut losses));
    for _ in 0..4_000 {
        gate.bytes.add(1_000_000);
        losses.take_in(&gate, 0, Time(1));
    }
    assert!(overflows(&mut losses));
}
