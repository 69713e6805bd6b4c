//! M21TCP-A: the switch tells senders how many they are, and each caps its window at its share of the buffer.
//!
//! ```text
//! switch    N = flows that traverse the interface; writes N if it is more than the packet says      FlowCounter, stamp
//! receiver  echoes the value of the latest packet in its ACKs                                       Echo
//! sender    Max.Wind = (B - MHS·N) / N                                                (Eq. 1)       Cap
//!           cwnd = min(cwnd + 1, maxcwnd)                                             (Eq. 2)       the TCP that asks Cap
//! ```
//!
//! This is no shim: a switch, a receiving and a sending TCP each run one part of it.
//!
//! DESIGN NOTES, where the paper (§IV) is silent:
//! 1. The paper's list of flows only ever grows, and the cap with it only ever shrinks. Here a flow that was silent for
//!    [`counter::Config::expiry`] no longer counts, nor one that said FIN or RST; the list as the paper has it is
//!    `expiry: None`.
//! 2. Eq. 1 is in bytes of payload, its result is not rounded: a TCP that sends whole segments rounds down by itself.
//! 3. Below one segment Eq. 1 would stop the flow (B = 64 KB, MSS 576: beyond 106 senders; beyond 1560 the cap is
//!    negative). A window cannot be less than a segment, but a segment can be sent less often than once per RTT. The
//!    cap then becomes a rate, for any N: one segment in every `2·(MSS + MHS)·N / B` round trips. Without the 2 it
//!    would be Eq. 1 carried on; but turns come together by chance, where windows of one segment cannot, and one loss
//!    costs a timeout: half of the buffer is left for that. The RTT is the measured one, queueing included, so that
//!    this is self-clocked as a window is; but the period is no less than the time that N segments take at the sender's
//!    own line rate, the one capacity that it knows. With the RTT of an empty network, senders that all begin would
//!    fill the buffer faster than it drains.
//! 4. Turns are spread: senders that all begin at a barrier would otherwise send in the same round trip, and overflow
//!    the buffer together. Whoever has not sent for a whole period waits for a random part of it.
//! 5. SYN and SYN-ACK are stamped and echoed like data, so that the first window is capped already. Before the first
//!    echo there is no cap.
//! 6. B is the buffer of the switch with the largest N, and the sender is told it by configuration, as in the paper.
//! 7. In the IP header the field is an option of 4 bytes with a 16-bit count, in the TCP header one of 8 bytes (kind,
//!    length, 32-bit count, padding): [`Field`].

pub mod cap;
pub mod counter;

pub use cap::{Allowance, Cap, Rounds, Turns};
pub use counter::FlowCounter;

/// Which header carries the number of senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field {
    /// An IP option.
    Ip,
    /// A TCP option.
    #[default]
    Tcp,
}

impl Field {
    /// Bytes that the field adds to a packet.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Ip => 4,
            Self::Tcp => 8,
        }
    }

    /// Largest number that it can carry; more senders than that are told this number.
    #[must_use]
    pub const fn largest(self) -> u32 {
        match self {
            Self::Ip => 0xffff,
            Self::Tcp => u32::MAX,
        }
    }
}

/// What a switch with `own` flows writes into a packet that says `field` (§IV.1: only if its own number is larger).
#[must_use]
pub const fn stamp(field: u32, own: u32) -> u32 {
    if own > field { own } else { field }
}

/// The receiver's part: the number in the latest packet goes into the next ACK, delayed or not (§IV.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    latest: u32,
}

impl Echo {
    /// A packet arrived with this number, 0 when it carries none.
    pub fn handle_packet(&mut self, number: u32) {
        if number > 0 {
            self.latest = number;
        }
    }

    /// The number for an ACK that leaves now, 0 for none.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_on_the_path_arrives() {
        let path = [3, 48, 16];
        assert_eq!(path.into_iter().fold(0, stamp), 48);
    }

    #[test]
    fn a_delayed_ack_carries_the_latest_number() {
        let mut echo = Echo::default();
        echo.handle_packet(48);
        echo.handle_packet(16);
        assert_eq!(echo.number(), 16);
        echo.handle_packet(0);
        assert_eq!(echo.number(), 16, "a packet without the field says nothing");
    }
}
