//! Work that takes a while: on other threads, without the interpreter lock, while this one looks out for Ctrl-C.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lasthop_study::replicate::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(50);

/// What the work tells, and is told.
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

    /// Nobody waits for a run to end who has pressed Ctrl-C.
    fn abandoned(&self) -> bool {
        self.stopped()
    }
}

/// Does `work`, and calls `progress` with the numbers of runs done and `total` now and then. A signal whose handler raises, and
/// an exception of `progress`, stop the work and are raised.
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
            // Somebody waits until it comes.
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
                // It panicked; the panic goes on when the scope ends.
                Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the work was not done")),
            }
        }
    })
}
