//! The incast experiment: a testbed, its un-congested ceiling, then barrier-synchronised rounds, guarded or not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::dctcp;
use crate::guard::{Guard, GuardConfig, GuardError};
use crate::load::pull::{Event, PullConfig, Start, Volume, pull};
use crate::load::report::{LoadReport, Quantiles, Round};
use crate::load::serve::Server;
use crate::load::{LoadError, PORT};
use crate::machine::{CpuTimes, Machine, backlog_drops};
use crate::testbed::{PortStats, Spec, Testbed, TestbedError, framing_limit_mbps};

/// A machine that reaches less than this share of the framing limit with a deep buffer is too slow for the rate.
const MACHINE_SHARE: f64 = 0.9;

/// Most threads of the sending ends, among which the hosts are shared out. Several, so that hosts send at the same time
/// as far as the processors allow.
const SERVING_THREADS: usize = 8;
/// Rates that [`Lab::choose_rate`] chooses from, in bits per second.
const RATES: [u64; 3] = [1_000_000_000, 500_000_000, 200_000_000];
/// Share of the framing limit that is reached without congestion by a machine that carries a rate without effort.
const EFFORTLESS_GOODPUT: f64 = 0.95;
/// Share of its processors' time that it takes at most.
const EFFORTLESS_CPU: f64 = 0.4;

/// Why there is no result.
#[derive(Debug, Error)]
pub enum LabError {
    /// The testbed failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The load failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The guard failed.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Anything else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct IncastConfig {
    /// Connections, spread over the testbed's hosts.
    pub connections: usize,
    /// Bytes per round.
    pub volume: Volume,
    /// Measured rounds.
    pub rounds: u32,
    /// Rounds before them.
    pub warmup: u32,
    /// Senders' congestion control; `None` is reno, as in the papers and as the testbed's hosts are set. `dctcp` runs at
    /// both ends, and wants a testbed that marks ([`Spec::mark`]).
    pub cc: Option<String>,
    /// Clamp of the segment size.
    pub mss: Option<u32>,
    /// Who starts a round.
    pub start: Start,
    /// New connections in every round.
    pub fresh: bool,
    /// Over IPv6.
    pub ipv6: bool,
    /// Time limit for the rounds.
    pub deadline: Duration,
    /// The guard; `None` leaves the receiver alone.
    pub guard: Option<GuardConfig>,
}

/// What came of it. The whole is one JSON object.
#[derive(Clone, Debug, Serialize)]
pub struct IncastReport {
    /// Connections.
    pub connections: usize,
    /// Sender hosts that they came from.
    pub hosts: usize,
    /// Payload of each connection in each round, in bytes.
    pub bytes: u64,
    /// Measured rounds.
    pub rounds: u32,
    /// Rounds asked for; more than `rounds` when the deadline passed first.
    pub rounds_asked: u32,
    /// Name of the guard's policy, or `none`.
    pub guard: String,
    /// Senders' congestion control.
    pub cc: String,
    /// Rate of the bottleneck in megabits per second.
    pub rate_mbps: f64,
    /// Buffer of the bottleneck in bytes.
    pub buffer: u64,
    /// Payload over time in the measured rounds, in megabits per second.
    pub goodput_mbps: f64,
    /// The same machine's goodput through the same switch with a buffer in which nothing is lost, a few connections; 0
    /// when it was not measured.
    pub ceiling_mbps: f64,
    /// What Ethernet's framing allows at this rate.
    pub framing_limit_mbps: f64,
    /// The machine did not reach the rate even without congestion: the goodput says more about it than about TCP.
    pub machine_limited: bool,
    /// What a reader should know about this result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Measured rounds in which a sender's retransmission timer fired.
    pub rounds_with_timeout: u32,
    /// Timers that fired.
    pub rto_timeouts: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Frames that the bottleneck dropped, in the measured rounds.
    pub switch_drops: u64,
    /// Frames that this machine dropped beside it, for want of processors ([`backlog_drops`]): what they cost is not the switch's doing.
    pub backlog_drops: u64,
    /// Length of a round.
    pub round_ms: Quantiles,
    /// Completion time of one connection's transfer.
    pub flow_ms: Quantiles,
    /// Most ACKs that the guard held at once; `null` unguarded, as the next ones.
    pub held_max: Option<u64>,
    /// How long it held them, in microseconds.
    pub hold_us: Option<Value>,
    /// All that the guard said about itself.
    pub guard_summary: Option<Value>,
    /// From the first measured round's begin to the last one's end, and a round that was not complete in time, in seconds: what CPU
    /// times are of.
    pub wall_s: f64,
    /// CPU time of the whole system in the measured rounds, in seconds: senders, switch, receiver and guard share it.
    pub system_cpu_s: f64,
    /// The same per gigabyte of payload.
    pub cpu_s_per_gb: f64,
    /// Time that the processors were not idle in the measured rounds, in seconds: measured, where `system_cpu_s` is
    /// sampled by the timer tick.
    pub not_idle_s: f64,
    /// Time that the hypervisor took away meanwhile, in seconds.
    pub steal_s: f64,
    /// All that the load measured.
    pub load: LoadReport,
    /// What it was measured on.
    pub machine: Machine,
}

/// What happens while an experiment runs.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The ceiling, in megabits per second.
    Ceiling(f64),
    /// A measured round is complete.
    Round(&'a Round),
}

/// A testbed with its senders serving, ready for one measurement after another.
pub struct Lab {
    testbed: Testbed,
    stop_serving: Arc<AtomicBool>,
    serving: Vec<JoinHandle<Result<(), LoadError>>>,
    ceiling: Option<(u64, f64)>,
}

impl LabError {
    /// Whether what was asked for cannot be, or not on this host, rather than that it went wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::Testbed(e) => e.is_refusal(),
            Self::Load(e) => e.is_refusal(),
            Self::Guard(GuardError::Start { .. } | GuardError::NotReady { .. }) => true,
            Self::Guard(GuardError::End(_)) | Self::Io { .. } => false,
        }
    }
}

impl Lab {
    /// Builds the testbed and starts the sending ends.
    ///
    /// # Errors
    /// When either fails; nothing is left behind.
    pub fn new(spec: Spec) -> Result<Self, LabError> {
        let testbed = Testbed::build(spec)?;
        let mut servers = Vec::new();
        for _ in 0..SERVING_THREADS.min(testbed.spec().hosts) {
            servers.push(Server::new()?);
        }
        for k in 0..testbed.spec().hosts {
            let at = k % servers.len();
            let server = &mut servers[at];
            testbed
                .sender(k)
                .inside(move || {
                    for ipv6 in [false, true] {
                        server.listen(SocketAddr::new(Testbed::sender_address(k, ipv6), PORT), None)?;
                    }
                    Ok::<_, LoadError>(())
                })
                .map_err(|source| LabError::Io { what: "entering a sender's namespace", source })??;
        }
        let stop_serving = Arc::new(AtomicBool::new(false));
        let serve = |mut server: Server| {
            let flag = Arc::clone(&stop_serving);
            std::thread::spawn(move || server.run(&flag))
        };
        let serving = servers.into_iter().map(serve).collect();
        Ok(Self { testbed, stop_serving, serving, ceiling: None })
    }

    /// The testbed.
    #[must_use]
    pub const fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// Goodput in megabits per second with a buffer in which nothing is lost: up to eight connections that share the same
    /// volume as `config`'s. Measured once per volume.
    ///
    /// # Errors
    /// When the load or tc fails, or `stop` is set.
    pub fn ceiling(&mut self, config: &IncastConfig, stop: &AtomicBool) -> Result<f64, LabError> {
        // Long enough that a round's start and end do not count for much (4 MB take 34 ms at 1 Gb/s), and no longer than
        // it takes to see.
        let total = config.volume.per_connection(config.connections).saturating_mul(config.connections as u64);
        let total = total.clamp(4 << 20, 64 << 20);
        if let Some((of, mbps)) = self.ceiling
            && of == total
        {
            return Ok(mbps);
        }
        let few = IncastConfig {
            connections: config.connections.min(8),
            volume: Volume::Total(total),
            rounds: 5,
            warmup: 3,
            fresh: false,
            ..config.clone()
        };
        self.testbed.set_deep_buffer(true)?;
        let report = self.pull(&few, stop, |_| {});
        self.testbed.set_deep_buffer(false)?;
        let mbps = report?.goodput_mbps;
        self.ceiling = Some((total, mbps));
        Ok(mbps)
    }

    /// Sets the bottleneck to the highest usual rate that this machine carries without effort, and returns it in bits per
    /// second: so that senders together outrun the port by far, as many hosts with links of their own do, and a guard has
    /// CPU time to run. A slower or busier machine gets the lowest of these rates.
    ///
    /// # Errors
    /// When the load or tc fails, or `stop` is set.
    pub fn choose_rate(&mut self, ipv6: bool, stop: &AtomicBool) -> Result<u64, LabError> {
        let trial = IncastConfig {
            connections: 8,
            volume: Volume::PerConnection(512 * 1024),
            rounds: 5,
            warmup: 2,
            cc: None,
            mss: None,
            start: Start::Pull,
            fresh: false,
            ipv6,
            deadline: Duration::from_secs(30),
            guard: None,
        };
        let lowest = RATES[RATES.len() - 1];
        for rate in RATES {
            self.testbed.set_rate(rate)?;
            self.ceiling = None;
            if rate == lowest {
                break;
            }
            self.testbed.set_deep_buffer(true)?;
            let report = self.run(&trial, false, stop, |_| {});
            self.testbed.set_deep_buffer(false)?;
            let report = report?;
            let available = report.wall_s * report.machine.cpus as f64;
            if report.goodput_mbps >= EFFORTLESS_GOODPUT * report.framing_limit_mbps
                && report.not_idle_s <= EFFORTLESS_CPU * available
            {
                return Ok(rate);
            }
        }
        Ok(lowest)
    }

    /// Runs one measurement. With `with_ceiling` the ceiling is measured first, if it is not known yet.
    ///
    /// # Errors
    /// When the load, the guard or tc fails, or `stop` is set.
    pub fn run(
        &mut self,
        config: &IncastConfig,
        with_ceiling: bool,
        stop: &AtomicBool,
        mut tell: impl FnMut(Progress<'_>) + Send,
    ) -> Result<IncastReport, LabError> {
        let ceiling = if with_ceiling { self.ceiling(config, stop)? } else { 0.0 };
        tell(Progress::Ceiling(ceiling));
        let guard = config.guard.as_ref().map(|guard| Guard::start(&self.testbed, guard)).transpose()?;
        let mut marks = Marks::default();
        let load = self.pull(config, stop, |event| match event {
            Event::WarmedUp => marks.begin(&self.testbed),
            Event::Round(round) => tell(Progress::Round(round)),
            Event::Measured => marks.end(&self.testbed),
        })?;
        let summary = guard.map(Guard::stop).transpose()?;
        self.report(config, load, ceiling, marks, summary)
    }

    fn pull(
        &self,
        config: &IncastConfig,
        stop: &AtomicBool,
        tell: impl FnMut(Event<'_>) + Send,
    ) -> Result<LoadReport, LabError> {
        self.load(pull_config(config, self.testbed.spec().hosts), stop, tell)
    }

    /// Runs a load in the receiver's namespace, and nothing else.
    pub(crate) fn load(
        &self,
        mut config: PullConfig,
        stop: &AtomicBool,
        tell: impl FnMut(Event<'_>) + Send,
    ) -> Result<LoadReport, LabError> {
        if config.cc.as_deref() == Some(dctcp::NAME) {
            let name = dctcp::name()?.to_owned();
            (config.cc, config.own_cc) = (Some(name.clone()), Some(name));
        }
        let report = self
            .testbed
            .receiver()
            .inside(|| pull(&config, stop, tell))
            .map_err(|source| LabError::Io { what: "entering the receiver's namespace", source })??;
        Ok(report)
    }

    fn report(
        &self,
        config: &IncastConfig,
        load: LoadReport,
        ceiling_mbps: f64,
        marks: Marks,
        summary: Option<Value>,
    ) -> Result<IncastReport, LabError> {
        let spec = self.testbed.spec();
        let Between { cpu, wall, switch_drops, backlog_drops } = marks.between()?;
        let machine = Machine::this();
        let framing_limit_mbps = framing_limit_mbps(spec.rate, config.ipv6, config.mss);
        let machine_limited = ceiling_mbps > 0.0 && ceiling_mbps < MACHINE_SHARE * framing_limit_mbps;
        let mut notes = Vec::new();
        if machine_limited {
            notes.push(format!(
                "this machine reaches only {ceiling_mbps:.0} of {framing_limit_mbps:.0} Mb/s without congestion: it is too \
                 slow or too busy for this rate; take a lower --rate"
            ));
        }
        if backlog_drops > 0 {
            notes.push(format!(
                "this machine dropped {backlog_drops} frames that its processors could not take in time, and not the switch: take a \
                 lower --rate"
            ));
        }
        if load.rounds < load.rounds_asked {
            notes.push(format!("the deadline passed after {} of {} rounds", load.rounds, load.rounds_asked));
        }
        Ok(IncastReport {
            connections: load.connections,
            hosts: load.servers,
            bytes: config.volume.per_connection(config.connections),
            rounds: load.rounds,
            rounds_asked: load.rounds_asked,
            guard: config.guard.as_ref().map_or_else(|| "none".into(), |g| g.policy.clone()),
            cc: config.cc.clone().unwrap_or_else(|| "reno".into()),
            rate_mbps: spec.rate as f64 / 1e6,
            buffer: spec.buffer,
            goodput_mbps: load.goodput_mbps,
            ceiling_mbps,
            framing_limit_mbps,
            machine_limited,
            message: (!notes.is_empty()).then(|| notes.join("; ")),
            rounds_with_timeout: load.rounds_with_timeout,
            rto_timeouts: load.rto_timeouts,
            retransmits: load.retransmits,
            switch_drops,
            backlog_drops,
            round_ms: load.round_ms,
            flow_ms: load.flow_ms,
            held_max: summary.as_ref().and_then(|s| s["held_max"].as_u64()),
            hold_us: summary.as_ref().map(|s| s["hold_us"].clone()),
            guard_summary: summary,
            wall_s: wall,
            system_cpu_s: cpu.busy(),
            cpu_s_per_gb: cpu.busy() / (load.bytes as f64 / 1e9),
            not_idle_s: (wall * machine.cpus as f64 - cpu.idle - cpu.steal).max(0.0),
            steal_s: cpu.steal,
            load,
            machine,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The sockets must be gone before the testbed removes their namespaces.
        self.stop_serving.store(true, Ordering::Relaxed);
        for serving in self.serving.drain(..) {
            match serving.join() {
                Ok(Ok(())) => {}
                Ok(Err(e)) => eprintln!("ackgate lab: the sending end failed: {e}"),
                Err(_) => eprintln!("ackgate lab: the sending end panicked"),
            }
        }
    }
}

/// The machine and the port when measurement began and when it ended.
#[derive(Default)]
struct Marks {
    port: [Option<Result<PortStats, TestbedError>>; 2],
    cpu: [Option<std::io::Result<CpuTimes>>; 2],
    backlog: [Option<std::io::Result<u64>>; 2],
    clock: [Option<Instant>; 2],
}

/// What was used between two marks, for how many seconds, and what was dropped.
#[derive(Default)]
struct Between {
    cpu: CpuTimes,
    wall: f64,
    switch_drops: u64,
    backlog_drops: u64,
}

impl Marks {
    // The CPU time that asking tc takes lies outside both marks.
    fn begin(&mut self, testbed: &Testbed) {
        self.port[0] = Some(testbed.port_stats());
        self.backlog[0] = Some(backlog_drops());
        self.cpu[0] = Some(CpuTimes::now());
        self.clock[0] = Some(Instant::now());
    }

    fn end(&mut self, testbed: &Testbed) {
        self.clock[1] = Some(Instant::now());
        self.cpu[1] = Some(CpuTimes::now());
        self.backlog[1] = Some(backlog_drops());
        self.port[1] = Some(testbed.port_stats());
    }

    fn between(self) -> Result<Between, LabError> {
        let told = |source| LabError::Io { what: "reading /proc", source };
        let (
            [Some(port0), Some(port1)],
            [Some(cpu0), Some(cpu1)],
            [Some(backlog0), Some(backlog1)],
            [Some(clock0), Some(clock1)],
        ) = (self.port, self.cpu, self.backlog, self.clock)
        else {
            return Ok(Between::default());
        };
        Ok(Between {
            cpu: cpu1.map_err(told)?.since(cpu0.map_err(told)?),
            wall: (clock1 - clock0).as_secs_f64(),
            switch_drops: port1?.drops.saturating_sub(port0?.drops),
            backlog_drops: backlog1.map_err(told)?.saturating_sub(backlog0.map_err(told)?),
        })
    }
}

/// The load of a measurement, spread over `hosts` senders.
pub(crate) fn pull_config(config: &IncastConfig, hosts: usize) -> PullConfig {
    PullConfig {
        servers: (0..hosts).map(|k| SocketAddr::new(Testbed::sender_address(k, config.ipv6), PORT)).collect(),
        connections: config.connections,
        volume: config.volume,
        rounds: config.rounds,
        warmup: config.warmup,
        start: config.start,
        fresh: config.fresh,
        cc: config.cc.clone(),
        own_cc: None,
        mss: config.mss,
        quickack: false,
        pace: None,
        deadline: config.deadline,
    }
}
