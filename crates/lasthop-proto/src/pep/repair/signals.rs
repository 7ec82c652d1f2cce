//! Signals in acknowledgments besides their numbers: congestion echoes and counters (RFC 3168 §6.1, RFC 9768 §3.2), and
//! options not parsed here, such as Multipath TCP's data acknowledgments (RFC 8684 §3.3.2).
//!
//! Suppressing a duplicate acknowledgment would suppress its signals. AccECN's counter of marks has three bits, and an
//! option may be sent only once. A duplicate with other signals than the sender has seen therefore passes, without its
//! SACK blocks: it then shows no hole, and a SACK sender does not count it as a duplicate (RFC 6675 §2).

use super::reports::hide_blocks;
use super::{AckVerdict, Budget, Outbox, Repair};
use crate::event::Event;
use crate::packet::{EcnCounters, Flags, Packet, Payload, Segment};
use crate::pep::snoop_config::SnoopConfig;
use crate::time::Instant;

/// Flags that signal congestion.
const ECHO: Flags = Flags(Flags::ECE.0 | Flags::CWR.0 | Flags::AE.0);

/// Signals of one acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signals {
    echo: Flags,
    /// Counters of accurate ECN.
    counters: Option<EcnCounters>,
    /// Digest of its options that are not parsed here; 0 without such options.
    options: u64,
}

impl Signals {
    /// No signals.
    pub const NONE: Self = Self { echo: Flags(0), counters: None, options: 0 };

    pub fn of<P: Payload>(packet: &Packet<P>, segment: &Segment) -> Self {
        let echo = Flags(segment.flags.0 & ECHO.0);
        Self { echo, counters: segment.options.ecn_counters, options: P::unread_options(packet) }
    }

    /// Returns whether an acknowledgment with these signals may be sent to the sender again later. An outdated echo
    /// would be taken for new marks, and an option's request may already have been fulfilled.
    pub fn may_be_repeated(self, now: Self) -> bool {
        self.options == 0 && self.echo == now.echo && self.counters == now.counters
    }
}

impl<P: Payload> Repair<P> {
    /// Processes an acknowledgment from the mobile host.
    pub fn on_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &mut Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        let (ack, signals) = (segment.ack, Signals::of(packet, segment));
        self.budget = Budget::new(now);
        self.sizes.acknowledged(ack);
        let is_old = self.stream.last_ack.is_some_and(|last_ack| ack.lt(last_ack));
        let verdict = self.judge_ack(now, config, packet, segment, out);
        if is_old {
            return verdict;
        }
        if verdict == AckVerdict::Hold {
            if signals == self.answers.signals {
                out.events.push_back((packet.flow, Event::DupAckSuppressed { ack }));
                return AckVerdict::Hold;
            }
            hide_blocks(packet);
        }
        self.answers.pass(signals);
        if verdict == AckVerdict::Hold { AckVerdict::Forward } else { verdict }
    }
}
