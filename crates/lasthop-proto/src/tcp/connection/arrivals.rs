//! Arriving segments (RFC 9293 §3.10.7.4).

use super::{Connection, Reset, State};
use crate::event::Event;
use crate::packet::{AckCongestionOption, Ecn, Flags, Packet, SackBlocks, Segment};
use crate::tcp::ack::{Ack, AckVerdict, Incoming};
use crate::tcp::config::Switch;
use crate::tcp::receiver::Arrival;
use crate::tcp::sender::Seen;
use crate::time::{Duration, Instant};

impl Connection {
    /// Applies header prediction (Van Jacobson, as in 4.4BSD `tcp_input`): in a stream in one direction a segment is
    /// the next data with no option but a timestamp, or a pure acknowledgment. Returns whether it was either; other
    /// segments pass through all checks, with the same result.
    #[inline]
    pub(super) fn take_predicted(&mut self, now: Instant, packet: &Packet, segment: &Segment) -> bool {
        let expected = self.state == State::Established
            && segment.flags.without(Flags::PSH) == Flags::ACK
            && self.plain.is_on()
            && self.receiver.expects(segment.seq, packet.len)
            && self.sender.stream().is_outstanding(segment.ack);
        if !expected {
            return false;
        }
        if self.timestamps.is_on() {
            if self.is_replay(segment, packet.len) {
                return false;
            }
            self.note_timestamp(segment);
        }
        if packet.len == 0 {
            self.take_pure_ack(now, packet, segment);
            return true;
        }
        let predicted = self.acknowledges_nothing(segment);
        if predicted {
            if self.receiver.is_linux() {
                self.hand_over(now, packet, segment, Switch::Off);
            } else {
                self.receiver.on_data(now, segment.seq, packet.len, Switch::Off);
            }
            self.after_data(now);
        }
        predicted
    }

    #[inline(never)]
    pub(super) fn take_pure_ack(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        if self.take_ack_in_line(now, packet, segment) == AckVerdict::Implausible {
            self.challenge(now);
        }
        self.report_window();
    }

    /// Processes a segment (RFC 9293 §3.10.7).
    #[inline(never)]
    pub(super) fn take_segment(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        match self.state {
            State::Closed => {
                // RFC 9293 §3.10.7.1.
                if !segment.flags.has(Flags::RST) {
                    self.reset = Some(Reset::to(segment, segment.seq + packet.seq_len()));
                }
            }
            State::Listen => self.on_listen(packet, segment),
            State::SynSent => self.on_syn_sent(now, packet, segment),
            _ if self.is_recorded() => self.on_record(now, packet, segment),
            State::TimeWait => self.on_synchronized(now, packet, segment),
            _ if self.receiver.is_linux() => self.on_synchronized_as_linux(now, packet, segment),
            _ => self.on_synchronized(now, packet, segment),
        }
        self.report_window();
    }

    /// Processes a segment by RFC 9293 §3.10.7.4, starting with the first check.
    pub(super) fn on_synchronized(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        let mut seq_len = packet.seq_len();
        let mut segment = segment;
        let trimmed;
        if self.state == State::SynReceived
            && segment.flags.has(Flags::SYN.with(Flags::ACK))
            && segment.seq + 1 == self.receiver.rcv_nxt()
        {
            // The second half of a simultaneous open (RFC 9293 §3.5, figure 7). Its SYN lies left of the window and is
            // trimmed off.
            trimmed = Segment { seq: segment.seq + 1, flags: segment.flags.without(Flags::SYN), ..*segment };
            segment = &trimmed;
            seq_len -= 1;
        }
        if self.is_replay(segment, seq_len) || !self.receiver.acceptable(segment.seq, seq_len) {
            self.on_unacceptable(now, packet, segment, seq_len);
            return;
        }
        if segment.flags.has(Flags::RST) {
            // RFC 5961 §3.2: only an exact match resets; a near miss is challenged.
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
        self.see_mark(packet, segment);
        if self.state != State::SynReceived && !self.sender.is_plausible(segment.ack) {
            // Nothing in it can be trusted, its timestamp included (RFC 5961 §5).
            self.challenge(now);
            return;
        }
        self.note_timestamp(segment);
        if self.state == State::SynReceived {
            let s = self.sender.stream();
            if segment.ack.le(s.snd_una()) || segment.ack.gt(s.snd_max()) {
                self.reset = Some(Reset::Answer(segment.ack, None));
                return;
            }
            self.check_third_ack(packet, segment);
            self.establish(now);
        }
        if !self.brings_data_only(packet, segment) {
            if self.take_ack(now, packet, segment) == AckVerdict::Implausible {
                self.challenge(now);
                return;
            }
            self.after_ack(now);
        }
        if packet.len > 0 || segment.flags.has(Flags::FIN) {
            self.take_data(now, packet, segment);
        }
    }

    /// Returns whether this is data for an end with nothing outstanding, whose acknowledgment carries no new
    /// information: the usual segment in a stream in one direction. Processing the acknowledgment would change nothing.
    pub(super) fn brings_data_only(&mut self, packet: &Packet, segment: &Segment) -> bool {
        packet.len > 0
            && self.state == State::Established
            && !self.ecn.is_on()
            && self.accurate.is_none()
            && !self.ack_congestion.is_on()
            && self.acknowledges_nothing(segment)
    }

    /// Processes the acknowledgment of a data segment if it carries no new information to an end with nothing
    /// outstanding. Returns whether it did.
    #[inline]
    fn acknowledges_nothing(&mut self, segment: &Segment) -> bool {
        let window = u32::from(segment.window) << self.peer_shift;
        segment.options.sack.is_empty() && self.sender.on_nothing_new(segment.seq, segment.ack, window)
    }

    /// Answers an unacceptable segment without data, at most ten times in five seconds (RFC 5961 §7), or every 500 ms
    /// (Linux): two ends that disagree must not acknowledge each other's acknowledgments forever at full speed.
    pub(super) fn challenge(&mut self, now: Instant) {
        if self.receiver.is_linux() {
            if self.may_answer(now) {
                self.receiver.ack_now();
            }
            return;
        }
        if now.since(self.challenges.since) >= Duration::from_secs(5) {
            (self.challenges.since, self.challenges.sent) = (now, 0);
        }
        if self.challenges.sent < 10 {
            self.challenges.sent += 1;
            self.receiver.ack_now();
        }
    }

    /// Handles a valid reset. In TIME-WAIT both directions have already finished, so nothing is lost (RFC 9293
    /// §3.10.7.4).
    pub(super) fn on_reset(&mut self) {
        if self.state == State::TimeWait {
            self.state = State::Closed;
            self.ending.time_wait = Instant::FAR_FUTURE;
        } else {
            self.finish(Event::Aborted);
        }
    }

    pub(super) fn on_unacceptable(&mut self, now: Instant, packet: &Packet, segment: &Segment, seq_len: u32) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if self.state == State::SynReceived && segment.flags.has(Flags::SYN) {
            // This end's SYN was lost or has not been sent yet; its timer repeats it.
            return;
        }
        if self.acknowledges_from_the_left(segment, seq_len) && self.take_ack(now, packet, segment) == AckVerdict::Taken
        {
            self.after_ack(now);
            if seq_len == 0 {
                return;
            }
        }
        if packet.len > 0 && (segment.seq + seq_len).le(self.receiver.rcv_nxt()) {
            self.hand_over(now, packet, segment, Switch::Off);
        } else if seq_len > 0 {
            self.receiver.ack_now();
        } else {
            self.challenge(now);
        }
        if self.state == State::TimeWait {
            self.ending.time_wait = now + self.config.common.time_wait;
        }
    }

    /// Returns whether a segment left of the window carries an acknowledgment worth processing. 4.4BSD drops the data
    /// of such a segment and processes the rest; RFC 9293 §3.10.7.4 requires "special allowance" at a closed window.
    /// Otherwise two ends that probe each other's closed windows would refuse each other's acknowledgments forever. A
    /// window that is not adopted, because the number of a probe without data is too old, is not new information: the
    /// answer shows the prober that this end's window has opened (Linux `tcp_validate_incoming`).
    pub(super) fn acknowledges_from_the_left(&self, segment: &Segment, seq_len: u32) -> bool {
        let s = self.sender.stream();
        let near = self.receiver.rcv_nxt().since(segment.seq) <= self.config.receiver.receive_buffer;
        let left = segment.seq.lt(self.receiver.rcv_nxt()) && near;
        let window = u32::from(segment.window) << self.peer_shift;
        let opens = s.snd_wnd() == 0 && window > 0 && s.may_update_window(segment.seq, segment.ack, window);
        let news = segment.ack.gt(s.snd_una()) || segment.ack == s.snd_una() && opens;
        let synchronized = self.state != State::SynReceived;
        left && news
            && synchronized
            && segment.flags.has(Flags::ACK)
            && !segment.flags.has(Flags::SYN)
            && !self.is_replay(segment, seq_len)
    }

    /// Processes an acknowledgment. Inlined where most of them arrive: [`Self::take_pure_ack`].
    #[inline(always)]
    fn take_ack_in_line(&mut self, now: Instant, packet: &Packet, segment: &Segment) -> AckVerdict {
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
            ece: if self.ecn.is_on() && echoes_mark(segment.flags) { Switch::On } else { Switch::Off },
        };
        let marks = if self.accurate.is_some() { self.marks_reported(segment) } else { None };
        let window = u32::from(segment.window) << shift;
        let incoming = Incoming { ack, window, seq_len: packet.seq_len(), seq: segment.seq, echoed, marks };
        let before = self.sender.stream().una_pos();
        let verdict = self.sender.on_ack(now, &incoming);
        if verdict == AckVerdict::Taken {
            if incoming.ack.ece.is_on() {
                self.sender.on_ecn_echo();
            }
            if !self.ack_congestion.is_on() {
                return verdict;
            }
            let switch = |on: bool| if on { Switch::On } else { Switch::Off };
            self.sender.weigh_ack(&Seen {
                before,
                ack: segment.ack,
                pure: switch(incoming.seq_len == 0),
                selective: switch(!incoming.ack.sack.is_empty()),
                mark: switch(self.ecn.is_on() && packet.ecn == Ecn::Ce),
            });
        }
        verdict
    }

    /// Calls [`Self::take_ack_in_line`] out of line.
    #[inline(never)]
    pub(super) fn take_ack(&mut self, now: Instant, packet: &Packet, segment: &Segment) -> AckVerdict {
        self.take_ack_in_line(now, packet, segment)
    }

    /// Changes state after an acknowledgment of this end's FIN.
    pub(super) fn after_ack(&mut self, now: Instant) {
        if !self.sender.fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.wait_for_peer(now);
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.finish(Event::Closed),
            _ => {}
        }
    }

    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        if self.state == State::Closing {
            self.record();
        }
        self.state = State::TimeWait;
        self.ending.time_wait = now + self.config.common.time_wait;
        self.sender.report(Event::Closed);
    }

    pub(super) fn take_data(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // No data follows the peer's FIN; the peer retransmits because this end's acknowledgment was lost.
            self.receiver.ack_now();
            return;
        }
        let fin = if segment.flags.has(Flags::FIN) { Switch::On } else { Switch::Off };
        self.hand_over(now, packet, segment, fin);
        self.after_data(now);
    }

    /// Passes a segment with data, or a FIN, to the receiving half.
    pub(super) fn hand_over(&mut self, now: Instant, packet: &Packet, segment: &Segment, fin: Switch) {
        if let Some(AckCongestionOption::Ratio(ratio)) = segment.options.ack_congestion {
            self.receiver.on_ratio(segment.seq, ratio);
        }
        let cwr = if self.ecn.is_on() && segment.flags.has(Flags::CWR) { Switch::On } else { Switch::Off };
        if self.ecn.is_on() {
            self.receiver.on_mark(packet.ecn, cwr);
        }
        if !self.receiver.is_linux() {
            return self.receiver.on_data(now, segment.seq, packet.len, fin);
        }
        let echo = segment.options.timestamps.filter(|timestamps| self.timestamps.is_on() && timestamps.ecr != 0);
        let age = |echo: u32| Duration::from_millis(u64::from(self.timestamp(now).wrapping_sub(echo)));
        let rtt = self.sender.stream().rtt();
        let arrival = Arrival {
            seq: segment.seq,
            len: packet.len,
            size: self.segment_size(packet.len),
            fin,
            push: if segment.flags.has(Flags::PSH) { Switch::On } else { Switch::Off },
            ecn: packet.ecn,
            cwr,
            echo: echo.map(|timestamps| (timestamps.ecr, age(timestamps.ecr))),
            srtt: rtt.srtt(),
            rto: rtt.rto(),
        };
        self.receiver.on_arrival(now, &arrival);
    }

    /// Changes state after the end of the peer's stream.
    #[inline]
    pub(super) fn after_data(&mut self, now: Instant) {
        if !self.receiver.finished() {
            return;
        }
        if self.state != State::Established || !self.receiver.is_linux() {
            self.receiver.ack_now();
        }
        if self.state == State::FinWait1 && self.receiver.is_linux() {
            // Data that waits does not carry this acknowledgment (`tcp_fin`).
            self.own_ack = Switch::On;
        }
        self.sender.report(Event::PeerClosed);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }
}

/// Returns whether these are the flags of an echo: on a SYN, ECE is an offer.
fn echoes_mark(flags: Flags) -> bool {
    flags.has(Flags::ECE) && !flags.has(Flags::SYN)
}
