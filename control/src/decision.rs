//! The decision core: what every segment does to the ledger, and whether an outgoing one may leave. It is written once, in
//! `control/core/*.h`, compiled here for this process and in `linux` for the kernel's packet path; Rust calls it.
//!
//! | file | what it decides |
//! |---|---|
//! | `core/ingress.h`, `core/egress.h` | what a segment means (Algorithm 1) |
//! | `core/round_trip.h` | how long a flow's path is, by what its round trips took |
//! | `core/ledger.h` | what is owed and what may be in flight (PAC §III-C, Eq. 4, 5) |
//! | `core/path.h`, `core/pace.h` | what the link carries and a path holds; what over a long one must not come at once |
//! | `core/price.h` | what a release triggers; asks one of the next two |
//! | `core/pac.h` | by PAC's estimate (Eq. 3) |
//! | `core/credit.h` | by exact credit |
//! | `core/edge.h`, `core/window.h` | the advertised right edge; the model of the sender's congestion window |
//! | `core/response.h`, `core/message.h`, `core/silence.h` | evidence about responses, and about what nobody asks for; when a debt expires |
//! | `core/interval.h` | Eq. 2, Eq. 6 and the phase, once per interval |
//! | `core/timer.h` | how long anything may be held |

#![expect(unsafe_code, reason = "calls into the decision core, which is C because the kernel's packet path is")]

pub use raw::{Flow, Gate, Settings, flag};

use crate::cell::{U32, U64};
use crate::gate::config::Config;
use crate::segment::{Edit, Position, Segment};
use crate::seq::SeqNumber;
use crate::units::{Span, Time};

/// The types of `core/types.h`.
#[expect(clippy::doc_markdown, reason = "the header's comments are plain text")]
pub mod raw {
    use super::{U32, U64};
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

unsafe extern "C" {
    safe fn ackgate_close(settings: &Settings, gate: &Gate, flow: &Flow);
    safe fn ackgate_is_over(flow: &Flow) -> bool;
    safe fn ackgate_tell_handshake(settings: &Settings, gate: &Gate, flow: &Flow, scale: u32, rtt: u32) -> bool;
    safe fn ackgate_untell_scale(settings: &Settings, gate: &Gate, flow: &Flow, scale: u32);
    safe fn ackgate_ingress(settings: &Settings, gate: &Gate, flow: &Flow, segment: &raw::Segment, now: u64) -> bool;
    safe fn ackgate_note_other(settings: &Settings, gate: &Gate, bytes: u64, frames: u32);
    safe fn ackgate_egress(
        settings: &Settings,
        gate: &Gate,
        flow: &Flow,
        segment: &raw::Segment,
        now: u64,
        out: &mut raw::Outgoing,
    ) -> u32;
    safe fn ackgate_pass_after_all(settings: &Settings, gate: &Gate, flow: &Flow, out: &mut raw::Outgoing, now: u64);
    safe fn ackgate_trigger(
        settings: &Settings,
        gate: &Gate,
        flow: &Flow,
        out: &raw::Outgoing,
        trigger: &mut raw::Trigger,
    );
    safe fn ackgate_without_grant(
        settings: &Settings,
        gate: &Gate,
        flow: &Flow,
        out: &raw::Outgoing,
        trigger: &mut raw::Trigger,
    );
    safe fn ackgate_charge(
        settings: &Settings,
        gate: &Gate,
        flow: &Flow,
        out: &raw::Outgoing,
        trigger: &raw::Trigger,
        now: u64,
    );
    safe fn ackgate_window(settings: &Settings, gate: &Gate, flow: &Flow, out: &raw::Outgoing) -> u16;
    safe fn ackgate_told_less(settings: &Settings, gate: &Gate, flow: &Flow, out: &mut raw::Outgoing) -> bool;
    safe fn ackgate_leave_to_tcp(settings: &Settings, gate: &Gate, flow: &Flow, out: &raw::Outgoing);
    safe fn ackgate_void(settings: &Settings, gate: &Gate, flow: &Flow);
    safe fn ackgate_note_overtaken(settings: &Settings, gate: &Gate, flow: &Flow);
    safe fn ackgate_void_if_silent(settings: &Settings, gate: &Gate, flow: &Flow, now: u64) -> bool;
    safe fn ackgate_longest_request_hold(settings: &Settings, gate: &Gate) -> u64;
    safe fn ackgate_longest_ack_hold(settings: &Settings, gate: &Gate) -> u64;
    safe fn ackgate_note_peer_waited(settings: &Settings, gate: &Gate, wait: u64);
    safe fn ackgate_note_host_waited(settings: &Settings, gate: &Gate, wait: u64);
    safe fn ackgate_silent_at(settings: &Settings, gate: &Gate, flow: &Flow) -> u64;
    safe fn ackgate_roll(settings: &Settings, gate: &Gate, now: u64);
    safe fn ackgate_drain(settings: &Settings, gate: &Gate) -> u64;
    safe fn ackgate_syns_are_arriving(settings: &Settings, gate: &Gate, now: u64) -> bool;
    safe fn ackgate_settled_at(settings: &Settings, gate: &Gate) -> u64;
    safe fn ackgate_governs(settings: &Settings, gate: &Gate, flow: &Flow) -> bool;
    safe fn ackgate_at_edge(settings: &Settings, gate: &Gate, flow: &Flow) -> bool;
    safe fn ackgate_link_rate(settings: &Settings, gate: &Gate) -> u64;
    safe fn ackgate_in_flight(settings: &Settings, gate: &Gate) -> u64;
    safe fn ackgate_admits(settings: &Settings, gate: &Gate, trigger: u64, holds: u64, beside: u64) -> bool;
    safe fn ackgate_room_needed(settings: &Settings, gate: &Gate, trigger: u64, holds: u64, beside: u64) -> u64;
    safe fn ackgate_keeps_pace(
        settings: &Settings,
        gate: &Gate,
        flow: &Flow,
        out: &raw::Outgoing,
        trigger: &raw::Trigger,
        now: u64,
    ) -> bool;
    safe fn ackgate_keeps_pace_at(
        settings: &Settings,
        gate: &Gate,
        flow: &Flow,
        out: &raw::Outgoing,
        trigger: &raw::Trigger,
        now: u64,
    ) -> u64;
    safe fn ackgate_path(settings: &Settings, gate: &Gate, flow: &Flow, class: u32, holds: &mut u64, beside: &mut u64);
    #[cfg(test)]
    safe fn ackgate_pipe(settings: &Settings, gate: &Gate, holds: u64) -> u64;
    safe fn ackgate_pipe_of(settings: &Settings, gate: &Gate, flow: &Flow) -> u64;
}

/// `NO_WSCALE` of the header.
const NO_WSCALE: u8 = 0xff;

/// Parameters, and the same as the core takes them.
#[derive(Clone, Debug)]
pub struct Rules {
    config: Config,
    settings: Settings,
}

impl core::ops::Deref for Rules {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

impl From<Config> for Rules {
    fn from(config: Config) -> Self {
        Self { settings: config.settings(), config }
    }
}

/// What an outgoing segment is to the gate (`enum class`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Class {
    /// Acknowledges new data (or updates the window): triggers what Eq. 3 says.
    Ack = raw::class::ACK,
    /// A SYN-ACK or the handshake's last ACK: triggers the sender's initial window.
    Handshake = raw::class::HANDSHAKE,
    /// Asks an idle sender for a response: triggers the window that the sender has kept.
    Request = raw::class::REQUEST,
    /// Loss recovery or flow control must not wait: duplicate ACKs, SACK, partial ACKs, the end of a zero window.
    Urgent = raw::class::URGENT,
    /// A duplicate ACK caused by a retransmission that overtook a held ACK (PAC §III-D).
    Stale = raw::class::STALE,
    /// Other data of ours, with whatever it acknowledges. Not held for its own sake.
    Data = raw::class::DATA,
    /// Triggers nothing and is never held.
    None = raw::class::NONE,
}

impl Class {
    /// The class that the core or the packet path wrote down; `None` for a number that is no class.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            raw::class::ACK => Self::Ack,
            raw::class::HANDSHAKE => Self::Handshake,
            raw::class::REQUEST => Self::Request,
            raw::class::URGENT => Self::Urgent,
            raw::class::STALE => Self::Stale,
            raw::class::DATA => Self::Data,
            raw::class::NONE => Self::None,
            _ => return None,
        })
    }
}

/// What is remembered of an outgoing segment while it is held (`struct outgoing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What it is to the gate.
    pub class: Class,
    /// Its acknowledgement number.
    pub ack: SeqNumber,
    /// It carries ECN-Echo: the sender will not grow its window (PAC §III-C).
    pub ece: bool,
    /// It carries payload, and so must never be discarded.
    pub data: bool,
    /// It repeats the acknowledgement number before it.
    pub repeated: bool,
    /// It reports what no later ACK repeats: a duplicate (RFC 2883), or that marks have ended (RFC 8257 §3.2).
    pub dsack: bool,
    /// It has left already, without a grant: this is its bare copy.
    pub copy: bool,
    /// Its window field as TCP wrote it.
    pub window: u16,
    /// Binary logarithm of the window field's unit: the window scale, 0 on a SYN-ACK (RFC 7323 §2.2).
    pub shift: u8,
}

impl Outgoing {
    /// What it says if it leaves now: a copy speaks for the flow as it stands.
    #[must_use]
    pub(crate) fn now(self, flow: &Flow) -> Self {
        if !self.copy {
            return self;
        }
        Self { ack: SeqNumber(flow.released_ack.get()), window: flow.last_window.get() as u16, ..self }
    }

    /// Whether a later acknowledgement, with or without ECN-Echo, says all that this one says. None repeats a D-SACK (RFC 2883),
    /// and where ECN-Echo changes the receiver tells which bytes were marked (RFC 8257 §3.2).
    #[must_use]
    pub(crate) fn is_repeated_by(&self, echoes: bool) -> bool {
        self.class == Class::Ack && !self.data && (self.copy || (!self.dsack && self.ece == echoes))
    }

    /// The bare copy of a packet that leaves now: an acknowledgement and nothing else.
    #[must_use]
    pub(crate) const fn bare_copy(self) -> Self {
        Self { class: Class::Ack, ece: false, dsack: false, data: false, copy: true, ..self }
    }

    const fn to_raw(self) -> raw::Outgoing {
        raw::Outgoing {
            class: self.class as u32,
            ack: self.ack.0,
            window: self.window,
            shift: self.shift,
            ece: self.ece,
            data: self.data,
            repeated: self.repeated,
            dsack: self.dsack,
            copy: self.copy,
            first: false,
            stamped: false,
        }
    }

    fn from_raw(raw: &raw::Outgoing) -> Self {
        Self {
            class: Class::from_number(raw.class).unwrap_or(Class::None),
            ack: SeqNumber(raw.ack),
            ece: raw.ece,
            data: raw.data,
            repeated: raw.repeated,
            dsack: raw.dsack,
            copy: raw.copy,
            window: raw.window,
            shift: raw.shift,
        }
    }
}

/// May it leave now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, with this change; it has been charged.
    Pass(Edit),
    /// No: the scheduler decides.
    Hold(Outgoing),
    /// Yes, with this change but without a grant; a bare copy waits for that.
    Split(Edit, Outgoing),
    /// It need not leave at all: the next ACK says what it says.
    Discard,
}

/// What an outgoing segment triggers (`struct trigger`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger(raw::Trigger);

impl Trigger {
    /// Wire bytes.
    #[must_use]
    pub const fn wire(&self) -> u64 {
        self.0.wire
    }

    /// The right edge that goes with it, where windows are granted or bounded.
    #[must_use]
    pub fn edge(&self) -> Option<SeqNumber> {
        self.0.moves_edge.then_some(SeqNumber(self.0.edge))
    }
}

fn segment_to_raw(segment: &Segment) -> raw::Segment {
    let (tsval, tsecr) = segment.timestamps.unwrap_or_default();
    raw::Segment {
        seq: segment.seq.0,
        ack: segment.ack.0,
        payload: segment.payload,
        tsval,
        tsecr,
        window: segment.window,
        frames: segment.frames,
        header: segment.header,
        mss: segment.mss,
        flags: segment.flags.0,
        wscale: segment.wscale.map_or(NO_WSCALE, |shift| shift.min(14)),
        ce: segment.ce,
        sack: segment.sack,
        dsack: segment.dsack,
        timestamps: segment.timestamps.is_some(),
        multipath: segment.multipath,
        tcp: 0,
    }
}

/// Ends a connection's claims: called before the entry is given to another.
pub fn close(rules: &Rules, gate: &Gate, flow: &Flow) {
    ackgate_close(&rules.settings, gate, flow);
}

/// Whether both ends have finished and each has acknowledged all that the other sent (RFC 9293 section 3.6): nothing follows but repeats. A
/// reset ends both at once.
#[must_use]
pub fn is_over(flow: &Flow) -> bool {
    ackgate_is_over(flow)
}

/// Tells of a connection whose handshake was not seen what that would have shown: our window scale (RFC 7323 section 2), and the least RTT
/// if it is known. Our next segment takes the scale up: the connection is governed from then on. Says whether it was still unknown.
pub fn tell_handshake(rules: &Rules, gate: &Gate, flow: &Flow, scale: u8, rtt: Option<Span>) -> bool {
    let rtt = rtt.map_or(0, |rtt| u32::try_from(rtt.0).unwrap_or(u32::MAX));
    ackgate_tell_handshake(&rules.settings, gate, flow, scale.into(), rtt)
}

/// Takes the scale back, unless a segment has taken it up meanwhile.
pub fn untell_scale(rules: &Rules, gate: &Gate, flow: &Flow, scale: u8) {
    ackgate_untell_scale(&rules.settings, gate, flow, scale.into());
}

/// A segment arrived from the network (Algorithm 1, lines 5-7). Says whether the scheduler's wish for budget has come true.
pub fn ingress(rules: &Rules, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) -> bool {
    ackgate_ingress(&rules.settings, gate, flow, &segment_to_raw(segment), now.0)
}

/// So many frames of so many bytes together arrived that are no TCP, or nobody's here.
pub fn note_other(rules: &Rules, gate: &Gate, bytes: u64, frames: u32) {
    ackgate_note_other(&rules.settings, gate, bytes, frames);
}

/// Our TCP sent a segment: decides whether it may leave (Algorithm 1, line 11) and charges it if so.
pub fn egress(rules: &Rules, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) -> Decision {
    let mut raw = raw::Outgoing::default();
    let decision = ackgate_egress(&rules.settings, gate, flow, &segment_to_raw(segment), now.0, &mut raw);
    let out = Outgoing::from_raw(&raw);
    let edited = || counted_edit(rules, gate, flow, &Outgoing { copy: false, ..out });
    match decision {
        raw::decision::HOLD => Decision::Hold(out),
        raw::decision::SPLIT => Decision::Split(edited(), out),
        raw::decision::DISCARD => Decision::Discard,
        _ => Decision::Pass(edited()),
    }
}

/// What was to be held, or its copy, could not be and leaves after all: charges it like any other release.
pub fn pass_after_all(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing, now: Time) -> Edit {
    let mut raw = out.to_raw();
    ackgate_pass_after_all(&rules.settings, gate, flow, &mut raw, now.0);
    counted_edit(rules, gate, flow, &Outgoing::from_raw(&raw))
}

/// What releasing `out` will make the sender send, with what is granted to it.
#[must_use]
pub fn trigger(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing) -> Trigger {
    let mut trigger = raw::Trigger::default();
    ackgate_trigger(&rules.settings, gate, flow, &out.to_raw(), &mut trigger);
    Trigger(trigger)
}

/// What releasing a request sets in motion when it grants nothing (exact credit).
#[must_use]
pub fn without_grant(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing) -> Trigger {
    let mut trigger = raw::Trigger::default();
    ackgate_without_grant(&rules.settings, gate, flow, &out.to_raw(), &mut trigger);
    Trigger(trigger)
}

/// Charges a segment that leaves now (Algorithm 1, line 14; Eq. 4). Forced releases are charged like any other.
pub fn charge(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing, trigger: &Trigger, now: Time) {
    ackgate_charge(&rules.settings, gate, flow, &out.to_raw(), &trigger.0, now.0);
}

/// What the header must say when `out` leaves, after it has been charged.
#[must_use]
pub fn edit(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing) -> Edit {
    let field = ackgate_window(&rules.settings, gate, flow, &out.to_raw());
    if out.copy {
        // Nobody looks at the window beside an older number or timestamp (RFC 9293 §3.10.7.4, RFC 7323 §5.3), and later segments
        // may have passed.
        return Edit { window: Some(field), position: Some(position(flow, out.ack)), ..Edit::NONE };
    }
    Edit { window: (field != out.window).then_some(field), ..Edit::NONE }
}

/// What the header of a segment that passes must say, counted if its window is lowered.
fn counted_edit(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing) -> Edit {
    let edit = edit(rules, gate, flow, out);
    gate.rewritten.add(u64::from(edit.window.is_some()));
    edit
}

/// Where a bare copy stands that acknowledges `ack` now.
fn position(flow: &Flow, ack: SeqNumber) -> Position {
    Position { seq: SeqNumber(flow.sent.get()), ack, timestamps: (flow.tsval.get(), flow.tsecr.get()) }
}

/// What our TCP said last on a connection, for whoever says it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(raw::Outgoing);

impl Word {
    /// Its window field, unscaled.
    #[must_use]
    pub const fn window(&self) -> u16 {
        self.0.window
    }

    /// Where TCP stands.
    #[must_use]
    pub fn position(&self, flow: &Flow) -> Position {
        position(flow, SeqNumber(self.0.ack))
    }
}

/// What our TCP said last, if the peer was told less than that, or nothing yet: its window was lowered, or the segment is held.
#[must_use]
pub fn told_less(rules: &Rules, gate: &Gate, flow: &Flow) -> Option<Word> {
    let mut raw = raw::Outgoing::default();
    ackgate_told_less(&rules.settings, gate, flow, &mut raw).then_some(Word(raw))
}

/// Nobody grants anything: the peer is told TCP's own word, and the flow owes nothing.
pub fn leave_to_tcp(rules: &Rules, gate: &Gate, flow: &Flow, word: &Word) {
    ackgate_leave_to_tcp(&rules.settings, gate, flow, &word.0);
}

/// Returns a flow's debt to the budget.
pub fn void(rules: &Rules, gate: &Gate, flow: &Flow) {
    ackgate_void(&rules.settings, gate, flow);
}

/// What was held of the flow has been overtaken by its sender's timer (PAC §III-D).
pub fn note_overtaken(rules: &Rules, gate: &Gate, flow: &Flow) {
    ackgate_note_overtaken(&rules.settings, gate, flow);
}

/// Expires what a silent flow owes; says whether it did.
pub fn void_if_silent(rules: &Rules, gate: &Gate, flow: &Flow, now: Time) -> bool {
    ackgate_void_if_silent(&rules.settings, gate, flow, now.0)
}

/// When the flow will have been silent for long enough, if it stays silent.
#[must_use]
pub fn silent_at(rules: &Rules, gate: &Gate, flow: &Flow) -> Time {
    Time(ackgate_silent_at(&rules.settings, gate, flow))
}

/// The longest hold of a request or a handshake: the operator's, and no longer than our own TCP's timer as far as it is known.
#[must_use]
pub fn longest_request_hold(rules: &Rules, gate: &Gate) -> Span {
    Span(ackgate_longest_request_hold(&rules.settings, gate))
}

/// The longest hold of an ACK: the operator's, and no longer than the senders' timers as far as they are known.
#[must_use]
pub fn longest_ack_hold(rules: &Rules, gate: &Gate) -> Span {
    Span(ackgate_longest_ack_hold(&rules.settings, gate))
}

/// Notes that an ACK was held for `wait` and no timer of its sender has fired.
pub fn note_peer_waited(rules: &Rules, gate: &Gate, wait: Span) {
    ackgate_note_peer_waited(&rules.settings, gate, wait.0);
}

/// Notes that a request was held for `wait` and our own TCP has not repeated it.
pub fn note_host_waited(rules: &Rules, gate: &Gate, wait: Span) {
    ackgate_note_host_waited(&rules.settings, gate, wait.0);
}

/// Ends the control interval if it is over. Called on every arrival and, while ACKs are held, by the scheduler: when nothing
/// arrives any more, that is when Eq. 6 is needed most.
pub fn roll(rules: &Rules, gate: &Gate, now: Time) {
    ackgate_roll(&rules.settings, gate, now.0);
}

/// The time in ns that a full threshold takes to arrive; 0 when the link's rate is not known.
#[must_use]
pub fn drain(rules: &Rules, gate: &Gate) -> u64 {
    ackgate_drain(&rules.settings, gate)
}

/// Whether a burst of SYNs is arriving: as many may still stand in the switch's buffer, and are nobody's debt (PAC §V-E3 does
/// not count them). What SYN-ACKs invite has no room beside them.
#[must_use]
pub fn syns_are_arriving(rules: &Rules, gate: &Gate, now: Time) -> bool {
    ackgate_syns_are_arriving(&rules.settings, gate, now.0)
}

/// When the burst of SYNs will be over, if none arrives any more.
#[must_use]
pub fn settled_at(rules: &Rules, gate: &Gate) -> Time {
    Time(ackgate_settled_at(&rules.settings, gate))
}

/// Whether the flow is under exact credit.
#[must_use]
pub fn governs(rules: &Rules, gate: &Gate, flow: &Flow) -> bool {
    ackgate_governs(&rules.settings, gate, flow)
}

/// Whether the sender has used its credit up: it has stopped because it must.
#[must_use]
pub fn at_edge(rules: &Rules, gate: &Gate, flow: &Flow) -> bool {
    ackgate_at_edge(&rules.settings, gate, flow)
}

/// What the link is reckoned with, in bytes per second: as given, or less where it has shown to carry less; 0 when it is not known.
#[must_use]
pub fn link_rate(rules: &Rules, gate: &Gate) -> u64 {
    (ackgate_link_rate(&rules.settings, gate) * 1_000_000_000) >> 20
}

/// Bytes that released ACKs have triggered and that have not arrived (PAC §III-C).
#[must_use]
pub fn in_flight(rules: &Rules, gate: &Gate) -> u64 {
    ackgate_in_flight(&rules.settings, gate)
}

/// What a packet sets in motion takes this path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// What it holds, wire bytes, as debts are booked: 0 where all in flight counts alike.
    pub holds: u64,
    /// What may be on its way beside the budget, wire bytes: what a long path holds, or what the link carries while servers think.
    pub beside: u64,
}

impl Path {
    /// The flow's, for a segment of that class.
    #[must_use]
    pub fn of(rules: &Rules, gate: &Gate, flow: &Flow, class: Class) -> Self {
        let (mut holds, mut beside) = (0, 0);
        ackgate_path(&rules.settings, gate, flow, class as u32, &mut holds, &mut beside);
        Self { holds, beside }
    }

    /// The one over which budget is wanted.
    #[must_use]
    pub fn wanted(gate: &Gate) -> Self {
        Self { holds: gate.wanted_path.get(), beside: gate.wanted_beside.get() }
    }

    /// One that holds so much.
    #[cfg(test)]
    pub fn that_holds(rules: &Rules, gate: &Gate, holds: u64) -> Self {
        Self { holds, beside: ackgate_pipe(&rules.settings, gate, holds) }
    }
}

/// Whether `trigger` more bytes may be put on the path: Algorithm 1, line 11.
#[must_use]
pub fn admits(rules: &Rules, gate: &Gate, trigger: u64, path: Path) -> bool {
    ackgate_admits(&rules.settings, gate, trigger, path.holds, path.beside)
}

/// What the flow's path holds, if that is much: wire bytes, else 0.
#[must_use]
pub fn pipe_of(rules: &Rules, gate: &Gate, flow: &Flow) -> u64 {
    ackgate_pipe_of(&rules.settings, gate, flow)
}

/// The room that `wire` more bytes need over the path.
#[must_use]
pub fn room_needed(rules: &Rules, gate: &Gate, wire: u64, path: Path) -> u64 {
    ackgate_room_needed(&rules.settings, gate, wire, path.holds, path.beside)
}

/// Whether what sets so much in motion keeps the pace of long paths.
#[must_use]
pub fn keeps_pace(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing, trigger: &Trigger, now: Time) -> bool {
    ackgate_keeps_pace(&rules.settings, gate, flow, &out.to_raw(), &trigger.0, now.0)
}

/// When what does not keep the pace will.
#[must_use]
pub fn keeps_pace_at(rules: &Rules, gate: &Gate, flow: &Flow, out: &Outgoing, trigger: &Trigger, now: Time) -> Time {
    Time(ackgate_keeps_pace_at(&rules.settings, gate, flow, &out.to_raw(), &trigger.0, now.0))
}
