//! Automatic repeat request on one link: stop-and-wait, go-back-N and selective repeat (multireject, after Brady 1987;
//! \[b\]).
//!
//! Each end of the link is an [`Arq`]. Packets that arrive at [`Port::WIRED`] are numbered and sent over the hop.
//! Frames that arrive at [`Port::WIRELESS`] are acknowledged and passed on at [`Port::WIRED`]. The two directions are
//! independent, and flows are not distinguished. `docs/models/arq.md` explains the rules.

mod header;
mod receiver;
mod rto;
mod sender;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

pub use self::header::Header;
use self::receiver::Receiver;
use self::sender::Sender;
use crate::event::Event;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::headers::LinkProtocol;
use crate::packet::{Body, Cause, FlowId, Integrity, Packet, Priority};
use crate::time::{Duration, Instant};

/// Maximum usable window, in frames: half of the numbers, so that a receiver can distinguish a new frame from one that
/// it had before.
pub const MAX_WINDOW: u16 = 1 << 15;

/// Minimum time of timers and repeated NACKs, without which time would not advance.
const FLOOR: Duration = Duration::from_micros(1);

/// Output of an end.
type Outbox<P> = VecDeque<(Port, Why, Packet<P>)>;

/// Frames to retransmit when one is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// One frame at a time.
    StopAndWait,
    /// The missing frame and all that follow it; the receiver stores nothing out of order.
    GoBackN,
    /// The missing frames only.
    SelectiveRepeat,
}

/// Time at which frames behind a gap are passed on. Only selective repeat stores such frames; the others are not
/// affected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Once the gap is filled.
    InOrder,
    /// At once.
    Immediate,
}

/// Retransmission timeout of a frame. It counts from when the frame is passed to the link and includes the time in a
/// queue below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// A constant time.
    Fixed(Duration),
    /// The RFC 6298 estimate from the link's own round trips (1 s before the first), with a lower bound. It is doubled
    /// each time it expires for the same frame, up to 64 s.
    Estimated {
        /// Lower bound.
        min: Duration,
    },
}

/// Parameters of both ends, which must agree.
#[derive(Clone, PartialEq, Debug)]
pub struct ArqConfig {
    /// Frames to retransmit when one is missing.
    pub protocol: Protocol,
    /// Maximum number of unacknowledged frames: limited to 1 to [`MAX_WINDOW`]. Stop-and-wait has a window of 1.
    pub window: u16,
    /// Bytes that the protocol adds to each frame, control frames included.
    pub header: u16,
    /// Retransmission timeout.
    pub timer: Timer,
    /// Time after which the receiver requests a frame again that is still missing; `None` requests it once.
    pub nack_again: Option<Duration>,
    /// Maximum number of retransmissions of a frame before it is given up; `None` never gives up.
    pub max_retransmissions: Option<u32>,
    /// Time at which frames behind a gap are passed on.
    pub delivery: Delivery,
    /// Maximum number of packets that wait for the window; further ones are dropped.
    pub queue: u32,
}

impl ArqConfig {
    /// Returns the window in use, in frames.
    fn usable_window(&self) -> u16 {
        match self.protocol {
            Protocol::StopAndWait => 1,
            Protocol::GoBackN | Protocol::SelectiveRepeat => self.window.clamp(1, MAX_WINDOW),
        }
    }
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct Arq<P = ()> {
    config: ArqConfig,
    sender: Sender<P>,
    receiver: Receiver<P>,
    out: Outbox<P>,
}

impl Arq<()> {
    /// Returns an end for packets without payload as a trait object, so that it is compiled in this crate.
    pub fn boxed(config: ArqConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P> Arq<P> {
    /// Returns an end that has sent and received nothing.
    pub fn new(config: ArqConfig) -> Self {
        let config = ArqConfig { window: config.usable_window(), ..config };
        Self { sender: Sender::new(&config), receiver: Receiver::new(), out: VecDeque::new(), config }
    }

    /// Returns the number of unacknowledged frames, including given-up ones until the other end knows of them: at most
    /// the window.
    pub fn unacknowledged(&self) -> usize {
        self.sender.unacknowledged()
    }

    /// Returns the number of packets that wait for the window: at most [`ArqConfig::queue`].
    pub fn waiting(&self) -> usize {
        self.sender.waiting()
    }

    /// Returns the number of received frames that wait for a gap to be filled: fewer than the window.
    pub fn held(&self) -> usize {
        self.receiver.held()
    }

    /// Returns the number of packets dropped since the start because too many waited for the window.
    pub fn dropped(&self) -> u64 {
        self.sender.dropped()
    }

    /// Returns the number of frames given up since the start. Some of them may have arrived, unknown to this end.
    pub fn given_up(&self) -> u64 {
        self.sender.given_up()
    }
}

impl<P: Clone + Default> Arq<P> {
    fn on_wired(&mut self, now: Instant, packet: Packet<P>) -> Disposition {
        if packet.integrity == Integrity::Intact && packet.link.has_room(Header::LEN) {
            return self.sender.on_packet(now, &self.config, packet, &mut self.out);
        }
        // The other end would attribute damage before this hop to the hop, and request the frame forever.
        self.out.push_back((Port::WIRELESS, Why::Given, packet));
        Disposition::Forwarded
    }

    fn on_wireless(&mut self, now: Instant, packet: Packet<P>) -> Disposition {
        let Some(header) = packet.link.read(LinkProtocol::ARQ) else {
            self.out.push_back((Port::WIRED, Why::Given, packet));
            return Disposition::Forwarded;
        };
        // A checksum covers the whole frame: a corrupted one counts as lost.
        let whole = packet.integrity == Integrity::Intact;
        let Some(header) = Header::from_bytes(header).filter(|_| whole) else { return Disposition::Dropped };
        let (config, out) = (&self.config, &mut self.out);
        match header {
            Header::Data(number) => return self.receiver.on_data(now, config, number, packet, out),
            Header::Ack(next) => self.sender.on_ack(now, config, next, out),
            Header::Nack(number) => self.sender.on_nack(now, config, number, out),
            Header::Skip(next) => self.receiver.on_skip(config, next, out),
        }
        Disposition::Absorbed
    }
}

impl<P: Clone + Default> Node<P> for Arq<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition {
        if port == Port::WIRED { self.on_wired(now, packet) } else { self.on_wireless(now, packet) }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.receiver.handle_timeout(now, &self.config, &mut self.out);
        self.sender.handle_timeout(now, &self.config, &mut self.out);
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, why, packet) = self.out.pop_front()?;
        *place = packet;
        Some((port, why))
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        let deadline = self.sender.poll_deadline().min(self.receiver.poll_deadline());
        (deadline < Instant::FAR_FUTURE).then_some(deadline)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        None
    }
}

/// Returns a control frame. It is urgent: behind queued data it would be too late to be useful.
fn control<P: Default>(config: &ArqConfig, header: Header) -> (Port, Why, Packet<P>) {
    let packet = Packet {
        flow: FlowId::NONE,
        priority: Priority::Urgent,
        cause: Cause::LinkControl,
        header_len: config.header,
        body: Body::Control,
        link: header.into(),
        ..Packet::default()
    };
    (Port::WIRELESS, Why::Control, packet)
}
