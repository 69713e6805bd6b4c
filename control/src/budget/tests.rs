//! Where the search for a budget settles, and when it looks.

mod given;
mod losses;

use alloc::vec::Vec;

use super::losses::{Losses, OVERFLOW};
use super::*;

/// A link that carries `min(budget / rtt, rate)` while work is held. Returns the mean budget of the last half of the
/// epochs, some of which are probes.
fn search(config: &Config, rate: u64, rtt: Span, epochs: u32, mut each: impl FnMut(u32, &Gate)) -> u64 {
    let gate = Gate::new(config);
    let mut budget = Budget::default();
    let mut now = Time(1);
    budget.observe(config, &gate, true, now);
    let mut sum = 0;
    for epoch in 0..epochs {
        now += EPOCH;
        let carried = (gate.threshold.get() * EPOCH.0 / rtt.0).min(rate * EPOCH.0 / 1_000_000_000);
        gate.bytes.add(carried);
        each(epoch, &gate);
        budget.observe(config, &gate, true, now);
        gate.threshold.set(gate.cap.get());
        if epoch >= epochs / 2 {
            sum += gate.cap.get();
        }
    }
    sum / u64::from(epochs - epochs / 2)
}

/// The lowest rate: the first budget is as if there were none.
fn auto(buffer: u64) -> Config {
    Config { auto: true, rate_mbps: 1, ..Config::credit(buffer) }
}

#[test]
fn where_neither_buffer_nor_rate_is_known_the_search_begins_with_an_overflow() {
    for (every, begins) in [(Span::millis(400), false), (Span::millis(25), true)] {
        let config = Config { rate_mbps: 0, ..auto(1_000_000) };
        let gate = Gate::new(&config);
        assert_eq!(gate.cap.get(), top(&config));
        let (mut budget, mut now) = (Budget::default(), Time(1));
        for _ in 0..OVERFLOW + 1 {
            budget.observe(&config, &gate, false, now);
            assert_eq!(budget.next_look(), None, "there is nothing to look for");
            now += every;
            gate.overflow.add(1);
        }
        budget.observe(&config, &gate, false, now);
        assert_eq!(gate.cap.get(), if begins { FIRST } else { top(&config) }, "a loss every {every}");
        assert_eq!(gate.threshold.get(), gate.cap.get());
        if begins {
            let found = budgets(&mut budget, &config, &gate, true, &mut now, 3);
            assert!(found[2] > FIRST, "{found:?}");
        }
    }
}

#[test]
fn a_given_buffer_is_used_after_the_first_rounds_although_hardly_anybody_waits() {
    let config = Config::credit(96_000);
    let (most, first) = (top(&config), top(&config) - top(&config) / 4);
    // Something waits for a moment every 10 ms: no epoch is ever complete.
    let used = |senders, losses: &[u32], rounds| {
        let gate = Gate::new(&config);
        gate.peak_active.set(senders);
        let (mut budget, mut now) = (Budget::default(), Time(1));
        for round in 0..rounds {
            gate.overflow.add(losses.contains(&round).into());
            for waits in [true, false] {
                budget.observe(&config, &gate, waits, now);
                now += Span::millis(5);
            }
        }
        gate.cap.get()
    };
    assert_eq!(used(2, &[], 90), first, "what is sent twice in the first rounds is in nobody's account");
    assert_eq!(used(2, &[], 110), most - 2 * FULL_FRAME);
    assert_eq!(used(8, &[], 110), most - 8 * FULL_FRAME);
    assert_eq!(used(9, &[], 110), side_by_side(9), "so many send side by side");
    assert_eq!(used(64, &[], 110), first);
    assert_eq!(used(2, &[50], 110), first, "not within a second of a loss");
    assert_eq!(used(2, &[50], 160), most - 2 * FULL_FRAME);
}

#[test]
fn a_few_flows_get_room_beside_each_other_although_a_part_of_it_brings_nothing() {
    let config = auto(1_000_000);
    let gate = Gate::new(&config);
    gate.peak_active.set(8);
    let (mut budget, mut now) = (Budget::default(), Time(1));
    budget.observe(&config, &gate, true, now);
    for _ in 0..300 {
        now += EPOCH;
        let carried = if gate.threshold.get() < 8 * QUANTUM { 45_000 } else { 50_000 };
        gate.bytes.add(2 * carried);
        budget.observe(&config, &gate, true, now);
        gate.threshold.set(gate.cap.get());
    }
    assert!(gate.cap.get() >= 8 * QUANTUM * 3 / 4, "{}", gate.cap.get());
}

#[test]
fn it_settles_where_the_link_is_just_busy() {
    // 1 Gb/s and 200 us: a bandwidth-delay product of 25 KB. 10 Gb/s and 100 us: 125 KB.
    for (rate, rtt, product) in [(125_000_000, Span::micros(200), 25_000), (1_250_000_000, Span::micros(100), 125_000)]
    {
        let found = search(&auto(1_000_000), rate, rtt, 500, |_, _| {});
        assert!((product * 9 / 10..product * 3 / 2).contains(&found), "{found} for {product}");
    }
}

#[test]
fn what_suffices_is_found_to_a_quarter() {
    // By eighths 34.6 KB are found for 27; three quarters of that are too little, thirteen sixteenths are not.
    let found = search(&Config::credit(96_000), 125_000_000, Span::micros(216), 1_000, |_, _| {});
    assert!((27_000..33_000).contains(&found), "{found} for 27 000");
}

#[test]
fn more_is_not_tried_on_a_full_link() {
    let most = |rate_mbps| {
        let mut most = 0;
        let config = Config { rate_mbps, ..Config::credit(96_000) };
        // Of 1 Gb/s 1514 of 1538 bytes.
        search(&config, 123_000_000, Span::micros(200), 1_000, |epoch, gate| {
            most = if epoch < 500 { 0 } else { gate.cap.get().max(most) };
        });
        most
    };
    let [known, unknown] = [1_000, 0].map(most);
    assert!(known < 33_000 && unknown > known + known / 5, "{known}, {unknown}");
}

#[test]
fn what_belongs_to_an_overflow_is_what_had_been_asked_for_by_then() {
    for (delay, aftermath) in [(Span::ZERO, AFTERMATH), (Span::millis(30), Span::millis(120))] {
        let gate = Gate::new(&auto(1_000_000));
        gate.response_delay.set(delay.0);
        let mut budget = Budget::default();
        budget.observe(&auto(1_000_000), &gate, true, Time(1));
        gate.overflow.add(OVERFLOW);
        gate.bytes.add(1_000_000);
        let now = Time(1) + EPOCH;
        budget.observe(&auto(1_000_000), &gate, true, now);
        assert_eq!(gate.cap.get(), FIRST - FIRST / 4);
        assert_eq!(gate.cut_at.get(), (now + aftermath).0);
    }
}

#[test]
fn a_port_that_overflows_with_the_first_budget_is_found_and_the_budget_rises_again() {
    // Sixteen KB, and of 160 segments two are lost by chance.
    let (rate, rtt) = (125_000_000, Span::micros(200));
    let lossy = |epoch: u32, gate: &Gate| {
        if (100..800).contains(&epoch) {
            gate.overflow.add(if gate.cap.get() > 16_000 { 5 * OVERFLOW } else { 2 });
            assert!(gate.cap.get() >= LEAST, "{} in epoch {epoch}", gate.cap.get());
        }
    };
    let found = search(&auto(1_000_000), rate, rtt, 800, lossy);
    assert!((9_000..17_000).contains(&found), "{found} after many losses");
    // Ten seconds.
    let found = search(&auto(1_000_000), rate, rtt, 5_800, lossy);
    assert!(found > 22_000, "{found} long after the last loss");
}

#[test]
fn what_is_lost_with_any_budget_does_not_cut_it_for_good() {
    // So many of a thousand segments, and of what comes with more than 100 KB a tenth more, which cuts do save.
    for by_chance in [2, 5, 10, 20] {
        let found = |beyond: u64| {
            let mut lost = 0;
            search(&auto(1_000_000), 1_250_000_000, Span::micros(200), 4_000, |_, gate| {
                let of_1000 = by_chance + if gate.cap.get() > 100_000 { beyond } else { 0 };
                lost += gate.threshold.get() / 150 * of_1000;
                gate.overflow.add(lost / 1_000);
                lost %= 1_000;
            })
        };
        assert!(found(0) > 150_000, "{} with {by_chance} of 1000 lost", found(0));
        assert!((40_000..110_000).contains(&found(100)), "{} with {by_chance} of 1000 lost", found(100));
    }
}

#[test]
fn a_search_that_waits_for_losses_waits_again_where_they_are_by_chance() {
    let config = Config { rate_mbps: 0, ..auto(1_000_000) };
    let mut bound = 0;
    search(&config, 125_000_000, Span::micros(200), 2_000, |epoch, gate| {
        gate.overflow.add(2);
        bound += u32::from(epoch >= 1_000 && gate.cap.get() < top(&config));
    });
    assert_eq!(bound, 0, "epochs in which nothing should be");
}

#[test]
fn a_given_buffer_is_the_cap() {
    let found = search(&auto(50_000), 1_250_000_000, Span::micros(100), 500, |_, gate| {
        assert!(gate.cap.get() <= 50_000);
    });
    assert!(found > 40_000, "and it is used when the link needs more");
}

#[test]
fn a_given_buffer_is_left_to_others_where_less_will_do() {
    let (rate, rtt) = (125_000_000, Span::micros(200));
    let config = Config::credit(96_000);
    assert_eq!(Gate::new(&config).cap.get(), 67_500, "three quarters of what is left without a sixteenth");
    let found = search(&config, rate, rtt, 500, |_, _| {});
    assert!((23_000..40_000).contains(&found), "{found} for 25 000");
}

/// A link on which each quarter less than `enough` costs so much, on which what an epoch carries varies by up to so much
/// either way. Returns the last budget.
fn drift(config: &Config, enough: u64, cost_permille: u64, noise_permille: u64, epochs: u32) -> u64 {
    let gate = Gate::new(config);
    let (mut budget, mut now, mut random) = (Budget::default(), Time(1), 1_u64);
    budget.observe(config, &gate, true, now);
    for _ in 0..epochs {
        now += EPOCH;
        let (mut carried, mut enough) = (250_000, enough);
        while gate.cap.get() < enough {
            (carried, enough) = (carried - carried * cost_permille / 1000, enough - enough / 4);
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        gate.bytes.add(carried * (1000 - noise_permille + (random >> 33) % (2 * noise_permille + 1)) / 1000);
        budget.observe(config, &gate, true, now);
        gate.threshold.set(gate.cap.get());
    }
    gate.cap.get()
}

#[test]
fn costs_that_are_each_nearly_nothing_do_not_add_up() {
    let found = drift(&Config::credit(96_000), 67_500, 5, 0, 2_000);
    assert!(found > 60_000, "{found}");
}

#[test]
fn what_is_found_is_never_less_than_the_first_budget_without_a_loss() {
    for permille in [0, 5] {
        let found = drift(&auto(1_000_000), FIRST, permille, 0, 2_000);
        assert!(found >= FIRST, "{found}, with each quarter less costing {permille} per thousand");
    }
    let fast = Config { rate_mbps: 10_000, ..auto(4_000_000) };
    assert!(drift(&fast, 125_000, 5, 0, 2_000) >= 125_000);
}

#[test]
fn gains_that_only_noise_pretends_do_not_add_up() {
    let found = drift(&auto(1_000_000), 10_000, 60, 200, 10_000);
    assert!(found < 200_000, "{found}");
}

#[test]
fn while_marks_keep_the_queue_short_a_given_budget_grows_and_a_found_one_stays() {
    let marked = |config: &Config| {
        search(config, 125_000_000, Span::micros(200), 100, |_, gate| gate.threshold.set(gate.cap.get() / 2))
    };
    assert_eq!(marked(&Config::credit(96_000)), 90_000);
    assert_eq!(marked(&auto(96_000)), FIRST);
}

#[test]
fn while_marks_keep_the_queue_short_a_frame_is_left_for_each_sender() {
    let marked = |senders: u64| {
        search(&Config::credit(96_000), 125_000_000, Span::micros(200), 100, |_, gate| {
            gate.peak_active.set(senders);
            gate.threshold.set(gate.cap.get() / 2);
        })
    };
    assert_eq!(marked(5), 90_000 - 5 * FULL_FRAME);
    assert_eq!(marked(64), 67_500, "a quarter at most");
}

#[test]
fn a_link_that_falls_idle_while_work_is_held_takes_the_budget_up_at_once() {
    // Servers begin to think: every byte takes a millisecond instead of 200 us.
    let mut found = [0, 0];
    search(&Config::credit(96_000), 125_000_000, Span::micros(200), 310, |epoch, gate| {
        if epoch >= 300 {
            gate.bytes.set(gate.bytes.get() - 190_000 * u64::from(gate.threshold.get() < 60_000));
        }
        found[usize::from(epoch >= 300)] = gate.cap.get();
    });
    assert!(found[0] < 40_000 && found[1] > 60_000, "{found:?}");
}

#[test]
fn where_less_leaves_an_idle_link_idler_more_is_tried_next() {
    // Sixteen senders that are slower than the link: at the end of a round it is nearly full, before that more than half of it is idle
    // with any budget below 120 KB.
    let config = Config { rate_mbps: 1_000, ..auto(1_000_000) };
    let gate = Gate::new(&config);
    let (mut budget, mut now) = (Budget::default(), Time(1));
    budget.observe(&config, &gate, true, now);
    for epoch in 0..2_000 {
        now += EPOCH;
        let carried = if epoch % 2 == 0 { 200_000 } else { gate.threshold.get().min(120_000) * 2 };
        gate.bytes.add(carried);
        budget.observe(&config, &gate, true, now);
        gate.threshold.set(gate.cap.get());
    }
    assert!(gate.cap.get() > 100_000, "{}", gate.cap.get());
}

#[test]
fn an_epoch_with_a_pause_says_nothing() {
    let config = Config::credit(96_000);
    let gate = Gate::new(&config);
    let mut budget = Budget::default();
    let mut now = Time(1);
    for _ in 0..200 {
        gate.bytes.add(1_000_000);
        budget.observe(&config, &gate, true, now);
        now += EPOCH;
        budget.observe(&config, &gate, false, now);
    }
    assert_eq!(gate.cap.get(), 67_500);
}

#[test]
fn an_overflow_takes_a_part_at_once_and_not_when_the_epoch_is_over() {
    let (gate, mut budget) = (Gate::new(&auto(1_000_000)), Budget::default());
    budget.observe(&auto(1_000_000), &gate, true, Time(1));
    gate.overflow.add(OVERFLOW - 1);
    budget.observe(&auto(1_000_000), &gate, true, Time(1) + Span::micros(10));
    assert_eq!(gate.cap.get(), FIRST, "so few may be anything");
    gate.overflow.add(1);
    budget.observe(&auto(1_000_000), &gate, true, Time(1) + Span::micros(20));
    assert_eq!(gate.cap.get(), FIRST - FIRST / 4);
}

#[test]
fn what_a_lone_flow_loses_again_and_again_is_one_overflow() {
    let (gate, mut budget, mut now) = (Gate::new(&auto(1_000_000)), Budget::default(), Time(1));
    budget.observe(&auto(1_000_000), &gate, true, now);
    for _ in 0..20 {
        now += Span::millis(100);
        gate.overflow.add(OVERFLOW);
        budget.observe(&auto(1_000_000), &gate, false, now);
    }
    assert_eq!(gate.cap.get(), FIRST, "it binds nobody");
    budget.observe(&auto(1_000_000), &gate, true, now);
    assert_eq!(gate.cap.get(), FIRST - FIRST / 4);
}

/// Sixteen senders of 64 KB, 10 Gb/s, 600 us: a round takes 2.0 ms, of which nobody is bound by the budget in the last third, as long as the
/// last sender's response takes another round trip, and then 1.5 ms. The budget after so many rounds, with `pause` between them.
fn after_rounds(rounds: u32, pause: Span) -> u64 {
    let config = Config { rate_mbps: 10_000, ..auto(1_000_000) };
    let (gate, mut budget, mut now) = (lowered(&config), Budget::default(), Time(1));
    gate.peak_active.set(16);
    gate.largest_response.set(64_000);
    gate.least_handshake.set(600_000);
    for _ in 0..rounds {
        let mut step = 0;
        // The round's grants come after the first look.
        while step < if gate.cap.get() + 738_000 > 16 * 67_000 { 15 } else { 20 } {
            gate.active.set(if step < 13 { 16 } else { 1 });
            budget.observe(&config, &gate, false, now);
            gate.bytes.add(if (3..13).contains(&step) { 107_000 } else { 0 });
            gate.threshold.set(gate.cap.get());
            now += Span::micros(100);
            step += 1;
        }
        now += pause;
    }
    gate.cap.get()
}

#[test]
fn rounds_shorter_than_an_epoch_are_compared_and_whole_responses_are_tried_at_once() {
    let found = after_rounds(200, Span::ZERO);
    assert!((340_000..=375_000).contains(&found), "{found}");
    assert_eq!(after_rounds(200, Span::millis(20)), 125_000, "a link without work says nothing");
}

/// Eight flows side by side, whose windows the budget lowers.
fn lowered(config: &Config) -> Gate {
    let gate = Gate::new(config);
    gate.active.set(8);
    gate.offered.set(8_000_000);
    gate
}

#[test]
fn an_unknown_buffer_is_searched_for_where_windows_are_lowered_and_nobody_waits() {
    let config = Config { rate_mbps: 10_000, ..auto(4_000_000) };
    let (gate, mut budget, mut now) = (lowered(&config), Budget::default(), Time(1));
    assert_eq!(gate.cap.get(), 125_000);
    for _ in 0..200 {
        budget.observe(&config, &gate, false, now);
        now += EPOCH;
        // 10 Gb/s, and as much as a budget in every 500 us.
        gate.bytes.add((gate.threshold.get() * 4).min(2_500_000));
        gate.threshold.set(gate.cap.get());
    }
    assert!(gate.cap.get() > 400_000, "{}", gate.cap.get());
}

#[test]
fn on_an_idle_link_whose_windows_are_lowered_there_is_more_although_a_part_of_it_brings_nothing() {
    // 150 senders push 5 KB over 2 ms, of which not all are active at once: nobody waits, and before all of them may send all of it at once a round
    // takes two round trips.
    let config = Config { rate_mbps: 10_000, ..auto(4_000_000) };
    let (gate, mut budget, mut now) = (lowered(&config), Budget::default(), Time(1));
    gate.peak_active.set(50);
    gate.peak_senders.set(150);
    gate.largest_message.set(5_000);
    let mut least = u64::MAX;
    for round in 0..1_000 {
        let trips = if gate.cap.get() < 750_000 { 2 } else { 1 };
        for part in 0..10 * trips {
            gate.active.set(if part % 10 < 8 { 50 } else { 1 });
            budget.observe(&config, &gate, false, now);
            gate.bytes.add(if part % 10 == 5 { 800_000 / trips } else { 0 });
            gate.threshold.set(gate.cap.get());
            now += Span::micros(200);
        }
        least = if round < 900 { u64::MAX } else { least.min(gate.cap.get()) };
    }
    assert!((750_000..=150 * in_frames(5_000)).contains(&least), "{least}");
}

#[test]
fn whoever_looks_again_when_told_to_is_never_told_to_at_once() {
    let config = auto(1_000_000);
    let (gate, mut budget, mut now) = (lowered(&config), Budget::default(), Time(1));
    for _ in 0..10 {
        budget.observe(&config, &gate, false, now);
        // Nothing arrives.
        assert!(budget.next_look().is_some_and(|look| look > now && look <= now + EPOCH));
        now = budget.next_look().unwrap();
    }
    gate.active.set(1);
    budget.observe(&config, &gate, false, now);
    assert_eq!(budget.next_look(), None, "one flow alone");
    let given = Config::credit(1_000_000);
    budget.observe(&given, &lowered(&given), false, now);
    assert_eq!(budget.next_look(), None, "a given buffer");
}

/// The budgets of so many epochs, each of which carries as much as any other.
fn budgets(budget: &mut Budget, config: &Config, gate: &Gate, waits: bool, now: &mut Time, epochs: u32) -> Vec<u64> {
    let epoch = |_| {
        budget.observe(config, gate, waits, *now);
        *now += EPOCH;
        gate.bytes.add(250_000);
        gate.threshold.set(gate.cap.get());
        gate.cap.get()
    };
    (0..epochs).map(epoch).collect()
}

#[test]
fn as_long_as_nobody_waits_less_is_not_tried_and_more_seldom() {
    let config = Config { rate_mbps: 1_000, ..auto(1_000_000) };
    let (gate, mut budget, mut now) = (lowered(&config), Budget::default(), Time(1));
    let found = budgets(&mut budget, &config, &gate, false, &mut now, 1_000);
    let usual = found[999].min(found[998]);
    assert!(usual >= FIRST && found[500..].iter().all(|&one| one >= usual), "{usual}");
    let more = found[500..].iter().filter(|&&one| one > usual).count();
    assert!((1..100).contains(&more), "{more} of 500 epochs");
}

#[test]
fn a_trial_of_less_ends_when_nobody_waits_any_more() {
    let config = Config { rate_mbps: 1_000, ..auto(1_000_000) };
    let (gate, mut budget, mut now) = (lowered(&config), Budget::default(), Time(1));
    let tries_less = |budget: &Budget| matches!(budget.phase, Phase::Trial { budget: base, other, .. } if gate.cap.get() == other && other < base);
    let tried = (0..1_000).any(|_| {
        budgets(&mut budget, &config, &gate, true, &mut now, 1);
        tries_less(&budget)
    });
    assert!(tried);
    let less = gate.cap.get();
    let found = budgets(&mut budget, &config, &gate, false, &mut now, 20);
    assert!(found[2..].iter().all(|&one| one > less), "{less}: {found:?}");
}

#[test]
fn loss_sets_a_ceiling() {
    let mut peak_after_loss = 0;
    search(&auto(1_000_000), 1_250_000_000, Span::micros(200), 100, |epoch, gate| {
        if gate.cap.get() > 60_000 && epoch < 50 {
            gate.overflow.add(OVERFLOW);
        }
        if epoch >= 20 {
            peak_after_loss = peak_after_loss.max(gate.cap.get());
        }
    });
    assert!(peak_after_loss < 90_000, "{peak_after_loss}");
}

#[test]
fn without_held_work_nothing_is_learned() {
    let config = auto(1_000_000);
    let gate = Gate::new(&config);
    let before = gate.cap.get();
    let mut budget = Budget::default();
    for second in 1..100 {
        budget.observe(&config, &gate, true, Time::ZERO + Span::secs(second));
    }
    assert_eq!(gate.cap.get(), before);
}

#[test]
fn a_search_that_begins_anew_waits_for_losses_of_its_own() {
    let given = Config { rate_mbps: 0, auto: false, ..auto(1_000_000) };
    let untold = Config { auto: true, ..given.clone() };
    let told = Config { rate_mbps: 1_000, ..untold.clone() };
    assert!(Budget::differs(&given, &untold) && Budget::differs(&untold, &told));
    assert!(!Budget::differs(&told, &Config { rate_mbps: 10_000, ..told.clone() }));
    for config in [untold, told] {
        let gate = lowered(&config);
        gate.overflow.add(10 * OVERFLOW);
        let before = gate.cap.get();
        let (mut budget, mut now) = (Budget::anew(&gate), Time(1));
        let found = budgets(&mut budget, &config, &gate, false, &mut now, 2);
        assert!(
            found.iter().all(|&one| one >= before),
            "what was lost before is no overflow of this search: {found:?}"
        );
    }
}

#[test]
fn short_answers_that_overflow_a_shallow_port_may_use_half_of_what_they_did() {
    // A budget of what the port holds is none of their faults.
    let config = Config { rate_mbps: 1_000, ..auto(4_000_000) };
    let overflows = |largest: u64, times: u32| {
        let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
        gate.largest_response.set(largest);
        budget.observe(&config, &gate, true, now);
        for _ in 0..times {
            now += Span::millis(200);
            gate.overflow.add(OVERFLOW);
            budget.observe(&config, &gate, true, now);
        }
        (gate.shallow.get(), gate.cap.get())
    };
    let usual = FARTHEST * FIRST;
    assert_eq!(overflows(1_000, 0), (0, FIRST));
    assert_eq!(overflows(1_000, 1), (usual / 2, FIRST), "the budget may be right");
    assert_eq!(overflows(64_000, 1), (usual / 2, FIRST - FIRST / 4), "it may have been either");
    let (shallow, cap) = overflows(1_000, 2);
    assert_eq!((shallow, cap), (usual / 4, FIRST), "{shallow} is more than the budget and an eighth no longer");
    assert_eq!(overflows(1_000, 3), (usual / 4, FIRST - FIRST / 4));
}

#[test]
fn what_short_answers_may_use_rises_again_slowly() {
    let config = Config { rate_mbps: 1_000, ..auto(4_000_000) };
    let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
    gate.shallow.set(32_000);
    budgets(&mut budget, &config, &gate, true, &mut now, CAUTION + 1);
    assert_eq!(gate.shallow.get(), 32_500);
    budgets(&mut budget, &config, &gate, true, &mut now, 3 * CAUTION);
    assert_eq!(gate.shallow.get(), 34_045);
    budgets(&mut budget, &config, &gate, true, &mut now, 100 * CAUTION);
    assert_eq!(gate.shallow.get(), FARTHEST * FIRST, "no further than what ports hold that are not that shallow");
    assert_eq!(Budget::anew(&gate).phase, Phase::New);
    assert_eq!(gate.shallow.get(), 0, "another search knows nothing of it");
}

#[test]
fn where_little_arrives_losses_are_remembered_for_longer() {
    // Two losses in each round; the epochs in between are over at once, for hardly anything waits.
    let cut = |bytes: u64, pause: Span| {
        let config = Config { rate_mbps: 1_000, ..auto(4_000_000) };
        let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
        gate.peak_active.set(100);
        for _ in 0..12 {
            gate.overflow.add(2);
            for waits in [true, false, true, false, true, false] {
                gate.bytes.add(bytes);
                budget.observe(&config, &gate, waits, now);
                now += Span::micros(100);
            }
            now += pause;
        }
        gate.cap.get() < FIRST
    };
    assert!(cut(20_000, Span::millis(8)), "rounds wait for what was lost");
    assert!(!cut(200_000, Span::millis(8)), "of so much, next to nothing");
    assert!(!cut(20_000, Span::millis(400)), "nor is it so much in so long a time");
}

#[test]
fn a_budget_too_large_to_bind_anybody_is_cut_where_responses_are_lost_to_the_last_segment() {
    let cut = |unheard: u64, every: Span| {
        let config = Config { rate_mbps: 1_000, ..auto(4_000_000) };
        let (gate, mut budget, mut now) = (Gate::new(&config), Budget::default(), Time(1));
        for _ in 0..4 {
            budget.observe(&config, &gate, false, now);
            gate.overflow.add(4 * unheard);
            gate.unheard.add(unheard);
            now += every;
        }
        budget.observe(&config, &gate, false, now);
        gate.cap.get() < FIRST || gate.shallow.get() > 0
    };
    assert!(cut(OVERFLOW / 2, Span::millis(200)), "so many in two rounds");
    assert!(!cut(OVERFLOW / 2, Span::millis(1_100)), "so few in a second may be anything");
}

#[test]
fn on_a_link_that_is_slower_than_was_said_so_is_what_short_answers_may_use() {
    let config = Config { rate_mbps: 10_000, ..auto(4_000_000) };
    let after_an_overflow = |carries: u64| {
        let (gate, mut budget) = (Gate::new(&config), Budget::default());
        gate.carries.set(carries);
        gate.cap.set(FIRST);
        gate.largest_response.set(1_000);
        budget.observe(&config, &gate, true, Time(1));
        gate.overflow.add(OVERFLOW);
        budget.observe(&config, &gate, true, Time(2));
        gate.shallow.get()
    };
    assert_eq!(after_an_overflow(0), 375_000 / 2);
    assert_eq!(after_an_overflow(26_214), FARTHEST * FIRST / 2, "200 Mb/s");
}

/// Where the search settles beside other traffic with three tenths of a link of 1 Gb/s, which is left its part or not. What a larger
/// budget stands before in the queue comes later.
fn settles_beside(part: u32) -> u64 {
    let config = Config { rate_mbps: 1_000, ..auto(1_000_000) };
    let mut before = Budget::first(&config, false);
    search(&config, 87_500_000, Span::micros(120), 3000, |_, gate| {
        gate.other_part.set(part);
        let now = gate.threshold.get();
        let (more, less) = (now.saturating_sub(before) * 3 / 7, before.saturating_sub(now) * 3 / 7);
        gate.bytes.add(more);
        gate.bytes.sub(less);
        gate.other_bytes.add(37_500_000 * EPOCH.0 / 1_000_000_000 + less - more);
        before = now;
    })
}

#[test]
fn beside_other_traffic_more_gains_nothing_that_it_loses() {
    let config = Config { rate_mbps: 1_000, ..auto(1_000_000) };
    assert!(settles_beside(300) < 2 * Budget::first(&config, false), "{}", settles_beside(300));
    // What takes whatever it is left would have all of the link.
    assert!(settles_beside(0) > top(&config) / 2, "{}", settles_beside(0));
}

#[test]
fn where_others_take_whatever_they_are_left_the_budget_stands_its_ground() {
    let config = Config { rate_mbps: 1_000, ..auto(1_000_000) };
    let ground = FARTHEST * Budget::first(&config, false);
    let cap = |doubt: u64, part: u32, seen: u32| {
        let gate = Gate::new(&config);
        gate.peak_active.set(8);
        gate.other_doubt.set(doubt);
        gate.other_part.set(part);
        gate.other_seen.set(seen);
        let (mut budget, mut now) = (Budget::default(), Time(1));
        for _ in 0..100 {
            // An overflow each tenth of a second.
            gate.lost.add(16);
            gate.overflow.add(16);
            gate.bytes.add(10_000_000);
            budget.observe(&config, &gate, true, now);
            now += Span::millis(100);
        }
        gate.cap.get()
    };
    assert!(cap(0, 0, 500) < ground, "they have not shown it");
    assert!(cap(1, 300, 500) < ground, "they keep to their part");
    assert!(cap(1, 0, 100) < ground, "they are little");
    assert!(cap(1, 0, 500) >= ground / 4 * 3, "{}", cap(1, 0, 500));
}
