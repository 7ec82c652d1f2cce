//! Share of a host's own queue that one socket may use: its limit, and the time at which it has capacity again.
//!
//! A sender in a host cannot overrun the link of that host: the kernel limits a socket's data in the queue (qdisc and
//! device), and sends more as packets leave it. Linux limits TCP by TCP small queues (`tcp_small_queue_check`, 6.18)
//! and UDP by the socket's send buffer (`sock_wait_for_wmem`).

use alloc::collections::VecDeque;

use crate::time::Instant;

/// Time at which a packet sent by a node begins transmission on the link of the node's host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// At once, or the driver does not keep track.
    Now,
    /// At that time.
    At(Instant),
    /// At a time that the driver does not know yet. The driver then calls
    /// [`Node::handle_departure`](crate::node::Node::handle_departure).
    Unknown,
}

/// A packet sent by a node, in its host's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// Time at which the packet begins transmission.
    pub departure: Departure,
    /// Payload bytes.
    pub bytes: u32,
}

impl Queued {
    /// A packet that does not wait, or is not tracked.
    pub const NOT: Self = Self { departure: Departure::Now, bytes: 0 };
}

/// Time from which a socket may add to its host's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Now.
    Now,
    /// Not before that time.
    At(Instant),
    /// Not before the driver reports a departure.
    Unknown,
}

/// Bytes of one socket in its host's queue. It stores as many packets as the socket has there, which the limit bounds.
#[derive(Clone, Default, Debug)]
pub struct HostQueue {
    /// Packets with known departures, in order of time, as links send in order.
    scheduled: VecDeque<(Instant, u32)>,
    /// Bytes in `scheduled`.
    scheduled_bytes: u64,
    /// Bytes whose departure the driver will report.
    unscheduled_bytes: u64,
}

impl HostQueue {
    /// Adds a packet of `bytes`.
    pub fn add(&mut self, now: Instant, Queued { departure, bytes }: Queued) {
        self.discard_departed(now);
        match departure {
            Departure::Now => {}
            Departure::At(at) if at <= now => {}
            Departure::At(at) => {
                self.scheduled.push_back((at, bytes));
                self.scheduled_bytes += u64::from(bytes);
            }
            Departure::Unknown => self.unscheduled_bytes += u64::from(bytes),
        }
    }

    /// Removes `bytes` of a packet that was added with [`Departure::Unknown`].
    pub fn remove(&mut self, bytes: u32) {
        self.unscheduled_bytes = self.unscheduled_bytes.saturating_sub(u64::from(bytes));
    }

    /// Returns the number of bytes queued at `now`.
    pub fn bytes(&mut self, now: Instant) -> u64 {
        self.discard_departed(now);
        self.scheduled_bytes + self.unscheduled_bytes
    }

    /// Returns the time at which at most `limit` bytes are queued.
    pub fn room(&mut self, now: Instant, limit: u64) -> Room {
        let mut waiting = self.bytes(now);
        if waiting <= limit {
            return Room::Now;
        }
        for &(at, bytes) in &self.scheduled {
            waiting -= u64::from(bytes);
            if waiting <= limit {
                return Room::At(at);
            }
        }
        Room::Unknown
    }

    fn discard_departed(&mut self, now: Instant) {
        while let Some(&(at, bytes)) = self.scheduled.front()
            && at <= now
        {
            self.scheduled_bytes -= u64::from(bytes);
            self.scheduled.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn room_comes_when_enough_packets_have_left() {
        let mut queue = HostQueue::default();
        for number in 1..=4 {
            queue.add(at(0), Queued { departure: Departure::At(at(number * 100)), bytes: 1000 });
        }
        assert_eq!(queue.bytes(at(0)), 4000);
        assert_eq!(queue.room(at(0), 4000), Room::Now);
        assert_eq!(queue.room(at(0), 3999), Room::At(at(100)));
        assert_eq!(queue.room(at(0), 1500), Room::At(at(300)));
        assert_eq!(queue.room(at(300), 1500), Room::Now);
        assert_eq!(queue.bytes(at(400)), 0);
    }

    #[test]
    fn packets_that_do_not_wait_take_no_room() {
        let mut queue = HostQueue::default();
        queue.add(at(5), Queued { departure: Departure::Now, bytes: 1000 });
        queue.add(at(5), Queued { departure: Departure::At(at(5)), bytes: 1000 });
        assert_eq!(queue.bytes(at(5)), 0);
    }

    #[test]
    fn departures_that_the_driver_reports_make_room() {
        let mut queue = HostQueue::default();
        queue.add(at(0), Queued { departure: Departure::Unknown, bytes: 1000 });
        queue.add(at(0), Queued { departure: Departure::Unknown, bytes: 500 });
        assert_eq!(queue.room(at(1_000_000), 1000), Room::Unknown);
        queue.remove(1000);
        assert_eq!(queue.room(at(1_000_000), 1000), Room::Now);
        // A driver that reports too much does no harm.
        queue.remove(1000);
        assert_eq!(queue.bytes(at(1_000_000)), 0);
    }
}
