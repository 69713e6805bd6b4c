//! MPTCP (RFC 8684): one connection that has served small and larger responses, then bulk.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use nix::libc;
use socket2::Protocol;

use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use super::streams::{Pair, millis, open_as, plain, receive, send, transfer};

struct Mptcp;

pub(super) const ROWS: &[Row] = &[Row {
    name: "mptcp",
    what: "MPTCP: 30 MB after 300 responses of 100 B and 100 of 30 KB, 500 Mb/s",
    unit: Unit::Millis,
    measure: &Mptcp,
}];

impl Measure for Mptcp {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(1, 500))?;
        let pairs = match open_as(&testbed, 0..1, 1, Protocol::from(libc::IPPROTO_MPTCP), &plain) {
            Err(RowError::Io { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::ENOPROTOOPT)) =>
            {
                return Err(RowError::Impossible("this kernel has no MPTCP (CONFIG_MPTCP, net.mptcp.enabled)".into()));
            }
            opened => opened?,
        };
        let began = Instant::now();
        let limit = Duration::from_secs(5);
        for pair in &pairs {
            for _ in 0..300 {
                respond(pair, 100, began + limit)?;
            }
            for _ in 0..100 {
                respond(pair, 30_000, began + limit)?;
            }
        }
        let took = transfer(&pairs, 30_000_000, limit)?;
        end(guard)?;
        Ok(millis(took))
    }
}

/// One request of 100 octets and its response. One that does not come in time is left for the transfer to wait for.
fn respond(pair: &Pair, bytes: u64, until: Instant) -> Result<(), RowError> {
    send(&pair.receiver, 100, until);
    let done = receive(&pair.sender, 100, until).and_then(|()| {
        send(&pair.sender, bytes, until);
        receive(&pair.receiver, bytes, until)
    });
    match done {
        Err(source) if source.kind() != ErrorKind::TimedOut => {
            Err(RowError::Io { what: "an exchange over MPTCP", source })
        }
        _ => Ok(()),
    }
}
