//! The two ends of a hop with SRP, and the hop between them, as one node for the middle of a [`super::Pair`].

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use lasthop_proto::event::Event;
use lasthop_proto::link::arq::Header;
use lasthop_proto::node::{Disposition, Node, Output, Port, Why, pump};
use lasthop_proto::packet::{Ecn, FlowId, Integrity, Packet, Side};
use lasthop_proto::pep::srp::{SrpConfig, SrpEnd};
use lasthop_proto::tcp::TickPhase;
use lasthop_proto::tcp::config::TcpConfig;
use lasthop_proto::time::{Duration, Instant};

use super::Fate;

/// A frame that an end put on the hop.
#[derive(Clone, Debug)]
pub struct Crossing {
    pub at: Instant,
    /// 0 is the base station, 1 the mobile host.
    pub end: usize,
    pub header: Option<Header>,
    pub len: u32,
    pub why: Why,
}

/// Frames seen on the hop, and the maximum backlog of each end.
#[derive(Default, Debug)]
pub struct Seen {
    pub frames: Vec<Crossing>,
    pub most_waiting: u64,
    pub most_unacknowledged: usize,
    pub connections: usize,
}

type Judge = Box<dyn FnMut(&Crossing) -> Fate>;

/// Both ends and the hop.
pub struct Bridge {
    ends: [SrpEnd; 2],
    delay: Duration,
    judge: Judge,
    hop: BTreeMap<(Instant, u64), (usize, Packet)>,
    order: u64,
    out: VecDeque<(Port, Packet)>,
    seen: Rc<RefCell<Seen>>,
}

impl Bridge {
    pub fn new(config: &SrpConfig, tcp: TcpConfig, delay: Duration) -> Self {
        let tcp = Arc::new(tcp);
        let end = || SrpEnd::new(config.clone(), tcp.clone(), TickPhase::default());
        Self {
            ends: [end(), end()],
            delay,
            judge: Box::new(|_| Fate::Arrive),
            hop: BTreeMap::new(),
            order: 0,
            out: VecDeque::new(),
            seen: Rc::default(),
        }
    }

    pub fn judged_by(mut self, judge: impl FnMut(&Crossing) -> Fate + 'static) -> Self {
        self.judge = Box::new(judge);
        self
    }

    pub fn seen(&self) -> Rc<RefCell<Seen>> {
        Rc::clone(&self.seen)
    }

    fn launch(&mut self, now: Instant, end: usize, why: Why, mut packet: Packet) {
        let mut inner = packet.link;
        inner.pop();
        let header = Header::of(&Packet { link: inner, ..packet });
        let crossing = Crossing { at: now, end, header, len: packet.len, why };
        let fate = (self.judge)(&crossing);
        self.seen.borrow_mut().frames.push(crossing);
        let mut at = now + self.delay;
        let mut put = |at, packet| {
            self.order += 1;
            self.hop.insert((at, self.order), (1 - end, packet));
        };
        match fate {
            Fate::Arrive => {}
            Fate::Lose => return,
            Fate::Damage => packet.integrity = Integrity::PayloadDamaged,
            Fate::Mark if packet.ecn.is_capable() => packet.ecn = Ecn::Ce,
            Fate::Mark => {}
            Fate::Late(by) => at += by,
            Fate::Twice => put(at, packet),
        }
        put(at, packet);
    }

    fn drain(&mut self, now: Instant, end: usize) {
        let mut sent = Vec::new();
        pump(&mut self.ends[end], now, |output| {
            if let Output::Transmit(port, why, packet) = output {
                sent.push((port, why, packet));
            }
        });
        for (port, why, packet) in sent {
            if port == Port::WIRELESS {
                self.launch(now, end, why, packet);
            } else {
                self.out.push_back((if end == 0 { Port::WIRED } else { Port::WIRELESS }, packet));
            }
        }
        let mut seen = self.seen.borrow_mut();
        seen.most_waiting = seen.most_waiting.max(self.ends[end].most_waiting());
        seen.most_unacknowledged = seen.most_unacknowledged.max(self.ends[end].most_unacknowledged());
        seen.connections = self.ends.iter().map(SrpEnd::connections).sum();
    }

    /// Delivers the frames that have arrived by `now`.
    fn settle(&mut self, now: Instant) {
        while let Some(entry) = self.hop.first_entry().filter(|entry| entry.key().0 <= now) {
            let (end, packet) = entry.remove();
            self.ends[end].handle_packet(now, Port::WIRELESS, packet);
            self.drain(now, end);
        }
    }
}

impl Node<()> for Bridge {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet) -> Disposition {
        assert!(packet.from == if port == Port::WIRED { Side::Initiator } else { Side::Acceptor });
        let end = usize::from(port != Port::WIRED);
        let disposition = self.ends[end].handle_packet(now, Port::WIRED, packet);
        self.drain(now, end);
        self.settle(now);
        disposition
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
        for end in [0, 1] {
            self.ends[end].handle_timeout(now);
            self.drain(now, end);
        }
        self.settle(now);
    }

    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet) -> Option<(Port, Why)> {
        let (port, packet) = self.out.pop_front()?;
        *place = packet;
        Some((port, Why::Own))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        let hop = self.hop.keys().next().map(|&(at, _)| at);
        self.ends.iter().filter_map(Node::poll_deadline).chain(hop).min()
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        None
    }
}
