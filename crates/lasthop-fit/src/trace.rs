//! Observations of one direction of a link.

use std::collections::BTreeMap;

use lasthop_proto::time::Duration;

/// Packet sent over the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Start of transmission, from an origin of the trace's own.
    pub at: Duration,
    /// Transmission time; zero if the link's rate is unknown.
    pub air: Duration,
    /// Size in bytes, network header included.
    pub bytes: u32,
    /// True if the packet was lost.
    pub lost: bool,
}

/// Knowledge of the times of transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Times are those of transmission.
    Known,
    /// Only the order is known.
    Unknown,
}

/// Minimum number of packets with an uncommon size that shows whether losses affect packets or bytes. A transfer's last
/// segment is short, and is retransmitted if lost, which shows nothing.
const FEW: usize = 100;

/// Diversity of packet sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// All packets, or nearly all, have the same size.
    One,
    /// Enough packets have other sizes to show an effect of size.
    Several,
}

/// Packets of one direction of a link, in order of transmission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LossTrace {
    packets: Vec<Sent>,
    clock: Clock,
    sizes: Sizes,
}

impl LossTrace {
    /// Creates a trace of packets with known times of transmission, and sorts them by time.
    pub fn timed(mut packets: Vec<Sent>) -> Self {
        packets.sort_by_key(|packet| packet.at);
        let sizes = sizes(&packets);
        Self { packets, clock: Clock::Known, sizes }
    }

    /// Creates a trace of which only order and losses are known: packets of 1,500 bytes, a millisecond apart.
    pub fn ordered(losses: impl IntoIterator<Item = bool>) -> Self {
        let packet =
            |(number, lost)| Sent { at: Duration::from_millis(number as u64), air: Duration::ZERO, bytes: 1500, lost };
        let packets = losses.into_iter().enumerate().map(packet).collect();
        Self { packets, clock: Clock::Unknown, sizes: Sizes::One }
    }

    /// Returns the packets as sent on a link with this rate: each occupies it for its transmission time, after those
    /// before it.
    pub fn at_rate(mut self, bits_per_second: f64) -> Self {
        if self.clock == Clock::Known {
            let mut free = Duration::ZERO;
            for packet in &mut self.packets {
                packet.air = Duration::from_secs_f64(8.0 * f64::from(packet.bytes) / bits_per_second);
                packet.at = packet.at.max(free);
                free = packet.at + packet.air;
            }
        }
        self
    }

    /// Returns the packets, one per `interval` if their times are unknown.
    pub fn at_even_times(mut self, interval: Duration) -> Self {
        if self.clock == Clock::Unknown {
            for (number, packet) in (0_u64..).zip(&mut self.packets) {
                packet.at = Duration::from_nanos(number.saturating_mul(interval.as_nanos()));
            }
            self.clock = Clock::Known;
        }
        self
    }

    /// Returns the 10th percentile of the time between the starts of successive packets, in seconds; `None` if times
    /// are unknown, or all the same.
    pub fn closest_spacing(&self) -> Option<f64> {
        let gap = |pair: &[Sent]| pair[1].at.as_secs_f64() - pair[0].at.as_secs_f64();
        let mut gaps: Vec<f64> = self.packets.windows(2).map(gap).collect();
        gaps.sort_by(f64::total_cmp);
        let tenth = gaps.get(gaps.len() / 10).copied()?;
        (self.clock == Clock::Known && tenth > 0.0).then_some(tenth)
    }

    /// Returns the transmission time of a full packet of 1,500 bytes in seconds; `None` if the link's rate is unknown.
    pub fn full_packet_air(&self) -> Option<f64> {
        let sent = self.packets.iter().find(|packet| packet.bytes > 0 && packet.air > Duration::ZERO)?;
        Some(sent.air.as_secs_f64() * 1500.0 / f64::from(sent.bytes))
    }

    /// Returns the packets in order of transmission.
    pub fn packets(&self) -> &[Sent] {
        &self.packets
    }

    /// Returns whether times are known.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the number of lost packets.
    pub fn lost(&self) -> u64 {
        self.packets.iter().filter(|packet| packet.lost).count() as u64
    }

    /// Returns whether packets have several sizes.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns the loss, 0 to 1, in each of at most `spans` spans of equal length, preceded by its beginning: in
    /// seconds from the first packet, or in packets if times are unknown. Spans without packets are omitted.
    pub fn loss_over_time(&self, spans: usize) -> Vec<(f64, f64)> {
        let (Some(first), Some(last)) = (self.packets.first(), self.packets.last()) else { return Vec::new() };
        let (length, whole) = match self.clock {
            Clock::Known => (last.at.as_secs_f64() - first.at.as_secs_f64(), 0.0),
            Clock::Unknown => (self.packets.len() as f64, 1.0),
        };
        // A span must not be shorter than a packet.
        let span = (length / spans.max(1) as f64).max(whole).max(f64::MIN_POSITIVE);
        let mut counts = vec![(0_u64, 0_u64); spans.max(1)];
        for (number, packet) in self.packets.iter().enumerate() {
            let at = match self.clock {
                Clock::Known => packet.at.as_secs_f64() - first.at.as_secs_f64(),
                Clock::Unknown => number as f64,
            };
            let place = ((at / span) as usize).min(counts.len() - 1);
            counts[place].0 += 1;
            counts[place].1 += u64::from(packet.lost);
        }
        let share = |(at, (all, lost)): (usize, &(u64, u64))| {
            (*all > 0).then(|| (at as f64 * span, *lost as f64 / *all as f64))
        };
        counts.iter().enumerate().filter_map(share).collect()
    }

    /// Returns the lengths of the runs of lost packets, in order.
    pub fn runs(&self) -> Vec<u32> {
        runs(self.packets.iter().map(|packet| packet.lost))
    }
}

/// Returns the lengths of the runs of `true`, in order.
pub(crate) fn runs(losses: impl Iterator<Item = bool>) -> Vec<u32> {
    let mut runs = Vec::new();
    let mut run = 0;
    for lost in losses {
        if lost {
            run += 1;
        } else if run > 0 {
            runs.push(std::mem::take(&mut run));
        }
    }
    if run > 0 {
        runs.push(run);
    }
    runs
}

fn sizes(packets: &[Sent]) -> Sizes {
    let mut counts = BTreeMap::new();
    for packet in packets {
        *counts.entry(packet.bytes).or_insert(0) += 1;
    }
    let commonest = counts.into_values().max().unwrap_or(0);
    if packets.len() - commonest < FEW { Sizes::One } else { Sizes::Several }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_over_time_are_shares_of_spans() {
        let packet = |millis, lost| Sent { at: Duration::from_millis(millis), air: Duration::ZERO, bytes: 1, lost };
        let trace = LossTrace::timed(vec![packet(0, false), packet(100, true), packet(900, true), packet(1000, true)]);
        // Two spans of half a second each.
        assert_eq!(trace.loss_over_time(2), [(0.0, 0.5), (0.5, 1.0)]);
        assert_eq!(trace.loss_over_time(4), [(0.0, 0.5), (0.75, 1.0)]);
        // By number if times are unknown, and no span shorter than a packet.
        let ordered = LossTrace::ordered([true, false, false, true]);
        assert_eq!(ordered.loss_over_time(2), [(0.0, 0.5), (2.0, 0.5)]);
        assert_eq!(ordered.loss_over_time(100).len(), 4);
        assert_eq!(LossTrace::ordered([true]).loss_over_time(10), [(0.0, 1.0)]);
        assert_eq!(LossTrace::timed(vec![packet(5, true); 3]).loss_over_time(10), [(0.0, 1.0)]);
    }
}
