//! Sources of datagrams, and what they come to where others never see them arrive.

use std::collections::VecDeque;

use lasthop_proto::packet::{Body, Cause, FlowId, Packet, Side};
use lasthop_proto::random::Stream;
use lasthop_proto::tcp::config::HeaderAccounting;
use lasthop_proto::time::{Duration, Instant};

use crate::apps::{CallSource, OnOff, OnOffConfig};
use crate::endpoint::index as endpoint;
use crate::link::{Accepted, DuplexDirection, Frame, InFlight};
use crate::measure::{DelayHistogram, PathReport};
use crate::overflow::MOST_FRAMES;
use crate::pool::Handle;

/// What sends without a connection.
pub enum Source {
    /// Datagrams now and then.
    OnOff(Box<DatagramSource>),
    /// A call.
    Call(CallSource),
}

impl Source {
    /// When the next packet is due.
    pub fn next_at(&self) -> Instant {
        match self {
            Self::OnOff(source) => source.next_at(),
            Self::Call(source) => source.next_at(),
        }
    }

    /// Index of the endpoint that sends it.
    pub fn endpoint(&self) -> usize {
        match self {
            Self::OnOff(source) => source.endpoint(),
            Self::Call(source) => source.endpoint(),
        }
    }

    /// The packet that is due.
    pub fn take(&mut self) -> Packet {
        match self {
            Self::OnOff(source) => source.take(),
            Self::Call(source) => source.take(),
        }
    }
}

/// What sends datagrams, and how a datagram looks.
pub struct DatagramSource {
    on_off: OnOff,
    flow: FlowId,
    /// Bytes of payload and of headers, together what the source calls a packet.
    len: u32,
    header_len: u16,
}

impl DatagramSource {
    /// The source of `flow` that `config` describes, whose headers count as TCP's do on the same flow.
    pub fn new(config: OnOffConfig, flow: FlowId, headers: HeaderAccounting, stream: Stream) -> Self {
        // IPv4 and UDP; ns-2 counts neither.
        let header_len = if headers == HeaderAccounting::Full { 28 } else { 0 };
        let len = config.bytes.saturating_sub(u32::from(header_len)).max(1);
        Self { on_off: OnOff::new(config, stream), flow, len, header_len }
    }

    /// When the next datagram is due.
    #[inline]
    pub fn next_at(&self) -> Instant {
        self.on_off.next_at()
    }

    /// Index of the endpoint that sends them.
    pub fn endpoint(&self) -> usize {
        endpoint(self.flow, Side::Initiator)
    }

    /// The datagram that is due.
    pub fn take(&mut self) -> Packet {
        Packet { body: Body::Datagram { number: self.on_off.take() }, ..self.datagram() }
    }

    fn datagram(&self) -> Packet {
        Packet {
            flow: self.flow,
            from: Side::Initiator,
            cause: Cause::Datagram,
            header_len: self.header_len,
            len: self.len,
            body: Body::Datagram { number: 0 },
            ..Packet::default()
        }
    }
}

/// What arrived of a source's datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Whose they were.
    pub flow: FlowId,
    /// How many.
    pub datagrams: u64,
    /// Their payload.
    pub bytes: u64,
    /// When the last one did; `None` if none did.
    pub last: Option<Instant>,
    /// Number that found the queue full.
    pub dropped: u64,
}

/// One direction of a duplex link that loses nothing, shared with datagrams that go to its far end and no further.
///
/// All that anyone notices of such cross traffic is that the queue is fuller. So it causes no events: it is caught up with
/// whenever another frame comes, at a tenth of the cost.
pub struct CrossedDirection {
    wire: DuplexDirection,
    source: DatagramSource,
    /// What each datagram is on the wire.
    frame: Frame,
    /// Frames of others that are under way.
    others: usize,
    sent: u64,
    dropped: u64,
    arrived: u64,
    last: Instant,
    /// How long the datagrams take, where that is measured.
    took: Option<Box<Took>>,
}

/// How long datagrams take that nobody sees.
#[derive(Default)]
struct Took {
    /// When each of them was sent that is under way.
    sent_at: VecDeque<Instant>,
    waits: DelayHistogram,
    one_way: DelayHistogram,
}

/// Where no packet is: a datagram that nobody will look at takes up none of the pool.
const NO_PACKET: Handle = Handle(u32::MAX);

impl CrossedDirection {
    /// `wire`, on which `source` sends besides.
    pub fn new(wire: DuplexDirection, source: DatagramSource) -> Self {
        let frame = Frame::new(NO_PACKET, &source.datagram(), source.endpoint() ^ 1);
        Self { wire, source, frame, others: 0, sent: 0, dropped: 0, arrived: 0, last: Instant::ZERO, took: None }
    }

    /// From now on measures how long the datagrams wait and take.
    pub fn measure(&mut self) {
        self.took = Some(Box::default());
    }

    /// How long the datagrams that arrived waited, and took; `None` where that was not measured.
    pub fn took(&self) -> Option<(&DelayHistogram, &DelayHistogram)> {
        self.took.as_ref().map(|took| (&took.waits, &took.one_way))
    }

    /// Bytes that have arrived, if the source is that of `flow`.
    pub fn arrived_of(&self, flow: FlowId) -> Option<u64> {
        (self.source.flow == flow).then(|| self.arrived * u64::from(self.frame.payload()))
    }

    /// Time for which the wire has transmitted until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        self.wire.busy(now)
    }

    /// Takes another's packet to send.
    pub fn enqueue(&mut self, now: Instant, frame: Frame) -> Accepted {
        let accepted = self.wire.enqueue(now, frame);
        if accepted == Accepted::Dropped {
            return accepted;
        }
        self.others += 1;
        if self.others == 1 { self.next().map_or(accepted, Accepted::Next) } else { Accepted::Queued }
    }

    /// The other's frame that arrives at `now`, and when the next one does.
    pub fn arrive(&mut self, now: Instant) -> (Option<InFlight>, Option<Instant>) {
        self.retire(now);
        self.others = self.others.saturating_sub(1);
        (self.wire.arrive(now).0, self.next())
    }

    /// Ends the run at `end`: what arrived of the datagrams by then, and what this direction has to report of them.
    pub fn settle(&mut self, end: Instant) -> (Arrived, PathReport) {
        while self.source.next_at() <= end && self.held() <= MOST_FRAMES {
            self.send_datagram();
        }
        self.retire(end);
        let (payload, bytes) = (u64::from(self.frame.payload()), u64::from(self.frame.bytes()));
        let arrived = Arrived {
            flow: self.source.flow,
            datagrams: self.arrived,
            bytes: self.arrived * payload,
            last: (self.arrived > 0).then_some(self.last),
            dropped: self.dropped,
        };
        let report = PathReport {
            frames: self.sent + self.dropped,
            payload: self.sent * payload,
            bytes: self.sent * bytes,
            queue_drops: self.dropped,
            ..PathReport::default()
        };
        (arrived, report)
    }

    /// Sends the datagrams that were due before `now`: of all that happens at one time, they come last. Returns how many; to be
    /// called before [`Self::enqueue`] and [`Self::arrive`].
    pub fn catch_up(&mut self, now: Instant) -> u64 {
        let mut sent = 0;
        // Beyond that the run is given up.
        while self.source.next_at() < now && self.held() <= MOST_FRAMES {
            self.send_datagram();
            sent += 1;
        }
        sent
    }

    /// When the next datagram is due.
    pub fn next_at(&self) -> Instant {
        self.source.next_at()
    }

    /// When the frame that was queued last begins transmission, if that is to come.
    pub fn last_start(&self) -> Option<Instant> {
        self.wire.last_start()
    }

    /// Returns how many frames wait, are on the wire or propagate.
    #[inline]
    pub fn held(&self) -> usize {
        self.wire.held()
    }

    /// Frames that wait at `now`; [`Self::catch_up`] comes first.
    pub fn waiting(&self, now: Instant) -> usize {
        self.wire.waiting(now)
    }

    #[inline]
    fn send_datagram(&mut self) {
        let at = self.source.next_at();
        self.source.on_off.take();
        self.retire(at);
        match self.wire.enqueue(at, self.frame) {
            Accepted::Dropped => self.dropped += 1,
            Accepted::Queued | Accepted::Next(_) => {
                self.sent += 1;
                if let Some(took) = &mut self.took {
                    took.sent_at.push_back(at);
                }
            }
        }
    }

    /// Lets the datagrams go that have arrived by `now` and are not behind another's frame.
    #[inline]
    fn retire(&mut self, now: Instant) {
        while let Some((sent, at)) = self.wire.first()
            && at <= now
            && sent.frame.handle() == NO_PACKET
        {
            self.wire.arrive(now);
            self.arrived += 1;
            self.last = at;
            if let Some(took) = &mut self.took
                && let Some(sent_at) = took.sent_at.pop_front()
            {
                took.waits.add(sent.start().since(sent_at));
                took.one_way.add(at.since(sent_at));
            }
        }
    }

    /// When the next of the others' frames arrives.
    fn next(&self) -> Option<Instant> {
        if self.others == 0 { None } else { self.wire.find(|frame| frame.handle() != NO_PACKET) }
    }
}
