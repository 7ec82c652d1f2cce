//! Data packets that flow control holds back, kept in the kernel's queue until the packet that the gateway sends in
//! their place has left. If netfilter refuses that packet, the original is accepted instead of being lost.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use lasthop_proto::seq::Seq;
use lasthop_wire::{Route, View};

use crate::daemon::overdue::remove_overdue;

/// Maximum number of packets to keep: the kernel searches them for each verdict. Further ones are dropped at once.
const MOST: usize = 256;
/// Maximum time to keep a packet.
const LONGEST: Duration = Duration::from_secs(5);

/// Packet that waits for its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packet {
    id: u32,
    seq: Seq,
    len: u32,
    since: Instant,
}

/// Verdict on a waiting packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The packet's replacement has left.
    Drop(u32),
    /// The packet itself continues.
    Accept(u32),
}

/// Waiting packets.
#[derive(Debug, Default)]
pub(super) struct Parked {
    routes: HashMap<Route, VecDeque<Packet>>,
    count: usize,
    next: Option<Instant>,
}

impl Parked {
    /// Returns whether no packet waits.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps a packet if the limit permits. Returns whether its verdict comes later.
    pub fn keep(&mut self, now: Instant, id: u32, view: &View) -> bool {
        if self.count >= MOST || view.payload_len == 0 {
            return false;
        }
        let packet = Packet { id, seq: view.segment.seq, len: view.payload_len as u32, since: now };
        self.routes.entry(view.route).or_default().push_back(packet);
        self.count += 1;
        self.next.get_or_insert(now + LONGEST);
        true
    }

    /// Returns the verdict on the packet in whose place `sent` left (`left`), or was refused.
    pub fn on_sent(&mut self, sent: &View, left: bool) -> Option<Fate> {
        let waiting = self.routes.get_mut(&sent.route)?;
        let (begin, end) = (sent.segment.seq, sent.segment.seq + sent.payload_len as u32);
        let has = |packet: &Packet| begin.0.wrapping_sub(packet.seq.0) < packet.len;
        let place = waiting.iter().position(has)?;
        let packet = waiting[place];
        // The pieces of a super-segment are sent one by one.
        if left && end.0.wrapping_sub(packet.seq.0) < packet.len {
            return None;
        }
        waiting.remove(place);
        if waiting.is_empty() {
            self.routes.remove(&sent.route);
        }
        self.count -= 1;
        Some(if left { Fate::Drop(packet.id) } else { Fate::Accept(packet.id) })
    }

    /// Removes packets that have waited too long for their replacement, and returns their ids. They are to be dropped.
    pub fn expire(&mut self, now: Instant) -> Vec<u32> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let (ended, oldest) = remove_overdue(&mut self.routes, |packet| packet.since, now, LONGEST);
        self.count -= ended.len();
        self.next = oldest.map(|since| since + LONGEST);
        ended.into_iter().map(|packet| packet.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Flags, Segment};

    use super::*;

    fn view(seq: u32, len: usize) -> View {
        let route = Route { source: "10.1.0.2:80".parse().unwrap(), destination: "10.2.0.2:4000".parse().unwrap() };
        let segment = Segment { seq: Seq(seq), ack: Seq(1), window: 9, flags: Flags::ACK, options: Default::default() };
        let packet = lasthop_wire::build(route, &segment, &vec![0; len]).unwrap();
        lasthop_wire::parse(&packet).unwrap()
    }

    #[test]
    fn a_packet_ends_once_all_of_it_was_sent_and_goes_on_itself_where_that_is_refused() {
        let (mut parked, now) = (Parked::default(), Instant::now());
        assert!(parked.keep(now, 1, &view(u32::MAX - 99, 300)) && parked.keep(now, 2, &view(200, 100)));
        assert_eq!(parked.on_sent(&view(300, 100), true), None, "another");
        assert_eq!(parked.on_sent(&view(u32::MAX - 99, 100), true), None, "its first third");
        assert_eq!(parked.on_sent(&view(0, 200), true), Some(Fate::Drop(1)));
        assert_eq!(parked.on_sent(&view(200, 100), false), Some(Fate::Accept(2)));
        assert_eq!(parked.on_sent(&view(200, 100), false), None);
        assert!(parked.is_empty());
    }

    #[test]
    fn few_wait_and_none_for_long() {
        let (mut parked, now) = (Parked::default(), Instant::now());
        let kept = (0..1000).filter(|n| parked.keep(now, *n, &view(n * 100, 100))).count();
        assert_eq!(kept, MOST);
        assert!(!parked.keep(now, 7, &view(7, 0)), "no data");
        assert!(parked.expire(now + LONGEST / 2).is_empty());
        assert_eq!(parked.expire(now + LONGEST).len(), MOST);
        assert!(parked.is_empty() && parked.routes.is_empty());
    }
}
