//! One end of a TCP connection: handshake, data both ways, close and reset (RFC 9293 §3.3.2, §3.10.7).

mod arrivals;
mod handshake;
mod paws;
mod segments;

use alloc::sync::Arc;

use super::config::{Switch, TcpConfig};
use super::receiver::Receiver;
use super::rtt::TickPhase;
use super::sender::Sender;
use crate::event::Event;
use crate::host_queue::Queued;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{FlowId, Integrity, Packet, Side};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// IPv4 and TCP headers without options.
const HEADER: u16 = 40;

/// Bytes that the timestamps option takes, padded.
const TIMESTAMPS: u32 = 12;

/// Bytes that the ratio of acknowledgments takes, padded.
const ACK_RATIO: u32 = 8;

/// No IP packet is larger than this, in bytes (jumbograms as receive offload builds them included); more would leave the
/// range in which sequence numbers can be compared.
const MAX_SEGMENT: u32 = 1 << 20;

/// The least maximum segment size that is believed of a peer or a path: options at their longest and 8 bytes of payload.
const LEAST_MSS: u32 = 48;

/// What a connection needs to know at birth.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The flow that it is an end of.
    pub flow: FlowId,
    /// Which end.
    pub side: Side,
    /// Its keys.
    pub config: Arc<TcpConfig>,
    /// Its initial sequence number.
    pub iss: Seq,
    /// The phase of its host's ticks.
    pub phase: TickPhase,
    /// Whether changes of the congestion window are reported.
    pub watch: Switch,
}

/// RFC 9293 §3.3.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// What segments after the handshake may carry besides SACK blocks: asked for each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extras {
    /// Nothing.
    None,
    /// Timestamps (RFC 7323 §3).
    Timestamps,
    /// Any option.
    Any,
}

/// One end of a TCP connection. Payload bytes stay with the driver, which fills and reads them by sequence number: the
/// connection deals in lengths.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Arc<TcpConfig>,
    flow: FlowId,
    side: Side,
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// Shift of the windows that the peer advertises.
    peer_shift: u8,
    /// The maximum segment size that the peer announced.
    peer_mss: u32,
    /// Bytes of options and payload that the path takes in one segment. A driver without packets has no limit, and counts
    /// options in addition.
    path_mss: Option<u32>,
    sack: Switch,
    /// Whether both ends have agreed on ECN (RFC 3168 §6.1.1).
    ecn: Switch,
    /// Whether both ends have agreed on acknowledgment congestion control (RFC 5690 §4.1).
    ack_congestion: Switch,
    timestamps: Switch,
    extras: Extras,
    /// Whether segments that arrive carry nothing that header prediction does not look at.
    plain: Switch,
    /// The latest timestamp that the peer sent in order (RFC 7323 §4.3).
    ts_recent: u32,
    time_wait: Option<Instant>,
    /// Whether the peer's SYN is to be acknowledged before anything else is sent.
    own_ack: Switch,
    /// A reset to send: its sequence number, and what it acknowledges.
    reset: Option<(Seq, Option<Seq>)>,
    watch: Switch,
    watched: (u32, u32),
    /// Challenge acknowledgments: since when they are counted, and how many.
    challenges: (Instant, u8),
}

impl Connection {
    /// A closed connection.
    pub fn new(setup: Setup) -> Self {
        let Setup { flow, side, config, iss, phase, watch } = setup;
        Self {
            flow,
            side,
            state: State::Closed,
            sender: Sender::new(config.clone(), iss, phase, seed(flow, side, phase)),
            receiver: Receiver::new(config.clone(), phase),
            peer_shift: 0,
            peer_mss: u32::MAX,
            path_mss: None,
            sack: Switch::Off,
            ecn: Switch::Off,
            ack_congestion: Switch::Off,
            timestamps: Switch::Off,
            extras: Extras::Any,
            plain: Switch::Off,
            ts_recent: 0,
            time_wait: None,
            own_ack: Switch::Off,
            reset: None,
            watch,
            watched: (0, 0),
            challenges: (Instant::ZERO, 0),
            config,
        }
    }

    /// Opens actively: the SYN leaves at the next poll. A connection that is over stays closed.
    pub fn connect(&mut self) {
        if self.state == State::Closed && !self.sender.has_begun() {
            self.state = State::SynSent;
        }
    }

    /// Waits for a SYN. A connection that is over stays closed.
    pub fn listen(&mut self) {
        if self.state == State::Closed && !self.sender.has_begun() {
            self.state = State::Listen;
        }
    }

    /// The path takes `mss` bytes of options and payload in one segment (RFC 6691): called before the connection opens with
    /// what the interface takes, and again when the path turns out to take less (RFC 1191 §6.4). What is outstanding then is
    /// sent again in smaller segments, at once and without a reduction of the window.
    pub fn fit_path(&mut self, now: Instant, mss: u32) {
        self.path_mss = Some(mss.max(LEAST_MSS));
        if !matches!(self.state, State::Closed | State::Listen | State::SynSent) {
            self.sender.shrink_segments(now, self.largest_payload());
        }
    }

    /// Hands over `bytes` more of the stream. What does not fit into the send buffer waits.
    pub fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// Hands over as much of `bytes` more of the stream as the send buffer has room for; how much that was.
    pub fn offer(&mut self, now: Instant, bytes: u64) -> u64 {
        self.sender.offer(now, bytes)
    }

    /// No more will be written: a FIN follows the stream.
    pub fn close(&mut self) {
        match self.state {
            State::Listen | State::Closed => self.state = State::Closed,
            _ => self.sender.close(),
        }
    }

    /// Tears the connection down with a reset.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed | State::Listen | State::TimeWait) {
            let s = self.sender.state();
            self.reset = Some((s.snd_max, Some(self.receiver.rcv_nxt())));
            self.finish(Event::Aborted);
        }
    }

    /// In-order bytes not read yet.
    pub fn readable(&self) -> u64 {
        self.receiver.unread()
    }

    /// The application takes `bytes` of what is readable, which opens the window.
    pub fn read(&mut self, bytes: u64) {
        self.receiver.on_read(bytes);
    }

    /// In-order bytes received since the start, read or not.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Stream bytes that the peer has acknowledged.
    pub fn acked(&self) -> u64 {
        self.sender.acked()
    }

    /// Stream bytes handed over and not acknowledged.
    pub fn unacked(&self) -> u64 {
        self.sender.state().queued - self.sender.acked()
    }

    /// Returns the round trip that the last acknowledgment gave a sample of, if it gave one and it was not returned before. For
    /// measurement only.
    pub fn take_rtt_sample(&mut self) -> Option<Duration> {
        self.sender.take_rtt_sample()
    }

    /// How often our SYN had to be sent again.
    pub fn syn_retries(&self) -> u32 {
        self.sender.state().syn_retries
    }

    /// Where the connection stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The flow that it is an end of.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// Whether the peer's stream has ended and all of it arrived.
    pub fn peer_closed(&self) -> bool {
        self.receiver.finished()
    }

    /// Whether everything written, and the FIN after it, is acknowledged.
    pub fn all_acked(&self) -> bool {
        self.sender.fin_acked()
    }

    /// Takes a packet that arrived: [`Node::handle_packet`] for drivers that keep the packet.
    #[inline]
    pub fn take_packet(&mut self, now: Instant, packet: &Packet) {
        let Some(segment) = packet.tcp().filter(|_| packet.len <= MAX_SEGMENT) else { return };
        if packet.integrity == Integrity::PayloadDamaged {
            self.receiver.on_damaged(segment.seq, packet.len);
        } else if !self.take_predicted(now, packet, segment) {
            self.take_segment(now, packet, segment);
        }
    }

    /// Whether its share of the host's queue is bounded, so that its driver has to say when segments leave
    /// ([`Node::schedule_departure`]).
    #[inline]
    pub fn bounds_host_queue(&self) -> bool {
        self.config.bounds_host_queue()
    }

    /// Congestion window and slow-start threshold, in bytes.
    pub fn window(&self) -> (u32, u32) {
        self.sender.window()
    }

    fn finish(&mut self, event: Event) {
        self.state = State::Closed;
        self.time_wait = None;
        self.sender.report(event);
    }

    /// The clock behind TSval: milliseconds, starting at 1 so that 0 is never echoed.
    #[inline(always)]
    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_nanos() / 1_000_000 + 1) as u32
    }

    #[inline(always)]
    fn report_window(&mut self) {
        if self.watch.is_on() {
            let window = self.window();
            if window != self.watched {
                self.watched = window;
                self.sender.report(Event::Window { cwnd: window.0, ssthresh: window.1 });
            }
        }
    }

    /// Whether a pure acknowledgment is due. A closed connection still acknowledges the FIN that closed it.
    #[inline]
    fn acknowledges(&self) -> bool {
        let open = match self.state {
            State::Listen => false,
            State::Closed => self.receiver.finished(),
            _ => true,
        };
        self.receiver.ack_due() && open
    }

    fn ack_seq(&self) -> Seq {
        if self.state == State::Closed { self.sender.state().snd_max } else { self.sender.ack_seq() }
    }

    /// The FIN leaves.
    fn on_fin_sent(&mut self) {
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }
}

/// Another one for each end of each flow, and for each run where the host's phase is drawn.
fn seed(flow: FlowId, side: Side, phase: TickPhase) -> u64 {
    let end = u64::from(flow.0) << 1 | side.index() as u64;
    phase.slow.as_nanos() ^ end.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The earlier of two deadlines.
#[inline]
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Node<()> for Connection {
    #[inline]
    fn handle_packet(&mut self, now: Instant, _port: Port, packet: Packet) -> Disposition {
        self.take_packet(now, &packet);
        Disposition::Absorbed
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        self.sender.on_timer(now);
        self.receiver.on_timer(now);
        if self.sender.given_up() && self.state != State::Closed {
            self.finish(Event::Aborted);
        }
        if self.time_wait.is_some_and(|at| at <= now) {
            self.time_wait = None;
            self.state = State::Closed;
        }
        self.report_window();
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<(Port, Why)> {
        let port = if self.reset.is_some() || self.sender.is_awake() {
            self.next_segment(now, place)
        } else if self.receiver.ack_due() {
            self.next_ack(now, place)
        } else {
            None
        };
        Some((port?, Why::Own))
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        if self.state == State::Closed {
            return None;
        }
        earlier(earlier(self.sender.poll_deadline(), self.receiver.poll_deadline()), self.time_wait)
    }

    fn schedule_departure(&mut self, now: Instant, queued: Queued) {
        self.sender.schedule_departure(now, queued);
    }

    fn handle_departure(&mut self, _now: Instant, bytes: u32) {
        self.sender.on_departure(bytes);
    }

    #[inline]
    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.sender.poll_event().map(|event| (self.flow, event))
    }
}
