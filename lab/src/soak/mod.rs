//! A guard under mixed load for a long time: does its memory stay flat, does it forget what has ended, and do its counters add up?

mod load;
mod look;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use self::look::Looker;
pub use self::look::Sample;
use crate::guard::{Guard, GuardConfig};
use crate::harm::rounds::HOSTS;
use crate::harm::row::{Bench, RowError, spec};
use crate::incast::Lab;
use crate::machine::Machine;

/// Rate of the port in megabits per second.
const RATE: u64 = 200;
/// This share of the time is for memory to settle.
const WARM_UP: f64 = 0.2;
/// Growth of memory after that which is none, in KiB.
const GROWTH: u64 = 2048;
/// One frame in so many may be miscounted where the guard was rescued.
const NEARLY: u64 = 1000;
/// New connections a second that the load has to reach, or it tells little.
const CHURN: f64 = 1000.0;
/// How long the guard may take to forget connections that were closed: half-open ones are forgotten after 5 s.
const FORGETTING: Duration = Duration::from_secs(15);

/// What to run.
#[derive(Clone, Debug)]
pub struct SoakConfig {
    /// How long the load lasts.
    pub time: Duration,
    /// Time between two looks.
    pub every: Duration,
    /// The policy, as `ackgate run --guard` takes it; one on the fast path.
    pub policy: String,
    /// Another program than this one to guard with.
    pub program: Option<PathBuf>,
}

/// A promise, and whether it was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// What it is about.
    pub name: &'static str,
    /// Whether it was kept.
    pub kept: bool,
    /// What was seen.
    pub seen: String,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// How long the load lasted, s.
    pub time_s: f64,
    /// All looks.
    pub samples: Vec<Sample>,
    /// Connections per second that were opened, answered and closed.
    pub connections_per_s: f64,
    /// Goodput of the incast rounds in Mb/s, in the mean.
    pub incast_mbps: f64,
    /// The promises.
    pub promises: Vec<Promise>,
    /// What the guard said of itself in the end.
    pub guard_summary: serde_json::Value,
    /// What it ran on.
    pub machine: Machine,
}

impl SoakReport {
    /// Promises that were broken.
    #[must_use]
    pub fn broken(&self) -> usize {
        self.promises.iter().filter(|promise| !promise.kept).count()
    }
}

/// Runs it; `tell` hears of each look.
///
/// # Errors
/// [`RowError::Stopped`] when `stop` is set, and what keeps testbed, guard or load from running.
pub fn run_soak(config: &SoakConfig, stop: &AtomicBool, mut tell: impl FnMut(&Sample)) -> Result<SoakReport, RowError> {
    let lab = Lab::new(spec(HOSTS, RATE))?;
    load::prepare(lab.testbed())?;
    let guard = GuardConfig {
        program: config.program.clone(),
        policy: config.policy.clone(),
        max_hold: None,
        extra: Vec::new(),
    };
    let mut looker = Looker::new(lab.testbed(), Guard::start(lab.testbed(), &guard)?)?;
    let before = looker.frames()?;
    let bench = |stop| Bench { kind: None, guard: None, cc: "cubic", index: 0, stop };
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let mut samples = Vec::new();
    let (done, looked) = std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run(&lab, &bench(&over), config.time));
        let mut look_on = || {
            bench(stop).sleep(config.every)?;
            let sample = looker.look(began.elapsed())?;
            tell(&sample);
            samples.push(sample);
            Ok::<_, RowError>(())
        };
        let mut looked = Ok(());
        while looked.is_ok() && !load.is_finished() {
            looked = look_on();
        }
        over.store(looked.is_err(), Ordering::Relaxed);
        (load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), looked)
    });
    looked?;
    let done = done?;
    let time_s = began.elapsed().as_secs_f64();
    let left = settle(&mut looker, began, &bench(stop))?;
    tell(&left);
    let after = looker.frames()?;
    let guard_summary = looker.stop()?;
    let promises = vec![
        flat(&samples, config.time),
        forgotten(&left),
        consistent(after.since(before), guard_summary["rescues"].as_u64().unwrap_or(0)),
        guarding(&samples, config.time),
        Promise {
            name: "load",
            kept: done.connections_per_s >= CHURN,
            seen: format!("{:.0} new connections a second, at least {CHURN:.0}", done.connections_per_s),
        },
    ];
    samples.push(left);
    Ok(SoakReport {
        time_s,
        samples,
        connections_per_s: done.connections_per_s,
        incast_mbps: done.incast_mbps,
        promises,
        guard_summary,
        machine: Machine::this(),
    })
}

/// Waits until nothing is left of the load; how things stand then, or when the time for it is over.
fn settle(looker: &mut Looker<'_>, began: Instant, bench: &Bench<'_>) -> Result<Sample, RowError> {
    let until = Instant::now() + FORGETTING;
    loop {
        let sample = looker.look(began.elapsed())?;
        if is_empty(&sample) || Instant::now() > until {
            return Ok(sample);
        }
        bench.sleep(Duration::from_millis(100))?;
    }
}

const fn is_empty(sample: &Sample) -> bool {
    sample.flows == 0 && sample.held == 0 && sample.in_flight == 0
}

fn forgotten(left: &Sample) -> Promise {
    let Sample { flows, held, in_flight, .. } = left;
    let seen = format!(
        "{flows} connections, {held} held frames, {in_flight} bytes in flight left, after {FORGETTING:?} at most"
    );
    Promise { name: "nothing left", kept: is_empty(left), seen }
}

fn flat(samples: &[Sample], time: Duration) -> Promise {
    let warm = time.as_secs_f64() * WARM_UP;
    let most = |late: bool| samples.iter().filter(|one| (one.at_s > warm) == late).map(|one| one.rss_kib).max();
    let (Some(early), Some(late)) = (most(false), most(true)) else {
        return Promise { name: "memory", kept: false, seen: "too few looks: more time, or more often".into() };
    };
    let seen = format!("at most {early} KiB in the first fifth, {late} KiB later; a growth of {GROWTH} KiB is allowed");
    Promise { name: "memory", kept: late <= early + GROWTH, seen }
}

/// What is held while the guard is rescued may leave twice, or be counted and not leave: then the counters are nearly right.
fn consistent(frames: look::Frames, rescues: u64) -> Promise {
    let look::Frames { carried, accounted } = frames;
    let allowed = if rescues > 0 { carried / NEARLY } else { 0 };
    let seen = format!(
        "the device carried {carried} frames, the guard accounts for {accounted}; {allowed} may differ after {rescues} rescues"
    );
    Promise { name: "counters", kept: carried.abs_diff(accounted) <= allowed, seen }
}

/// Whether frames are held and released between any two looks while the load lasts.
fn guarding(samples: &[Sample], time: Duration) -> Promise {
    let loaded: Vec<&Sample> = samples.iter().filter(|one| one.at_s <= time.as_secs_f64()).collect();
    let idle = loaded.windows(2).find(|pair| pair[1].released == pair[0].released);
    let seen = match idle {
        Some(pair) => format!("nothing was released between {:.0} and {:.0} s", pair[0].at_s, pair[1].at_s),
        None => format!("frames were released between any two of {} looks", loaded.len()),
    };
    Promise { name: "guarding", kept: idle.is_none() && loaded.len() > 1, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Sample =
        Sample { at_s: 0.0, rss_kib: 10_000, flows: 0, senders: 0, held: 0, in_flight: 0, released: 0 };

    #[test]
    fn memory_that_grows_after_the_first_fifth_is_not_flat() {
        let memory = |late: u64| {
            let samples = [QUIET, Sample { at_s: 50.0, rss_kib: late, ..QUIET }];
            flat(&samples, Duration::from_secs(100)).kept
        };
        assert!(memory(10_000 + GROWTH));
        assert!(!memory(10_001 + GROWTH));
        assert!(!flat(&[QUIET], Duration::from_secs(100)).kept, "one look tells nothing");
    }

    #[test]
    fn whatever_is_left_breaks_the_promise() {
        assert!(forgotten(&QUIET).kept);
        for left in [Sample { flows: 1, ..QUIET }, Sample { held: 1, ..QUIET }, Sample { in_flight: 1, ..QUIET }] {
            assert!(!forgotten(&left).kept);
        }
    }

    #[test]
    fn a_frame_that_nobody_accounts_for_breaks_the_promise() {
        let seen = |carried, rescues| consistent(look::Frames { carried, accounted: 1000 }, rescues).kept;
        assert!(seen(1000, 0) && !seen(1001, 0) && !seen(999, 0));
        assert!(seen(1001, 1) && !seen(1002, 1), "a rescue excuses one in a thousand");
    }

    #[test]
    fn a_guard_that_holds_nothing_for_a_while_does_not_guard() {
        let at = |at_s, released| Sample { at_s, released, ..QUIET };
        let guards = |samples: &[Sample]| guarding(samples, Duration::from_secs(100)).kept;
        assert!(guards(&[at(10.0, 5), at(50.0, 500), at(90.0, 501), at(110.0, 501)]), "the load is over");
        assert!(!guards(&[at(10.0, 5), at(50.0, 5), at(90.0, 500)]));
        assert!(!guards(&[at(10.0, 5)]), "one look tells nothing");
    }
}
