//! Two TCP endpoints joined by a path that loses, delays, duplicates or damages packets as configured.
//!
//! Usage of a [`Pair`]: `Pair::of(config).lose(&[(5, 1)])`, then `pair.send_segments(20)` and `pair.finish()`;
//! `pair.story()` lists which segments left the client at which time, and why.
#![allow(dead_code)]

pub mod bridge;
pub mod drill;
pub mod golden;

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_proto::event::Event;
use lasthop_proto::node::{Node, Output, Port, pump};
use lasthop_proto::packet::{Body, Cause, Ecn, Flags, FlowId, Integrity, LinkHeaders, Options, Packet, Segment, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{ClassicConfig, ModernConfig, Preset, Recovery, SackAlgorithm, Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Setup, State, TickPhase};
use lasthop_proto::time::{Duration, Instant};

/// Settings of the classic sender, which `config` has.
pub fn classic(config: &mut TcpConfig) -> &mut ClassicConfig {
    config.sender.classic_mut().unwrap()
}

/// Settings of the modern sender, which `config` has.
pub fn modern(config: &mut TcpConfig) -> &mut ModernConfig {
    config.sender.modern_mut().unwrap()
}

/// A preset with another recovery, and SMART numbers if it is SMART.
pub fn preset_with(preset: Preset, (recovery, sack_algorithm): (Recovery, SackAlgorithm)) -> TcpConfig {
    TcpConfig::new(preset, recovery).with(|c| {
        if let Some(classic) = c.sender.classic_mut() {
            classic.sack_algorithm = sack_algorithm;
        }
        c.receiver.smart_acks = if recovery == Recovery::SMART { Switch::On } else { Switch::Off };
    })
}

/// Limit on the steps of a run. It is far above what any test needs; a run that reaches it hangs.
const MAX_STEPS: u32 = 400_000;

/// Instant at `millis` milliseconds after the start.
pub fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Duration of `millis` milliseconds.
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Effect of the lossy hop on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Arrive,
    Lose,
    /// Corrupted, headers intact.
    Damage,
    /// Marked by a queue, if the packet is ECN-capable (RFC 3168 §5).
    Mark,
    /// Delayed by the given duration.
    Late(Duration),
    /// Duplicated.
    Twice,
}

/// A packet sent by an endpoint, or forwarded or created by the middle.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Instant,
    pub from: Side,
    /// True if the middle sent it (in either direction).
    pub by_middle: bool,
    /// Relative to the sender's initial sequence number: the SYN is 0, the first byte 1.
    pub seq: u32,
    /// Relative to the peer's initial sequence number.
    pub ack: u32,
    pub len: u32,
    pub cause: Cause,
    /// For a segment with payload, the number of its first byte's segment in the stream, from 1.
    pub number: u32,
    /// Number of transmissions of that first byte, including this one. For other packets: number of such packets (SYN,
    /// FIN, pure acknowledgment, reset) that this end has sent.
    pub transmission: u32,
    pub segment: Segment,
    /// Number of the super-segment, 0 for none.
    pub super_segment: u8,
    pub fate: Fate,
}

impl Sent {
    pub fn is(&self, flags: Flags) -> bool {
        self.segment.flags.has(flags)
    }

    /// Returns whether the packet is a pure acknowledgment.
    pub fn is_pure_ack(&self) -> bool {
        self.len == 0 && self.segment.flags == Flags::ACK
    }
}

/// Destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    End(Side),
    Middle(Port),
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
struct Lane {
    delay: Duration,
    /// Serialization time of a byte.
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

/// Two connections and the path between them.
pub struct Pair {
    pub now: Instant,
    /// The initiator and the acceptor.
    pub ends: [Connection; 2],
    pub configs: [Arc<TcpConfig>; 2],
    pub iss: [Seq; 2],
    pub middle: Option<Box<dyn Node<()>>>,
    /// Per end: true if the application reads data as it arrives.
    pub reading: [bool; 2],
    /// Every packet that an end or the middle sent, in order.
    pub trace: Vec<Sent>,
    pub events: Vec<(Instant, Side, Event)>,
    /// Every packet that reached an end: arrival time, receiving side, packet.
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
    /// Two hosts with the same keys, 50 ms apart, with initial sequence numbers of 0.
    pub fn of(config: TcpConfig) -> Self {
        Self::between(config.clone(), config)
    }

    /// An initiator and an acceptor with different keys.
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

    /// Sets the initial sequence numbers of the initiator and the acceptor.
    pub fn with_iss(mut self, client: u32, server: u32) -> Self {
        self.iss = [Seq(client), Seq(server)];
        self.ends = [Side::Initiator, Side::Acceptor]
            .map(|side| Self::end(side, &self.configs[side.index()], self.iss[side.index()]));
        self
    }

    /// Sets the one-way delay of each hop.
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.lanes.iter_mut().flatten().for_each(|lane| lane.delay = delay);
        self
    }

    /// Sets the serialization time of a byte on each hop.
    pub fn with_time_per_byte(mut self, per_byte: Duration) -> Self {
        self.lanes.iter_mut().flatten().for_each(|lane| lane.per_byte = per_byte);
        self
    }

    /// Inserts a node in the middle; the lossy hop is the one beyond it.
    pub fn with_middle(mut self, middle: impl Node<()> + 'static) -> Self {
        self.middle = Some(Box::new(middle));
        self
    }

    /// Loses the given transmissions of data segments from the initiator, both counted from 1.
    pub fn lose(self, list: &[(u32, u32)]) -> Self {
        list.iter().fold(self, |pair, &(number, transmission)| pair.treat(number, transmission, Fate::Lose))
    }

    /// Damages the given transmissions; their headers arrive intact.
    pub fn damage(self, list: &[(u32, u32)]) -> Self {
        list.iter().fold(self, |pair, &(number, transmission)| pair.treat(number, transmission, Fate::Damage))
    }

    /// Sets the fate of one transmission of a data segment from the initiator.
    pub fn treat(mut self, number: u32, transmission: u32, fate: Fate) -> Self {
        self.data_fates.insert((number, transmission), fate);
        self
    }

    /// Loses pure acknowledgments from the acceptor, counted from 1.
    pub fn lose_acks(mut self, list: &[u32]) -> Self {
        self.ack_fates.extend(list.iter().map(|&number| (number, Fate::Lose)));
        self
    }

    /// Marks pure acknowledgments from the acceptor instead of losing them.
    pub fn mark_acks(mut self, list: &[u32]) -> Self {
        self.ack_fates.extend(list.iter().map(|&number| (number, Fate::Mark)));
        self
    }

    /// Decides the fate of every packet on the lossy hop that no list mentions.
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

    /// Opens the connection: the acceptor listens, the initiator connects, and the handshake completes.
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

    /// Connects, then writes `count` segments at the initiator at once. This is time 0 of the story.
    pub fn send_segments(&mut self, count: u32) {
        self.connect();
        self.ends[0].write(u64::from(count) * u64::from(self.configs[0].common.mss));
        self.flush();
    }

    /// Makes both ends send their pending output.
    pub fn flush(&mut self) {
        for side in [Side::Initiator, Side::Acceptor] {
            self.drain(Place::End(side));
        }
        if self.middle.is_some() {
            self.drain(Place::Middle(Port::WIRED));
        }
    }

    /// Runs until no event is left.
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

    /// Runs until everything that `side` wrote is acknowledged, or no event is left.
    pub fn until_all_acked_by(&mut self, side: Side) {
        self.flush();
        let mut steps = 0;
        while self.ends[side.index()].unacked() > 0 && self.step(Instant::FAR_FUTURE) {
            steps += 1;
            assert!(steps < MAX_STEPS, "still not acknowledged at {} in {:?}", self.now, self.states());
        }
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<Instant> {
        let packet = self.queue.keys().next().map(|&(at, _)| at);
        let middle = self.middle.as_ref().and_then(|node| node.poll_deadline());
        let timers = self.ends.iter().filter_map(Node::poll_deadline).chain(middle);
        timers.chain(packet).min()
    }

    /// Processes the next event unless it is later than `until`, and returns whether it did. Packets precede timers.
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

    /// Delivers `packet` to an end as if it came from the peer.
    pub fn inject(&mut self, to: Side, packet: Packet) {
        self.ends[to.index()].handle_packet(self.now, Port::ONLY, packet);
        self.drain(Place::End(to));
    }

    /// Builds a segment with the given numbers, relative to the initial ones, as the peer of `to` could have sent it.
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
            super_segment: 0,
            header_len: 40,
            len,
            body: Body::Tcp(segment),
            link: LinkHeaders::NONE,
            payload: (),
        }
    }

    /// Lets the application read, then delivers the node's outputs to their destinations.
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

    /// Puts a packet that travels away from `from` onto a hop.
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
        let Packet { len, cause, super_segment, .. } = *packet;
        let fate = Fate::Arrive;
        Sent { at: self.now, from, by_middle, seq, ack, len, cause, number, transmission, segment, super_segment, fate }
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

    /// Packets that the end on `side` sent.
    pub fn sent_by(&self, side: Side) -> impl Iterator<Item = &Sent> {
        self.trace.iter().filter(move |sent| sent.from == side && !sent.by_middle)
    }

    /// Number of events that `wanted` accepts.
    pub fn count_events(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, _, event)| wanted(event)).count()
    }

    pub fn timeouts(&self) -> usize {
        self.count_events(|event| matches!(event, Event::Timeout { .. }))
    }
}
