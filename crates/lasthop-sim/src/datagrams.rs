//! Sources of datagrams, and the accounting of datagrams whose arrival causes no event.

use std::collections::VecDeque;

use lasthop_proto::packet::{Body, Cause, FlowId, Packet, Side};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::tcp::config::HeaderAccounting;
use lasthop_proto::time::{Duration, Instant};

use crate::apps::{CallSource, OnOff, OnOffConfig};
use crate::endpoint::index as endpoint;
use crate::link::{Accepted, DuplexDirection, Frame, InFlight};
use crate::measure::{DelayHistogram, PathReport};
use crate::network::{App, FlowSpec};
use crate::overflow::MOST_FRAMES;
use crate::pool::Handle;

/// A source without a connection.
pub enum Source {
    /// Datagrams of an on-off source.
    OnOff(Box<DatagramSource>),
    /// A call.
    Call(CallSource),
}

impl Source {
    /// Creates the source of `flow`, whose randomness comes from `root`; `None` if its application sends no datagrams.
    pub fn of(flow: &FlowSpec, id: FlowId, root: Root) -> Option<Self> {
        let headers = flow.tcp[0].common.headers;
        match flow.app {
            App::OnOff(config) => {
                let stream = root.stream(&format!("flows/{}/on-off", flow.name));
                let config = OnOffConfig { start: flow.start, ..config };
                Some(Self::OnOff(Box::new(DatagramSource::new(config, id, headers, stream))))
            }
            App::Call(config) => Some(Self::Call(CallSource::new(config, id, flow.start, headers))),
            App::Transfer { .. } | App::Idle | App::Web | App::Quic(_) => None,
        }
    }

    /// Returns the time at which the next packet is due.
    pub fn poll_deadline(&self) -> Instant {
        match self {
            Self::OnOff(source) => source.poll_deadline(),
            Self::Call(source) => source.poll_deadline(),
        }
    }

    /// Returns the index of the sending endpoint.
    pub fn endpoint(&self) -> usize {
        match self {
            Self::OnOff(source) => source.endpoint(),
            Self::Call(source) => source.endpoint(),
        }
    }

    /// Returns the packet that is due.
    pub fn take(&mut self) -> Packet {
        match self {
            Self::OnOff(source) => source.take(),
            Self::Call(source) => source.take(),
        }
    }
}

/// A source of datagrams and their format.
pub struct DatagramSource {
    on_off: OnOff,
    flow: FlowId,
    /// Bytes of payload and of headers; their sum is the source's packet size.
    len: u32,
    header_len: u16,
}

impl DatagramSource {
    /// Creates the source of `flow` that `config` describes. Its headers count as TCP's do on the same flow.
    pub fn new(config: OnOffConfig, flow: FlowId, headers: HeaderAccounting, stream: Stream) -> Self {
        // IPv4 and UDP; ns-2 counts neither.
        let header_len = if headers == HeaderAccounting::Full { 28 } else { 0 };
        let len = config.bytes.saturating_sub(u32::from(header_len)).max(1);
        Self { on_off: OnOff::new(config, stream), flow, len, header_len }
    }

    /// Returns the time at which the next datagram is due.
    #[inline]
    pub fn poll_deadline(&self) -> Instant {
        self.on_off.poll_deadline()
    }

    /// Returns the index of the sending endpoint.
    pub fn endpoint(&self) -> usize {
        endpoint(self.flow, Side::Initiator)
    }

    /// Returns the datagram that is due.
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

/// Datagrams of a source that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Flow of the source.
    pub flow: FlowId,
    /// Number of datagrams.
    pub datagrams: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Arrival of the last datagram; `None` if none arrived.
    pub last: Option<Instant>,
    /// Number of datagrams dropped by a full queue.
    pub dropped: u64,
}

/// One direction of a lossless duplex link, shared with datagrams that end at its far end.
///
/// Such cross traffic affects others only through the length of the queue. So it causes no events: its datagrams are
/// sent when another frame arrives, at a tenth of the cost.
pub struct CrossedDirection {
    wire: DuplexDirection,
    source: DatagramSource,
    /// Frame of each datagram.
    frame: Frame,
    /// Number of other frames queued or in flight.
    others: usize,
    sent: u64,
    dropped: u64,
    arrived: u64,
    last: Instant,
    /// Delays of the datagrams, if measured.
    took: Option<Box<Took>>,
}

/// Delays of the datagrams that are sent without events.
#[derive(Default)]
struct Took {
    /// Send times of the datagrams queued or in flight.
    sent_at: VecDeque<Instant>,
    waits: DelayHistogram,
    one_way: DelayHistogram,
}

/// Handle of datagrams that occupy no place in the pool, because no node receives them.
const NO_PACKET: Handle = Handle(u32::MAX);

impl CrossedDirection {
    /// Creates a direction over `wire`, shared with the datagrams of `source`.
    pub fn new(wire: DuplexDirection, source: DatagramSource) -> Self {
        let frame = Frame::new(NO_PACKET, &source.datagram(), source.endpoint() ^ 1);
        Self { wire, source, frame, others: 0, sent: 0, dropped: 0, arrived: 0, last: Instant::ZERO, took: None }
    }

    /// Starts to measure the delays of the datagrams.
    pub fn measure(&mut self) {
        self.took = Some(Box::default());
    }

    /// Returns the queueing and one-way delays of the datagrams that arrived; `None` if not measured.
    pub fn took(&self) -> Option<(&DelayHistogram, &DelayHistogram)> {
        self.took.as_ref().map(|took| (&took.waits, &took.one_way))
    }

    /// Returns the bytes that have arrived, if the source is that of `flow`.
    pub fn arrived_of(&self, flow: FlowId) -> Option<u64> {
        (self.source.flow == flow).then(|| self.arrived * u64::from(self.frame.payload()))
    }

    /// Returns the time for which the wire has transmitted until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        self.wire.busy(now)
    }

    /// Queues a frame of another source.
    pub fn enqueue(&mut self, now: Instant, frame: Frame) -> Accepted {
        let accepted = self.wire.enqueue(now, frame);
        if accepted == Accepted::Dropped {
            return accepted;
        }
        self.others += 1;
        if self.others == 1 { self.next().map_or(accepted, Accepted::Next) } else { Accepted::Queued }
    }

    /// Returns the frame of another source that arrives at `now`, and the arrival time of the next one.
    pub fn arrive(&mut self, now: Instant) -> (Option<InFlight>, Option<Instant>) {
        self.retire(now);
        self.others = self.others.saturating_sub(1);
        (self.wire.arrive(now).0, self.next())
    }

    /// Ends the run at `end`. Returns the datagrams that had arrived by then, and the report of this direction for all
    /// datagrams.
    pub fn settle(&mut self, end: Instant) -> (Arrived, PathReport) {
        while self.source.poll_deadline() <= end && self.held() <= MOST_FRAMES {
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

    /// Sends the datagrams that were due before `now`; those due at `now` come after all other events. Returns their
    /// number. Must be called before [`Self::enqueue`] and [`Self::arrive`].
    pub fn catch_up(&mut self, now: Instant) -> u64 {
        let mut sent = 0;
        // A run with more frames is abandoned.
        while self.source.poll_deadline() < now && self.held() <= MOST_FRAMES {
            self.send_datagram();
            sent += 1;
        }
        sent
    }

    /// Returns the time at which the next datagram is due.
    pub fn poll_deadline(&self) -> Instant {
        self.source.poll_deadline()
    }

    /// Returns the time at which the transmission of the frame queued last begins, if it has not begun.
    pub fn last_start(&self) -> Option<Instant> {
        self.wire.last_start()
    }

    /// Returns the number of frames queued, on the wire or propagating.
    #[inline]
    pub fn held(&self) -> usize {
        self.wire.held()
    }

    /// Returns the number of frames queued at `now`. [`Self::catch_up`] must be called first.
    pub fn waiting(&self, now: Instant) -> usize {
        self.wire.waiting(now)
    }

    #[inline]
    fn send_datagram(&mut self) {
        let at = self.source.poll_deadline();
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

    /// Removes the datagrams that have arrived by `now` and are not behind another frame.
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

    /// Returns the arrival time of the next frame of others.
    fn next(&self) -> Option<Instant> {
        if self.others == 0 { None } else { self.wire.find(|frame| frame.handle() != NO_PACKET) }
    }
}
