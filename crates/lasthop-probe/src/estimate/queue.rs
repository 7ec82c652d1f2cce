//! The queue in front of the narrowest link, from overloads.
//!
//! For each possible size, a drop-tail queue is simulated with the send times of an overload's packets. The size with
//! the maximum likelihood of the observed losses and arrival times is chosen: the size determines how many packets
//! arrive before the first drop, and how long they waited.

use std::collections::VecDeque;

use super::{Log, Packet, Purpose};

/// Limit of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// Limit in packets of any size.
    Packets,
    /// Limit in bytes.
    Bytes,
    /// Unknown, since packets of one size only were used.
    Unknown,
}

/// Queue that was filled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueFound {
    /// Number of waiting packets, without the one in transmission.
    pub packets: u32,
    /// Size of each packet in bytes, IP header included.
    pub size: u16,
}

/// Result of overloads with packets of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Overload {
    /// The queue was filled.
    Filled(QueueFound),
    /// The queue holds at least this much.
    Holds(QueueFound),
}

/// Probability that a packet arrives although the modelled queue drops it: the model may be off by one. A packet that
/// arrived was in the queue, and waited for all packets ahead of it.
const SLIP: f64 = 0.04;
/// Maximum penalty for an unexpected delay.
const MOST_SURPRISE: f64 = 6.0;
/// Minimum gain in log-likelihood of a finite queue over an infinite one: less may be chance, or losses of the channel.
const CLEARLY: f64 = 10.0;

/// Properties of a direction that are known before its queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Known {
    /// Rate in bits per second.
    pub rate: f64,
    /// Minimum transit time, [`super::Delays::base`].
    pub base: f64,
    /// Loss below the rate, 0 to 1.
    pub loss: f64,
}

struct Model<'p> {
    trains: Vec<&'p [&'p Packet]>,
    rate: f64,
    base: f64,
    loss: f64,
}

impl Model<'_> {
    /// Returns the log-likelihood of a queue with a limit in packets; `None` means infinite.
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
                    // Timers and other processes add milliseconds; on slow links a packet's own time is longer.
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

/// Returns the queue, from overloads with packets of `size` bytes. `None` without overloads.
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
    // Maximum backlog all of which arrived.
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

/// Determines whether a queue that was filled with packets of two sizes is limited in packets or in bytes.
pub fn queue_kind(one: QueueFound, other: QueueFound) -> QueueLimit {
    let by_count = libm::log(f64::from(one.packets.max(1)) / f64::from(other.packets.max(1)));
    let by_bytes = by_count + libm::log(f64::from(one.size) / f64::from(other.size));
    // Equal numbers of packets, or equal numbers of bytes.
    if (by_count.abs() - by_bytes.abs()).abs() < 0.2 {
        QueueLimit::Unknown
    } else if by_count.abs() < by_bytes.abs() {
        QueueLimit::Packets
    } else {
        QueueLimit::Bytes
    }
}
