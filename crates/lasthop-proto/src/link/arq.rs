//! Automatic repeat request on one link: stop-and-wait, go-back-N and selective repeat (multireject, after Brady 1987;
//! \[b\]).
//!
//! Each end of the link is an [`Arq`]. What comes in at [`Port::WIRED`] is numbered and sent over the hop; what comes
//! in at [`Port::WIRELESS`] is acknowledged and handed out at [`Port::WIRED`]. The two directions are independent,
//! and no flow is looked at. `docs/models/arq.md` has the rules with their reasons.

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
use crate::link::headers::LinkProtocol;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{Body, Cause, FlowId, Integrity, Packet, Priority};
use crate::time::{Duration, Instant};

/// The largest usable window, in frames: half of the numbers, so that a receiver can tell a frame that it waits for
/// from one that it had before.
pub const MAX_WINDOW: u16 = 1 << 15;

/// Shortest time, for timers and repeated NACKs: with none at all time would not go on.
const FLOOR: Duration = Duration::from_micros(1);

/// What leaves an end.
type Outbox<P> = VecDeque<(Port, Why, Packet<P>)>;

/// Which frames are sent again when one is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// One frame at a time.
    StopAndWait,
    /// The missing frame and all that follow it; the receiver keeps nothing out of order.
    GoBackN,
    /// The missing frames only.
    SelectiveRepeat,
}

/// When frames that arrive behind a gap are handed on. Only selective repeat keeps such frames; the others are not
/// affected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// When the gap is filled.
    InOrder,
    /// At once.
    Immediate,
}

/// How long a frame's acknowledgment is waited for. The time counts from when the frame is handed to the link: what
/// it then waits in a queue below is part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// So long, each time.
    Fixed(Duration),
    /// As RFC 6298 estimates it from the link's own round trips (1 s before the first), at least so long. Doubled
    /// each time it expires for the same frame, up to 64 s.
    Estimated {
        /// Lower bound.
        min: Duration,
    },
}

/// Parameters of both ends, which must agree.
#[derive(Clone, PartialEq, Debug)]
pub struct ArqConfig {
    /// Which frames are sent again.
    pub protocol: Protocol,
    /// Frames that may be sent and not acknowledged: at least 1, at most [`MAX_WINDOW`], whatever is asked for.
    /// Stop-and-wait has a window of 1.
    pub window: u16,
    /// Bytes that the protocol adds to each frame, control frames included.
    pub header: u16,
    /// How long an acknowledgment is waited for.
    pub timer: Timer,
    /// How long the receiver waits before it asks again for a frame that is still missing; `None` asks once.
    pub nack_again: Option<Duration>,
    /// Retransmissions of a frame before it is given up; `None` never gives up.
    pub max_retransmissions: Option<u32>,
    /// When frames behind a gap are handed on.
    pub delivery: Delivery,
    /// Packets that wait for the window; what comes on top is dropped.
    pub queue: u32,
}

impl ArqConfig {
    /// The window in use, in frames.
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
    /// One for packets without payload, behind the contract. It is compiled here, with the mechanism, wherever it is asked for.
    pub fn boxed(config: ArqConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P> Arq<P> {
    /// An end that has sent and received nothing.
    pub fn new(config: ArqConfig) -> Self {
        let config = ArqConfig { window: config.usable_window(), ..config };
        Self { sender: Sender::new(&config), receiver: Receiver::new(), out: VecDeque::new(), config }
    }

    /// Frames sent and not acknowledged, those given up included until the other end knows: at most the window.
    pub fn unacknowledged(&self) -> usize {
        self.sender.unacknowledged()
    }

    /// Packets that wait for the window: at most [`ArqConfig::queue`].
    pub fn waiting(&self) -> usize {
        self.sender.waiting()
    }

    /// Frames that were received and wait for a gap to be filled: fewer than the window.
    pub fn held(&self) -> usize {
        self.receiver.held()
    }

    /// Packets dropped since the start because too many waited for the window.
    pub fn dropped(&self) -> u64 {
        self.sender.dropped()
    }

    /// Frames given up since the start. Some of them may have arrived, unknown to this end.
    pub fn given_up(&self) -> u64 {
        self.sender.given_up()
    }
}

impl<P: Clone + Default> Arq<P> {
    fn on_wired(&mut self, now: Instant, packet: Packet<P>) -> Disposition {
        if packet.integrity == Integrity::Intact && packet.link.has_room(Header::LEN) {
            return self.sender.on_packet(now, &self.config, packet, &mut self.out);
        }
        // The other end would take damage done before this hop for damage done by it, and ask for the frame for
        // ever.
        self.out.push_back((Port::WIRELESS, Why::Given, packet));
        Disposition::Forwarded
    }

    fn on_wireless(&mut self, now: Instant, packet: Packet<P>) -> Disposition {
        let Some(header) = packet.link.read(LinkProtocol::ARQ) else {
            self.out.push_back((Port::WIRED, Why::Given, packet));
            return Disposition::Forwarded;
        };
        // A checksum covers the whole frame: what is damaged did not arrive.
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
        self.receiver.on_timeout(now, &self.config, &mut self.out);
        self.sender.on_timeout(now, &self.config, &mut self.out);
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, why, packet) = self.out.pop_front()?;
        *place = packet;
        Some((port, why))
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        let deadline = self.sender.deadline().min(self.receiver.deadline());
        (deadline < Instant::FAR_FUTURE).then_some(deadline)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        None
    }
}

/// A control frame. It is urgent: behind queued data it would come too late to prevent what it is to prevent.
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
