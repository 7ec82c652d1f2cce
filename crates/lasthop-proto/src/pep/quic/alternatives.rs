//! Alternatives to the hop's round trip. Datagrams leave at similar intervals, so that an estimate that is wrong by a few
//! intervals names a cause for most acknowledgments as well. At pauses and short datagrams it does not.

use super::copies::Copies;
use crate::time::{Duration, Instant};

/// Number of alternatives that are shorter, one interval each, and longer. The answer to a handshake is late, so that the
/// first estimate is too long, if it is wrong.
const SHORTER: usize = 8;
const LONGER: usize = 2;
/// Number of acknowledgments that only an alternative explains at which it replaces the estimate, if those that only the
/// estimate explains are fewer than one in `RATIO`.
const LEAST: u32 = 8;
const RATIO: u32 = 4;
/// Number of such acknowledgments at which both counts are halved.
const MOST: u32 = 64;

/// A round trip, and how well it explains acknowledgments compared with the estimate.
#[derive(Clone, Copy, Debug, Default)]
struct Alternative {
    /// Zero if there was none.
    rtt: Duration,
    /// Number of acknowledgments that only this one explains.
    better: u32,
    /// Number of acknowledgments that only the estimate explains.
    worse: u32,
}

/// Alternatives to an estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alternatives {
    placed: Option<Placed>,
}

/// The estimate as exactly as the alternatives, and these.
#[derive(Clone, Copy, Debug)]
struct Placed {
    estimate: Duration,
    others: [Alternative; SHORTER + LONGER],
}

impl Alternatives {
    /// Forgets what was learned.
    pub const fn clear(&mut self) {
        self.placed = None;
    }

    /// Compares the alternatives with the estimate `rtt` by an acknowledgment that shows no gap; `spacing` is the mean
    /// interval between datagrams. Returns an alternative that explains acknowledgments much better.
    pub fn compare<P>(
        &mut self,
        now: Instant,
        (rtt, spacing): (Duration, Duration),
        copies: &Copies<P>,
    ) -> Option<Duration> {
        let Some(Placed { estimate, others }) = &mut self.placed else {
            self.placed = placed(now, (rtt, spacing), copies);
            return None;
        };
        let explains = |rtt: Duration| {
            let sample = sample(now, rtt, copies)?;
            let off = sample.saturating_sub(rtt).max(rtt.saturating_sub(sample));
            (off * 4 < spacing).then_some(sample)
        };
        let by_estimate = explains(*estimate);
        if let Some(sample) = by_estimate {
            *estimate = (*estimate * 15 + sample) / 16;
        }
        for own in others.iter_mut().filter(|own| own.rtt > Duration::ZERO) {
            let sample = explains(own.rtt);
            if let Some(sample) = sample {
                own.rtt = (own.rtt * 15 + sample) / 16;
            }
            own.better += u32::from(sample.is_some() && by_estimate.is_none());
            own.worse += u32::from(sample.is_none() && by_estimate.is_some());
            if own.better + own.worse >= MOST {
                (own.better, own.worse) = (own.better / 2, own.worse / 2);
            }
        }
        let is_better = |own: &&Alternative| own.better >= LEAST && own.better > own.worse * RATIO;
        // The nearest of those that are equal.
        let best = others.iter().rev().filter(is_better).max_by_key(|own| own.better - own.worse)?.rtt;
        self.clear();
        Some(best)
    }
}

/// Places alternatives at the datagrams around the one that an acknowledgment answers, unless there is a pause among them.
fn placed<P>(now: Instant, (rtt, spacing): (Duration, Duration), copies: &Copies<P>) -> Option<Placed> {
    let cause = cause(now, rtt, copies)?;
    let departed = |number: u64| copies.get(number).map(|sent| sent.departs);
    let begin = departed(cause)?;
    let mut others = [Alternative::default(); SHORTER + LONGER];
    let (shorter, longer) = others.split_at_mut(SHORTER);
    let (mut number, mut last) = (cause, begin);
    for own in shorter {
        // Later ones may not have left.
        let Some((next, at)) = spaced((last, spacing), number + 1.., departed)? else { break };
        (number, last, own.rtt) = (next, at, now.since(at));
    }
    (number, last) = (cause, begin);
    for own in longer {
        let (next, at) = spaced((last, spacing), (0..number).rev(), departed)??;
        (number, last, own.rtt) = (next, at, now.since(at));
    }
    Some(Placed { estimate: now.since(begin), others })
}

/// Returns the first of the datagrams `numbers` that left at least half an interval from `last`; `Some(None)` if they have
/// not left, and `None` after a pause.
fn spaced(
    (last, spacing): (Instant, Duration),
    numbers: impl Iterator<Item = u64>,
    departed: impl Fn(u64) -> Option<Instant>,
) -> Option<Option<(u64, Instant)>> {
    for number in numbers {
        let Some(at) = departed(number) else { break };
        let interval = at.since(last).max(last.since(at));
        if interval > spacing * 2 {
            return None;
        }
        if interval * 2 >= spacing {
            return Some(Some((number, at)));
        }
    }
    Some(None)
}

fn cause<P>(now: Instant, rtt: Duration, copies: &Copies<P>) -> Option<u64> {
    let sent = now.since(Instant::ZERO).as_nanos().checked_sub(rtt.as_nanos())?;
    copies.closest(Instant::from_nanos(sent))
}

/// Returns the time since the departure of the datagram that an acknowledgment answers if the round trip is `rtt`.
fn sample<P>(now: Instant, rtt: Duration, copies: &Copies<P>) -> Option<Duration> {
    copies.get(cause(now, rtt, copies)?).map(|sent| now.since(sent.departs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use crate::pep::quic::copies::Sent;

    const SPACING: Duration = Duration::from_micros(1200);

    /// Returns the round trip that replaces an estimate of `millis` on a hop of 2 ms, where the client acknowledges every
    /// second datagram, and pauses follow every `burst` datagrams.
    fn replaced(millis: u64, burst: u64) -> Option<Duration> {
        let (mut alternatives, mut copies) = (Alternatives::default(), Copies::<()>::new());
        let mut at = Instant::from_nanos(1_000_000_000);
        let mut answers = alloc::collections::VecDeque::new();
        for number in 0..400_u64 {
            at += if number % burst == 0 { SPACING * 6 } else { SPACING };
            while answers.front().is_some_and(|answer| *answer < at) {
                let now = answers.pop_front()?;
                let found = alternatives.compare(now, (Duration::from_millis(millis), SPACING), &copies);
                if found.is_some() {
                    return found;
                }
            }
            let packet = Packet { len: 1472, ..Packet::default() };
            copies.push(256 << 10, Sent { departs: at, waiting: 0, resent_at: None, packet });
            if number % 2 == 1 {
                answers.push_back(at + Duration::from_millis(2));
            }
        }
        None
    }

    /// A client that computes for milliseconds before it answers a handshake makes the first estimate too long.
    #[test]
    fn an_estimate_that_is_too_long_is_replaced_after_pauses() {
        for millis in [4, 6, 9] {
            let found = replaced(millis, 21).expect("another estimate");
            let off = found.max(Duration::from_millis(2)).saturating_sub(found.min(Duration::from_millis(2)));
            assert!(off < SPACING / 4, "{millis} ms: {found:?}");
        }
    }

    #[test]
    fn without_pauses_and_with_the_right_estimate_nothing_is_replaced() {
        assert_eq!(replaced(2, 21), None);
        assert_eq!(replaced(6, 1000), None);
    }
}
