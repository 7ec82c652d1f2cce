//! Test rig: one transfer over a wired path, a base station and a lossy half-duplex hop (\[a\] §IV).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;

use crate::event::Event;
use crate::node::{Node, Output, Port, pump};
use crate::packet::{Body, Cause, Ecn, FlowId, Integrity, LinkHeaders, Packet, Priority, Segment, Side};
use crate::random::{Root, Stream};
use crate::seq::Seq;
use crate::tcp::TickPhase;
use crate::tcp::config::{Switch, TcpConfig};
use crate::tcp::{Connection, Setup};
use crate::time::{Duration, Instant};

/// Returns a packet of `flow` that carries `segment` and `len` bytes.
pub fn packet(flow: FlowId, from: Side, len: u32, segment: Segment) -> Packet {
    Packet {
        flow,
        from,
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        ecn: Ecn::default(),
        cause: Cause::New,
        super_segment: 0,
        header_len: 40 + segment.options.wire_len(),
        len,
        body: Body::Tcp(segment),
        link: LinkHeaders::NONE,
        payload: (),
    }
}

/// Losses on the hop: mean bytes between losses, consecutive frames lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    pub mean_bytes: f64,
    pub burst: u32,
}

/// Result of a transfer.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    pub mbps: f64,
    pub timeouts: u32,
    pub fast_retransmits: u32,
    pub source_resends: u32,
    pub local: BTreeMap<&'static str, u32>,
    pub lost: u32,
    pub suppressed: u32,
    pub marked: u32,
    pub redundant: u32,
    /// Maximum number of packets that waited for the hop.
    pub longest_queue: usize,
}

/// Maximum delay of a frame after its end, drawn for each frame independently, so that frames are reordered.
#[derive(Clone, Copy, Debug)]
pub struct Late(pub Duration);

enum Happening {
    ToBase(Port, Packet),
    ToSender(Packet),
    FrameEnds(usize, Packet),
    Arrives(usize, Packet),
}

struct Rig<B> {
    now: Instant,
    order: u64,
    agenda: BTreeMap<(Instant, u64), Happening>,
    sender: Connection,
    mobile: Connection,
    base: B,
    delay: Duration,
    /// Queues of the base station and of the mobile host.
    queues: [VecDeque<Packet>; 2],
    last_turn: usize,
    busy: bool,
    errors: [Stream; 2],
    left_of_burst: [u32; 2],
    loss: Loss,
    late: Late,
    delays: Stream,
    seen: BTreeSet<u32>,
    outcome: Outcome,
}

impl<B: Node<()>> Rig<B> {
    fn at(&mut self, at: Instant, what: Happening) {
        self.order += 1;
        self.agenda.insert((at, self.order), what);
    }

    fn drain_sender(&mut self) {
        let (now, delay) = (self.now, self.delay);
        let mut sent = VecDeque::new();
        pump(&mut self.sender, now, |output| sent.push_back(output));
        for output in sent {
            match output {
                Output::Transmit(_, _, packet) => {
                    self.outcome.source_resends += u32::from(packet.cause.is_source_retransmission());
                    self.at(now + delay, Happening::ToBase(Port::WIRED, packet));
                }
                Output::Event(_, Event::Timeout { .. }) => self.outcome.timeouts += 1,
                Output::Event(_, Event::RecoveryEntered { .. }) => self.outcome.fast_retransmits += 1,
                Output::Event(..) => {}
            }
        }
    }

    fn drain_mobile(&mut self) {
        let now = self.now;
        let unread = self.mobile.readable();
        self.mobile.read(unread);
        let queue = &mut self.queues[1];
        pump(&mut self.mobile, now, |output| {
            if let Output::Transmit(_, _, packet) = output {
                queue.push_back(packet);
            }
        });
        self.contend();
    }

    fn drain_base(&mut self) {
        let (now, delay) = (self.now, self.delay);
        let mut sent = VecDeque::new();
        pump(&mut self.base, now, |output| sent.push_back(output));
        for output in sent {
            match output {
                Output::Transmit(Port::WIRED, _, packet) => self.at(now + delay, Happening::ToSender(packet)),
                Output::Transmit(_, _, packet) => {
                    if packet.cause.is_local_retransmission() {
                        *self.outcome.local.entry(packet.cause.name()).or_default() += 1;
                    }
                    let queue = &mut self.queues[0];
                    let ahead = queue.iter().take_while(|queued| queued.priority == Priority::Urgent).count();
                    let index = if packet.priority == Priority::Urgent { ahead } else { queue.len() };
                    queue.insert(index, packet);
                    self.outcome.longest_queue = self.outcome.longest_queue.max(queue.len());
                }
                Output::Event(_, Event::DupAckSuppressed { .. }) => self.outcome.suppressed += 1,
                Output::Event(_, Event::ElnMarked { .. }) => self.outcome.marked += 1,
                Output::Event(..) => {}
            }
        }
        self.contend();
    }

    fn contend(&mut self) {
        if self.busy {
            return;
        }
        let turn = [1 - self.last_turn, self.last_turn].into_iter().find(|&turn| !self.queues[turn].is_empty());
        let Some(turn) = turn else { return };
        let Some(packet) = self.queues[turn].pop_front() else { return };
        (self.busy, self.last_turn) = (true, turn);
        let air = Duration::from_micros(1_100 + u64::from(packet.wire_len()) * 4);
        let at = self.now + air;
        self.at(at, Happening::FrameEnds(turn, packet));
    }

    /// Handles a frame's arrival at the other end of the hop.
    fn arrive(&mut self, turn: usize, packet: Packet) {
        let now = self.now;
        if turn == 1 {
            self.base.handle_packet(now, Port::WIRELESS, packet);
            return self.drain_base();
        }
        if let Some(tcp) = packet.tcp()
            && packet.len > 0
            && !self.seen.insert(tcp.seq.0)
        {
            self.outcome.redundant += 1;
        }
        self.mobile.handle_packet(now, Port::ONLY, packet);
        self.drain_mobile();
    }

    fn is_lost(&mut self, turn: usize, packet: &Packet) -> bool {
        if self.left_of_burst[turn] > 0 {
            self.left_of_burst[turn] -= 1;
            return true;
        }
        let p = 1.0 - libm::exp(-f64::from(packet.wire_len()) / self.loss.mean_bytes);
        let hit = self.errors[turn].chance(p);
        self.left_of_burst[turn] = if hit { self.loss.burst - 1 } else { 0 };
        hit
    }

    fn step(&mut self) -> bool {
        let next = self.agenda.keys().next().map(|&(at, _)| at);
        let timers = [self.sender.poll_deadline(), self.mobile.poll_deadline(), self.base.poll_deadline()];
        let timer = timers.into_iter().flatten().min();
        let Some(at) = [next, timer].into_iter().flatten().min() else { return false };
        self.now = at;
        if next == Some(at) {
            let Some((_, what)) = self.agenda.pop_first() else { return false };
            match what {
                Happening::ToBase(port, packet) => {
                    self.base.handle_packet(at, port, packet);
                    self.drain_base();
                }
                Happening::ToSender(packet) => {
                    self.sender.handle_packet(at, Port::ONLY, packet);
                    self.drain_sender();
                }
                Happening::FrameEnds(turn, packet) => {
                    self.busy = false;
                    if self.is_lost(turn, &packet) {
                        self.outcome.lost += 1;
                    } else if self.late.0 > Duration::ZERO {
                        let late = Duration::from_nanos(self.delays.below(self.late.0.as_nanos()));
                        self.at(at + late, Happening::Arrives(turn, packet));
                    } else {
                        self.arrive(turn, packet);
                    }
                    self.contend();
                }
                Happening::Arrives(turn, packet) => self.arrive(turn, packet),
            }
        } else {
            self.sender.handle_timeout(at);
            self.mobile.handle_timeout(at);
            self.base.handle_timeout(at);
            self.drain_sender();
            self.drain_mobile();
            self.drain_base();
        }
        true
    }
}

/// Transfers `bytes` to the mobile host through `base`.
pub fn transfer<B: Node<()>>(
    base: B,
    config: TcpConfig,
    delay: Duration,
    loss: Loss,
    bytes: u64,
    seed: u64,
) -> Outcome {
    transfer_late(base, config, delay, (loss, Late(Duration::ZERO)), bytes, seed)
}

/// Transfers `bytes` like [`transfer`], over a hop that reorders.
pub fn transfer_late<B: Node<()>>(
    base: B,
    config: TcpConfig,
    delay: Duration,
    (loss, late): (Loss, Late),
    bytes: u64,
    seed: u64,
) -> Outcome {
    let (root, config) = (Root(seed), Arc::new(config));
    let mut phases = root.stream("phases");
    let mut end = |side| {
        let mut phase = |most| Duration::from_nanos(phases.below(most));
        let phase = TickPhase { slow: phase(500_000_000), fast: phase(200_000_000) };
        let config = config.clone();
        Connection::new(Setup { flow: FlowId(0), side, config, iss: Seq(u32::MAX - 70_000), phase, watch: Switch::Off })
    };
    let mut rig = Rig {
        now: Instant::ZERO,
        order: 0,
        agenda: BTreeMap::new(),
        sender: end(Side::Initiator),
        mobile: end(Side::Acceptor),
        base,
        delay,
        queues: [VecDeque::new(), VecDeque::new()],
        last_turn: 1,
        busy: false,
        errors: [root.stream("down"), root.stream("up")],
        left_of_burst: [0, 0],
        loss,
        late,
        delays: root.stream("delays"),
        seen: BTreeSet::new(),
        outcome: Outcome::default(),
    };
    rig.mobile.listen();
    rig.sender.connect();
    rig.sender.write(bytes);
    rig.drain_sender();
    while rig.mobile.received() < bytes && rig.step() {}
    assert_eq!(rig.mobile.received(), bytes, "stalled at {}", rig.now);
    rig.outcome.mbps = bytes as f64 * 8.0 / rig.now.as_secs_f64() / 1e6;
    rig.outcome
}
