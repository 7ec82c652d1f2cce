//! Models of a connection's two ends: the sender behind the wire, the receiver behind the hop, who sends no data.

use lasthop_proto::packet::{Flags, Options, SackBlock, Segment, Timestamps};
use lasthop_proto::seq::Seq;

/// The sender's and the receiver's first number: both are about to wrap.
pub const SENDER_ISS: Seq = Seq(u32::MAX - 700);
pub const RECEIVER_ISS: Seq = Seq(u32::MAX - 3);
/// What both clocks show when the script begins.
pub const SENDER_CLOCK: u32 = u32::MAX - 40;
pub const RECEIVER_CLOCK: u32 = 0x7fff_ffe0;

/// Returns the byte that the sender sent with a number, or the one that an attacker puts there.
pub fn byte(seq: u32, content: Content) -> u8 {
    let genuine = (seq.wrapping_mul(2_654_435_761) >> 13) as u8;
    if content == Content::Genuine { genuine } else { !genuine }
}

/// Whose bytes a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Content {
    /// The sender's.
    #[default]
    Genuine,
    /// An attacker's.
    Forged,
}

/// A packet as the ends see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pkt {
    /// Its header.
    pub segment: Segment,
    /// Bytes of payload.
    pub len: u32,
    /// Which these are.
    pub content: Content,
    /// It carries an option of an unknown kind.
    pub odd: bool,
}

impl Pkt {
    /// Without payload.
    pub fn bare(segment: Segment) -> Self {
        Self { segment, len: 0, content: Content::Genuine, odd: false }
    }

    fn seq_len(&self) -> u32 {
        let flags = self.segment.flags;
        self.len + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN))
    }

    /// Behind its last byte.
    pub fn end(&self) -> Seq {
        self.segment.seq + self.seq_len()
    }
}

/// What both ends agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Payload of the sender's segments.
    pub mss: u32,
    pub timestamps: bool,
    pub sack: bool,
    /// The shift of both windows.
    pub scale: u8,
    /// Bytes that the receiver's buffer takes.
    pub buffer: u32,
}

impl Terms {
    fn times(&self, val: u32, ecr: u32) -> Option<Timestamps> {
        self.timestamps.then_some(Timestamps { val, ecr })
    }
}

/// States that an end may be in, as far as a gateway can tell: from `next.0` to `next.1`, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The number that it waits for.
    pub next: (Seq, Seq),
    /// The end of its window.
    pub edge: Seq,
    /// The earliest timestamp that it takes, in the first state and the last: of two far apart neither is the earlier.
    pub recent: Option<(u32, u32)>,
    /// A reset with a number up to here that it may wait for: all that was sent may have come.
    pub sent: Seq,
    /// The acknowledgments that it takes (RFC 5961 §5).
    pub acks: (Seq, Seq),
}

/// What an end makes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// It takes it.
    Taken,
    /// It refuses it, but it may be a retransmission by the other end.
    Old,
    /// It refuses it.
    Refused,
    /// It takes it for the end of the connection.
    Reset,
}

impl Bounds {
    /// RFC 9293 §3.10.7.4 with RFC 5961 and RFC 7323 §5.3. `first`: the other end's first byte.
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
        // Inside: any of its bytes is, or, where it has none, its number. RFC 9293 asks for the first or the last; Linux also takes
        // what reaches beyond the window on both sides, and what is empty at its edge, as one who has filled it sends.
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

/// What an end does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// Nothing more.
    Silence,
    /// It says what it has.
    Acknowledge,
    /// Its connection is over, or beyond saving.
    Broken,
}

/// The end behind the hop.
#[derive(Clone, Debug)]
pub struct Receiver {
    terms: Terms,
    /// The number that it waits for, and the end of its window.
    pub next: Seq,
    pub edge: Seq,
    /// What came ahead of it, in order, disjoint.
    early: Vec<(Seq, Seq)>,
    recent: u32,
    acknowledged: Seq,
    /// Its clock.
    pub clock: u32,
    /// Whether its application takes what comes.
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

    /// What it takes now.
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

    /// What it says now.
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
        // What the shift cuts off is no longer granted.
        let seq = RECEIVER_ISS + 1;
        Pkt::bare(Segment { seq, ack: self.next, window, flags: Flags::ACK, options })
    }
}

/// What the sender grants the receiver, before the shift.
pub const SENDER_WINDOW: u16 = 500;

/// The end behind the wire.
#[derive(Clone, Debug)]
pub struct Sender {
    terms: Terms,
    /// The oldest number that is not acknowledged, the next to send, and the end of the window.
    pub oldest: Seq,
    pub next: Seq,
    pub edge: Seq,
    largest: u32,
    recent: u32,
    /// Its clock.
    pub clock: u32,
}

impl Sender {
    pub fn new(terms: Terms) -> Self {
        let next = SENDER_ISS + 1;
        let (edge, recent) = (next + terms.buffer, RECEIVER_CLOCK);
        Self { terms, oldest: next, next, edge, largest: terms.buffer, recent, clock: SENDER_CLOCK }
    }

    /// What it takes now.
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
            // The receiver sends no data: an attacker's bytes move this end ahead of it.
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

    /// Bytes of its stream from `seq` on.
    pub fn data(&self, seq: Seq, len: u32) -> Pkt {
        let options = Options { timestamps: self.terms.times(self.clock, self.recent), ..Options::default() };
        let flags = if len > 0 { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
        let segment = Segment { seq, ack: RECEIVER_ISS + 1, window: SENDER_WINDOW, flags, options };
        Pkt { len, ..Pkt::bare(segment) }
    }

    /// The next segments, as one packet; none without room in the window.
    pub fn next_data(&mut self, segments: u32) -> Option<Pkt> {
        let len = self.edge.since(self.next).min(segments * self.terms.mss);
        let packet = self.data(self.next, len);
        self.next += len;
        (len > 0).then_some(packet)
    }
}

/// The three packets that open the connection; the receiver begins. And which port of the gateway each comes in at.
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
