//! What others are told of a running guard: `ackgate status` over the socket of its claim, Prometheus and browsers over HTTP.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ackgate_control::units::Time;
use ackgate_linux::statistics::{Kind, STATISTICS};
use ackgate_linux::status::Answers;
use ackgate_linux::{Guard, Notice, Snapshot, privilege};
use anyhow::Context;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tiny_http::{Header, Method, Response, Server, StatusCode};

use crate::exit::Refused;

/// Notices that are kept.
const NOTICES: usize = 10;
/// The live page: everything that it needs is in it, and its figures come from `/metrics`.
const PAGE: &str = include_str!("page.html");
/// The page may fetch from where it came from, and from nowhere else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
/// OpenMetrics 1.0.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A notice, and when it was given.
#[derive(Clone, Debug, Serialize)]
struct Told {
    /// Seconds after the guard began.
    at_s: u64,
    text: String,
}

/// What does not change while a guard runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Identity {
    pub(super) device: String,
    /// The guard's name, as `--guard` has it.
    pub(super) guard: String,
    pub(super) buffer: u64,
    pub(super) rate_mbps: Option<u64>,
    pub(super) hold: String,
    pub(super) observe: bool,
}

/// The answer to `ackgate status`.
#[derive(Debug, Serialize)]
struct State {
    version: &'static str,
    #[serde(flatten)]
    identity: Identity,
    /// How long it has guarded, s.
    guarding_s: u64,
    #[serde(flatten)]
    snapshot: Snapshot,
    notices: VecDeque<Told>,
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    // Whoever panicked while writing left numbers, each of them valid.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The guards of this process, for whoever tells of all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Vec<Shared>>>);

impl Board {
    fn guards(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each of them stands.
    fn states(&self) -> Vec<(Identity, Snapshot)> {
        self.guards().iter().map(lock).map(|state| (state.identity.clone(), state.snapshot)).collect()
    }
}

/// Tells of a guard, as long as it lives.
pub(super) struct Publisher {
    state: Shared,
    start: Time,
    board: Board,
    _answers: Answers,
}

impl Publisher {
    /// Tells of `guard`.
    ///
    /// # Errors
    /// When nobody can be answered.
    pub(super) fn start(guard: &Guard, identity: Identity, board: &Board) -> anyhow::Result<Self> {
        let state = Arc::new(Mutex::new(State {
            version: env!("CARGO_PKG_VERSION"),
            identity,
            guarding_s: 0,
            snapshot: guard.snapshot(),
            notices: VecDeque::new(),
        }));
        let told = Arc::clone(&state);
        let tell = move || serde_json::to_string(&*lock(&told)).expect("numbers and text are JSON") + "\n";
        let answers = guard.claim_socket().and_then(|socket| Answers::start(socket, tell));
        let answers = answers.context("could not answer `ackgate status`")?;
        board.guards().push(Arc::clone(&state));
        Ok(Self { state, start: ackgate_linux::now(), board: board.clone(), _answers: answers })
    }

    /// The guard goes by other settings from now on.
    pub(super) fn rename(&self, identity: Identity) {
        lock(&self.state).identity = identity;
    }

    /// How things stand now.
    pub(super) fn update(&self, snapshot: &Snapshot, notices: &[Notice]) {
        let at_s = ackgate_linux::now().since(self.start).0 / 1_000_000_000;
        let mut state = lock(&self.state);
        state.snapshot = *snapshot;
        state.guarding_s = at_s;
        state.notices.extend(notices.iter().map(|notice| Told { at_s, text: notice.to_string() }));
        let old = state.notices.len().saturating_sub(NOTICES);
        state.notices.drain(..old);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.board.guards().retain(|state| !Arc::ptr_eq(state, &self.state));
    }
}

/// The statistics, read when they are asked for.
#[derive(Debug)]
struct Statistics(Board);

impl Collector for Statistics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let states = self.0.states();
        let mut about = encoder.encode_descriptor("build", "The guard and its version", None, MetricType::Info)?;
        for (identity, _) in &states {
            let Identity { device, guard, hold, .. } = identity;
            let version = env!("CARGO_PKG_VERSION");
            about.encode_info(&[
                ("device", device.as_str()),
                ("version", version),
                ("guard", guard.as_str()),
                ("hold", hold.as_str()),
            ])?;
        }
        for statistic in STATISTICS {
            let kind = match statistic.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            // The format ends the sentence itself.
            let help = statistic.help.trim_end_matches('.');
            let mut metric = encoder.encode_descriptor(statistic.name, help, None, kind)?;
            for (identity, snapshot) in &states {
                let labels = [("device", identity.device.as_str())];
                let one = metric.encode_family(&labels)?;
                let value = (statistic.read)(snapshot);
                match statistic.kind {
                    Kind::Counter => ConstCounter::new(value).encode(one)?,
                    Kind::Gauge => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(one)?,
                }
            }
        }
        Ok(())
    }
}

/// The metrics' HTTP server; it serves as long as it lives.
pub(super) struct Metrics {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Serves those of all guards of the board, and a page that shows them.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(super) fn start(address: SocketAddr, board: &Board) -> anyhow::Result<Self> {
        let refused =
            |error: &dyn fmt::Display| Refused(anyhow::anyhow!("could not listen for metrics on {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(|error| refused(&error))?;
        // Its threads, which read what anybody sends, are started by one without capabilities, and so have none.
        let server = std::thread::scope(|scope| {
            let start = || {
                privilege::give_up()?;
                Server::from_listener(listener, None).map_err(io::Error::other)
            };
            scope.spawn(start).join().unwrap_or_else(|_| Err(io::Error::other("the server's first thread panicked")))
        });
        let server = Arc::new(server.map_err(|error| refused(&error))?);
        let mut registry = Registry::with_prefix("ackgate");
        registry.register_collector(Box::new(Statistics(board.clone())));
        let ours = Arc::clone(&server);
        let serve = move || {
            if let Err(error) = privilege::give_up() {
                return tracing::error!("metrics are not served: could not drop capabilities: {error}");
            }
            for request in ours.incoming_requests() {
                let asks = matches!(request.method(), Method::Get | Method::Head);
                let answer = match request.url() {
                    "/" if asks => page(),
                    "/metrics" if asks => metrics(&registry),
                    _ => not_found(),
                };
                // Whoever goes away before the answer is there does not matter.
                let _ = request.respond(answer);
            }
        };
        let thread = std::thread::Builder::new().name("ackgate-metrics".into()).spawn(serve);
        Ok(Self { server, thread: Some(thread.context("could not serve metrics")?) })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Page = Response<io::Cursor<Vec<u8>>>;

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("the header is plain text")
}

fn page() -> Page {
    Response::from_string(PAGE)
        .with_header(header("Content-Type", "text/html; charset=utf-8"))
        .with_header(header("Content-Security-Policy", POLICY))
}

fn metrics(registry: &Registry) -> Page {
    let mut body = String::new();
    match text::encode(&mut body, registry) {
        Ok(()) => Response::from_string(body).with_header(header("Content-Type", CONTENT_TYPE)),
        Err(error) => Response::from_string(error.to_string()).with_status_code(StatusCode(500)),
    }
}

fn not_found() -> Page {
    Response::from_string("see / for people, /metrics for Prometheus\n").with_status_code(StatusCode(404))
}
