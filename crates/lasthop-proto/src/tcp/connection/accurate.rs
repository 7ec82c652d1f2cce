//! Accurate ECN (RFC 9768), as Linux uses it: three flags of each segment count the marks that arrived, modulo 8.
//! `option` adds the option with numbers of bytes; the evaluation of the peer's counts is in `stream/feedback.rs`.

mod option;

use alloc::boxed::Box;

use self::option::Counting;
use super::{Connection, State};
use crate::packet::{Body, Ecn, Flags, Packet, Segment, Side};
use crate::tcp::ack::Marks;
use crate::tcp::config::{EcnMode, Switch};
use crate::tcp::info::{AccurateInfo, TcpInfo};
use crate::tcp::stream::{Feedback, Seen};

/// Value of the counter on the wire for no marks (RFC 9768 §3.2.1).
const OFFSET: u32 = 5;
/// Number of unreported marks that make the next acknowledgment leave at once (`TCP_ACCECN_ACE_MAX_DELTA`).
const MOST_PENDING: u8 = 6;
/// Number of transmissions of a SYN or SYN-ACK that negotiate; further ones do not, as a path may drop them.
const ATTEMPTS: u32 = 2;
/// The three flags as a number, most significant first.
const ACE: [Flags; 3] = [Flags::AE, Flags::CWR, Flags::ECE];

/// Failures of the path: bits of `tcpi_accecn_fail_mode`.
mod failure {
    /// SYN-ACKs without an offer have left.
    pub const FLAGS_SENT: u8 = 1;
    /// The path changes ECN fields or flags.
    pub const FLAGS_RECEIVED: u8 = 2;
    /// Segments with the option are lost.
    pub const OPTION_SENT: u8 = 4;
    /// The path changes the option.
    pub const OPTION_RECEIVED: u8 = 8;
}

/// Check of the first segment after the peer's SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// As the acknowledgment of a SYN-ACK, in a simultaneous open.
    Reflects,
    /// As a count that has just begun.
    Counts,
    /// Already checked.
    Checked,
}

/// State of accurate ECN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accurate {
    /// ECN field of the peer's last SYN.
    syn: Ecn,
    /// Marked packets that arrived.
    received: u32,
    /// Marked packets that no segment has reported yet.
    pending: u8,
    /// ECN field of the last packet.
    last: Ecn,
    /// On if the next acknowledgment reflects the ECN field of the peer's SYN, in place of the count.
    reflects: Switch,
    /// Check of the next segment.
    first: First,
    /// Bits of [`failure`].
    failures: u8,
    /// Numbers of bytes that arrived, and their reports.
    counting: Counting,
}

impl Accurate {
    /// Returns whether segments may be ECN-capable.
    fn is_capable(&self) -> bool {
        self.failures & (failure::FLAGS_SENT | failure::FLAGS_RECEIVED) == 0
    }
}

/// Returns the number in the three flags.
fn number(flags: Flags) -> u8 {
    ACE.iter().fold(0, |number, flag| number << 1 | u8::from(flags.has(*flag)))
}

/// Returns the three flags for the low three bits of `number`.
fn flags(number: u32) -> Flags {
    let bit = |index: usize| if number >> (2 - index) & 1 == 1 { ACE[index] } else { Flags::default() };
    bit(0).with(bit(1)).with(bit(2))
}

/// Returns the flags that reflect the ECN field of a SYN or SYN-ACK (RFC 9768 table 3).
fn reflection(ecn: Ecn) -> Flags {
    flags(match ecn {
        Ecn::NotEct => 2,
        Ecn::Ect1 => 3,
        Ecn::Ect0 => 4,
        Ecn::Ce => 6,
    })
}

impl Connection {
    /// Returns whether this end negotiates accurate ECN, as the offering end or as the other one.
    fn wants_accurate(&self, offers: bool) -> bool {
        let supported = self.config.sender.modern().is_some();
        match self.config.common.ecn {
            EcnMode::Accurate => supported,
            EcnMode::AccuratePassive | EcnMode::AccurateAccept => supported && !offers,
            EcnMode::Off | EcnMode::Passive | EcnMode::On => false,
        }
    }

    /// Returns the flags of a SYN that offers accurate ECN, or of its answer; `None` if there is nothing to negotiate.
    /// A connection that was answered without the offer sends nothing ECN-capable (RFC 9768 §3.1.5).
    pub(super) fn accurate_syn_flags(&mut self, answers: bool) -> Option<Flags> {
        let early = self.sender.stream().syn_retries() < ATTEMPTS;
        let offers = self.wants_accurate(true);
        match (&mut self.accurate, answers) {
            // In a simultaneous open, the peer's SYN shows that the path permits the flags.
            (Some(accurate), true) if early || self.side == Side::Initiator => Some(reflection(accurate.syn)),
            (Some(accurate), true) => {
                accurate.failures |= failure::FLAGS_SENT;
                Some(Flags::default())
            }
            (None, false) if offers && (early || !self.config.common.ecn_fallback.is_on()) => Some(flags(7)),
            _ => None,
        }
    }

    /// Adopts accurate ECN if the peer's SYN offers it, or if its SYN-ACK accepts the offer (RFC 9768 §3.1). Returns
    /// whether it does.
    pub(super) fn negotiate_accurate(&mut self, packet: &Packet, segment: &Segment) -> bool {
        let (ace, accepts, ecn) = (number(segment.flags), segment.flags.has(Flags::ACK), packet.ecn);
        let agreed = match accepts {
            // Values of later versions of the protocol count as this one.
            false => self.wants_accurate(false) && ace != 0 && ace != 3,
            true => self.wants_accurate(true) && !matches!(ace, 0 | 1 | 7),
        };
        if !agreed {
            return false;
        }
        // The SYN of this end was not ECN-capable; another reflection shows that the path changed it.
        let mangled = accepts && matches!(ace, 3 | 4 | 6) && self.config.common.ecn_fallback.is_on();
        let marked = u8::from(accepts && !mangled && ecn == Ecn::Ce);
        self.accurate = Some(Box::new(Accurate {
            syn: ecn,
            received: marked.into(),
            pending: marked,
            last: if accepts { Ecn::NotEct } else { ecn },
            reflects: if accepts { Switch::On } else { Switch::Off },
            first: if accepts { First::Counts } else { First::Reflects },
            failures: if mangled { failure::FLAGS_RECEIVED } else { 0 },
            counting: Counting::new(&self.config.common),
        }));
        self.sender.stream_mut().begin_feedback();
        self.see_option_of_syn(segment);
        true
    }

    /// Records that the peer's SYN arrived again, and is answered.
    pub(super) fn see_repeated_syn(&mut self, packet: &Packet, segment: &Segment) {
        if let Some(accurate) = &mut self.accurate {
            accurate.syn = packet.ecn;
            if !segment.flags.has(Flags::ACK) && number(segment.flags) == 0 {
                accurate.failures |= failure::FLAGS_RECEIVED;
            }
        }
    }

    /// Reflects the ECN field of a SYN in an established connection, which the next acknowledgment answers.
    pub(super) fn reflect_syn(&mut self, packet: &Packet, segment: &Segment) {
        self.see_repeated_syn(packet, segment);
        if let Some(accurate) = &mut self.accurate {
            accurate.reflects = Switch::On;
            self.see_option_of_syn(segment);
        }
    }

    /// Evaluates the acknowledgment of a SYN-ACK (RFC 9768 §3.2.2.1; `tcp_accecn_third_ack`).
    pub(super) fn check_third_ack(&mut self, packet: &Packet, segment: &Segment) {
        let fallback = self.config.common.ecn_fallback;
        let Some(accurate) = &mut self.accurate else { return };
        if segment.flags.has(Flags::SYN) {
            // The second half of a simultaneous open.
            return;
        }
        accurate.first = First::Checked;
        let plain = segment.options.sack.is_empty();
        let mut feedback = self.sender.stream_mut().feedback_mut();
        match number(segment.flags) {
            0 if plain => {
                accurate.failures |= failure::FLAGS_RECEIVED;
                if let Some(feedback) = &mut feedback {
                    feedback.seen = Seen::Invalid;
                }
            }
            reflected @ (2 | 3 | 4 | 6) if plain && packet.len == 0 => {
                if reflected != 2 && fallback.is_on() {
                    accurate.failures |= failure::FLAGS_RECEIVED;
                } else if let Some(feedback) = &mut feedback
                    && reflected == 6
                {
                    feedback.marked = feedback.marked.max(1);
                }
            }
            _ => {}
        }
        if let Some(feedback) = feedback {
            feedback.see_option(segment.options.ecn_counters);
        }
        accurate.counting.demand(1);
    }

    /// Checks the first segment after the SYNs: a count of zero, with which none begins, shows that the path clears the
    /// flags (RFC 9768 §3.2.2.4).
    #[cold]
    fn check_first(&mut self, packet: &Packet, segment: &Segment) {
        let Some(accurate) = &mut self.accurate else { return };
        if accurate.first == First::Reflects {
            return self.check_third_ack(packet, segment);
        }
        accurate.first = First::Checked;
        if number(segment.flags) == 0 {
            accurate.failures |= failure::FLAGS_RECEIVED;
        }
    }

    /// Counts the ECN field of a packet that is in sequence (`tcp_ecn_received_counters`). A change of the ECN field
    /// makes the acknowledgment of data leave at once.
    #[inline]
    pub(super) fn see_mark(&mut self, packet: &Packet, segment: &Segment) {
        if self.accurate.is_some() {
            self.count_mark(packet, segment);
        }
    }

    #[inline(never)]
    fn count_mark(&mut self, packet: &Packet, segment: &Segment) {
        let (rcv_nxt, segments) = (self.receiver.rcv_nxt(), self.segment_count());
        let Some(accurate) = &mut self.accurate else { return };
        if packet.ecn == Ecn::Ce {
            accurate.received = accurate.received.wrapping_add(segments);
            accurate.pending = accurate.pending.saturating_add(segments.min(255) as u8);
        }
        accurate.counting.count(packet.ecn, packet.len);
        let changed = core::mem::replace(&mut accurate.last, packet.ecn) != packet.ecn;
        if changed || packet.ecn == Ecn::Ce {
            accurate.counting.demand(2);
        }
        let is_first = accurate.first != First::Checked && !segment.flags.has(Flags::SYN);
        let hastens = changed || accurate.pending >= MOST_PENDING;
        if packet.len > 0 && (segment.seq + packet.len).le(rcv_nxt) {
            self.see_repeated(segment.seq);
        }
        if hastens {
            self.receiver.hasten(packet.len > 0);
        }
        // In SYN-RECEIVED, it is checked when it completes the handshake.
        if is_first && self.state != State::SynReceived {
            self.check_first(packet, segment);
        }
    }

    /// Returns the peer's counts, if the segment carries any.
    #[inline]
    pub(super) fn marks_reported(&self, segment: &Segment) -> Option<Marks> {
        let accurate = self.accurate.as_ref()?;
        let works = accurate.failures & failure::FLAGS_RECEIVED == 0;
        let counts = works && self.state != State::SynSent && !self.sender.stream().is_opening();
        counts.then(|| Marks {
            count: (u32::from(number(segment.flags)).wrapping_sub(OFFSET) & 7) as u8,
            is_fresh: self.timestamps.is_on() && self.is_newer(segment),
            option: segment.options.ecn_counters,
        })
    }

    /// Sets the ECN field and the count of a segment being sent; every one is ECN-capable (`tcp_accecn_set_ace`).
    #[inline(never)]
    pub(super) fn put_count(&mut self, packet: &mut Packet, pure: bool) {
        let capable = if self.is_scalable() { Ecn::Ect1 } else { Ecn::Ect0 };
        let is_remnant = self.is_remnant();
        let Some(accurate) = &mut self.accurate else { return };
        if accurate.is_capable() {
            packet.ecn = capable;
        }
        let reflects = core::mem::replace(&mut accurate.reflects, Switch::Off).is_on() && pure;
        let count = if is_remnant {
            Flags::default()
        } else if reflects {
            reflection(accurate.syn)
        } else {
            accurate.pending = 0;
            flags(accurate.received.wrapping_add(OFFSET))
        };
        if let Body::Tcp(segment) = &mut packet.body {
            segment.flags = segment.flags.with(count);
        }
    }

    /// Returns whether only a timer is left of the connection: Linux answers for a released one in TIME-WAIT without
    /// its counts.
    fn is_remnant(&self) -> bool {
        self.state == State::TimeWait && self.ending.released.is_on() && self.receiver.is_linux()
    }

    /// Fills in the values of `info` that accurate ECN knows.
    pub(super) fn describe_accurate(&self, info: &mut TcpInfo) {
        let (Some(accurate), Some(feedback)) = (&self.accurate, self.sender.stream().feedback()) else { return };
        let Feedback { seen, bytes, .. } = *feedback;
        let invalid = if seen == Seen::Invalid { failure::OPTION_RECEIVED } else { 0 };
        info.accurate = AccurateInfo {
            is_used: true,
            delivered_ce: info.accurate.delivered_ce,
            received_ce: accurate.received,
            delivered_bytes: bytes,
            received_bytes: accurate.counting.bytes(),
            failures: accurate.failures | invalid,
            option_seen: seen as u8,
        };
        info.snd_mss += self.reserved_for_option();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9768 table 3, and the count that starts at 5: AE and ECE.
    #[test]
    fn flags_are_a_number() {
        assert_eq!(reflection(Ecn::NotEct), Flags::CWR);
        assert_eq!(reflection(Ecn::Ect1), Flags::CWR.with(Flags::ECE));
        assert_eq!(reflection(Ecn::Ect0), Flags::AE);
        assert_eq!(reflection(Ecn::Ce), Flags::AE.with(Flags::CWR));
        assert_eq!(flags(OFFSET), Flags::AE.with(Flags::ECE));
        (0..8).for_each(|value| assert_eq!(u32::from(number(flags(value))), value));
    }
}
