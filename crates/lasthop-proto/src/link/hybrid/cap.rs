//! Limit on a flow's data in flight, for a source to which receive-window clamping signals congestion.
//!
//! The cap acts as a congestion window: a signal cuts it as CUBIC cuts its window, and it grows along CUBIC's curve
//! (RFC 9438 §4.2, §4.6). The source's own congestion window does not grow meanwhile, since the source does not use it
//! fully. A cap that lets the flow's queue run empty is too small and grows by the amount missing.

use super::flight::Round;
use crate::tcp::congestion::cube_root;
use crate::time::{Duration, Instant};

/// Multiplicative decrease (RFC 9438 §4.6).
const BETA: (u32, u32) = (7, 10);

/// Growth of Reno's window per round trip, in segments: 3·(1 − β)/(1 + β) (RFC 9438 §4.3).
const FRIENDLY: (u64, u64) = (9, 17);

/// Minimum cap, in segments. It suffices for duplicate acknowledgments to reveal a loss.
const LEAST: u32 = 4;

/// Divisor for the maximum share of the time in which a flow's queue may be empty. If the share exceeds 1/`IDLE`, the
/// cap is too small.
const IDLE: u64 = 8;

/// Maximum window (RFC 7323 §2.3), in bytes.
const LARGEST: u32 = 1 << 30;

/// Number of round trips between signals. A source learns of a drop one round trip later, and ignores further drops for
/// another round trip. A clamped source gets the same time.
const ROUNDS: u8 = 2;

/// Time within which a cut must take effect, regardless of round trips.
const PATIENCE: Duration = Duration::from_secs(3);

/// Limit of times on the curve, in milliseconds: 35 minutes.
const FAR: i128 = 1 << 21;

/// A source's data in flight, and its largest segment, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub flight: u32,
    pub segment: u32,
}

/// Bytes offered to a source beyond the last byte that it knows to have arrived, and the unit of its window field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    pub bytes: u32,
    pub unit: u32,
}

/// State of a cut's effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// No effect yet, for this number of round trips.
    Pending(u8),
    Shown,
    /// A packet was dropped instead, this number of round trips ago. The right edge is far ahead of the reduced flight,
    /// and drops signal congestion until it is near.
    Far(u8),
}

/// Distance of a source's right edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// The right edge is this number of flights ahead: clamping is effective.
    Near(u32),
    /// Too far ahead for clamping to act in time.
    Far,
}

/// Congestion signal to a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// An earlier cut, to which the source has not reacted yet.
    Before,
    /// This cut.
    Now,
    /// A drop, since the source's right edge is far ahead.
    Dropped,
}

/// Cap of one flow.
#[derive(Clone, Debug)]
pub(super) struct Cap {
    bytes: u32,
    /// Plateau of the curve.
    top: u32,
    /// Value after the last cut.
    low: u32,
    /// Reno's window since.
    friendly: u32,
    /// Time of growth since.
    grown: Duration,
    cut_at: Instant,
    effect: Effect,
    /// Number of round trips within which the cut must take effect.
    rounds: u8,
}

impl Cap {
    /// Cuts a flow; `None` if too little is in flight to cut.
    pub fn cut(now: Instant, load: Load, edge: Edge) -> Option<Self> {
        let bytes = (u64::from(load.flight) * u64::from(BETA.0) / u64::from(BETA.1)) as u32;
        let bytes = bytes.max(LEAST.saturating_mul(load.segment));
        let (top, grown) = (load.flight, Duration::ZERO);
        let (effect, flights) = match edge {
            Edge::Near(flights) => (Effect::Pending(0), flights),
            Edge::Far => (Effect::Far(0), 0),
        };
        // The source uses up one flight per round trip before it feels the cut.
        let rounds = ROUNDS.max(u8::try_from(flights.saturating_add(1)).unwrap_or(u8::MAX));
        (bytes < top).then_some(Self { bytes, top, low: bytes, friendly: bytes, grown, cut_at: now, effect, rounds })
    }

    /// Returns the signal to the source by a new cap.
    pub fn told(&self) -> Told {
        if matches!(self.effect, Effect::Far(_)) { Told::Dropped } else { Told::Now }
    }

    /// Returns the maximum number of bytes that the source may have in flight.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Signals congestion. Returns `Some` if the source is signalled by a cut now, or was signalled by the last cut and
    /// may not have reacted to it yet.
    pub fn signal(&mut self, now: Instant, load: Load, edge: Edge) -> Option<Told> {
        let is_recent = |rounds, most| rounds < most && now.since(self.cut_at) < PATIENCE;
        match self.effect {
            Effect::Pending(rounds) => return is_recent(rounds, self.rounds).then_some(Told::Before),
            // Drops signal congestion, however many: those of one round trip are one signal to the source.
            Effect::Far(rounds) if edge == Edge::Far || is_recent(rounds, ROUNDS) => return None,
            Effect::Far(_) | Effect::Shown => {}
        }
        // Before, at most the cap was in flight, unless the edge was far ahead.
        let most = match self.effect {
            Effect::Far(_) => LARGEST,
            _ => self.bytes.saturating_add(load.segment),
        };
        *self = Self::cut(now, Load { flight: load.flight.min(most), ..load }, edge)?;
        Some(self.told())
    }

    /// Evaluates a completed round trip, after which the source may have `bytes` bytes in flight. Window fields have
    /// the given unit.
    pub fn on_round(&mut self, round: Round, Offered { bytes, unit }: Offered, segment: u32) {
        let stands = bytes > self.bytes.saturating_add(segment.max(unit));
        match self.effect {
            Effect::Pending(rounds) => {
                let rounds = rounds.saturating_add(1);
                self.effect = if rounds < ROUNDS || stands { Effect::Pending(rounds) } else { Effect::Shown };
            }
            Effect::Far(rounds) => {
                // The flight after drops counts, not what earlier drops did.
                self.bytes = self.bytes.max(round.most);
                (self.top, self.low, self.friendly) = (self.bytes, self.bytes, self.bytes);
                self.effect = if stands { Effect::Far(rounds.saturating_add(1)) } else { Effect::Shown };
            }
            // A source that stays below its cap is limited by something else.
            Effect::Shown if round.most >= self.bytes - self.bytes / 8 => self.grow(round, segment),
            Effect::Shown => {}
        }
    }

    fn grow(&mut self, round: Round, segment: u32) {
        let (took, idle) = (round.took.as_nanos().max(1), round.idle.as_nanos());
        if idle.saturating_mul(IDLE) > took {
            // The cap was used in the rest of the time; it doubles at most.
            let busy = took.saturating_sub(idle).max(took / 2).max(1);
            let more = u128::from(self.bytes) * u128::from(took) / u128::from(busy);
            self.bytes = u32::try_from(more).unwrap_or(LARGEST).min(LARGEST);
            // Growth restarts at the plateau.
            (self.top, self.low, self.friendly) = (self.bytes, self.bytes, self.bytes);
            self.grown = Duration::ZERO;
            return;
        }
        self.grown = self.grown + round.took;
        let most = self.bytes.saturating_add(self.bytes / 2);
        self.friendly = self.friendly.saturating_add((u64::from(segment) * FRIENDLY.0 / FRIENDLY.1) as u32);
        self.bytes = self.curve(segment).max(self.friendly).clamp(self.bytes, most).min(LARGEST);
    }

    /// Evaluates W(t) = C·(t − K)³ + top, K = ∛((top − low)/C), with C = 0.4 segments/s³.
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
