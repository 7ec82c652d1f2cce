//! Two TCP endpoints joined by a path that loses, delays, repeats or damages what it is told to.
//!
//! A [`Pair`] reads like prose: `Pair::of(config).lose(&[(5, 1)])`, then `pair.send_segments(20)`, `pair.finish()`, and
//! `pair.story()` tells which segments left the client when, and why.
#![allow(dead_code)]

pub mod bridge;
pub mod golden;

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_proto::event::Event;
use lasthop_proto::node::{Node, Output, Port, pump};
use lasthop_proto::packet::{Body, Cause, Ecn, Flags, FlowId, Integrity, LinkHeaders, Options, Packet, Segment, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Setup, State, TickPhase};
use lasthop_proto::time::{Duration, Instant};

/// More steps than any of these tests needs: what takes longer hangs.
const MAX_STEPS: u32 = 400_000;

/// Milliseconds since the start.
pub fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A span of milliseconds.
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What the lossy hop does to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Arrive,
    Lose,
    /// Corrupted, headers intact.
    Damage,
    /// Marked by a queue, if it takes marks (RFC 3168 §5).
    Mark,
    /// Arrives so much later than it should.
    Late(Duration),
    /// Arrives twice.
    Twice,
}

/// A packet as an endpoint sent it, or as the middle sent it on.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Instant,
    pub from: Side,
    /// Whether the middle sent it (towards the lossy hop or away from it).
    pub by_middle: bool,
    /// Relative to the sender's initial sequence number: the SYN is 0, the first byte 1.
    pub seq: u32,
    /// Relative to the peer's initial sequence number.
    pub ack: u32,
    pub len: u32,
    pub cause: Cause,
    /// For a segment with payload: its number in the stream, from 1, by its first byte.
    pub number: u32,
    /// How many times that first byte was sent, this time included. For other packets, how many such (SYN, FIN, pure
    /// acknowledgment, reset) this end has sent.
    pub transmission: u32,
    pub segment: Segment,
    pub fate: Fate,
}

impl Sent {
    pub fn is(&self, flags: Flags) -> bool {
        self.segment.flags.has(flags)
    }

    /// An acknowledgment and nothing else.
    pub fn is_pure_ack(&self) -> bool {
        self.len == 0 && self.segment.flags == Flags::ACK
    }
}

/// Where a packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    End(Side),
    Middle(Port),
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
struct Lane {
    delay: Duration,
    /// Time to put a byte on the wire.
    per_byte: Duration,
    free: Instant,
}

impl Lane {
    fn arrival(&mut self, now: Instant, bytes: u32) -> Instant {
        self.free = self.free.max(now) + self.per_byte * u64::from(bytes);
        self.free + self.delay
    }
}

fn collect(out: &mut Vec<Output<()>>, output: Output<()>) {
    out.push(output);
    assert!(out.len() < 100_000, "no end of what a node has to say: {output:?}");
}

type Judge = Box<dyn FnMut(&Sent) -> Fate>;

/// Two connections and what lies between them.
pub struct Pair {
    pub now: Instant,
    /// The initiator and the acceptor.
    pub ends: [Connection; 2],
    pub configs: [Arc<TcpConfig>; 2],
    pub iss: [Seq; 2],
    pub middle: Option<Box<dyn Node<()>>>,
    /// Whether each application reads what arrives at once.
    pub reading: [bool; 2],
    /// Every packet that an end or the middle sent, in order.
    pub trace: Vec<Sent>,
    pub events: Vec<(Instant, Side, Event)>,
    /// Every packet that reached an end: when, its data range and whether it was intact.
    pub arrived: Vec<(Instant, Side, Packet)>,
    judge: Option<Judge>,
    data_fates: BTreeMap<(u32, u32), Fate>,
    ack_fates: BTreeMap<u32, Fate>,
    /// `lanes[hop][from]`: hop 0 is next to the initiator, hop 1 (only with a middle) next to the acceptor.
    lanes: [[Lane; 2]; 2],
    numbers: BTreeMap<(usize, u32), (u32, u32)>,
    kinds: BTreeMap<(usize, u16), u32>,
    queue: BTreeMap<(Instant, u64), (Place, Packet)>,
    order: u64,
}

impl Pair {
    /// Two hosts with the same keys, 50 ms apart, whose initial sequence numbers are 0.
    pub fn of(config: TcpConfig) -> Self {
        Self::between(config.clone(), config)
    }

    /// An initiator and an acceptor with keys of their own.
    pub fn between(client: TcpConfig, server: TcpConfig) -> Self {
        let configs = [Arc::new(client), Arc::new(server)];
        let lane = Lane { delay: millis(50), per_byte: Duration::ZERO, free: Instant::ZERO };
        let ends = [Side::Initiator, Side::Acceptor].map(|side| Self::end(side, &configs[side.index()], Seq(0)));
        Self {
            now: Instant::ZERO,
            ends,
            configs,
            iss: [Seq(0); 2],
            middle: None,
            reading: [true; 2],
            trace: Vec::new(),
            events: Vec::new(),
            arrived: Vec::new(),
            judge: None,
            data_fates: BTreeMap::new(),
            ack_fates: BTreeMap::new(),
            lanes: [[lane; 2]; 2],
            numbers: BTreeMap::new(),
            kinds: BTreeMap::new(),
            queue: BTreeMap::new(),
            order: 0,
        }
    }

    fn end(side: Side, config: &Arc<TcpConfig>, iss: Seq) -> Connection {
        let phase = TickPhase::default();
        Connection::new(Setup { flow: FlowId(1), side, config: config.clone(), iss, phase, watch: Switch::On })
    }

    /// Initial sequence numbers of the initiator and the acceptor.
    pub fn with_iss(mut self, client: u32, server: u32) -> Self {
        self.iss = [Seq(client), Seq(server)];
        self.ends = [Side::Initiator, Side::Acceptor]
            .map(|side| Self::end(side, &self.configs[side.index()], self.iss[side.index()]));
        self
    }

    /// The delay of each hop, one way.
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.lanes.iter_mut().flatten().for_each(|lane| lane.delay = delay);
        self
    }

    /// Packets take so long a byte to leave, each hop.
    pub fn with_time_per_byte(mut self, per_byte: Duration) -> Self {
        self.lanes.iter_mut().flatten().for_each(|lane| lane.per_byte = per_byte);
        self
    }

    /// A node in the middle; the lossy hop is the one beyond it.
    pub fn with_middle(mut self, middle: impl Node<()> + 'static) -> Self {
        self.middle = Some(Box::new(middle));
        self
    }

    /// Loses the given transmissions of data segments from the initiator, both counted from 1.
    pub fn lose(self, list: &[(u32, u32)]) -> Self {
        list.iter().fold(self, |pair, &(number, transmission)| pair.treat(number, transmission, Fate::Lose))
    }

    /// Damages them instead: their headers arrive intact.
    pub fn damage(self, list: &[(u32, u32)]) -> Self {
        list.iter().fold(self, |pair, &(number, transmission)| pair.treat(number, transmission, Fate::Damage))
    }

    /// What happens to one transmission of a data segment from the initiator.
    pub fn treat(mut self, number: u32, transmission: u32, fate: Fate) -> Self {
        self.data_fates.insert((number, transmission), fate);
        self
    }

    /// Loses pure acknowledgments from the acceptor, counted from 1.
    pub fn lose_acks(mut self, list: &[u32]) -> Self {
        self.ack_fates.extend(list.iter().map(|&number| (number, Fate::Lose)));
        self
    }

    /// Marks them instead.
    pub fn mark_acks(mut self, list: &[u32]) -> Self {
        self.ack_fates.extend(list.iter().map(|&number| (number, Fate::Mark)));
        self
    }

    /// Decides about every packet on the lossy hop that no list mentions.
    pub fn judged_by(mut self, judge: impl FnMut(&Sent) -> Fate + 'static) -> Self {
        self.judge = Some(Box::new(judge));
        self
    }

    pub fn client(&mut self) -> &mut Connection {
        &mut self.ends[0]
    }

    pub fn server(&mut self) -> &mut Connection {
        &mut self.ends[1]
    }

    pub fn states(&self) -> (State, State) {
        (self.ends[0].state(), self.ends[1].state())
    }

    /// The acceptor listens, the initiator connects, and the handshake runs to its end.
    pub fn connect(&mut self) {
        self.ends[1].listen();
        self.ends[0].connect();
        self.flush();
        let mut steps = 0;
        while self.states() != (State::Established, State::Established) {
            assert!(self.step(Instant::FAR_FUTURE), "nothing to wait for in {:?}", self.states());
            steps += 1;
            assert!(steps < MAX_STEPS, "no connection");
        }
    }

    /// Connects, then lets the initiator write so many segments at once, at the time that the story calls 0.
    pub fn send_segments(&mut self, count: u32) {
        self.connect();
        self.ends[0].write(u64::from(count) * u64::from(self.configs[0].mss));
        self.flush();
    }

    /// Lets whoever has something to send, send it.
    pub fn flush(&mut self) {
        for side in [Side::Initiator, Side::Acceptor] {
            self.drain(Place::End(side));
        }
        if self.middle.is_some() {
            self.drain(Place::Middle(Port::WIRED));
        }
    }

    /// Runs until nothing is left to happen.
    pub fn finish(&mut self) {
        self.run_until(Instant::FAR_FUTURE);
    }

    /// Runs up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        self.flush();
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < MAX_STEPS, "still not quiet at {} in {:?}", self.now, self.states());
        }
        if until != Instant::FAR_FUTURE {
            self.now = self.now.max(until);
        }
    }

    /// Runs until everything that `side` wrote was acknowledged, or nothing is left to happen.
    pub fn until_all_acked_by(&mut self, side: Side) {
        self.flush();
        let mut steps = 0;
        while self.ends[side.index()].unacked() > 0 && self.step(Instant::FAR_FUTURE) {
            steps += 1;
            assert!(steps < MAX_STEPS, "still not acknowledged at {} in {:?}", self.now, self.states());
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        let packet = self.queue.keys().next().map(|&(at, _)| at);
        let middle = self.middle.as_ref().and_then(|node| node.poll_deadline());
        let timers = self.ends.iter().filter_map(Node::poll_deadline).chain(middle);
        timers.chain(packet).min()
    }

    /// The next thing that happens, unless it lies beyond `until`. Packets go before timers.
    pub fn step(&mut self, until: Instant) -> bool {
        let Some(at) = self.next().filter(|&at| at <= until) else { return false };
        assert!(at >= self.now, "time runs backwards");
        self.now = at;
        if let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 == at) {
            let (place, packet) = entry.remove();
            match place {
                Place::End(side) => {
                    self.arrived.push((at, side, packet));
                    self.ends[side.index()].handle_packet(at, Port::ONLY, packet);
                }
                Place::Middle(port) => {
                    self.middle.as_mut().unwrap().handle_packet(at, port, packet);
                }
            }
            self.drain(place);
            return true;
        }
        for side in [Side::Initiator, Side::Acceptor] {
            if self.ends[side.index()].poll_deadline().is_some_and(|deadline| deadline <= at) {
                self.ends[side.index()].handle_timeout(at);
                self.drain(Place::End(side));
                return true;
            }
        }
        self.middle.as_mut().unwrap().handle_timeout(at);
        self.drain(Place::Middle(Port::WIRED));
        true
    }

    /// Hands `packet` to an end as if it had come from its peer.
    pub fn inject(&mut self, to: Side, packet: Packet) {
        self.ends[to.index()].handle_packet(self.now, Port::ONLY, packet);
        self.drain(Place::End(to));
    }

    /// A segment with the given numbers, relative to the initial ones, as the peer of `to` could have sent it.
    pub fn forge(&self, to: Side, flags: Flags, seq: u32, ack: u32, len: u32) -> Packet {
        let from = to.peer();
        let (seq, ack) = (self.iss[from.index()] + seq, self.iss[to.index()] + ack);
        let segment = Segment { seq, ack, window: 0xffff, flags, options: Options::default() };
        Packet {
            flow: FlowId(1),
            from,
            priority: Default::default(),
            integrity: Integrity::Intact,
            ecn: Default::default(),
            cause: Cause::New,
            header_len: 40,
            len,
            body: Body::Tcp(segment),
            link: LinkHeaders::NONE,
            payload: (),
        }
    }

    /// The application reads, then what the node has to say is taken to where it belongs.
    fn drain(&mut self, place: Place) {
        let mut out = Vec::new();
        match place {
            Place::End(side) => {
                let end = &mut self.ends[side.index()];
                if self.reading[side.index()] {
                    let readable = end.readable();
                    if readable > 0 {
                        end.read(readable);
                    }
                }
                pump(end, self.now, |output| collect(&mut out, output));
            }
            Place::Middle(_) => {
                pump(&mut **self.middle.as_mut().unwrap(), self.now, |output| collect(&mut out, output));
            }
        }
        for output in out {
            match (output, place) {
                (Output::Event(_, event), Place::End(side)) => self.events.push((self.now, side, event)),
                (Output::Event(..), Place::Middle(_)) => {}
                (Output::Transmit(_, _, packet), Place::End(side)) => {
                    let hop = if self.middle.is_some() { side.index() } else { 0 };
                    self.launch(hop, side, packet, false);
                }
                (Output::Transmit(port, _, packet), Place::Middle(_)) => {
                    let from = if port == Port::WIRED { Side::Acceptor } else { Side::Initiator };
                    self.launch(usize::from(port == Port::WIRELESS), from, packet, true);
                }
            }
        }
    }

    /// Puts a packet that travels away from `from` on a hop.
    fn launch(&mut self, hop: usize, from: Side, packet: Packet, by_middle: bool) {
        let lossy = self.middle.is_none() || hop == 1;
        let mut sent = self.describe(from, &packet, by_middle);
        if lossy {
            sent.fate = self.decide(&sent);
        }
        self.trace.push(sent);
        let mut at = self.lanes[hop][from.index()].arrival(self.now, packet.wire_len());
        let mut packet = packet;
        let place = match (self.middle.is_some(), hop, from) {
            (false, ..) => Place::End(from.peer()),
            (true, 0, Side::Initiator) => Place::Middle(Port::WIRED),
            (true, 0, Side::Acceptor) => Place::End(Side::Initiator),
            (true, _, Side::Initiator) => Place::End(Side::Acceptor),
            (true, _, Side::Acceptor) => Place::Middle(Port::WIRELESS),
        };
        match sent.fate {
            Fate::Arrive => {}
            Fate::Lose => return,
            Fate::Damage => packet.integrity = Integrity::PayloadDamaged,
            Fate::Mark if packet.ecn.is_capable() => packet.ecn = Ecn::Ce,
            Fate::Mark => {}
            Fate::Late(by) => at += by,
            Fate::Twice => self.enqueue(at, place, packet),
        }
        self.enqueue(at, place, packet);
    }

    fn enqueue(&mut self, at: Instant, place: Place, packet: Packet) {
        self.order += 1;
        self.queue.insert((at, self.order), (place, packet));
    }

    fn describe(&mut self, from: Side, packet: &Packet, by_middle: bool) -> Sent {
        let segment = *packet.tcp().expect("only TCP here");
        let seq = segment.seq.0.wrapping_sub(self.iss[from.index()].0);
        let ack = segment.ack.0.wrapping_sub(self.iss[from.peer().index()].0);
        let who = from.index() + if by_middle { 2 } else { 0 };
        let (number, transmission) = if packet.len > 0 {
            let fresh = self.numbers.range((who, 0)..(who + 1, 0)).count() as u32 + 1;
            let entry = self.numbers.entry((who, segment.seq.0)).or_insert((fresh, 0));
            entry.1 += 1;
            *entry
        } else {
            let count = self.kinds.entry((who, segment.flags.0)).or_insert(0);
            *count += 1;
            (0, *count)
        };
        let Packet { len, cause, .. } = *packet;
        let fate = Fate::Arrive;
        Sent { at: self.now, from, by_middle, seq, ack, len, cause, number, transmission, segment, fate }
    }

    fn decide(&mut self, sent: &Sent) -> Fate {
        let listed = match (sent.from, sent.len > 0) {
            (Side::Initiator, true) => self.data_fates.get(&(sent.number, sent.transmission)),
            (Side::Acceptor, false) if sent.is_pure_ack() => self.ack_fates.get(&sent.transmission),
            _ => None,
        };
        match (listed, &mut self.judge) {
            (Some(&fate), _) => fate,
            (None, Some(judge)) => judge(sent),
            (None, None) => Fate::Arrive,
        }
    }

    /// What the ends sent, as [`Sent`], from one side.
    pub fn sent_by(&self, side: Side) -> impl Iterator<Item = &Sent> {
        self.trace.iter().filter(move |sent| sent.from == side && !sent.by_middle)
    }

    /// How often an end reported an event that `wanted` accepts.
    pub fn count_events(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, _, event)| wanted(event)).count()
    }

    pub fn timeouts(&self) -> usize {
        self.count_events(|event| matches!(event, Event::Timeout { .. }))
    }
}
