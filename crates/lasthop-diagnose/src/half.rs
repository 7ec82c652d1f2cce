//! One direction of a connection: its data, and the acknowledgments that come back.

mod acknowledgments;

use std::collections::VecDeque;

use lasthop_proto::packet::Segment;
use lasthop_proto::seq::Seq;
use lasthop_wire::Kept;

use crate::loss::{Losses, Reduction, Repair, Seen, Side};
use crate::path::{Neighbours, Path, Sample};
use crate::rounds::{Passing, Rounds, Times};
use crate::sent::{Around, OnTheWay, Sent};

/// Most gaps that are open at once.
const MOST_GAPS: usize = 1024;
/// Most retransmissions on their way whose fate is watched.
const MOST_AGAIN: usize = 4096;
/// Sequence numbers begin here, so that there is room before the first one seen.
const ORIGIN: u64 = 1 << 33;
/// A silence of this long ends with a timeout, in nanoseconds: Linux's least one is 200 ms.
const LEAST_TIMEOUT: i64 = 190_000_000;

/// A packet of the connection, as both directions look at it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// Nanoseconds.
    pub time: i64,
    /// Its number in the capture.
    pub number: u64,
    /// Its TCP header.
    pub segment: &'p Segment,
    /// Whether all of its options are there.
    pub options: Kept,
    /// Bytes of payload.
    pub len: u32,
    /// Bytes on the wire, IP header included.
    pub wire: u32,
    /// Bytes on this path up to its end.
    pub volume: u64,
    /// When the sender stamped it, on a clock that runs as the capture's, in nanoseconds.
    pub stamped: Option<i64>,
}

/// Data that a capture has not seen while it saw what came behind it.
#[derive(Clone, Copy, Debug)]
struct Gap {
    seq: u64,
    end: u64,
    time: i64,
    /// The packet that showed it.
    number: u64,
    stamp: Option<u32>,
    around: Around,
}

/// What is known of one direction.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// The first sequence number, and what it counts as.
    first: Option<Seq>,
    highest: u64,
    acknowledged: u64,
    on_the_way: OnTheWay,
    gaps: VecDeque<Gap>,
    /// First bytes of retransmissions on their way.
    again: VecDeque<u64>,
    /// The last acknowledgment's blocks.
    blocks: [(u64, u64); 4],
    duplicates: u32,
    /// Acknowledgments of a single packet since the last one of several; none before the first of several.
    singles: Option<u32>,
    /// An acknowledgment whose options were cut off came since the last packet that is known to have arrived: others may have.
    missed: bool,
    last_heard: i64,
    /// From the capture to the receiver and back.
    pub beyond: Path,
    /// From the sender to the capture.
    pub before: Path,
    /// All losses, in the order in which they were noticed.
    pub losses: Losses,
    /// What limits it.
    pub rounds: Rounds,
    reduction: Option<Reduction>,
    /// Bytes of payload that were sent for the first time.
    pub bytes: u64,
    /// Packets with payload.
    pub packets: u64,
    /// Packets that repeated data which the capture had seen.
    pub retransmissions: u64,
    /// Of these, those of data that had been acknowledged.
    pub repeated: u64,
    /// Segments that came in another order than they were sent.
    pub reordered: u64,
    /// Bytes acknowledged that the capture has not seen.
    pub unseen: u64,
    /// First and last packet with payload.
    pub span: Option<(i64, i64)>,
    /// Bytes on the wire of packets with payload.
    pub wire: u64,
    /// Packets with data that were marked on their way here.
    pub marks: u64,
    /// Acknowledgments that echoed a mark.
    pub echoes: u64,
    /// Packets with data that may be marked.
    pub markable: u64,
    /// Times at which the receiver closed its window.
    pub zero_windows: u64,
    window_is_zero: bool,
}

impl Half {
    /// Room for what was sent is given back; figures stay.
    pub fn close(&mut self) {
        self.on_the_way.clear();
        self.gaps = VecDeque::new();
        self.again = VecDeque::new();
    }

    /// Whether all data that passed has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.on_the_way.is_empty()
    }

    /// Pieces of data that were forgotten for want of room.
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

    /// The sequence number on the wire.
    fn wrap(&self, seq: u64) -> u32 {
        self.first.map_or(0, |first| first.0.wrapping_add(seq.wrapping_sub(ORIGIN) as u32))
    }

    /// The connection's first sequence number is known.
    pub fn begin(&mut self, seq: Seq) {
        if self.first.is_none() {
            self.unwrap(seq);
        }
    }

    /// Times jumped.
    pub fn break_off(&mut self) {
        self.beyond.break_off();
        self.before.break_off();
        for index in 0.. {
            let Some(piece) = self.on_the_way.get_mut(index) else { break };
            // No delay is taken from it any more.
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

    /// A packet of the sender's with payload.
    pub fn data(&mut self, packet: &Packet<'_>, to_sender: i64) {
        let seq = self.unwrap(packet.segment.seq);
        let end = seq + u64::from(packet.len);
        // A keep-alive probe repeats the last byte before, a window probe may add one.
        if packet.len <= 1 && end <= self.acknowledged {
            return;
        }
        let (first, _) = self.span.unwrap_or((packet.time, packet.time));
        self.span = Some((first, packet.time));
        self.packets += self.rounds.packets(packet.len);
        self.wire += u64::from(packet.wire);
        let fresh = seq.max(self.highest);
        if seq < self.highest {
            self.repeat(packet, seq, end.min(self.highest), to_sender);
        }
        if end > self.highest {
            self.new_data(packet, fresh.max(seq), end);
        }
        let times = self.times(packet.time, to_sender);
        let passing = Passing { end, len: packet.len };
        let reduction = self.reduction.unwrap_or(Reduction::None);
        if let Some((to, nanos)) = self.rounds.pass(times, passing, reduction) {
            self.losses.charge(to, nanos);
        }
        self.last_heard = packet.time;
    }

    /// The sender says that it has made its window smaller because of a mark.
    pub fn reduced(&mut self) {
        self.reduction = Some(Reduction::Mark);
    }

    fn new_data(&mut self, packet: &Packet<'_>, seq: u64, end: u64) {
        let mut neighbours = Neighbours::Arrived;
        let stamped = packet.stamped.map(|sent| Sample { sent, arrived: packet.time, volume: packet.volume, end });
        if seq > self.highest {
            neighbours = Neighbours::Missing;
            if self.gaps.len() == MOST_GAPS {
                self.gaps.pop_front();
            }
            let missing = seq - self.highest;
            // Its headers were lost too: as many packets as would have held it.
            let mss = u64::from(self.rounds.mss().max(1));
            let headers = u64::from(packet.wire.saturating_sub(packet.len));
            let missing = missing + missing.div_ceil(mss) * headers;
            let after = stamped.map(|sample| Sample { volume: sample.volume + missing, ..sample });
            let around = Around { before: self.before.last(), after, missing, row: 0 };
            let (number, stamp) = (packet.number, packet.segment.options.timestamps.map(|stamps| stamps.val));
            self.gaps.push_back(Gap { seq: self.highest, end: seq, time: packet.time, number, stamp, around });
        }
        if let Some(sample) = stamped {
            self.before.take(sample, neighbours);
            self.rounds.queued(Side::Before, self.before.queue(sample));
        }
        self.bytes += end - seq;
        self.on_the_way.insert(piece(packet, seq, end));
        self.highest = end;
    }

    /// Data from `seq` to `end` is not new.
    fn repeat(&mut self, packet: &Packet<'_>, seq: u64, end: u64, to_sender: i64) {
        let filled = self.fill_gaps(packet, seq, end, to_sender);
        if filled {
            return;
        }
        let packets = self.rounds.packets((end - seq) as u32);
        self.retransmissions += packets;
        if end <= self.acknowledged {
            self.repeated += packets;
            return;
        }
        self.on_the_way.cut(seq);
        self.on_the_way.cut(end);
        let repair = self.repair(packet.time, to_sender);
        let mut index = self.on_the_way.at(seq);
        let mut lost = Around { before: self.beyond.last(), ..Around::default() };
        while let Some(piece) = self.on_the_way.get(index).copied().filter(|piece| piece.seq < end) {
            // Behind the last that arrived nothing arrived: the time of the loss is known from before only.
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
            };
            let number = if piece.sacked {
                self.repeated += self.rounds.packets(loss.len);
                None
            } else {
                let number = self.losses.add(loss);
                if number.is_some() {
                    self.reduction = number.map(Reduction::Loss);
                }
                number
            };
            if let Some(piece) = self.on_the_way.get_mut(index) {
                piece.time = packet.time;
                piece.number = packet.number;
                piece.volume = packet.volume.saturating_sub(end.saturating_sub(piece.end));
                piece.stamp = packet.segment.options.timestamps.map(|stamps| stamps.val);
                piece.passed += 1;
                piece.loss = number.or(piece.loss);
                piece.around = None;
                piece.guessed = false;
            }
            if self.again.len() == MOST_AGAIN {
                self.again.pop_front();
            }
            self.again.push_back(piece.seq);
            index += 1;
        }
    }

    /// How the sender noticed.
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

    /// Whether the data was one that the capture had missed.
    fn fill_gaps(&mut self, packet: &Packet<'_>, seq: u64, end: u64, to_sender: i64) -> bool {
        let Some(index) = self.gaps.iter().position(|gap| gap.seq < end && seq < gap.end) else { return false };
        let gap = self.gaps[index];
        self.gaps.remove(index);
        let rest = [(gap.seq, seq), (end, gap.end)];
        for (seq, end) in rest.into_iter().filter(|(seq, end)| seq < end) {
            self.gaps.push_back(Gap { seq, end, ..gap });
        }
        let (from, to) = (seq.max(gap.seq), end.min(gap.end));
        let stamp = packet.segment.options.timestamps.map(|stamps| stamps.val);
        let older = stamp.zip(gap.stamp).is_some_and(|(this, that)| (this.wrapping_sub(that) as i32) < 0);
        // The sender hears of a loss a round trip later.
        let trip = to_sender.saturating_add(self.beyond.base().unwrap_or(0));
        let soon = packet.time.saturating_sub(gap.time) < trip - trip / 4;
        if older || soon {
            self.reordered += 1;
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
            };
            if let Some(number) = self.losses.add(loss) {
                self.reduction = Some(Reduction::Loss(number));
            }
        }
        self.bytes += to - from;
        if to > self.acknowledged {
            self.on_the_way.insert(piece(packet, from, to));
        }
        true
    }

    /// The capture ends.
    pub fn finish(&mut self, now: i64, to_sender: i64) {
        let Some((_, last)) = self.span else { return };
        // What comes behind the last data is nobody's time.
        let times = self.times(now.min(last), to_sender);
        if let Some((to, nanos)) = self.rounds.end(times, self.reduction.unwrap_or(Reduction::None)) {
            self.losses.charge(to, nanos);
        }
    }
}

/// Whether the ends agreed upon selective acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sacks {
    /// They did, or it is not known.
    Perhaps,
    /// They did not.
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
    }
}
