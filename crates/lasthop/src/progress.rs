//! Progress: a bar on a terminal, plain lines elsewhere, both on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lasthop_scenario::one_line;
use lasthop_study::replicate::Progress;

/// Time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The same within a run that takes minutes.
const RARELY: Duration = Duration::from_secs(10);

/// Tells the user something beside the output, on one line whatever is in it. All errors come by here. Whether anybody reads it
/// does not matter.
pub fn note(text: &str) {
    let _ = writeln!(stderr(), "{}", one_line(text));
}

/// Set by Ctrl-C.
fn interrupted() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = flag.clone();
        // Without the handler Ctrl-C ends the process at once, as ever.
        let _ = ctrlc::set_handler(move || set.store(true, Ordering::Relaxed));
        flag
    })
}

/// Counts runs.
pub struct Runs {
    what: String,
    total: u64,
    done: AtomicU64,
    bar: Option<ProgressBar>,
    begun: Instant,
    /// Milliseconds from `begun` at which the next plain line is due.
    next_line: AtomicU64,
}

impl Runs {
    pub fn new(what: &str, total: u64) -> Self {
        interrupted();
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} runs, {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_message(what.to_owned())
        });
        let next_line = AtomicU64::new(LINE_EVERY.as_millis() as u64);
        Self { what: what.to_owned(), total, done: AtomicU64::new(0), bar, begun: Instant::now(), next_line }
    }

    /// Without the time that is left, where runs are so few and so long that counting them says nothing of it.
    pub fn without_time_left(mut self) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} runs");
        self.bar = self.bar.map(|bar| bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())));
        self
    }

    /// Tells what is being done: beside the bar, or as a plain line when one is due.
    pub fn doing(&self, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(what.to_owned());
                bar.tick();
            }
            None if self.line_is_due(RARELY) => note(&format!("{}: {what}", self.what)),
            None => {}
        }
    }

    /// Whether a plain line is due; then the next one is only after a while.
    fn line_is_due(&self, every: Duration) -> bool {
        let elapsed = self.begun.elapsed().as_millis() as u64;
        let due = self.next_line.load(Ordering::Relaxed);
        let next = elapsed + every.as_millis() as u64;
        elapsed >= due && self.next_line.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Runs {
    fn run_done(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
            return;
        }
        if self.line_is_due(LINE_EVERY) {
            note(&format!("{}: {done} of {} runs", self.what, self.total));
        }
    }

    fn stopped(&self) -> bool {
        interrupted().load(Ordering::Relaxed)
    }
}
