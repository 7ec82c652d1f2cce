//! Handovers and activity of a user.

use super::spec::{DrxSpec, HandoverSpec};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Handovers of a user. They depend on time only, not on traffic.
#[derive(Clone, Debug)]
struct Handovers {
    spec: HandoverSpec,
    stream: Stream,
    /// Next handover: its start, the time without transmission, and whether it fails.
    at: Instant,
    gap: Duration,
    fails: bool,
}

impl Handovers {
    fn new(spec: HandoverSpec, stream: Stream) -> Self {
        let mut handovers = Self { spec, stream, at: Instant::ZERO, gap: Duration::ZERO, fails: false };
        handovers.draw();
        handovers
    }

    /// Draws the next handover, which begins after the end of the last one.
    fn draw(&mut self) {
        let more = self.spec.interval.saturating_sub(self.spec.least).as_secs_f64();
        let interval = self.spec.least + Duration::from_secs_f64(self.stream.exponential(more));
        self.at += interval.max(self.gap + Duration::from_millis(1));
        self.fails = self.stream.chance(self.spec.failure);
        self.gap = uniform(&mut self.stream, if self.fails { self.spec.outage } else { self.spec.gap });
    }
}

/// Draws a uniform time.
pub(super) fn uniform(stream: &mut Stream, [least, most]: [Duration; 2]) -> Duration {
    let span = most.saturating_sub(least).as_nanos();
    least + Duration::from_nanos(stream.below(span.saturating_add(1)))
}

/// A user.
#[derive(Clone, Debug)]
pub(super) struct User {
    handovers: Option<Handovers>,
    /// End of the last handover that has begun.
    gap_end: Instant,
    /// End of the user's last transmission.
    pub(super) active: Instant,
    /// Draws of grants and of the end of sleep.
    access: Stream,
}

impl User {
    pub(super) fn new(handover: Option<HandoverSpec>, mut streams: impl FnMut(&str) -> Stream) -> Self {
        Self {
            handovers: handover.map(|spec| Handovers::new(spec, streams("handover"))),
            gap_end: Instant::ZERO,
            active: Instant::ZERO,
            access: streams("access"),
        }
    }

    /// Begins the handovers that are due, and returns whether one of them fails.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        let mut fails = false;
        if let Some(handovers) = &mut self.handovers {
            while handovers.at <= now {
                self.gap_end = handovers.at + handovers.gap;
                fails |= handovers.fails;
                handovers.draw();
            }
        }
        fails
    }

    /// Returns the start of the next handover if it fails.
    pub(super) fn next_failure(&self) -> Option<Instant> {
        self.handovers.as_ref().filter(|handovers| handovers.fails).map(|handovers| handovers.at)
    }

    /// Returns the end of the last handover that has begun.
    pub(super) const fn gap_end(&self) -> Instant {
        self.gap_end
    }

    /// Draws the time until a grant.
    pub(super) fn grant(&mut self, grant: Option<[Duration; 2]>) -> Duration {
        grant.map_or(Duration::ZERO, |range| uniform(&mut self.access, range))
    }

    /// Draws the time until the receiver listens.
    pub(super) fn sleep(&mut self, now: Instant, drx: Option<DrxSpec>) -> Duration {
        match drx {
            Some(drx) if now.since(self.active) > drx.idle => {
                uniform(&mut self.access, [Duration::ZERO, drx.cycle.saturating_sub(drx.on)])
            }
            _ => Duration::ZERO,
        }
    }
}
