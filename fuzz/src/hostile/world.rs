//! Executes scripts of events between the ends, and checks the invariants.

mod gateway;
mod strangers;
mod trace;

use std::collections::VecDeque;

use lasthop_proto::node::Port;
use lasthop_proto::scheme::LocalDetection;
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};

use super::ends::{
    Bounds, Content, Judgement, Pkt, RECEIVER_CLOCK, RECEIVER_ISS, Reaction, Receiver, SENDER_CLOCK, SENDER_ISS,
    SENDER_WINDOW, Sender, Terms, handshake,
};
use super::middle::{Coming, Middle, Passed, Setup};
use super::script::Script;

/// Maximum number of turns of a script.
const TURNS: usize = 150;
/// Maximum number of packets in flight in each direction.
const UNDER_WAY: usize = 40;
/// Number of times that the sender retransmits everything outstanding, without losses, before more must be
/// acknowledged. An attacker may have let it send many windows of data.
const ROUNDS: usize = 12;
/// Time between two such retransmissions.
const PATIENCE: Duration = Duration::from_millis(1_200);
/// Maximum number of timers in one span of time, which no gateway should exceed.
const MOST_TIMERS: usize = 5_000;

/// Invariants to check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// All invariants.
    All,
    /// Only the outcome at the ends. Other changes by attackers are not checked, to show their effects on the outcome.
    Outcome,
}

/// Gateways that see a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Both,
    /// Only the gateway: its twin does not see packets that the destination refuses.
    One,
}

/// State of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Whole,
    /// Ended by an attacker, who may also have injected a packet that would break it without a gateway.
    Over,
}

/// State that an end has shown to the gateway.
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
    /// Second gateway, which never sees packets that the ends refuse.
    twin: M,
    sender: Sender,
    receiver: Receiver,
    now: Instant,
    /// Packets in flight from the sender to the gateway.
    wired: VecDeque<(Pkt, Coming)>,
    /// Packets in flight from the receiver to the gateway.
    up: VecDeque<Pkt>,
    receiver_shown: Shown,
    /// Timestamp that the sender has echoed in packets seen by the gateway.
    sender_recent: u32,
    /// Latest of `sender_recent` and the timestamps that attackers echoed and the receiver would accept. The receiver
    /// may have echoed them in a packet that took another path.
    claimed_recent: u32,
    /// Attackers' timestamps that the receiver would accept, and echoes of earlier ones.
    stamps: Vec<u32>,
    /// Right edge of the window granted by the receiver.
    granted: Seq,
    /// Right edge of the sender's window that the receiver may have announced. If an attacker announces more, in a
    /// packet that the receiver accepts, the sender may send more.
    granted_up: Seq,
    /// Right edge of the sender's window as shown to the gateway. The window in a SYN is not scaled (RFC 7323 §2.2).
    sender_edge: Seq,
    /// Highest number that the sender has seen from the receiver. An attacker's acknowledgment that the sender accepts
    /// may be ahead of the data sent: as far as a gateway can know, the bytes before it were lost.
    claimed: Seq,
    /// Sender's latest timestamp seen by the gateway, which accepts no echo of a later one. The timestamp of an
    /// attacker's packet that a receiver accepts only in part does not count.
    newest: u32,
    /// Receiver's latest timestamp seen by the gateway.
    receiver_newest: u32,
    /// End of the sequence space that the gateway has seen from the sender.
    sent_down: Seq,
    /// End of the data bytes in it.
    carried_down: Seq,
    /// End of all data that the gateway has seen, including an attacker's bytes in the window.
    claimed_down: Seq,
    /// Attackers' bytes that the receiver would accept.
    excused: Vec<(Seq, Seq)>,
    /// Share of packets that are lost; `bits` holds the remaining random bits.
    losses: u8,
    strangers: bool,
    demand: Demand,
    bits: u8,
    lossless: bool,
    fate: Fate,
}

/// Returns whether an end accepts no timestamp that the other one can send.
fn is_ahead(end: Bounds, clock: u32) -> bool {
    end.recent.is_some_and(|(_, recent)| Seq(recent).gt(Seq(clock)))
}

/// Runs a script. Panics if an invariant is violated.
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
        sender_edge: RECEIVER_ISS + 1 + u32::from(SENDER_WINDOW),
        claimed: RECEIVER_ISS + 1,
        newest: SENDER_CLOCK,
        receiver_newest: RECEIVER_CLOCK,
        sent_down: SENDER_ISS + 1,
        carried_down: SENDER_ISS + 1,
        claimed_down: SENDER_ISS + 1,
        sender,
        receiver,
        script,
        now: Instant::ZERO,
        wired: VecDeque::new(),
        up: VecDeque::new(),
        receiver_shown,
        sender_recent: RECEIVER_CLOCK,
        claimed_recent: RECEIVER_CLOCK,
        stamps: Vec::new(),
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
                // A retransmission.
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

    /// Sends the receiver's acknowledgment.
    fn acknowledge(&mut self) {
        let packet = self.receiver.acknowledgment();
        let edge = packet.segment.ack + (u32::from(packet.segment.window) << self.terms.scale);
        self.granted = self.granted.max(edge);
        self.put_up(packet);
    }

    /// Delivers the packets in flight to the gateway.
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

    /// Passes the sender's packet to the gateway.
    fn pass_down(&mut self, packet: Pkt, coming: Coming) {
        if let Some(times) = packet.segment.options.timestamps {
            // A gateway cannot know the author of a packet that the receiver refuses, such as a keepalive.
            if self.is_sure(&packet) {
                self.newest = Seq(self.newest).max(Seq(times.val)).0;
                // An echo of a timestamp that no end is known to have sent is not accepted either. It came in an
                // attacker's packet that the sender accepted, and that a gateway did not see or refused.
                if !Seq(times.ecr).gt(Seq(self.receiver_newest)) {
                    self.sender_recent = Seq(self.sender_recent).max(Seq(times.ecr)).0;
                }
            }
        }
        if self.is_sure(&packet) {
            self.sender_edge = self.sender.bounds().edge;
        }
        self.sent_down = self.sent_down.max(packet.end());
        if packet.end() != packet.segment.seq {
            self.carried_down = self.carried_down.max(packet.end());
        }
        self.claimed_down = self.claimed_down.max(packet.end());
        if is_ahead(self.receiver.bounds(), self.sender.clock) {
            // An attacker has advanced the receiver's clock: the receiver refuses all of the sender's packets.
            self.fate = Fate::Over;
            return;
        }
        self.give(packet, Port::WIRED, coming, Seen::Both, Content::Genuine);
    }

    /// Returns whether the receiver accepts a whole packet in the state that it has shown to the gateway.
    fn is_sure(&self, packet: &Pkt) -> bool {
        let Shown { next, edge, recent } = self.receiver_shown;
        let recent = self.terms.timestamps.then_some((recent, recent));
        let bounds = Bounds { next: (next, next), edge, recent, ..self.receiver.bounds() };
        let inside = packet.segment.seq.lt(edge) && packet.end().le(edge);
        inside && bounds.judge(packet, SENDER_ISS + 1) == Judgement::Taken
    }

    /// Passes the receiver's packet to the gateway.
    fn pass_up(&mut self, packet: Pkt) {
        let edge = packet.segment.ack + (u32::from(packet.segment.window) << self.terms.scale);
        let shown = &mut self.receiver_shown;
        (shown.next, shown.edge) = (shown.next.max(packet.segment.ack), shown.edge.max(edge));
        if let Some(times) = packet.segment.options.timestamps {
            self.receiver_newest = Seq(self.receiver_newest).max(Seq(times.val)).0;
            if !Seq(times.ecr).gt(Seq(self.newest)) {
                shown.recent = times.ecr;
            }
        }
        if is_ahead(self.sender.bounds(), self.receiver.clock) {
            self.fate = Fate::Over;
            return;
        }
        self.give(packet, Port::WIRELESS, Coming::default(), Seen::Both, Content::Genuine);
    }

    /// Passes a packet of the handshake, which is not lost and is not answered here.
    fn pass_only(&mut self, packet: Pkt, port: Port) {
        let Some(packet) = M::packet(&packet, port, Coming::default()) else { return };
        let said = self.gateway.take(self.now, port, &packet);
        assert_eq!(said, self.twin.take(self.now, port, &packet));
        // The last packet may grant less than the receiver does.
        let (passed, sent) = M::read(&said);
        assert!(passed != Passed::No && sent.is_empty(), "a packet of the handshake does not pass: {said:?}");
    }

    fn react_sender(&mut self, reaction: Reaction) {
        match reaction {
            Reaction::Silence => {}
            Reaction::Acknowledge => self.put_wired(self.sender.data(self.sender.next, 0), Coming::default()),
            Reaction::Broken => self.fate = Fate::Over,
        }
    }

    fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        for turn in 0.. {
            assert!(turn < MOST_TIMERS, "the gateway sets deadlines without end");
            let at = self.gateway.poll_deadline().filter(|&at| at <= until);
            self.now = at.unwrap_or(until);
            let said = self.gateway.wake(self.now);
            let twin = self.twin.wake(self.now);
            self.same(&said, &twin, "a timer");
            self.same(&self.gateway.poll_deadline(), &self.twin.poll_deadline(), "a timer");
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

    /// Ends losses. All data that the sender sent must arrive.
    fn finish(&mut self) {
        if self.fate == Fate::Over {
            return;
        }
        (self.lossless, self.receiver.reads) = (true, true);
        self.acknowledge();
        let (mut rounds, mut oldest) = (0, self.sender.oldest);
        while rounds < ROUNDS {
            self.flow(true, true);
            if self.fate == Fate::Over || self.sender.oldest == self.sender.next {
                break;
            }
            rounds = if self.sender.oldest == oldest { rounds + 1 } else { 0 };
            oldest = self.sender.oldest;
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
        if self.fate == Fate::Over {
            return;
        }
        let (had, sent) = (self.receiver.next, self.sender.next);
        assert!(had == sent, "the receiver lacks data after losses ended: it has {had} of {sent}");
        assert!(self.sender.oldest == sent, "unacknowledged data after losses ended, from {}", self.sender.oldest);
        let (tally, twin) = (self.gateway.tally(), self.twin.tally());
        self.same(&tally, &twin, "the end: what is held and was done");
    }
}
