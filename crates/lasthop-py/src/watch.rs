//! Long work: it runs on other threads, without the interpreter lock, while this one watches for Ctrl-C.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lasthop_study::replicate::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Interval between checks.
const EVERY: Duration = Duration::from_millis(50);

/// State shared with the work: progress and stop flag.
#[derive(Default)]
pub struct Watch {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Progress for Watch {
    fn run_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Abandons runs after Ctrl-C.
    fn abandoned(&self) -> bool {
        self.stopped()
    }
}

/// Runs `work`, and from time to time calls `progress` with the number of finished runs and `total`. A signal whose
/// handler raises, or an exception of `progress`, stops the work and is raised.
pub fn watched<T: Send>(
    py: Python<'_>,
    total: u64,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let mut told = None;
    let mut tell = |watch: &Watch| -> PyResult<()> {
        let done = watch.done.load(Ordering::Relaxed);
        if let Some(progress) = progress
            && told != Some(done)
        {
            told = Some(done);
            progress.call1((done, total))?;
        }
        Ok(())
    };
    let watch = &watch;
    thread::scope(|scope| {
        let (finished, arriving) = channel();
        let arriving = Mutex::new(arriving);
        scope.spawn(move || {
            // The receiver waits until the result arrives.
            let _ = finished.send(work(watch));
        });
        let wait = |patience: Duration| {
            py.detach(|| arriving.lock().map_or(Err(RecvTimeoutError::Disconnected), |it| it.recv_timeout(patience)))
        };
        loop {
            match wait(EVERY) {
                Ok(outcome) => return tell(watch).map(|()| outcome),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = py.check_signals().and_then(|()| tell(watch)) {
                        watch.stop.store(true, Ordering::Relaxed);
                        while let Err(RecvTimeoutError::Timeout) = wait(EVERY) {}
                        return Err(error);
                    }
                }
                // The work panicked; the panic resumes when the scope ends.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the work was not completed"));
                }
            }
        }
    })
}
