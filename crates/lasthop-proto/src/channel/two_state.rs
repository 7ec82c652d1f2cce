//! Two-state channels: good and bad, changing with time (\[b\]) or with every frame (Gilbert 1960, Elliott 1963).

use super::Fate;
use super::gap::{Gap, expected_errors};
use crate::packet::Packet;
use crate::random::{Root, Stream};
use crate::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Good,
    Bad,
}

impl State {
    const fn other(self) -> Self {
        match self {
            Self::Good => Self::Bad,
            Self::Bad => Self::Good,
        }
    }
}

/// One value per state.
#[derive(Clone, Copy, Debug)]
struct PerState {
    good: f64,
    bad: f64,
}

impl PerState {
    #[inline]
    const fn of(&self, state: State) -> f64 {
        match state {
            State::Good => self.good,
            State::Bad => self.bad,
        }
    }
}

/// Number of mean cycles (good and bad together) after which the initial state has no influence: it decays as
/// `exp(-(1/good + 1/bad) t)`, here at most `exp(-2048)`, which is 0 in an `f64`.
const CYCLES_TO_FORGET: u64 = 512;

/// Number of mean cycles from which a frame meets both states in the proportion of their means: their shares vary by
/// less than 1 % (the square root of 1/65536, twice), and simulating them all would take too long.
const CYCLES_TO_AVERAGE: u64 = 1 << 16;

/// States with exponentially distributed durations in time, whether or not frames are sent.
///
/// Instead of one draw per frame, the bits accumulate to the next error over all frames: each bit adds `-ln(1 - BER)`
/// of its state, and the errors are exponential with mean 1 in that sum. A frame therefore survives with exactly `∏(1 -
/// BER)` over its bits.
#[derive(Clone, Debug)]
pub(super) struct TimeClocked {
    /// Mean durations in nanoseconds.
    mean: PerState,
    forgotten_after: Duration,
    averaged_after: Duration,
    /// `-ln(1 - BER)`, which each bit adds.
    per_bit: PerState,
    state: State,
    /// End of the current state.
    until: Instant,
    /// Stream for the states alone, so that their time series does not depend on the traffic: schemes compared under
    /// one seed meet the same fades.
    states: Stream,
    errors: Gap,
}

impl TimeClocked {
    pub(super) fn new(good: Duration, bad: Duration, good_ber: f64, bad_ber: f64, mut stream: Stream) -> Self {
        // A state lasts at least a nanosecond on average; otherwise two empty ones would alternate without time
        // passing.
        let nanos = |mean: Duration| mean.as_nanos().max(1);
        let bits = Root(stream.below(u64::MAX)).stream("bits");
        let cycle = Duration::from_nanos(nanos(good).saturating_add(nanos(bad)));
        let mut channel = Self {
            mean: PerState { good: nanos(good) as f64, bad: nanos(bad) as f64 },
            forgotten_after: cycle * CYCLES_TO_FORGET,
            averaged_after: cycle * CYCLES_TO_AVERAGE,
            per_bit: PerState { good: expected_errors(good_ber), bad: expected_errors(bad_ber) },
            state: State::Good,
            until: Instant::ZERO,
            states: stream,
            errors: Gap::new(1.0, bits),
        };
        channel.enter(State::Good, Instant::ZERO);
        channel
    }

    #[inline]
    pub(super) fn judge<P>(&mut self, packet: &Packet<P>, start: Instant, end: Instant) -> Fate {
        self.advance_to(start);
        let total = f64::from(packet.wire_len()) * 8.0;
        let header = f64::from(packet.header_len) * 8.0;
        if end.since(start) > self.averaged_after {
            return self.judge_average(total, header, end);
        }
        let span = end.since(start).as_nanos() as f64;
        // Bits before the part of the frame in the current state.
        let mut sent = 0.0;
        loop {
            let is_last = self.until >= end;
            let sent_by_then = if is_last { total } else { total * (self.until.since(start).as_nanos() as f64 / span) };
            let per_bit = self.per_bit.of(self.state);
            if let Some(at) = self.errors.hit((sent_by_then - sent) * per_bit) {
                return Fate::hit_at(sent + at / per_bit, header);
            }
            if is_last {
                return Fate::Delivered;
            }
            sent = sent_by_then;
            self.enter(self.state.other(), self.until);
        }
    }

    #[cold]
    fn judge_average(&mut self, total: f64, header: f64, end: Instant) -> Fate {
        let bad_share = self.bad_share();
        let per_bit = self.per_bit.good * (1.0 - bad_share) + self.per_bit.bad * bad_share;
        self.enter_any(end);
        match self.errors.hit(total * per_bit) {
            Some(at) => Fate::hit_at(at / per_bit, header),
            None => Fate::Delivered,
        }
    }

    fn bad_share(&self) -> f64 {
        self.mean.bad / (self.mean.good + self.mean.bad)
    }

    /// Enters a random state. The rest of a state is distributed like the whole: exponentials are memoryless.
    fn enter_any(&mut self, at: Instant) {
        let state = if self.states.chance(self.bad_share()) { State::Bad } else { State::Good };
        self.enter(state, at);
    }

    #[inline]
    fn advance_to(&mut self, now: Instant) {
        if self.until < now {
            self.advance_through_idle(now);
        }
    }

    #[cold]
    fn advance_through_idle(&mut self, now: Instant) {
        if now.since(self.until) > self.forgotten_after {
            self.enter_any(now);
        }
        while self.until < now {
            self.enter(self.state.other(), self.until);
        }
    }

    fn enter(&mut self, state: State, at: Instant) {
        self.state = state;
        let nanos = self.states.exponential(self.mean.of(state)) + 0.5;
        self.until = at + Duration::from_nanos(nanos as u64);
    }
}

/// States that may change after every frame; begins in the good state.
#[derive(Clone, Debug)]
pub(super) struct PacketClocked {
    leave: PerState,
    loss: PerState,
    state: State,
    stream: Stream,
}

impl PacketClocked {
    pub(super) fn new(good_to_bad: f64, bad_to_good: f64, good_loss: f64, bad_loss: f64, stream: Stream) -> Self {
        Self {
            leave: PerState { good: good_to_bad, bad: bad_to_good },
            loss: PerState { good: good_loss, bad: bad_loss },
            state: State::Good,
            stream,
        }
    }

    #[inline]
    pub(super) fn judge(&mut self) -> Fate {
        let fate = Fate::lost_if(self.stream.chance(self.loss.of(self.state)));
        if self.stream.chance(self.leave.of(self.state)) {
            self.state = self.state.other();
        }
        fate
    }
}
