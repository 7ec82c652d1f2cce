//! Assembly of echoes and their answers into a trace.

use std::collections::BTreeMap;

use lasthop_proto::time::Duration;

use super::ReadError;
use crate::seen::{Seen, Spread};
use crate::trace::{LossTrace, Sent};

/// Echo request.
#[derive(Clone, Copy, Default)]
struct Echo {
    /// Send time in seconds, if timestamps show it.
    sent: Option<f64>,
    answered: bool,
}

/// Echoes by number. Missing numbers were sent, and lost.
#[derive(Default)]
pub(super) struct Echoes {
    echoes: BTreeMap<i64, Echo>,
    /// Highest number of any echo, and of an answered one.
    highest: i64,
    answered: Option<i64>,
    round_trips: Vec<f64>,
    reordered: u64,
    duplicates: u64,
    /// Last timestamp, and seconds of earlier days if timestamps are times of day.
    stamp: f64,
    days: f64,
}

/// Properties that the text states of all echoes.
#[derive(Clone, Copy, Default)]
pub(super) struct Frame {
    /// Number of the first echo.
    pub first: Option<i64>,
    /// Number of echoes sent.
    pub sent: Option<u64>,
    /// Seconds between echoes, if no timestamp shows when they were sent.
    pub spacing: Option<f64>,
    /// Bytes of a packet.
    pub bytes: u32,
}

impl Echoes {
    /// Returns the unwrapped number of the echo with `number` in a program that counts up to `modulus`.
    pub(super) fn unwrapped(&self, number: i64, modulus: i64) -> i64 {
        number + (self.highest - number + modulus / 2).div_euclid(modulus) * modulus
    }

    /// Records that an echo was sent.
    pub(super) fn sent(&mut self, number: i64) {
        self.highest = self.highest.max(number);
        self.echoes.entry(number).or_default();
    }

    /// Records an answer after `round_trip` seconds, received at `stamp`.
    pub(super) fn answer(&mut self, number: i64, round_trip: f64, stamp: Option<f64>) {
        self.sent(number);
        let stamp = stamp.map(|stamp| self.without_midnight(stamp));
        let Some(echo) = self.echoes.get_mut(&number) else { return };
        if echo.answered {
            self.duplicates += 1;
            return;
        }
        *echo = Echo { sent: stamp.map(|stamp| stamp - round_trip), answered: true };
        self.reordered += u64::from(self.answered.is_some_and(|answered| number < answered));
        self.answered = self.answered.max(Some(number));
        self.round_trips.push(round_trip);
    }

    /// Unwraps a time of day at midnight.
    fn without_midnight(&mut self, stamp: f64) -> f64 {
        const DAY: f64 = 86_400.0;
        if stamp < DAY && self.stamp < DAY && stamp + DAY / 2.0 < self.stamp {
            self.days += DAY;
        }
        self.stamp = stamp;
        if stamp < DAY { stamp + self.days } else { stamp }
    }

    pub(super) fn len(&self) -> usize {
        self.echoes.len()
    }

    /// Returns the trace, and delays, order and duplicates of the answers.
    pub(super) fn finish(mut self, frame: Frame, most: usize) -> Result<(LossTrace, Seen), ReadError> {
        let (Some((&least, _)), Some((&last, _))) = (self.echoes.first_key_value(), self.echoes.last_key_value())
        else {
            return Err(ReadError::Empty);
        };
        let first = frame.first.filter(|first| *first <= least).unwrap_or(least);
        let sent = frame.sent.and_then(|sent| i64::try_from(sent).ok()).unwrap_or(0);
        // Only the count shows unanswered echoes at the end.
        let last = last.max(first.saturating_add(sent - 1));
        if usize::try_from(last - first).map_or(true, |span| span >= most) {
            return Err(ReadError::Long(most));
        }
        let seen = Seen {
            arrived: self.round_trips.len() as u64,
            round_trip: Spread::of(&mut self.round_trips),
            reordered: Some(self.reordered),
            duplicates: Some(self.duplicates),
            ..Seen::default()
        };
        let lost = |number: i64| !self.echoes.get(&number).is_some_and(|echo| echo.answered);
        let trace = match self.times(first, last, frame.spacing) {
            Some(times) => LossTrace::timed(
                times
                    .map(|(number, at)| Sent { at, air: Duration::ZERO, bytes: frame.bytes, lost: lost(number) })
                    .collect(),
            ),
            None => LossTrace::ordered((first..=last).map(lost)),
        };
        Ok((trace, seen))
    }

    /// Returns the send time of each echo, interpolated between its neighbours: these programs send at regular
    /// intervals.
    fn times(
        &self,
        first: i64,
        last: i64,
        spacing: Option<f64>,
    ) -> Option<impl Iterator<Item = (i64, Duration)> + use<'_>> {
        let at = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        let known: Vec<(i64, f64)> =
            self.echoes.iter().filter_map(|(&number, echo)| Some((number, echo.sent?))).collect();
        let stamped = known
            .first()
            .zip(known.last())
            .filter(|(begin, end)| end.0 > begin.0 && (end.1 - begin.1).is_finite() && end.1 > begin.1);
        let (begin, spacing, known) = match (stamped, spacing) {
            (Some((begin, end)), _) => (*begin, (end.1 - begin.1) / (end.0 - begin.0) as f64, known.clone()),
            (None, Some(spacing)) if spacing > 0.0 && spacing.is_finite() => ((first, 0.0), spacing, Vec::new()),
            _ => return None,
        };
        let origin = begin.1 - (begin.0 - first) as f64 * spacing;
        let mut near = known.into_iter().peekable();
        let mut before = begin;
        Some((first..=last).map(move |number| {
            while let Some(next) = near.next_if(|next| next.0 <= number) {
                before = next;
            }
            (number, at(before.1 + (number - before.0) as f64 * spacing - origin))
        }))
    }
}
