//! Estimators: from packets sent and received to numbers. Times are in seconds; clocks of sender and receiver have an
//! arbitrary offset and drift.

mod bucket;
mod bursts;
mod capacity;
mod course;
mod delay;
mod lasting;
mod loss;
mod medium;
mod order;
mod queue;
mod spread;

use std::collections::BTreeMap;

pub use bucket::{Bucket, BucketKind, bucket};
pub use bursts::{Bursts, bursts, slots};
pub use capacity::{Capacity, capacity};
pub use course::{Course, RateFrom, busy, course};
pub use delay::{Delays, air_rate, delays, delays_beyond, drift};
pub use lasting::{LONG, Slope, Stretch, combined, kept, kept_up, planned, stretches};
pub use loss::{Losses, Runs, losses, runs};
pub use medium::{HalfDuplex, Meeting, half_duplex, is_half_duplex, meetings};
pub use order::{Overtaken, overtaken};
pub use queue::{Known, Overload, QueueFound, QueueLimit, queue, queue_kind};
pub use spread::{Edge, Wander, edge, wander};

/// Purpose of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// Message of the protocol itself.
    Protocol,
    /// Search for the path MTU.
    Ladder,
    /// Measurement of the rate.
    Capacity,
    /// Measurement of the queue.
    Overload,
    /// Simultaneous trains of both directions, to detect a half-duplex medium.
    Both,
    /// Small packets, to find the overhead of a frame.
    Small,
    /// Placeholder that keeps this direction silent.
    Quiet,
    /// Measurement of losses below the rate.
    Stream,
    /// Check of the first trains' rate, at growing rates.
    Check,
    /// Measurement of the sustained rate, paced somewhat below the rate of short trains.
    Load,
    /// Trains at intervals, which follow a rate that moves.
    Train,
}

/// Packet of one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet {
    /// Send time, by the sender's clock.
    pub sent: f64,
    /// Arrival time, by the receiver's clock; `None` if lost.
    pub arrived: Option<f64>,
    /// Size in bytes, IP header included.
    pub size: u16,
    /// Purpose.
    pub purpose: Purpose,
    /// Number of the order it belongs to.
    pub order: u16,
    /// Index within the order.
    pub index: u16,
    /// DSCP as sent and as received.
    pub dscp: [u8; 2],
}

impl Packet {
    /// Returns the transmission time in seconds at `rate` bits per second.
    fn air(&self, rate: f64) -> f64 {
        8.0 * f64::from(self.size) / rate
    }
}

/// Packets of one direction, in order of sending.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Log {
    /// Packets.
    pub packets: Vec<Packet>,
    /// Indices into `packets`, in order of arrival.
    pub arrivals: Vec<u32>,
    /// Number of duplicates received.
    pub duplicates: u32,
}

impl Log {
    /// Returns the packets that were sent for `purpose`.
    pub fn of(&self, purpose: Purpose) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.purpose == purpose)
    }

    /// Returns the packets of each order for `purpose`.
    pub fn trains(&self, purpose: Purpose) -> Vec<Vec<&Packet>> {
        let mut trains: BTreeMap<u16, Vec<&Packet>> = BTreeMap::new();
        for packet in self.of(purpose) {
            trains.entry(packet.order).or_default().push(packet);
        }
        trains.into_values().collect()
    }

    /// Returns the packets of the stream, and protocol packets sent meanwhile, in order, without those behind a train
    /// that fills queues.
    pub fn unloaded(&self) -> Vec<&Packet> {
        let streamed = || self.packets.iter().enumerate().filter(|(_, packet)| packet.purpose == Purpose::Stream);
        let (Some((first, _)), Some((last, _))) = (streamed().next(), streamed().next_back()) else {
            return Vec::new();
        };
        let mut busy_until = f64::MIN;
        let mut kept = Vec::new();
        for packet in &self.packets[first..=last] {
            match packet.purpose {
                // The stream itself waits until these have passed.
                Purpose::Stream => {
                    busy_until = f64::MIN;
                    kept.push(packet);
                }
                Purpose::Protocol if packet.sent > busy_until => kept.push(packet),
                Purpose::Protocol => {}
                Purpose::Ladder
                | Purpose::Capacity
                | Purpose::Overload
                | Purpose::Both
                | Purpose::Small
                | Purpose::Check
                | Purpose::Load => {
                    busy_until = f64::MAX;
                }
                Purpose::Quiet | Purpose::Train => {}
            }
        }
        kept
    }

    /// Returns the number of packets that arrived after one sent later (RFC 4737, section 3.3).
    pub fn reordered(&self) -> u32 {
        let mut highest = None;
        let mut count = 0;
        for &at in &self.arrivals {
            if highest.is_some_and(|highest| at < highest) {
                count += 1;
            } else {
                highest = Some(at);
            }
        }
        count
    }

    /// Removes clock drift from the times of arrival.
    pub fn without_drift(mut self, drift: f64) -> Self {
        let origin = self.packets.first().map_or(0.0, |packet| packet.sent);
        for packet in &mut self.packets {
            let ahead = drift * (packet.sent - origin);
            packet.arrived = packet.arrived.map(|at| at - ahead);
        }
        self
    }
}

/// Returns the median, or one of the two middle values.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the quantile `share` of `values`, without interpolation.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = (share * (values.len().checked_sub(1)?) as f64).round() as usize;
    values.get(at).copied()
}

/// Returns the Theil-Sen slope: the median over all pairs, robust against outliers.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (at, (x, y)) in points.iter().enumerate() {
        slopes.extend(points[at + 1..].iter().filter(|(other, _)| other != x).map(|(u, v)| (v - y) / (u - x)));
    }
    median(&mut slopes)
}

#[cfg(test)]
mod tests;
