//! Original destinations of SYNs to this machine, before a port forward (DNAT) translates them.
//!
//! The relay must use the address that the opener called. The SYN carries this address only before netfilter's
//! translation, and the translated destination is known only afterwards. This table keeps the original destination for
//! the few microseconds in between.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::opening::Opening;

/// Minimum time to keep an entry: the packet may wait in a queue twice.
const MEMORY: Duration = Duration::from_secs(2);
/// Maximum number of entries per generation; a flood of SYNs shortens the generations.
const MOST: usize = 1 << 12;

/// Source and sequence number (ISN) of a SYN, which DNAT does not change.
type Call = (SocketAddr, u32);

/// Recent SYNs, in a younger and an older generation.
#[derive(Debug, Default)]
pub struct Calls {
    young: HashMap<Call, SocketAddr>,
    old: HashMap<Call, SocketAddr>,
    /// Time of the first entry of the younger generation.
    since: Option<Instant>,
}

impl Calls {
    /// Stores the destination of a SYN.
    pub fn keep(&mut self, now: Instant, Opening { ends, number }: Opening) {
        self.age(now);
        self.since.get_or_insert(now);
        self.young.insert((ends.client, number), ends.server);
    }

    /// Returns the original destination of the SYN that is now `opening`, if it was translated.
    pub fn called(&mut self, now: Instant, Opening { ends, number }: Opening) -> Option<SocketAddr> {
        self.age(now);
        let call = (ends.client, number);
        let called = self.young.get(&call).or_else(|| self.old.get(&call)).copied();
        called.filter(|called| *called != ends.server)
    }

    fn age(&mut self, now: Instant) {
        if self.young.len() >= MOST || self.since.is_some_and(|since| now.duration_since(since) >= MEMORY) {
            self.old = std::mem::take(&mut self.young);
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::opening::Ends;
    use super::*;

    fn opening(client: &str, server: &str, number: u32) -> Opening {
        Opening { ends: Ends { client: client.parse().unwrap(), server: server.parse().unwrap() }, number }
    }

    #[test]
    fn a_call_is_known_by_its_opener_and_number_for_a_while() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        calls.keep(now, opening("10.1.0.2:7", "10.1.0.1:80", 5));
        let behind = |number| opening("10.1.0.2:7", "10.2.0.2:8080", number);
        assert_eq!(calls.called(now, behind(5)), Some("10.1.0.1:80".parse().unwrap()));
        assert_eq!(calls.called(now, behind(6)), None, "another connection");
        assert_eq!(calls.called(now, opening("10.1.0.2:7", "10.1.0.1:80", 5)), None, "not translated");
        assert!(calls.called(now + MEMORY, behind(5)).is_some(), "kept at least so long");
        calls.keep(now + MEMORY, opening("10.1.0.3:7", "10.1.0.1:80", 5));
        assert!(calls.called(now + 2 * MEMORY, behind(5)).is_none());
    }

    #[test]
    fn a_flood_of_calls_takes_bounded_memory() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        for number in 0..100_000 {
            calls.keep(now, opening("10.1.0.2:7", "10.1.0.1:80", number));
        }
        assert!(calls.young.len() + calls.old.len() <= 2 * MOST);
        assert!(calls.called(now, opening("10.1.0.2:7", "10.2.0.2:80", 99_999)).is_some());
    }
}
