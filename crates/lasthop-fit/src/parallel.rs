//! Work on several threads, with results that do not depend on their number.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Function that returns true once the result is no longer wanted.
pub(crate) type Stop<'a> = &'a dyn Fn() -> bool;

/// Time between calls of `stop` while other threads work.
const POLL: Duration = Duration::from_millis(5);

/// Returns the results of `of` for 0 to `count - 1`, in order, from as many threads as there are cores. Only the
/// calling thread calls `stop`, which thus may be bound to it; `of` gets a function that returns its last answer.
pub(crate) fn map<T: Send>(count: usize, stop: Stop<'_>, of: impl Fn(usize, Stop<'_>) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let claim = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < count);
    let here = || {
        let stops = stopped.load(Ordering::Relaxed) || stop();
        stopped.store(stops, Ordering::Relaxed);
        stops
    };
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    thread::scope(|scope| {
        let (done, arriving) = mpsc::channel();
        for _ in 1..threads {
            let (done, claim, of, stopped) = (done.clone(), &claim, &of, &stopped);
            let work = move || {
                while let Some(at) = claim() {
                    let result = of(at, &|| stopped.load(Ordering::Relaxed));
                    // The receiver lives as long as this thread.
                    let _ = done.send((at, result));
                }
            };
            // With fewer threads the work is the same.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        drop(done);
        while let Some(at) = claim() {
            results[at] = Some(of(at, &here));
        }
        loop {
            match arriving.recv_timeout(POLL) {
                Ok((at, result)) => results[at] = Some(result),
                Err(RecvTimeoutError::Timeout) => {
                    here();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::map;

    /// Results are in the order of their numbers, and a `stop` that belongs to one thread reaches the others.
    #[test]
    fn results_are_in_order_and_all_threads_stop() {
        assert_eq!(map(100, &|| false, |at, _| at * at), (0..100).map(|at| at * at).collect::<Vec<_>>());
        assert!(map(0, &|| false, |at, _| at).is_empty());
        let calls = Cell::new(0);
        let stop = || {
            calls.set(calls.get() + 1);
            calls.get() > 3
        };
        // Each waits until told to stop.
        let ended = map(8, &stop, |at, stop| {
            while !stop() {
                std::thread::yield_now();
            }
            at
        });
        assert_eq!(ended, (0..8).collect::<Vec<_>>());
    }
}
