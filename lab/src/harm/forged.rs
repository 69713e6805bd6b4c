//! Two forged segments to each of eight connections: right addresses and ports, blind sequence numbers, half of the sequence
//! space apart, so that one of them lies ahead of the window. TCP discards them (RFC 9293, section 3.10.7.4; RFC 5961).

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use super::forge::{ACK, FIN, Forger, PSH, RST, SYN, Segment};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{Pair, millis, open, plain, transfer};

struct Forged {
    flags: u8,
    payload: usize,
}

const fn row(name: &'static str, what: &'static str, measure: &'static Forged) -> Row {
    Row { name, what, unit: Unit::Millis, measure }
}

pub(super) const ROWS: &[Row] = &[
    row("forged-data", "8 x 400 KB after two forged data segments to each", &Forged { flags: PSH | ACK, payload: 500 }),
    row("forged-syn", "8 x 400 KB after two forged SYNs to each", &Forged { flags: SYN, payload: 0 }),
    row("forged-rst", "8 x 400 KB after two forged RSTs to each", &Forged { flags: RST, payload: 0 }),
    row("forged-fin", "8 x 400 KB after two forged FINs to each", &Forged { flags: FIN | ACK, payload: 0 }),
];

impl Measure for Forged {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(1, 200))?;
        let pairs = open(&testbed, 8, &plain)?;
        let limit = Duration::from_secs(4);
        transfer(&pairs, 100_000, limit)?;
        let forger = testbed
            .sender(0)
            .inside(Forger::open)
            .and_then(|opened| opened)
            .map_err(io_error("opening a raw socket"))?;
        for pair in &pairs {
            let (from, to) = ends(pair)?;
            let blind = std::hash::RandomState::new().build_hasher().finish() as u32;
            for seq in [blind, blind.wrapping_add(1 << 31)] {
                let segment = Segment { from, to, seq, ack: blind, flags: self.flags, payload: self.payload };
                forger.send(&segment).map_err(io_error("sending a forged segment"))?;
            }
        }
        let took = transfer(&pairs, 400_000, limit)?;
        end(guard)?;
        Ok(millis(took))
    }
}

/// Addresses of the sending and of the receiving end.
fn ends(pair: &Pair) -> Result<(std::net::SocketAddrV4, std::net::SocketAddrV4), RowError> {
    let asked = |e| io_error("asking for an address")(e);
    match (pair.sender.local_addr().map_err(asked)?, pair.receiver.local_addr().map_err(asked)?) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => Ok((from, to)),
        _ => Err(RowError::Impossible("forged segments are IPv4".into())),
    }
}
