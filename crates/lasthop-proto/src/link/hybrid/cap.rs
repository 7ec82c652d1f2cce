//! How much of one flow may be under way when its source is told of congestion by the window that it is offered.
//!
//! The cap takes the part of a congestion window: a signal cuts it as CUBIC cuts its own, and it grows along CUBIC's curve (RFC 9438 §4.2, §4.6).
//! The source's window stands still meanwhile, since the source does not use it up. Where the cap lets the flow's queue run empty it is too small: then it
//! grows by what is missing.

use super::flight::Round;
use crate::tcp::congestion::cube_root;
use crate::time::{Duration, Instant};

/// RFC 9438 §4.6: what is left of a window.
const BETA: (u32, u32) = (7, 10);

/// RFC 9438 §4.3: by so much of a segment Reno's window would grow a round trip, 3·(1 − β)/(1 + β).
const FRIENDLY: (u64, u64) = (9, 17);

/// The least cap, in segments: enough to show a loss.
const LEAST: u32 = 4;

/// Where a flow's queue is empty for more than one part in so many of the time, the cap is too small.
const IDLE: u64 = 8;

/// The largest window there is (RFC 7323 §2.3), in bytes.
const LARGEST: u32 = 1 << 30;

/// A source that is told by a drop hears of it a round trip later, and answers to no other for one more: so long nothing else is told to one that is told by its window.
const ROUNDS: u8 = 2;

/// In this time a cut must show, whatever its round trips.
const PATIENCE: Duration = Duration::from_secs(3);

/// Times on the curve are cut here, in milliseconds: 35 minutes.
const FAR: i128 = 1 << 21;

/// What a source has under way, in bytes, and its largest segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub flight: u32,
    pub segment: u32,
}

/// What a source was offered beyond what it knows to have arrived, in bytes, and what a window counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    pub bytes: u32,
    pub unit: u32,
}

/// Whether a cut shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// For so many round trips not yet.
    Pending(u8),
    Shown,
    /// A packet was dropped in its place so many round trips ago: the right edge stands far ahead of what it left, and the source is told by drops until it comes near.
    Far(u8),
}

/// How far ahead a source's right edge is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// So many of its flights: it is told by it.
    Near(u32),
    /// It would come to it too late, or with too much.
    Far,
}

/// By what a source is told of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// By a cut that it has not heeded yet, nor had the time to.
    Before,
    /// By this one.
    Now,
    /// By a drop, since its edge is far ahead.
    Dropped,
}

/// The cap of one flow.
#[derive(Clone, Debug)]
pub(super) struct Cap {
    bytes: u32,
    /// The plateau of the curve.
    top: u32,
    /// What the last cut left.
    low: u32,
    /// What Reno's window would be since.
    friendly: u32,
    /// For how long it has grown since.
    grown: Duration,
    cut_at: Instant,
    effect: Effect,
    /// In so many round trips the cut must show.
    rounds: u8,
}

impl Cap {
    /// A cut of a flow; `None` where so little is under way that there is nothing to cut.
    pub fn cut(now: Instant, load: Load, edge: Edge) -> Option<Self> {
        let bytes = (u64::from(load.flight) * u64::from(BETA.0) / u64::from(BETA.1)) as u32;
        let bytes = bytes.max(LEAST.saturating_mul(load.segment));
        let (top, grown) = (load.flight, Duration::ZERO);
        let (effect, flights) = match edge {
            Edge::Near(flights) => (Effect::Pending(0), flights),
            Edge::Far => (Effect::Far(0), 0),
        };
        // It uses up one in a round trip before it feels the cut.
        let rounds = ROUNDS.max(u8::try_from(flights.saturating_add(1)).unwrap_or(u8::MAX));
        (bytes < top).then_some(Self { bytes, top, low: bytes, friendly: bytes, grown, cut_at: now, effect, rounds })
    }

    /// By what the source is told when this is new.
    pub fn told(&self) -> Told {
        if matches!(self.effect, Effect::Far(_)) { Told::Dropped } else { Told::Now }
    }

    /// Bytes that the source may have under way.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Congestion is to be told. Whether the source is told by a cut now, or was by the last one, which it may not have heard of.
    pub fn signal(&mut self, now: Instant, load: Load, edge: Edge) -> Option<Told> {
        let is_recent = |rounds, most| rounds < most && now.since(self.cut_at) < PATIENCE;
        match self.effect {
            Effect::Pending(rounds) => return is_recent(rounds, self.rounds).then_some(Told::Before),
            // Told by drops, as many as ever: those of one round trip are one signal to the source.
            Effect::Far(rounds) if edge == Edge::Far || is_recent(rounds, ROUNDS) => return None,
            Effect::Far(_) | Effect::Shown => {}
        }
        // More than the cap was under way before it, unless the edge was far.
        let most = match self.effect {
            Effect::Far(_) => LARGEST,
            _ => self.bytes.saturating_add(load.segment),
        };
        *self = Self::cut(now, Load { flight: load.flight.min(most), ..load }, edge)?;
        Some(self.told())
    }

    /// A round trip is over, at whose end the source may have so many bytes under way. Windows are told in units.
    pub fn on_round(&mut self, round: Round, Offered { bytes, unit }: Offered, segment: u32) {
        let stands = bytes > self.bytes.saturating_add(segment.max(unit));
        match self.effect {
            Effect::Pending(rounds) => {
                let rounds = rounds.saturating_add(1);
                self.effect = if rounds < ROUNDS || stands { Effect::Pending(rounds) } else { Effect::Shown };
            }
            Effect::Far(rounds) => {
                // What drops leave to the source, not what they did long ago.
                self.bytes = self.bytes.max(round.most);
                (self.top, self.low, self.friendly) = (self.bytes, self.bytes, self.bytes);
                self.effect = if stands { Effect::Far(rounds.saturating_add(1)) } else { Effect::Shown };
            }
            // A source that does not come near its cap is held by something else.
            Effect::Shown if round.most >= self.bytes - self.bytes / 8 => self.grow(round, segment),
            Effect::Shown => {}
        }
    }

    fn grow(&mut self, round: Round, segment: u32) {
        let (took, idle) = (round.took.as_nanos().max(1), round.idle.as_nanos());
        if idle.saturating_mul(IDLE) > took {
            // In the rest of the time the cap was used: at most it doubles.
            let busy = took.saturating_sub(idle).max(took / 2).max(1);
            let more = u128::from(self.bytes) * u128::from(took) / u128::from(busy);
            self.bytes = u32::try_from(more).unwrap_or(LARGEST).min(LARGEST);
            // On from the plateau.
            (self.top, self.low, self.friendly) = (self.bytes, self.bytes, self.bytes);
            self.grown = Duration::ZERO;
            return;
        }
        self.grown = self.grown + round.took;
        let most = self.bytes.saturating_add(self.bytes / 2);
        self.friendly = self.friendly.saturating_add((u64::from(segment) * FRIENDLY.0 / FRIENDLY.1) as u32);
        self.bytes = self.curve(segment).max(self.friendly).clamp(self.bytes, most).min(LARGEST);
    }

    /// W(t) = C·(t − K)³ + top, K = ∛((top − low)/C), with C = 0.4 segments/s³.
    fn curve(&self, segment: u32) -> u32 {
        let segment = segment.max(1);
        let missing = u128::from(self.top.saturating_sub(self.low));
        // In ms: 10⁹ ms³/s³, and 1/C = 10/4.
        let k = i128::from(cube_root(missing * 2_500_000_000 / u128::from(segment)));
        let t = (i128::from(self.grown.as_nanos() / 1_000_000) - k).clamp(-FAR, FAR);
        let window = i128::from(self.top) + t * t * t * i128::from(segment) / 2_500_000_000;
        u32::try_from(window.max(0)).unwrap_or(LARGEST)
    }
}
