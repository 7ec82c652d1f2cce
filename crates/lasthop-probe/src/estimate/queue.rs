//! What waits in front of the narrowest link, from overloads.
//!
//! A drop-tail queue is run, for each size that it may have, on the times at which the packets of an overload were sent. The size is taken under which what was lost, what
//! arrived and when is most likely: a full queue drops what comes, so its size shows in how many arrive before the first drop as well as in how long they waited.

use std::collections::VecDeque;

use super::{Log, Packet, Purpose};

/// How a queue is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// In packets of any size.
    Packets,
    /// In bytes.
    Bytes,
    /// It was found with packets of one size only.
    Unknown,
}

/// A queue that was filled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueFound {
    /// Packets that wait, the one in transmission not among them.
    pub packets: u32,
    /// Bytes of each packet, IP header included.
    pub size: u16,
}

/// What overloads with packets of one size say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Overload {
    /// The queue was filled.
    Filled(QueueFound),
    /// It holds at least so much.
    Holds(QueueFound),
}

/// Chance that a packet arrives which the modelled queue drops: its phase may be off by one. What arrived was in the queue, and waited as long as all that is ahead of it.
const SLIP: f64 = 0.04;
/// Unexpected delays count for no more than this.
const MOST_SURPRISE: f64 = 6.0;
/// Log-likelihood that a finite queue has to gain over one without an end: less may be chance, or losses of the channel.
const CLEARLY: f64 = 10.0;

/// What is known of a direction before its queue is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Known {
    /// Bits a second.
    pub rate: f64,
    /// The least delay, [`super::Delays::base`].
    pub base: f64,
    /// The share that is lost below the rate.
    pub loss: f64,
}

struct Model<'p> {
    trains: Vec<&'p [&'p Packet]>,
    rate: f64,
    base: f64,
    loss: f64,
}

impl Model<'_> {
    /// The log-likelihood of a queue of so many waiting packets; `None`: without an end.
    fn likelihood(&self, limit: Option<usize>) -> f64 {
        self.trains.iter().map(|train| self.of_train(train, limit)).sum()
    }

    fn of_train(&self, train: &[&Packet], limit: Option<usize>) -> f64 {
        let mut leaving: VecDeque<f64> = VecDeque::new();
        let mut last = f64::MIN;
        let mut sum = 0.0;
        for packet in train {
            while leaving.front().is_some_and(|at| *at <= packet.sent) {
                leaving.pop_front();
            }
            let full = limit.is_some_and(|limit| leaving.len() > limit);
            if full && packet.arrived.is_none() {
                sum += libm::log1p(-SLIP);
                continue;
            }
            let air = packet.air(self.rate);
            last = last.max(packet.sent) + air;
            leaving.push_back(last);
            sum += match packet.arrived {
                None => libm::log(self.loss),
                Some(arrived) => {
                    // Timers and other processes add milliseconds; slow links take longer for a packet than that.
                    let scale = air.max(1e-3);
                    let surprise = (arrived - self.base - last).abs() / scale;
                    let chance = if full { libm::log(SLIP) } else { libm::log1p(-self.loss) };
                    chance - surprise.min(MOST_SURPRISE)
                }
            };
        }
        sum
    }
}

/// The queue, from overloads with packets of `size` bytes, on a direction of which so much is known. `None` without overloads.
pub fn queue(log: &Log, size: u16, known: Known) -> Option<Overload> {
    let trains: Vec<Vec<&Packet>> =
        log.trains(Purpose::Overload).into_iter().filter(|train| train[0].size == size).collect();
    let longest = trains.iter().map(Vec::len).max()?;
    let Known { rate, base, loss } = known;
    let model = Model { trains: trains.iter().map(Vec::as_slice).collect(), rate, base, loss: loss.clamp(0.002, 0.3) };
    let endless = model.likelihood(None);
    let (best, likelihood) = (1..longest)
        .map(|limit| (limit, model.likelihood(Some(limit))))
        .fold((0, f64::MIN), |best, next| if next.1 > best.1 { next } else { best });
    if likelihood > endless + CLEARLY {
        return Some(Overload::Filled(QueueFound { packets: best as u32, size }));
    }
    // The most that waited at once, all of which arrived.
    let mut most = 0;
    for train in trains {
        let mut leaving: VecDeque<f64> = VecDeque::new();
        let mut last = f64::MIN;
        for packet in train {
            while leaving.front().is_some_and(|at| *at <= packet.sent) {
                leaving.pop_front();
            }
            most = most.max(leaving.len().saturating_sub(1));
            last = last.max(packet.sent) + packet.air(rate);
            leaving.push_back(last);
        }
    }
    Some(Overload::Holds(QueueFound { packets: most as u32, size }))
}

/// Whether a queue that was filled with packets of two sizes is bounded in packets or in bytes.
pub fn queue_kind(one: QueueFound, other: QueueFound) -> QueueLimit {
    let by_count = libm::log(f64::from(one.packets.max(1)) / f64::from(other.packets.max(1)));
    let by_bytes = by_count + libm::log(f64::from(one.size) / f64::from(other.size));
    // As many of both; or as many bytes of both.
    if (by_count.abs() - by_bytes.abs()).abs() < 0.2 {
        QueueLimit::Unknown
    } else if by_count.abs() < by_bytes.abs() {
        QueueLimit::Packets
    } else {
        QueueLimit::Bytes
    }
}
