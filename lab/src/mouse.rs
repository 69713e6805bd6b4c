//! A mouse among elephants: small requests on one connection while many others carry bulk to the same receiver.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::guard::{Guard, GuardConfig};
use crate::incast::{IncastConfig, Lab, LabError, pull_config};
use crate::load::pull::{Event, PullConfig, Volume};
use crate::load::report::{Quantiles, Round};

/// Time from one request to the next, as far as answers come as fast. Without a pace most requests would fall into the
/// pauses between bursts, for there they are answered soonest.
const PACE: Duration = Duration::from_millis(2);
/// Requests that are not measured.
const WARMUP: u32 = 5;
/// More than fit into any time: the time limit ends it.
const REQUESTS: u32 = 100_000;

/// What the mouse saw, and what the others got meanwhile.
#[derive(Clone, Debug, Serialize)]
pub struct MouseReport {
    /// Name of the guard's policy, or `none`.
    pub guard: String,
    /// Requests of the mouse that were answered.
    pub requests: u32,
    /// Bytes of each answer.
    pub bytes: u64,
    /// From a request at any moment to the last byte of its answer, in milliseconds: requests that could not be made while
    /// one was waiting count as well.
    pub answer_ms: Quantiles,
    /// Retransmission timeouts of the mouse's connection.
    pub timeouts: u64,
    /// Bulk connections.
    pub connections: usize,
    /// Bytes of each of them in each round.
    pub bulk_bytes: u64,
    /// Their goodput in megabits per second.
    pub bulk_goodput_mbps: f64,
    /// Rounds that they completed.
    pub bulk_rounds: u32,
    /// Retransmission timeouts of all senders.
    pub rto_timeouts: u64,
}

/// Runs `bulk` until its deadline, and beside it, from the end of its warm-up, a request for `bytes` every 2 ms.
///
/// # Errors
/// When a load or the guard fails, `stop` is set, or either completes nothing in time.
pub fn run_mouse(lab: &Lab, bulk: &IncastConfig, bytes: u64, stop: &AtomicBool) -> Result<MouseReport, LabError> {
    let guard = bulk.guard.as_ref().map(|guard: &GuardConfig| Guard::start(lab.testbed(), guard)).transpose()?;
    let until = Instant::now() + bulk.deadline;
    let hosts = lab.testbed().spec().hosts;
    let bulk_load = PullConfig { rounds: REQUESTS, ..pull_config(bulk, hosts) };
    let mouse = PullConfig {
        connections: 1,
        volume: Volume::PerConnection(bytes),
        warmup: WARMUP,
        pace: Some(PACE),
        ..bulk_load.clone()
    };
    let (warm, warmed_up) = channel();
    let (mouse_report, bulk_report) = std::thread::scope(|scope| {
        let bulk_thread = scope.spawn(|| {
            lab.load(bulk_load, stop, |event| {
                if let Event::WarmedUp = event {
                    // The mouse may have given up.
                    let _ = warm.send(());
                }
            })
        });
        // Whether or not the others get warm in time, the mouse has its run.
        let _ = warmed_up.recv_timeout(bulk.deadline / 2);
        let deadline = until.saturating_duration_since(Instant::now());
        let mouse_report = lab.load(PullConfig { deadline, ..mouse }, stop, |_| {});
        (mouse_report, bulk_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    guard.map(Guard::stop).transpose()?;
    let (mouse, bulk_report) = (mouse_report?, bulk_report?);
    Ok(MouseReport {
        guard: bulk.guard.as_ref().map_or_else(|| "none".into(), |guard| guard.policy.clone()),
        requests: mouse.rounds,
        bytes,
        answer_ms: Quantiles::of_micros(&mut at_any_moment(&mouse.per_round)),
        timeouts: mouse.senders.flow_rtos,
        connections: bulk.connections,
        bulk_bytes: bulk.volume.per_connection(bulk.connections),
        bulk_goodput_mbps: bulk_report.goodput_mbps,
        bulk_rounds: bulk_report.rounds,
        rto_timeouts: bulk_report.rto_timeouts,
    })
}

/// Waits in microseconds of a request every [`PACE`], although the next was only made when the one before was answered:
/// a wait that is longer than the pace stands for those of the requests left out, each shorter by one pace.
fn at_any_moment(answers: &[Round]) -> Vec<u64> {
    let pace = PACE.as_secs_f64() * 1e3;
    let waits = answers
        .iter()
        .flat_map(|answer| std::iter::successors(Some(answer.ms), move |ms| (ms - pace > 0.0).then_some(ms - pace)));
    // Times are not negative, and far below what an integer holds.
    waits.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3).as_micros().try_into().unwrap_or(u64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::counters::SenderCounters;

    #[test]
    fn a_long_wait_stands_for_the_requests_that_it_kept_from_being_made() {
        let answer = |ms| Round { index: 0, ms, senders: SenderCounters::default() };
        assert_eq!(at_any_moment(&[answer(0.5), answer(7.0)]), [500, 7000, 5000, 3000, 1000]);
    }
}
