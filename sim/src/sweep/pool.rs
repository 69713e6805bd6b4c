//! Runs points on all cores, the longest first, so that no core waits at the end for one that started late.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::Point;

/// Runs every point with `run` on `threads` threads (0: as many as there are cores) and hands each result to `done`,
/// one at a time, in the order in which they come.
///
/// # Errors
/// The first error of `run` or `done`; points that have not begun by then are left out.
pub fn run_all<R: Send, E: Send>(
    points: &[&Point],
    threads: usize,
    run: impl Fn(&Point) -> Result<R, E> + Sync,
    done: impl FnMut(&Point, R) -> Result<(), E> + Send,
) -> Result<(), E> {
    let mut order: Vec<&Point> = points.to_vec();
    order.sort_by_cached_key(|point| std::cmp::Reverse(point.work()));
    run_in_order(&order, threads, run, done)
}

/// The same, begun in the order that is given.
pub(super) fn run_in_order<R: Send, E: Send>(
    order: &[&Point],
    threads: usize,
    run: impl Fn(&Point) -> Result<R, E> + Sync,
    done: impl FnMut(&Point, R) -> Result<(), E> + Send,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let sink = Mutex::new((done, None));
    let worker = || {
        while let Some(point) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = run(point);
            let mut sink = sink.lock().expect("no thread panics while it holds the sink");
            let (done, failed) = &mut *sink;
            if failed.is_some() {
                return;
            }
            if let Err(error) = result.and_then(|report| done(point, report)) {
                *failed = Some(error);
                next.store(usize::MAX / 2, Ordering::Relaxed);
                return;
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if threads == 0 { cores } else { threads }.min(order.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    match sink.into_inner().expect("all threads ended well").1 {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
