//! Announcement of the terms on which this end uses a path.

use lasthop_proto::link::hybrid::Terms;
use lasthop_proto::time::{Duration, Instant};

/// Time between announcements until one is acknowledged, and their maximum number.
const GAP: Duration = Duration::from_secs(1);
const MOST: u32 = 10;

/// Announcement of a path's terms.
#[derive(Default)]
pub(super) struct Announcement {
    terms: Terms,
    sent: u32,
    due: Option<Instant>,
}

impl Announcement {
    /// Starts to announce the terms.
    pub(super) fn start(&mut self, now: Instant, terms: Terms) {
        *self = Self { terms, sent: 0, due: Some(now) };
    }

    /// Returns the terms announced last; the default ones before the first announcement.
    pub(super) const fn terms(&self) -> Terms {
        self.terms
    }

    /// Ends the announcement if it was of these terms.
    pub(super) fn acknowledged(&mut self, terms: Terms) {
        if terms == self.terms {
            self.due = None;
        }
    }

    /// Returns the terms to send now; later if this end is not able to send (`is_up`).
    pub(super) fn poll(&mut self, now: Instant, is_up: bool) -> Option<Terms> {
        self.due.take_if(|due| *due <= now)?;
        if !is_up {
            self.due = Some(now + GAP);
            return None;
        }
        self.sent += 1;
        self.due = (self.sent < MOST).then_some(now + GAP);
        Some(self.terms)
    }

    pub(super) const fn poll_deadline(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::link::hybrid::Tier;

    use super::*;

    #[test]
    fn it_is_repeated_until_it_is_acknowledged_or_ten_were_sent() {
        let mut announcement = Announcement::default();
        let (backup, off) = (Terms::of(Tier::Backup), Terms::of(Tier::Off));
        assert_eq!(announcement.poll(Instant::ZERO, true), None);
        announcement.start(Instant::ZERO, backup);
        announcement.start(Instant::ZERO, off);
        assert_eq!(announcement.poll(Instant::ZERO, true), Some(off));
        announcement.acknowledged(backup);
        assert_eq!(announcement.poll_deadline(), Some(Instant::ZERO + GAP));
        let sent = (1..60).filter(|second| announcement.poll(Instant::ZERO + GAP * *second, true).is_some()).count();
        assert_eq!(sent, 9);
        announcement.start(Instant::ZERO, off);
        announcement.acknowledged(off);
        assert_eq!(announcement.poll(Instant::ZERO + GAP, true), None);
    }
}
