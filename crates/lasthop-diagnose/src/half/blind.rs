//! Retransmissions that do not show a loss: sent before the sender can have known the fate of the packet, or answered
//! by a duplicate acknowledgment.

use std::collections::VecDeque;

use super::{Half, LEAST_TIMEOUT, MILLISECOND, Packet};
use crate::loss::Needless;
use crate::sent::Sent;

/// Maximum number of retransmissions that duplicate acknowledgments may answer.
const MOST_UNANSWERED: usize = 64;
/// A duplicate acknowledgment answers a retransmission that passed at most this long ago, in nanoseconds.
const ANSWERED_WITHIN: i64 = 10_000_000_000;
/// Minimum delay before the capture that explains a timeout, in nanoseconds.
const DELAYED: i64 = 50_000_000;
/// Minimum of modern delayed-acknowledgment timers, and maximum delay of an acknowledgment (RFC 1122 §4.2.3.2), in
/// nanoseconds.
const DELAYED_ACKNOWLEDGMENT: (i64, i64) = (10_000_000, 500_000_000);
/// Number of single packets acknowledged at once after which a receiver is known not to delay acknowledgments.
const FEW_PROMPT: u32 = 3;
/// Response time in nanoseconds below which the capture was taken at this end.
const AT_ONCE: i64 = 300_000;
/// Minimum delay of a retransmission if the round trip is unknown, in nanoseconds.
const SOON: i64 = 3_000_000;

/// Number of samples below which the minimum round trip may be due to a stall.
const FEW_SAMPLES: u64 = 8;

/// A retransmission without an answer so far.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    /// Index of the loss; `None` if the data had been acknowledged before.
    loss: Option<usize>,
    time: i64,
    end: u64,
}

/// Answers of the receiver to retransmissions and probes, and its speed.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Retransmissions that a duplicate acknowledgment may still answer.
    unanswered: VecDeque<Unanswered>,
    /// Time of the receiver's last packet other than a duplicate acknowledgment, in nanoseconds.
    pub(super) last_answer: i64,
    /// Time of the last selective or duplicate acknowledgment that showed a hole, in nanoseconds.
    pub(super) hole_shown: Option<i64>,
    /// Number of single packets that the receiver acknowledged without delay.
    prompt: u32,
    /// First unacknowledged number, and the losses before it that become needless if its data is acknowledged without a
    /// retransmission.
    in_order: Option<(u64, Vec<usize>)>,
    /// Window field of the last acknowledgment.
    pub(super) last_window: Option<u16>,
    /// Number of keep-alives, window probes and repeated FINs that await an answer.
    pub(super) asks: u32,
}

impl Answers {
    /// Frees the memory of retransmissions and losses.
    pub(super) fn close(&mut self) {
        self.unanswered = VecDeque::new();
        self.in_order = None;
    }

    /// Records a packet that its receiver answers.
    pub(super) const fn ask(&mut self) {
        self.asks = self.asks.saturating_add(1);
    }

    /// Returns whether a packet answers one that asked for it.
    fn take_ask(&mut self) -> bool {
        let asked = self.asks > 0;
        self.asks = self.asks.saturating_sub(1);
        asked
    }

    /// Records a retransmission; `loss` is the index of the loss that it repairs.
    pub(super) fn await_answer(&mut self, loss: Option<usize>, time: i64, end: u64) {
        if self.unanswered.len() == MOST_UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(Unanswered { loss, time, end });
    }
}

impl Half {
    /// Returns the minimum round trip from the capture to the receiver: of data, or of the handshake and of timestamps.
    pub(super) fn least(&self) -> Option<i64> {
        match (self.beyond.base(), self.to_receiver) {
            (Some(base), Some(other)) => Some(base.min(other)),
            (base, other) => base.or(other),
        }
    }

    /// Returns the minimum round trip, or 0 if it is unknown.
    pub(super) fn trip(&self, to_sender: i64) -> i64 {
        to_sender.saturating_add(self.least().unwrap_or(0))
    }

    /// Returns three quarters of the minimum round trip, before which the sender cannot learn of a loss.
    pub(super) fn soon(&self, to_sender: i64) -> i64 {
        let trip = self.trip(to_sender);
        if trip > 0 { trip - trip / 4 } else { SOON }
    }

    /// Returns the time within which no acknowledgment of a packet can arrive: three quarters of the minimum delay, or
    /// half of it after only a few packets.
    pub(super) fn too_soon(&self) -> i64 {
        let least = self.least().unwrap_or(0);
        if self.beyond.samples() < FEW_SAMPLES { least / 2 } else { least - least / 4 }
    }

    /// Returns whether the sender is retransmitting `piece` without knowing its fate beyond the capture: a delay before
    /// the capture, in excess of the retransmission's, explains its timeout, or the retransmission arrives sooner than
    /// an answer can. Selective and duplicate acknowledgments since then, and smaller segments, as after an ICMP
    /// message about the path MTU, show a loss.
    pub(super) fn is_blind(&self, packet: &Packet<'_>, piece: &Sent, to_sender: i64) -> bool {
        if self.answers.hole_shown.is_some_and(|time| time >= piece.time) || packet.len < piece.packet_len {
            return false;
        }
        let apart = packet.time.saturating_sub(piece.time);
        let stamps = packet.segment.options.timestamps.map(|stamps| stamps.val).zip(piece.stamp);
        let ticks = stamps.map_or(0, |(this, that)| i64::from(this.wrapping_sub(that) as i32));
        let was_delayed = packet.tick.is_some_and(|tick| {
            let waited = ticks.saturating_mul(tick);
            let delayed = waited.saturating_sub(apart).saturating_sub(tick);
            waited >= LEAST_TIMEOUT && delayed >= DELAYED.max(waited / 4)
        });
        let soon = self.soon(to_sender);
        // Timers are coarser than shorter round trips. No timestamp clock in use ticks faster than once a millisecond.
        let waited = ticks.saturating_mul(MILLISECOND);
        let is_soon = self.has_handshake && soon >= SOON && apart < soon && waited < soon;
        was_delayed || is_soon
    }

    /// Returns whether the receiver, at which the capture was taken, may have `piece` and delay its acknowledgment: it
    /// is the only outstanding packet.
    pub(super) fn may_be_held(&self, packet: &Packet<'_>, piece: &Sent, to_sender: i64) -> bool {
        piece.passed == 1
            && piece.seq == self.acknowledged
            && piece.end == self.highest
            && piece.end - piece.seq <= u64::from(self.rounds.mss())
            && packet.time.saturating_sub(piece.time) <= DELAYED_ACKNOWLEDGMENT.1
            && self.to_receiver.is_some_and(|nanos| nanos < AT_ONCE && nanos < to_sender)
            && self.answers.prompt < FEW_PROMPT
    }

    /// Processes a pure acknowledgment of `piece` alone, which passed once.
    pub(super) fn acknowledged_alone(&mut self, piece: &Sent, now: i64) {
        if piece.passed == 1 && now.saturating_sub(piece.time) < DELAYED_ACKNOWLEDGMENT.0 {
            self.answers.prompt = self.answers.prompt.saturating_add(1);
        }
    }

    /// Processes the acknowledgment of a retransmitted piece. If it arrives at once, and that of the first transmission
    /// did not, it answers a duplicate segment.
    pub(super) fn was_held(&mut self, piece: &Sent, loss: usize, now: i64) {
        if piece.may_be_held && now.saturating_sub(piece.time) < DELAYED_ACKNOWLEDGMENT.0 {
            self.losses.mark_needless(loss, Needless::AcknowledgmentDelayed);
        }
    }

    /// Processes an acknowledgment of retransmissions, each with the index of its loss and its time, but not of the
    /// data sent after the first transmissions and before these. The receiver cannot have had that data, so it
    /// acknowledges the first transmissions, unless the later data was lost, and would be retransmitted. Earlier
    /// acknowledgments that showed a loss exclude this.
    pub(super) fn awaits_order(&mut self, repeated: Vec<(usize, i64)>) {
        self.answers.in_order = self.on_the_way.get(0).filter(|next| next.passed == 1 && !next.sacked).map(|next| {
            let in_order = |&(loss, time): &(usize, i64)| {
                let first = self.losses.list().get(loss).map_or(0, |loss| loss.seen.time);
                next.time < time && self.answers.hole_shown.is_none_or(|shown| shown < first)
            };
            let losses = repeated.into_iter().filter(in_order).map(|(loss, _)| loss).collect();
            (next.seq, losses)
        });
    }

    /// Handles the acknowledgment of `piece`: if it was awaited next and sent once, the losses before it were needless.
    pub(super) fn came_in_order(&mut self, piece: &Sent) {
        let awaited = self.answers.in_order.take().filter(|(seq, _)| *seq == piece.seq && piece.passed == 1);
        for loss in awaited.into_iter().flat_map(|(_, losses)| losses) {
            self.losses.mark_needless(loss, Needless::AcknowledgedInOrder);
        }
    }

    /// Processes a pure acknowledgment of data that was acknowledged before. While data is outstanding, it shows a
    /// hole. Otherwise, the receiver answers a duplicate segment (RFC 9293 §3.10.7.4). Acknowledgments with a D-SACK
    /// block have been processed. Load balancers repeat acknowledgments at once, so an acknowledgment within a
    /// millisecond of another packet is ignored.
    pub(super) fn duplicate(&mut self, packet: &Packet<'_>) {
        let now = packet.time;
        if self.answers.take_ask() {
            return;
        }
        let repeats_window = self.answers.last_window == Some(packet.segment.window);
        if !repeats_window || !packet.segment.options.sack.as_slice().is_empty() {
            return;
        }
        if !self.on_the_way.is_empty() {
            self.answers.hole_shown = Some(now);
            return;
        }
        if now.saturating_sub(self.answers.last_answer) < MILLISECOND {
            return;
        }
        self.answers.unanswered.retain(|repeat| now.saturating_sub(repeat.time) <= ANSWERED_WITHIN);
        let least = self.least().unwrap_or(0);
        let acknowledged = self.acknowledged;
        let is_answered =
            |repeat: &Unanswered| repeat.end <= acknowledged && now.saturating_sub(repeat.time) >= least - least / 4;
        let newest = self.answers.unanswered.iter().rposition(is_answered);
        if let Some(loss) =
            newest.and_then(|index| self.answers.unanswered.remove(index)).and_then(|repeat| repeat.loss)
        {
            self.losses.mark_needless(loss, Needless::AnsweredTwice);
        }
    }

    /// Records a retransmitted FIN without data, which its receiver answers.
    pub const fn repeats_fin(&mut self) {
        self.answers.ask();
    }

    /// Handles data after its receiver has reset the connection, which no longer needs it.
    pub fn after_reset(&mut self, packet: &Packet<'_>) {
        let seq = self.unwrap(packet.segment.seq);
        let end = seq + u64::from(packet.len);
        let packets = self.rounds.packets(packet.len);
        if end > self.highest {
            self.highest = end;
            return;
        }
        if packet.len > 1 {
            self.counts.packets += packets;
            self.counts.wire += u64::from(packet.wire);
            self.counts.retransmissions += packets;
            self.counts.repeated += packets;
        }
    }

    /// Returns whether a repetition that follows `piece` within a millisecond was sent as a separate packet: it has
    /// another timestamp, or an identification that neither the packet, joined or whole, nor one of its parts can have.
    pub(super) fn was_sent_again(&self, packet: &Packet<'_>, piece: &Sent, few: u32) -> bool {
        let stamp = packet.segment.options.timestamps.map(|stamps| stamps.val);
        if stamp.zip(piece.stamp).is_some_and(|(this, that)| this != that) {
            return true;
        }
        let parts = (piece.packet_len / packet.len.max(1)).min(64) as u16;
        self.identifications.tell(few)
            && packet
                .identification
                .zip(piece.identification)
                .is_some_and(|(this, that)| this.wrapping_sub(that) > parts)
    }
}
