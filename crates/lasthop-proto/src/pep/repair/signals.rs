//! Signals in acknowledgments besides their numbers: congestion echoes (RFC 3168 §6.1, RFC 9768 §3.2), and options that
//! nothing here reads, such as AccECN's counters or Multipath TCP's data acknowledgments (RFC 8684 §3.3.2).
//!
//! A duplicate acknowledgment that is kept from the sender would take its signals with it. AccECN's counter of marks has three
//! bits, and an option may be sent once only. So a duplicate with other signals than the sender has seen passes, without its
//! SACK blocks: it shows no hole then, and a SACK sender takes it for no duplicate (RFC 6675 §2).

use crate::packet::{Flags, Packet, Payload, Segment};

/// The flags that tell of congestion.
const ECHO: Flags = Flags(Flags::ECE.0 | Flags::CWR.0 | Flags::AE.0);

/// The signals of one acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Signals {
    echo: Flags,
    /// Digest of its options that nothing here reads; 0 without such.
    options: u64,
}

impl Signals {
    pub fn of<P: Payload>(packet: &Packet<P>, segment: &Segment) -> Self {
        let echo = Flags(segment.flags.0 & ECHO.0);
        Self { echo, options: P::unread_options(packet) }
    }

    /// Whether an acknowledgment with these may be sent to the sender again later: an echo that is outdated by then would be
    /// taken for marks, and what an option asks for may have been done.
    pub fn may_be_repeated(self, now: Self) -> bool {
        self.options == 0 && self.echo == now.echo
    }
}
