//! PAC's Figure 12: long flows that come one by one and go one by one.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ackgate_papers::headlines::figures::Row;
use ackgate_papers::headlines::probe::jain;

use super::setup::Setup;
use crate::harm::row::{RowError, io_error};
use crate::harm::streams::{End, open};
use crate::testbed::Testbed;

/// The part of a phase that fairness is given to settle: 2 s of 10.
const SETTLING: f64 = 0.2;

/// Runs `flows` flows: one more each phase, then one less each phase. The least aggregate and the least fairness of all phases.
///
/// # Errors
/// When a connection cannot be opened; `Stopped` when `sleep` says so.
pub(super) fn course(
    testbed: &Testbed,
    setup: &Setup,
    flows: usize,
    phase: Duration,
    sleep: impl Fn(Duration) -> Result<(), RowError>,
) -> Result<Row, RowError> {
    let cc = setup.cc.clone().unwrap_or_else(|| "reno".into());
    let pairs = open(testbed, flows, &move |socket, end, _| match end {
        End::Sender => socket.set_tcp_congestion(cc.as_bytes()),
        End::Receiver => Ok(()),
    })?;
    let received: Vec<AtomicU64> = (0..flows).map(|_| AtomicU64::new(0)).collect();
    let all = || -> Vec<u64> { received.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
    let (mut least, mut fairness) = (f64::INFINITY, f64::INFINITY);
    std::thread::scope(|scope| {
        let mut run = || -> Result<(), RowError> {
            for number in 0..2 * flows - 1 {
                if let Some((pair, count)) = pairs.get(number).zip(received.get(number)) {
                    let mut sender = &pair.sender;
                    scope.spawn(move || while sender.write_all(&[0x5a; 65_536]).is_ok() {});
                    let mut receiver = &pair.receiver;
                    scope.spawn(move || {
                        let mut buffer = vec![0; 256 * 1024];
                        while let Ok(len @ 1..) = receiver.read(&mut buffer) {
                            count.fetch_add(len as u64, Ordering::Relaxed);
                        }
                    });
                } else {
                    close(&pairs[number - flows])?;
                }
                let (began, begin) = (all(), Instant::now());
                sleep(phase.mul_f64(SETTLING))?;
                let settled = all();
                sleep(phase.mul_f64(1.0 - SETTLING))?;
                let ended = all();
                let first = (number + 1).saturating_sub(flows);
                let shares: Vec<f64> =
                    (first..=number.min(flows - 1)).map(|i| (ended[i] - settled[i]) as f64).collect();
                let moved: u64 = (0..flows).map(|i| ended[i] - began[i]).sum();
                least = least.min(moved as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e6);
                fairness = fairness.min(jain(&shares));
            }
            Ok(())
        };
        let done = run();
        // Whatever happened, the threads end with their connections.
        pairs.iter().for_each(|pair| drop(close(pair)));
        done
    })?;
    Ok([("phase_mbps".to_owned(), least), ("phase_jain".to_owned(), fairness)].into())
}

fn close(pair: &crate::harm::streams::Pair) -> Result<(), RowError> {
    // The receiver's end may have been closed by the sender's.
    let _ = pair.receiver.shutdown(Shutdown::Both);
    pair.sender.shutdown(Shutdown::Both).map_err(io_error("closing a connection"))
}
