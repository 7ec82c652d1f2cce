//! What happens between the ends, and what must hold.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::OnceLock;

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Options, SackBlock, Segment, Timestamps};
use lasthop_proto::scheme::LocalDetection;
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};

use super::ends::{
    Bounds, Content, Judgement, Pkt, RECEIVER_CLOCK, RECEIVER_ISS, Reaction, Receiver, SENDER_CLOCK, SENDER_ISS,
    Sender, Terms, handshake,
};
use super::middle::{Coming, Middle, Passed, Sent, Setup};
use super::script::Script;

/// Most turns of a script.
const TURNS: usize = 150;
/// Most packets on their way at once, in each direction.
const UNDER_WAY: usize = 40;
/// Times that the sender goes over all that is not acknowledged, without losses, until it must be.
const ROUNDS: usize = 12;
/// Between two of them.
const PATIENCE: Duration = Duration::from_millis(1_200);
/// Timers in one span of time: no gateway has more to do.
const MOST_TIMERS: usize = 5_000;

/// How much must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// All of it.
    All,
    /// What the ends see: whether strangers change anything else is not asked, which shows what comes of that.
    Outcome,
}

/// Which gateway sees a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Both,
    /// Its twin does not: the end that it goes to refuses it.
    One,
}

/// Whether the connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Whole,
    /// A stranger put in what an end took: it may never end well.
    Tainted,
    Over,
}

/// What an end has shown of itself at the gateway.
#[derive(Clone, Copy, Debug)]
struct Shown {
    next: Seq,
    edge: Seq,
    recent: u32,
}

struct World<'s, M> {
    terms: Terms,
    script: Script<'s>,
    gateway: M,
    /// It never sees what the ends refuse.
    twin: M,
    sender: Sender,
    receiver: Receiver,
    now: Instant,
    /// From the sender to the gateway.
    wired: VecDeque<(Pkt, Coming)>,
    /// From the receiver to the gateway.
    up: VecDeque<Pkt>,
    receiver_shown: Shown,
    /// The timestamp that the sender has echoed at the gateway.
    sender_recent: u32,
    /// The latest timestamp of the sender, or of a stranger whom the receiver would believe.
    latest: u32,
    /// The end of the window as the receiver granted it.
    granted: Seq,
    /// The end of the sender's window, as the receiver may have been told it: where a stranger grants more, in a packet that the
    /// receiver takes, it may send more.
    granted_up: Seq,
    /// The highest number that the sender has seen from the receiver. A stranger's acknowledgment that it takes may be ahead of what
    /// was sent: for all that a gateway can know, the bytes before it were lost.
    claimed: Seq,
    /// The sender's latest timestamp at the gateway, which believes no echo of a later one: a stranger's packet that a receiver takes
    /// only in part is not believed.
    newest: u32,
    /// The end of what the gateway has seen from the sender.
    sent_down: Seq,
    /// The same with what a stranger put into the window.
    claimed_down: Seq,
    /// Strangers' bytes that the receiver would take.
    excused: Vec<(Seq, Seq)>,
    /// How many of the packets are drawn, and what is left of the draw.
    losses: u8,
    strangers: bool,
    demand: Demand,
    bits: u8,
    lossless: bool,
    fate: Fate,
}

/// Whether what happens is to be printed: where `LASTHOP_TRACE` is set.
fn is_traced() -> bool {
    static TRACED: OnceLock<bool> = OnceLock::new();
    *TRACED.get_or_init(|| std::env::var_os("LASTHOP_TRACE").is_some())
}

/// A segment in a trace, its numbers counted from the first bytes of both streams.
fn line(segment: &Segment, len: u32) -> String {
    let Segment { seq, ack, window, flags, options } = segment;
    let from = |at: &Seq, first: Seq| at.0.wrapping_sub(first.0.wrapping_add(1)) as i32;
    let sender = |at| from(at, SENDER_ISS);
    let receiver = |at| from(at, RECEIVER_ISS);
    let times = options.timestamps.map(|times| (times.val, times.ecr));
    let (down, up) = ((sender(seq), receiver(ack)), (receiver(seq), sender(ack)));
    let blocks: Vec<_> =
        options.sack.as_slice().iter().map(|block| (sender(&block.left), sender(&block.right))).collect();
    format!("down {down:?} up {up:?} len {len} flags {:#x} window {window} times {times:?} sack {blocks:?}", flags.0)
}

fn brief(passed: &Passed) -> String {
    match passed {
        Passed::Unchanged => "passes".to_owned(),
        Passed::No => "does not pass".to_owned(),
        Passed::As(sent) => format!("passes as {}", line(&sent.segment, sent.len)),
    }
}

/// Whether what the gateway sends is a piece of the packet that came just now, which it may not pass as a whole: then it is still
/// the work of who wrote that.
fn is_piece(sent: &Sent, packet: &Pkt, port: Port) -> bool {
    let (first, end) = (sent.segment.seq, sent.segment.seq + sent.len);
    let segment = Segment { seq: packet.segment.seq, flags: packet.segment.flags, ..sent.segment };
    let same = match &sent.odd {
        None => packet.content == Content::Genuine,
        Some(odd) => odd.iter().zip(0..).all(|(&is, at)| is == super::ends::byte((first + at).0, packet.content)),
    };
    let within = first.ge(packet.segment.seq) && end.le(packet.end());
    sent.towards != port && sent.len > 0 && within && segment == packet.segment && same
}

/// Whether an end takes no timestamp that the other one can send.
fn is_ahead(end: Bounds, clock: u32) -> bool {
    end.recent.is_some_and(|recent| Seq(recent).gt(Seq(clock)))
}

/// Runs a script. Panics where something does not hold.
pub fn run<M: Middle>(bytes: &[u8], demand: Demand) {
    let mut script = Script::new(bytes);
    let (how, size) = (script.byte(), script.byte());
    let mss = if size & 1 == 0 { 16 } else { 300 };
    let terms = Terms {
        mss,
        timestamps: how & 1 == 0,
        sack: how & 2 == 0,
        scale: (size >> 2) % 4,
        buffer: mss * (4 + u32::from(size >> 4)),
    };
    let setup = Setup {
        flow_control: how & 4 == 0,
        detection: if how & 8 == 0 { LocalDetection::Smart } else { LocalDetection::DuplicateAcks },
        tight: how & 0x30 == 0x30,
    };
    let (sender, receiver) = (Sender::new(terms), Receiver::new(terms));
    let receiver_shown = Shown { next: receiver.next, edge: receiver.edge, recent: SENDER_CLOCK };
    let mut world = World::<M> {
        terms,
        gateway: M::new(setup),
        twin: M::new(setup),
        granted: receiver.edge,
        granted_up: sender.bounds().edge,
        claimed: RECEIVER_ISS + 1,
        newest: SENDER_CLOCK,
        sent_down: SENDER_ISS + 1,
        claimed_down: SENDER_ISS + 1,
        sender,
        receiver,
        script,
        now: Instant::ZERO,
        wired: VecDeque::new(),
        up: VecDeque::new(),
        receiver_shown,
        sender_recent: RECEIVER_CLOCK,
        latest: SENDER_CLOCK,
        excused: Vec::new(),
        losses: 1,
        strangers: how & 0x40 == 0,
        demand,
        bits: 0,
        lossless: false,
        fate: Fate::Whole,
    };
    for (from_sender, packet) in handshake(terms) {
        let port = if from_sender { Port::WIRED } else { Port::WIRELESS };
        world.pass_only(packet, port);
    }
    for _ in 0..TURNS {
        if world.script.is_over() || world.fate == Fate::Over {
            break;
        }
        world.turn();
    }
    world.finish();
}

impl<M: Middle> World<'_, M> {
    fn turn(&mut self) {
        let act = self.script.byte();
        let rest = act >> 4;
        match act & 0xf {
            0..=2 => {
                for _ in 0..=rest & 3 {
                    let merged = if rest & 4 != 0 { 3 } else { 1 };
                    let Some(packet) = self.sender.next_data(merged) else { break };
                    let coming = Coming { merged: self.merged(packet.len), ..Coming::default() };
                    self.put_wired(packet, coming);
                }
                self.flow(rest & 8 == 0, rest & 8 == 0);
            }
            3 => {
                // Sent again.
                let skip = u32::from(rest & 7) * self.terms.mss;
                let at = self.sender.oldest + skip;
                let len = self.sender.next.since(at).min(self.terms.mss);
                if len > 0 {
                    self.put_wired(self.sender.data(at, len), Coming::default());
                }
                self.flow(rest & 8 == 0, false);
            }
            4 => self.flow(true, true),
            5 => self.flow(false, true),
            6 => _ = self.up.pop_front(),
            7 => self.advance(Duration::from_millis(u64::from(rest) * 7 + 1)),
            8 => self.advance(Duration::from_millis(u64::from(rest) * 150 + 50)),
            9..=11 if !self.strangers => {}
            9 => self.forge_down(),
            10 => self.forge_up(),
            11 => self.forge_astray(),
            12 => self.damage(rest),
            13 => {
                if rest & 1 == 0 && self.wired.len() > 1 {
                    self.wired.swap(0, 1);
                } else if let Some(&copy) = self.wired.front() {
                    self.wired.push_back(copy);
                }
            }
            14 => {
                self.receiver.reads = rest & 1 == 0;
                self.acknowledge();
            }
            _ => {
                // A probe, or an acknowledgment.
                let at = if rest & 1 == 0 { self.sender.next - 1 } else { self.sender.next };
                self.put_wired(self.sender.data(at, 0), Coming::default());
                self.flow(true, false);
            }
        }
    }

    fn merged(&self, len: u32) -> Option<u32> {
        (len > self.terms.mss).then_some(self.terms.mss)
    }

    fn put_wired(&mut self, packet: Pkt, coming: Coming) {
        if self.wired.len() < UNDER_WAY {
            self.wired.push_back((packet, coming));
        }
    }

    fn put_up(&mut self, packet: Pkt) {
        if self.up.len() < UNDER_WAY {
            self.up.push_back(packet);
        }
    }

    /// The receiver says what it has.
    fn acknowledge(&mut self) {
        let packet = self.receiver.acknowledgment();
        let edge = packet.segment.ack + (u32::from(packet.segment.window) << self.terms.scale);
        self.granted = self.granted.max(edge);
        self.put_up(packet);
    }

    /// What is on its way to the gateway comes there.
    fn flow(&mut self, wired: bool, up: bool) {
        for _ in 0..2 * UNDER_WAY {
            let (next, back) = (wired && !self.wired.is_empty(), up && !self.up.is_empty());
            if !next && !back || self.fate == Fate::Over {
                break;
            }
            if next && let Some((packet, coming)) = self.wired.pop_front() {
                self.pass_down(packet, coming);
            }
            if back && let Some(packet) = self.up.pop_front() {
                self.pass_up(packet);
            }
        }
    }

    /// The sender's packet comes to the gateway.
    fn pass_down(&mut self, packet: Pkt, coming: Coming) {
        if let Some(times) = packet.segment.options.timestamps {
            self.latest = Seq(self.latest).max(Seq(times.val)).0;
            self.newest = Seq(self.newest).max(Seq(times.val)).0;
            self.sender_recent = Seq(self.sender_recent).max(Seq(times.ecr)).0;
        }
        self.sent_down = self.sent_down.max(packet.end());
        self.claimed_down = self.claimed_down.max(packet.end());
        if is_ahead(self.receiver.bounds(), self.sender.clock) {
            // A stranger has moved the receiver's clock ahead: it refuses all that the sender sends.
            self.fate = Fate::Over;
            return;
        }
        self.give(packet, Port::WIRED, coming, Seen::Both, Content::Genuine);
    }

    /// The receiver's packet comes to the gateway.
    fn pass_up(&mut self, packet: Pkt) {
        let edge = packet.segment.ack + (u32::from(packet.segment.window) << self.terms.scale);
        let shown = &mut self.receiver_shown;
        (shown.next, shown.edge) = (shown.next.max(packet.segment.ack), shown.edge.max(edge));
        if let Some(times) = packet.segment.options.timestamps
            && Seq(times.ecr).le(Seq(self.newest))
        {
            shown.recent = times.ecr;
        }
        if is_ahead(self.sender.bounds(), self.receiver.clock) {
            self.fate = Fate::Over;
            return;
        }
        self.give(packet, Port::WIRELESS, Coming::default(), Seen::Both, Content::Genuine);
    }

    /// A packet of the opening, which is not lost and has no answer here.
    fn pass_only(&mut self, packet: Pkt, port: Port) {
        let Some(packet) = M::packet(&packet, port, Coming::default()) else { return };
        let said = self.gateway.take(self.now, port, &packet);
        assert_eq!(said, self.twin.take(self.now, port, &packet));
        // The last may grant less than the receiver does.
        let (passed, sent) = M::read(&said);
        assert!(passed != Passed::No && sent.is_empty(), "openings pass: {said:?}");
    }

    /// A packet comes to the gateway, and goes on from there.
    fn give(&mut self, packet: Pkt, port: Port, coming: Coming, seen: Seen, author: Content) {
        let Some(made) = M::packet(&packet, port, coming) else { return };
        let said = self.gateway.take(self.now, port, &made);
        let (passed, sent) = M::read(&said);
        if is_traced() {
            let whose = if author == Content::Forged { "stranger" } else { "end" };
            eprintln!("{} {whose}, by {port:?}, {seen:?}: {} {coming:?}", self.now, line(&packet.segment, packet.len));
            eprintln!("    {} and {}", brief(&passed), sent.len());
        }
        match seen {
            Seen::Both => {
                let twin = self.twin.take(self.now, port, &made);
                self.same(&said, &twin, packet);
            }
            Seen::One if self.demand == Demand::Outcome => {}
            Seen::One => {
                assert_eq!(
                    (&passed, &sent[..]),
                    (&Passed::Unchanged, &[][..]),
                    "it is refused, and passes: {packet:?}"
                );
            }
        }
        self.same(&self.gateway.deadline(), &self.twin.deadline(), packet);
        match passed {
            Passed::Unchanged if coming.flips.is_some() || coming.astray => {}
            Passed::Unchanged => self.arrive(&packet, port, coming.merged, author),
            Passed::No => {}
            // What a stranger wrote stays what he wrote.
            Passed::As(_) if seen == Seen::One => self.arrive(&packet, port, coming.merged, author),
            Passed::As(sent) => {
                assert_eq!(
                    (sent.segment.seq, sent.segment.ack, sent.len),
                    (packet.segment.seq, packet.segment.ack, packet.len)
                );
                self.sent(sent);
            }
        }
        for sent in sent {
            if author == Content::Forged && is_piece(&sent, &packet, port) {
                let Sent { segment, len, .. } = sent;
                self.arrive(&Pkt { segment, len, ..packet }, port, None, author);
            } else {
                self.sent(sent);
            }
        }
    }

    /// What strangers did changes nothing.
    fn same<T: PartialEq + Debug>(&self, gateway: &T, twin: &T, after: impl Debug) {
        assert!(
            self.demand == Demand::Outcome || gateway == twin,
            "after {after:?}: {gateway:?}, without strangers {twin:?}"
        );
    }

    /// The gateway sends something.
    fn sent(&mut self, sent: Sent) {
        if is_traced() {
            eprintln!("{} gateway to {:?}: {}", self.now, sent.towards, line(&sent.segment, sent.len));
        }
        let Segment { seq, ack, window, flags, options } = sent.segment;
        let special = Flags(Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0);
        assert!(flags.0 & special.0 == 0, "nobody but the ends opens, ends or resets: {sent:?}");
        if sent.towards == Port::WIRELESS {
            if let Some(times) = options.timestamps {
                assert!(Seq(times.val).le(Seq(self.latest)), "later than the sender's clock: {sent:?}");
            }
            for at in 0..sent.len {
                let at = seq + at;
                let forged = sent
                    .odd
                    .as_ref()
                    .is_some_and(|odd| odd[at.since(seq) as usize] != super::ends::byte(at.0, Content::Genuine));
                let known = if forged { false } else { at.gt(SENDER_ISS) && at.lt(self.sender.next) };
                let excused = || self.excused.iter().any(|&(from, to)| at.ge(from) && at.lt(to));
                assert!(known || excused(), "the sender's byte {at} is another, or was never sent: {sent:?}");
            }
            // Bytes of a stranger are told from the sender's by where they are.
            let content = if sent.odd.is_some() { Content::Forged } else { Content::Genuine };
            // So is a stranger's clock that the receiver would believe.
            let ahead = options.timestamps.is_some_and(|times| Seq(times.val).gt(Seq(self.sender.clock)));
            let author = if ahead { Content::Forged } else { content };
            let packet = Pkt { segment: sent.segment, len: sent.len, content, odd: false };
            self.arrive(&packet, Port::WIRED, None, author);
        } else {
            assert!(ack.le(self.receiver.next), "acknowledges what the receiver does not have: {sent:?}");
            let edge = ack + (u32::from(window) << self.terms.scale);
            assert!(edge.le(self.granted), "grants what the receiver does not: {sent:?}");
            assert!(sent.len == 0, "the receiver sends no data: {sent:?}");
            self.arrive(&Pkt::bare(sent.segment), Port::WIRELESS, None, Content::Genuine);
        }
    }

    /// A packet that came in at `port` comes to the other end, or is lost on the hop.
    fn arrive(&mut self, packet: &Pkt, port: Port, merged: Option<u32>, author: Content) {
        if port == Port::WIRELESS {
            let reaction = self.sender.take(packet);
            self.react_sender(reaction);
            return;
        }
        let most = merged.unwrap_or(packet.len).max(1);
        let mut at = 0;
        loop {
            let len = most.min(packet.len - at);
            let mut piece = Pkt { len, ..*packet };
            piece.segment.seq += at;
            at += len;
            if !self.is_lost() {
                if author == Content::Forged && self.receiver.bounds().judge(&piece, SENDER_ISS + 1) == Judgement::Taken
                {
                    self.fate = Fate::Tainted;
                }
                let reaction = self.receiver.take(&piece);
                if reaction == Reaction::Broken || self.receiver.next.gt(self.sender.next) {
                    self.fate = Fate::Over;
                }
                if reaction == Reaction::Acknowledge {
                    self.acknowledge();
                }
            }
            if at >= packet.len {
                break;
            }
        }
    }

    fn react_sender(&mut self, reaction: Reaction) {
        match reaction {
            Reaction::Silence => {}
            Reaction::Acknowledge => self.put_wired(self.sender.data(self.sender.next, 0), Coming::default()),
            Reaction::Broken => self.fate = Fate::Over,
        }
    }

    fn is_lost(&mut self) -> bool {
        if self.lossless {
            return false;
        }
        // Two bits a packet, a byte of the script for four.
        if self.losses <= 1 {
            self.losses = 0b1_0000;
            let byte = self.script.byte();
            self.bits = byte;
        }
        self.losses >>= 1;
        let lost = self.bits & 3 == 1;
        self.bits >>= 2;
        lost
    }

    fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        for turn in 0.. {
            assert!(turn < MOST_TIMERS, "a gateway that wakes without end");
            let at = self.gateway.deadline().filter(|&at| at <= until);
            self.now = at.unwrap_or(until);
            let said = self.gateway.wake(self.now);
            let twin = self.twin.wake(self.now);
            self.same(&said, &twin, "a timer");
            self.same(&self.gateway.deadline(), &self.twin.deadline(), "a timer");
            let (_, sent) = M::read(&said);
            sent.into_iter().for_each(|sent| self.sent(sent));
            if at.is_none() {
                break;
            }
        }
        let millis = (self.now.as_nanos() / 1_000_000) as u32;
        self.sender.clock = SENDER_CLOCK.wrapping_add(millis);
        self.receiver.clock = RECEIVER_CLOCK.wrapping_add(millis);
    }

    /// What a stranger writes into a packet towards the end that waits for `seq` and `ack`.
    fn forged(&mut self, seqs: [Seq; 4], ack: Seq, clocks: [u32; 2]) -> Pkt {
        let (kind, shape) = (self.script.byte(), self.script.byte());
        let flags = match kind & 0xf {
            0 => Flags::RST,
            1 => Flags::RST.with(Flags::ACK),
            2 => Flags::SYN,
            3 => Flags::SYN.with(Flags::ACK),
            4 => Flags::FIN.with(Flags::ACK),
            5 => Flags(self.script.byte() & 0x1f),
            _ => Flags::ACK,
        };
        let seq = Seq(self.script.near(seqs[usize::from(kind >> 4 & 3)].0, self.terms.mss));
        let ack = Seq(self.script.near(ack.0, self.terms.mss));
        let len = match shape & 3 {
            0 => 0,
            1 => self.terms.mss,
            2 => u32::from(self.script.byte()) + 1,
            _ => 3 * self.terms.mss,
        };
        let mut options = Options::default();
        if self.terms.timestamps != (shape & 0x1c == 0x1c) {
            options.timestamps =
                Some(Timestamps { val: self.script.near(clocks[0], 1000), ecr: self.script.near(clocks[1], 1000) });
        }
        if shape & 0x60 == 0x60 {
            let left = Seq(self.script.near(ack.0, self.terms.mss));
            options.sack.push(SackBlock { left, right: Seq(self.script.near(left.0, self.terms.mss)) });
        }
        let window = if kind & 0x40 == 0 { 500 } else { self.script.word() as u16 };
        let segment = Segment { seq, ack, window, flags, options };
        let content = if kind & 0x80 == 0 { Content::Forged } else { Content::Genuine };
        Pkt { segment, len, content, odd: shape & 0x80 != 0 }
    }

    /// A stranger behind the wire writes to the receiver.
    fn forge_down(&mut self) {
        let seqs = [self.receiver.next, self.receiver.edge, self.sender.next, self.sender.oldest];
        let packet = self.forged(seqs, RECEIVER_ISS + 1, [self.sender.clock, self.receiver.clock]);
        let shown = self.receiver_shown;
        let bounds = Bounds {
            next: (shown.next, self.receiver.next),
            // A stranger on the hop may have granted more than the receiver, in an acknowledgment that the sender takes.
            edge: shown.edge.max(self.receiver.edge).max(self.granted),
            sent: self.claimed_down,
            recent: self.terms.timestamps.then_some(shown.recent),
            acks: (self.receiver.bounds().acks.0, self.claimed),
        };
        // What the gateway believes to be sent ends with the sender's bytes or with any of these.
        let last = |at: Seq| at == self.sent_down || self.excused.iter().any(|&(_, end)| end == at);
        let seen = match bounds.judge(&packet, SENDER_ISS + 1) {
            Judgement::Reset => return self.fate = Fate::Over,
            Judgement::Refused if packet.segment.flags.has(Flags::RST) && last(packet.segment.seq) => {
                return self.fate = Fate::Over;
            }
            // It acknowledges what another stranger claimed to be the receiver's: the gateway refuses the receiver's own then.
            Judgement::Taken | Judgement::Old if packet.segment.ack.gt(RECEIVER_ISS + 1) => {
                return self.fate = Fate::Over;
            }
            Judgement::Taken if packet.segment.flags.has(Flags::FIN) => return self.fate = Fate::Over,
            Judgement::Taken => {
                self.excused.push((packet.segment.seq, packet.end()));
                let Segment { ack, window, .. } = packet.segment;
                self.claimed_down = self.claimed_down.max(packet.end());
                self.granted_up = self.granted_up.max(ack + (u32::from(window) << self.terms.scale));
                if let Some(times) = packet.segment.options.timestamps {
                    self.latest = Seq(self.latest).max(Seq(times.val)).0;
                }
                Seen::Both
            }
            Judgement::Old => Seen::Both,
            Judgement::Refused => Seen::One,
        };
        self.give(packet, Port::WIRED, Coming::default(), seen, Content::Forged);
    }

    /// A stranger on the hop writes to the sender.
    fn forge_up(&mut self) {
        let own = RECEIVER_ISS + 1;
        let seqs = [own, own + 1, own - 1, own + self.terms.buffer];
        let packet = self.forged(seqs, self.receiver.next, [self.receiver.clock, self.sender.clock]);
        let own_bounds = self.sender.bounds();
        let bounds = Bounds {
            edge: self.granted_up,
            recent: self.terms.timestamps.then_some(self.sender_recent),
            sent: self.claimed,
            acks: (own_bounds.acks.0, own_bounds.acks.1.max(self.claimed_down)),
            ..own_bounds
        };
        let seen = match bounds.judge(&packet, own) {
            Judgement::Reset => return self.fate = Fate::Over,
            Judgement::Taken => {
                let Segment { seq, ack, window, options, .. } = packet.segment;
                if packet.end() != packet.segment.seq || ack.gt(self.receiver.next) {
                    return self.fate = Fate::Over;
                }
                self.granted = self.granted.max(ack + (u32::from(window) << self.terms.scale));
                self.claimed = self.claimed.max(seq);
                let late = options.timestamps.is_some_and(|times| Seq(times.val).gt(Seq(self.receiver.clock)));
                if late || !options.sack.is_empty() {
                    self.fate = Fate::Tainted;
                }
                Seen::Both
            }
            Judgement::Old => Seen::Both,
            Judgement::Refused => Seen::One,
        };
        self.give(packet, Port::WIRELESS, Coming::default(), seen, Content::Forged);
    }

    /// A stranger on one side takes the address of the end on the other side.
    fn forge_astray(&mut self) {
        let port = if self.script.byte() & 1 == 0 { Port::WIRED } else { Port::WIRELESS };
        let own = RECEIVER_ISS + 1;
        let packet = if port == Port::WIRED {
            self.forged([own, own + 1, own - 1, own], self.receiver.next, [self.receiver.clock, self.sender.clock])
        } else {
            let seqs = [self.receiver.next, self.receiver.edge, self.sender.next, self.sender.oldest];
            self.forged(seqs, own, [self.sender.clock, self.receiver.clock])
        };
        self.give(packet, port, Coming { astray: true, ..Coming::default() }, Seen::One, Content::Forged);
    }

    /// A packet that is on its way, or a copy of it, is damaged.
    fn damage(&mut self, rest: u8) {
        let flips = [self.script.word() as u16, self.script.word() as u16];
        let flips = if rest & 1 == 0 { [flips[0]; 2] } else { flips };
        // Twice the same bit is no damage.
        let flips = if flips[0] == flips[1] { [flips[0], flips[0] ^ 0x1f8] } else { flips };
        let down = rest & 2 == 0;
        let packet = if down { self.wired.front().map(|&(packet, _)| packet) } else { self.up.front().copied() };
        let port = if down { Port::WIRED } else { Port::WIRELESS };
        let own =
            if down { self.sender.data(self.sender.oldest, self.terms.mss) } else { self.receiver.acknowledgment() };
        let coming = Coming { flips: Some(flips), ..Coming::default() };
        self.give(packet.unwrap_or(own), port, coming, Seen::One, Content::Genuine);
        if rest & 4 != 0 {
            // It was that one.
            if down {
                self.wired.pop_front();
            } else {
                self.up.pop_front();
            }
        }
    }

    /// Losses cease: all that the sender sent arrives.
    fn finish(&mut self) {
        if self.fate == Fate::Over {
            return;
        }
        (self.lossless, self.receiver.reads) = (true, true);
        self.acknowledge();
        for _ in 0..ROUNDS {
            self.flow(true, true);
            if self.fate == Fate::Over || self.sender.oldest == self.sender.next {
                break;
            }
            let mut at = self.sender.oldest;
            while at.lt(self.sender.next) {
                let len = self.sender.next.since(at).min(self.terms.mss);
                self.put_wired(self.sender.data(at, len), Coming::default());
                self.flow(true, false);
                at += len;
            }
            self.flow(true, true);
            self.advance(PATIENCE);
        }
        if self.fate == Fate::Whole {
            let (had, sent) = (self.receiver.next, self.sender.next);
            assert!(had == sent, "without losses the receiver still waits for {had} of {sent}");
            assert!(self.sender.oldest == sent, "without losses the sender still waits from {} on", self.sender.oldest);
        }
        if self.fate != Fate::Over {
            let (tally, twin) = (self.gateway.tally(), self.twin.tally());
            self.same(&tally, &twin, "the end: what is held and was done");
        }
    }
}
