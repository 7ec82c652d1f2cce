//! One end of a TCP connection: handshake, data in both directions, close and reset (RFC 9293 §3.3.2, §3.10.7).

mod accurate;
mod arrivals;
mod describe;
mod handshake;
mod linux;
mod offload;
mod options;
mod paws;
mod segments;
mod time_wait;

use alloc::boxed::Box;
use alloc::sync::Arc;

use self::accurate::Accurate;
use self::offload::Offload;
pub use self::options::Keepalive;
use self::options::KeepaliveState;
use super::config::{Switch, TcpConfig};
use super::receiver::Receiver;
use super::rtt::TickPhase;
use super::sender::Sender;
pub use super::state::State;
use crate::event::Event;
use crate::host_queue::Queued;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{Flags, FlowId, Integrity, Packet, Segment, Side};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Length of IPv4 and TCP headers without options.
const HEADER: u16 = 40;

/// Length of the timestamps option, padded.
const TIMESTAMPS: u32 = 12;

/// Length of the acknowledgment-ratio option, padded.
const ACK_RATIO: u32 = 8;

/// Maximum payload of a credible IP packet, in bytes. Covers the jumbograms that receive offload builds; longer ones
/// would exceed the range in which sequence numbers can be compared.
const MAX_SEGMENT: u32 = 1 << 20;

/// Minimum segment size accepted from a peer or a path: options at their maximum and 8 bytes of payload.
const LEAST_MSS: u32 = 48;

/// Initial parameters of a connection.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Flow that the connection is an end of.
    pub flow: FlowId,
    /// Side of the end.
    pub side: Side,
    /// Keys of the end.
    pub config: Arc<TcpConfig>,
    /// Initial sequence number of the end.
    pub iss: Seq,
    /// Phase of the host's ticks.
    pub phase: TickPhase,
    /// On if changes of the congestion window are reported.
    pub watch: Switch,
}

/// Options that segments after the handshake may carry besides SACK blocks. Checked for each segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extras {
    /// None.
    None,
    /// Timestamps (RFC 7323 §3).
    Timestamps,
    /// Any option.
    Any,
}

/// A reset to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reset {
    /// Answer to a segment: its sequence number, and its acknowledgment number.
    Answer(Seq, Option<Seq>),
    /// End of the connection by the application, with the header of any other segment of the connection (Linux
    /// `tcp_send_active_reset`).
    Active,
}

impl Reset {
    /// Returns the answer to a segment that ends at `end` (RFC 9293 §3.10.7.1).
    fn to(segment: &Segment, end: Seq) -> Self {
        if segment.flags.has(Flags::ACK) { Self::Answer(segment.ack, None) } else { Self::Answer(Seq(0), Some(end)) }
    }
}

/// Reports of changes of the congestion window.
#[derive(Clone, Copy, Debug)]
struct Watch {
    is_on: Switch,
    /// Congestion window and slow-start threshold as reported last, in bytes.
    window: (u32, u32),
}

/// Count of challenge acknowledgments.
#[derive(Clone, Copy, Debug)]
struct Challenges {
    /// Start of the count.
    since: Instant,
    /// Number sent since.
    sent: u8,
}

/// End of a connection.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// End of the wait for stray segments or for the peer's FIN; [`Instant::FAR_FUTURE`] without one.
    time_wait: Instant,
    /// On if the application reads no more.
    released: Switch,
    /// Window field of acknowledgments once a short record has replaced the socket.
    record_window: Option<u16>,
}

/// One end of a TCP connection. Payload bytes stay with the driver, which fills and reads them by sequence number; the
/// connection handles only lengths.
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
    /// Maximum segment size that the peer announced.
    peer_mss: u32,
    /// Bytes of options and payload that the path carries in one segment. A driver without packets has no limit, and
    /// counts options in addition.
    path_mss: Option<u32>,
    sack: Switch,
    /// On if both ends have negotiated ECN (RFC 3168 §6.1.1).
    ecn: Switch,
    /// State of accurate ECN (RFC 9768), if both ends have negotiated it.
    accurate: Option<Box<Accurate>>,
    /// On if both ends have negotiated acknowledgment congestion control (RFC 5690 §4.1).
    ack_congestion: Switch,
    timestamps: Switch,
    extras: Extras,
    /// On if arriving segments carry nothing that header prediction ignores.
    plain: Switch,
    /// Latest timestamp that the peer sent in order (RFC 7323 §4.3).
    ts_recent: u32,
    ending: Ending,
    /// On if the peer's SYN has to be acknowledged before anything else is sent.
    own_ack: Switch,
    reset: Option<Reset>,
    watch: Watch,
    challenges: Challenges,
    /// Probes of an idle connection, if enabled.
    keepalive: Option<Box<KeepaliveState>>,
    /// Receive offload of the host, if enabled.
    offload: Option<Box<Offload>>,
    /// Timestamps of the first and the last SYN of this end.
    syn_stamps: (u32, u32),
}

impl Connection {
    /// Returns a closed connection.
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
            accurate: None,
            ack_congestion: Switch::Off,
            timestamps: Switch::Off,
            extras: Extras::Any,
            plain: Switch::Off,
            ts_recent: 0,
            ending: Ending { time_wait: Instant::FAR_FUTURE, released: Switch::Off, record_window: None },
            own_ack: Switch::Off,
            reset: None,
            watch: Watch { is_on: watch, window: (0, 0) },
            challenges: Challenges { since: Instant::ZERO, sent: 0 },
            keepalive: None,
            offload: Offload::new(&config),
            syn_stamps: (0, 0),
            config,
        }
    }

    /// Opens actively: the SYN leaves at the next poll. A closed connection stays closed.
    pub fn connect(&mut self) {
        if self.state == State::Closed && !self.sender.has_begun() {
            self.state = State::SynSent;
        }
    }

    /// Waits for a SYN. A closed connection stays closed.
    pub fn listen(&mut self) {
        if self.state == State::Closed && !self.sender.has_begun() {
            self.state = State::Listen;
        }
    }

    /// Sets the number of bytes of options and payload that the path carries in one segment (RFC 6691). Called before
    /// the connection opens with the interface's value, and again if the path turns out to carry less (RFC 1191 §6.4).
    /// Outstanding data is then retransmitted in smaller segments, at once and without a window reduction.
    pub fn fit_path(&mut self, now: Instant, mss: u32) {
        self.path_mss = Some(mss.max(LEAST_MSS));
        if !matches!(self.state, State::Closed | State::Listen | State::SynSent) {
            self.sender.shrink_segments(now, self.largest_payload().saturating_sub(self.reserved_for_option()));
        }
    }

    /// Adds `bytes` to the stream. Data that does not fit into the send buffer waits.
    pub fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// Adds as much of `bytes` to the stream as the send buffer has capacity for, and returns that amount.
    pub fn offer(&mut self, now: Instant, bytes: u64) -> u64 {
        self.sender.offer(now, bytes)
    }

    /// Closes the stream: a FIN follows the written data.
    pub fn close(&mut self) {
        match self.state {
            State::Listen | State::Closed => self.state = State::Closed,
            _ => self.sender.close(),
        }
        if self.receiver.is_linux() {
            // Linux changes state before the FIN leaves (`tcp_close_state`).
            self.on_fin_sent();
        }
    }

    /// Aborts the connection with a reset.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed | State::Listen | State::TimeWait) {
            let s = self.sender.stream();
            self.reset = Some(match self.receiver.is_linux() {
                true => Reset::Active,
                false => Reset::Answer(s.snd_max(), Some(self.receiver.rcv_nxt())),
            });
            self.finish(Event::Aborted);
        }
    }

    /// Returns the number of in-order bytes not read yet.
    pub fn readable(&self) -> u64 {
        self.receiver.unread()
    }

    /// Records that the application reads `bytes`, which opens the window.
    pub fn read(&mut self, bytes: u64) {
        self.receiver.on_read(bytes);
    }

    /// Returns the number of in-order bytes received since the start, read or not.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Returns the number of stream bytes that the peer has acknowledged.
    pub fn acked(&self) -> u64 {
        self.sender.acked()
    }

    /// Returns the number of stream bytes written and not acknowledged.
    pub fn unacked(&self) -> u64 {
        self.sender.stream().queued() - self.sender.acked()
    }

    /// Returns the round-trip sample of the last acknowledgment, if there was one and it was not returned before. For
    /// measurement only.
    pub fn take_rtt_sample(&mut self) -> Option<Duration> {
        self.sender.take_rtt_sample()
    }

    /// Returns the number of retransmissions of this end's SYN.
    pub fn syn_retries(&self) -> u32 {
        self.sender.stream().syn_retries()
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the flow that the connection is an end of.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// Returns whether the peer's stream has ended and all of it arrived.
    pub fn peer_closed(&self) -> bool {
        self.receiver.finished()
    }

    /// Returns whether everything written, and the FIN after it, is acknowledged.
    pub fn all_acked(&self) -> bool {
        self.sender.fin_acked()
    }

    /// Processes a packet that arrived: [`Node::handle_packet`] for drivers that keep the packet.
    #[inline]
    pub fn take_packet(&mut self, now: Instant, packet: &Packet) {
        if self.offload.is_some() { self.take_offloaded(now, packet) } else { self.take_whole(now, packet) }
    }

    /// Processes a packet as TCP gets it from its host.
    #[inline]
    fn take_whole(&mut self, now: Instant, packet: &Packet) {
        let Some(segment) = packet.tcp().filter(|_| packet.len <= MAX_SEGMENT) else { return };
        if let Some(keepalive) = &mut self.keepalive {
            (keepalive.heard, keepalive.sent) = (now, 0);
        }
        if packet.integrity == Integrity::PayloadDamaged {
            self.receiver.on_damaged(segment.seq, packet.len);
        } else if !self.take_predicted(now, packet, segment) {
            self.take_segment(now, packet, segment);
        }
    }

    /// Returns whether the connection's share of the host's queue is limited, so that its driver has to report when
    /// segments leave ([`Node::schedule_departure`]).
    #[inline]
    pub fn bounds_host_queue(&self) -> bool {
        self.config.bounds_host_queue()
    }

    /// Returns whether [`Node::handle_timeout`] has no effect at all before the deadline. A sender with RACK-TLP
    /// reconsiders a burst that it has deferred.
    #[inline]
    pub fn ignores_early_timeouts(&self) -> bool {
        self.sender.is_classic()
    }

    /// Returns congestion window and slow-start threshold, in bytes.
    pub fn window(&self) -> (u32, u32) {
        self.sender.window()
    }

    fn finish(&mut self, event: Event) {
        self.state = State::Closed;
        self.ending.time_wait = Instant::FAR_FUTURE;
        self.keepalive = None;
        self.sender.report(event);
    }

    /// Returns the TSval clock: milliseconds, starting at 1 so that 0 is never echoed.
    #[inline(always)]
    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_nanos() / 1_000_000 + 1) as u32
    }

    #[inline(always)]
    fn report_window(&mut self) {
        if self.watch.is_on.is_on() {
            let window = self.window();
            if window != self.watch.window {
                self.watch.window = window;
                self.sender.report(Event::Window { cwnd: window.0, ssthresh: window.1 });
            }
        }
    }

    /// Returns whether a pure acknowledgment is due. A closed connection still acknowledges the FIN that closed it.
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
        let s = self.sender.stream();
        match self.state {
            _ if self.receiver.is_linux() => s.acceptable_seq(self.receiver.window_shift),
            State::Closed => s.snd_max(),
            _ => s.ack_seq(),
        }
    }

    /// Records that the FIN leaves.
    fn on_fin_sent(&mut self) {
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }
}

/// Returns a different seed for each end of each flow, and for each run if the host's phase is drawn.
fn seed(flow: FlowId, side: Side, phase: TickPhase) -> u64 {
    let end = u64::from(flow.0) << 1 | side.index() as u64;
    phase.slow.as_nanos() ^ end.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the earlier of two deadlines.
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
        if self.offload.is_some() {
            self.take_due(now);
        }
        self.sender.on_timer(now);
        if self.state == State::SynSent {
            self.repeat_syn_evenly(now);
        }
        self.receiver.on_timer(now);
        if self.sender.given_up() && self.state != State::Closed {
            self.finish(Event::Aborted);
        }
        if self.keepalive.is_some() {
            self.on_keepalive_timer(now);
        }
        if self.ending.time_wait <= now {
            self.ending.time_wait = Instant::FAR_FUTURE;
            self.state = State::Closed;
        }
        self.report_window();
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<(Port, Why)> {
        let port = if self.reset.is_some() || self.sender.is_awake() || self.keepalive.is_some() {
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
        let halves = earlier(self.sender.poll_deadline(), self.receiver.poll_deadline());
        let time_wait = Some(self.ending.time_wait).filter(|at| *at != Instant::FAR_FUTURE);
        let offload = self.offload.as_ref().and_then(|offload| offload.poll_deadline());
        earlier(earlier(halves, offload), earlier(time_wait, self.keepalive_timer()))
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
