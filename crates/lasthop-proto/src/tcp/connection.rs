//! One end of a TCP connection: handshake, data both ways, close and reset (RFC 9293 §3.3.2, §3.10.7).

mod segments;

use alloc::sync::Arc;

use super::config::{Recovery, Switch, TcpConfig};
use super::receiver::Receiver;
use super::rtt::TickPhase;
use super::send_state::Ack;
use super::sender::{AckVerdict, Incoming, Sender};
use crate::event::Event;
use crate::node::{Node, Port};
use crate::packet::{Flags, FlowId, Integrity, Packet, SackBlocks, Segment, Side};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// IPv4 and TCP headers without options.
const HEADER: u16 = 40;

/// Bytes that the timestamps option takes, padded.
const TIMESTAMPS: u32 = 12;

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
    timestamps: Switch,
    /// Whether segments after the handshake may carry options besides SACK blocks.
    optional: Switch,
    /// The latest timestamp that the peer sent in order (RFC 7323 §4.3).
    ts_recent: u32,
    time_wait: Option<Instant>,
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
            sender: Sender::new(config.clone(), iss, phase),
            receiver: Receiver::new(config.clone(), phase),
            peer_shift: 0,
            peer_mss: u32::MAX,
            path_mss: None,
            sack: Switch::Off,
            timestamps: Switch::Off,
            optional: Switch::On,
            ts_recent: 0,
            time_wait: None,
            reset: None,
            watch,
            watched: (0, 0),
            challenges: (Instant::ZERO, 0),
            config,
        }
    }

    /// Opens actively: the SYN leaves at the next poll.
    pub fn connect(&mut self) {
        if self.state == State::Closed {
            self.state = State::SynSent;
        }
    }

    /// Waits for a SYN.
    pub fn listen(&mut self) {
        if self.state == State::Closed {
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

    /// Congestion window and slow-start threshold, in bytes.
    pub fn window(&self) -> (u32, u32) {
        let s = self.sender.state();
        (s.cc.window(), s.cc.ssthresh())
    }

    fn finish(&mut self, event: Event) {
        self.state = State::Closed;
        self.time_wait = None;
        self.sender.report(event);
    }

    fn on_listen(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.reset = Some((segment.ack, None));
        } else if segment.flags.has(Flags::SYN) {
            // Data on a SYN is not kept: the peer sends it again.
            self.negotiate(segment);
            self.receiver.on_syn(segment.seq);
            self.state = State::SynReceived;
        }
    }

    fn on_syn_sent(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        let s = self.sender.state();
        let acks = segment.flags.has(Flags::ACK);
        if acks && (segment.ack.le(s.iss) || segment.ack.gt(s.snd_max)) {
            if !segment.flags.has(Flags::RST) {
                self.reset = Some((segment.ack, None));
            }
            return;
        }
        if segment.flags.has(Flags::RST) {
            if acks {
                self.finish(Event::Aborted);
            }
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        self.negotiate(segment);
        self.receiver.on_syn(segment.seq);
        self.receiver.ack_now();
        if acks {
            self.take_ack(now, packet, segment);
            self.establish();
        } else {
            // Simultaneous open: the SYN goes out again, this time with an acknowledgment.
            self.sender.answer_syn();
            self.state = State::SynReceived;
        }
    }

    fn establish(&mut self) {
        self.state = State::Established;
        self.sender.report(Event::Established);
    }

    /// Takes over what both SYNs offer (RFC 9293 §3.7.1, RFC 7323 §2 and §3, RFC 2018 §2).
    fn negotiate(&mut self, segment: &Segment) {
        let options = &segment.options;
        self.peer_mss = u32::from(options.mss.unwrap_or(536));
        if let (Some(ours), Some(theirs)) = (self.config.window_scale, options.window_scale) {
            self.receiver.window_shift = ours.min(14);
            self.peer_shift = theirs.min(14);
        }
        if self.config.recovery == Recovery::Sack && options.sack_permitted {
            self.sack = Switch::On;
        }
        if let (Switch::On, Some(timestamps)) = (self.config.timestamps, options.timestamps) {
            self.timestamps = Switch::On;
            self.ts_recent = timestamps.val;
        }
        let marks = self.config.smart_acks.is_on() || self.reports_damage();
        let optional = marks || self.timestamps.is_on();
        self.optional = if optional { Switch::On } else { Switch::Off };
        self.sender.limit_mss(self.largest_payload());
        self.sender.set_window(u32::from(segment.window), segment.seq, segment.ack);
    }

    /// The largest payload that peer and path take beside the options that every segment carries (RFC 6691 §2).
    fn largest_payload(&self) -> u32 {
        let Some(path) = self.path_mss else { return self.peer_mss };
        self.peer_mss.min(path).max(LEAST_MSS) - self.options_len(self.timestamps)
    }

    /// Bytes of the options that segments carry besides SACK blocks, with timestamps or without.
    fn options_len(&self, timestamps: Switch) -> u32 {
        let marks = if self.config.smart_acks.is_on() { 8 } else { 0 } + if self.reports_damage() { 4 } else { 0 };
        marks + if timestamps.is_on() { TIMESTAMPS } else { 0 }
    }

    /// Header prediction (Van Jacobson, as in 4.4BSD `tcp_input`): in a stream that flows one way a segment is the next data
    /// and nothing else, or a pure acknowledgment. Says whether it was either; a segment that was not goes through all the
    /// checks, with the same result.
    #[inline]
    fn take_predicted(&mut self, now: Instant, packet: &Packet, segment: &Segment) -> bool {
        let expected = self.state == State::Established
            && segment.flags == Flags::ACK
            && self.receiver.expects(segment.seq, packet.len)
            && !self.timestamps.is_on();
        if !expected {
            return false;
        }
        if packet.len == 0 {
            self.take_pure_ack(now, packet, segment);
            return true;
        }
        let window = u32::from(segment.window) << self.peer_shift;
        let predicted = segment.options.sack.is_empty() && self.sender.on_nothing_new(segment.seq, segment.ack, window);
        if predicted {
            self.receiver.on_data(now, segment.seq, packet.len, Switch::Off);
            self.after_data(now);
        }
        predicted
    }

    #[inline(never)]
    fn take_pure_ack(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        if self.take_ack(now, packet, segment) == AckVerdict::Implausible {
            self.challenge(now);
        }
        self.report_window();
    }

    /// RFC 9293 §3.10.7.
    #[inline(never)]
    fn take_segment(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        match self.state {
            State::Closed => {
                // RFC 9293 §3.10.7.1.
                if segment.flags.has(Flags::RST) {
                } else if segment.flags.has(Flags::ACK) {
                    self.reset = Some((segment.ack, None));
                } else {
                    self.reset = Some((Seq(0), Some(segment.seq + packet.seq_len())));
                }
            }
            State::Listen => self.on_listen(segment),
            State::SynSent => self.on_syn_sent(now, packet, segment),
            _ => self.on_synchronized(now, packet, segment),
        }
        self.report_window();
    }

    /// RFC 9293 §3.10.7.4 from the first check on.
    fn on_synchronized(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        let mut seq_len = packet.seq_len();
        let mut segment = segment;
        let trimmed;
        if self.state == State::SynReceived
            && segment.flags.has(Flags::SYN.with(Flags::ACK))
            && segment.seq + 1 == self.receiver.rcv_nxt()
        {
            // The second half of a simultaneous open (RFC 9293 §3.5, figure 7). Its SYN lies left of the window and is
            // trimmed off.
            trimmed = Segment { seq: segment.seq + 1, flags: Flags(segment.flags.0 & !Flags::SYN.0), ..*segment };
            segment = &trimmed;
            seq_len -= 1;
        }
        if self.is_replay(segment) || !self.receiver.acceptable(segment.seq, seq_len) {
            self.on_unacceptable(now, packet, segment, seq_len);
            return;
        }
        if segment.flags.has(Flags::RST) {
            // RFC 5961 §3.2: only an exact hit resets; a near miss is challenged.
            if segment.seq == self.receiver.rcv_nxt() {
                self.on_reset();
            } else {
                self.challenge(now);
            }
            return;
        }
        if segment.flags.has(Flags::SYN) {
            // RFC 5961 §4.2.
            self.challenge(now);
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        // RFC 7323 §4.3: the echo is that of the earliest segment not acknowledged yet, so that delayed acknowledgments
        // count into the peer's samples.
        if let Some(timestamps) = segment.options.timestamps
            && segment.seq.le(self.receiver.last_ack_sent())
        {
            self.ts_recent = timestamps.val;
        }
        if self.state == State::SynReceived {
            let s = self.sender.state();
            if segment.ack.le(s.snd_una) || segment.ack.gt(s.snd_max) {
                self.reset = Some((segment.ack, None));
                return;
            }
            self.establish();
        }
        if self.take_ack(now, packet, segment) == AckVerdict::Implausible {
            self.challenge(now);
            return;
        }
        self.after_ack(now);
        if packet.len > 0 || segment.flags.has(Flags::FIN) {
            self.take_data(now, packet, segment);
        }
    }

    /// Answers a segment that carries nothing and does not fit, at most ten times in five seconds (RFC 5961 §7): two ends
    /// that disagree must not acknowledge each other's acknowledgments for ever at full speed.
    fn challenge(&mut self, now: Instant) {
        if now.since(self.challenges.0) >= Duration::from_secs(5) {
            self.challenges = (now, 0);
        }
        if self.challenges.1 < 10 {
            self.challenges.1 += 1;
            self.receiver.ack_now();
        }
    }

    /// A valid reset. In TIME-WAIT both directions were finished already, so nothing is lost (RFC 9293 §3.10.7.4).
    fn on_reset(&mut self) {
        if self.state == State::TimeWait {
            self.state = State::Closed;
            self.time_wait = None;
        } else {
            self.finish(Event::Aborted);
        }
    }

    /// RFC 7323 §5 (PAWS).
    fn is_replay(&self, segment: &Segment) -> bool {
        self.timestamps.is_on()
            && !segment.flags.has(Flags::RST)
            && segment.options.timestamps.is_some_and(|ts| Seq(ts.val).lt(Seq(self.ts_recent)))
    }

    fn on_unacceptable(&mut self, now: Instant, packet: &Packet, segment: &Segment, seq_len: u32) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if self.state == State::SynReceived && segment.flags.has(Flags::SYN) {
            // Our SYN was lost or is still to come; its timer repeats it.
            return;
        }
        if self.acknowledges_from_the_left(segment) && self.take_ack(now, packet, segment) == AckVerdict::Taken {
            self.after_ack(now);
            if seq_len == 0 {
                return;
            }
        }
        if packet.len > 0 && (segment.seq + seq_len).le(self.receiver.rcv_nxt()) {
            self.receiver.on_data(now, segment.seq, packet.len, Switch::Off);
        } else if seq_len > 0 {
            self.receiver.ack_now();
        } else {
            self.challenge(now);
        }
        if self.state == State::TimeWait {
            self.time_wait = Some(now + self.config.time_wait);
        }
    }

    /// Whether a segment that lies left of the window brings an acknowledgment worth taking: 4.4BSD drops the data of such a
    /// segment and goes on with the rest, RFC 9293 §3.10.7.4 wants "special allowance" at a closed window. Two ends that probe
    /// each other's closed windows would otherwise refuse each other's acknowledgments for ever.
    fn acknowledges_from_the_left(&self, segment: &Segment) -> bool {
        let s = self.sender.state();
        let near = self.receiver.rcv_nxt().since(segment.seq) <= self.config.receive_buffer;
        let left = segment.seq.lt(self.receiver.rcv_nxt()) && near;
        let news = segment.ack.gt(s.snd_una) || (s.snd_wnd == 0 && segment.ack == s.snd_una && segment.window > 0);
        let synchronized = self.state != State::SynReceived;
        left && news
            && synchronized
            && segment.flags.has(Flags::ACK)
            && !segment.flags.has(Flags::SYN)
            && !self.is_replay(segment)
    }

    #[inline]
    fn take_ack(&mut self, now: Instant, packet: &Packet, segment: &Segment) -> AckVerdict {
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.peer_shift };
        let options = &segment.options;
        let echoed = match (self.timestamps, options.timestamps) {
            (Switch::On, Some(timestamps)) if timestamps.ecr != 0 => {
                // The clock counts milliseconds and starts at 1.
                let age = (self.timestamp(now)).wrapping_sub(timestamps.ecr);
                let age = Duration::from_millis(u64::from(age));
                Some(Instant::from_nanos(now.as_nanos().saturating_sub(age.as_nanos())))
            }
            _ => None,
        };
        let ack = Ack {
            ack: segment.ack,
            sack: if self.sack.is_on() { &options.sack } else { &SackBlocks::NONE },
            smart: options.smart,
            eln: if options.eln { Switch::On } else { Switch::Off },
        };
        let window = u32::from(segment.window) << shift;
        let incoming = Incoming { ack, window, seq_len: packet.seq_len(), seq: segment.seq, echoed };
        self.sender.on_ack(now, &incoming)
    }

    /// State changes that the acknowledgment of our FIN brings.
    fn after_ack(&mut self, now: Instant) {
        if !self.sender.fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.finish(Event::Closed),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.time_wait = Some(now + self.config.time_wait);
        self.sender.report(Event::Closed);
    }

    fn take_data(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // After the peer's FIN there is no more data; it repeats itself because our acknowledgment was lost.
            self.receiver.ack_now();
            return;
        }
        let fin = if segment.flags.has(Flags::FIN) { Switch::On } else { Switch::Off };
        self.receiver.on_data(now, segment.seq, packet.len, fin);
        self.after_data(now);
    }

    /// The state change that the end of the peer's stream brings.
    #[inline]
    fn after_data(&mut self, now: Instant) {
        if !self.receiver.finished() {
            return;
        }
        self.receiver.ack_now();
        self.sender.report(Event::PeerClosed);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
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
    fn handle_packet(&mut self, now: Instant, _port: Port, packet: Packet) {
        self.take_packet(now, &packet);
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
    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        if self.reset.is_some() || self.sender.is_awake() {
            self.next_segment(now, place)
        } else if self.receiver.ack_due() {
            self.next_ack(now, place)
        } else {
            None
        }
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        if self.state == State::Closed {
            return None;
        }
        earlier(earlier(self.sender.poll_deadline(), self.receiver.poll_deadline()), self.time_wait)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.sender.poll_event().map(|event| (self.flow, event))
    }
}
