//! The packets that one end sends: executes orders, numbers packets and records them.

use std::collections::VecDeque;

use lasthop_proto::random::{Root, Stream as Draws};
use lasthop_proto::time::{Duration, Instant};

use crate::order::{LADDER, Mix, Order, SMALLEST, Stream, Task, Train, Trains};

/// Maximum number of packets that an end sends in a session.
pub const MOST_PACKETS: usize = 250_000;
/// Maximum number of waiting orders.
const MOST_WAITING: usize = 64;
/// Burst, in bytes, by which the maximum rate may be exceeded.
const AT_ONCE: f64 = 64e3;

/// DSCPs beside the default: low effort (CS1), multimedia (AF41), telephony (EF).
pub const CODE_POINTS: [u8; 3] = [8, 34, 46];
/// Share of trains with each of these.
const MARKED: f64 = 0.05;

/// Packet that an end sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Send time, by its own clock.
    pub at: Instant,
    /// Size in bytes, IP header included.
    pub size: u16,
    /// Number of its order; 0 for protocol messages.
    pub order: u16,
    /// Index within the order.
    pub index: u16,
    /// DSCP.
    pub dscp: u8,
}

struct Running {
    order: Order,
    next: u16,
    at: Instant,
}

struct Streaming {
    order: u16,
    stream: Stream,
    draws: Draws,
    until: Instant,
    at: Instant,
    left: u16,
    size: u16,
    dscp: u8,
    index: u16,
    /// Transmission time of the latest train.
    air: Duration,
}

/// Running order of trains at intervals.
struct Pulsing {
    order: u16,
    trains: Trains,
    draws: Draws,
    began: Instant,
    /// Number of the current train, and of the next packet in the order.
    train: u16,
    next: u16,
    at: Instant,
}

/// Sending half of an end.
pub struct Source {
    log: Vec<Sent>,
    waiting: VecDeque<Order>,
    running: Option<Running>,
    streaming: Option<Streaming>,
    pulsing: Option<Pulsing>,
    /// End of the current silence.
    silent_until: Instant,
    latest: u16,
    bytes_per_second: f64,
    /// Time at which all packets so far would have left at that rate.
    paid_until: Instant,
}

impl Source {
    /// Creates a source that never exceeds `bits_per_second`, except for a short burst.
    pub fn new(bits_per_second: u64) -> Self {
        Self {
            log: Vec::new(),
            waiting: VecDeque::new(),
            running: None,
            streaming: None,
            pulsing: None,
            silent_until: Instant::ZERO,
            latest: 0,
            bytes_per_second: bits_per_second.max(8_000) as f64 / 8.0,
            paid_until: Instant::ZERO,
        }
    }

    /// Takes an order that follows the latest one. Returns whether it was accepted, now or before.
    pub fn take(&mut self, now: Instant, order: Order) -> bool {
        if order.id <= self.latest {
            return true;
        }
        if order.id != self.latest + 1 || self.waiting.len() >= MOST_WAITING {
            return false;
        }
        self.latest = order.id;
        if let Task::Trains(trains) = order.task {
            let draws = Root(trains.seed).stream("probe/trains");
            let began = now + order.rest[0];
            let mut pulsing = Pulsing { order: order.id, trains, draws, began, train: 0, next: 0, at: began };
            pulsing.draw();
            self.pulsing = Some(pulsing);
        } else if let Task::Stream(stream) = order.task {
            let draws = Root(stream.seed).stream("probe/stream");
            self.streaming = Some(Streaming {
                order: order.id,
                stream,
                draws,
                until: now + stream.lasts,
                at: now,
                left: 0,
                size: SMALLEST,
                dscp: 0,
                index: 0,
                air: Duration::ZERO,
            });
        } else {
            self.waiting.push_back(order);
        }
        true
    }

    /// Returns the number of the latest accepted order.
    pub fn latest(&self) -> u16 {
        self.latest
    }

    /// Cancels all orders.
    pub fn stop(&mut self) {
        self.waiting.clear();
        self.running = None;
        self.streaming = None;
        self.pulsing = None;
    }

    /// Cancels all orders except trains at intervals, of which those due by now are omitted.
    pub fn pause(&mut self, now: Instant) {
        self.waiting.clear();
        (self.running, self.streaming) = (None, None);
        if let Some(pulsing) = &mut self.pulsing {
            while pulsing.at <= now && pulsing.train < pulsing.trains.number {
                pulsing.skip();
            }
        }
        self.pulsing.take_if(|pulsing| pulsing.train >= pulsing.trains.number);
    }

    /// Records a packet that is sent now, and returns its sequence number.
    pub fn number(&mut self, sent: Sent) -> u32 {
        let seq = self.log.len() as u32;
        self.log.push(sent);
        self.paid_until =
            self.paid_until.max(sent.at) + Duration::from_secs_f64(f64::from(sent.size) / self.bytes_per_second);
        seq
    }

    /// Returns all packets sent, by sequence number.
    pub fn log(&self) -> &[Sent] {
        &self.log
    }

    /// Returns whether all sequence numbers are used up.
    pub fn is_full(&self) -> bool {
        self.log.len() >= MOST_PACKETS
    }

    fn pace(&self) -> Instant {
        let ahead = Duration::from_secs_f64(AT_ONCE / self.bytes_per_second).as_nanos();
        Instant::from_nanos(self.paid_until.as_nanos().saturating_sub(ahead))
    }

    /// Returns the time at which the next packet is due.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let due = match (&self.running, self.waiting.front(), &self.pulsing, &self.streaming) {
            (Some(running), ..) => running.at,
            (None, Some(_), ..) => self.silent_until,
            (None, None, Some(pulsing), _) => pulsing.at,
            (None, None, None, Some(streaming)) => streaming.at.max(self.silent_until),
            (None, None, None, None) => return None,
        };
        (!self.is_full()).then(|| due.max(self.pace()))
    }

    /// Returns the next packet if it is due, without its number.
    pub fn poll(&mut self, now: Instant) -> Option<Sent> {
        if self.running.is_none()
            && now >= self.silent_until
            && let Some(order) = self.waiting.pop_front()
        {
            self.running = Some(Running { order, next: 0, at: now + order.rest[0] });
        }
        if self.poll_deadline()? > now {
            return None;
        }
        if let Some(running) = &mut self.running {
            let index = running.next;
            let (size, gap, count) = match running.order.task {
                Task::Train(train) => (train.size, train.gap, train.count),
                Task::Ladder(gap) => (LADDER[usize::from(index) % LADDER.len()], gap, LADDER.len() as u16),
                Task::Stream(_) | Task::Trains(_) => (SMALLEST, Duration::ZERO, 0),
            };
            running.next += 1;
            // The gap counts from the due time, so that a late packet does not delay later ones.
            running.at = (running.at + gap).max(if gap == Duration::ZERO { now } else { Instant::ZERO });
            let order = running.order;
            if running.next >= count {
                self.silent_until = now + order.rest[1];
                self.running = None;
            }
            return Some(Sent { at: now, size, order: order.id, index, dscp: 0 });
        }
        if let Some(pulsing) = &mut self.pulsing {
            let sent = pulsing.send(now);
            if pulsing.train >= pulsing.trains.number {
                self.pulsing = None;
            }
            return Some(sent);
        }
        let streaming = self.streaming.as_mut()?;
        if streaming.left == 0 {
            if now >= streaming.until {
                self.streaming = None;
                return None;
            }
            streaming.begin_train();
        }
        streaming.left -= 1;
        streaming.index = streaming.index.wrapping_add(1);
        if streaming.left == 0 {
            let pause = streaming.draws.exponential(streaming.stream.pause.as_nanos() as f64);
            streaming.at = now + streaming.air + Duration::from_nanos(pause as u64);
        }
        let Streaming { order, size, dscp, index, .. } = *streaming;
        Some(Sent { at: now, size, order, index, dscp })
    }
}

impl Pulsing {
    /// Draws the time of the current train.
    fn draw(&mut self) {
        let Trains { shift, interval, .. } = self.trains;
        let within = (self.draws.uniform() + f64::from(shift) / 256.0) % 1.0;
        let after = interval.as_secs_f64() * (f64::from(self.train) + within);
        self.at = self.at.max(self.began + Duration::from_secs_f64(after));
    }

    /// Omits the rest of the current train.
    fn skip(&mut self) {
        self.train += 1;
        self.next = self.train.wrapping_mul(self.trains.train.count);
        self.draw();
    }

    /// Returns the next packet, which is sent now.
    fn send(&mut self, now: Instant) -> Sent {
        let Train { count, size, gap } = self.trains.train;
        let index = self.next;
        self.next = self.next.wrapping_add(1);
        if self.next.is_multiple_of(count) {
            self.train += 1;
            self.at = now;
            self.draw();
        } else {
            // As for a train: a late packet does not delay later ones.
            self.at = (self.at + gap).max(if gap == Duration::ZERO { now } else { Instant::ZERO });
        }
        Sent { at: now, size, order: self.order, index, dscp: 0 }
    }
}

impl Streaming {
    fn begin_train(&mut self) {
        let middle = self.stream.largest.min(500);
        let [small, mid] = self.stream.mix.shares();
        let drawn = self.draws.uniform();
        (self.size, self.left) = if drawn < small {
            (SMALLEST, 6)
        } else if drawn < small + mid {
            (middle, 3)
        } else {
            (self.stream.largest, 2)
        };
        let bits = 8.0 * f64::from(self.size) * f64::from(self.left);
        self.air = Duration::from_secs_f64(bits / self.stream.rate as f64);
        let marked = self.draws.uniform();
        self.dscp = CODE_POINTS.get((marked / MARKED) as usize).copied().unwrap_or(0);
    }
}

impl Mix {
    /// Returns the shares of trains with six small packets and with three of medium size; all others have two large
    /// ones.
    pub(crate) const fn shares(self) -> [f64; 2] {
        match self {
            Self::Small => [0.91, 0.06],
            Self::Even => [0.70, 0.18],
        }
    }

    /// Returns the mean number of packets and bytes in a train.
    pub(crate) fn means(self, largest: u16) -> [f64; 2] {
        let [small, mid] = self.shares();
        let large = 1.0 - small - mid;
        let bytes = [6 * u32::from(SMALLEST), 3 * u32::from(largest.min(500)), 2 * u32::from(largest)].map(f64::from);
        [small * 6.0 + mid * 3.0 + large * 2.0, small * bytes[0] + mid * bytes[1] + large * bytes[2]]
    }
}
