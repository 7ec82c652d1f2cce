//! Acknowledgments: the data that arrived, the time of its arrival, and the missing data around it.

use lasthop_proto::packet::Flags;
use lasthop_wire::Kept;

use super::{Half, Packet, Sacks};
use crate::loss::{Needless, Side};
use crate::path::{Neighbours, Sample};
use crate::sent::{Around, Sent};

/// Position of a piece within the newly acknowledged data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    First,
    Behind,
}

/// Number of packets acknowledged one by one after which a receiver is known not to wait for the second of two.
const FEW_SINGLES: u32 = 4;

/// Acknowledgments so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Acks {
    /// SACK blocks of the last acknowledgment.
    blocks: [(u64, u64); 4],
    duplicates: u32,
    /// Number of acknowledgments of a single packet since the last acknowledgment of several packets; `None` before the
    /// first of the latter.
    singles: Option<u32>,
    /// True if an acknowledgment with truncated options was captured after the last packet that is known to have
    /// arrived: others may have arrived.
    missed: bool,
}

impl Acks {
    /// Processes an acknowledgment of new data, of a single packet or several. Returns whether it may have been delayed:
    /// the receiver acknowledges several at once, and no packet followed.
    fn may_have_waited(&mut self, packet: &Packet<'_>, is_single: bool) -> bool {
        self.singles = if is_single { self.singles.map(|singles| singles.saturating_add(1)) } else { Some(0) };
        is_single
            && self.singles.is_some_and(|singles| singles <= FEW_SINGLES)
            && packet.segment.options.sack.as_slice().is_empty()
    }
}

impl Half {
    /// Processes a packet of the receiver: `window` in bytes; `sacks` tells whether selective acknowledgments were
    /// negotiated.
    pub fn acknowledged(&mut self, packet: &Packet<'_>, window: Option<u64>, sacks: Sacks) {
        let segment = packet.segment;
        if self.first.is_none() {
            self.unwrap(segment.ack);
        }
        let Some(ack) = self.near(segment.ack) else { return };
        if ack >= self.acknowledged {
            self.window.offered(ack, window);
            self.rounds.closed(packet.time, self.window.is_closed());
        }
        if let Some(window) = window {
            self.rounds.allow(packet.time, ack + window);
        }
        let probed = self.window.took_probe(ack, self.highest);
        self.counts.bytes += probed;
        self.highest += probed;
        if ack > self.highest {
            // The FIN has a sequence number.
            self.miss(self.highest, ack);
            self.highest = ack;
        }
        let mut best: Option<Sent> = None;
        let moved = ack > self.acknowledged;
        let is_single = ack.saturating_sub(self.acknowledged) <= u64::from(self.rounds.mss());
        let waited = moved && self.acks.may_have_waited(packet, is_single);
        if moved {
            self.cumulative(packet, ack, &mut best);
            self.answers.asks = 0;
            self.acks.duplicates = 0;
        }
        self.selective(packet, ack, &mut best);
        // Without the truncated options, the acknowledged packet is unknown.
        let is_whole = packet.options == Kept::Whole;
        self.acks.missed |= !is_whole;
        if is_whole && !moved && sacks == Sacks::Never && packet.len == 0 && !self.on_the_way.is_empty() {
            self.acks.duplicates += 1;
            if self.acks.duplicates > 1 || window.is_some() {
                self.guess(packet.time, &mut best);
            }
        }
        if let Some(piece) = best.filter(|_| is_whole) {
            self.passed.answered(piece.number, packet.time.saturating_sub(piece.time));
            let sample = Sample { sent: piece.time, arrived: packet.time, volume: piece.volume, end: piece.end };
            self.sampled(if waited { self.beyond.without_receivers_timer(sample) } else { sample });
        }
        if self.acknowledged >= self.highest {
            self.rounds.drained(packet.time);
        }
        let is_pure = packet.len == 0 && !segment.flags.has(Flags::FIN) && !packet.is_keep_alive;
        if is_whole && is_pure && !moved && ack == self.acknowledged {
            self.duplicate(packet);
        } else {
            self.answers.last_answer = packet.time;
        }
        self.answers.last_window = Some(segment.window);
        self.last_heard = packet.time;
    }

    fn cumulative(&mut self, packet: &Packet<'_>, ack: u64, best: &mut Option<Sent>) {
        self.on_the_way.cut(ack);
        self.acknowledged = ack;
        let mut first = true;
        let mut repeated = Vec::new();
        while self.on_the_way.get(0).is_some_and(|piece| piece.end <= ack) {
            let Some(piece) = self.on_the_way.pop() else { break };
            if first {
                self.came_in_order(&piece);
                if piece.end == ack && packet.len == 0 {
                    self.acknowledged_alone(&piece, packet.time);
                }
            }
            if !piece.sacked {
                self.arrived(packet, &piece, if first { Edge::First } else { Edge::Behind }, best);
                repeated.extend(piece.loss.map(|loss| (loss, piece.time)));
            }
            first = false;
        }
        self.awaits_order(repeated);
        self.miss_gaps(ack);
        self.again.retain(|&seq| seq >= ack);
    }

    fn selective(&mut self, packet: &Packet<'_>, ack: u64, best: &mut Option<Sent>) {
        let mut blocks = [(0, 0); 4];
        for (index, block) in packet.segment.options.sack.as_slice().iter().enumerate() {
            let (left, right) = (self.unwrap(block.left), self.unwrap(block.right));
            if left >= right {
                continue;
            }
            let inside = packet.segment.options.sack.as_slice().get(1).is_some_and(|outer| {
                index == 0 && self.unwrap(outer.left) <= left && right <= self.unwrap(outer.right)
            });
            // A first block below the acknowledgment, or within the second block, reports duplicate data (RFC 2883).
            if index == 0 && (right <= ack || inside) {
                self.reported_twice(self.wrap(left), (right - left) as u32);
                continue;
            }
            blocks[index.min(3)] = (left, right);
            let mut from = left.max(ack);
            // Blocks of earlier acknowledgments have been processed.
            for (known_left, known_right) in self.acks.blocks {
                if known_left <= from && from < known_right {
                    from = known_right;
                }
            }
            if from < right {
                self.mark(packet, from, right, best);
            }
        }
        self.acks.blocks = blocks;
    }

    fn mark(&mut self, packet: &Packet<'_>, from: u64, to: u64, best: &mut Option<Sent>) {
        self.on_the_way.cut(from);
        self.on_the_way.cut(to);
        let mut index = self.on_the_way.at(from);
        while let Some(piece) = self.on_the_way.get_mut(index).filter(|piece| piece.seq < to) {
            index += 1;
            if std::mem::replace(&mut piece.sacked, true) {
                continue;
            }
            let piece = *piece;
            self.answers.hole_shown = Some(packet.time);
            self.arrived(packet, &piece, Edge::Behind, best);
            self.again.retain(|&seq| seq != piece.seq);
        }
    }

    /// Guesses which packet a duplicate acknowledgment reports, without selective acknowledgments: the next one in
    /// order.
    fn guess(&mut self, now: i64, best: &mut Option<Sent>) {
        let base = self.beyond.base().unwrap_or(0);
        for index in 1.. {
            let Some(piece) = self.on_the_way.get_mut(index) else { return };
            if piece.guessed || piece.passed > 1 {
                continue;
            }
            if now.saturating_sub(piece.time) >= base {
                piece.guessed = true;
                *best = Some(*piece);
            }
            return;
        }
    }

    /// Processes the acknowledgment of a piece.
    fn arrived(&mut self, packet: &Packet<'_>, piece: &Sent, edge: Edge, best: &mut Option<Sent>) {
        self.black_hole.arrived(piece.time, piece.packet_len.min(self.rounds.mss()));
        if piece.passed == 1 {
            let newer = |than: u64| piece.volume > than;
            let last = self.beyond.last().is_none_or(|last| newer(last.volume));
            if last && !piece.guessed && best.as_ref().is_none_or(|best| newer(best.volume)) {
                *best = Some(*piece);
            }
            return;
        }
        let Some(loss) = piece.loss else { return };
        self.was_held(piece, loss, packet.time);
        let soon = packet.time.saturating_sub(piece.time) < self.too_soon();
        // The echoed timestamp is that of a packet sent before the retransmission (RFC 3522).
        let echo = packet.segment.options.timestamps.map(|stamps| stamps.ecr);
        let older = edge == Edge::First
            && echo.zip(piece.stamp).is_some_and(|(echo, stamp)| (echo.wrapping_sub(stamp) as i32) < 0);
        if soon {
            self.losses.mark_needless(loss, Needless::AnsweredTooSoon);
        } else if older {
            self.losses.mark_needless(loss, Needless::EchoesTheFirst);
        }
    }

    fn sampled(&mut self, sample: Sample) {
        let before = self.beyond.last();
        let from = before.map_or(0, |before| before.volume);
        let range = (from, sample.volume);
        let lost = |piece: &Sent| !piece.sacked && !piece.guessed && range.0 < piece.volume && piece.volume < range.1;
        let mut missing = 0;
        let first = before.map_or(0, |before| self.on_the_way.at(before.end.min(sample.end)));
        let mut found = 0_usize;
        for index in first.. {
            let Some(piece) = self.on_the_way.get(index).filter(|piece| piece.seq < sample.end) else { break };
            if piece.passed == 1 && lost(piece) {
                missing += u64::from(piece.wire);
                found += 1;
            }
        }
        for &seq in &self.again {
            if let Some(piece) = self.on_the_way.get(self.on_the_way.at(seq)).filter(|piece| lost(piece)) {
                missing += u64::from(piece.wire);
                found += 1;
            }
        }
        if found > 0 && !self.acks.missed {
            let around = Around { before, after: Some(sample), missing, row: 0 };
            for index in first.. {
                let Some(piece) = self.on_the_way.get_mut(index).filter(|piece| piece.seq < sample.end) else { break };
                if piece.passed == 1 && lost(piece) {
                    piece.around.get_or_insert(around);
                }
            }
            for at in 0..self.again.len() {
                let index = self.on_the_way.at(self.again[at]);
                if let Some(piece) = self.on_the_way.get_mut(index).filter(|piece| lost(piece)) {
                    piece.around.get_or_insert(around);
                }
            }
        }
        self.acks.missed = false;
        self.beyond.take(sample, if found > 0 { Neighbours::Missing } else { Neighbours::Arrived });
        self.rounds.queued(Side::Beyond, self.beyond.queue(sample));
    }
}
