//! A SYN flood from addresses that answer nothing, beside bulk.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::forge::{Forger, SYN, Segment};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{Bulk, PORT, open, plain};
use crate::testbed::Testbed;

/// SYNs per second.
const RATE: f64 = 1000.0;
/// The network that they claim to come from. The switch discards what is sent there.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 0);

struct Flood;

pub(super) const ROWS: &[Row] = &[Row {
    name: "syn-flood",
    what: "eight long flows beside 1000 SYNs/s from nobody, 200 Mb/s",
    unit: Unit::Mbps,
    measure: &Flood,
}];

impl Measure for Flood {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(4, 200))?;
        testbed.discard(NOBODY, 16)?;
        let target = SocketAddr::new(Testbed::receiver_address(false), PORT);
        // Somebody listens there, or every SYN would be answered with a reset.
        let _listener =
            testbed.receiver().inside(|| listen(target)).and_then(|it| it).map_err(io_error("listening"))?;
        let forger =
            testbed.sender(0).inside(Forger::open).and_then(|it| it).map_err(io_error("opening a raw socket"))?;
        let bulk = Bulk::start(open(&testbed, 8, &plain)?)?;
        let stop = AtomicBool::new(false);
        let mbps = std::thread::scope(|scope| {
            scope.spawn(|| flood(&forger, target, &stop));
            let mbps =
                bench.sleep(Duration::from_millis(700)).and_then(|()| bulk.mbps(bench, Duration::from_millis(1500)));
            stop.store(true, Ordering::Relaxed);
            mbps
        })?;
        drop(bulk);
        end(guard)?;
        Ok(mbps)
    }
}

fn listen(at: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&at.into())?;
    socket.listen(4096)?;
    Ok(socket)
}

fn flood(forger: &Forger, target: SocketAddr, stop: &AtomicBool) {
    let (IpAddr::V4(address), began) = (target.ip(), Instant::now()) else { return };
    let to = SocketAddrV4::new(address, target.port());
    let (mut sent, mut n) = (0.0, 0u32);
    while !stop.load(Ordering::Relaxed) {
        while sent < began.elapsed().as_secs_f64() * RATE {
            (sent, n) = (sent + 1.0, n.wrapping_add(1));
            let from =
                SocketAddrV4::new(Ipv4Addr::from_bits(NOBODY.to_bits() | n & 0xffff), 1024 + (n % 60_000) as u16);
            // A SYN that the port had no room for is one of many.
            let _ =
                forger.send(&Segment { from, to, seq: n.wrapping_mul(0x9e37_79b9), ack: 0, flags: SYN, payload: 0 });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
