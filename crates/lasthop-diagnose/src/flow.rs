//! TCP connections, in both directions.

use std::collections::VecDeque;
use std::net::SocketAddr;

use lasthop_proto::packet::{Ecn, Flags};
use lasthop_wire::Kept;

use crate::half::{Half, Packet, Sacks};
use crate::rounds::OptionBytes;

/// Maximum number of directions of connections whose properties are learnt.
pub(crate) const MOST_ROUTES: usize = 100_000;
/// Maximum number of timestamps per direction that await an echo.
const MOST_STAMPS: usize = 4096;
const MILLISECOND: i64 = 1_000_000;
/// Ticks of timestamp clocks in use, in nanoseconds: 1000, 250, 100, 10 and 2 Hz.
const TICKS: [i64; 5] = [MILLISECOND, 4 * MILLISECOND, 10 * MILLISECOND, 100 * MILLISECOND, 500 * MILLISECOND];

/// Clock of timestamps (RFC 7323), assumed to tick once per millisecond, as in modern systems.
#[derive(Clone, Copy, Default, Debug)]
struct Stamps {
    first: Option<(u32, i64)>,
    is_other: bool,
}

impl Stamps {
    /// Returns the time at which a packet with timestamp `val`, captured at `time`, was stamped, up to a constant.
    fn time(&mut self, val: u32, time: i64) -> Option<i64> {
        let (first, begun) = *self.first.get_or_insert((val, time));
        let ticks = i64::from(val.wrapping_sub(first) as i32);
        let (stamped, passed) = (ticks.checked_mul(MILLISECOND)?, time.saturating_sub(begun));
        // Over seconds, neither a queue nor a pause explains a difference of a tenth between the clocks.
        if passed > 3_000 * MILLISECOND && stamped.abs_diff(passed) > (passed / 4).unsigned_abs() {
            self.is_other = true;
        }
        (!self.is_other).then(|| begun.saturating_add(stamped))
    }

    /// Returns the length of a tick in nanoseconds, once three seconds of timestamps match a known one within 5 %.
    fn tick(&self, val: u32, time: i64) -> Option<i64> {
        let (first, begun) = self.first?;
        let (ticks, passed) = (i64::from(val.wrapping_sub(first) as i32), time.saturating_sub(begun));
        let fits =
            |tick: &i64| ticks.checked_mul(*tick).is_some_and(|nanos| nanos.abs_diff(passed) < (passed / 20) as u64);
        (passed > 3_000 * MILLISECOND).then(|| TICKS.into_iter().find(fits))?
    }
}

/// Response times of an endpoint, seen from the capture.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Timestamps sent to the endpoint, with times.
    waiting: VecDeque<(u32, i64)>,
    /// Newest timestamp, answered or not.
    newest: Option<u32>,
    least: Option<i64>,
}

impl Answers {
    /// Returns the minimum, in nanoseconds.
    pub const fn least(&self) -> Option<i64> {
        self.least
    }

    fn took(&mut self, nanos: i64) {
        if nanos >= 0 {
            self.least = Some(self.least.map_or(nanos, |least| least.min(nanos)));
        }
    }

    fn asked(&mut self, val: u32, time: i64) {
        // The first of several packets with the same timestamp counts, even if the others arrive after the answer.
        if self.newest.is_some_and(|newest| newest.wrapping_sub(val) as i32 >= 0) {
            return;
        }
        self.newest = Some(val);
        if self.waiting.len() == MOST_STAMPS {
            self.waiting.pop_front();
        }
        self.waiting.push_back((val, time));
    }

    fn answered(&mut self, ecr: u32, time: i64) {
        while let Some(&(val, asked)) = self.waiting.front() {
            let later = val.wrapping_sub(ecr) as i32;
            if later > 0 {
                return;
            }
            self.waiting.pop_front();
            if later == 0 {
                self.took(time.saturating_sub(asked));
            }
        }
    }

    fn break_off(&mut self) {
        self.waiting.clear();
    }
}

/// Properties of a connection that its handshake shows.
#[derive(Clone, Copy, Default, Debug)]
pub struct Handshake {
    /// Sender of the SYN.
    pub initiator: Option<usize>,
    offer: Option<i64>,
    answer: Option<i64>,
    window_scale: [Option<u8>; 2],
    sack: [bool; 2],
    /// Ends whose options are known.
    agreed: [bool; 2],
    seen: [bool; 2],
}

impl Handshake {
    /// Returns whether the capture has both halves of the handshake.
    pub fn is_whole(&self) -> bool {
        self.seen == [true; 2]
    }

    /// Returns whether the negotiated options are known.
    fn is_known(&self) -> bool {
        self.agreed == [true; 2]
    }
}

/// A TCP connection.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Addresses, the lower one first.
    pub ends: [SocketAddr; 2],
    /// Number of the interface, and of the device in captures of all devices.
    pub place: (u32, u32),
    /// Properties that the handshake shows.
    pub handshake: Handshake,
    /// State of each direction; the index is that of the sender in [`Flow::ends`].
    pub halves: [Half; 2],
    /// Response times of each endpoint.
    pub answers: [Answers; 2],
    stamps: [Stamps; 2],
    /// Times of the first and the last packet, in nanoseconds.
    pub span: (i64, i64),
    /// Numbers of these packets in the capture.
    pub numbers: (u64, u64),
    /// Number of packets.
    pub packets: u64,
    finished: [bool; 2],
    /// True if both ends have closed the connection, or one has reset it.
    pub closed: bool,
    /// Index of the end that reset the connection.
    reset: Option<usize>,
    /// Number of the clock jump up to which the connection was processed.
    epoch: u64,
}

/// A captured packet, with fields of its IP header.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'p> {
    /// Segment.
    pub packet: Packet<'p>,
    /// Index of the sender.
    pub from: usize,
    /// ECN field.
    pub ecn: Ecn,
    /// Number of clock jumps so far.
    pub epoch: u64,
}

impl Flow {
    /// Creates the state of a connection.
    pub fn new(ends: [SocketAddr; 2], place: (u32, u32), time: i64, number: u64) -> Self {
        Self {
            ends,
            place,
            handshake: Handshake::default(),
            halves: [Half::default(), Half::default()],
            answers: [Answers::default(), Answers::default()],
            stamps: [Stamps::default(); 2],
            span: (time, time),
            numbers: (number, number),
            packets: 0,
            finished: [false; 2],
            closed: false,
            reset: None,
            epoch: 0,
        }
    }

    /// Returns the round trip from the capture to that end in nanoseconds; 0 if unknown.
    pub fn to_end(&self, end: usize) -> i64 {
        self.answers[end].least().unwrap_or(0)
    }

    /// Processes the next packet.
    pub fn take(&mut self, arrived: &Arrived<'_>) {
        let Arrived { mut packet, from, ecn, epoch } = *arrived;
        let to = 1 - from;
        self.span.1 = packet.time;
        self.numbers.1 = packet.number;
        self.packets += 1;
        if self.epoch != epoch {
            self.epoch = epoch;
            self.halves.iter_mut().for_each(Half::break_off);
            self.answers.iter_mut().for_each(Answers::break_off);
            self.stamps = [Stamps::default(); 2];
        }
        let segment = *packet.segment;
        let flags = segment.flags;
        if self.closed {
            if self.reset == Some(to) && packet.len > 0 && !flags.has(Flags::SYN) {
                self.halves[from].after_reset(&packet);
            }
            return;
        }
        if flags.has(Flags::RST) {
            self.reset = Some(from);
            self.close();
            return;
        }
        if let Some(stamps) = segment.options.timestamps {
            self.answers[to].asked(stamps.val, packet.time);
            if flags.has(Flags::ACK) {
                self.answers[from].answered(stamps.ecr, packet.time);
            }
            packet.stamped = self.stamps[from].time(stamps.val, packet.time);
            packet.tick = self.stamps[from].tick(stamps.val, packet.time);
        }
        if flags.has(Flags::SYN) {
            self.begin(&packet, from);
            return;
        }
        self.third(&packet, from);
        self.halves[from].identify(packet.identification);
        self.halves[from].to_receiver = self.answers[to].least();
        self.halves[from].has_handshake = self.handshake.is_whole();
        if self.halves[from].is_padded(&packet) {
            packet.len = 0;
        }
        if packet.len > 0 {
            self.data(&packet, from, ecn);
        } else if !flags.has(Flags::FIN) {
            packet.is_keep_alive = self.halves[from].empty(&packet);
        } else if self.finished[from] {
            self.halves[from].repeats_fin();
        }
        if flags.has(Flags::ACK) {
            self.acknowledgment(&packet, from);
        }
        self.finished[from] |= flags.has(Flags::FIN);
        if self.finished == [true; 2] && self.halves.iter().all(Half::is_done) {
            self.close();
        }
    }

    fn begin(&mut self, packet: &Packet<'_>, from: usize) {
        let segment = packet.segment;
        self.halves[from].begin(segment.seq + 1);
        if packet.options == Kept::Whole {
            self.handshake.window_scale[from] = segment.options.window_scale;
            self.handshake.sack[from] = segment.options.sack_permitted;
            self.handshake.agreed[from] = true;
        }
        self.handshake.seen[from] = true;
        if let Some(mss) = segment.options.mss {
            // Timestamps take twelve bytes of each segment that may carry them.
            let options = if segment.options.timestamps.is_some() { 12 } else { 0 };
            self.halves[1 - from].rounds.most(mss, OptionBytes(options));
        }
        if segment.flags.has(Flags::ACK) {
            self.handshake.initiator = Some(1 - from);
            // If a SYN arrived twice, the answer may be to either.
            if let (Some(offer), None) = (self.handshake.offer, self.handshake.answer) {
                self.answers[from].took(packet.time.saturating_sub(offer));
            }
            self.handshake.answer = Some(packet.time);
        } else {
            self.handshake.initiator = Some(from);
            self.handshake.offer = match self.handshake.offer {
                None => Some(packet.time),
                Some(_) => Some(i64::MAX),
            };
        }
    }

    /// Derives the round trip to the sender from the packet that completes the handshake.
    fn third(&mut self, packet: &Packet<'_>, from: usize) {
        if self.handshake.initiator == Some(from)
            && let Some(answer) = self.handshake.answer.take()
        {
            self.answers[from].took(packet.time.saturating_sub(answer));
        }
    }

    fn data(&mut self, packet: &Packet<'_>, from: usize, ecn: Ecn) {
        let to_sender = self.to_end(from);
        let half = &mut self.halves[from];
        half.counts.markable += u64::from(ecn != Ecn::NotEct);
        half.counts.marks += u64::from(ecn == Ecn::Ce);
        half.rounds.segment_size(packet.len);
        if packet.segment.flags.has(Flags::CWR) && half.counts.markable > 0 {
            half.reduced();
        }
        half.data(packet, to_sender);
    }

    fn acknowledgment(&mut self, packet: &Packet<'_>, from: usize) {
        let shake = &self.handshake;
        // Both ends must offer scaling; if the beginning of the connection is missing, the window field is ambiguous.
        let scale = match shake.window_scale {
            [Some(_), Some(_)] => shake.window_scale[from],
            _ => Some(0),
        };
        let window = scale.filter(|_| shake.is_known()).map(|scale| u64::from(packet.segment.window) << scale.min(14));
        // A closed window is closed at any scale.
        let window = window.or((packet.segment.window == 0).then_some(0));
        let sacks = if shake.is_known() && shake.sack != [true; 2] { Sacks::Never } else { Sacks::Perhaps };
        let half = &mut self.halves[1 - from];
        half.to_receiver = self.answers[from].least();
        half.counts.echoes += u64::from(packet.segment.flags.has(Flags::ECE) && half.counts.markable > 0);
        half.acknowledged(packet, window, sacks);
        if let Some(base) = half.beyond.base() {
            self.answers[from].took(base);
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.finish();
        self.halves.iter_mut().for_each(Half::close);
        self.answers.iter_mut().for_each(Answers::break_off);
    }

    /// Closes the connection at the end of the capture.
    pub fn finish(&mut self) {
        let (now, to_ends) = (self.span.1, [self.to_end(0), self.to_end(1)]);
        for (half, to_sender) in self.halves.iter_mut().zip(to_ends) {
            half.finish(now, to_sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three packets with one timestamp cross a slow hop, the third after the answer to the first. The answer to the
    /// third has the same echo, and yields no sample.
    #[test]
    fn of_packets_with_one_stamp_the_first_asks() {
        let mut answers = Answers::default();
        for (at, asks, val) in
            [(0, true, 7), (8, true, 7), (20, false, 7), (24, true, 7), (26, false, 7), (30, true, 8), (50, false, 8)]
        {
            if asks { answers.asked(val, at) } else { answers.answered(val, at) }
        }
        assert_eq!(answers.least(), Some(20));
    }
}
