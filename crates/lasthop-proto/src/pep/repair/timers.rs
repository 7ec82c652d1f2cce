//! What is due when, though nothing comes.

use super::hop::Hop;
use super::link_rtt::FLOOR;
use super::{AWAKE, LEAST_REPAIRS, Masks, Outbox, Repair};
use crate::packet::Payload;
use crate::pep::cache::Whereabouts;
use crate::pep::snoop_config::SnoopConfig;
use crate::time::{Duration, Instant};

/// How long a silence rests that has no more bets.
const FIRST_REST: Duration = Duration::from_millis(200);
const LONGEST_REST: Duration = Duration::from_secs(8);

impl<P: Payload> Repair<P> {
    /// When something is to be resent.
    pub fn deadline(&self, config: &SnoopConfig) -> Option<Instant> {
        self.due(config).map(|due| due.max(self.rest.1))
    }

    /// The same, were there no rest in a silence.
    fn due(&self, config: &SnoopConfig) -> Option<Instant> {
        if let Some(owed) = self.owed {
            return Some(owed.since);
        }
        let paced = self.hop.as_ref().and_then(Hop::paced);
        let Some(timer) = self.timer(config) else { return paced };
        let next = self.insistence.map(|insistence| insistence.next);
        Some([self.pace, self.late, next, paced].into_iter().flatten().fold(timer, Instant::min))
    }

    /// Whether what is due is a bet beyond those that each silence has.
    pub fn bets_more_than(&self, free: u32) -> bool {
        self.owed.is_none() && self.bets >= free
    }

    /// When the mobile host was last heard.
    pub fn spoke(&self) -> Instant {
        self.spoke
    }

    /// So many bets were made; how many there were before in this silence.
    pub fn count_bets(&mut self, bets: u32) -> u32 {
        let before = self.bets;
        self.bets = self.bets.saturating_add(bets);
        before
    }

    /// No bet may be made now: it is asked again after a while, each time after twice as long.
    pub fn rest(&mut self, now: Instant) {
        let pause = self.rest.0.saturating_mul(2).max(FIRST_REST).min(LONGEST_REST);
        self.rest = (pause, now + pause);
    }

    /// When the oldest packet is to be resent, though nothing has arrived.
    pub(super) fn timer(&self, config: &SnoopConfig) -> Option<Instant> {
        let front = self.cache.front()?;
        if self.last_ack.is_none() || self.window_closed() || front.by_timer >= config.max_local_retries {
            return None;
        }
        if self.sizes.are_limited() && front.whereabouts == Whereabouts::Arrived {
            // What is missing in front of it is too large, and the sender's.
            return None;
        }
        // Progress shows that the hop works through its queue, so that the timer starts again. But where nothing tells what else
        // was lost, not for what was sent before a timeout, or a burst without later packets would cost a timeout for each packet.
        let restarts = self.masks == Masks::Seen || front.seq.ge(self.recover);
        let since = if restarts { self.progress.max(self.echoed).max(front.last_sent) } else { front.last_sent };
        // The acknowledgment of a packet on its own may be held back, that of two is not (RFC 9293 §3.8.6.3).
        let alone = self.cache.len() == 1 || self.hop.is_none();
        let timeout = if alone { self.rtt.timeout(config) } else { self.rtt.probe_timeout(config) };
        let timeout = timeout.saturating_mul(1 << self.doublings);
        Some(since + timeout.max(self.others_take(since)).min(config.timer_max.max(FLOOR)))
            .filter(|&at| at != Instant::FAR_FUTURE)
    }

    /// Acts on what is due.
    pub fn on_timer(&mut self, now: Instant, config: &SnoopConfig, out: &mut Outbox<P>) {
        if self.sleeps(now) {
            (self.late, self.pace, self.insistence, self.owed) = (None, None, None, None);
        }
        if self.owed.is_some() {
            self.resend_owed(now, out);
            self.release(now, out);
        }
        if self.hop.as_ref().and_then(Hop::paced).is_some_and(|paced| paced <= now) {
            self.release(now, out);
        }
        self.insist(now, out);
        if self.late.is_some_and(|late| late <= now) {
            self.late = None;
            self.resend_lost(now, LEAST_REPAIRS, out);
        }
        if self.pace.is_some_and(|pace| pace <= now) {
            self.on_silence(now, out);
        }
        if self.timer(config).is_some_and(|timer| timer <= now) {
            self.awake = self.awake.max(now + AWAKE);
            self.on_timeout(now, out);
        }
    }
}
