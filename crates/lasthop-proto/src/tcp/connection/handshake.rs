//! The handshake, and the options negotiated by its two SYNs (RFC 9293 §3.10.7.2 and §3.10.7.3).

use super::{ACK_RATIO, Connection, Extras, LEAST_MSS, Reset, State, TIMESTAMPS};
use crate::event::Event;
use crate::packet::{AckCongestionOption, Flags, Packet, Segment};
use crate::tcp::config::{EcnMode, HandshakeAck, RttRule, Switch};
use crate::time::Instant;

/// Number of timeouts of a SYN before the timeout doubles.
const LINEAR_TIMEOUTS: u32 = 4;

impl Connection {
    pub(super) fn on_listen(&mut self, packet: &Packet, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.reset = Some(Reset::Answer(segment.ack, None));
        } else if segment.flags.has(Flags::SYN) {
            // Data on a SYN is not kept: the peer retransmits it.
            self.negotiate(packet, segment);
            self.receiver.on_syn(segment.seq);
            if self.timestamps.is_on() {
                self.receiver.answer_syn();
            }
            self.state = State::SynReceived;
        }
    }

    pub(super) fn on_syn_sent(&mut self, now: Instant, packet: &Packet, segment: &Segment) {
        let s = self.sender.stream();
        let acks = segment.flags.has(Flags::ACK);
        let is_wrong = segment.ack.le(s.iss()) || segment.ack.gt(s.snd_max());
        if acks && (is_wrong || self.echoes_no_own_syn(segment)) {
            if !segment.flags.has(Flags::RST) {
                self.reset = Some(Reset::Answer(segment.ack, None));
            }
            if is_wrong && self.receiver.is_linux() {
                self.sender.hasten_syn(now);
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
        self.negotiate(packet, segment);
        self.receiver.on_syn(segment.seq);
        self.receiver.ack_now();
        if acks {
            if self.config.common.handshake_ack == HandshakeAck::Own {
                self.own_ack = Switch::On;
            }
            self.take_ack(now, packet, segment);
            self.establish(now);
        } else {
            // Simultaneous open: the SYN is retransmitted, this time with an acknowledgment. Linux scales its window even
            // if the peer does not (`tcp_rcv_synsent_state_process`).
            if self.receiver.is_linux()
                && let Some(shift) = self.config.receiver.offered_scale()
            {
                self.receiver.window_shift = shift.min(14);
            }
            self.sender.stream_mut().retime_syn();
            self.sender.answer_syn();
            self.state = State::SynReceived;
        }
    }

    /// Returns whether the answer to this end's SYN echoes a timestamp that no SYN carried (Linux
    /// `tcp_rcv_synsent_state_process`).
    fn echoes_no_own_syn(&self, segment: &Segment) -> bool {
        let offers = self.receiver.is_linux() && self.config.common.timestamps.is_on();
        offers && segment.options.timestamps.is_some_and(|timestamps| self.echoes_no_syn(timestamps.ecr))
    }

    pub(super) fn establish(&mut self, now: Instant) {
        self.receiver.start(now, self.timestamps);
        // Answers to segments for the request do not count for the connection.
        self.challenges.sent = 0;
        self.state = State::Established;
        self.sender.report(Event::Established);
    }

    /// Keeps the interval of the first retransmissions of a SYN: with RTT estimation like Linux's, timeouts do not
    /// double before the fifth (`net.ipv4.tcp_syn_linear_timeouts`).
    #[cold]
    pub(super) fn repeat_syn_evenly(&mut self, now: Instant) {
        let s = self.sender.stream_mut();
        let is_linear = s.config().rtt_rule == RttRule::Linux && s.syn_retries() <= LINEAR_TIMEOUTS;
        if is_linear && s.rtt().backoff() > 1 {
            s.rtt_mut().end_backoff();
            s.restart_timer(now);
        }
    }

    /// Adopts the options that both SYNs offer (RFC 9293 §3.7.1, RFC 7323 §2 and §3, RFC 2018 §2).
    pub(super) fn negotiate(&mut self, packet: &Packet, segment: &Segment) {
        let options = &segment.options;
        self.peer_mss = u32::from(options.mss.unwrap_or(536));
        if let (Some(ours), Some(theirs)) = (self.config.receiver.offered_scale(), options.window_scale) {
            self.receiver.window_shift = ours.min(14);
            self.peer_shift = theirs.min(14);
        }
        if self.config.sender.recovery().uses_sack() && options.sack_permitted {
            self.sack = Switch::On;
        } else {
            self.sender.do_without_sack();
        }
        if !self.negotiate_accurate(packet, segment) {
            self.ecn = self.agrees_on_ecn(segment.flags);
        }
        self.receiver.agree(self.sack, self.ecn);
        if self.config.controls_acks() && options.ack_congestion == Some(AckCongestionOption::Permitted) {
            self.ack_congestion = Switch::On;
            self.receiver.obey_ratio();
            self.sender.control_acks();
        }
        if let (Switch::On, Some(timestamps)) = (self.config.common.timestamps, options.timestamps) {
            self.timestamps = Switch::On;
            self.ts_recent = timestamps.val;
        }
        let marks = self.config.receiver.smart_acks.is_on() || self.config.reports_damage();
        self.extras = match self.timestamps {
            _ if marks || self.ack_congestion.is_on() || self.accurate.is_some() => Extras::Any,
            Switch::On => Extras::Timestamps,
            Switch::Off => Extras::None,
        };
        let plain = !self.ack_congestion.is_on() && !self.ecn.is_on() && self.accurate.is_none();
        self.plain = if plain { Switch::On } else { Switch::Off };
        if self.receiver.is_linux() && self.config.common.timestamps.is_on() && !self.timestamps.is_on() {
            // The space of timestamps carries payload (Linux `tcp_current_mss`).
            self.sender.raise_mss(self.config.common.mss + TIMESTAMPS);
        }
        self.sender.limit_mss(self.largest_payload());
        self.sender.set_window(u32::from(segment.window), segment.seq, segment.ack);
    }

    /// Returns whether ECN is negotiated. RFC 3168 §6.1.1: an offer has ECE and CWR, its acceptance ECE alone. An offer
    /// with AE is one of accurate ECN, which falls back to this (RFC 9768 §3.1.2).
    fn agrees_on_ecn(&self, flags: Flags) -> Switch {
        let accepts = flags.has(Flags::ACK);
        let agreed = match self.config.common.ecn {
            EcnMode::Off => false,
            EcnMode::Passive | EcnMode::AccuratePassive if accepts => false,
            EcnMode::Passive | EcnMode::AccuratePassive | EcnMode::AccurateAccept | EcnMode::On | EcnMode::Accurate => {
                flags.has(Flags::ECE) && flags.has(Flags::CWR) != accepts
            }
        };
        if agreed { Switch::On } else { Switch::Off }
    }

    /// Returns the maximum payload that peer and path accept besides the options that every segment carries (RFC 6691
    /// §2).
    pub(super) fn largest_payload(&self) -> u32 {
        let Some(path) = self.path_mss else { return self.peer_mss };
        self.peer_mss.min(path).max(LEAST_MSS) - self.options_len(self.timestamps)
    }

    /// Returns the length of the options that segments carry besides SACK blocks, with timestamps or without. The
    /// acknowledgment ratio is on a few of them.
    pub(super) fn options_len(&self, timestamps: Switch) -> u32 {
        let marks = if self.config.receiver.smart_acks.is_on() { 8 } else { 0 }
            + if self.config.reports_damage() { 4 } else { 0 };
        let ratio = if self.ack_congestion.is_on() { ACK_RATIO } else { 0 };
        marks + ratio + if timestamps.is_on() { TIMESTAMPS } else { 0 }
    }
}
