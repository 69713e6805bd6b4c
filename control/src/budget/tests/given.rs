//! Buffers that were given, and overflow the port.

use super::*;
use crate::gate::config::Guard;

/// A given buffer of 1 MB, of which so many of 10 000 segments are lost, and of what comes with more than `holds` a tenth more. Returns the mean
/// budget at the end, and whether the buffer is believed then.
fn settles_in_a_port_that_holds(holds: u64, of_10_000: u64) -> (u64, bool) {
    let (config, mut lost, mut believed) = (Config::credit(1_000_000), 0, false);
    let found = search(&config, 1_250_000_000, Span::micros(200), 4_000, |_, gate| {
        let beyond = if gate.cap.get() > holds { 1_000 } else { 0 };
        lost += gate.threshold.get() / 150 * (of_10_000 + beyond);
        gate.overflow.add(lost / 10_000);
        lost %= 10_000;
        believed = gate.port.get() > 0;
    });
    (found, believed)
}

#[test]
fn a_given_buffer_that_overflows_the_port_is_searched_for_as_if_nobody_had_given_it() {
    let (found, believed) = settles_in_a_port_that_holds(100_000, 0);
    assert!((40_000..110_000).contains(&found) && !believed, "{found} {believed}");
    assert!(settles_in_a_port_that_holds(1_000_000, 0).1, "nothing is lost");
}

#[test]
fn a_given_buffer_is_believed_again_where_less_loses_no_less() {
    for of_10_000 in [50, 100, 200] {
        let (found, believed) = settles_in_a_port_that_holds(1_000_000, of_10_000);
        assert!(believed && found > 150_000, "{found} {believed} with {of_10_000} of 10 000 lost");
    }
}

#[test]
fn losses_too_rare_to_cut_the_budget_again_soon_do_not_keep_it_small() {
    // Of what the link carries, 250 KB need to be in flight.
    for of_10_000 in [8, 10, 12, 15, 17, 20] {
        let (found, _) = settles_in_a_port_that_holds(1_000_000, of_10_000);
        assert!(found > 240_000, "{found} with {of_10_000} of 10 000 lost");
        let (found, _) = settles_in_a_port_that_holds(100_000, of_10_000);
        assert!(
            (60_000..110_000).contains(&found),
            "{found} with {of_10_000} of 10 000 lost in a port that holds 100 000"
        );
    }
}

#[test]
fn of_a_given_buffer_no_more_is_left_at_first_than_shallow_ports_hold() {
    for (buffer, left) in [(1_000_000, FARTHEST * FIRST), (64_000, (60_000 - 60_000 / 4) * 3 / 4)] {
        let config = Config { rate_mbps: 1_000, ..Config::credit(buffer) };
        let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
        let mut lose = |losses: u64, after: Span| {
            gate.overflow.add(losses);
            now += after;
            // Although nothing is held: with so much, nothing need be.
            budget.observe(&config, &gate, false, now);
            (gate.port.get(), gate.cap.get() == left && gate.threshold.get() == left)
        };
        lose(0, Span::ZERO);
        let believed = (top(&config), false);
        for _ in 1..DOUBTFUL {
            assert_eq!(lose(OVERFLOW - 1, Span::millis(150)), believed, "so few may be anything");
            assert_eq!(lose(1, Span::ZERO), believed, "first rounds may lose segments");
            assert_eq!(lose(OVERFLOW, Span::millis(100)), believed, "which belong to the same overflow");
        }
        assert_eq!(lose(OVERFLOW - 1, Span::millis(150)), believed, "what was lost before has been told apart");
        assert_eq!(lose(1, Span::ZERO), (0, true));
        assert_eq!(gate.cut_at.get(), (now + AFTERMATH).0);
    }
}

#[test]
fn overflows_that_are_far_apart_do_not_speak_against_a_given_buffer() {
    for (apart, believed) in [(Span::secs(9), false), (Span::secs(11), true)] {
        for config in [Config { rate_mbps: 1_000, ..Config::credit(1_000_000) }, pac()] {
            let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
            for _ in 0..=DOUBTFUL {
                lose(&config, &gate, &mut budget, 4, &mut now, apart);
            }
            assert_eq!(gate.port.get() > 0, believed, "every {apart}");
        }
    }
}

#[test]
fn losses_that_are_far_apart_do_not_speak_against_a_given_buffer() {
    let config = Config { rate_mbps: 1_000, ..Config::credit(96_000) };
    for (apart, believed) in [(Span::millis(20), false), (Span::millis(500), true)] {
        let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
        for _ in 0..8 * OVERFLOW {
            budget.observe(&config, &gate, false, now);
            now += apart;
            gate.overflow.add(1);
        }
        budget.observe(&config, &gate, false, now);
        assert_eq!(gate.port.get() > 0, believed, "a loss every {apart}");
    }
}

/// PAC, told a buffer of 1 MB.
fn pac() -> Config {
    Config { rate_mbps: 1_000, ..Config::new(1_000_000) }
}

/// So many losses that cost a timeout, all at once, after so long.
fn lose(config: &Config, gate: &Gate, budget: &mut Budget, timeouts: u64, now: &mut Time, after: Span) {
    *now += after;
    budget.observe(config, gate, true, *now);
    gate.unheard.add(timeouts);
    gate.overflow.add(4 * timeouts);
    gate.bytes.add(10_000_000);
    budget.observe(config, gate, true, *now);
}

/// PAC whose given buffer has just proved too large.
fn doubting() -> (Gate, Budget, Time) {
    let (gate, mut budget, mut now) = (Gate::new(&pac()), Budget::default(), Time(1));
    for _ in 0..DOUBTFUL {
        assert_eq!((gate.cap.get(), gate.port.get()), (top(&pac()), top(&pac())));
        lose(&pac(), &gate, &mut budget, 4, &mut now, Span::millis(1_100));
    }
    assert_eq!((gate.cap.get(), gate.port.get()), (FARTHEST * FIRST, 0));
    (gate, budget, now)
}

#[test]
fn pac_uses_a_given_buffer_until_four_responses_wait_for_timers_within_a_second() {
    let (gate, mut budget, mut now) = (Gate::new(&pac()), Budget::default(), Time(1));
    budget.observe(&pac(), &gate, true, now);
    for _ in 0..2 * DOUBTFUL {
        // What is repaired without a timer, its estimates lose now and then.
        gate.overflow.add(100);
        lose(&pac(), &gate, &mut budget, 3, &mut now, Span::millis(1_100));
    }
    assert_eq!((gate.cap.get(), gate.port.get()), (top(&pac()), top(&pac())));
    let (gate, mut budget, mut now) = doubting();
    assert_eq!(gate.cut_at.get(), (now + LOSS_MEMORY).0, "their timers fire long after");
    let before = FARTHEST * FIRST / 64 * 65;
    lose(&pac(), &gate, &mut budget, 4, &mut now, Span::secs(2));
    assert!(gate.cap.get().abs_diff(before * 3 / 4) < 100, "{}", gate.cap.get());
}

#[test]
fn pac_s_budget_rises_slowly_after_overflows_and_never_beyond_the_given_one() {
    let (gate, mut budget, mut now) = doubting();
    lose(&pac(), &gate, &mut budget, 0, &mut now, Span::millis(900));
    assert_eq!(gate.cap.get(), FARTHEST * FIRST);
    for second in 1..=400 {
        let before = gate.cap.get();
        now += Span::secs(1);
        budget.observe(&pac(), &gate, true, now);
        assert_eq!(gate.cap.get(), (before + before / 64).min(top(&pac())), "{second} s");
    }
    assert_eq!(gate.cap.get(), top(&pac()));
}

#[test]
fn pac_s_budget_is_the_given_one_again_where_less_loses_no_less() {
    let cuts = |apart: Span| {
        let (gate, mut budget, mut now) = doubting();
        let cuts = (0..20).take_while(|_| {
            lose(&pac(), &gate, &mut budget, 16, &mut now, apart);
            gate.port.get() == 0
        });
        (cuts.count(), gate.cap.get() == top(&pac()))
    };
    assert_eq!(cuts(Span::secs(3)), (2, true));
    assert_eq!(cuts(Span::secs(11)), (20, false), "what is lost so seldom may be of another burst each time");
}

#[test]
fn what_is_lost_while_nobody_is_guarded_does_not_speak_against_a_given_buffer() {
    for config in [Config { rate_mbps: 1_000, ..Config::credit(1_000_000) }, pac()] {
        let lose = |guarded: bool| {
            let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
            for _ in 0..=DOUBTFUL {
                if !guarded {
                    budget.overlook_losses(&gate, now);
                }
                budget.observe(&config, &gate, false, now);
                now += Span::millis(200);
                gate.unheard.add(4);
                gate.overflow.add(16);
            }
            gate.port.get() > 0
        };
        assert!(!lose(true) && lose(false));
    }
}

#[test]
fn without_a_given_buffer_pac_searches_too() {
    let found = search(&Config { auto: true, ..pac() }, 125_000_000, Span::millis(1), 500, |_, _| {});
    assert!((80_000..250_000).contains(&found), "{found}");
}

#[test]
fn pac_as_published_uses_a_given_buffer_whatever_is_lost() {
    assert!(Budget::applies(&pac()) && !Budget::applies(&Config::of(Guard::PacPublished, 96_000)));
}
