//! Sending half of a connection: the stream, one of two senders that decide what leaves, the answers to echoed marks,
//! and the control of the peer's acknowledgments.

mod ack_ratio;
pub(in crate::tcp) mod contract;
mod kind;
mod marks;

use alloc::boxed::Box;
use alloc::sync::Arc;

pub use self::ack_ratio::Seen;
use self::contract::Sending;
use self::kind::{Kind, each};
use super::ack::{AckVerdict, Incoming};
use super::config::TcpConfig;
use super::info::TcpInfo;
use super::rtt::TickPhase;
use super::stream::{Quota, Stream, Transmission, Turn};
use crate::event::Event;
use crate::host_queue::Queued;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    stream: Stream,
    kind: Kind,
    /// State of ECN.
    marks: marks::Marks,
    /// Control of the peer's acknowledgments, if enabled.
    ack_ratio: Option<Box<ack_ratio::AckRatio>>,
}

impl Sender {
    /// Returns a sender before its SYN. Random draws of its congestion control derive from `seed`.
    pub fn new(config: Arc<TcpConfig>, iss: Seq, phase: TickPhase, seed: u64) -> Self {
        Self {
            kind: Kind::new(&config, seed),
            stream: Stream::new(config, iss, phase),
            marks: marks::Marks::default(),
            ack_ratio: None,
        }
    }

    /// Returns sequence numbers, the peer's window and counters.
    #[inline]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns whether the sender is the classic one.
    #[inline]
    pub fn is_classic(&self) -> bool {
        matches!(self.kind, Kind::Classic(_))
    }

    /// Returns the stream, to change its socket options or its segments.
    #[inline]
    pub fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Sends the data that waits, if an option that was changed permits it.
    pub fn resume(&mut self) {
        self.stream.wake();
        each!(&mut self.kind, sender => sender.on_write());
    }

    /// Returns the latest round-trip sample, if it was not returned before.
    pub fn take_rtt_sample(&mut self) -> Option<Duration> {
        self.stream.rtt_mut().take_latest()
    }

    /// Adopts the smaller of the two segment sizes, in which the initial window counts (RFC 6928 §2).
    pub fn limit_mss(&mut self, mss: u32) {
        if mss < self.stream.mss() {
            self.stream.set_mss(mss);
            self.stream.wake();
            each!(&mut self.kind, sender => sender.on_mss(&self.stream));
        }
    }

    /// Adopts a larger segment size than that of the settings, before the handshake is complete.
    pub fn raise_mss(&mut self, mss: u32) {
        self.stream.set_mss(mss);
        each!(&mut self.kind, sender => sender.on_mss(&self.stream));
    }

    /// Returns whether the sender's SYN has left.
    pub fn has_begun(&self) -> bool {
        self.stream.snd_max() != self.stream.iss()
    }

    /// Records that the peer does not send selective acknowledgments (RFC 2018 §2).
    pub fn do_without_sack(&mut self) {
        each!(&mut self.kind, sender => sender.do_without_sack());
    }

    /// Returns congestion window and slow-start threshold, in bytes.
    pub fn window(&self) -> (u32, u32) {
        each!(&self.kind, sender => sender.window(&self.stream))
    }

    /// Fills in the values of `info` that the sender knows.
    pub fn describe(&self, info: &mut TcpInfo) {
        each!(&self.kind, sender => sender.describe(&self.stream, info));
    }

    /// Reduces the segment size to the path's, `mss` bytes. Outstanding data is retransmitted, which is not a sign of
    /// congestion (RFC 1191 §6.4). Congestion control continues to count in segments of the initial size.
    pub fn shrink_segments(&mut self, now: Instant, mss: u32) {
        if mss < self.stream.mss() {
            self.stream.set_mss(mss);
            self.stream.wake();
            each!(&mut self.kind, sender => sender.resegment(&mut self.stream, now));
        }
    }

    /// Sends the SYN again, to answer the peer's in a simultaneous open.
    pub fn answer_syn(&mut self) {
        self.stream.repeat_syn();
        self.stream.wake();
    }

    /// Retransmits the first SYN soon, since the peer answers for a connection of the past
    /// (`tcp_rcv_synsent_state_process`).
    pub fn hasten_syn(&mut self, now: Instant) {
        if self.stream.syn_retries() == 0 {
            let ticks = self.stream.rtt().jiffy() * 2;
            self.stream.set_timer(now, ticks);
        }
    }

    /// Reports an additional event.
    pub fn report(&mut self, event: Event) {
        self.stream.report(event);
    }

    /// Adds `bytes` to the stream.
    pub fn write(&mut self, bytes: u64) {
        if self.stream.is_closed() {
            return;
        }
        let quota = self.stream.has_buffers().then(|| self.quota());
        self.stream.write(bytes, quota);
        self.stream.wake();
        each!(&mut self.kind, sender => sender.on_write());
    }

    /// Returns the limits of what leaves while the application writes.
    #[cold]
    fn quota(&self) -> Quota {
        each!(&self.kind, sender => sender.quota(&self.stream))
    }

    /// Adds as much of `bytes` to the stream as the send buffer has capacity for, and returns that amount.
    pub fn offer(&mut self, now: Instant, bytes: u64) -> u64 {
        let bytes = match self.stream.unsent_limit() {
            None => bytes,
            Some(limit) => bytes.min(self.stream.room_below(limit, self.quota())),
        };
        let taken = each!(&mut self.kind, sender => sender.offer(&mut self.stream, now, bytes));
        if taken > 0 {
            self.write(taken);
        }
        taken
    }

    /// Closes the stream: a FIN follows the written data.
    pub fn close(&mut self) {
        self.stream.close();
        self.stream.wake();
        each!(&mut self.kind, sender => sender.on_close());
    }

    /// Returns the number of acknowledged stream bytes.
    pub fn acked(&self) -> u64 {
        self.stream.acked()
    }

    /// Returns whether the FIN is acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.stream.is_closed() && self.stream.is_done()
    }

    /// Returns whether the connection was given up.
    pub fn given_up(&self) -> bool {
        self.stream.given_up()
    }

    /// Returns the next event to report.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.stream.poll_event()
    }

    /// Sets the peer's first window (from its SYN, never scaled).
    pub fn set_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.stream.set_window(window, seq, ack);
        self.stream.wake();
    }

    /// Processes an acknowledgment with data if it carries no new information to a sender with nothing outstanding.
    /// Returns whether it did.
    #[inline]
    pub fn on_nothing_new(&mut self, seq: Seq, ack: Seq, window: u32) -> bool {
        let nothing_new =
            self.stream.is_no_news(seq, ack, window) && each!(&mut self.kind, sender => sender.on_no_news());
        if nothing_new {
            self.stream.on_no_news(seq, ack);
        }
        nothing_new
    }

    /// Returns whether the peer may have sent this acknowledgment number (RFC 5961 §5).
    pub fn is_plausible(&self, ack: Seq) -> bool {
        is_plausible(&self.stream, ack)
    }

    /// Processes an acknowledgment.
    #[inline(always)]
    pub fn on_ack(&mut self, now: Instant, incoming: &Incoming) -> AckVerdict {
        let s = &mut self.stream;
        let ack = incoming.ack.ack;
        if !is_plausible(s, ack) {
            return AckVerdict::Implausible;
        }
        s.wake();
        s.end_write();
        let window_before = s.snd_wnd();
        s.on_window(now, incoming);
        if s.is_opening() && ack.gt(s.snd_una()) {
            s.establish(now, ack, incoming.echoed);
            each!(&mut self.kind, sender => sender.on_established(s));
        } else {
            each!(&mut self.kind, sender => sender.on_ack(s, now, incoming, window_before));
        }
        AckVerdict::Taken
    }

    /// Returns the time at which the next timer expires.
    #[inline]
    pub fn poll_deadline(&self) -> Option<Instant> {
        let timers = [self.stream.persist_timer(), each!(&self.kind, sender => sender.wake_time())];
        timers.into_iter().fold(self.stream.rto_timer(), |first, timer| match (first, timer) {
            (Some(first), Some(timer)) => Some(first.min(timer)),
            (first, timer) => first.or(timer),
        })
    }

    /// Handles expired timers.
    pub fn on_timer(&mut self, now: Instant) {
        self.stream.wake();
        each!(&mut self.kind, sender => sender.on_timer(&mut self.stream, now));
        self.stream.on_persist_timer(now);
    }

    /// Returns whether [`Sender::poll_transmit`] may return a segment.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.stream.is_awake()
    }

    /// Returns the number of the super-segment that the segment polled last is a part of; 0 if it is a part of none.
    #[inline]
    pub fn super_segment(&self) -> u8 {
        each!(&self.kind, sender => sender.super_segment())
    }

    /// Records the time at which the segment polled last begins transmission.
    pub fn schedule_departure(&mut self, now: Instant, queued: Queued) {
        each!(&mut self.kind, sender => sender.schedule_departure(now, queued));
    }

    /// Records that a segment with `bytes` of payload, whose departure was unknown, begins transmission.
    pub fn on_departure(&mut self, bytes: u32) {
        if each!(&mut self.kind, sender => sender.on_departure(bytes)) {
            self.stream.wake();
        }
    }

    /// Returns the next segment to send, if windows and rules permit one.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmission> {
        let snd_max = self.stream.snd_max();
        let transmission = each!(&mut self.kind, sender => sender.next(&mut self.stream, now));
        match (&transmission, &mut self.ack_ratio) {
            (None, _) => self.stream.sleep(),
            (Some(sent), Some(ratio)) if sent.seq.lt(snd_max) && sent.turn != Turn::Probe => {
                ratio.on_sent_again(self.stream.pos(snd_max));
            }
            _ => {}
        }
        transmission
    }
}

/// Returns whether `ack` acknowledges nothing that was not sent, and is not older than any window of the peer.
#[inline(always)]
fn is_plausible(s: &Stream, ack: Seq) -> bool {
    !ack.gt(s.snd_max()) && s.snd_una().since(ack) <= s.max_snd_wnd()
}
