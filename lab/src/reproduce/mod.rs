//! The papers' figures on this machine's kernel: every point of the plan on a testbed with the point's settings, and the same point
//! in the simulator.

mod course;
mod rows;
mod setup;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ackgate_papers::headlines::figures::Row;
use ackgate_papers::kernel::outcome::{Outcome, Witness};
use ackgate_papers::kernel::{Experiment, Plan, Point, simulated};
use ackgate_sim::scenario::{Epochs, Scenario, ScenarioError, Workload};
use thiserror::Error;

use crate::background::Background;
use crate::guard::{Guard, GuardError};
use crate::harm::row::RowError;
use crate::incast::{Lab, LabError, Progress};
use crate::load::LoadError;
use crate::machine::CpuTimes;
use crate::pause::sleep_until;
use crate::sockets::{Samples, Sockets};
use crate::testbed::TestbedError;
use crate::web::{self, Pages, WebError, run_pages};
use setup::Setup;

/// How long is looked at whether the machine is busy.
const LOOK: Duration = Duration::from_millis(500);
/// Flows that join and leave: four of them make seven phases.
const PHASES: u32 = 7;

/// What to run.
#[derive(Clone, Debug)]
pub struct ReproduceConfig {
    /// Fewer points and rounds.
    pub quick: bool,
    /// Rate of the link that stands for the paper's, in bits per second.
    pub rate: u64,
    /// Whether the simulator runs, too.
    pub simulate: bool,
    /// Another program than this one to guard with.
    pub program: Option<PathBuf>,
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A point of an experiment begins.
    Point(Witness, &'a str, &'a Point),
    /// A point has no figures, for this reason.
    Vain(&'a Point, &'a str),
}

/// What came of it.
#[derive(Debug)]
pub struct Reproduced {
    /// What was measured.
    pub outcome: Outcome,
    /// Largest share of the processors' time that other programs took at any look between experiments, 0 to 1.
    pub others: f64,
    /// Share of the processors' time that the hypervisor took away, 0 to 1.
    pub stolen: f64,
    /// What stopped it before the last experiment, if something did.
    pub stopped: Option<ReproduceError>,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// A scenario was refused.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The lab failed.
    #[error("{point}: {error}")]
    Lab {
        /// Which point.
        point: String,
        /// Why.
        error: LabError,
    },
    /// A connection of a long flow failed.
    #[error(transparent)]
    Flow(#[from] RowError),
    /// The web server or its client failed.
    #[error(transparent)]
    Web(#[from] WebError),
    /// An experiment that the lab has no load for.
    #[error("the lab cannot generate the load of {0}")]
    Workload(String),
    /// The machine does not tell how busy it is.
    #[error("cannot measure how busy this machine is: {0}")]
    Machine(std::io::Error),
    /// The simulator failed.
    #[error("simulation failed: {0}")]
    Simulated(#[from] ackgate_sim::Error),
}

impl ReproduceError {
    /// Whether a signal stopped it.
    #[must_use]
    pub const fn is_stop(&self) -> bool {
        matches!(
            self,
            Self::Lab { error: LabError::Load(LoadError::Stopped), .. }
                | Self::Flow(RowError::Stopped)
                | Self::Simulated(ackgate_sim::Error::Stopped)
                | Self::Web(WebError::Stopped)
        )
    }

    /// Whether what was asked for cannot be here, rather than that it went wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::Scenario(_) => true,
            Self::Lab { error, .. } => error.is_refusal(),
            Self::Web(error) => error.is_refusal(),
            Self::Flow(_) | Self::Simulated(_) | Self::Workload(_) | Self::Machine(_) => false,
        }
    }
}

/// Runs the plan. Nothing else of this program runs beside the kernel's points, which are real time.
///
/// # Errors
/// When a testbed, a guard or a simulation fails, or `stop` is set before there is anything to tell.
pub fn reproduce(
    plan: Plan,
    config: &ReproduceConfig,
    stop: &AtomicBool,
    mut tell: impl FnMut(Step<'_>),
) -> Result<Reproduced, ReproduceError> {
    let experiments = plan.experiments.clone();
    let (mut outcome, mut others, mut stopped) = (Outcome::new(plan), 0.0_f64, None);
    let before = CpuTimes::now().map_err(ReproduceError::Machine)?;
    let mut bench = Bench { config, stop, standing: None };
    let chosen = || experiments.iter().filter(|experiment| !(config.quick && experiment.slow));
    for experiment in chosen() {
        let points = outcome.plan.points(experiment, config.quick, config.rate)?;
        if points.iter().any(|point| matches!(point.scenario.workload, Workload::Epochs(_))) {
            web::require_server()?;
        }
    }
    for experiment in chosen() {
        others = others.max(busy()?);
        match bench.experiment(experiment, &mut outcome, &mut tell) {
            Ok(()) => {}
            // An hour's figures are not thrown away.
            Err(error) if error.is_stop() && outcome.measured().next().is_some() => {
                stopped = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let stolen = CpuTimes::now().map_err(ReproduceError::Machine)?.since(before).stolen_share();
    Ok(Reproduced { outcome, others, stolen, stopped })
}

/// Share of the processors' time that other programs take now, 0 to 1.
fn busy() -> Result<f64, ReproduceError> {
    CpuTimes::busy_share(LOOK).map_err(ReproduceError::Machine)
}

/// The testbed that stands, kept as long as points have the same.
struct Bench<'a> {
    config: &'a ReproduceConfig,
    stop: &'a AtomicBool,
    standing: Option<Standing>,
}

struct Standing {
    setup: Setup,
    // Dropped before the lab that its sockets are in.
    sockets: Sockets,
    lab: Lab,
}

impl Bench<'_> {
    /// All points of an experiment, on the kernel and in the simulator.
    fn experiment(
        &mut self,
        experiment: &Experiment,
        outcome: &mut Outcome,
        tell: &mut impl FnMut(Step<'_>),
    ) -> Result<(), ReproduceError> {
        let config = self.config;
        let points = outcome.plan.points(experiment, config.quick, config.rate)?;
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); points.len()];
        // Runs of several curves take turns, so that what the machine does meanwhile falls on all of them.
        for run in 0..points.iter().map(|point| point.runs).max().unwrap_or(0) {
            for (point, rows) in points.iter().zip(&mut rows) {
                tell(Step::Point(Witness::Kernel, &experiment.id, point));
                match self.measure(point, run) {
                    Ok(more) => rows.extend(more),
                    Err(error) if error.is_stop() || error.is_refusal() => return Err(error),
                    // What else was measured stays.
                    Err(error) => {
                        self.standing = None;
                        tell(Step::Vain(point, &error.to_string()));
                    }
                }
            }
        }
        self.standing = None;
        for (point, rows) in points.iter().zip(rows) {
            outcome.add(Witness::Kernel, point, rows);
            if config.simulate {
                tell(Step::Point(Witness::Simulator, &experiment.id, point));
                outcome.add(Witness::Simulator, point, simulated::simulated(point, self.stop)?);
            }
        }
        Ok(())
    }

    /// One run of a point, of this number.
    fn measure(&mut self, point: &Point, run: u32) -> Result<Vec<Row>, ReproduceError> {
        let failed = |error| ReproduceError::Lab { point: format!("{} at {}", point.curve, point.x), error };
        let setup = Setup::of(point, self.config.program.as_ref());
        let stop = self.stop;
        match (&point.scenario.workload, setup.load(point)) {
            (_, Some(load)) => {
                let standing = self.stand(setup).map_err(failed)?;
                let mut samples = vec![standing.samples().map_err(failed)?];
                let mut unread = None;
                let beside = background(&standing.lab, &standing.setup, &point.scenario).map_err(failed)?;
                let (lab, sockets) = (&mut standing.lab, &standing.sockets);
                let began = Instant::now();
                let report = lab.run(&load, false, stop, |progress| {
                    if let Progress::Round(_) = progress {
                        match sockets.samples() {
                            Ok(now) => samples.push(now),
                            Err(error) => unread = Some(error),
                        }
                    }
                });
                let report = report.map_err(failed)?;
                if let Some(error) = unread {
                    return Err(failed(bpf(&error)));
                }
                let beside = beside.map(|flow| flow.received() as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6);
                Ok(rows::of_rounds(point, &report, &samples, beside))
            }
            (Workload::Long(_), None) => self.course(point, setup, failed),
            (Workload::Epochs(epochs), None) => self.pages(point, setup, epochs, run),
            (workload, None) => Err(ReproduceError::Workload(format!("{workload:?}"))),
        }
    }

    fn course(
        &mut self,
        point: &Point,
        setup: Setup,
        failed: impl Fn(LabError) -> ReproduceError,
    ) -> Result<Vec<Row>, ReproduceError> {
        let stop = self.stop;
        let standing = self.stand(setup).map_err(&failed)?;
        let testbed = standing.lab.testbed();
        let guard = standing.setup.guard.as_ref().map(|config| Guard::start(testbed, config)).transpose();
        let guard = guard.map_err(|error| failed(error.into()))?;
        let phase = Duration::from_secs(point.limit_s.into()) / PHASES;
        let row = course::course(testbed, &standing.setup, point.scenario.senders as usize, phase, |time| {
            sleep_until(stop, Instant::now() + time).ok_or(RowError::Stopped)
        })?;
        let ended: Result<_, GuardError> = guard.map(Guard::stop).transpose();
        ended.map_err(|error| failed(error.into()))?;
        Ok(vec![point.motion.restore(row)])
    }

    fn pages(&mut self, point: &Point, setup: Setup, epochs: &Epochs, run: u32) -> Result<Vec<Row>, ReproduceError> {
        let pages = Pages {
            flows: point.scenario.background.iter().map(|group| group.senders as usize).sum(),
            pages: point.scenario.senders as usize,
            bytes: epochs.size,
            gap: Duration::from_nanos(epochs.mean_gap.0),
            bursts: epochs.epochs,
            start: Duration::from_nanos(epochs.start.0),
            interval: Duration::from_nanos(epochs.interval.0),
            cc: setup.cc.clone().unwrap_or_else(|| "reno".into()),
            seed: point.scenario.seed + u64::from(run),
            guard: setup.guard.clone(),
            spec: setup.spec,
        };
        // It builds its own testbed.
        self.standing = None;
        let report = run_pages(&pages, self.stop)?;
        Ok(vec![rows::of_pages(point, &report)])
    }

    /// The testbed of a setup; the one that stands where it is the same.
    fn stand(&mut self, setup: Setup) -> Result<&mut Standing, LabError> {
        // What runs on it may differ.
        let same = |standing: &Standing| {
            (&standing.setup.spec, &standing.setup.sysctls, standing.setup.window)
                == (&setup.spec, &setup.sysctls, setup.window)
        };
        match self.standing.take() {
            Some(standing) if same(&standing) => self.standing = Some(Standing { setup, ..standing }),
            other => {
                drop(other);
                let lab = Lab::new(setup.spec.clone())?;
                let testbed = lab.testbed();
                for host in
                    (0..setup.spec.hosts).map(|k| testbed.sender(k)).chain([testbed.receiver()]).chain(testbed.beside())
                {
                    let told = |source| LabError::Io { what: "setting up a host", source };
                    host.set_sysctls(&setup.sysctls).map_err(told)?;
                }
                let sockets = Sockets::start(testbed, setup.window).map_err(|error| bpf(&error))?;
                self.standing = Some(Standing { setup, sockets, lab });
            }
        }
        Ok(self.standing.as_mut().expect("it has just been put there"))
    }
}

/// The long flow beside the receiver, where the scenario has one.
fn background(lab: &Lab, setup: &Setup, scenario: &Scenario) -> Result<Option<Background>, LabError> {
    let rate = scenario.background.iter().find_map(|group| match &group.workload {
        Some(Workload::Long(long)) => long.rate,
        _ => None,
    });
    rate.map(|rate| Background::start(lab.testbed(), rate.0, setup.cc.as_deref())).transpose()
}

impl Standing {
    fn samples(&self) -> Result<Samples, LabError> {
        self.sockets.samples().map_err(|error| bpf(&error))
    }
}

fn bpf(error: &ackgate_linux::Error) -> LabError {
    LabError::Testbed(TestbedError::Bpf { what: "the program at the senders' sockets", message: error.to_string() })
}
