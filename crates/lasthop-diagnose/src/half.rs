//! One direction of a connection: its data, and the acknowledgments in the other direction.

mod acknowledgments;
mod blind;
mod gaps;
mod padding;
mod stray;
mod window;

use std::collections::VecDeque;

use lasthop_proto::packet::Segment;
use lasthop_proto::seq::Seq;
use lasthop_wire::Kept;

use self::acknowledgments::Acks;
use self::blind::Answers;
use self::gaps::{FEW_STEPS, Gap, Identifications};
use self::padding::Padding;
pub use self::window::{Refused, Window};
use crate::black_hole::BlackHole;
use crate::loss::{Losses, Needless, Reduction, Repair, Seen, Side};
use crate::path::Path;
use crate::policer::Passed;
use crate::rounds::{Passing, Rounds, Times};
use crate::sent::{Around, OnTheWay, Sent};

/// Maximum number of open gaps.
const MOST_GAPS: usize = 1024;
/// Maximum number of retransmissions in flight whose fate is tracked.
const MOST_AGAIN: usize = 4096;
/// Initial internal sequence number, which leaves space for numbers before the first one seen.
const ORIGIN: u64 = 1 << 33;
/// Silence that ends with a timeout, in nanoseconds: Linux's minimum is 200 ms.
const LEAST_TIMEOUT: i64 = 190_000_000;
const MILLISECOND: i64 = 1_000_000;

/// A packet of the connection, as both directions process it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// Time in nanoseconds.
    pub time: i64,
    /// Number in the capture.
    pub number: u64,
    /// TCP header.
    pub segment: &'p Segment,
    /// Completeness of the options.
    pub options: Kept,
    /// Bytes of payload.
    pub len: u32,
    /// Bytes on the wire, including the IP header.
    pub wire: u32,
    /// Bytes sent on this path up to its end.
    pub volume: u64,
    /// Time at which the sender stamped the packet, in nanoseconds of a clock that runs at the capture's rate.
    pub stamped: Option<i64>,
    /// Length of a tick of the sender's timestamps in nanoseconds, once the capture has shown it.
    pub tick: Option<i64>,
    /// IPv4 identification.
    pub identification: Option<u16>,
    /// True for a keep-alive without data.
    pub is_keep_alive: bool,
    /// True if the search for policers has capacity to remember the packet.
    pub is_remembered: bool,
}

/// Packets and bytes of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes of payload, without retransmissions.
    pub bytes: u64,
    /// Packets with payload.
    pub packets: u64,
    /// Retransmissions of data that the capture had seen.
    pub retransmissions: u64,
    /// Of these, retransmissions of data that had been acknowledged.
    pub repeated: u64,
    /// Reordered segments.
    pub reordered: u64,
    /// Bytes that were acknowledged but not captured.
    pub unseen: u64,
    /// Times of the first and the last packet with payload.
    pub span: Option<(i64, i64)>,
    /// Bytes on the wire of packets with payload.
    pub wire: u64,
    /// Data packets with a congestion mark at the capture.
    pub marks: u64,
    /// Acknowledgments that echoed a mark.
    pub echoes: u64,
    /// ECN-capable data packets.
    pub markable: u64,
    /// Data packets that the receiver reports as duplicate, without a retransmission.
    unexplained: u64,
    /// Packets that repeat data sooner than a sender can: the same packets, captured twice and cut differently by an
    /// interface.
    pub cut_otherwise: u64,
}

impl Counts {
    /// Returns the number of data packets that the path duplicated: sent once, and reported as duplicate by the
    /// receiver.
    pub fn duplicated(&self) -> u64 {
        self.unexplained.saturating_sub(self.repeated)
    }
}

/// State of one direction.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// First sequence number, and its internal number.
    first: Option<Seq>,
    highest: u64,
    acknowledged: u64,
    on_the_way: OnTheWay,
    gaps: VecDeque<Gap>,
    /// Data that was acknowledged before it was captured.
    missed_data: VecDeque<(u64, u64)>,
    /// First numbers of retransmissions in flight.
    again: VecDeque<u64>,
    acks: Acks,
    answers: Answers,
    last_heard: i64,
    /// Minimum time from a packet at the capture to the receiver's answer, in nanoseconds.
    pub to_receiver: Option<i64>,
    /// True if the capture has the handshake, which shows the round trip.
    pub has_handshake: bool,
    padding: Padding,
    /// Last number that was ignored as stray.
    stray: Option<u64>,
    /// Path from the capture to the receiver and back.
    pub beyond: Path,
    /// Path from the sender to the capture.
    pub before: Path,
    /// All losses, in the order in which they were noticed.
    pub losses: Losses,
    /// Accounting of the limiting factors.
    pub rounds: Rounds,
    reduction: Option<Reduction>,
    /// Receive window.
    pub window: Window,
    identifications: Identifications,
    /// Packets and bytes.
    pub counts: Counts,
    /// Packets for the search for policers.
    pub passed: Passed,
    /// Detection of path-MTU black holes.
    pub black_hole: BlackHole,
}

impl Half {
    /// Frees the memory of outstanding data; the counters remain.
    pub fn close(&mut self) {
        self.on_the_way.clear();
        self.gaps = VecDeque::new();
        self.missed_data = VecDeque::new();
        self.again = VecDeque::new();
        self.answers.close();
        self.passed.close();
    }

    /// Returns whether all captured data has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.on_the_way.is_empty()
    }

    /// Returns the number of pieces of data that were dropped at the limit.
    pub fn forgotten(&self) -> u64 {
        self.on_the_way.forgotten()
    }

    fn unwrap(&mut self, seq: Seq) -> u64 {
        let first = *self.first.get_or_insert_with(|| {
            (self.highest, self.acknowledged) = (ORIGIN, ORIGIN);
            seq
        });
        let near = first.0.wrapping_add((self.highest - ORIGIN) as u32);
        self.highest.saturating_add_signed(i64::from(seq.0.wrapping_sub(near) as i32))
    }

    /// Returns the sequence number on the wire.
    fn wrap(&self, seq: u64) -> u32 {
        self.first.map_or(0, |first| first.0.wrapping_add(seq.wrapping_sub(ORIGIN) as u32))
    }

    /// Sets the initial sequence number of the connection.
    pub fn begin(&mut self, seq: Seq) {
        if self.first.is_none() {
            self.unwrap(seq);
        }
    }

    /// Handles a jump of the clock.
    pub fn break_off(&mut self) {
        self.beyond.break_off();
        self.before.break_off();
        for index in 0.. {
            let Some(piece) = self.on_the_way.get_mut(index) else { break };
            // No more delays are measured on it.
            piece.passed = piece.passed.max(2);
        }
    }

    fn times(&self, now: i64, to_sender: i64) -> Times {
        let whole = to_sender.saturating_add(self.beyond.smoothed() as i64);
        let packet = self.beyond.rate().or(self.before.rate()).map_or(0.0, |rate| 1500.0 * 8e9 / rate);
        let base = self.beyond.base().unwrap_or(0).saturating_add(to_sender);
        let short = (1.5 * packet).max(1e6).max(base as f64 * 0.03) as i64;
        Times {
            now,
            to_sender,
            whole: if self.beyond.samples() == 0 { 100_000_000 } else { whole.max(1_000_000) },
            short_queue: short,
        }
    }

    /// Processes a packet of the sender with payload.
    pub fn data(&mut self, packet: &Packet<'_>, to_sender: i64) {
        let Some(seq) = self.near(packet.segment.seq) else { return };
        let end = seq + u64::from(packet.len);
        if self.window.takes_probe(packet, (seq, end), self.acknowledged, self.last_heard) {
            self.answers.ask();
            self.last_heard = packet.time;
            return;
        }
        let (first, _) = self.counts.span.unwrap_or((packet.time, packet.time));
        self.counts.span = Some((first, packet.time));
        self.counts.packets += self.rounds.packets(packet.len);
        self.counts.wire += u64::from(packet.wire);
        let fresh = seq.max(self.highest);
        if seq < self.highest {
            self.repeat(packet, seq, end.min(self.highest), to_sender);
        }
        let mut missing = 0;
        if end > self.highest {
            missing = self.new_data(packet, fresh.max(seq), end);
        }
        if packet.is_remembered {
            let delay = packet.stamped.map(|sent| packet.time.saturating_sub(sent));
            self.passed.note(packet.time, packet.number, packet.volume, missing, delay);
        }
        let times = self.times(packet.time, to_sender);
        let passing = Passing { end, len: packet.len };
        let reduction = self.reduction.unwrap_or(Reduction::None);
        if let Some((to, nanos)) = self.rounds.pass(times, passing, reduction) {
            self.losses.charge(to, nanos);
        }
        self.last_heard = packet.time;
    }

    /// Records that the sender has reduced its window because of a mark.
    pub fn reduced(&mut self) {
        self.reduction = Some(Reduction::Mark);
    }

    /// Processes data from `seq` to `end` that is not new.
    fn repeat(&mut self, packet: &Packet<'_>, seq: u64, end: u64, to_sender: i64) {
        if self.fill_gaps(packet, seq, end, to_sender) || self.captured_late(seq, end) {
            return;
        }
        if self.is_too_soon(packet, seq, to_sender) {
            self.counts.cut_otherwise += 1;
            return;
        }
        let packets = self.rounds.packets((end - seq) as u32);
        self.counts.retransmissions += packets;
        if end <= self.acknowledged {
            self.counts.repeated += packets;
            self.answers.await_answer(None, packet.time, end);
            return;
        }
        self.on_the_way.cut(seq);
        self.on_the_way.cut(end);
        let repair = self.repair(packet.time, to_sender);
        let mut index = self.on_the_way.at(seq);
        let mut lost = Around { before: self.beyond.last(), ..Around::default() };
        let mut blind = Vec::new();
        while let Some(piece) = self.on_the_way.get(index).copied().filter(|piece| piece.seq < end) {
            // No later packet arrived, so the time of the loss is known only from those before.
            lost.before = lost.before.filter(|before| before.volume < piece.volume);
            let loss = Seen {
                number: piece.number,
                repaired_by: packet.number,
                time: piece.time,
                seq: self.wrap(piece.seq),
                len: (piece.end - piece.seq) as u32,
                wire: piece.wire,
                volume: piece.volume,
                passed: piece.passed,
                repair,
                side: Side::Beyond,
                around: piece.around.unwrap_or(lost),
                packet_len: piece.packet_len.min(self.rounds.mss()),
                sent_before: None,
            };
            let number = if piece.sacked {
                self.counts.repeated += self.rounds.packets(loss.len);
                None
            } else if let Some(closed) = piece.refused {
                self.window.discard(&piece, closed);
                None
            } else {
                let number = self.lose(loss);
                if let Some(number) = number {
                    self.answers.await_answer(Some(number), packet.time, end);
                    if self.is_blind(packet, &piece, to_sender) {
                        blind.push(number);
                    }
                }
                number
            };
            let may_be_held = self.may_be_held(packet, &piece, to_sender);
            if let Some(piece) = self.on_the_way.get_mut(index) {
                piece.time = packet.time;
                piece.number = packet.number;
                piece.volume = packet.volume.saturating_sub(end.saturating_sub(piece.end));
                piece.stamp = packet.segment.options.timestamps.map(|stamps| stamps.val);
                piece.passed += 1;
                piece.loss = number.or(piece.loss);
                piece.around = None;
                piece.guessed = false;
                piece.packet_len = packet.len;
                piece.identification = packet.identification;
                piece.may_be_held = may_be_held;
                piece.refused = self.window.refuses(piece.seq);
            }
            if self.again.len() == MOST_AGAIN {
                self.again.pop_front();
            }
            self.again.push_back(piece.seq);
            index += 1;
        }
        // Marked after the loop, since parts of one packet merge only into a loss that is not needless.
        blind.into_iter().for_each(|number| self.losses.mark_needless(number, Needless::SentTooSoon));
    }

    /// Returns whether the packet is a copy that an interface cut or joined: its data was captured in packets of
    /// another size within half a round trip and a millisecond.
    fn is_too_soon(&self, packet: &Packet<'_>, seq: u64, to_sender: i64) -> bool {
        let trip = self.trip(to_sender);
        let before = self.on_the_way.get(self.on_the_way.at(seq)).filter(|piece| piece.seq <= seq && piece.passed == 1);
        before.is_some_and(|piece| {
            let apart = packet.time.saturating_sub(piece.time);
            apart < MILLISECOND.min(trip / 2)
                && piece.end - piece.seq != u64::from(packet.len)
                && !self.was_sent_again(packet, piece, FEW_STEPS.0)
        })
    }

    /// Records the loss of a packet beyond the capture. Returns the index of the loss, which is that of an earlier one
    /// if both are parts of one packet.
    fn lose(&mut self, loss: Seen) -> Option<usize> {
        let (is_part, number) = self.losses.add_part(loss, self.rounds.mss());
        if !is_part {
            self.black_hole.lost(loss.time, loss.packet_len, loss.passed);
        }
        self.passed.lost(loss.number, loss.wire);
        if number.is_some() {
            self.reduction = number.map(Reduction::Loss);
        }
        number
    }

    /// Returns the way in which the sender detected the loss.
    fn repair(&self, now: i64, to_sender: i64) -> Repair {
        let silence = now.saturating_sub(self.last_heard).saturating_sub(to_sender);
        let whole = self.times(now, to_sender).whole;
        if silence >= LEAST_TIMEOUT.max(whole) {
            Repair::Timeout
        } else if silence > whole + whole / 2 && silence > 5_000_000 {
            Repair::Probe
        } else {
            Repair::Fast
        }
    }

    /// Handles the end of the capture.
    pub fn finish(&mut self, now: i64, to_sender: i64) {
        self.counts.reordered += self.settle_order();
        let Some((_, last)) = self.counts.span else { return };
        // The time after the last data belongs to no factor.
        let times = self.times(now.min(last), to_sender);
        if let Some((to, nanos)) = self.rounds.end(times, self.reduction.unwrap_or(Reduction::None)) {
            self.losses.charge(to, nanos);
        }
    }
}

/// Use of selective acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sacks {
    /// Negotiated, or unknown.
    Perhaps,
    /// Not negotiated.
    Never,
}

fn piece(packet: &Packet<'_>, seq: u64, end: u64) -> Sent {
    Sent {
        seq,
        end,
        time: packet.time,
        number: packet.number,
        volume: packet.volume,
        wire: packet.wire,
        stamp: packet.segment.options.timestamps.map(|stamps| stamps.val),
        passed: 1,
        sacked: false,
        guessed: false,
        loss: None,
        around: None,
        packet_len: packet.len,
        refused: None,
        begins: true,
        identification: packet.identification,
        may_be_held: false,
    }
}
