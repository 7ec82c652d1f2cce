//! Measurements of the last ten minutes. The memory is bounded: at most [`ROUNDS`] values of [`LINES`] lines.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::reading::{Chart, Line, Measure, Reading};

/// Time between two readings.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);
/// Time for which measurements are kept.
pub(crate) const SPAN: Duration = Duration::from_secs(600);
/// Maximum number of readings that are kept.
pub(crate) const ROUNDS: usize = (SPAN.as_secs() / INTERVAL.as_secs()) as usize;
/// Maximum number of lines that are kept; their values take 0.6 MB.
pub(crate) const LINES: usize = 512;

/// Measurements of one daemon over time.
#[derive(Default, Debug)]
pub(crate) struct History {
    /// Number and time of each round, ascending.
    rounds: VecDeque<(u64, Instant)>,
    lines: Vec<Kept>,
    /// Previous reading, if the daemon answered then.
    before: Option<Before>,
    /// True if a reading had more lines than are kept.
    overflow: bool,
}

/// Values of a line.
#[derive(Debug)]
struct Kept {
    group: String,
    chart: Chart,
    name: String,
    /// One value per round, NaN if unknown.
    values: VecDeque<f32>,
}

/// Counters of the previous reading.
#[derive(Debug)]
struct Before {
    uptime_seconds: f64,
    counted_by: u64,
    lines: Vec<Line>,
}

impl Kept {
    fn is(&self, line: &Line) -> bool {
        self.chart == line.chart && self.name == line.name && self.group == line.group
    }
}

impl History {
    /// Appends round `number`: a reading, or `None` if the daemon does not answer.
    pub(crate) fn push(&mut self, number: u64, now: Instant, reading: Option<&Reading>) {
        self.rounds.push_back((number, now));
        for kept in &mut self.lines {
            kept.values.push_back(f32::NAN);
        }
        let before = self.before.take();
        if let Some(reading) = reading {
            self.read(reading, before.as_ref());
            let Reading { uptime_seconds, counted_by, lines, .. } = reading;
            self.before =
                Some(Before { uptime_seconds: *uptime_seconds, counted_by: *counted_by, lines: lines.clone() });
        }
        self.forget(now);
    }

    /// Writes the values of a reading into the latest round.
    fn read(&mut self, reading: &Reading, before: Option<&Before>) {
        let before = before.filter(|before| before.counted_by == reading.counted_by);
        let seconds = before.map_or(0.0, |before| reading.uptime_seconds - before.uptime_seconds);
        self.overflow = reading.lines.len() > LINES;
        for (index, line) in reading.lines.iter().take(LINES).enumerate() {
            let earlier = before.and_then(|before| earlier(&before.lines, index, line));
            let value = line.measure.since(earlier, seconds);
            let place = match self.lines.get(index) {
                Some(kept) if kept.is(line) => Some(index),
                _ => self.lines.iter().position(|kept| kept.is(line)),
            };
            let place = match place {
                Some(place) => place,
                None if self.lines.len() >= LINES => {
                    self.overflow = true;
                    continue;
                }
                None => {
                    let Line { group, chart, name, .. } = line.clone();
                    let values = self.rounds.iter().map(|_| f32::NAN).collect();
                    self.lines.push(Kept { group, chart, name, values });
                    self.lines.len() - 1
                }
            };
            if let Some(last) = self.lines[place].values.back_mut() {
                *last = value.map_or(f32::NAN, |value| value as f32);
            }
        }
    }

    /// Removes rounds that are too old, and lines of which nothing remains: those of a removed peer.
    fn forget(&mut self, now: Instant) {
        let old = |&(_, at): &(u64, Instant)| now.saturating_duration_since(at) > SPAN;
        while self.rounds.len() > ROUNDS || self.rounds.front().is_some_and(old) {
            self.rounds.pop_front();
            for kept in &mut self.lines {
                kept.values.pop_front();
            }
        }
        let current = self.before.as_ref().map_or(&[][..], |before| &before.lines);
        self.lines
            .retain(|kept| kept.values.iter().any(|value| !value.is_nan()) || current.iter().any(|line| kept.is(line)));
    }

    /// Returns the lines, and the rounds with numbers above `after`, each with its number, its age in seconds, and a
    /// value per line.
    pub(crate) fn to_json(&self, after: u64, now: Instant) -> Value {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|kept| json!({ "group": kept.group, "chart": kept.chart, "name": kept.name }))
            .collect();
        let first = self.rounds.partition_point(|(number, _)| *number <= after);
        let value = |kept: &Kept, round: usize| kept.values.get(round).filter(|value| !value.is_nan()).copied();
        let rounds: Vec<Value> = (first..self.rounds.len())
            .map(|round| {
                let (number, at) = self.rounds[round];
                let age = now.saturating_duration_since(at).as_secs_f64();
                let values: Vec<Option<f32>> = self.lines.iter().map(|kept| value(kept, round)).collect();
                json!({ "number": number, "age_seconds": (age * 1e3).round() / 1e3, "values": values })
            })
            .collect();
        json!({ "lines": lines, "rounds": rounds, "incomplete": self.overflow })
    }
}

/// Returns the measurement of a line in an earlier reading, which usually has the same place.
fn earlier(lines: &[Line], index: usize, line: &Line) -> Option<Measure> {
    let is = |other: &&Line| other.chart == line.chart && other.name == line.name && other.group == line.group;
    lines.get(index).filter(is).or_else(|| lines.iter().find(is)).map(|line| line.measure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, measure: Measure) -> Line {
        Line { group: "hub".to_owned(), chart: Chart::Throughput, name: name.to_owned(), measure }
    }

    fn reading(uptime_seconds: f64, counted_by: u64, lines: Vec<Line>) -> Reading {
        Reading { uptime_seconds, counted_by, lines, ..Reading::default() }
    }

    /// Values of the line with this name, from the JSON for all rounds.
    fn values(history: &History, name: &str, now: Instant) -> Vec<Option<f64>> {
        let json = history.to_json(0, now);
        let place = json["lines"].as_array().unwrap().iter().position(|line| line["name"] == name).unwrap();
        json["rounds"].as_array().unwrap().iter().map(|round| round["values"][place].as_f64()).collect()
    }

    #[test]
    fn a_restart_and_a_silence_leave_gaps_instead_of_wrong_rates() {
        let (mut history, start) = (History::default(), Instant::now());
        let at = |round: u64| start + INTERVAL * round as u32;
        let bytes = |count| vec![line("to hub", Measure::Bytes(count))];
        let readings = [
            Some(reading(10.0, 1, bytes(1_000))),
            Some(reading(12.0, 1, bytes(2_000))),
            // The worker was replaced, and counts from 0, here already beyond the old count.
            Some(reading(14.0, 2, bytes(9_000))),
            Some(reading(16.0, 2, bytes(9_500))),
            None,
            // After a silence the difference would cover an unknown time.
            Some(reading(20.0, 2, bytes(10_500))),
            Some(reading(22.0, 2, bytes(12_500))),
        ];
        for (round, reading) in (1..).zip(&readings) {
            history.push(round, at(round), reading.as_ref());
        }
        let expected = [None, Some(4_000.0), None, Some(2_000.0), None, None, Some(8_000.0)];
        assert_eq!(values(&history, "to hub", at(7)), expected);
    }

    #[test]
    fn memory_is_bounded_in_time_and_in_lines() {
        let (mut history, start) = (History::default(), Instant::now());
        let many: Vec<Line> = (0..LINES + 9).map(|n| line(&n.to_string(), Measure::Value(Some(1.0)))).collect();
        let end = ROUNDS as u64 + 50;
        for round in 1..=end {
            // Rounds that come quickly, as after the server was stopped for a while.
            history.push(round, start + Duration::from_millis(round), Some(&reading(round as f64, 1, many.clone())));
        }
        let json = history.to_json(0, start);
        assert_eq!(json["lines"].as_array().unwrap().len(), LINES);
        assert_eq!((json["rounds"].as_array().unwrap().len(), &json["incomplete"]), (ROUNDS, &json!(true)));
        assert!(history.lines.iter().all(|kept| kept.values.len() == ROUNDS));
        // What is older than the span leaves even if fewer rounds are there.
        history.push(end + 1, start + SPAN * 2, None);
        assert_eq!(history.to_json(0, start + SPAN * 2)["rounds"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn lines_of_a_removed_peer_leave_with_their_last_value() {
        let (mut history, start) = (History::default(), Instant::now());
        let named = |name: &str| reading(0.0, 1, vec![line(name, Measure::Value(Some(1.0)))]);
        history.push(1, start, Some(&named("old")));
        history.push(2, start + INTERVAL, Some(&named("new")));
        assert_eq!(values(&history, "old", start), [Some(1.0), None]);
        assert_eq!(values(&history, "new", start), [None, Some(1.0)]);
        history.push(3, start + SPAN + INTERVAL, Some(&named("new")));
        let json = history.to_json(0, start + SPAN + INTERVAL);
        assert_eq!(json["lines"], json!([{ "group": "hub", "chart": "throughput", "name": "new" }]));
    }

    #[test]
    fn a_page_that_has_the_past_gets_what_is_new() {
        let (mut history, start) = (History::default(), Instant::now());
        for round in [3, 4, 9] {
            let one = reading(0.0, 1, vec![line("to hub", Measure::Value(Some(round as f64)))]);
            history.push(round, start, Some(&one));
        }
        let numbers = |after| {
            let json = history.to_json(after, start + INTERVAL);
            let rounds = json["rounds"].as_array().unwrap().clone();
            rounds.iter().map(|round| round["number"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(0), [3, 4, 9]);
        assert_eq!(numbers(4), [9]);
        assert_eq!(numbers(9), [0; 0]);
        let json = history.to_json(4, start + INTERVAL);
        assert_eq!(json["rounds"][0], json!({ "number": 9, "age_seconds": 2.0, "values": [9.0] }));
    }
}
