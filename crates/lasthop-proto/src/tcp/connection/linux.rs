//! Checks of arriving segments in Linux's order, for an end with a Linux receiver (`tcp_validate_incoming`,
//! `tcp_check_req`, `tcp_rcv_state_process`).

use super::{Connection, Reset, State};
use crate::event::Event;
use crate::packet::{Flags, Packet, Segment, Side};
use crate::seq::Seq;
use crate::tcp::ack::AckVerdict;
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Minimum interval between answers to segments that are out of the window and carry no data
/// (`net.ipv4.tcp_invalid_ratelimit`).
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);

impl Connection {
    /// Processes a segment in a synchronized state other than TIME-WAIT.
    pub(super) fn on_synchronized_as_linux(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        const KINDS: Flags = Flags::ACK.with(Flags::RST).with(Flags::SYN);
        let mut segment = *segment;
        let seq_len = packet.seq_len();
        if self.state == State::SynReceived && self.side == Side::Acceptor {
            if !self.completes_request(now, packet, &mut segment, seq_len) {
                return;
            }
        } else if !segment.flags.meets(KINDS) || !self.validates(now, packet, &segment, seq_len) {
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.see_mark(packet, &segment);
        if self.state == State::SynReceived {
            let s = self.sender.stream();
            if segment.ack.le(s.snd_una()) || segment.ack.gt(s.snd_max()) {
                self.reset = Some(Reset::Answer(segment.ack, None));
                return;
            }
            self.note_timestamp(&segment);
            self.check_third_ack(packet, &segment);
            self.establish(now);
            if segment.flags.has(Flags::SYN) {
                // The SYN of a simultaneous open arrives twice.
                self.receiver.answer_old(segment.seq, segment.seq + 1);
            }
        }
        if self.brings_data_only(packet, &segment) {
            self.note_timestamp(&segment);
        } else {
            let is_old = segment.ack.lt(self.sender.stream().snd_una());
            if is_old && self.is_too_old(segment.ack) {
                self.challenge(now);
                return;
            }
            if self.take_ack(now, packet, &segment) == AckVerdict::Implausible {
                self.challenge(now);
                return;
            }
            if !is_old {
                self.note_timestamp(&segment);
            }
            self.after_ack(now);
        }
        if packet.len > 0 || segment.flags.has(Flags::FIN) {
            self.take_data_as_linux(now, packet, &segment);
        } else {
            let srtt = self.sender.stream().rtt().srtt();
            self.receiver.settle_again(now, srtt);
        }
    }

    /// Returns whether an acknowledgment is older than anything that was acknowledged so far (`tcp_ack`).
    fn is_too_old(&self, ack: Seq) -> bool {
        let s = self.sender.stream();
        // The answered SYN of a request does not count.
        let acked = s.una_pos() - u64::from(self.side == Side::Acceptor);
        u64::from(s.snd_una().since(ack)) > acked
    }

    /// Returns whether a segment passes the checks of `tcp_validate_incoming`. Answers it otherwise.
    fn validates(&mut self, now: Instant, packet: &Packet, segment: &Segment, seq_len: u32) -> bool {
        let (syn, rst) = (segment.flags.has(Flags::SYN), segment.flags.has(Flags::RST));
        let end = segment.seq + seq_len;
        let is_replay = self.is_replay(segment, seq_len);
        if is_replay || !self.receiver.is_in_sequence(segment.seq, end) {
            if syn && !rst {
                self.challenge(now);
            } else if !rst {
                self.answer_invalid(now, segment, end);
            } else if self.resets_behind_fin(segment.seq) {
                self.on_reset();
            }
            return false;
        }
        if rst {
            let after_reports = self.sack.is_on() && self.receiver.highest_listed() == Some(segment.seq);
            if segment.seq == self.receiver.rcv_nxt() || self.resets_behind_fin(segment.seq) || after_reports {
                self.on_reset();
            } else {
                self.challenge(now);
            }
            return false;
        }
        if syn {
            self.reflect_syn(packet, segment);
        }
        if syn && !self.answers_simultaneous_open(segment, seq_len) {
            self.challenge(now);
            return false;
        }
        true
    }

    /// Returns whether this is the second half of a simultaneous open (RFC 9293 §3.5, figure 7).
    fn answers_simultaneous_open(&self, segment: &Segment, seq_len: u32) -> bool {
        self.state == State::SynReceived
            && segment.flags.has(Flags::ACK)
            && seq_len == 1
            && segment.seq + 1 == self.receiver.rcv_nxt()
            && segment.ack == self.sender.stream().snd_max()
    }

    /// Returns whether a reset at `seq` answers a segment that crossed the peer's FIN: it has the FIN's number
    /// (`tcp_reset_check`).
    fn resets_behind_fin(&self, seq: Seq) -> bool {
        seq + 1 == self.receiver.rcv_nxt() && matches!(self.state, State::CloseWait | State::LastAck | State::Closing)
    }

    /// Processes a segment for a connection whose SYN was answered and whose handshake is incomplete
    /// (`tcp_check_req`). Returns whether it completes the handshake.
    fn completes_request(&mut self, now: Instant, packet: &Packet, segment: &mut Segment, seq_len: u32) -> bool {
        const KINDS: Flags = Flags::SYN.with(Flags::ACK).with(Flags::RST);
        let kind = Flags(segment.flags.0 & KINDS.0);
        let (expected, end) = (self.receiver.rcv_nxt(), segment.seq + seq_len);
        let echoed = segment.options.timestamps.filter(|_| self.timestamps.is_on());
        let is_replay = echoed.is_some_and(|timestamps| Seq(timestamps.val).lt(Seq(self.ts_recent)));
        if kind == Flags::SYN && segment.seq + 1 == expected && !is_replay {
            // The answer was lost, or is late.
            if self.may_answer(now) {
                self.see_repeated_syn(packet, segment);
                self.sender.answer_syn();
            }
            return false;
        }
        let is_rejected = is_replay
            || echoed.is_some_and(|timestamps| self.echoes_no_syn(timestamps.ecr))
            || !self.receiver.request_admits(segment.seq, end);
        if kind.has(Flags::RST) {
            // RFC 5961 §3.2: only an exact match resets; a near miss is challenged.
            if is_rejected {
            } else if segment.seq == expected {
                self.finish(Event::Aborted);
            } else if self.may_answer(now) {
                self.receiver.ack_now();
            }
            return false;
        }
        if kind.has(Flags::ACK) && segment.ack != self.sender.stream().iss() + 1 {
            self.reset = Some(Reset::Answer(segment.ack, None));
            return false;
        }
        if is_rejected {
            if seq_len > 0 && !kind.has(Flags::SYN) || self.may_answer(now) {
                self.receiver.ack_now();
            }
            return false;
        }
        if kind.has(Flags::SYN) && segment.seq + 1 != expected {
            self.reset = Some(Reset::to(segment, end));
            self.finish(Event::Aborted);
            return false;
        }
        kind.has(Flags::ACK)
    }

    /// Returns whether none of this end's SYNs carried the timestamp `echo`; 0 is no echo (`tcp_check_req`).
    pub(super) fn echoes_no_syn(&self, echo: u32) -> bool {
        let (first, last) = self.syn_stamps;
        echo != 0 && echo.wrapping_sub(first) > last.wrapping_sub(first)
    }

    /// Answers a segment that is not acceptable (`tcp_send_dupack`). Data is always answered: only segments without it
    /// can circulate between two ends forever.
    fn answer_invalid(&mut self, now: Instant, segment: &Segment, end: Seq) {
        if end != segment.seq || self.may_answer(now) {
            if end != segment.seq && segment.seq.lt(self.receiver.rcv_nxt()) {
                self.see_repeated(segment.seq);
            }
            self.receiver.answer_old(segment.seq, end);
        }
    }

    /// Returns whether another segment without data may be answered now (`__tcp_oow_rate_limited`).
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let may = self.challenges.sent == 0 || now.since(self.challenges.since) >= ANSWER_INTERVAL;
        if may {
            (self.challenges.since, self.challenges.sent) = (now, 1);
        }
        may
    }

    /// Processes the data of a segment, or its FIN (`tcp_rcv_state_process`).
    fn take_data_as_linux(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        let fin = segment.flags.has(Flags::FIN);
        match self.state {
            State::FinWait1 | State::FinWait2
                if self.ending.released.is_on() && (segment.seq + packet.len).gt(self.receiver.rcv_nxt()) =>
            {
                // The application reads no more (`tcp_rcv_state_process`).
                self.reset = Some(Reset::Answer(segment.ack, None));
                self.finish(Event::Aborted);
                return;
            }
            State::Established | State::FinWait1 | State::FinWait2 => {}
            State::CloseWait | State::Closing | State::LastAck => {
                // The peer's stream has ended.
                let expected = self.receiver.rcv_nxt();
                if !segment.seq.lt(expected) {
                    return;
                }
                if (segment.seq + packet.len).gt(expected) {
                    self.reset = Some(Reset::Answer(segment.ack, None));
                    self.finish(Event::Aborted);
                    return;
                }
            }
            State::Closed | State::Listen | State::SynSent | State::SynReceived | State::TimeWait => return,
        }
        let was_finished = self.receiver.finished();
        self.hand_over(now, packet, segment, if fin { Switch::On } else { Switch::Off });
        if !was_finished {
            self.after_data(now);
        }
    }
}
