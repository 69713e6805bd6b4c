//! Requests and responses in a closed loop on every connection: the next request follows a response.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::row::{Bench, RowError, io_error};
use super::streams::Pair;

/// What is exchanged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many are asked for ahead of their responses (pipelining, queue depth).
    pub(crate) outstanding: usize,
    /// Octets of a request.
    pub(crate) request: usize,
    /// Octets of a response.
    pub(crate) response: usize,
    /// How long the server takes to answer, or at most.
    pub(crate) think: Duration,
    /// Whether it takes any time up to that.
    pub(crate) at_random: bool,
}

/// Exchanges that go on for as long as this lives.
pub(crate) struct Exchanges {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Exchanges {
    /// Starts them on all connections.
    pub(crate) fn start(pairs: Vec<Pair>, shape: Shape) -> Result<Self, RowError> {
        let mut all = Self { received: Arc::default(), streams: Vec::new(), threads: Vec::new() };
        for (seed, Pair { receiver, sender }) in (0..).zip(pairs) {
            for end in [&receiver, &sender] {
                all.streams.push(end.try_clone().map_err(io_error("cloning a socket"))?);
            }
            let received = Arc::clone(&all.received);
            // Both loops end with an error when the connection is shut down.
            all.threads.push(std::thread::spawn(move || drop(ask(&receiver, shape, &received))));
            all.threads.push(std::thread::spawn(move || drop(answer(&sender, shape, seed))));
        }
        Ok(all)
    }

    /// Octets of responses per second over the next `span`.
    pub(super) fn octets_per_second(&self, bench: &Bench<'_>, span: Duration) -> Result<f64, RowError> {
        let (before, began) = (self.received.load(Ordering::Relaxed), Instant::now());
        bench.sleep(span)?;
        Ok((self.received.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64())
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        for stream in &self.streams {
            // One that is closed already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A panic in it was told already.
            let _ = thread.join();
        }
    }
}

fn ask(mut stream: &TcpStream, shape: Shape, received: &AtomicU64) -> io::Result<()> {
    let (request, mut response) = (vec![0x51; shape.request], vec![0; shape.response]);
    for _ in 1..shape.outstanding {
        stream.write_all(&request)?;
    }
    loop {
        stream.write_all(&request)?;
        let mut left = shape.response;
        while left > 0 {
            let len = stream.read(&mut response[..left])?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received.fetch_add(len as u64, Ordering::Relaxed);
            left -= len;
        }
    }
}

fn answer(mut stream: &TcpStream, shape: Shape, seed: u64) -> io::Result<()> {
    let (mut request, response) = (vec![0; shape.request], vec![0x5a; shape.response]);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    loop {
        stream.read_exact(&mut request)?;
        if !shape.think.is_zero() {
            std::thread::sleep(if shape.at_random { shape.think.mul_f64(random.random()) } else { shape.think });
        }
        stream.write_all(&response)?;
    }
}
