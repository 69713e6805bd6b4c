//! Other traffic, which nothing here can hold back: what keeps to its part of the link is left it, and what takes whatever it is left is not.

use super::*;
use crate::decision::{Gate, link_rate};

/// Payload of a datagram in a full frame, and what it takes of the link, octets.
const DATAGRAM: u32 = 1442;
const ON_THE_WIRE: u64 = 1466;
/// How long one look takes.
const LOOK: Span = Span::millis(17);
/// A period of looks, and what is left over of the one before.
const PERIOD: Span = Span::millis(9 * 17);

/// As many looks as it takes to see that others take more, and some left over.
const MORE: Span = Span::millis(6 * 17);

/// A link of 1 Gb/s with some flows of ours and others beside them.
struct Link {
    host: Host,
    next: [u32; 4],
    /// What others have brought, in parts of a frame.
    due: u64,
}

impl Link {
    fn of(config: Config) -> Self {
        let mut host = Host::new(config);
        // What was before is no look.
        host.now += Span::secs(1);
        for flow in 0..4 {
            host.connect(flow);
            host.send(flow, request(1));
        }
        Self { host, next: [1; 4], due: 0 }
    }

    fn new() -> Self {
        Self::of(Config { rate_mbps: 1_000, ..Config::credit(96_000) })
    }

    /// Ours and others arrive at these rates, Mb/s, for so long.
    fn carry(&mut self, ours: u64, others: u64, span: Span) {
        let until = self.host.now + span;
        for flow in (0..4).cycle() {
            if self.host.now >= until {
                break;
            }
            let gap = Span::nanos(1538 * 8 * 1000 / ours);
            self.due += others * gap.0 / 8_000;
            while self.due >= ON_THE_WIRE {
                self.due -= ON_THE_WIRE;
                self.host.shim.handle_other(self.host.now, DATAGRAM);
            }
            let next = &mut self.next[flow as usize];
            self.host.data(flow, *next, MSS);
            *next += MSS;
            self.host.ack(flow, *next);
            self.host.wait(gap);
        }
    }

    fn gate(&self) -> &Gate {
        self.host.shim.gate()
    }

    /// What others are left of the link, Mb/s.
    fn left(&self) -> u32 {
        (self.gate().other_part.get() * 1000 + 512) / 1024
    }
}

fn near(seen: u64, wanted: u64) -> bool {
    seen.abs_diff(wanted) <= wanted / 50 + 2
}

#[test]
fn what_keeps_to_its_part_is_left_it() {
    let mut link = Link::new();
    let (cap, given) = (link.gate().cap.get(), link_rate(&link.host.shim.rules, link.gate()));
    link.carry(600, 300, LOOK + LOOK);
    assert_eq!(link.left(), 0, "not by the first looks");
    link.carry(600, 300, PERIOD);
    assert!(near(link.left().into(), 300), "{} Mb/s", link.left());
    // Of the buffer an eighth more, for it does not come evenly.
    assert!(
        near(link.gate().threshold.get(), link.gate().cap.get() * 6625 / 10_000),
        "{}",
        link.gate().threshold.get()
    );
    assert!(link.gate().cap.get() >= cap, "the budget itself is not concerned");
    assert!(near(link_rate(&link.host.shim.rules, link.gate()), given / 10 * 7));
    // What takes less is left less at once, and nothing once it is gone.
    link.carry(600, 200, LOOK + LOOK);
    assert!(near(link.left().into(), 200), "{} Mb/s", link.left());
    link.carry(600, 1, PERIOD);
    assert_eq!(link.left(), 0);
    assert_eq!(link_rate(&link.host.shim.rules, link.gate()), given);
    assert_eq!(link.gate().threshold.get(), link.gate().cap.get());
}

#[test]
fn of_small_frames_what_the_wire_takes_besides_counts() {
    let taken = |bytes: u64, frames: u32| {
        let link = Link::new();
        decision::note_other(&link.host.shim.rules, link.gate(), bytes, frames);
        link.gate().other_bytes.get()
    };
    assert_eq!((taken(60, 1), taken(6_000, 100)), (84, 8_400));
}

#[test]
fn what_is_little_is_neglected() {
    let mut link = Link::new();
    link.carry(900, 8, PERIOD + PERIOD);
    assert_eq!(link.left(), 0);
    link.carry(900, 15, PERIOD + PERIOD);
    assert!(link.left() > 0);
}

#[test]
fn the_least_of_a_period_counts() {
    let mut link = Link::new();
    for _ in 0..20 {
        link.carry(500, 400, LOOK);
        link.carry(500, 0, LOOK + LOOK);
    }
    assert_eq!(link.left(), 0);
}

#[test]
fn what_takes_more_once_it_is_left_its_part_is_left_nothing_for_longer_each_time() {
    let mut link = Link::new();
    let mut doubts = vec![];
    for _ in 0..3 {
        link.carry(600, 300, PERIOD);
        assert!(near(link.left().into(), 300), "{} Mb/s after {doubts:?}", link.left());
        link.carry(300, 600, MORE);
        assert_eq!(link.left(), 0, "after {doubts:?}");
        let doubt = Span(link.gate().other_doubt.get());
        doubts.push(doubt.0 >> 30);
        link.carry(600, 300, Span(doubt.0 / 8 * 7));
        assert_eq!(link.left(), 0, "after {doubts:?}");
        link.carry(600, 0, Span(doubt.0 / 4));
    }
    assert_eq!(doubts, [1, 2, 4]);
}

#[test]
fn what_lost_frames_where_it_was_measured_may_take_a_quarter_more() {
    let mut link = Link::new();
    link.carry(600, 300, PERIOD);
    link.carry(600, 380, PERIOD);
    assert!(near(link.left().into(), 380), "{} Mb/s", link.left());
    link.carry(500, 450, PERIOD);
    assert_eq!(link.left(), 0);
}

#[test]
fn who_has_nearly_all_of_the_link_can_still_show_that_it_takes_more() {
    let mut link = Link::new();
    link.carry(120, 800, PERIOD);
    assert!(near(link.left().into(), 683), "{} Mb/s", link.left());
    link.carry(120, 800, PERIOD);
    assert!(near(link.left().into(), 683), "it keeps to its part: {} Mb/s", link.left());
    link.carry(70, 920, PERIOD);
    assert_eq!(link.left(), 0);
}

#[test]
fn nothing_is_learned_while_the_link_is_left_to_others() {
    let mut link = Link::new();
    link.carry(30, 900, PERIOD + PERIOD);
    assert_eq!(link.left(), 0, "whatever it is left it takes");
    link.carry(600, 300, PERIOD);
    assert!(near(link.left().into(), 300), "{} Mb/s", link.left());
}

#[test]
fn where_others_take_whatever_they_are_left_few_senders_are_left_alone() {
    let lowered = |link: &mut Link| {
        let before = link.gate().rewritten.get();
        link.carry(300, 600, Span::millis(5));
        link.gate().rewritten.get() > before
    };
    let mut fresh = Link::new();
    fresh.carry(300, 600, LOOK + LOOK);
    assert!(lowered(&mut fresh), "they have not shown it");
    let mut link = Link::new();
    assert!(lowered(&mut link));
    link.carry(600, 300, PERIOD);
    link.carry(300, 600, MORE);
    assert!(!lowered(&mut link));
    // Many would overflow the port.
    link.host.shim.gate().peak_active.set(64);
    assert!(lowered(&mut link));
    // And where others are gone.
    link.host.shim.gate().peak_active.set(4);
    link.carry(600, 50, LOOK + LOOK);
    assert!(lowered(&mut link));
}

#[test]
fn the_published_scheme_does_not_look() {
    let mut link = Link::of(Config { rate_mbps: 1_000, long_paths: false, ..Config::new(96_000) });
    link.carry(600, 300, PERIOD + PERIOD);
    assert_eq!((link.left(), link.gate().other_seen.get()), (0, 0));
}

#[test]
fn where_nobody_gave_a_rate_what_arrives_at_most_is_the_link() {
    let mut link = Link::of(Config { rate_mbps: 0, ..Config::credit(96_000) });
    link.carry(600, 300, PERIOD + PERIOD);
    // And a quarter more, for it may not have been filled.
    assert!(near(link.left().into(), 270), "{} thousandths", link.left());
}
