//! One-way messages that nobody answers: telemetry from the guarded host, and what is said to silent peers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::rounds::{HOSTS, TEN};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{Pair, millis, open, plain};
use crate::load::report::nearest_rank;

/// Octets of a message; it begins with the time at which it was sent.
const MESSAGE: usize = 100;
/// After a burst a guard is back to doing nothing within this time.
const SETTLED: Duration = Duration::from_millis(100);

/// Messages beside incast rounds.
struct OneWay {
    connections: usize,
    /// Messages per second on all connections together.
    rate: u32,
    what: What,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Goodput of the rounds.
    Rounds,
    /// The messages' delay after the rounds, when the link is idle.
    DelayAfter,
}

const TELEMETRY: OneWay = OneWay { connections: 200, rate: 1000, what: What::Rounds };
const SILENT: OneWay = OneWay { connections: 500, rate: 2500, what: What::Rounds };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "telemetry",
        what: "ten rounds of 64 x 64 KB beside 1000 messages/s over 200 connections, 500 Mb/s",
        unit: Unit::Mbps,
        measure: &TELEMETRY,
    },
    Row {
        name: "telemetry-after",
        what: "the same messages' delay (p90) on the idle link after the rounds",
        unit: Unit::Millis,
        measure: &OneWay { what: What::DelayAfter, ..TELEMETRY },
    },
    Row {
        name: "silent-peers",
        what: "ten rounds of 64 x 64 KB beside 500 silent peers sent 100 B every 0.2 s, 500 Mb/s",
        unit: Unit::Mbps,
        measure: &SILENT,
    },
];

impl Measure for OneWay {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (lab, guard) = bench.lab(spec(HOSTS, 500))?;
        let messages = Messages::start(open(lab.testbed(), self.connections, &plain)?, self.rate)?;
        bench.sleep(Duration::from_millis(700))?;
        let mbps = TEN.mbps(&lab, HOSTS, bench)?;
        let value = match self.what {
            What::Rounds => mbps,
            What::DelayAfter => {
                bench.sleep(SETTLED)?;
                let settled = messages.began.elapsed();
                bench.sleep(Duration::from_millis(1200))?;
                messages.p90_ms(settled)
            }
        };
        end(guard)?;
        Ok(value)
    }
}

/// Messages from the receiver to the sender hosts, for as long as this lives.
struct Messages {
    began: Instant,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<Vec<Vec<Duration>>>>,
    reader: Option<JoinHandle<Vec<Vec<Duration>>>>,
}

impl Messages {
    fn start(pairs: Vec<Pair>, rate: u32) -> Result<Self, RowError> {
        let (began, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let (receivers, senders): (Vec<_>, Vec<_>) = pairs.into_iter().map(|pair| (pair.receiver, pair.sender)).unzip();
        for stream in receivers.iter().chain(&senders) {
            stream.set_nonblocking(true).map_err(io_error("setting up a socket"))?;
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| io_error("creating an epoll")(e.into()))?;
        for (slot, stream) in senders.iter().enumerate() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, slot as u64);
            epoll.add(stream.as_fd(), event).map_err(|e| io_error("adding to an epoll")(e.into()))?;
        }
        let (write_until, read_until) = (Arc::clone(&stop), Arc::clone(&stop));
        let writer = std::thread::spawn(move || write(&receivers, rate, began, &write_until));
        let reader = std::thread::spawn(move || read(&epoll, &senders, began, &read_until));
        Ok(Self { began, stop, writer: Some(writer), reader: Some(reader) })
    }

    /// Ends them and tells the delay in milliseconds that nine of ten of those sent after `since` did not exceed. One that
    /// has not come yet counts with its age.
    fn p90_ms(mut self, since: Duration) -> f64 {
        let (sent, came, now) = (self.end_writer(), self.end_reader(), self.began.elapsed());
        let delays = sent.iter().zip(&came).flat_map(|(sent, came)| {
            let waits = sent.iter().enumerate().filter(|(_, at)| **at >= since);
            waits.map(|(n, &at)| came.get(n).copied().unwrap_or(now).saturating_sub(at))
        });
        let mut micros: Vec<u64> = delays.map(|delay| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)).collect();
        micros.sort_unstable();
        millis(Duration::from_micros(nearest_rank(&micros, 900)))
    }

    fn end_writer(&mut self) -> Vec<Vec<Duration>> {
        self.stop.store(true, Ordering::Relaxed);
        joined(self.writer.take())
    }

    fn end_reader(&mut self) -> Vec<Vec<Duration>> {
        self.stop.store(true, Ordering::Relaxed);
        joined(self.reader.take())
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.end_writer();
        self.end_reader();
    }
}

fn joined(thread: Option<JoinHandle<Vec<Vec<Duration>>>>) -> Vec<Vec<Duration>> {
    thread.map_or_else(Vec::new, |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Writes one message after another, to one connection after another; when each was sent, by connection.
fn write(streams: &[TcpStream], rate: u32, began: Instant, stop: &AtomicBool) -> Vec<Vec<Duration>> {
    let mut sent = vec![Vec::new(); streams.len()];
    let mut turns = (0..streams.len()).cycle();
    let mut count = 0.0;
    while !stop.load(Ordering::Relaxed) {
        while count < began.elapsed().as_secs_f64() * f64::from(rate) {
            count += 1.0;
            let Some(slot) = turns.next() else { return sent };
            let at = began.elapsed();
            // A connection that takes no more is full of messages, whose delays tell.
            if (&streams[slot]).write(&[0x6d; MESSAGE]).is_ok_and(|len| len == MESSAGE) {
                sent[slot].push(at);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Reads messages; when each had come whole, by connection.
fn read(epoll: &Epoll, streams: &[TcpStream], began: Instant, stop: &AtomicBool) -> Vec<Vec<Duration>> {
    let (mut came, mut octets) = (vec![Vec::new(); streams.len()], vec![0; streams.len()]);
    let (mut events, mut buffer) = ([EpollEvent::empty(); 256], vec![0; 65_536]);
    while !stop.load(Ordering::Relaxed) {
        let count = epoll.wait(&mut events, EpollTimeout::from(20u16)).unwrap_or(0);
        for event in &events[..count] {
            let slot = event.data() as usize;
            // The epoll tells again while there is more.
            octets[slot] += (&streams[slot]).read(&mut buffer).unwrap_or(0);
            while came[slot].len() < octets[slot] / MESSAGE {
                came[slot].push(began.elapsed());
            }
        }
    }
    came
}
