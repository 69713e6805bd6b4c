//! Rounds beside traffic that a guard does not act on: datagrams, and long flows whose segments are signed.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::rounds::{HOSTS, Rounds, TEN};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::signed::sign;
use super::streams::{Bulk, open_from};
use crate::testbed::Testbed;

/// Where datagrams go.
const SINK: u16 = 5081;
/// Payload octets of a datagram.
const PAYLOAD: usize = 1_400;
/// How often the sender looks what is due.
const TICK: Duration = Duration::from_micros(500);

/// 64 kept senders until the time is over.
const ROUNDS: Rounds = Rounds { rounds: 100_000, limit: Duration::from_secs(5), ..TEN };

/// What shares the port with the rounds.
enum Beside {
    /// Datagrams at so many megabits per second of payload.
    Datagrams(u32),
    /// So many long flows that are signed: a guard leaves them alone.
    Signed(usize),
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "beside-udp",
        what: "rounds of 64 x 64 KB beside 80 Mb/s of datagrams, 200 Mb/s",
        unit: Unit::Mbps,
        measure: &Beside::Datagrams(80),
    },
    Row {
        name: "beside-signed",
        what: "the same beside a long flow that is signed with TCP-MD5, as one that is left alone",
        unit: Unit::Mbps,
        measure: &Beside::Signed(1),
    },
];

impl Measure for Beside {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (lab, guard) = bench.lab(spec(HOSTS + 1, 200))?;
        let mbps = match *self {
            Self::Datagrams(rate) => {
                let _beside = Datagrams::start(lab.testbed(), HOSTS, rate)?;
                ROUNDS.mbps(&lab, HOSTS, bench)?
            }
            Self::Signed(flows) => {
                let pairs = open_from(lab.testbed(), HOSTS..HOSTS + 1, flows, &sign)?;
                let _beside = Bulk::start(pairs)?;
                ROUNDS.mbps(&lab, HOSTS, bench)?
            }
        };
        end(guard)?;
        Ok(mbps)
    }
}

/// Datagrams from a sender host to the receiver, for as long as this lives.
struct Datagrams {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
    /// What arrives is not read: only the port matters.
    _sink: UdpSocket,
}

impl Datagrams {
    fn start(testbed: &Testbed, host: usize, mbps: u32) -> Result<Self, RowError> {
        let address = SocketAddr::new(Testbed::receiver_address(false), SINK);
        let bound = |made: Result<io::Result<UdpSocket>, io::Error>| {
            made.and_then(|made| made).map_err(io_error("opening a socket for datagrams"))
        };
        let sink = bound(testbed.receiver().inside(|| UdpSocket::bind(address)))?;
        let sender = bound(testbed.sender(host).inside(|| {
            let sender = UdpSocket::bind(SocketAddr::new(Testbed::sender_address(host, false), 0))?;
            sender.connect(address)?;
            Ok(sender)
        }))?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let sender = std::thread::spawn(move || send_at(&sender, mbps, &until));
        Ok(Self { stop, sender: Some(sender), _sink: sink })
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            // It has nothing to say, and a panic of it has been printed.
            let _ = sender.join();
        }
    }
}

/// Sends at a rate until it is to stop. What the host has no room for is lost, as datagrams are.
fn send_at(socket: &UdpSocket, mbps: u32, stop: &AtomicBool) {
    let began = Instant::now();
    let interval = Duration::from_nanos(PAYLOAD as u64 * 8_000 / u64::from(mbps));
    let mut due = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let now = began.elapsed();
        while due <= now {
            let _ = socket.send(&[0; PAYLOAD]);
            due += interval;
        }
        std::thread::sleep(TICK);
    }
}
