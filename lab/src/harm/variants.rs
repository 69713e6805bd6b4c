//! Every TCP: one bulk transfer each with options, sizes and habits as hosts have them.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use socket2::Socket;

use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{End, Pair, Setup, millis, open, plain, receive, send, timed, transfer};

/// Time limit of a transfer, of which the longest takes a tenth unguarded.
const LIMIT: Duration = Duration::from_secs(5);
const MB: u64 = 1_000_000;

/// A transfer over a connection that differs from the usual one.
struct Variant {
    /// Sysctls of both hosts.
    sysctls: &'static [(&'static str, &'static str)],
    setup: &'static Setup,
    /// Largest packet of the receiver's network and the port towards it, in octets.
    mtu: Option<u32>,
    connections: usize,
    bytes: u64,
    carry: fn(&[Pair], u64) -> Result<Duration, RowError>,
}

const USUAL: Variant = Variant { sysctls: &[], setup: &plain, mtu: None, connections: 1, bytes: 10 * MB, carry: usual };

const fn row(name: &'static str, what: &'static str, measure: &'static Variant) -> Row {
    Row { name, what, unit: Unit::Millis, measure }
}

pub(super) const ROWS: &[Row] = &[
    row("transfer", "10 MB, 200 Mb/s", &USUAL),
    row("mss-536", "10 MB in segments of 536 B, 200 Mb/s", &Variant { setup: &small_segments, ..USUAL }),
    row(
        "scale-14",
        "10 MB, window scale 14, 200 Mb/s",
        &Variant { sysctls: &[("ipv4/tcp_rmem", "4096 131072 1073741824")], ..USUAL },
    ),
    row(
        "mtu-9000",
        "10 MB from a sender of 1500 B frames to a receiver of 9000 B, 200 Mb/s",
        &Variant { mtu: Some(9000), ..USUAL },
    ),
    row(
        "no-timestamps",
        "10 MB without TCP timestamps, 200 Mb/s",
        &Variant { sysctls: &[("ipv4/tcp_timestamps", "0")], ..USUAL },
    ),
    row("no-sack", "10 MB without SACK, 200 Mb/s", &Variant { sysctls: &[("ipv4/tcp_sack", "0")], ..USUAL }),
    row(
        "no-scaling",
        "10 MB without window scaling, 200 Mb/s",
        &Variant { sysctls: &[("ipv4/tcp_window_scaling", "0")], ..USUAL },
    ),
    row(
        "tiny-buffer",
        "5 MB into a receive buffer of 8 KB, 200 Mb/s",
        &Variant { setup: &tiny_buffer, bytes: 5 * MB, ..USUAL },
    ),
    row(
        "slow-reader",
        "4 x 1 MB, 16 KB read every 5 ms, 200 Mb/s",
        &Variant { connections: 4, bytes: MB, carry: read_slowly, ..USUAL },
    ),
    row(
        "half-closed",
        "10 MB after the receiver has closed its side, 200 Mb/s",
        &Variant { carry: half_closed, ..USUAL },
    ),
    row("both-ways", "10 MB each way at once, 200 Mb/s", &Variant { carry: both_ways, ..USUAL }),
];

impl Measure for Variant {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let testbed = bench.testbed(spec(1, 200))?;
        for host in [testbed.receiver(), testbed.sender(0)] {
            host.set_sysctls(self.sysctls).map_err(io_error("setting up a host"))?;
        }
        if let Some(mtu) = self.mtu {
            testbed.set_receiver_mtu(mtu)?;
        }
        let guard = bench.guard(&testbed)?;
        let took = (self.carry)(&open(&testbed, self.connections, self.setup)?, self.bytes)?;
        end(guard)?;
        Ok(millis(took))
    }
}

fn usual(pairs: &[Pair], bytes: u64) -> Result<Duration, RowError> {
    transfer(pairs, bytes, LIMIT)
}

fn half_closed(pairs: &[Pair], bytes: u64) -> Result<Duration, RowError> {
    for pair in pairs {
        pair.receiver.shutdown(Shutdown::Write).map_err(io_error("closing a side"))?;
    }
    transfer(pairs, bytes, LIMIT)
}

fn both_ways(pairs: &[Pair], bytes: u64) -> Result<Duration, RowError> {
    let began = Instant::now();
    let until = began + LIMIT;
    let done = std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for pair in pairs {
            for (from, to) in [(&pair.sender, &pair.receiver), (&pair.receiver, &pair.sender)] {
                scope.spawn(move || send(from, bytes, until));
                readers.push(scope.spawn(move || receive(to, bytes, until)));
            }
        }
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    timed(done, began, LIMIT)
}

/// Reads 16 KB every 5 ms, so that windows close.
fn read_slowly(pairs: &[Pair], bytes: u64) -> Result<Duration, RowError> {
    let began = Instant::now();
    let until = began + LIMIT;
    let done = std::thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(move || send(&pair.sender, bytes, until));
        }
        let readers: Vec<_> = pairs.iter().map(|pair| scope.spawn(move || sip(pair, bytes, until))).collect();
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    timed(done, began, LIMIT)
}

fn sip(pair: &Pair, bytes: u64, until: Instant) -> io::Result<()> {
    let (mut buffer, mut read) = ([0; 16_384], 0);
    pair.receiver.set_read_timeout(Some(Duration::from_millis(100)))?;
    while read < bytes {
        if Instant::now() > until {
            return Err(ErrorKind::TimedOut.into());
        }
        match (&pair.receiver).read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => read += len as u64,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn small_segments(socket: &Socket, end: End, _: SocketAddr) -> io::Result<()> {
    if end == End::Receiver { socket.set_tcp_mss(536) } else { Ok(()) }
}

fn tiny_buffer(socket: &Socket, end: End, _: SocketAddr) -> io::Result<()> {
    if end == End::Receiver { socket.set_recv_buffer_size(8 << 10) } else { Ok(()) }
}
