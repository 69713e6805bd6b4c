//! What others are told of a running guard: `ackgate status` over the socket of its claim, Prometheus over HTTP.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ackgate_control::units::Time;
use ackgate_linux::statistics::{Kind, STATISTICS};
use ackgate_linux::status::Answers;
use ackgate_linux::{Guard, Notice, Snapshot};
use anyhow::Context;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tiny_http::{Header, Method, Response, Server, StatusCode};

use crate::exit::Refused;

/// Notices that are kept.
const NOTICES: usize = 10;
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
#[derive(Clone, Debug, Serialize)]
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

/// Tells, as long as it lives.
pub(super) struct Publisher {
    state: Shared,
    start: Time,
    _answers: Answers,
    _metrics: Option<Metrics>,
}

impl Publisher {
    /// Tells of `guard`; as metrics only at an address.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(super) fn start(guard: &Guard, identity: Identity, metrics: Option<SocketAddr>) -> anyhow::Result<Self> {
        let state = Arc::new(Mutex::new(State {
            version: env!("CARGO_PKG_VERSION"),
            identity,
            guarding_s: 0,
            snapshot: guard.snapshot(),
            notices: VecDeque::new(),
        }));
        let metrics = metrics.map(|address| Metrics::start(address, &state)).transpose()?;
        let told = Arc::clone(&state);
        let tell = move || serde_json::to_string(&*lock(&told)).expect("numbers and text are JSON") + "\n";
        let answers = guard.claim_socket().and_then(|socket| Answers::start(socket, tell));
        let answers = answers.context("could not answer `ackgate status`")?;
        Ok(Self { state, start: ackgate_linux::now(), _answers: answers, _metrics: metrics })
    }

    /// How things stand now.
    pub(super) fn update(&self, snapshot: Snapshot, notices: &[Notice]) {
        let at_s = ackgate_linux::now().since(self.start).0 / 1_000_000_000;
        let mut state = lock(&self.state);
        state.snapshot = snapshot;
        state.guarding_s = at_s;
        state.notices.extend(notices.iter().map(|notice| Told { at_s, text: notice.to_string() }));
        let old = state.notices.len().saturating_sub(NOTICES);
        state.notices.drain(..old);
    }
}

/// The statistics, read when they are asked for.
struct Statistics(Shared);

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Statistics")
    }
}

impl Collector for Statistics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = lock(&self.0).snapshot;
        for statistic in STATISTICS {
            let value = (statistic.read)(&snapshot);
            // The format ends the sentence itself.
            let help = statistic.help.trim_end_matches('.');
            match statistic.kind {
                Kind::Counter => {
                    let metric = ConstCounter::new(value);
                    let descriptor =
                        encoder.encode_descriptor(statistic.name, help, None, EncodeMetric::metric_type(&metric))?;
                    metric.encode(descriptor)?;
                }
                Kind::Gauge => {
                    let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                    let descriptor =
                        encoder.encode_descriptor(statistic.name, help, None, EncodeMetric::metric_type(&metric))?;
                    metric.encode(descriptor)?;
                }
            }
        }
        Ok(())
    }
}

/// The metrics' HTTP server.
struct Metrics {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    fn start(address: SocketAddr, state: &Shared) -> anyhow::Result<Self> {
        let server = Server::http(address)
            .map_err(|error| Refused(anyhow::anyhow!("could not listen for metrics on {address}: {error}")))?;
        let server = Arc::new(server);
        let identity = lock(state).identity.clone();
        let labels = [("device".into(), identity.device.clone().into())];
        let mut registry = Registry::with_prefix_and_labels("ackgate", labels.into_iter());
        let about =
            vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("guard", identity.guard), ("hold", identity.hold)];
        registry.register("build", "The guard and its version", Info::new(about));
        registry.register_collector(Box::new(Statistics(Arc::clone(state))));
        let ours = Arc::clone(&server);
        let serve = move || {
            for request in ours.incoming_requests() {
                let found = matches!(request.method(), Method::Get | Method::Head) && request.url() == "/metrics";
                // Whoever goes away before the answer is there does not matter.
                let _ = request.respond(if found { page(&registry) } else { not_found() });
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

fn page(registry: &Registry) -> Page {
    let mut body = String::new();
    match text::encode(&mut body, registry) {
        Ok(()) => {
            let header = Header::from_bytes("Content-Type", CONTENT_TYPE).expect("the header is plain text");
            Response::from_string(body).with_header(header)
        }
        Err(error) => Response::from_string(error.to_string()).with_status_code(StatusCode(500)),
    }
}

fn not_found() -> Page {
    Response::from_string("see /metrics\n").with_status_code(StatusCode(404))
}
