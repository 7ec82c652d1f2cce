//! Progress on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use lasthop_scenario::one_line;
use lasthop_study::replicate::{Cut, Progress};
use signal_hook::consts::SIGINT;

use crate::terminal::Style;

/// Interval between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Interval between plain lines within a run that takes minutes.
const RARELY: Duration = Duration::from_secs(10);

/// Interval between updates of a bar within a run.
const OFTEN: Duration = Duration::from_millis(100);

/// Prints a message to standard error on a single line, regardless of its content. All errors are printed here.
/// Failures to write are ignored.
pub fn note(text: &str) {
    let _ = writeln!(stderr(), "{}", one_line(text));
}

/// Prints an error on a single line.
pub fn note_error(text: &str) {
    let _ = writeln!(stderr(), "{} {}", Style::Error.err("error:"), one_line(text));
}

/// Returns the flag that the first Ctrl-C sets; the second one kills the process.
fn interrupted() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // The order matters: the killing handler must not see the flag that the same signal sets. If no handler can be
        // registered, Ctrl-C ends the process at once, as usual.
        let _ = signal_hook::flag::register_conditional_default(SIGINT, flag.clone());
        let _ = signal_hook::flag::register(SIGINT, flag.clone());
        flag
    })
}

/// Handler of Ctrl-C that only notes that it was pressed.
pub struct CtrlC(());

impl CtrlC {
    /// Registers the handler: from now on, the first Ctrl-C is only noted.
    pub fn heard() -> Self {
        interrupted();
        Self(())
    }

    pub fn pressed(&self) -> bool {
        interrupted().load(Ordering::Relaxed)
    }
}

/// Progress of runs.
pub struct Runs {
    what: String,
    total: u64,
    /// Latest end of a run, if known.
    limit: Option<lasthop_proto::time::Instant>,
    done: AtomicU64,
    /// Maximum simulated time that a run has reached since the last one finished, in nanoseconds.
    furthest: AtomicU64,
    cuts: Mutex<Vec<(usize, Cut)>>,
    ctrl_c: Option<CtrlC>,
    bar: Option<ProgressBar>,
    begun: Instant,
    /// Time of the next plain line or update of the bar, in milliseconds from `begun`.
    next_line: AtomicU64,
}

impl Runs {
    /// Creates progress for runs that Ctrl-C stops.
    pub fn new(what: &str, total: u64) -> Self {
        Self { ctrl_c: Some(CtrlC::heard()), ..Self::unstoppable(what, total) }
    }

    /// Creates progress for a command that handles signals itself.
    pub fn unstoppable(what: &str, total: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} runs{left}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                // Before the first run has finished the remaining time is unknown.
                .with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                    if state.pos() > 0 {
                        let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
                    }
                });
            ProgressBar::new(total).with_style(style).with_message(what.to_owned())
        });
        let next_line = AtomicU64::new(if bar.is_some() { 0 } else { LINE_EVERY.as_millis() as u64 });
        Self {
            what: what.to_owned(),
            total,
            limit: None,
            done: AtomicU64::new(0),
            furthest: AtomicU64::new(0),
            cuts: Mutex::default(),
            ctrl_c: None,
            bar,
            begun: Instant::now(),
            next_line,
        }
    }

    /// Creates progress that shows nothing, but handles Ctrl-C.
    pub fn quiet() -> Self {
        Self {
            ctrl_c: Some(CtrlC::heard()),
            bar: None,
            next_line: AtomicU64::new(u64::MAX),
            ..Self::unstoppable("", 0)
        }
    }

    /// Sets the latest end of a run.
    pub fn within(self, limit: lasthop_proto::time::Instant) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Hides the remaining time. The number of finished runs does not predict it if there are few long runs.
    pub fn without_time_left(mut self) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} runs");
        self.bar = self.bar.map(|bar| bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())));
        self
    }

    /// Shows the current activity: next to the bar, or as a plain line if one is due.
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

    /// Returns whether a plain line is due; the next one is then due after `every`.
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

    /// Returns the state of the interrupted run of `task` with the lowest number.
    pub fn cut(&self, task: usize) -> Option<Cut> {
        let cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = cuts.iter().filter(|(of, cut)| *of == task && cut.at > lasthop_proto::time::Instant::ZERO);
        begun.map(|(_, cut)| cut).min_by_key(|cut| cut.run).cloned()
    }
}

impl Progress for Runs {
    fn run_done(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let within = self.furthest.swap(0, Ordering::Relaxed) > 0;
        if let Some(bar) = &self.bar {
            if within {
                bar.set_message(self.what.clone());
            }
            bar.inc(1);
            return;
        }
        if self.line_is_due(LINE_EVERY) {
            note(&format!("{}: {done} of {} runs", self.what, self.total));
        }
    }

    fn stopped(&self) -> bool {
        self.ctrl_c.as_ref().is_some_and(CtrlC::pressed)
    }

    /// Abandons runs after Ctrl-C.
    fn abandoned(&self) -> bool {
        self.stopped()
    }

    fn run_at(&self, now: lasthop_proto::time::Instant) {
        let now = now.as_nanos();
        let furthest = self.furthest.fetch_max(now, Ordering::Relaxed).max(now);
        if !self.line_is_due(if self.bar.is_some() { OFTEN } else { RARELY }) {
            return;
        }
        let limit = self.limit.map(|limit| format!(" of at most {:.0}", limit.as_secs_f64())).unwrap_or_default();
        let at = format!("{}: {:.1}{limit} s simulated", self.what, furthest as f64 / 1e9);
        match &self.bar {
            Some(bar) => {
                bar.set_message(at);
                bar.tick();
            }
            None if self.total > 1 => {
                let done = self.done.load(Ordering::Relaxed);
                note(&format!("{at}; {done} of {} runs done", self.total));
            }
            None => note(&at),
        }
    }

    fn run_cut(&self, task: usize, cut: Cut) {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).push((task, cut));
    }
}
