//! What is asked for while the link is idle: over paths that are not long, and of servers that think.

use super::super::state::flag;
use super::paths::guard;
use super::*;

/// What a server answers, payload bytes.
const RESPONSE: u32 = 5_000;

/// Kept connections whose servers answer with [`RESPONSE`], and the link is idle for so long meanwhile.
fn thinkers(flows: u32, idle: Span) -> Host {
    let mut host = guard();
    for flow in 0..flows {
        host.connect(flow);
        host.shim.state.flows[flow as usize].last_response.set(RESPONSE);
    }
    let gate = &host.shim.state.gate;
    gate.usual_response.set(u64::from(RESPONSE));
    gate.largest_response.set(u64::from(RESPONSE));
    gate.peak_active.set(u64::from(flows));
    gate.looked_back.set(host.now.0);
    gate.think.set(idle.0);
    host
}

fn ask(host: &mut Host, flow: u32) -> PacketId {
    host.send(flow, Segment { window: u16::MAX, ..request(1) })
}

#[test]
fn while_the_link_is_idle_more_is_asked_for_than_the_budget_holds_at_the_links_pace() {
    let asked = |idle| {
        let mut host = thinkers(36, idle);
        let requests: Vec<_> = (0..36).map(|flow| ask(&mut host, flow)).collect();
        let left = |host: &Host| requests.iter().filter(|&&packet| host.has_left(packet)).count();
        let at_once = left(&host);
        host.wait(Span::micros(100));
        let soon = left(&host);
        (0..9).for_each(|_| host.wait(Span::micros(100)));
        host.check_ledger();
        (at_once, soon, left(&host))
    };
    assert_eq!(asked(Span::ZERO), (21, 21, 21), "the budget is 67.5 KB, or 21 least grants");
    assert_eq!(
        asked(Span::millis(1)),
        (12, 15, 36),
        "12 whole answers, three more in 100 us, and nothing has come so far"
    );
}

/// What is known of an idle link after one answer that took 2 ms, if 1.5 ms were known, and so many bytes of another flow came meanwhile.
fn after_an_answer(others: u32) -> u64 {
    let mut host = thinkers(2, Span::micros(1_500));
    host.receive(1, Segment { frames: 40, ..data(1, 40 * MSS) });
    ask(&mut host, 0);
    host.now += Span::millis(2);
    host.receive(1, Segment { frames: (others / MSS) as u16, ..data(1 + 40 * MSS, others) });
    host.receive(0, data(1, MSS));
    host.shim.gate().think.get()
}

#[test]
fn idle_is_the_link_while_a_server_is_asked_and_nothing_else_arrives() {
    let sample = |think: u64| 16 * think - 15 * 1_500_000;
    let (idle, busy) = (sample(after_an_answer(MSS)), sample(after_an_answer(40 * MSS)));
    let busier = sample(after_an_answer(160 * MSS));
    assert!(
        (1_900_000..2_000_000).contains(&idle),
        "2 ms, less what two frames take, and not what came before: {idle}"
    );
    assert!((1_450_000..1_550_000).contains(&busy), "58 KB took half a millisecond: {busy}");
    assert!(
        (1_200_000..1_350_000).contains(&busier),
        "of 232 KB no more than the buffer of 90 KB stood before the answer: {busier}"
    );
}

#[test]
fn where_nobody_told_a_rate_what_arrives_at_most_is_what_took_the_link() {
    let mut host = thinkers(2, Span::micros(1_500));
    host.shim.rules = Config::credit(96_000).into();
    host.shim.gate().peak.set(131_072); // 1 Gb/s
    ask(&mut host, 0);
    host.now += Span::millis(2);
    host.receive(1, Segment { frames: 40, ..data(1, 40 * MSS) });
    host.receive(0, data(1, MSS));
    let sample = 16 * host.shim.gate().think.get() - 15 * 1_500_000;
    assert!((1_450_000..1_550_000).contains(&sample), "58 KB took half a millisecond: {sample}");
}

#[test]
fn what_came_before_the_link_was_idle_does_not_stand_before_an_answer() {
    let after = |pause: Span| {
        let mut host = thinkers(2, Span::micros(1_500));
        host.shim.state.gate.change_budget(24_000);
        ask(&mut host, 0);
        host.receive(1, Segment { frames: 20, ..data(1, 20 * MSS) });
        host.now += Span::millis(2);
        host.receive(1, Segment { frames: 20, ..data(1 + 20 * MSS, 20 * MSS) });
        host.now += pause;
        host.receive(0, data(1, MSS));
        16 * host.shim.gate().think.get() - 15 * 1_500_000 - pause.0
    };
    let (at_once, later) = (after(Span::micros(50)), after(Span::micros(150)));
    assert!((1_700_000..1_800_000).contains(&at_once), "the second 30 KB took a quarter of a millisecond: {at_once}");
    assert!((1_900_000..2_000_000).contains(&later), "2 ms and the pause, but for one frame: {later}");
}

/// Of rounds of ten, nine servers answer after a millisecond, and the tenth after seven.
#[test]
fn who_thinks_for_longer_than_most_owes_until_it_answers() {
    let mut host = thinkers(10, Span::ZERO);
    for round in 0..15 {
        let seq = 1 + round * RESPONSE;
        (0..10).for_each(|flow| {
            host.send(flow, Segment { window: u16::MAX, ..request(seq) });
        });
        host.now += Span::millis(1);
        let answer = Segment { frames: 4, flags: Flags::ACK | Flags::PSH, ..data(seq, RESPONSE) };
        (0..9).for_each(|flow| host.receive(flow, answer));
        host.wait(Span::millis(6));
        let (rules, gate, slow) = (&host.shim.rules, host.shim.gate(), &host.shim.state.flows[9]);
        let silent = decision::void_if_silent(rules, gate, slow, host.now);
        assert!(round < 12 || !silent, "in round {round}");
        host.receive(9, answer);
        host.check_ledger();
    }
}

#[test]
fn under_pac_what_responses_take_is_their_mean() {
    let after_8_and_1_ms = |config| {
        let mut host = Host::new(Config { rate_mbps: 1_000, ..config });
        for (flow, pause) in [(0, Span::millis(8)), (1, Span::millis(1))] {
            host.connect(flow);
            host.send(flow, request(1));
            host.now += pause;
            host.data(flow, 1, MSS);
        }
        host.shim.gate().response_delay.get()
    };
    assert_eq!(after_8_and_1_ms(Config::of(Guard::Pac, 96_000)), 7_125_000, "an eighth of the second");
    assert_eq!(
        after_8_and_1_ms(Config::credit(96_000)),
        7_890_625,
        "the faster takes a sixty-fourth of what is between"
    );
}

#[test]
fn what_is_left_of_a_window_and_is_no_whole_segment_is_in_flight_only_if_no_more_is_expected() {
    let owes_among = |flows: u64, size: u64, response: u32, kept: u32| {
        let mut host = thinkers(40, Span::ZERO);
        let flow = &host.shim.state.flows[0];
        flow.last_response.set(response);
        host.shim.state.gate.active.set(flows);
        flow.edge.set(1 + kept);
        ask(&mut host, 0);
        host.shim.state.flows[0].size.set(size);
        host.receive(0, Segment { frames: 3, ..data(1, 3 * MSS) });
        host.check_ledger();
        host.owed(0)
    };
    let owes = |response, kept| owes_among(200, 0, response, kept);
    let left = 3 * MSS + 600;
    assert_eq!(owes(5_000, left), 0, "the sender waits for room for a whole segment");
    assert!(owes(left, left) >= 600, "the last bytes may come");
    assert!(owes(3 * MSS - 1, left) >= 600, "as what goes on beyond what was expected may");
    assert!(owes(5_000, 3 * MSS + 128) > 0, "what rounds the window up is room for what nobody accounts");
    let stream = 5 * 67_500;
    assert_eq!(owes_among(200, stream, 5_000, 3 * MSS + 128), 0, "streams would wait for each other");
    assert!(owes_among(20, stream, 5_000, 3 * MSS + 128) > 0, "a few do not");
}

#[test]
fn where_not_all_answers_fit_those_that_are_no_more_than_the_budget_keep_the_pace_too() {
    let left = |change: &dyn Fn(&Host)| {
        let mut host = thinkers(80, Span::millis(1));
        change(&host);
        let requests: Vec<_> = (0..80).map(|flow| ask(&mut host, flow)).collect();
        (0..10).for_each(|_| host.wait(Span::micros(100)));
        host.check_ledger();
        requests.iter().filter(|&&packet| host.has_left(packet)).count()
    };
    let answers_of = |host: &Host, payload: u32| {
        host.shim.state.flows.iter().take(80).for_each(|flow| flow.last_response.set(payload));
        host.shim.state.gate.largest_response.set(payload.into());
    };
    assert_eq!(left(&|_| ()), 61, "least grants: 67.5 KB and what the link carries in a millisecond");
    assert_eq!(left(&|host| host.shim.state.gate.think.set(0)), 21, "the budget");
    assert_eq!(left(&|host| answers_of(host, 80_000)), 21, "one is more than the budget");
    assert_eq!(left(&|host| host.shim.state.gate.change_budget(100_000)), 21, "marks keep the queue short");
}

#[test]
fn a_few_peers_that_are_asked_long_before_they_answer_are_no_idle_link() {
    let mut host = thinkers(18, Span::ZERO);
    for _ in 0..20 {
        for flow in 0..18 {
            let seq = host.shim.state.flows[flow as usize].received.get().max(1);
            host.send(flow, Segment { window: u16::MAX, ..request(seq) });
            host.now += if flow == 17 { Span::millis(500) } else { Span::micros(100) };
            host.receive(flow, Segment { frames: 3, flags: Flags::ACK | Flags::PSH, ..data(seq, 3 * MSS) });
        }
    }
    let think = host.shim.gate().think.get();
    assert!(think < 300_000, "one in eighteen answers after half a second, the others at once: {think}");
}

#[test]
fn a_loss_forgets_that_the_link_was_idle_for_a_second() {
    let mut host = thinkers(2, Span::millis(1));
    let flow = &host.shim.state.flows[0];
    flow.flags.raise(flag::RECEIVED | flag::RECOVERING);
    flow.received.set(1 + 3 * MSS);
    host.now += Span::millis(1);
    host.receive(0, data(1, MSS));
    assert_eq!((host.shim.gate().lost.get(), host.shim.gate().think.get()), (1, 0));
    let mut answer = |at: Span| {
        host.now += at;
        let seq = host.shim.state.flows[1].received.get().max(1);
        host.send(1, Segment { window: u16::MAX, ..request(seq) });
        host.now += Span::millis(2);
        host.receive(1, Segment { frames: 3, flags: Flags::ACK | Flags::PSH, ..data(seq, 3 * MSS) });
        host.shim.gate().think.get()
    };
    assert_eq!(answer(Span::millis(1)), 0, "answers may have come all at once");
    assert!(answer(Span::millis(1_100)) > 0);
}

#[test]
fn where_all_responses_fit_a_request_among_many_brings_its_own_and_costs_no_more() {
    let granted = |flows, timer: Span| {
        let mut host = thinkers(flows, Span::ZERO);
        host.shim.state.gate.active.set(u64::from(flows));
        host.shim.state.gate.own_timer.set(timer.0);
        ask(&mut host, 0);
        (host.told(0) / MSS, host.owed(0) * 100 / FRAME)
    };
    assert_eq!(granted(12, Span::ZERO), (4, 345), "5 KB are 3.45 frames, and whole segments are granted");
    assert_eq!(granted(40, Span::ZERO).0, 2, "40 answers do not fit");
    assert_eq!(granted(12, Span::millis(1)), (4, 345), "what takes half a millisecond comes before the timer");
    assert_eq!(granted(12, Span::micros(500)).0, 2, "some of it would come after the timer");
}

#[test]
fn in_the_middle_of_a_response_nobody_waits_for_servers_that_think() {
    // Segments that are granted for the rest of an answer, while so many other servers were asked, of which so many have begun to answer.
    let granted = |others: u32, idle: Span, begun: u32| {
        let mut host = thinkers(80, idle);
        ask(&mut host, 0);
        host.receive(0, Segment { frames: 2, ..data(1, 2 * MSS) });
        for flow in 1..=others {
            ask(&mut host, flow);
        }
        (0..9).for_each(|_| host.wait(Span::micros(100)));
        // They owe nearly as much as before: what they still have stands in the queue.
        (1..=begun).for_each(|flow| host.receive(flow, data(1, 1)));
        host.check_ledger();
        host.send(0, Segment { window: u16::MAX, ..pure_ack(1 + 2 * MSS) });
        host.told(0) / MSS
    };
    assert_eq!(granted(10, Span::millis(1), 10), 2, "there is room in the budget");
    assert_eq!(granted(22, Span::ZERO, 0), 0, "what is asked for fills it");
    assert_eq!(granted(22, Span::millis(1), 0), 2, "servers think: half of 66 KB may be beside it");
    assert_eq!(granted(22, Span::millis(1), 8), 0, "half of what 14 were asked for is too little to count");
    assert_eq!(granted(22, Span::millis(1), 22), 0, "all have begun to answer");
}

#[test]
fn who_is_awaited_is_counted_until_it_answers_or_owes_nothing() {
    let mut host = thinkers(4, Span::ZERO);
    let asked = |host: &Host| {
        host.check_ledger();
        host.shim.gate().asked.get()
    };
    for flow in [0, 1, 2, 2] {
        ask(&mut host, flow);
    }
    assert_eq!(asked(&host), 3, "asked twice counts once");
    host.receive(0, data(1, MSS));
    assert_eq!(asked(&host), 2, "one answers");
    host.receive(1, Segment { flags: Flags::RST | Flags::ACK, ..blank() });
    assert_eq!(asked(&host), 1, "one has ended");
    host.wait(Span::secs(1));
    assert_eq!(asked(&host), 0, "one is silent");
}
