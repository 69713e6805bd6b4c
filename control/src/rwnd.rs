//! The receive window that one side of a connection advertises, and how a scheme may lower it without hurting the
//! connection. Shared by the schemes that rewrite windows.
//!
//! DESIGN NOTES
//! 1. The right edge (acknowledgement number plus window) never moves left: what was granted may be in flight already
//!    (RFC 9293 §3.8.6.2.1, "shrinking the window"). A lower limit takes effect as data arrives.
//! 2. A duplicate ACK repeats the window of the ACK that it duplicates, or it would not count as a duplicate
//!    (RFC 5681 §2).
//! 3. The scale of the window field is only in the handshake (RFC 7323 §2.2): a connection that was seen first in
//!    mid-stream is never rewritten. The window of a SYN or SYN-ACK is not scaled.
//! 4. Rounding by the scale is upwards, so that a limit of one segment never becomes less than one segment: a grant
//!    below that stalls the sender in silly-window avoidance (RFC 9293 §3.8.6.2.1).

use crate::segment::{Flags, Segment};
use crate::seq::SeqNumber;

/// What one side has advertised so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// The advertiser's own SYN or SYN-ACK was seen, with this window scale option.
    offered: Option<Option<u8>>,
    /// The other side's SYN or SYN-ACK was seen, with or without a window scale option.
    accepted: Option<bool>,
    last: Option<Last>,
}

/// The latest advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    ack: SeqNumber,
    /// The furthest right edge.
    edge: SeqNumber,
    /// Window field as the advertiser wrote it.
    own: u16,
    /// Window field as it left.
    field: u16,
}

impl Advertised {
    /// The other side sent a SYN or SYN-ACK; a SYN begins a new connection.
    pub fn handle_peer_syn(&mut self, segment: &Segment) {
        if !segment.flags.has(Flags::ACK) {
            *self = Self::default();
        }
        self.accepted = Some(segment.wscale.is_some());
    }

    /// Shift of the window field in segments after the handshake; `None` until both sides of it were seen.
    #[must_use]
    pub fn shift(&self) -> Option<u8> {
        let (offered, accepted) = (self.offered?, self.accepted?);
        // RFC 7323 §2.3: shifts above 14 count as 14; both sides must have sent the option.
        Some(offered.filter(|_| accepted).map_or(0, |shift| shift.min(14)))
    }

    /// Bytes that the sender may still send beyond what `ack` acknowledges.
    #[must_use]
    pub fn granted_beyond(&self, ack: SeqNumber) -> u32 {
        self.last.map_or(0, |last| last.edge.ahead_of(ack))
    }

    /// The furthest right edge that was advertised; `None` before the first acknowledgement.
    #[must_use]
    pub fn edge(&self) -> Option<SeqNumber> {
        self.last.map(|last| last.edge)
    }

    /// The advertiser sends `segment`, and its window is to be at most `limit` bytes (`None`: no limit). Returns the
    /// new window field if it must change.
    pub fn clamp(&mut self, segment: &Segment, limit: Option<u32>) -> Option<u16> {
        if segment.flags.has(Flags::SYN) {
            if !segment.flags.has(Flags::ACK) {
                *self = Self::default();
            }
            self.offered = Some(segment.wscale);
        }
        if !segment.flags.has(Flags::ACK) || segment.flags.has(Flags::RST) {
            return None;
        }
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.shift()? };
        let granted = |field: u16| segment.ack + (u32::from(field) << shift);
        let Some(last) = self.last.filter(|last| !segment.ack.before(last.ack)) else {
            if self.last.is_some() {
                // An ACK that was overtaken: its window is not looked at (RFC 9293 §3.10.7.4, SND.WL2).
                return None;
            }
            let field = limit.map_or(segment.window, |limit| segment.window.min(rounded_up(limit, shift)));
            self.last = Some(Last { ack: segment.ack, edge: granted(field), own: segment.window, field });
            return (field != segment.window).then_some(field);
        };
        let repeats = segment.ack == last.ack && segment.payload == 0 && segment.window == last.own;
        let field = match limit {
            _ if repeats && !segment.flags.has(Flags::SYN) => last.field,
            None => segment.window,
            Some(limit) => segment.window.min(rounded_up(limit.max(last.edge.ahead_of(segment.ack)), shift)),
        };
        self.last = Some(Last { ack: segment.ack, edge: last.edge.max(granted(field)), own: segment.window, field });
        (field != segment.window).then_some(field)
    }
}

fn rounded_up(bytes: u32, shift: u8) -> u16 {
    u16::try_from(bytes.div_ceil(1 << shift)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1460;

    fn handshake(ours: Option<u8>, theirs: Option<u8>) -> Advertised {
        let mut advertised = Advertised::default();
        advertised.handle_peer_syn(&Segment { flags: Flags::SYN, wscale: theirs, ..Segment::default() });
        let flags = Flags::SYN | Flags::ACK;
        advertised.clamp(&Segment { flags, ack: SeqNumber(1), wscale: ours, window: 0, ..Segment::default() }, None);
        advertised
    }

    fn ack(ack: u32, window: u16) -> Segment {
        Segment { ack: SeqNumber(ack), flags: Flags::ACK, window, ..Segment::default() }
    }

    #[test]
    fn the_limit_is_written_in_the_scale_of_the_handshake() {
        let mut advertised = handshake(Some(7), Some(2));
        assert_eq!(advertised.clamp(&ack(1, 500), Some(2 * MSS)), Some(23), "2920 / 128, rounded up");
        let mut unscaled = handshake(Some(7), None);
        assert_eq!(unscaled.clamp(&ack(1, 64_000), Some(2 * MSS)), Some(2920), "the peer did not scale");
    }

    #[test]
    fn a_connection_first_seen_in_mid_stream_is_left_alone() {
        let mut advertised = Advertised::default();
        assert_eq!(advertised.clamp(&ack(1, 500), Some(MSS)), None);
    }

    #[test]
    fn a_lower_limit_takes_effect_as_data_arrives() {
        let mut advertised = handshake(None, None);
        assert_eq!(advertised.clamp(&ack(1, 60_000), Some(10_000)), Some(10_000));
        assert_eq!(advertised.clamp(&ack(4_001, 60_000), Some(2_000)), Some(6_000), "the right edge stays");
        assert_eq!(advertised.clamp(&ack(9_001, 60_000), Some(2_000)), Some(2_000), "and moves again");
    }

    #[test]
    fn a_duplicate_ack_stays_a_duplicate() {
        let mut advertised = handshake(None, None);
        assert_eq!(advertised.clamp(&ack(1, 60_000), Some(3_000)), Some(3_000));
        assert_eq!(advertised.clamp(&ack(1, 60_000), Some(9_000)), Some(3_000), "although the limit has grown");
        assert_eq!(advertised.clamp(&ack(1, 50_000), Some(9_000)), Some(9_000), "a window update is none");
    }

    #[test]
    fn the_advertisers_own_smaller_window_wins() {
        let mut advertised = handshake(None, None);
        assert_eq!(advertised.clamp(&ack(1, 1_000), Some(3_000)), None);
        assert_eq!(advertised.clamp(&ack(1_001, 0), Some(3_000)), None, "a zero window stays one");
    }

    proptest! {
        #[test]
        fn the_right_edge_never_moves_left_and_the_limit_is_kept(
            start: u32,
            shift in proptest::option::of(0u8..=14),
            steps in proptest::collection::vec((0u32..20_000, 1u32..100_000), 1..100),
        ) {
            let mut advertised = handshake(shift, shift);
            let scale = shift.unwrap_or(0);
            let mut edge: Option<SeqNumber> = None;
            let mut at = SeqNumber(start);
            advertised.last = None;
            for (bytes, limit) in steps {
                at += bytes;
                let segment = Segment { ack: at, flags: Flags::ACK, window: u16::MAX, ..Segment::default() };
                let field = advertised.clamp(&segment, Some(limit)).unwrap_or(u16::MAX);
                let now = at + (u32::from(field) << scale);
                if let Some(before) = edge {
                    prop_assert!(!now.before(before), "moved left");
                    let rounding = 1 << scale;
                    prop_assert!(now.ahead_of(before) < rounding || now.ahead_of(at) < limit + rounding);
                }
                prop_assert!(field > 0);
                edge = Some(edge.map_or(now, |before| before.max(now)));
            }
        }
    }
}
