//! From packets that were sent and that arrived to numbers. Times are in seconds; sender's and receiver's clocks differ by anything, and drift.

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

/// Why a packet was sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// What the protocol itself needs.
    Protocol,
    /// To find the largest size.
    Ladder,
    /// To find the rate.
    Capacity,
    /// To find the queue.
    Overload,
    /// Both ways at once, to find whether they take turns.
    Both,
    /// Of small packets, to find what each takes beside its bytes.
    Small,
    /// So that nothing else is sent meanwhile.
    Quiet,
    /// To find losses below the rate.
    Stream,
    /// To check what the first trains say, at growing rates.
    Check,
    /// To find the rate that lasts: paced somewhat below what short trains tell.
    Load,
}

/// A packet of one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet {
    /// When it was sent, by the sender's clock.
    pub sent: f64,
    /// When it arrived, by the receiver's; `None`: lost.
    pub arrived: Option<f64>,
    /// Bytes, IP header included.
    pub size: u16,
    /// Why it was sent.
    pub purpose: Purpose,
    /// Which order it belongs to.
    pub order: u16,
    /// Its place there.
    pub index: u16,
    /// The code points that it was sent and arrived with.
    pub dscp: [u8; 2],
}

impl Packet {
    /// Seconds that it is on the air at so many bits a second.
    fn air(&self, rate: f64) -> f64 {
        8.0 * f64::from(self.size) / rate
    }
}

/// One direction, packet by packet in order of sending.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Log {
    /// The packets.
    pub packets: Vec<Packet>,
    /// Places in `packets`, in order of arrival.
    pub arrivals: Vec<u32>,
    /// Packets that came again.
    pub duplicates: u32,
}

impl Log {
    /// The packets that were sent for `purpose`.
    pub fn of(&self, purpose: Purpose) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.purpose == purpose)
    }

    /// The packets of each order for `purpose`.
    pub fn trains(&self, purpose: Purpose) -> Vec<Vec<&Packet>> {
        let mut trains: BTreeMap<u16, Vec<&Packet>> = BTreeMap::new();
        for packet in self.of(purpose) {
            trains.entry(packet.order).or_default().push(packet);
        }
        trains.into_values().collect()
    }

    /// The packets of the stream and what the protocol sent meanwhile: in order, and none of them behind a train that fills queues.
    pub fn unloaded(&self) -> Vec<&Packet> {
        let streamed = || self.packets.iter().enumerate().filter(|(_, packet)| packet.purpose == Purpose::Stream);
        let (Some((first, _)), Some((last, _))) = (streamed().next(), streamed().next_back()) else {
            return Vec::new();
        };
        let mut busy_until = f64::MIN;
        let mut kept = Vec::new();
        for packet in &self.packets[first..=last] {
            match packet.purpose {
                // The stream itself waits until they are through.
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
                Purpose::Quiet => {}
            }
        }
        kept
    }

    /// Arrivals that came behind one sent later (RFC 4737, section 3.3).
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

    /// Takes a clock's drift out of the times of arrival.
    pub fn without_drift(mut self, drift: f64) -> Self {
        let origin = self.packets.first().map_or(0.0, |packet| packet.sent);
        for packet in &mut self.packets {
            let ahead = drift * (packet.sent - origin);
            packet.arrived = packet.arrived.map(|at| at - ahead);
        }
        self
    }
}

/// The middle value; the mean of both middle ones is not needed here.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which so much of `values` lies.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = (share * (values.len().checked_sub(1)?) as f64).round() as usize;
    values.get(at).copied()
}

/// The slope that half of all pairs exceed (Theil and Sen): some points may be anywhere.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (at, (x, y)) in points.iter().enumerate() {
        slopes.extend(points[at + 1..].iter().filter(|(other, _)| other != x).map(|(u, v)| (v - y) / (u - x)));
    }
    median(&mut slopes)
}

#[cfg(test)]
mod tests;
