//! Web pages among long flows, as in HWatch's testbed (§VI).

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use super::client::Client;
use super::http::request;
use super::nginx::Servers;
use super::{FILE, WebError, addresses, inside, set_cc};
use crate::guard::{Guard, GuardConfig};
use crate::pause::sleep_until;
use crate::testbed::{Spec, Testbed};

/// The long flows' file: so large that it does not end.
const LONG: (&str, u64) = ("long", 1 << 30);

/// Pages that are asked for on new connections, in bursts, among long flows.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The testbed.
    pub spec: Spec,
    /// Long flows: to the host beside the receiver, where there is one.
    pub flows: usize,
    /// Pages of each burst, whose times are exponentially distributed.
    pub pages: usize,
    /// Bytes of a page.
    pub bytes: u64,
    /// Mean time from one page to the next.
    pub gap: Duration,
    /// Bursts.
    pub bursts: u32,
    /// When the first begins, and time from one to the next.
    pub start: Duration,
    /// See `start`.
    pub interval: Duration,
    /// Congestion control of the servers.
    pub cc: String,
    /// Where the random times come from.
    pub seed: u64,
    /// The guard; `None` leaves all alone.
    pub guard: Option<GuardConfig>,
}

/// What became of them.
#[derive(Clone, Debug, Serialize)]
pub struct PagesReport {
    /// Mean time of a page, from its SYN to its last byte, burst by burst, in milliseconds.
    pub burst_ms: Vec<f64>,
    /// Goodput of the long flows together, in megabits per second.
    pub long_mbps: f64,
}

/// Runs them on a testbed of their own.
///
/// # Errors
/// When nginx is missing, the testbed or the guard fails, a connection breaks, or `stop` is set.
pub fn run_pages(config: &Pages, stop: &AtomicBool) -> Result<PagesReport, WebError> {
    let testbed = Testbed::build(config.spec.clone())?;
    let own = set_cc(&testbed, &config.cc)?;
    let servers = Servers::start(&testbed, &[(FILE, config.bytes), LONG])?;
    let guard = config.guard.as_ref().map(|guard| Guard::start(&testbed, guard)).transpose()?;
    let addresses = addresses(&config.spec);
    let end = testbed.beside().unwrap_or_else(|| testbed.receiver());
    let started = end.inside(|| Flows::start(&addresses, config.flows));
    let flows =
        started.map_err(|source| WebError::Io { what: "entering the namespace of the long flows' end", source })??;
    let report = inside(&testbed, || {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        let began = Instant::now();
        let mut burst_ms = Vec::new();
        for burst in 0..config.bursts {
            let begin = config.start + config.interval * burst;
            sleep_until(stop, began + begin).ok_or(WebError::Stopped)?;
            // A burst has until the next one: what has not come by then has taken that long at least.
            let until = began + begin + config.interval;
            let mut client = Client::new(config.pages, own.clone(), until, stop)?;
            let times = client.pages(&addresses, &format!("/{FILE}"), &due(&mut random, config.pages, config.gap))?;
            let sum: f64 = times.iter().map(|took| took.as_secs_f64() * 1e3).sum();
            burst_ms.push(sum / times.len() as f64);
        }
        let long_mbps = flows.received.load(Ordering::Relaxed) as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6;
        Ok::<_, WebError>(PagesReport { burst_ms, long_mbps })
    })??;
    guard.map(Guard::stop).transpose()?;
    drop(servers);
    Ok(report)
}

/// When pages are asked for: gaps are exponentially distributed.
fn due(random: &mut Xoshiro256PlusPlus, pages: usize, gap: Duration) -> Vec<Duration> {
    let mut at = Duration::ZERO;
    let mut next = || {
        let uniform: f64 = random.random();
        at += gap.mul_f64(-(1.0 - uniform).ln());
        at
    };
    (0..pages).map(|_| next()).collect()
}

/// Downloads that do not end before this is dropped.
struct Flows {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Flows {
    fn start(servers: &[SocketAddr], count: usize) -> Result<Self, WebError> {
        let mut flows = Self { received: Arc::default(), streams: Vec::new(), threads: Vec::new() };
        for i in 0..count {
            let address = servers[i % servers.len()];
            let open = || -> io::Result<(TcpStream, TcpStream)> {
                let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
                stream.write_all(&request(address.ip(), &format!("/{}", LONG.0)))?;
                Ok((stream.try_clone()?, stream))
            };
            let (mine, mut stream) = open().map_err(|source| WebError::Broken { address, source })?;
            let received = Arc::clone(&flows.received);
            flows.streams.push(mine);
            flows.threads.push(std::thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(len @ 1..) = stream.read(&mut buffer) {
                    received.fetch_add(len as u64, Ordering::Relaxed);
                }
            }));
        }
        Ok(flows)
    }
}

impl Drop for Flows {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_at_random_times_of_the_right_mean() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let due = due(&mut random, 1_000, Duration::from_millis(2));
        assert!(due.is_sorted());
        let last = due[999].as_secs_f64();
        assert!((1.8..2.2).contains(&last), "{last}");
    }
}
