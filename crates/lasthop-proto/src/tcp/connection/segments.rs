//! Segments that a connection sends, and their options.

use super::{Connection, Extras, HEADER, Reset, State, TIMESTAMPS};
use crate::node::Port;
use crate::packet::{
    AckCongestionOption, Body, Cause, Ecn, Flags, Integrity, LinkHeaders, Options, Packet, Priority, SackBlocks,
    Segment, Side, Timestamps,
};
use crate::seq::Seq;
use crate::tcp::config::{EcnMode, HeaderAccounting, Switch};
use crate::tcp::stream::{Transmission, Turn};
use crate::time::Instant;

impl Connection {
    /// Writes the next segment to send into `place`.
    #[inline(never)]
    pub(super) fn next_segment(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        if self.reset.is_some()
            && let Some(reset) = self.reset.take()
        {
            match reset {
                Reset::Answer(seq, ack) => *place = self.reset_segment(seq, ack),
                Reset::Active => {
                    let flags = Flags::RST.with(Flags::ACK);
                    self.put_segment(now, place, (self.ack_seq(), 0), flags, None, Cause::Reset);
                }
            }
            return Some(Port::ONLY);
        }
        if self.own_ack.is_on() {
            self.own_ack = Switch::Off;
            if let Some(port) = self.next_ack(now, place) {
                return Some(port);
            }
        }
        if self.accurate.is_some() {
            self.reserve_for_option(now);
        }
        if self.sender.stream().begins_burst() && self.receiver.is_linux() {
            let bytes = if self.sack.is_on() { self.receiver.blocks_len() } else { 0 };
            self.sender.stream_mut().reserve(bytes);
        }
        let transmission = match self.state {
            State::Closed | State::Listen => None,
            _ => self.sender.poll_transmit(now),
        };
        let Some(Transmission { seq, len, cause, turn, syn, fin, push, joined }) = transmission else {
            if let Some(keepalive) = &mut self.keepalive
                && keepalive.due.is_on()
            {
                keepalive.due = Switch::Off;
                let seq = self.sender.stream().snd_una() - 1;
                self.put_segment(now, place, (seq, 0), Flags::ACK, None, Cause::Probe);
                return Some(Port::ONLY);
            }
            return self.next_ack(now, place);
        };
        if syn.is_on() {
            *place = self.syn(now, seq, cause);
            return Some(Port::ONLY);
        }
        let mut flags = Flags::ACK;
        if fin.is_on() {
            flags = flags.with(Flags::FIN);
            self.on_fin_sent();
        }
        if push.is_on() {
            flags = flags.with(Flags::PSH);
        }
        self.receiver.begin_segment(joined);
        self.put_segment(now, place, (seq, len), flags, Some(turn), cause);
        if turn != Turn::Probe {
            place.super_segment = self.sender.super_segment();
        }
        Some(Port::ONLY)
    }

    /// Writes a pure acknowledgment into `place`, if one is due.
    #[inline(never)]
    pub(super) fn next_ack(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        if !self.acknowledges() {
            return None;
        }
        if self.state == State::SynReceived && self.side == Side::Acceptor && self.receiver.is_linux() {
            let window = self.receiver.syn_window() >> self.receiver.window_shift;
            *place = self.short_ack(now, self.sender.stream().iss() + 1, window);
            return Some(Port::ONLY);
        }
        if let Some(window) = self.ending.record_window {
            *place = self.short_ack(now, self.sender.stream().snd_max(), window);
            return Some(Port::ONLY);
        }
        self.put_segment(now, place, (self.ack_seq(), 0), Flags::ACK, None, Cause::Ack);
        if self.state == State::TimeWait {
            // The acknowledgment of the FIN is the socket's last segment.
            self.record();
        }
        Some(Port::ONLY)
    }

    /// Returns an acknowledgment without a socket: for a SYN that was answered (`tcp_v4_reqsk_send_ack`), with the SYN's
    /// window rounded down to the unit of the field, or after a connection (`tcp_v4_timewait_ack`).
    #[inline(never)]
    fn short_ack(&mut self, now: Instant, seq: Seq, window: u16) -> Packet {
        self.receiver.forget_ack();
        let ack = self.receiver.rcv_nxt();
        let timestamps = self.timestamps.is_on().then(|| self.current_timestamps(now));
        let options = Options { timestamps, ..Options::default() };
        let segment = Segment { seq, ack, window, flags: Flags::ACK, options };
        let mut packet = self.packet(segment, 0, Cause::Ack);
        packet.header_len = self.header_len(&options, 0);
        packet
    }

    /// Writes a segment after the handshake into `place`, with the fields of the receiving half. Takes its first
    /// sequence number and its payload length, and its turn unless it is a pure acknowledgment.
    #[inline(always)]
    fn put_segment(
        &mut self,
        now: Instant,
        place: &mut Packet,
        (seq, len): (Seq, u32),
        flags: Flags,
        turn: Option<Turn>,
        cause: Cause,
    ) {
        let (ack, window) = (self.receiver.rcv_nxt(), self.receiver.take_window());
        // Written field by field in place: copying freshly written data stalls the processor.
        *place = self.packet(Segment { seq, ack, window, flags, options: Options::default() }, len, cause);
        let has_blocks = self.sack.is_on() && self.receiver.has_blocks();
        match self.extras {
            Extras::None if !has_blocks => {}
            Extras::Timestamps if !has_blocks => self.put_timestamps(now, place),
            Extras::None | Extras::Timestamps | Extras::Any => self.put_options(now, place),
        }
        if self.ecn.is_on() {
            self.put_marks(place, turn);
        } else if self.accurate.is_some() {
            self.put_count(place, len == 0);
        }
        if len > 0 {
            self.receiver.on_data_sent(now);
        }
    }

    /// Returns whether the congestion control is scalable: its segments are ECT(1).
    pub(super) fn is_scalable(&self) -> bool {
        self.config.sender.modern().is_some_and(|modern| modern.congestion.algorithm().scalable)
    }

    /// Sets the ECN fields of a segment: ECE until the peer answers; ECT(0) on data that is sent for the first time,
    /// and CWR on the first of it after a reduction (RFC 3168 §6.1.2, §6.1.3, §6.1.5, §6.1.6). Pure acknowledgments are
    /// ECT(0) if they are subject to congestion control (RFC 5690 §4.1). All segments of a scalable congestion control
    /// are ECT(1) (RFC 9331 §4.1).
    #[inline(never)]
    fn put_marks(&mut self, packet: &mut Packet, turn: Option<Turn>) {
        let first = packet.len > 0 && turn == Some(Turn::First);
        if first || turn.is_none() && self.ack_congestion.is_on() {
            packet.ecn = Ecn::Ect0;
        } else if turn == Some(Turn::Again) {
            self.sender.on_sent_again();
        }
        if self.is_scalable() {
            packet.ecn = Ecn::Ect1;
        }
        if let Body::Tcp(segment) = &mut packet.body {
            if first && self.sender.take_reduced().is_on() {
                segment.flags = segment.flags.with(Flags::CWR);
            }
            if self.receiver.echoes() {
                segment.flags = segment.flags.with(Flags::ECE);
            }
        }
    }

    #[inline(never)]
    fn reset_segment(&self, seq: Seq, ack: Option<Seq>) -> Packet {
        let flags = if ack.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
        self.packet(Segment { seq, ack: ack.unwrap_or_default(), flags, ..Segment::default() }, 0, Cause::Reset)
    }

    /// Returns a packet with the header length of a segment without options.
    #[inline(always)]
    fn packet(&self, segment: Segment, len: u32, cause: Cause) -> Packet {
        Packet {
            flow: self.flow,
            from: self.side,
            priority: Priority::Normal,
            integrity: Integrity::Intact,
            ecn: Ecn::NotEct,
            cause,
            super_segment: 0,
            header_len: if len > 0 && self.config.common.headers == HeaderAccounting::Ns2AcksOnly { 0 } else { HEADER },
            len,
            body: Body::Tcp(segment),
            link: LinkHeaders::NONE,
            payload: (),
        }
    }

    fn header_len(&self, options: &Options, len: u32) -> u16 {
        match self.config.common.headers {
            HeaderAccounting::Full => HEADER + options.wire_len(),
            HeaderAccounting::Ns2AcksOnly if len > 0 => 0,
            HeaderAccounting::Ns2 | HeaderAccounting::Ns2AcksOnly => HEADER + 8 * options.sack.as_slice().len() as u16,
        }
    }

    /// Adds timestamps, the only option, to a segment after the handshake: [`Self::put_options`], in fewer steps.
    fn put_timestamps(&self, now: Instant, packet: &mut Packet) {
        if let Body::Tcp(segment) = &mut packet.body {
            segment.options.timestamps = Some(self.current_timestamps(now));
            packet.header_len +=
                if self.config.common.headers == HeaderAccounting::Full { TIMESTAMPS as u16 } else { 0 };
        }
    }

    /// Adds the options to a segment after the handshake.
    #[inline(never)]
    fn put_options(&mut self, now: Instant, packet: &mut Packet) {
        if let Body::Tcp(segment) = &mut packet.body {
            let duplicate = self.receiver.duplicate();
            self.set_options(now, &mut segment.options);
            if packet.len > 0
                && let Some(ratio) = self.sender.ratio_to_tell()
            {
                segment.options.ack_congestion = Some(AckCongestionOption::Ratio(ratio));
                segment.options.fit_sack();
            }
            let too_long = |most| packet.len > 0 && packet.len + u32::from(segment.options.wire_len()) > most;
            if self.path_mss.is_some_and(too_long) {
                // The next pure acknowledgment repeats them.
                segment.options.sack = SackBlocks::NONE;
            }
            if self.accurate.is_some() {
                self.put_counters(now, &mut segment.options, duplicate);
            }
            packet.header_len = self.header_len(&segment.options, packet.len);
        }
    }

    /// Returns the timestamps of a segment that leaves now.
    fn current_timestamps(&self, now: Instant) -> Timestamps {
        Timestamps { val: self.timestamp(now), ecr: self.ts_recent }
    }

    /// Sets the options of a segment after the handshake.
    fn set_options(&mut self, now: Instant, options: &mut Options) {
        if self.timestamps.is_on() {
            options.timestamps = Some(self.current_timestamps(now));
        }
        if self.sack.is_on() && self.receiver.has_blocks() {
            self.receiver.put_sack_blocks(&mut options.sack);
        }
        if self.config.receiver.smart_acks.is_on() {
            options.smart = self.receiver.take_smart();
        }
        options.eln = self.config.reports_damage() && self.receiver.next_was_damaged().is_on();
    }

    /// Returns the announced limit for a peer that includes options in it (RFC 6691). A peer with the same options then
    /// sends `mss` bytes of payload. With fewer, a BSD receiver would not acknowledge two of its segments at once.
    fn announced_mss(&self) -> u16 {
        let options = self.options_len(self.config.common.timestamps);
        let mss = self
            .path_mss
            .map_or(self.config.common.mss, |path| path.min(self.config.common.mss.saturating_add(options)));
        mss.min(0xffff) as u16
    }

    #[inline(never)]
    fn syn(&mut self, now: Instant, seq: Seq, cause: Cause) -> Packet {
        let answers = self.state == State::SynReceived;
        // An answer to a SYN that crossed this end's repeats its options (Linux `tcp_send_synack`).
        let repeats = answers && self.side == Side::Initiator && self.receiver.is_linux();
        let offers = |negotiated: Switch| !answers || repeats || negotiated.is_on();
        let mut options = Options::default();
        if answers {
            self.set_options(now, &mut options);
        }
        options.mss = Some(self.announced_mss());
        let scales = !answers || repeats || self.receiver.window_shift > 0 || self.peer_shift > 0;
        options.window_scale = self.config.receiver.offered_scale().filter(|_| scales);
        options.sack_permitted = self.config.sender.recovery().uses_sack() && offers(self.sack);
        if self.config.controls_acks() && offers(self.ack_congestion) {
            options.ack_congestion = Some(AckCongestionOption::Permitted);
        }
        if self.config.common.timestamps.is_on() && offers(self.timestamps) {
            let timestamps = self.current_timestamps(now);
            self.syn_stamps =
                (if cause == Cause::Handshake { timestamps.val } else { self.syn_stamps.0 }, timestamps.val);
            options.timestamps = Some(timestamps);
        }
        let accurate = self.accurate_syn_flags(answers);
        if answers {
            self.put_initial_counters(&mut options);
        }
        let marks = match accurate {
            Some(flags) => flags,
            None if answers && self.ecn.is_on() => Flags::ECE,
            // A path may drop packets that offer ECN, so a retransmission does not (RFC 3168 §6.1.1.1).
            None if !answers
                && self.offers_classic_ecn()
                && (cause == Cause::Handshake || !self.config.common.ecn_fallback.is_on()) =>
            {
                Flags::ECE.with(Flags::CWR)
            }
            None => Flags::default(),
        };
        let (ack, kind) =
            if answers { (self.receiver.rcv_nxt(), Flags::SYN.with(Flags::ACK)) } else { (Seq(0), Flags::SYN) };
        let flags = kind.with(marks);
        let window = self.receiver.take_syn_window();
        let mut packet = self.packet(Segment { seq, ack, window, flags, options }, 0, cause);
        packet.header_len = self.header_len(&options, 0);
        packet
    }

    /// Returns whether SYNs offer ECN of RFC 3168.
    fn offers_classic_ecn(&self) -> bool {
        match self.config.common.ecn {
            EcnMode::On | EcnMode::AccurateAccept => true,
            EcnMode::Accurate => self.config.sender.modern().is_none(),
            EcnMode::Off | EcnMode::Passive | EcnMode::AccuratePassive => false,
        }
    }
}
