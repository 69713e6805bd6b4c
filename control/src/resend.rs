//! Timeouts of microseconds beside a TCP that has none (Vasudevan et al., §5, without the kernel patch): at the sender, between
//! its TCP and the network, the first unacknowledged segment is sent once more when a fine timer fires.
//!
//! TCP never hears of it: a copy that was not needed is a duplicate, which the receiver drops and answers; one that was needed
//! moves the acknowledgement on before TCP's own timer fires.
//!
//! DESIGN NOTES, where this differs from a TCP with such timers:
//! 1. *After the timer* everything up to the highest byte sent by then may be lost. An ACK of part of it has the next segment
//!    repeated when that itself was sent a timeout ago, hence mostly at once: one segment for each ACK, where slow start would
//!    double. What is still on its way is not repeated, as it would be if every ACK of a part counted (RFC 6582 §3.2).
//! 2. *Back-off* (RFC 6298 §5.5) counts here, not in TCP. After [`Config::attempts`] in vain the rest is left to TCP's timer.
//! 3. *Congestion window*: TCP's stays as it is, for TCP knows of no loss.
//! 4. *Samples* are taken from segments that were sent once (Karn's rule) and after the last repetition, and from the handshake.
//!    Before the first one nothing is repeated.
//! 5. *Timestamps*: a copy must not be older than what TCP has sent since, or the receiver drops it (PAWS, RFC 7323 §5). Whoever
//!    keeps the copies writes TCP's newest timestamps into them.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::error::ConfigError;
use crate::policy::{Action, FlowId, PacketId, Policy, Verdict};
use crate::rto::{HALF, Rto, RtoConfig};
use crate::segment::{Edit, Flags, Segment};
use crate::seq::SeqNumber;
use crate::units::{Span, Time};

/// Segments of one connection whose times are remembered; more than that under way are not timed.
const MOST_TIMED: usize = 4096;

/// When to send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The timer (Vasudevan §5).
    pub rto: RtoConfig,
    /// Times that one segment is repeated at most.
    pub attempts: u8,
    /// Where random lengthening comes from.
    pub seed: u64,
}

impl Default for Config {
    /// No floor to speak of, timeouts lengthened by up to a half (Vasudevan §5), doubled up to 64 times (§7).
    fn default() -> Self {
        let rto = RtoConfig { floor: Span::micros(200), spread: HALF, ..RtoConfig::default() };
        Self { rto, attempts: 8, seed: 1 }
    }
}

impl Config {
    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first value that does not, with what is allowed.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.attempts == 0 {
            return Err(ConfigError("a segment must be repeated at least once"));
        }
        if self.rto.ceiling.0 < self.rto.floor.0 {
            return Err(ConfigError("the longest timeout is shorter than the shortest"));
        }
        Ok(())
    }
}

/// A segment under way.
#[derive(Clone, Copy, Debug)]
struct Timed {
    end: SeqNumber,
    /// When it was sent last.
    sent: Time,
    /// Its acknowledgement will be a measure.
    sample: bool,
}

/// One connection.
#[derive(Debug, Default)]
struct Flow {
    rto: Rto,
    /// Highest acknowledgement, and the end of what was sent; `None` before any payload.
    open: Option<(SeqNumber, SeqNumber)>,
    timed: VecDeque<Timed>,
    /// When its SYN or SYN-ACK left, until it is answered.
    handshake: Option<Time>,
    deadline: Option<Time>,
    /// What was sent when the timer fired last, until all of it is acknowledged.
    recover: Option<SeqNumber>,
    attempts: u8,
}

impl Flow {
    /// The first unacknowledged segment is sent once more. What else is under way may wait for it, and measures nothing.
    fn sent_again(&mut self, now: Time) {
        self.timed.iter_mut().for_each(|timed| timed.sample = false);
        if let Some(first) = self.timed.front_mut() {
            first.sent = now;
        }
    }
}

/// The timers of one host.
#[derive(Debug)]
pub struct Resend {
    config: Config,
    flows: Vec<Flow>,
    deadlines: BTreeSet<(Time, FlowId)>,
    due: VecDeque<(FlowId, SeqNumber)>,
    random: u64,
    repeated: u64,
}

impl Resend {
    /// Timers with these parameters.
    ///
    /// # Errors
    /// When a parameter makes no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            flows: Vec::new(),
            deadlines: BTreeSet::new(),
            due: VecDeque::new(),
            random: config.seed,
            repeated: 0,
        })
    }

    /// Segments repeated so far.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    fn flow(&mut self, id: FlowId) -> &mut Flow {
        let at = id.0 as usize;
        if at >= self.flows.len() {
            self.flows.resize_with(at + 1, Flow::default);
        }
        &mut self.flows[at]
    }

    /// Sets a connection's timer anew, if anything of it is under way and it may still be repeated; else takes it off.
    fn arm(&mut self, now: Time, id: FlowId) {
        // SplitMix64 (Steele et al., OOPSLA 2014), of which a timer needs 32 bits.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let random = (mixed >> 32) as u32;
        let config = self.config;
        let flow = self.flow(id);
        let before = flow.deadline.take();
        let under_way = flow.open.is_some_and(|(acked, sent)| acked != sent);
        if under_way && flow.attempts < config.attempts && flow.rto.srtt().is_some() {
            let first = flow.timed.front().filter(|_| flow.recover.is_some());
            let since = first.map_or(now, |first| first.sent);
            flow.deadline = Some((since + flow.rto.timeout(&config.rto, random)).max(now));
        }
        let after = flow.deadline;
        before.map(|at| self.deadlines.remove(&(at, id)));
        after.map(|at| self.deadlines.insert((at, id)));
    }

    fn handle_timeout(&mut self, now: Time, id: FlowId) {
        let config = self.config.rto;
        let flow = self.flow(id);
        flow.rto.handle_timeout(&config);
        flow.attempts += 1;
        flow.sent_again(now);
        if let Some((acked, sent)) = flow.open {
            flow.recover = flow.recover.or(Some(sent));
            self.due.push_back((id, acked));
            self.repeated += 1;
        }
        self.arm(now, id);
    }
}

impl Policy for Resend {
    fn handle_ingress(&mut self, now: Time, id: FlowId, segment: &Segment) -> Edit {
        if !segment.flags.has(Flags::ACK) {
            return Edit::NONE;
        }
        let config = self.config.rto;
        let flow = self.flow(id);
        if let Some(sent) = flow.handshake.take() {
            flow.rto.handle_sample(&config, now.since(sent));
        }
        let Some((acked, sent)) = flow.open else { return Edit::NONE };
        // What acknowledges more than was sent, a FIN aside, is nobody's evidence.
        if !segment.ack.after(acked) || segment.ack.distance_from(sent) > 1 {
            return Edit::NONE;
        }
        flow.open = Some((segment.ack, sent.max(segment.ack)));
        flow.attempts = 0;
        flow.rto.handle_progress();
        let mut sample = None;
        while let Some(timed) = flow.timed.front().filter(|timed| !timed.end.after(segment.ack)) {
            sample = timed.sample.then(|| now.since(timed.sent));
            flow.timed.pop_front();
        }
        if let Some(rtt) = sample {
            flow.rto.handle_sample(&config, rtt);
        }
        flow.recover = flow.recover.filter(|recover| recover.after(segment.ack));
        self.arm(now, id);
        Edit::NONE
    }

    fn handle_egress(&mut self, now: Time, id: FlowId, segment: &Segment, _: PacketId) -> Verdict {
        let flow = self.flow(id);
        if segment.flags.has(Flags::SYN) {
            // One that is sent again is no measure (Karn's rule).
            flow.handshake = if flow.handshake.is_some() { None } else { Some(now) };
        } else if segment.flags.has(Flags::RST) {
            flow.open = None;
            self.arm(now, id);
        } else if segment.payload > 0 {
            let end = segment.end();
            let (acked, sent) = flow.open.unwrap_or((segment.seq, segment.seq));
            let idle = acked == sent;
            flow.open = Some((acked, sent.max(end)));
            if segment.seq.before(sent) {
                // TCP repeats something itself; its timer or its recovery is at work, and starts ours anew.
                flow.sent_again(now);
                self.arm(now, id);
            } else {
                if flow.timed.len() < MOST_TIMED {
                    flow.timed.push_back(Timed { end, sent: now, sample: true });
                }
                if idle {
                    self.arm(now, id);
                }
            }
        }
        Verdict::PASS
    }

    fn handle_forgotten(&mut self, id: FlowId) {
        let flow = core::mem::take(self.flow(id));
        flow.deadline.map(|at| self.deadlines.remove(&(at, id)));
    }

    fn edits_ingress(&self) -> bool {
        false
    }

    fn repeats(&self) -> bool {
        true
    }

    fn poll_repeat(&mut self, now: Time) -> Option<(FlowId, SeqNumber)> {
        while let Some(&(at, id)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            self.flow(id).deadline = None;
            self.handle_timeout(now, id);
        }
        self.due.pop_front()
    }

    fn poll_action(&mut self, _: Time) -> Option<Action> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowId = FlowId(3);
    const RTT: Span = Span::micros(100);

    struct World {
        resend: Resend,
        now: Time,
    }

    impl World {
        /// A connection whose handshake took [`RTT`].
        fn new() -> Self {
            let rto = RtoConfig { spread: 0, ..Config::default().rto };
            let mut world = Self { resend: Resend::new(Config { rto, ..Config::default() }).unwrap(), now: Time(1) };
            world.send(&Segment { flags: Flags::SYN, ..Segment::default() });
            world.now += RTT;
            world.acknowledged(0);
            world
        }

        fn send(&mut self, segment: &Segment) {
            assert_eq!(self.resend.handle_egress(self.now, FLOW, segment, PacketId(0)), Verdict::PASS);
        }

        fn data(&mut self, seq: u32) {
            self.send(&Segment { flags: Flags::ACK, seq: SeqNumber(seq), payload: 100, ..Segment::default() });
        }

        fn acknowledged(&mut self, ack: u32) {
            let segment = Segment { flags: Flags::ACK, ack: SeqNumber(ack), ..Segment::default() };
            assert_eq!(self.resend.handle_ingress(self.now, FLOW, &segment), Edit::NONE);
        }

        /// What is repeated after this time.
        fn wait(&mut self, span: Span) -> Vec<u32> {
            self.now += span;
            core::iter::from_fn(|| self.resend.poll_repeat(self.now)).map(|(_, seq)| seq.0).collect()
        }

        fn timeout(&self) -> Option<Span> {
            self.resend.poll_timeout().map(|at| at.since(self.now))
        }
    }

    #[test]
    fn the_first_unacknowledged_segment_is_repeated_ever_more_seldom() {
        let mut world = World::new();
        assert_eq!(world.timeout(), None, "nothing is under way");
        world.data(0);
        world.data(100);
        assert_eq!(world.timeout(), Some(RTT * 3), "the first sample counts three times (RFC 6298 §2.2)");
        assert_eq!(world.wait(RTT * 3 - Span(1)), []);
        let mut wait = Span(1);
        for attempt in 1..=8 {
            assert_eq!(world.wait(wait), [0], "attempt {attempt}");
            wait = RTT * 3 * (1 << attempt.min(6));
            assert_eq!(world.timeout(), (attempt < 8).then_some(wait));
        }
        assert_eq!(world.wait(Span::secs(100)), [], "the rest is left to TCP");
        world.acknowledged(100);
        assert_eq!(world.wait(Span(0)), [100], "as old as the first");
        assert_eq!(world.timeout(), Some(RTT * 6), "back-off began anew, and no sample was taken");
    }

    #[test]
    fn what_was_sent_before_the_timeout_follows_ack_by_ack_once_it_is_old_enough() {
        let mut world = World::new();
        world.data(0);
        world.data(100);
        assert_eq!(world.wait(RTT), []);
        world.data(200);
        assert_eq!(world.wait(RTT * 2), [0]);
        world.acknowledged(100);
        assert_eq!(world.wait(Span(0)), [100], "sent with the first");
        world.acknowledged(200);
        assert_eq!(world.wait(Span(0)), [], "sent later");
        assert_eq!(world.wait(RTT), [200]);
        world.data(300);
        world.acknowledged(300);
        assert_eq!(world.wait(Span(0)), [], "what came after is under way for the first time");
        assert_eq!(world.timeout(), Some(RTT * 3));
        world.acknowledged(400);
        assert_eq!((world.timeout(), world.resend.repeated()), (None, 3));
    }

    #[test]
    fn progress_and_tcps_own_retransmissions_start_the_timer_anew() {
        let mut world = World::new();
        world.data(0);
        world.data(100);
        assert_eq!(world.wait(RTT), []);
        world.acknowledged(100);
        let timeout = world.timeout().unwrap();
        assert!(timeout > RTT * 2 && timeout <= RTT * 3, "one more sample: {timeout:?}");
        world.wait(timeout - Span(1));
        world.data(100);
        assert_eq!(world.timeout(), Some(timeout));
        world.now += Span(5);
        world.acknowledged(100);
        world.acknowledged(5000);
        assert_eq!(world.timeout(), Some(timeout - Span(5)), "neither old nor impossible ACKs are progress");
    }

    #[test]
    fn nothing_is_repeated_of_what_was_reset_forgotten_or_never_measured() {
        let mut world = World::new();
        world.data(0);
        world.send(&Segment { flags: Flags::RST, ..Segment::default() });
        assert_eq!(world.timeout(), None);
        let mut world = World::new();
        world.data(0);
        world.resend.handle_forgotten(FLOW);
        assert_eq!(world.timeout(), None);
        world.data(0);
        assert_eq!(world.timeout(), None);
        world.acknowledged(100);
        world.data(100);
        assert!(world.timeout().is_some(), "the first exchange was the measure");
    }

    #[test]
    fn senseless_settings_are_refused() {
        assert!(Resend::new(Config { attempts: 0, ..Config::default() }).is_err());
        let rto = RtoConfig { floor: Span::secs(61), ..RtoConfig::default() };
        assert!(Resend::new(Config { rto, ..Config::default() }).is_err());
    }
}
