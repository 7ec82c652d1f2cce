//! When the ends of a quiet connection are asked whether they are still there.
//!
//! An end's reset may be lost on its way to the gateway. Without a gateway, what the other end sends next brings another one. Here the gateway
//! has acknowledged and passed on all of that, and sends nothing more. So it asks soon, and then more and more rarely.

use std::time::{Duration, Instant};

/// After how long a silence an end is asked first.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// How many times as long the next silence is.
const GROWTH: u32 = 4;

/// How long nothing has moved on a connection, and what its sockets are set to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    since: Instant,
    /// The silence after which the kernel asks (`TCP_KEEPIDLE`).
    time: Duration,
}

impl Quiet {
    /// A connection that has just begun; its sockets are set to [`FIRST`].
    pub const fn new(now: Instant) -> Self {
        Self { since: now, time: FIRST }
    }

    /// Bytes have moved. What the sockets are to be set to, if to anything else than before.
    pub fn moved(&mut self, now: Instant) -> Option<Duration> {
        self.since = now;
        (std::mem::replace(&mut self.time, FIRST) != FIRST).then_some(FIRST)
    }

    /// Nothing has moved until `now`. What the sockets are to be set to, if to anything else than before: never more than `most`.
    pub fn lasts(&mut self, now: Instant, most: Duration) -> Option<Duration> {
        // Twice as long, so that the kernel has asked and may have been answered.
        if self.time >= most || now.duration_since(self.since) < 2 * self.time {
            return None;
        }
        self.time = (GROWTH * self.time).min(most);
        Some(self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_asked_more_and_more_rarely_until_something_moves() {
        let (begin, most) = (Instant::now(), Duration::from_secs(300));
        let mut quiet = Quiet::new(begin);
        assert_eq!(quiet.moved(begin), None);
        let mut set = Vec::new();
        for second in 0..1000 {
            let now = begin + Duration::from_secs(second);
            set.extend(quiet.lasts(now, most).map(|time| (second, time.as_secs())));
        }
        assert_eq!(set, [(2, 4), (8, 16), (32, 64), (128, 256), (512, 300)]);
        assert_eq!(quiet.moved(begin + Duration::from_secs(1000)), Some(FIRST));
        assert_eq!(quiet.lasts(begin + Duration::from_secs(1001), most), None);
        assert_eq!(quiet.lasts(begin + Duration::from_secs(1002), most), Some(Duration::from_secs(4)));
    }

    #[test]
    fn where_the_operator_wants_it_sooner_it_stays_so() {
        let begin = Instant::now();
        assert_eq!(Quiet::new(begin).lasts(begin + Duration::from_secs(10), FIRST), None);
    }
}
