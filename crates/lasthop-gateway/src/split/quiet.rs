//! Keepalive times of idle connections.
//!
//! A reset may be lost on its way to the gateway. Without a gateway, the other end's next packet would elicit another
//! reset. Here the gateway has already acknowledged and forwarded that end's data and sends nothing more. The gateway
//! therefore probes soon, and then at increasing intervals.

use std::time::{Duration, Instant};

/// Idle time before the first probe.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// Factor between successive idle times.
const GROWTH: u32 = 4;

/// Idle time of a connection, and the keepalive time of its sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    since: Instant,
    /// Idle time after which the kernel probes (`TCP_KEEPIDLE`).
    time: Duration,
}

impl Quiet {
    /// Creates the state of a new connection, whose sockets are set to [`FIRST`].
    pub const fn new(now: Instant) -> Self {
        Self { since: now, time: FIRST }
    }

    /// Records moved bytes. Returns the new keepalive time of the sockets if it changes.
    pub fn moved(&mut self, now: Instant) -> Option<Duration> {
        self.since = now;
        (std::mem::replace(&mut self.time, FIRST) != FIRST).then_some(FIRST)
    }

    /// Records that the connection is still idle. Returns the new keepalive time of the sockets, at most `most`, if it
    /// changes.
    pub fn lasts(&mut self, now: Instant, most: Duration) -> Option<Duration> {
        // Twice the time, so that the kernel has sent a probe and may have received the answer.
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
