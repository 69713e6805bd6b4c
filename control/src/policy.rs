//! The one way through: how a host (simulated or real) drives a policy.
//!
//! A policy is a sans-IO state machine. The host tells it what happened (`handle_*`), asks what may happen next
//! (`poll_action`, until `None`) and when to ask again (`poll_timeout`). After every `handle_*` call and whenever the
//! timeout has passed, the host calls `poll_action` until it returns `None`.
//!
//! "Ingress" and "egress" are seen from the guarded host: ingress comes from the network. Flows are dense indices that
//! the host hands out ([`FlowId`]); a flow table does it where addresses are all there is.

use crate::segment::{Edit, Segment};
use crate::seq::SeqNumber;
use crate::units::Time;

/// A connection: an index into dense per-flow state, reused after the flow has ended. Both directions share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A held packet. The host keeps the bytes; a policy only hands the handle back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketId(pub u32);

/// What becomes of a packet now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On its way, with this change.
    Pass(Edit),
    /// The policy keeps the handle; the packet comes back in a later [`Action`].
    Hold,
    /// On its way, with this change; the policy keeps the handle of a copy, a bare ACK as in [`Action::Split`].
    Split(Edit),
    /// Gone: a later packet of TCP's says all that it said.
    Discard,
}

impl Verdict {
    /// On its way, unchanged.
    pub const PASS: Self = Self::Pass(Edit::NONE);
}

/// What the host is to do: mostly with a packet that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it on, with this change.
    Release(PacketId, Edit),
    /// Drop it: another ACK says all that it said.
    Discard(PacketId),
    /// Send a probe along the flow's path: an ECN-capable IP packet of 20 bytes without payload, which the policy at
    /// the other end is told of by [`Policy::handle_probe`].
    Probe(FlowId),
    /// Send it on, with this change, and keep a copy under the same handle, which may be done more than once: a bare ACK that stands where TCP stands after
    /// the packet (no payload, no SYN, FIN or PSH; its sequence number is the packet's end).
    Split(PacketId, Edit),
}

/// A scheme that acts at one end host, between TCP and the network.
pub trait Policy {
    /// A segment arrived from the network. It is never held; what is returned may change its header before TCP sees it.
    fn handle_ingress(&mut self, now: Time, flow: FlowId, segment: &Segment) -> Edit;

    /// TCP sent a segment towards the network.
    fn handle_egress(&mut self, now: Time, flow: FlowId, segment: &Segment, packet: PacketId) -> Verdict;

    /// A probe of the policy at the other end of `flow` arrived; `ce` when a switch marked it. The host consumes it: TCP
    /// never sees a probe.
    fn handle_probe(&mut self, now: Time, flow: FlowId, ce: bool) {
        let _ = (now, flow, ce);
    }

    /// A frame of `bytes` arrived that is no TCP, without preamble, FCS and gap: what shares the link and the port's buffer.
    fn handle_other(&mut self, now: Time, bytes: u32) {
        let _ = (now, bytes);
    }

    /// The host has forgotten the connection, and will use its index for another one.
    fn handle_forgotten(&mut self, flow: FlowId) {
        let _ = flow;
    }

    /// Whether [`handle_ingress`](Self::handle_ingress) ever asks for a change. For a policy that only watches what
    /// arrives, a host need not take it off its way.
    fn edits_ingress(&self) -> bool {
        true
    }

    /// Whether it sends probes and wants to be told of those that arrive.
    fn probes(&self) -> bool {
        false
    }

    /// Whether it has segments repeated ([`poll_repeat`](Self::poll_repeat)): a host then keeps a copy of what leaves until it is
    /// acknowledged. The simulator does not; its TCP has such timers itself.
    fn repeats(&self) -> bool {
        false
    }

    /// The next segment to send once more: of this connection, the one that begins at this sequence number. Asked when
    /// [`poll_action`](Self::poll_action) is.
    fn poll_repeat(&mut self, now: Time) -> Option<(FlowId, SeqNumber)> {
        let _ = now;
        None
    }

    /// The next thing to do with held packets, `None` when nothing may happen before more arrives or time passes.
    fn poll_action(&mut self, now: Time) -> Option<Action>;

    /// When to call [`poll_action`](Self::poll_action) again even if nothing arrives; `None` when time alone changes
    /// nothing.
    fn poll_timeout(&self) -> Option<Time>;
}
