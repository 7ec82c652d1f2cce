//! Datagrams of QUIC in the queue: their verdicts, and the release of those that are held.

use std::time::Instant;

use lasthop_proto::node::Port;
use lasthop_sys::nfqueue::message::{Hook, Queued, Verdicts};
use lasthop_wire::Checksum;

use crate::daemon::held_datagrams::{HeldDatagrams, Release};
use crate::daemon::passage::{Answer, Treatment, Way};
use crate::daemon::path::Core;
use crate::daemon::way_out::{self, WayOut};
use crate::engine::{Offloaded, Verdict};

/// Returns whether a packet is a complete UDP datagram.
pub(super) fn is_datagram(packet: &[u8]) -> bool {
    lasthop_wire::parse_datagram(packet).is_some()
}

/// Returns the verdict on a datagram. Copies are trials themselves: while they are refused, datagrams pass.
pub(super) fn treat_datagram(
    way_out: &WayOut,
    port: Port,
    packet: &Queued<'_>,
    offloaded: Offloaded,
    core: &mut Core,
) -> Verdict {
    let is_forwarded = packet.hook == Hook::Elsewhere;
    let may = |family| way_out.passage.ask(Instant::now(), Treatment::Quic, family, Way::There) != Answer::Pass;
    match way_out::family(packet.bytes).filter(|_| is_forwarded) {
        Some(family) if may(family) => core.judge(port, packet.bytes, offloaded),
        _ => Verdict::Accept,
    }
}

/// Returns a datagram without trailing bytes, and with its checksum, as the engine releases it.
pub(super) fn whole_datagram(packet: &Queued<'_>) -> Vec<u8> {
    let Some(datagram) = lasthop_wire::parse_datagram(packet.bytes) else { return packet.bytes.to_vec() };
    let mut bytes = packet.bytes[..datagram.total_len()].to_vec();
    if packet.checksum == Checksum::Pending {
        lasthop_wire::seal_datagram(&mut bytes, &datagram);
    }
    bytes
}

/// Accepts the held datagrams that the engine has released, in its order. Other packets continue to wait.
pub(super) fn let_go(datagrams: &mut HeldDatagrams, verdicts: &mut Verdicts, core: &mut Core) {
    if core.injections.is_empty() || datagrams.awaits_none() {
        return;
    }
    let Core { injections, counters, .. } = core;
    injections.retain(|injection| {
        if injection.towards != Port::WIRED {
            return true;
        }
        match datagrams.release(&injection.packet) {
            Some(Release::Accept(id)) => {
                counters.accepted += 1;
                verdicts.accept_one(id);
                false
            }
            Some(Release::Passed) => false,
            None => true,
        }
    });
}
