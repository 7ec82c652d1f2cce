//! Which segments are lost: time decides (RFC 8985 §6.2). A segment is lost when one sent after it was delivered, and a round
//! trip and a little more have passed since it was sent.

use crate::seq::Seq;
use crate::tcp::congestion::control::CaState;
use crate::tcp::flight::{Flight, Index, Sent};
use crate::time::{Duration, Instant};

/// No reordering degree beyond this is believed (Linux `tcp_max_reordering`).
const MOST_REORDERING: u32 = 300;
/// The reordering window shrinks again after so many recoveries without a duplicate SACK (RFC 8985 §6.2 step 4).
const PERSISTENCE: u8 = 16;

/// The segment sent last of those delivered.
#[derive(Clone, Copy, Default, Debug)]
pub struct Newest {
    sent_at: Instant,
    end: Seq,
    /// Round trip of what was delivered last.
    rtt: Duration,
    /// Whether something was delivered since losses were last looked for.
    advanced: bool,
}

impl Newest {
    /// `sent` is delivered. A round trip shorter than any says that it was the original that arrived (step 2).
    pub fn advance(&mut self, now: Instant, sent: &Sent, min_rtt: Option<Duration>) {
        let rtt = now.since(sent.sent_at());
        if sent.is_repeated() && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        if sent.is_after(self.sent_at, self.end) {
            (self.sent_at, self.end) = (sent.sent_at(), sent.end());
        }
    }

    /// Losses are to be looked for again, whatever is delivered.
    pub fn force(&mut self) {
        self.advanced = true;
    }

    /// Whether losses are to be looked for; asked once.
    pub fn take_advanced(&mut self) -> bool {
        core::mem::take(&mut self.advanced)
    }

    fn is_after(&self, sent: &Sent) -> bool {
        self.sent_at > sent.sent_at() || self.sent_at == sent.sent_at() && self.end.gt(sent.end())
    }

    /// How long `sent` may still be under way.
    pub fn patience(&self, now: Instant, sent: &Sent, reordering: Duration) -> Duration {
        (self.rtt + reordering).saturating_sub(now.since(sent.sent_at()))
    }
}

/// Steps 4 and 5: calls `lost` for each segment that is lost; it has to mark it. Returns after what time the last of those
/// that may still come will be lost too.
pub fn detect(
    flight: &mut Flight,
    newest: &Newest,
    now: Instant,
    reordering: Duration,
    mut lost: impl FnMut(&mut Flight, Index),
) -> Option<Duration> {
    let mut wait = None;
    for at in 0..flight.holes(newest.sent_at, newest.end) {
        let Some(index) = flight.hole(at) else { break };
        let Some(sent) = flight.get(index) else { continue };
        if sent.is_waiting() || !newest.is_after(sent) {
            continue;
        }
        match newest.patience(now, sent, reordering) {
            Duration::ZERO => lost(flight, index),
            patience => wait = wait.max(Some(patience)),
        }
    }
    wait
}

/// What is known of reordering on the path.
#[derive(Clone, Copy, Debug)]
pub struct Reordering {
    /// Whether there was any.
    seen: bool,
    /// By how many segments: as many selectively acknowledged prove a loss while there was none.
    degree: u32,
    /// What `degree` began at.
    threshold: u32,
    /// Quarters of the shortest round trip that a segment may be late.
    steps: u8,
    /// Recoveries until they are one again.
    persist: u8,
    /// Whether a duplicate SACK says that the last window was too small.
    dsack_seen: bool,
    /// Segments delivered when the window was last widened.
    widened_at: u64,
}

impl Reordering {
    /// Nothing is known; so many segments above a hole prove its loss.
    pub fn new(threshold: u32) -> Self {
        let degree = threshold;
        Self { seen: false, degree, threshold, steps: 1, persist: 0, dsack_seen: false, widened_at: 0 }
    }

    /// Whether so many duplicates prove a loss.
    pub const fn is_reached(&self, duplicates: u32) -> bool {
        duplicates >= self.degree
    }

    /// More duplicates came than were out: so many segments may come in another order.
    pub fn on_surplus(&mut self, out: u32) {
        self.degree = self.degree.max(out.min(MOST_REORDERING));
        self.seen = true;
    }

    /// By how many segments the network changes their order, as far as is known.
    pub const fn degree(&self) -> u32 {
        self.degree
    }

    /// Whether more reordering was seen than the threshold of duplicates allows for.
    pub const fn is_high(&self) -> bool {
        self.degree > self.threshold
    }

    /// Step 4: by how much a segment may be late.
    pub fn window(&self, state: CaState, sacked: u32, min_rtt: Duration, srtt: Duration) -> Duration {
        let certain = matches!(state, CaState::Recovery | CaState::Loss) || sacked >= self.degree;
        if !self.seen && certain {
            return Duration::ZERO;
        }
        ((min_rtt / 4) * u64::from(self.steps)).min(srtt)
    }

    /// Step 3: what begins at `low` was delivered, sent once, after what ends at `highest`.
    pub fn on_reordered(&mut self, low: Seq, highest: Seq, mss: u32) {
        if !low.lt(highest) {
            return;
        }
        let degree = highest.since(low).div_ceil(mss.max(1));
        self.degree = self.degree.max(degree.min(MOST_REORDERING));
        self.seen = true;
    }

    /// A duplicate SACK came that is no probe's.
    pub fn on_duplicate(&mut self) {
        self.dsack_seen |= self.seen;
    }

    /// An acknowledgment came of something sent when `prior` segments had been delivered: once a round trip the window
    /// widens if it was too small.
    pub fn on_ack(&mut self, prior: u64, delivered: u64) {
        if prior < self.widened_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = self.steps.saturating_add(1);
            self.dsack_seen = false;
            self.widened_at = delivered;
            self.persist = PERSISTENCE;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery ended that was none too many.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery turned out to be one too many.
    pub fn on_undone(&mut self) {
        self.persist = (self.persist + 1).min(PERSISTENCE);
    }

    /// The timeout came though duplicates did: the degree was believed too high.
    pub fn on_timeout(&mut self, sacked: u32) {
        if sacked >= self.threshold {
            self.degree = self.degree.min(self.threshold);
        }
    }
}
