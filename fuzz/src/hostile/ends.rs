//! Models of a connection's two ends: the sender on the wire, and the receiver behind the hop, which sends no data.

use lasthop_proto::packet::{Flags, Options, SackBlock, Segment, Timestamps};
use lasthop_proto::seq::Seq;

/// Initial sequence numbers of sender and receiver: both are about to wrap.
pub const SENDER_ISS: Seq = Seq(u32::MAX - 700);
pub const RECEIVER_ISS: Seq = Seq(u32::MAX - 3);
/// Clocks of both ends at the beginning of the script.
pub const SENDER_CLOCK: u32 = u32::MAX - 40;
pub const RECEIVER_CLOCK: u32 = 0x7fff_ffe0;

/// Returns the byte that the sender sends at a sequence number, or the one that an attacker puts there.
pub fn byte(seq: u32, content: Content) -> u8 {
    let genuine = (seq.wrapping_mul(2_654_435_761) >> 13) as u8;
    if content == Content::Genuine { genuine } else { !genuine }
}

/// Origin of the bytes in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Content {
    /// Sent by the sender.
    #[default]
    Genuine,
    /// Sent by an attacker.
    Forged,
}

/// A packet as the ends see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pkt {
    /// TCP header.
    pub segment: Segment,
    /// Payload bytes.
    pub len: u32,
    /// Origin of the payload.
    pub content: Content,
    /// True if it carries an option of an unknown kind.
    pub odd: bool,
}

impl Pkt {
    /// Creates a packet without payload.
    pub fn bare(segment: Segment) -> Self {
        Self { segment, len: 0, content: Content::Genuine, odd: false }
    }

    fn seq_len(&self) -> u32 {
        let flags = self.segment.flags;
        self.len + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN))
    }

    /// Returns the sequence number after its last byte.
    pub fn end(&self) -> Seq {
        self.segment.seq + self.seq_len()
    }
}

/// Parameters that both ends have negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Payload of the sender's segments, in bytes.
    pub mss: u32,
    pub timestamps: bool,
    pub sack: bool,
    /// Shift of the window scale in both directions.
    pub scale: u8,
    /// Size of the receiver's buffer, in bytes.
    pub buffer: u32,
}

impl Terms {
    fn times(&self, val: u32, ecr: u32) -> Option<Timestamps> {
        self.timestamps.then_some(Timestamps { val, ecr })
    }
}

/// States that an end may have, as far as a gateway can know: from `next.0` to `next.1`, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Next expected sequence number.
    pub next: (Seq, Seq),
    /// Right edge of its window.
    pub edge: Seq,
    /// Earliest timestamp that the end accepts, in the first state and in the last. If the two are far apart, neither
    /// is the earlier.
    pub recent: Option<(u32, u32)>,
    /// End of the data sent. The end may expect a reset with any number up to it, since all data may have arrived.
    pub sent: Seq,
    /// Acknowledgments that the end accepts (RFC 5961 §5).
    pub acks: (Seq, Seq),
}

/// Judgement of a packet by an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Accepted.
    Taken,
    /// Refused, but may be a retransmission by the other end.
    Old,
    /// Refused.
    Refused,
    /// Accepted as the end of the connection.
    Reset,
}

impl Bounds {
    /// Judges a packet by RFC 9293 §3.10.7.4 with RFC 5961 and RFC 7323 §5.3. `first` is the other end's first byte.
    pub fn judge(&self, packet: &Pkt, first: Seq) -> Judgement {
        let Segment { seq, ack, flags, options, .. } = packet.segment;
        if flags.has(Flags::RST) {
            let exact = seq.ge(self.next.0) && seq.le(self.next.1) || seq == self.sent;
            return if exact { Judgement::Reset } else { Judgement::Refused };
        }
        let late = |(from, to): (u32, u32)| {
            options.timestamps.is_none_or(|times| Seq(times.val).lt(Seq(from)) && Seq(times.val).lt(Seq(to)))
        };
        if flags.has(Flags::SYN) || !flags.has(Flags::ACK) || self.recent.is_some_and(late) {
            return Judgement::Refused;
        }
        if ack.lt(self.acks.0) || ack.gt(self.acks.1) {
            return Judgement::Refused;
        }
        // A segment is inside if any of its bytes is, or if it is empty, its number. RFC 9293 requires the first or the
        // last byte. Linux also accepts segments that extend beyond the window on both sides, and empty ones at its
        // edge, which a sender that has filled the window sends.
        let (from, to, end) = (self.next.0, self.edge, packet.end());
        let within = |at: Seq| at.ge(from) && at.lt(to);
        let inside = match (packet.seq_len(), to.since(from)) {
            (0, 0) => seq == from,
            (0, _) => within(seq) || seq == to,
            (_, 0) => false,
            (_, _) => seq.lt(to) && end.gt(from),
        };
        if inside {
            Judgement::Taken
        } else if seq.ge(first) && end.le(self.next.1) {
            Judgement::Old
        } else {
            Judgement::Refused
        }
    }
}

/// Reaction of an end to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// No reaction.
    Silence,
    /// Sends an acknowledgment.
    Acknowledge,
    /// The connection has ended, or cannot be saved.
    Broken,
}

/// The end behind the hop.
#[derive(Clone, Debug)]
pub struct Receiver {
    terms: Terms,
    /// Next expected sequence number, and right edge of the window.
    pub next: Seq,
    pub edge: Seq,
    /// Out-of-order data: disjoint ranges, in order.
    early: Vec<(Seq, Seq)>,
    recent: u32,
    acknowledged: Seq,
    /// Clock of its timestamps.
    pub clock: u32,
    /// True if its application reads the data.
    pub reads: bool,
}

impl Receiver {
    pub fn new(terms: Terms) -> Self {
        let next = SENDER_ISS + 1;
        Self {
            terms,
            next,
            edge: next + terms.buffer,
            early: Vec::new(),
            recent: SENDER_CLOCK,
            acknowledged: next,
            clock: RECEIVER_CLOCK,
            reads: true,
        }
    }

    /// Returns the packets that it accepts at present.
    pub fn bounds(&self) -> Bounds {
        let own = RECEIVER_ISS + 1;
        let window = u32::from(SENDER_WINDOW) << self.terms.scale;
        let recent = self.terms.timestamps.then_some((self.recent, self.recent));
        Bounds { next: (self.next, self.next), edge: self.edge, recent, sent: self.next, acks: (own - window, own) }
    }

    pub fn take(&mut self, packet: &Pkt) -> Reaction {
        let bounds = self.bounds();
        match bounds.judge(packet, SENDER_ISS + 1) {
            Judgement::Reset => return Reaction::Broken,
            Judgement::Old | Judgement::Refused => {
                let reset = packet.segment.flags.has(Flags::RST);
                let outside = !reset || (packet.segment.seq.ge(self.next) && packet.segment.seq.lt(self.edge));
                return if outside { Reaction::Acknowledge } else { Reaction::Silence };
            }
            Judgement::Taken => {}
        }
        if packet.segment.flags.has(Flags::FIN) {
            return Reaction::Broken;
        }
        // RFC 7323 §4.3.
        if let Some(times) = packet.segment.options.timestamps.filter(|_| self.terms.timestamps)
            && packet.segment.seq.le(self.acknowledged)
            && Seq(times.val).ge(Seq(self.recent))
        {
            self.recent = times.val;
        }
        if packet.len == 0 {
            return Reaction::Silence;
        }
        self.store(packet.segment.seq.max(self.next), packet.end().min(self.edge));
        Reaction::Acknowledge
    }

    fn store(&mut self, left: Seq, right: Seq) {
        if left.ge(right) {
            return;
        }
        let (mut left, mut right) = (left, right);
        self.early.retain(|&(from, to)| {
            let apart = to.lt(left) || from.gt(right);
            if !apart {
                (left, right) = (left.min(from), right.max(to));
            }
            apart
        });
        if left.le(self.next) {
            self.next = right;
        } else {
            let at = self.early.iter().position(|&(from, _)| from.gt(left)).unwrap_or(self.early.len());
            self.early.insert(at, (left, right));
        }
    }

    /// Returns the acknowledgment of its present state.
    pub fn acknowledgment(&mut self) -> Pkt {
        if self.reads {
            let room = self.terms.buffer >> self.terms.scale << self.terms.scale;
            self.edge = self.edge.max(self.next + room);
        }
        self.acknowledged = self.next;
        let mut options = Options { timestamps: self.terms.times(self.clock, self.recent), ..Options::default() };
        if self.terms.sack {
            let blocks = self.early.iter().take(3).map(|&(left, right)| SackBlock { left, right });
            blocks.for_each(|block| options.sack.push(block));
        }
        let window = (self.edge.since(self.next) >> self.terms.scale) as u16;
        // The part of the window below the shift is no longer granted.
        let seq = RECEIVER_ISS + 1;
        Pkt::bare(Segment { seq, ack: self.next, window, flags: Flags::ACK, options })
    }
}

/// Window that the sender grants the receiver, before the shift.
pub const SENDER_WINDOW: u16 = 500;

/// The end on the wire.
#[derive(Clone, Debug)]
pub struct Sender {
    terms: Terms,
    /// Lowest unacknowledged number, next number to send, and right edge of the window.
    pub oldest: Seq,
    pub next: Seq,
    pub edge: Seq,
    largest: u32,
    recent: u32,
    /// Clock of its timestamps.
    pub clock: u32,
}

impl Sender {
    pub fn new(terms: Terms) -> Self {
        let next = SENDER_ISS + 1;
        let (edge, recent) = (next + terms.buffer, RECEIVER_CLOCK);
        Self { terms, oldest: next, next, edge, largest: terms.buffer, recent, clock: SENDER_CLOCK }
    }

    /// Returns the packets that it accepts at present.
    pub fn bounds(&self) -> Bounds {
        let peer = RECEIVER_ISS + 1;
        let edge = peer + (u32::from(SENDER_WINDOW) << self.terms.scale);
        let recent = self.terms.timestamps.then_some((self.recent, self.recent));
        Bounds { next: (peer, peer), edge, recent, sent: peer, acks: (self.oldest - self.largest, self.next) }
    }

    pub fn take(&mut self, packet: &Pkt) -> Reaction {
        let Segment { seq, ack, window, flags, options } = packet.segment;
        match self.bounds().judge(packet, RECEIVER_ISS + 1) {
            Judgement::Reset => return Reaction::Broken,
            Judgement::Old | Judgement::Refused if flags.has(Flags::RST) => return Reaction::Silence,
            Judgement::Old | Judgement::Refused => return Reaction::Acknowledge,
            Judgement::Taken => {}
        }
        if packet.seq_len() > 0 {
            // The receiver sends no data: an attacker's bytes advance this end beyond it.
            return Reaction::Broken;
        }
        if let Some(times) = options.timestamps.filter(|_| self.terms.timestamps)
            && seq.le(RECEIVER_ISS + 1)
            && Seq(times.val).ge(Seq(self.recent))
        {
            self.recent = times.val;
        }
        self.oldest = self.oldest.max(ack);
        if ack.ge(self.oldest) {
            let window = u32::from(window) << self.terms.scale;
            self.edge = self.edge.max(ack + window);
            self.largest = self.largest.max(window);
        }
        Reaction::Silence
    }

    /// Returns `len` bytes of its stream starting at `seq`.
    pub fn data(&self, seq: Seq, len: u32) -> Pkt {
        let options = Options { timestamps: self.terms.times(self.clock, self.recent), ..Options::default() };
        let flags = if len > 0 { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
        let segment = Segment { seq, ack: RECEIVER_ISS + 1, window: SENDER_WINDOW, flags, options };
        Pkt { len, ..Pkt::bare(segment) }
    }

    /// Returns the next segments as one packet, or `None` if the window is full.
    pub fn next_data(&mut self, segments: u32) -> Option<Pkt> {
        let len = self.edge.since(self.next).min(segments * self.terms.mss);
        let packet = self.data(self.next, len);
        self.next += len;
        (len > 0).then_some(packet)
    }
}

/// Returns the three packets that open the connection, beginning with the receiver's, and whether each arrives at the
/// wired port of the gateway.
pub fn handshake(terms: Terms) -> [(bool, Pkt); 3] {
    let open = |val, ecr| Options {
        mss: Some(terms.mss as u16 + 12),
        window_scale: Some(terms.scale),
        sack_permitted: terms.sack,
        timestamps: terms.times(val, ecr),
        ..Options::default()
    };
    let syn = |seq, ack, flags, window, options| Pkt::bare(Segment { seq, ack, window, flags, options });
    let buffer = terms.buffer.min(u32::from(u16::MAX)) as u16;
    let first = syn(RECEIVER_ISS, Seq(0), Flags::SYN, buffer, open(RECEIVER_CLOCK, 0));
    let answer = Flags::SYN.with(Flags::ACK);
    let second = syn(SENDER_ISS, RECEIVER_ISS + 1, answer, SENDER_WINDOW, open(SENDER_CLOCK, RECEIVER_CLOCK));
    let third = Receiver::new(terms).acknowledgment();
    [(false, first), (true, second), (false, third)]
}
