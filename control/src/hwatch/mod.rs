//! HWatch: hypervisors that probe a path before a connection is opened, and set its start by what they saw
//! (Abdelmoniem, Susanto, Bensaou; ICPP 2020).
//!
//! ```text
//! opening host:   holds the SYN, sends probes over RTT/2, then the SYN                     open, poll_action
//! accepting host: counts marked and unmarked probes                                        handle_probe
//!                 Rwnd of the SYN-ACK = X_UM + X_M/2 (the batch law)                       answer, law::bursts
//!                 paces SYN-ACKs by a token bucket                                         Bucket
//!                 Rwnd of the ACKs lets X_M/2 follow, then slow start                      start::Start
//! data's sender:  Rule 1: marks lower the Rwnd that its TCP is shown                       throttle::Throttle
//! ```
//!
//! One object plays all parts: a host opens some connections, accepts others, and may send on either.
//!
//! DESIGN NOTES: what the paper leaves open.
//! 1. *Who is probed about.* A probe is an IP header and nothing else (38 bytes with 18 of Ethernet, §IV-C): protocol
//!    253 (RFC 3692), the opener's port in the identification field. Together with the addresses that names the
//!    connection, unless one port talks to two ports of one host at the same time.
//! 2. *Spacing.* Gaps are uniformly random between nothing and twice what is left on average, so their sum never
//!    exceeds [`Config::probe_span`], after which the SYN leaves. A retransmitted SYN is not probed for again.
//! 3. *Lost probes* count as marked: losing one takes a queue beyond the marking threshold. If none arrives, the other
//!    end runs no HWatch, and the connection is left alone.
//! 4. *Least window*: one segment. A zero window would stop the sender until its persist timer.
//! 5. *The second half-batch* is let go by the window of the ACKs that acknowledge the first burst, one segment for
//!    each segment, not by a timer: Lemma IV.3 has it leave as these ACKs arrive. No packet is needed that TCP does not
//!    send.
//! 6. *Token bucket.* Its rate and size are in no text; the theory has them. What a SYN-ACK costs is the first burst that
//!    it invites, in bytes. Of the bursts of one batch there are K = C·RTT/7 at most (Theorem IV.1), and the next batch
//!    follows T = RTT/2 later, so the bucket holds K and fills in T; C is the rate of the host's interface, the one
//!    capacity that a host knows. That helps where connections meet at their receiver. Where they meet on the way, on their way to many receivers, marks are all that tells: a
//!    SYN-ACK also waits for a random part of `2·RTT·X_M/X`, the two RTTs over which Lemma IV.3 has the batches sent.
//!    It waits no longer than [`Config::max_hold`].
//! 7. *Rule 1, law and place.* Per window of data, as for the start: the next window is X_UM + X_M/2; a window without
//!    marks adds one segment; and the window is never shown further ahead than needed, or it could not be lowered. The
//!    paper has the sender's hypervisor do it, but the receiver's sees the marks: the receiver's tells it by ECN-Echo
//!    on exactly the ACKs of marked segments, the sender's hides that from its TCP.
//! 8. *Guests without ECN*, the case of legacy TCP: the sender's hypervisor makes their data ECN-capable, the
//!    receiver's takes the mark off. Guests that negotiate ECN themselves keep their own marks and echoes, and react to
//!    them as well; Rule 1 then counts what the guest echoes.
//! 9. *Knowing each other.* The acceptor knows that the opener runs HWatch by its probes. It answers with ECN-Echo on
//!    the SYN-ACK, which no TCP does after a SYN without ECN (RFC 3168 §6.1.1), and which the opener's HWatch takes off
//!    again. Only then is data made ECN-capable: marks that nobody reads would be a licence to flood.
//! 10. *End of state.* RST ends it. After FIN it stays until a new SYN, since the last data is still under way. A SYN
//!     with another sequence number ends it too: the FIN was not seen.
//! 11. Windows are never taken back, scaled by what the handshake said, and left alone if it was not seen: see
//!     [`Advertised`].
//! 12. *Fast Open* (RFC 7413): a server may send as soon as it has sent its SYN-ACK. What it sends while that is held waits behind it:
//!     a TCP that has seen no SYN-ACK drops data, and the server has no round-trip time yet, so that its timer takes a second.
//! 13. "RTO of 4ms" (§VI-A) is taken for the guests' RTOmin, not for a timer of HWatch.

mod bucket;
pub mod law;
mod start;
mod throttle;

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::error::ConfigError;
use crate::policy::{Action, FlowId, PacketId, Policy, Verdict};
use crate::rwnd::Advertised;
use crate::segment::{Edit, Flags, Segment};
use crate::seq::SeqNumber;
use crate::units::{Rate, Span, Time};
use bucket::Bucket;
use start::Start;
use throttle::Throttle;

/// Segment size until the handshake has told it.
const USUAL_MSS: u32 = 1460;

/// HWatch's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Probes before a SYN: the guests' initial window in segments, each probe standing for one (§IV-C: 10).
    pub probes: u32,
    /// Time over which they are sent (§IV-C: RTT/2).
    pub probe_span: Span,
    /// C, the rate of the host's interface.
    pub rate: Rate,
    /// T, the time after which the next batch may follow (§IV-B: RTT/2).
    pub drain: Span,
    /// Time over which the SYN-ACKs of connections are spread whose probes were all marked (§IV-B, Lemma IV.3: two
    /// RTTs).
    pub spread: Span,
    /// No SYN-ACK is held longer.
    pub max_hold: Span,
    /// Least window in segments.
    pub min_window: u32,
    /// Whether marks halve a long flow's window (Rule 1 read as TCP's), instead of by the batch law.
    pub halve: bool,
    /// Most packets held at once; beyond, they pass, unprobed and unpaced.
    pub max_held: u32,
    /// Where random spacing and the coin come from.
    pub seed: u64,
}

impl Config {
    /// The paper's settings for a host with an interface of this rate and paths of this RTT.
    #[must_use]
    pub const fn new(rate: Rate, rtt: Span) -> Self {
        Self {
            probes: 10,
            probe_span: Span(rtt.0 / 2),
            rate,
            drain: Span(rtt.0 / 2),
            spread: Span(rtt.0 * 2),
            max_hold: Span::millis(100),
            min_window: 1,
            halve: false,
            max_held: 16_384,
            seed: 1,
        }
    }

    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first value that does not, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok, what| if ok { Ok(()) } else { Err(ConfigError(what)) };
        check((1..=100).contains(&self.probes), "the number of probes must be 1 to 100")?;
        check(self.probe_span.0 >= u64::from(self.probes), "the probes need at least one nanosecond each")?;
        check(self.probe_span <= Span::millis(100), "the probes must not delay the SYN for more than 100ms")?;
        check(self.rate.0 >= 1_000_000, "the interface's rate must be at least 1 Mbit/s")?;
        check(self.drain <= Span::secs(1), "the bucket's drain time must be at most 1s")?;
        check(self.spread <= Span::secs(1), "SYN-ACKs must not be spread over more than 1s")?;
        check(self.max_hold <= Span::millis(500), "a SYN-ACK must not be held for more than 500ms")?;
        check((1..=100).contains(&self.min_window), "the least window must be 1 to 100 segments")?;
        check(self.max_held > 0, "at least one packet must be holdable")
    }
}

/// How fast the token bucket fills: a batch of flows sends no more than K = C RTT / 7 (Theorem IV.1), and the next follows
/// T = RTT/2 later, so that a bucket that holds K is full again after T.
const fn batch_rate(interface: Rate) -> Rate {
    Rate(interface.0 / 7 * 2)
}

/// Counters for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Probes sent.
    pub probes_sent: u64,
    /// Probes that arrived without a mark.
    pub probes_unmarked: u64,
    /// Probes that arrived marked.
    pub probes_marked: u64,
    /// SYN-ACKs that waited for tokens.
    pub paced: u64,
    /// Most packets held at once.
    pub held_max: u64,
}

/// What is known of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Sequence number of the SYN that opened it.
    syn: Option<SeqNumber>,
    /// The SYN asked for ECN: the guests see to it themselves.
    guests_use_ecn: bool,
    /// The other end runs HWatch.
    peer: bool,
    /// FIN was seen: the next SYN is a new connection's.
    closing: bool,
    /// The smaller of both sides' MSS options, and what of it is payload.
    mss_option: u32,
    mss: u32,
    /// Windows that this host's TCP advertises, and those that it is shown.
    ours: Advertised,
    theirs: Advertised,
    /// Probes counted since the last connection of this index opened.
    unmarked: u32,
    marked: u32,
    /// When our SYN-ACK leaves.
    answered: Time,
    /// Rule 2, for data that arrives.
    start: Start,
    /// A segment with a mark has arrived since the last ACK left.
    mark_pending: bool,
    /// Rule 1, for data that leaves.
    throttle: Throttle,
    acked: SeqNumber,
    sent: SeqNumber,
    /// A window of data ends where this is acknowledged.
    round_end: SeqNumber,
}

impl Flow {
    /// A SYN was seen: begins anew unless it is a retransmission. Says whether it is.
    fn open(&mut self, syn: &Segment) -> bool {
        if self.syn == Some(syn.seq) && !self.closing {
            return true;
        }
        // Probes that were counted before the last connection's start was set belong to that one.
        let (unmarked, marked) = if self.start.is_known() { (0, 0) } else { (self.unmarked, self.marked) };
        *self = Self {
            syn: Some(syn.seq),
            guests_use_ecn: syn.flags.has(Flags::ECE | Flags::CWR),
            mss: USUAL_MSS,
            mss_option: u32::MAX,
            unmarked,
            marked,
            ..Self::default()
        };
        false
    }

    fn learn_mss(&mut self, segment: &Segment) {
        if segment.mss > 0 {
            let options = if segment.timestamps.is_some() { 12 } else { 0 };
            self.mss_option = self.mss_option.min(u32::from(segment.mss));
            self.mss = self.mss_option.saturating_sub(options).max(1);
        }
    }
}

/// What is to happen at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    at: Time,
    /// First come, first served among equal times.
    ticket: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Probe(u32),
    /// A SYN, a SYN-ACK, or what its TCP sent behind that.
    Release(u32, Change),
}

/// How a packet leaves that was held: its new window field if any, and whether it is marked with ECN-Echo and made ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    window: Option<u16>,
    ece: bool,
    ect: bool,
}

impl Change {
    fn edit(self) -> Edit {
        Edit { window: self.window, ece: self.ece.then_some(true), ect: self.ect.then_some(true), ..Edit::NONE }
    }
}

/// HWatch at one host.
#[derive(Debug)]
pub struct HWatch {
    config: Config,
    flows: Vec<Flow>,
    pending: BinaryHeap<Reverse<Pending>>,
    held: usize,
    tickets: u64,
    bucket: Bucket,
    random: u64,
    stats: Stats,
}

impl HWatch {
    /// HWatch with these parameters.
    ///
    /// # Errors
    /// When a parameter makes no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            flows: Vec::new(),
            pending: BinaryHeap::new(),
            held: 0,
            tickets: 0,
            bucket: Bucket::new(batch_rate(config.rate), config.drain),
            random: config.seed,
            stats: Stats::default(),
        })
    }

    /// Counters so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Packets held now.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    fn ensure(&mut self, id: FlowId) -> &mut Flow {
        let index = id.0 as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, Flow::default);
        }
        &mut self.flows[index]
    }

    fn schedule(&mut self, at: Time, what: What) {
        self.tickets += 1;
        self.pending.push(Reverse(Pending { at, ticket: self.tickets, what }));
        if matches!(what, What::Release(..)) {
            self.held += 1;
            self.stats.held_max = self.stats.held_max.max(self.held as u64);
        }
    }

    /// SplitMix64: enough for spacing and coins, and the same everywhere.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A guest opens a connection: probes first, then its SYN.
    fn probe(&mut self, now: Time, id: FlowId, packet: PacketId) {
        let end = now + self.config.probe_span;
        let mut at = now;
        for left in (1..=u64::from(self.config.probes)).rev() {
            let spare = end.since(at).0.saturating_sub(left);
            let gap = 1 + self.draw() % (2 * spare / (left + 1) + 1).min(spare + 1);
            at += Span(gap);
            self.schedule(at, What::Probe(id.0));
        }
        self.schedule(end, What::Release(packet.0, Change::default()));
    }

    /// A guest accepts a connection: its SYN-ACK carries what the probes say, when its turn has come.
    fn answer(&mut self, now: Time, id: FlowId, segment: &Segment, packet: PacketId) -> Verdict {
        let draw = self.draw();
        let coin = draw & 1 == 1;
        let (probes, min_window) = (self.config.probes, self.config.min_window);
        let flow = self.ensure(id);
        let arrived = flow.unmarked + flow.marked;
        flow.peer = arrived > 0 && flow.syn.is_some();
        if !flow.peer {
            flow.ours.clamp(segment, None);
            return Verdict::PASS;
        }
        let again = flow.start.is_known();
        let marked = flow.marked + probes.saturating_sub(arrived);
        if !again {
            let (first, second) = law::bursts(flow.unmarked, marked, coin);
            flow.start = if marked == 0 {
                Start::unlimited(probes * flow.mss)
            } else {
                Start::limited(segment.ack, first.max(min_window) * flow.mss, second * flow.mss)
            };
        }
        let (limit, cost) = (flow.start.limit(segment.ack, flow.mss), flow.start.first());
        let window = flow.ours.clamp(segment, limit);
        let (change, unmarked) = (Change { window, ece: !flow.guests_use_ecn, ect: false }, flow.unmarked);
        let at = if again {
            now
        } else {
            let batches = self.config.spread.0 * u64::from(marked) / u64::from(marked + unmarked).max(1);
            let spread = Span(draw % batches.saturating_add(1));
            self.bucket.take(now, cost).max(now + spread).min(now + self.config.max_hold)
        };
        if at > now && self.held < self.config.max_held as usize {
            self.stats.paced += 1;
            self.ensure(id).answered = at;
            self.schedule(at, What::Release(packet.0, change));
            return Verdict::Hold;
        }
        Verdict::Pass(change.edit())
    }
}

impl Policy for HWatch {
    fn handle_ingress(&mut self, _: Time, id: FlowId, segment: &Segment) -> Edit {
        let Config { probes, min_window, halve, .. } = self.config;
        let flow = self.ensure(id);
        let mut edit = Edit::NONE;
        if segment.flags.has(Flags::RST) {
            *flow = Flow::default();
            return edit;
        }
        if segment.flags.has(Flags::SYN) {
            if !segment.flags.has(Flags::ACK) {
                flow.open(segment);
                flow.marked += u32::from(segment.ce);
            } else if segment.flags.has(Flags::ECE) && flow.syn.is_some() && !flow.guests_use_ecn {
                flow.peer = true;
                edit.ece = Some(false);
            }
            flow.learn_mss(segment);
            let initial = probes * flow.mss;
            let limit = flow.peer.then(|| flow.throttle.limit(0, 0, initial));
            edit.window = flow.theirs.clamp(segment, limit);
            flow.ours.handle_peer_syn(segment);
            flow.acked = segment.ack;
            return edit;
        }
        flow.closing |= segment.flags.has(Flags::FIN);
        if !flow.peer {
            flow.theirs.clamp(segment, None);
            return edit;
        }
        let unaware = !flow.guests_use_ecn;
        if segment.payload > 0 && unaware {
            if segment.ce {
                flow.mark_pending = true;
            }
            edit.ect = Some(false);
        }
        if segment.flags.has(Flags::ACK) {
            let echo = segment.flags.has(Flags::ECE);
            if echo && unaware {
                edit.ece = Some(false);
            }
            let advance = segment.ack.ahead_of(flow.acked);
            flow.acked = flow.acked.max(segment.ack);
            let flight = flow.sent.ahead_of(flow.acked);
            flow.throttle.handle_ack(advance, echo && advance > 0, flight);
            if advance > 0 && !flow.acked.before(flow.round_end) {
                let offered = u32::from(segment.window) << flow.theirs.shift().unwrap_or(0);
                flow.throttle.handle_round(flow.mss, min_window, offered, halve);
                flow.round_end = flow.sent;
            }
            let limit = flow.throttle.limit(flight, advance, probes * flow.mss);
            edit.window = flow.theirs.clamp(segment, Some(limit));
        }
        edit
    }

    fn handle_egress(&mut self, now: Time, id: FlowId, segment: &Segment, packet: PacketId) -> Verdict {
        let room = self.held < self.config.max_held as usize;
        let flow = self.ensure(id);
        if segment.flags.has(Flags::RST) {
            *flow = Flow::default();
            return Verdict::PASS;
        }
        if segment.flags.has(Flags::SYN) {
            let again = !segment.flags.has(Flags::ACK) && flow.open(segment);
            flow.acked = segment.seq;
            flow.sent = segment.end();
            flow.round_end = flow.sent;
            flow.learn_mss(segment);
            flow.theirs.handle_peer_syn(segment);
            if segment.flags.has(Flags::ACK) {
                return self.answer(now, id, segment, packet);
            }
            flow.ours.clamp(segment, None);
            if again || !room {
                return Verdict::PASS;
            }
            self.probe(now, id, packet);
            return Verdict::Hold;
        }
        flow.closing |= segment.flags.has(Flags::FIN);
        flow.sent = flow.sent.max(segment.end());
        if !flow.peer {
            flow.ours.clamp(segment, None);
            return Verdict::PASS;
        }
        let unaware = !flow.guests_use_ecn;
        let change = Change {
            window: flow.ours.clamp(segment, flow.start.limit(segment.ack, flow.mss)),
            ece: unaware && segment.flags.has(Flags::ACK) && core::mem::take(&mut flow.mark_pending),
            ect: unaware && segment.payload > 0,
        };
        let answered = flow.answered;
        if now < answered && room {
            self.schedule(answered, What::Release(packet.0, change));
            return Verdict::Hold;
        }
        Verdict::Pass(change.edit())
    }

    fn handle_probe(&mut self, _: Time, id: FlowId, ce: bool) {
        let flow = self.ensure(id);
        if flow.start.is_known() {
            // Probes of the next connection with this index.
            *flow = Flow::default();
        }
        if ce {
            flow.marked += 1;
            self.stats.probes_marked += 1;
        } else {
            flow.unmarked += 1;
            self.stats.probes_unmarked += 1;
        }
    }

    fn handle_forgotten(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(id.0 as usize) {
            *flow = Flow::default();
        }
    }

    fn probes(&self) -> bool {
        true
    }

    fn poll_action(&mut self, now: Time) -> Option<Action> {
        if self.pending.peek()?.0.at > now {
            return None;
        }
        let Reverse(pending) = self.pending.pop()?;
        Some(match pending.what {
            What::Probe(flow) => {
                self.stats.probes_sent += 1;
                Action::Probe(FlowId(flow))
            }
            What::Release(packet, change) => {
                self.held -= 1;
                Action::Release(PacketId(packet), change.edit())
            }
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.pending.peek().map(|next| next.0.at)
    }
}

#[cfg(test)]
mod tests;
