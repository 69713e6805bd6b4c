use super::*;
use crate::engine::Purpose;
use crate::scenario::{CongestionControl, Scenario, Tcp};

/// Bytes a second, and of a pipe of 10 ms; a burst is 8 segments of 1460 bytes.
const RATE: u64 = 12_500_000;
const PIPE: u64 = 125_000;

struct Path {
    config: TcpConfig,
    random: Random,
    window: Window,
    model: Bbr,
    now: Ps,
    delivered: u64,
}

impl Path {
    fn new() -> Self {
        let tcp = Tcp { cc: CongestionControl::Bbr, initial_window: 10, ..Tcp::default() };
        let config = TcpConfig::new(&Scenario::default(), &tcp);
        let mut model = Bbr::new(&config);
        model.begin(Ps::ZERO, Ps::millis(10));
        let window = Window { cwnd: config.initial_window, ssthresh: u32::MAX };
        Self { config, random: Random::new(1, Purpose::Timeout), window, model, now: Ps::ZERO, delivered: 0 }
    }

    /// A round trip later one ACK tells of `newly` bytes at `rate`. Returns the pacing rate.
    fn round(&mut self, rate: u64, newly: u64, change: impl FnOnce(&mut Delivery)) -> u64 {
        let when_sent = self.delivered;
        self.now += Ps::millis(11);
        self.delivered += newly;
        let mut ack = Delivery {
            now: self.now,
            arrived: Delivered { total: self.delivered, newly, when_sent, rate: Some(rate), limited: false },
            rtt: Some(Ps::millis(10)),
            lost: 0,
            before: PIPE,
            in_flight: PIPE,
            repair: Repair::None,
        };
        change(&mut ack);
        self.model.handle_ack(&mut self.window, &ack, &self.config, &mut self.random)
    }

    /// Rounds until the rate is probed.
    fn filled() -> Self {
        let mut path = Self::new();
        for _ in 0..8 {
            path.round(RATE, PIPE, |_| {});
        }
        assert_eq!(path.model.mode, Mode::ProbeRate);
        path
    }
}

#[test]
fn it_starts_at_its_high_gain_and_drains_when_the_rate_has_not_grown_for_three_rounds() {
    let mut path = Path::new();
    let mut rates = Vec::new();
    let mut modes = Vec::new();
    for rate in [RATE / 4, RATE / 2, RATE, RATE, RATE, RATE] {
        rates.push(path.round(rate, PIPE, |ack| ack.in_flight = 10 * PIPE) * 100 / rate);
        modes.push(path.model.mode);
    }
    // 2.885 less a hundredth; and its inverse.
    assert_eq!(rates, [285, 285, 285, 285, 285, 34]);
    assert_eq!(modes[4..], [Mode::Startup, Mode::Drain]);
    path.round(RATE, PIPE, |_| {});
    assert_eq!(path.model.mode, Mode::ProbeRate, "what is in the network fits the pipe");
}

#[test]
fn a_cycle_has_one_round_with_more_one_with_less_and_six_at_the_rate() {
    let mut path = Path::filled();
    let mut percents: Vec<u64> =
        (0..8).map(|_| path.round(RATE, PIPE, |ack| ack.before = 9 * PIPE) * 100 / RATE).collect();
    let start = percents.iter().position(|&percent| percent > 100).expect("a round with more");
    percents.rotate_left(start);
    assert_eq!(percents, [123, 74, 99, 99, 99, 99, 99, 99]);
}

#[test]
fn the_window_is_two_pipes_three_bursts_and_what_acks_tell_at_once() {
    let mut path = Path::filled();
    // Rounds of a cycle, the last of them at the rate itself.
    for _ in 0..40 {
        path.round(RATE, 137_500, |ack| ack.before = 9 * PIPE);
    }
    while path.round(RATE, 137_500, |ack| ack.before = 9 * PIPE) != RATE * 99 / 100 {}
    // 11 ms of the rate in each round: 250 000, 3 x 8 segments, and the 137 500 bytes that one ACK tells of.
    let wanted = 2 * PIPE + 3 * 8 * 1_460 + 137_500;
    let window = u64::from(path.window.cwnd);
    assert!((wanted..=wanted + 4 * 1_460).contains(&window), "{window}, {wanted}");
}

#[test]
fn the_largest_rate_of_ten_rounds_counts_and_what_the_application_limits_only_if_it_is_more() {
    let mut path = Path::filled();
    for _ in 0..10 {
        path.round(RATE / 2, PIPE, |_| {});
    }
    assert_eq!(path.model.rate(), RATE);
    path.round(RATE / 2, PIPE, |_| {});
    assert_eq!(path.model.rate(), RATE / 2);
    path.round(RATE / 4, PIPE, |ack| ack.arrived.limited = true);
    assert_eq!(path.model.rate(), RATE / 2);
    path.round(RATE * 2, PIPE, |ack| ack.arrived.limited = true);
    assert_eq!(path.model.rate(), RATE * 2);
}

#[test]
fn a_longer_path_is_believed_after_ten_seconds() {
    let mut path = Path::filled();
    let mut rounds = 0;
    while path.model.least_rtt() == Ps::millis(10) {
        path.round(RATE, PIPE, |ack| ack.rtt = Some(Ps::millis(30)));
        rounds += 1;
    }
    assert_eq!(path.model.least_rtt(), Ps::millis(30));
    // Rounds of 11 ms.
    assert!((900..=910).contains(&rounds), "{rounds}");
    assert!(path.model.probes_rtt(), "and next to nothing is sent for 200 ms");
    assert_eq!(path.window.cwnd, 4 * 1_460);
}

#[test]
fn a_silence_shows_the_shortest_round_trip_without_a_search() {
    let mut path = Path::filled();
    path.now += Ps::millis(10_100);
    path.model.restart(path.now, &mut path.random);
    path.round(RATE, PIPE, |ack| ack.rtt = Some(Ps::millis(12)));
    assert_eq!(path.model.least_rtt(), Ps::millis(12));
    assert!(!path.model.probes_rtt());
}

#[test]
fn more_is_sent_until_more_is_in_the_network_or_some_is_lost() {
    let mut path = Path::filled();
    while path.round(RATE, PIPE, |ack| ack.before = 9 * PIPE) < RATE {}
    for _ in 0..5 {
        assert!(path.round(RATE, PIPE, |_| {}) > RATE);
    }
    assert!(path.round(RATE, PIPE, |ack| ack.lost = 1_460) < RATE);
}

#[test]
fn a_timeout_forgets_at_what_rate_the_path_seemed_full() {
    let mut path = Path::new();
    for _ in 0..3 {
        path.round(RATE, PIPE, |_| {});
    }
    path.model.handle_timeout(1_460);
    // Three more rounds without growth would have been enough.
    path.round(RATE, PIPE, |ack| ack.repair = Repair::Timeout);
    path.round(RATE, PIPE, |_| {});
    assert_eq!(path.model.mode, Mode::Startup);
}

#[test]
fn the_pace_does_not_fall_before_the_path_has_been_full() {
    let mut path = Path::new();
    let before = path.round(RATE, PIPE, |_| {});
    path.model.rates.clear();
    assert_eq!(path.round(RATE / 2, PIPE, |_| {}), before);
}

#[test]
fn a_repair_sends_what_arrives_for_a_round_and_then_has_the_window_of_before() {
    let mut path = Path::filled();
    path.model.handle_loss();
    path.round(RATE, 10_000, |ack| {
        (ack.repair, ack.lost, ack.in_flight) = (Repair::Recovery, 20_000, 80_000);
    });
    assert_eq!(path.window.cwnd, 90_000);
    // Then each loss takes its own from the window, and each ACK adds.
    path.round(RATE, 10_000, |ack| {
        (ack.repair, ack.lost, ack.in_flight) = (Repair::Recovery, 30_000, 20_000);
    });
    assert_eq!(path.window.cwnd, 70_000);
    path.round(RATE, 10_000, |_| {});
    assert!(path.window.cwnd > 400_000, "{}", path.window.cwnd);
}

#[test]
fn a_timeout_leaves_one_segment_and_the_first_ack_four() {
    let mut path = Path::filled();
    path.model.handle_timeout(1_460);
    assert_eq!(path.model.cwnd, 1_460);
    path.round(RATE, 1_460, |ack| ack.repair = Repair::Timeout);
    assert_eq!(path.window.cwnd, 4 * 1_460);
}
