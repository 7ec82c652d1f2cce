//! Latest reading and history of each daemon.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::history::{History, INTERVAL, SPAN};
use super::reading::Reading;

/// Daemon that is asked for its state.
pub trait Source: Send + 'static {
    /// Returns the kind of daemon: `gateway` or `tunnel`.
    fn kind(&self) -> &'static str;

    /// Returns the place where the daemon is asked, such as the path of its control socket.
    fn place(&self) -> String;

    /// Asks the daemon.
    ///
    /// # Errors
    ///
    /// Returns a description of the problem if the daemon does not answer. It is asked again later.
    fn read(&self) -> Result<Reading, String>;
}

/// State of all daemons, which the page shows.
#[derive(Debug)]
pub struct Board {
    /// Identity of this board: a page that knows another one discards what it has.
    run: u64,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    /// Number of the latest round of any daemon.
    round: u64,
    daemons: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    kind: &'static str,
    place: String,
    /// Latest reading, and its time.
    latest: Option<(Reading, Instant)>,
    /// Reason why the daemon did not answer the last time.
    problem: Option<String>,
    history: History,
}

impl Board {
    /// Creates a board without readings for daemons of these kinds and places.
    pub(super) fn new(run: u64, daemons: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let entry = |(kind, place)| Entry { kind, place, latest: None, problem: None, history: History::default() };
        Self { run, entries: Mutex::new(Entries { round: 0, daemons: daemons.into_iter().map(entry).collect() }) }
    }

    /// Asks each source at a fixed interval, in a thread of its own, so that a daemon that hangs delays no other. Each
    /// is asked once before this function returns. `run` distinguishes this board from those before it.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot be started.
    pub fn watch(run: u64, sources: Vec<Box<dyn Source>>) -> std::io::Result<Arc<Self>> {
        let board = Arc::new(Self::new(run, sources.iter().map(|source| (source.kind(), source.place()))));
        for (index, source) in sources.into_iter().enumerate() {
            board.record(index, Instant::now(), source.read());
            let board = Arc::clone(&board);
            std::thread::Builder::new().name(source.kind().to_owned()).spawn(move || {
                let mut next = Instant::now();
                loop {
                    // After a delay the next reading follows in time, instead of several at once.
                    next = (next + INTERVAL).max(Instant::now());
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    let read = source.read();
                    board.record(index, Instant::now(), read);
                }
            })?;
        }
        Ok(board)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an answer of daemon `index`.
    pub(super) fn record(&self, index: usize, now: Instant, read: Result<Reading, String>) {
        let mut entries = self.entries();
        entries.round += 1;
        let round = entries.round;
        let Some(entry) = entries.daemons.get_mut(index) else { return };
        entry.history.push(round, now, read.as_ref().ok());
        match read {
            Ok(reading) => (entry.latest, entry.problem) = (Some((reading, now)), None),
            Err(problem) => entry.problem = Some(problem),
        }
    }

    /// Returns everything that the page shows. A page that has the rounds of board `run` up to `after` gets later ones.
    pub(super) fn to_json(&self, run: Option<u64>, after: u64, now: Instant) -> Value {
        let after = if run == Some(self.run) { after } else { 0 };
        let entries = self.entries();
        let daemons: Vec<Value> = entries
            .daemons
            .iter()
            .map(|Entry { kind, place, latest, problem, history }| {
                let age = latest.as_ref().map(|(_, at)| now.saturating_duration_since(*at).as_secs_f64());
                json!({
                    "kind": kind,
                    "place": place,
                    "problem": problem,
                    "age_seconds": age,
                    "status": latest.as_ref().map(|(reading, _)| &reading.status),
                    "remarks": latest.as_ref().map(|(reading, _)| &reading.remarks),
                    "history": history.to_json(after, now),
                })
            })
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            // As text: JavaScript's numbers have 53 bits.
            "run": self.run.to_string(),
            "round": entries.round,
            "interval_seconds": INTERVAL.as_secs(),
            "span_seconds": SPAN.as_secs(),
            "daemons": daemons,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::reading::{Chart, Line, Measure};
    use super::*;

    fn reading(value: f64) -> Reading {
        let line = Line {
            group: "hub".to_owned(),
            chart: Chart::RoundTrip,
            name: "hub".to_owned(),
            measure: Measure::Value(Some(value)),
        };
        Reading { status: json!({ "value": value }), lines: vec![line], ..Reading::default() }
    }

    #[test]
    fn a_daemon_that_ends_is_said_to_and_its_last_state_stays() {
        let (board, start) = (Board::new(7, [("tunnel", "/run/t.sock".to_owned())]), Instant::now());
        board.record(0, start, Ok(reading(1.0)));
        board.record(0, start + INTERVAL, Err("no tunnel is running".to_owned()));
        let json = board.to_json(None, 0, start + INTERVAL);
        let daemon = &json["daemons"][0];
        assert_eq!((&daemon["problem"], &daemon["age_seconds"]), (&json!("no tunnel is running"), &json!(2.0)));
        assert_eq!((&daemon["status"]["value"], &daemon["place"]), (&json!(1.0), &json!("/run/t.sock")));
        board.record(0, start + INTERVAL * 2, Ok(reading(2.0)));
        let daemon = board.to_json(None, 0, start + INTERVAL * 2)["daemons"][0].take();
        assert_eq!((&daemon["problem"], &daemon["status"]["value"]), (&Value::Null, &json!(2.0)));
        let values: Vec<_> =
            daemon["history"]["rounds"].as_array().unwrap().iter().map(|it| &it["values"][0]).collect();
        assert_eq!(values, [&json!(1.0), &Value::Null, &json!(2.0)]);
    }

    #[test]
    fn a_page_of_another_server_gets_the_whole_history() {
        let (board, start) = (Board::new(7, [("tunnel", String::new())]), Instant::now());
        for _ in 0..3 {
            board.record(0, start, Ok(reading(1.0)));
        }
        let rounds = |run, after| {
            let json = board.to_json(run, after, start);
            json["daemons"][0]["history"]["rounds"].as_array().unwrap().len()
        };
        assert_eq!([rounds(Some(7), 2), rounds(Some(7), 3), rounds(Some(6), 3), rounds(None, 3)], [1, 0, 3, 3]);
    }

    /// Source that hangs in its second reading.
    struct Hanging(AtomicU64);

    impl Source for Hanging {
        fn kind(&self) -> &'static str {
            "gateway"
        }

        fn place(&self) -> String {
            "here".to_owned()
        }

        fn read(&self) -> Result<Reading, String> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                std::thread::sleep(Duration::from_secs(3600));
            }
            Err("busy".to_owned())
        }
    }

    /// Source that reports each reading.
    struct Reporting(mpsc::Sender<()>);

    impl Source for Reporting {
        fn kind(&self) -> &'static str {
            "tunnel"
        }

        fn place(&self) -> String {
            "there".to_owned()
        }

        fn read(&self) -> Result<Reading, String> {
            // The test may have ended.
            let _ = self.0.send(());
            Ok(reading(1.0))
        }
    }

    #[test]
    fn a_daemon_that_hangs_delays_no_other() {
        let (sender, read) = mpsc::channel();
        let board = Board::watch(1, vec![Box::new(Hanging(AtomicU64::new(0))), Box::new(Reporting(sender))]).unwrap();
        for _ in 0..3 {
            read.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        let json = board.to_json(None, 0, Instant::now());
        assert_eq!((&json["daemons"][0]["problem"], &json["daemons"][1]["problem"]), (&json!("busy"), &Value::Null));
    }
}
