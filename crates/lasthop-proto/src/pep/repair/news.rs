//! What a connection tells others of the same mobile host, and what it makes of what they tell.

use super::Repair;
use crate::packet::Payload;
use crate::pep::snoop::{Heard, is_mostly_queue};
use crate::time::{Duration, Instant};

/// What an arrival tells of the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) struct News {
    /// How long a packet took, where one has shown that.
    pub took: Option<Duration>,
    /// The shortest time that a packet of the connection took, the handshake's among them.
    pub least: Option<Duration>,
}

impl<P: Payload> Repair<P> {
    /// What was heard by now of the mobile host's connections.
    pub fn hear_of(&mut self, heard: Option<Heard>) {
        self.heard = heard;
    }

    /// Whether packets wait in a queue, by the shortest time that is known, of any connection.
    pub(super) fn waits_in_a_queue(&self) -> bool {
        let least = [self.rtt.least(), self.heard.map(|heard| heard.least)].into_iter().flatten().min();
        least.is_some_and(|least| is_mostly_queue(self.rtt.smoothed(), least))
    }

    /// What an arrival just now says of the hop, once.
    pub fn take_news(&mut self, now: Instant) -> Option<News> {
        (self.progress == now).then(|| News { took: self.rtt.take_latest(), least: self.rtt.least() })
    }

    /// How long the hop takes, where it is up and there is a queue: another connection has heard within that time, and after this one did.
    pub(super) fn others_hear(&self, now: Instant) -> Option<Duration> {
        let heard = self.heard.filter(|heard| heard.last > self.progress.max(self.echoed))?;
        (now.since(heard.last) < heard.took && heard.shows_a_queue()).then_some(heard.took)
    }

    /// Others have heard since then: so long at least is waited for what went then, for it is behind a queue. What this one heard itself counts in its own round trip.
    pub(super) fn others_take(&self, since: Instant) -> Duration {
        let heard = self.heard.filter(|heard| heard.last > self.progress && heard.last >= since);
        heard.map_or(Duration::ZERO, |heard| heard.took * 5 / 4)
    }
}
