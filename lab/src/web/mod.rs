//! Short transfers from a real web server: nginx at the sender hosts, asked by a client of ours at the receiver. In rounds on kept
//! connections, as a page is put together from many servers; and one by one on new connections among long flows, as HWatch's testbed
//! has it (Fig. 11).

mod client;
mod http;
mod nginx;
mod pages;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

use crate::dctcp;
use crate::guard::{Guard, GuardConfig, GuardError};
use crate::load::LoadError;
use crate::load::counters::{HostCounters, SenderCounters};
use crate::load::report::Quantiles;
use crate::testbed::{Spec, Testbed, TestbedError};
use client::Client;
use nginx::{PORT, Servers};

pub(crate) use nginx::require_server;

pub use pages::{Pages, PagesReport, run_pages};

/// What is asked for.
const FILE: &str = "file";

/// Why nothing was measured.
#[derive(Debug, Error)]
pub enum WebError {
    /// There is no web server.
    #[error(
        "nginx is not installed: apt-get install nginx-light (Debian, Ubuntu), or another package that has the program `nginx`"
    )]
    Missing,
    /// It does not serve.
    #[error("nginx does not start: {0}")]
    Server(String),
    /// A connection broke.
    #[error("the connection to {address}: {source}")]
    Broken {
        /// The server.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// An answer that is no file.
    #[error("bad response from {address}: {problem}")]
    Answer {
        /// The server.
        address: SocketAddr,
        /// What is wrong with it.
        problem: String,
    },
    /// Time is up.
    #[error("time limit reached with {0} responses outstanding")]
    Deadline(usize),
    /// Stopped by a signal.
    #[error("stopped")]
    Stopped,
    /// The testbed failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The guard failed.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Descriptors or settings of the load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Anything else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl WebError {
    /// Whether what was asked for cannot be here, rather than that it went wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::Missing | Self::Server(_) => true,
            Self::Testbed(error) => error.is_refusal(),
            Self::Load(error) => error.is_refusal(),
            _ => false,
        }
    }
}

/// Rounds on kept connections.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The testbed.
    pub spec: Spec,
    /// Connections, spread over its hosts.
    pub connections: usize,
    /// Bytes of each answer.
    pub bytes: u64,
    /// Measured rounds.
    pub rounds: u32,
    /// Senders' congestion control.
    pub cc: String,
    /// Time for all of it.
    pub limit: Duration,
    /// The guard; `None` leaves the receiver alone.
    pub guard: Option<GuardConfig>,
}

/// What the client saw.
#[derive(Clone, Debug, Serialize)]
pub struct WebReport {
    /// Connections.
    pub connections: usize,
    /// Rounds that were complete in time.
    pub rounds: u32,
    /// Rounds asked for.
    pub rounds_asked: u32,
    /// Bytes of the bodies of whole rounds over the rounds' own time, in megabits per second.
    pub goodput_mbps: f64,
    /// From a request to the last byte of its answer.
    pub answer_ms: Quantiles,
    /// Retransmission timeouts of the servers, in a round that was not complete, too.
    pub rto_timeouts: u64,
    /// Frames that the port dropped, likewise.
    pub switch_drops: u64,
}

/// Measures rounds on a testbed of its own. A round that is not complete in time counts with its time, and with nothing that it carried.
///
/// # Errors
/// When nginx is missing, the testbed or the guard fails, a connection breaks, or `stop` is set.
pub fn run_web(config: &WebConfig, stop: &AtomicBool) -> Result<WebReport, WebError> {
    let testbed = Testbed::build(config.spec.clone())?;
    let own = set_cc(&testbed, &config.cc)?;
    let servers = Servers::start(&testbed, &[(FILE, config.bytes)])?;
    let guard = config.guard.as_ref().map(|guard| Guard::start(&testbed, guard)).transpose()?;
    let (addresses, path) = (addresses(&config.spec), format!("/{FILE}"));
    let mut counters = Counters::open(&testbed)?;
    let run = || -> Result<WebReport, WebError> {
        let mut client = Client::new(config.connections, own, Instant::now() + config.limit, stop)?;
        let opened = match client.open(&addresses, config.connections, &path) {
            Err(WebError::Deadline(_)) => false,
            done => done.map(|()| true)?,
        };
        let (before, dropped) = (counters.read()?, testbed.port_stats()?.drops);
        let (mut time, mut micros, mut rounds) = (Duration::ZERO, Vec::new(), 0);
        while opened && rounds < config.rounds {
            let began = Instant::now();
            match client.round(&path) {
                Ok((took, answers)) => {
                    time += took;
                    micros.extend(answers.iter().map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)));
                    rounds += 1;
                }
                Err(WebError::Deadline(_)) => {
                    time += began.elapsed();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let bytes = u64::from(rounds) * config.connections as u64 * config.bytes;
        Ok(WebReport {
            connections: config.connections,
            rounds,
            rounds_asked: config.rounds,
            goodput_mbps: if rounds > 0 { bytes as f64 * 8.0 / time.as_secs_f64() / 1e6 } else { 0.0 },
            answer_ms: Quantiles::of_micros(&mut micros),
            rto_timeouts: counters.read()?.since(before).rto_timeouts,
            switch_drops: testbed.port_stats()?.drops - dropped,
        })
    };
    let report = inside(&testbed, run)??;
    guard.map(Guard::stop).transpose()?;
    drop(servers);
    Ok(report)
}

/// Runs the client where the receiver is.
fn inside<T: Send>(testbed: &Testbed, run: impl FnOnce() -> T + Send) -> Result<T, WebError> {
    testbed.receiver().inside(run).map_err(|source| WebError::Io { what: "entering the receiver's namespace", source })
}

/// Where the servers of a testbed are.
fn addresses(spec: &Spec) -> Vec<SocketAddr> {
    (0..spec.hosts).map(|k| SocketAddr::new(Testbed::sender_address(k, false), PORT)).collect()
}

/// Sets the congestion control of what the sender hosts serve; the client's own, where that is one of both ends.
fn set_cc(testbed: &Testbed, cc: &str) -> Result<Option<String>, WebError> {
    let own = if cc == dctcp::NAME { Some(dctcp::name()?.to_owned()) } else { None };
    testbed.set_congestion_control(own.as_deref().unwrap_or(cc))?;
    Ok(own)
}

/// What the sender hosts' TCP counts.
struct Counters(Vec<HostCounters>);

impl Counters {
    fn open(testbed: &Testbed) -> Result<Self, WebError> {
        let open = |k| testbed.sender(k).inside(HostCounters::open).and_then(|opened| opened);
        let all = (0..testbed.spec().hosts).map(open).collect::<io::Result<_>>();
        Ok(Self(all.map_err(|source| WebError::Io { what: "reading /proc/net", source })?))
    }

    fn read(&mut self) -> Result<SenderCounters, WebError> {
        self.0.iter_mut().try_fold(SenderCounters::default(), |sum, host| {
            let one = host.read().map_err(|source| WebError::Io { what: "reading /proc/net", source })?;
            Ok(sum.plus(one, false))
        })
    }
}
