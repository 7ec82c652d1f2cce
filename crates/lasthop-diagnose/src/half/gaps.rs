//! Data that the capture lacks although it has later data: lost before the capture, or reordered.

use super::{Half, MOST_GAPS, Needless, Packet, Reduction, Seen, Side, piece};
use crate::path::{Neighbours, Sample};
use crate::sent::Around;

/// Data that the capture lacks so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    seq: u64,
    pub(super) end: u64,
    time: i64,
    /// Number of the packet that revealed the gap.
    number: u64,
    stamp: Option<u32>,
    identification: Option<u16>,
    around: Around,
}

/// Maximum increment of the identification between two packets of a connection, for senders that count it up.
const MOST_STEP: u16 = 4096;
/// Number of increments after which identifications determine the order at once, and at the end of the capture.
pub(super) const FEW_STEPS: (u32, u32) = (16, 4);
/// Minimum round trip, in ticks of a millisecond, at which equal timestamps prove the order.
const TICKS: i64 = 4_000_000;

/// Maximum number of bytes that a packet without data shows to be missing, since its number may be forged.
const MOST_SHOWN: u64 = 1 << 20;

/// Statistics on whether a sender increments the identifications of its packets.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Identifications {
    last: Option<u16>,
    up: u32,
    /// Number of decrements and of equal identifications.
    other: u32,
}

impl Identifications {
    fn take(&mut self, identification: Option<u16>) {
        let Some(id) = identification else { return };
        if let Some(last) = self.last.replace(id) {
            let is_up = (1..=MOST_STEP).contains(&id.wrapping_sub(last));
            let counter = if is_up { &mut self.up } else { &mut self.other };
            *counter = counter.saturating_add(1);
        }
    }

    /// Returns whether identifications determine the order in which packets were sent.
    pub(super) const fn tell(&self, few: u32) -> bool {
        self.up >= few && self.up >= self.other.saturating_mul(4)
    }
}

/// Returns whether the first identification was assigned before the second one.
fn is_before(first: u16, second: u16) -> bool {
    (1..=MOST_STEP).contains(&second.wrapping_sub(first))
}

impl Half {
    /// Processes any packet of the sender.
    pub fn identify(&mut self, identification: Option<u16>) {
        self.identifications.take(identification);
    }

    /// Processes new data from `seq` to `end`. Returns the number of bytes that are missing before it.
    pub(super) fn new_data(&mut self, packet: &Packet<'_>, seq: u64, end: u64) -> u64 {
        let mut neighbours = Neighbours::Arrived;
        let stamped = packet.stamped.map(|sent| Sample { sent, arrived: packet.time, volume: packet.volume, end });
        let mut lacking = 0;
        if seq > self.highest {
            neighbours = Neighbours::Missing;
            lacking = self.open_gap(packet, seq, stamped);
        }
        if let Some(sample) = stamped {
            self.before.take(sample, neighbours);
            self.rounds.queued(Side::Before, self.before.queue(sample));
        }
        self.counts.bytes += end - seq;
        let mut sent = piece(packet, seq, end);
        sent.refused = self.window.refuses(seq);
        self.on_the_way.insert(sent);
        // Data within the window is kept even if the rest is not.
        if sent.refused.is_none()
            && let Some(edge) = self.window.edge_within(seq, end)
        {
            self.on_the_way.cut(edge);
            let index = self.on_the_way.at(edge);
            if let Some(rest) = self.on_the_way.get_mut(index) {
                rest.refused = self.window.refuses(edge);
            }
        }
        self.highest = end;
        lacking
    }

    /// Records that data up to `seq` is missing, as a packet shows. Returns its number of bytes, including headers.
    fn open_gap(&mut self, packet: &Packet<'_>, seq: u64, stamped: Option<Sample>) -> u64 {
        if self.gaps.len() == MOST_GAPS {
            self.gaps.pop_front();
        }
        let missing = seq - self.highest;
        // Its headers were lost too: assumes full packets.
        let mss = u64::from(self.rounds.mss().max(1));
        let headers = u64::from(packet.wire.saturating_sub(packet.len));
        let missing = missing + missing.div_ceil(mss) * headers;
        let after = stamped.map(|sample| Sample { volume: sample.volume + missing, ..sample });
        self.gaps.push_back(Gap {
            seq: self.highest,
            end: seq,
            time: packet.time,
            number: packet.number,
            stamp: packet.segment.options.timestamps.map(|stamps| stamps.val),
            identification: packet.identification,
            around: Around { before: self.before.last(), after, missing, row: 0 },
        });
        missing
    }

    /// Processes a packet of the sender without payload: it may be a keep-alive or a window probe, and its number may
    /// show that data before it is missing. Returns whether it was a keep-alive.
    pub fn empty(&mut self, packet: &Packet<'_>) -> bool {
        if self.first.is_none() {
            return false;
        }
        let seq = self.unwrap(packet.segment.seq);
        if seq + 1 == self.acknowledged {
            self.window.asked();
            self.answers.asks = self.answers.asks.saturating_add(1);
            return true;
        }
        if self.counts.packets > 0 && (2..MOST_SHOWN).contains(&seq.saturating_sub(self.highest)) {
            // A FIN has a sequence number, but no data.
            self.open_gap(packet, seq, None);
            self.highest = seq;
        }
        false
    }

    /// Fills a gap, and returns whether the packet carries data that the capture had missed.
    pub(super) fn fill_gaps(&mut self, packet: &Packet<'_>, seq: u64, end: u64, to_sender: i64) -> bool {
        let Some(index) = self.gaps.iter().position(|gap| gap.seq < end && seq < gap.end) else { return false };
        let gap = self.gaps[index];
        self.gaps.remove(index);
        let rest = [(gap.seq, seq), (end, gap.end)];
        for (seq, end) in rest.into_iter().filter(|(seq, end)| seq < end) {
            self.gaps.push_back(Gap { seq, end, ..gap });
        }
        let (from, to) = (seq.max(gap.seq), end.min(gap.end));
        let sent_before = self.identified(packet, &gap);
        let is_known = self.identifications.tell(FEW_STEPS.0);
        if self.was_overtaken(packet, &gap, to_sender) || sent_before == Some(true) && is_known {
            self.counts.reordered += 1;
            self.passed.came(gap.number);
        } else {
            let repair = self.repair(packet.time, to_sender);
            let loss = Seen {
                number: gap.number,
                repaired_by: packet.number,
                time: gap.time,
                seq: self.wrap(from),
                len: (to - from) as u32,
                wire: packet.wire,
                volume: gap.around.after.map_or(0, |after| after.volume),
                passed: 1,
                repair,
                side: Side::Before,
                around: gap.around,
                packet_len: packet.len.min(self.rounds.mss()),
                sent_before,
            };
            if let (_, Some(number)) = self.losses.add_part(loss, self.rounds.mss()) {
                self.reduction = Some(Reduction::Loss(number));
            }
        }
        self.counts.bytes += to - from;
        if to > self.acknowledged {
            self.on_the_way.insert(piece(packet, from, to));
        }
        true
    }

    /// Processes the acknowledgment of data from `seq` to `end` that the capture lacks.
    pub(super) fn miss(&mut self, seq: u64, end: u64) {
        if end - seq <= 1 {
            return;
        }
        self.counts.unseen += end - seq;
        if self.missed_data.len() == MOST_GAPS {
            self.missed_data.pop_front();
        }
        self.missed_data.push_back((seq, end));
    }

    /// Closes gaps up to the acknowledgment `ack`: their data arrived without being captured.
    pub(super) fn miss_gaps(&mut self, ack: u64) {
        while let Some(index) = self.gaps.iter().position(|gap| gap.seq < ack) {
            let gap = self.gaps[index];
            let end = gap.end.min(ack);
            self.passed.came(gap.number);
            self.miss(gap.seq, end);
            if end < gap.end {
                self.gaps[index].seq = end;
            } else {
                self.gaps.remove(index);
            }
        }
    }

    /// Returns whether data was acknowledged before it was captured, which shows that the capture has reordered
    /// packets.
    pub(super) fn captured_late(&mut self, seq: u64, end: u64) -> bool {
        let Some(index) = self.missed_data.iter().position(|&(from, to)| from <= seq && end <= to) else {
            return false;
        };
        let (from, to) = self.missed_data[index];
        self.missed_data.remove(index);
        self.missed_data.extend([(from, seq), (end, to)].into_iter().filter(|(from, to)| from < to));
        self.counts.unseen = self.counts.unseen.saturating_sub(end - seq);
        self.counts.bytes += end - seq;
        self.counts.reordered += 1;
        true
    }

    /// Returns whether the identification shows that a packet that fills a gap was sent before the one that revealed
    /// the gap.
    fn identified(&self, packet: &Packet<'_>, gap: &Gap) -> Option<bool> {
        let (this, that) = packet.identification.zip(gap.identification)?;
        match (is_before(this, that), is_before(that, this)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    /// Returns whether a packet that fills a gap was sent before the one that revealed the gap: its timestamp is older,
    /// or it arrives sooner than any retransmission. A newer timestamp proves that it was sent later.
    fn was_overtaken(&self, packet: &Packet<'_>, gap: &Gap, to_sender: i64) -> bool {
        let trip = self.trip(to_sender);
        let stamp = packet.segment.options.timestamps.map(|stamps| stamps.val);
        let later = stamp.zip(gap.stamp).map_or(0, |(this, that)| this.wrapping_sub(that) as i32);
        let has_same = stamp.is_some() && stamp == gap.stamp && packet.stamped.is_some() && trip >= TICKS;
        // The sender learns of a loss a round trip later.
        later < 0 || has_same || later == 0 && packet.time.saturating_sub(gap.time) < self.soon(to_sender)
    }

    /// Withdraws losses, once identifications are known to determine the order, if the packet was sent before the one
    /// that revealed the gap. Returns the number of these packets.
    pub(super) fn settle_order(&mut self) -> u64 {
        if !self.identifications.tell(FEW_STEPS.1) {
            return 0;
        }
        let (overtaken, numbers) = self.losses.overtaken();
        numbers.into_iter().for_each(|number| self.passed.came(number));
        overtaken
    }

    /// Handles a receiver's report of duplicate data: if it was retransmitted, the retransmission was needless;
    /// otherwise, the path duplicated it.
    pub(super) fn reported_twice(&mut self, seq: u32, len: u32) {
        if !self.losses.needless(seq, len, Needless::ReportedTwice) {
            self.counts.unexplained += self.rounds.packets(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifications_that_count_up_tell_the_order() {
        let mut counted = Identifications::default();
        (65_530..65_550_u32).for_each(|id| counted.take(Some(id as u16)));
        assert!(counted.tell(16) && is_before(65_535, 2) && !is_before(2, 65_535));
        let mut random = Identifications::default();
        (0..64_u16).for_each(|number| random.take(Some(number.wrapping_mul(40_503))));
        assert!(!random.tell(4));
        let mut constant = Identifications::default();
        (0..64).for_each(|_| constant.take(Some(0)));
        assert!(!constant.tell(4));
    }
}
