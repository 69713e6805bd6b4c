//! What PAC does once per interval: the threshold follows ECN (Eq. 2), a suspicious fall of throughput corrects the
//! estimate of in-flight bytes (Eq. 6), and each flow's phase is inferred from its own throughput (§III-C).

use super::config::{Config, FULL_FRAME};
use super::state::{Flow, Gate, flag};
use crate::units::Time;

/// How often the memory of a crowd fades by an eighth, ns.
const CROWD_STEP: u64 = 100_000_000;

/// Smoothing by 7/8, as TCP smooths its RTT: the paper says "exponential filter" and gives no gain.
#[inline]
pub(super) fn smooth(old: u64, sample: u64) -> u64 {
    if old == 0 { sample } else { old - old / 8 + sample / 8 }
}

/// Bytes per 2^20 ns: a throughput in integers, exact enough at 100 Gb/s and without a 128-bit product.
#[inline]
fn bandwidth(bytes: u64, elapsed: u64) -> u64 {
    (bytes << 20) / elapsed.max(1)
}

/// Ends the control interval if it is over. Called on every arrival and, while ACKs are held, by the scheduler: when
/// nothing arrives any more, that is when the correction is needed most.
pub fn roll(config: &Config, gate: &Gate, now: Time) {
    let start = gate.interval_start.get();
    if start == 0 {
        gate.interval_start.replace(0, now.0);
        return;
    }
    let elapsed = now.since(Time(start)).0;
    if elapsed < gate.interval.get().max(config.min_interval.0) || !gate.interval_start.replace(start, now.0) {
        return;
    }
    gate.interval.set(gate.mean_rtt.get() + drain(config, gate));
    forget_crowd(gate, now);
    let bytes = gate.interval_bytes.take();
    let frames = gate.interval_frames.take();
    let marked = gate.interval_marked.take().min(frames);
    let charged = gate.interval_charged.take();
    let charged_before = gate.charged_before.get();
    gate.charged_before.set(charged);
    if frames > 0 {
        gate.threshold.set(next_threshold(gate.threshold.get(), gate.cap.get(), marked, frames));
    }
    let held = gate.held.get() > 0;
    if bytes == 0 && !held {
        return;
    }
    let now_bandwidth = bandwidth(bytes, elapsed);
    let usual = gate.smooth_bandwidth.get();
    // Exact credit has no estimate to correct: what is not used is returned by evidence, flow by flow.
    if held && !config.credit && now_bandwidth * 1000 <= usual * u64::from(config.lambda_permille) {
        correct(gate, now_bandwidth, usual, marked, frames, charged + charged_before);
    }
    gate.smooth_bandwidth.set(smooth(usual, now_bandwidth));
    gate.smooth_in_flight.set(smooth(gate.smooth_in_flight.get(), gate.in_flight()));
    let (owed, written_off) = (gate.owed.get(), gate.written_off.get());
    if written_off > owed {
        gate.written_off.replace(written_off, owed);
    }
}

/// The number of flows that turns are reckoned with follows the engaged ones upwards at once, and downwards by an eighth
/// every tenth of a second: the last flows of a crowd get no larger grants than the first.
fn forget_crowd(gate: &Gate, now: Time) {
    let elapsed = now.since(Time(gate.crowd_since.get())).0;
    if elapsed >= CROWD_STEP {
        let crowd = gate.crowd.get();
        let left = if elapsed >= 10 * CROWD_STEP { 0 } else { crowd.saturating_sub((crowd / 8).max(1)) };
        gate.crowd.set(left.max(gate.engaged.get()));
        gate.crowd_since.set(now.0);
    }
}

/// PAC Eq. 2, applied once per control interval, with α = `marked / frames`. The paper names no least threshold; below
/// two full frames no ACK could ever be released next to another.
fn next_threshold(threshold: u64, cap: u64, marked: u64, frames: u64) -> u64 {
    if marked > 0 {
        (threshold - threshold * marked / (2 * frames)).max(2 * FULL_FRAME)
    } else {
        (threshold * 2).min(cap)
    }
}

/// PAC Eq. 6: `in_flight = min(in_flight, in_flight_S · BW_T / (BW_S · (1 - α/2)))`.
///
/// Bytes charged within this very interval are never written off: they may still be on their way, and a receiver that
/// was merely descheduled would otherwise admit a second buffer-full on top of the first. That is why the interval is
/// not only the mean RTT, but at least the time that a full threshold takes to arrive.
fn correct(gate: &Gate, bandwidth: u64, usual: u64, marked: u64, frames: u64, charged: u64) {
    let scaled = gate.smooth_in_flight.get() * (bandwidth * 1024 / usual.max(1)) / 1024;
    let target = if frames > 0 { scaled * 2 * frames / (2 * frames - marked) } else { scaled };
    let excess = gate.in_flight().saturating_sub(target.max(charged));
    if excess > 0 {
        gate.written_off.add(excess);
        gate.corrections.add(1);
    }
}

/// Takes a flow's RTT into the mean, as at most twice the mean: a handshake that lost a packet has measured a timer, and
/// an interval as long as that would keep Eq. 2 and Eq. 6 from doing anything.
pub(super) fn note_rtt(gate: &Gate, rtt: u64) {
    let mean = gate.mean_rtt.get();
    if rtt > 0 {
        gate.mean_rtt.set(smooth(mean, if mean > 0 { rtt.min(2 * mean) } else { rtt }));
    }
}

/// So many SYNs, one right after the other, are a burst.
const SYN_BURST: u64 = 4;

/// Counts SYNs that arrive one right after the other.
pub(super) fn note_syn(config: &Config, gate: &Gate, now: Time) {
    let alone = now.since(Time(gate.last_syn.get())).0 > syn_gap(config);
    gate.syn_burst.set(if alone { 1 } else { gate.syn_burst.get() + 1 });
    gate.last_syn.set(now.0);
}

/// Whether a burst of SYNs is arriving: as many may still stand in the switch's buffer, and are nobody's debt (PAC §V-E3 does
/// not count them). What SYN-ACKs invite has no room beside them.
pub(super) fn syns_are_arriving(config: &Config, gate: &Gate, now: Time) -> bool {
    gate.syn_burst.get() >= SYN_BURST && now.since(Time(gate.last_syn.get())).0 <= syn_gap(config)
}

/// When the burst of SYNs will be over, if none arrives any more.
pub(super) fn settled_at(config: &Config, gate: &Gate) -> Time {
    Time(gate.last_syn.get().saturating_add(syn_gap(config) + 1))
}

/// The time in ns that two full frames take on the link: SYNs closer to each other than that come out of a queue. 0 when the
/// link's rate is not known.
fn syn_gap(config: &Config) -> u64 {
    (2 * FULL_FRAME * 8_000).checked_div(config.rate_mbps).unwrap_or(0)
}

/// Ends the flow's own interval (RTT_i) if it is over, and infers congestion avoidance when throughput fell to λ of the
/// interval before twice in a row (PAC §III-C, as the formula has it).
pub(super) fn roll_flow(config: &Config, gate: &Gate, flow: &Flow, now: Time) {
    let start = flow.interval_start.get();
    let elapsed = now.since(Time(start)).0;
    if start != 0 && elapsed < flow.round_trip().max(config.min_interval.0) {
        return;
    }
    flow.interval_start.set(now.0);
    let bytes = u64::from(flow.interval_bytes.take());
    note_rtt(gate, u64::from(flow.rtt.get()));
    let waited = flow.flags.any(flag::WAITED);
    flow.flags.lower(flag::WAITED);
    if start == 0 || waited {
        // Throughput fell, or not, as the gate let it: that tells nothing about the sender.
        flow.last_bandwidth.set(0);
        flow.slow_intervals.set(0);
        return;
    }
    let now_bandwidth = bandwidth(bytes, elapsed);
    let before = flow.last_bandwidth.get();
    flow.last_bandwidth.set(now_bandwidth);
    if now_bandwidth * 1000 <= before * u64::from(config.lambda_permille) {
        let slow = flow.slow_intervals.get() + 1;
        flow.slow_intervals.set(slow);
        if slow >= 2 {
            flow.flags.raise(flag::AVOIDANCE);
        }
    } else {
        flow.slow_intervals.set(0);
    }
}

/// How long an indebted flow may be silent before its debt is void: the longest pause, or half of it if the
/// sender may have no more, or twice what responses take to begin if it has just been asked; that four times as long while
/// everybody is silent, for the requests may not even have left our own queue. But no longer than an ACK may be held.
fn patience(config: &Config, gate: &Gate, flow: &Flow) -> u64 {
    let pause = longest_pause(config, gate, flow);
    let patience = if flow.flags.any(flag::ASKED) {
        let others_go_on = gate.last_data.get() >= flow.last_active.get();
        pause.max(2 * gate.response_delay.get()) * if others_go_on { 1 } else { 4 }
    } else if config.credit && flow.flags.any(flag::STOPPED) {
        pause / 2
    } else {
        pause
    };
    patience.min(config.max_hold.0)
}

/// The longest pause in ns within one response: the configured silence, twice the flow's RTT, and twice the time that a
/// full threshold takes to arrive, since data of other flows may all stand before this one's in the switch.
pub(super) fn longest_pause(config: &Config, gate: &Gate, flow: &Flow) -> u64 {
    config.silence.0.max(2 * u64::from(flow.rtt.get())).max(2 * drain(config, gate))
}

/// The time in ns that a full threshold takes to arrive; 0 when the link's rate is not known.
pub(super) fn drain(config: &Config, gate: &Gate) -> u64 {
    (gate.threshold.get() * 8_000).checked_div(config.rate_mbps).unwrap_or(0)
}

/// When the flow will have been silent for long enough, if it stays silent.
pub(super) fn silent_at(config: &Config, gate: &Gate, flow: &Flow) -> Time {
    Time(flow.last_active.get().saturating_add(patience(config, gate, flow) + 1))
}

/// A PSH came, and what was released since then brought nothing. While a flow's own ACKs wait for their turn its silence tells
/// nothing.
const PUSHED_IN_VAIN: u32 = flag::PUSHED | flag::AWAITED;

/// Voids what a silent flow owes; says whether it did.
pub fn void_if_silent(config: &Config, gate: &Gate, flow: &Flow, now: Time) -> bool {
    if (flow.owed.get() == 0 && !flow.flags.any(flag::ENGAGED)) || now < silent_at(config, gate, flow) {
        return false;
    }
    if !config.credit && flow.owed.get() > 0 && flow.flags.get() & PUSHED_IN_VAIN == PUSHED_IN_VAIN {
        flow.flags.raise(flag::DRY);
    }
    let fills_the_gate = 2 * u64::from(flow.owed.get()) >= gate.threshold.get();
    if !config.credit && fills_the_gate && flow.held.get() > 0 && !flow.flags.any(flag::ASKED) {
        // Less came than was charged, and the sender waits for nobody but us: as in `look_through`. Among many, each owes
        // little, and is silent because of the others.
        flow.flags.raise(flag::AVOIDANCE);
    }
    void(gate, flow);
    if flow.held.get() == 0 {
        disengage(gate, flow);
    }
    if flow.flags.any(flag::STOPPED) {
        // It may go on; several that fall silent together are asked in any order.
        gate.usual_response.set(gate.usual_response.get().max(flow.size.get()));
    }
    true
}

/// The flow takes part in the division of the budget from now on; says whether that is new.
pub(super) fn engage(gate: &Gate, flow: &Flow) -> bool {
    let new = !flow.flags.any(flag::ENGAGED);
    if new {
        flow.flags.raise(flag::ENGAGED);
        gate.engaged.add(1);
        gate.crowd.set(gate.crowd.get().max(gate.engaged.get()));
    }
    new
}

/// The flow is idle or has ended: its share is for the others.
pub(super) fn disengage(gate: &Gate, flow: &Flow) {
    if flow.flags.any(flag::ENGAGED) {
        flow.flags.lower(flag::ENGAGED);
        gate.engaged.take_up_to(1);
    }
}

/// A flow's data comes in the order in which it was charged: what was owed a longest pause ago, and is not paid although
/// data has kept coming since, was never sent. It is void, and the sender's window is by as much smaller than the model has
/// it. If it is as much as the λ of §III-C asks for, the window does not grow as it was charged for, and the flow is in
/// congestion avoidance: while its ACKs are held, its throughput could not tell. `pause` is how long nothing had come; after
/// one, what is owed may be right behind this segment.
pub(super) fn look_through(config: &Config, gate: &Gate, flow: &Flow, pause: u64, now: Time) {
    let patience = longest_pause(config, gate, flow);
    let age = u64::from((now.0 as u32).wrapping_sub(flow.due_since.get()));
    if age < patience && pause * 2 < patience {
        return;
    }
    let (due, unpaid) = (u64::from(flow.due.get()), u64::from(flow.unpaid.get().min(flow.owed.get())));
    if unpaid > 0 && pause * 2 < patience {
        flow.owed.take_up_to(unpaid as u32);
        forgive(gate, unpaid);
        let (window, mss) = (u64::from(flow.window.get()), u64::from(flow.mss.get()));
        let excess = unpaid * mss / (mss + u64::from(flow.header.get())).max(1);
        flow.window.set(window.saturating_sub(excess).max((2 * mss).min(window)) as u32);
        if (due - unpaid) * 1000 <= due * u64::from(config.lambda_permille) {
            flow.flags.raise(flag::AVOIDANCE);
        }
    }
    flow.due.set(flow.owed.get());
    flow.unpaid.set(flow.owed.get());
    flow.due_since.set(now.0 as u32);
}

/// Returns a flow's debt to the budget: it ended, fell silent, or said that it has no more.
pub fn void(gate: &Gate, flow: &Flow) {
    flow.unpaid.set(0);
    forgive(gate, u64::from(flow.owed.take()));
}

/// Strikes debt off the gate's books. What Eq. 6 has already written off is not returned twice.
fn forgive(gate: &Gate, debt: u64) {
    if debt > 0 {
        gate.owed.sub(debt);
        gate.written_off.take_up_to(debt);
        gate.voided.add(debt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_shrinks_with_the_marked_fraction_and_doubles_back() {
        // PAC Eq. 2 with buffer 96 KB.
        assert_eq!(next_threshold(96_000, 96_000, 10, 10), 48_000, "α = 1 halves");
        assert_eq!(next_threshold(96_000, 96_000, 5, 10), 72_000, "α = 0.5 takes a quarter");
        assert_eq!(next_threshold(48_000, 96_000, 0, 10), 96_000, "α = 0 doubles");
        assert_eq!(next_threshold(72_000, 96_000, 0, 10), 96_000, "up to the buffer");
        assert_eq!(next_threshold(3_100, 96_000, 10, 10), 2 * FULL_FRAME, "never below two frames");
    }

    fn gate(owed: u64, smooth_in_flight: u64) -> Gate {
        let gate = Gate::new(&Config::new(96_000));
        gate.owed.set(owed);
        gate.smooth_in_flight.set(smooth_in_flight);
        gate
    }

    #[test]
    fn a_fall_of_throughput_without_marks_scales_the_estimate() {
        let gate = gate(90_000, 80_000);
        correct(&gate, 500, 1000, 0, 10, 0);
        assert_eq!(gate.in_flight(), 40_000, "in_flight_S · BW_T / BW_S");
        assert_eq!(gate.owed.get(), 90_000, "the ledger itself is untouched");
    }

    #[test]
    fn marks_leave_the_estimate_alone() {
        let gate = gate(70_000, 80_000);
        correct(&gate, 500, 1000, 10, 10, 0);
        assert_eq!(gate.in_flight(), 70_000, "80 000 · 0.5 / 0.5 exceeds the estimate");
    }

    #[test]
    fn what_was_just_charged_is_not_written_off() {
        let gate = gate(90_000, 80_000);
        correct(&gate, 0, 1000, 0, 0, 60_000);
        assert_eq!(gate.in_flight(), 60_000);
    }

    #[test]
    fn a_void_debt_does_not_count_twice() {
        let gate = gate(90_000, 80_000);
        let flow = Flow::default();
        flow.owed.set(30_000);
        correct(&gate, 500, 1000, 0, 10, 0);
        void(&gate, &flow);
        assert_eq!(gate.in_flight(), 40_000, "the 50 000 written off covered the flow's 30 000");
        assert_eq!(gate.owed.get(), 60_000);
    }

    #[test]
    fn a_handshake_that_lost_a_packet_does_not_stretch_the_interval() {
        let gate = gate(0, 0);
        note_rtt(&gate, 100_000);
        note_rtt(&gate, 200_000_000);
        assert_eq!(gate.mean_rtt.get(), 112_500, "counted as 200 us");
    }

    #[test]
    fn throughput_that_the_gate_held_back_tells_nothing_about_the_sender() {
        let config = Config { min_interval: crate::units::Span::micros(100), ..Config::new(96_000) };
        let (gate, flow) = (Gate::new(&config), Flow::default());
        let mut now = Time(1);
        for bytes in [0, 10_000, 5_000, 2_000, 1_000] {
            flow.interval_bytes.set(bytes);
            flow.flags.raise(flag::WAITED);
            now += crate::units::Span::micros(100);
            roll_flow(&config, &gate, &flow, now);
        }
        assert!(!flow.flags.any(flag::AVOIDANCE));
    }

    #[test]
    fn two_slower_intervals_in_a_row_mean_congestion_avoidance() {
        let config = Config { min_interval: crate::units::Span::micros(100), ..Config::new(96_000) };
        let gate = Gate::new(&config);
        let flow = Flow::default();
        let mut now = Time(1);
        let mut interval = |bytes: u32| {
            flow.interval_bytes.set(bytes);
            now += crate::units::Span::micros(100);
            roll_flow(&config, &gate, &flow, now);
            flow.flags.any(flag::AVOIDANCE)
        };
        assert!(!interval(0) && !interval(10_000) && !interval(8_000) && !interval(7_000), "one fall is not two");
        assert!(!interval(5_600), "0.8 exactly counts");
        assert!(interval(4_000));
    }
}
