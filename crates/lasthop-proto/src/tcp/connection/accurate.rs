//! Accurate ECN (RFC 9768) without its option, as Linux 6.18 uses it with `net.ipv4.tcp_ecn_option` = 0: three flags of
//! each segment count the marks that arrived, modulo 8.

use alloc::boxed::Box;

use super::{Connection, State};
use crate::packet::{Body, Ecn, Flags, Packet, Segment};
use crate::tcp::config::{EcnMode, Switch};

/// Value of the counter on the wire for no marks (RFC 9768 §3.2.1).
const OFFSET: u32 = 5;
/// Number of unreported marks that make the next acknowledgment leave at once (`TCP_ACCECN_ACE_MAX_DELTA`).
const MOST_PENDING: u8 = 6;
/// Number of transmissions of a SYN or SYN-ACK that negotiate; further ones do not, as a path may drop them.
const ATTEMPTS: u32 = 2;
/// The three flags as a number, most significant first.
const ACE: [Flags; 3] = [Flags::AE, Flags::CWR, Flags::ECE];

/// State of accurate ECN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accurate {
    /// ECN field of the peer's SYN.
    syn: Ecn,
    /// Marked packets that arrived.
    received: u32,
    /// Marked packets that no segment has reported yet.
    pending: u8,
    /// ECN field of the last packet.
    last: Ecn,
    /// On if the next acknowledgment reflects the ECN field of the peer's SYN-ACK, in place of the count.
    reflects: Switch,
    /// Off if the path changes ECN fields or flags: then nothing is ECN-capable, and the peer's counts are ignored.
    usable: Switch,
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
            EcnMode::AccuratePassive => supported && !offers,
            EcnMode::Off | EcnMode::Passive | EcnMode::On => false,
        }
    }

    /// Returns the flags of a SYN that offers accurate ECN, or of its answer; `None` if there is nothing to negotiate.
    pub(super) fn accurate_syn_flags(&self, answers: bool) -> Option<Flags> {
        let early = self.sender.stream().syn_retries() < ATTEMPTS;
        match (&self.accurate, answers) {
            (Some(accurate), true) if early => Some(reflection(accurate.syn)),
            (Some(_), true) => Some(Flags::default()),
            (None, false) if early && self.wants_accurate(true) => Some(flags(7)),
            _ => None,
        }
    }

    /// Adopts accurate ECN if the peer's SYN offers it, or if its SYN-ACK accepts the offer (RFC 9768 §3.1). Returns
    /// whether it does.
    pub(super) fn negotiate_accurate(&mut self, flags: Flags, ecn: Ecn) -> bool {
        let (ace, accepts) = (number(flags), flags.has(Flags::ACK));
        let agreed = match accepts {
            // Values of later versions of the protocol count as this one.
            false => self.wants_accurate(false) && ace != 0 && ace != 3,
            true => {
                self.wants_accurate(true)
                    && self.sender.stream().syn_retries() < ATTEMPTS
                    && matches!(ace, 2 | 3 | 4 | 6)
            }
        };
        if !agreed {
            return false;
        }
        // The SYN of this end was not ECN-capable; another reflection shows that the path changed it.
        let usable = !accepts || ace == number(reflection(Ecn::NotEct));
        let marked = u8::from(accepts && usable && ecn == Ecn::Ce);
        self.accurate = Some(Box::new(Accurate {
            syn: ecn,
            received: marked.into(),
            pending: marked,
            last: ecn,
            reflects: if accepts { Switch::On } else { Switch::Off },
            usable: if usable { Switch::On } else { Switch::Off },
        }));
        true
    }

    /// Evaluates the acknowledgment of a SYN-ACK (RFC 9768 §3.2.2.1; `tcp_accecn_third_ack`).
    pub(super) fn check_third_ack(&mut self, segment: &Segment) {
        let Some(accurate) = &mut self.accurate else { return };
        let zeroed = number(segment.flags) == 0 && segment.options.sack.is_empty();
        let mangled = matches!(number(segment.flags), 3 | 4 | 6);
        if zeroed || mangled {
            accurate.usable = Switch::Off;
        }
    }

    /// Counts the mark of a packet that is in sequence (`tcp_ecn_received_counters`). A change of the ECN field makes
    /// the acknowledgment of data leave at once.
    #[inline]
    pub(super) fn see_mark(&mut self, packet: &Packet) {
        let Some(accurate) = &mut self.accurate else { return };
        if packet.ecn == Ecn::Ce {
            accurate.received = accurate.received.wrapping_add(1);
            accurate.pending = accurate.pending.saturating_add(1);
        }
        let changed = core::mem::replace(&mut accurate.last, packet.ecn) != packet.ecn;
        if changed || accurate.pending >= MOST_PENDING {
            self.receiver.hasten(packet.len > 0);
        }
    }

    /// Returns the peer's count of marked packets, modulo 8, if the segment carries one.
    #[inline]
    pub(super) fn marks_reported(&self, segment: &Segment) -> Option<u8> {
        let accurate = self.accurate.as_ref()?;
        let counts = accurate.usable.is_on() && self.state != State::SynSent && !self.sender.stream().is_opening();
        counts.then(|| (u32::from(number(segment.flags)).wrapping_sub(OFFSET) & 7) as u8)
    }

    /// Sets the ECN field and the count of a segment being sent; every one is ECN-capable (`tcp_accecn_set_ace`).
    #[inline(never)]
    pub(super) fn put_count(&mut self, packet: &mut Packet, pure: bool) {
        let capable = if self.is_scalable() { Ecn::Ect1 } else { Ecn::Ect0 };
        let Some(accurate) = &mut self.accurate else { return };
        if accurate.usable.is_on() {
            packet.ecn = capable;
        }
        let reflects = core::mem::replace(&mut accurate.reflects, Switch::Off).is_on() && pure;
        let count = if reflects {
            reflection(accurate.syn)
        } else {
            accurate.pending = 0;
            flags(accurate.received.wrapping_add(OFFSET))
        };
        if let Body::Tcp(segment) = &mut packet.body {
            segment.flags = segment.flags.with(count);
        }
    }

    /// Returns the number of marked packets that arrived, under accurate ECN.
    pub(super) fn marks_received(&self) -> u32 {
        self.accurate.as_ref().map_or(0, |accurate| accurate.received)
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
