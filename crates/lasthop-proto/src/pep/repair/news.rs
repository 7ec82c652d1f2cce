//! Measurements exchanged with other connections of the same mobile host.

use super::Repair;
use crate::packet::Payload;
use crate::time::{Duration, Instant};

/// Measurements of the hop by an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) struct News {
    /// Time that a packet took, if measured.
    pub took: Option<Duration>,
    /// Shortest time that a packet of the connection took, including the handshake.
    pub least: Option<Duration>,
}

/// Recent measurements of all connections of a mobile host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) struct Heard {
    /// Time of the last arrival on any connection.
    pub last: Instant,
    /// Longest time that a packet took over the hop, within the last round trip.
    pub took: Duration,
    /// Shortest time that a packet took, handshakes included. It expires, because the mobile host may have moved to
    /// another hop.
    pub least: Duration,
}

impl Heard {
    /// Returns whether packets wait in a queue.
    pub fn shows_a_queue(&self) -> bool {
        is_mostly_queue(self.took, self.least)
    }
}

/// Returns whether `took` is more than twice the shortest time: most of it is then queueing or, on a slow hop,
/// transmission time.
fn is_mostly_queue(took: Duration, least: Duration) -> bool {
    took > least.saturating_mul(2)
}

impl<P: Payload> Repair<P> {
    /// Sets the recent measurements of the mobile host's connections.
    pub fn set_others(&mut self, heard: Option<Heard>) {
        self.arrivals.others = heard;
    }

    /// Returns whether packets wait in a queue, judged by the shortest known time of any connection.
    pub(super) fn waits_in_a_queue(&self) -> bool {
        let least = [self.rtt.least(), self.arrivals.others.map(|heard| heard.least)].into_iter().flatten().min();
        least.is_some_and(|least| is_mostly_queue(self.rtt.smoothed(), least))
    }

    /// Returns the measurements of an arrival at `now`, once.
    pub fn take_news(&mut self, now: Instant) -> Option<News> {
        (self.arrivals.progress == now).then(|| News { took: self.rtt.take_latest(), least: self.rtt.least() })
    }

    /// Returns the time that the hop takes if it is up with a queue: another connection has received within that time,
    /// and after this one did.
    pub(super) fn others_receive(&self, now: Instant) -> Option<Duration> {
        let heard = self.arrivals.others.filter(|heard| heard.last > self.arrivals.last())?;
        (now.since(heard.last) < heard.took && heard.shows_a_queue()).then_some(heard.took)
    }

    /// Returns the minimum timeout for a packet sent at `since` if another connection has received since then, as the
    /// packet is behind a queue. This connection's own arrivals count in its own round trip.
    pub(super) fn others_timeout(&self, since: Instant) -> Duration {
        let heard = self.arrivals.others.filter(|heard| heard.last > self.arrivals.progress && heard.last >= since);
        heard.map_or(Duration::ZERO, |heard| heard.took * 5 / 4)
    }
}
