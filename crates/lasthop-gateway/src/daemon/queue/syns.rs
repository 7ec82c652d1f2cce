//! SYNs of connections that the relay splits: the decision to send them to the relay, and their way there.

use std::io;
use std::time::Instant;

use lasthop_sys::links::Links;
use lasthop_sys::nfqueue::message::{Extent, Hook, Queued, Verdicts};
use lasthop_sys::raw::Sender;

use super::Senders;
use crate::daemon::passage::{Answer, Treatment, Way};
use crate::daemon::path::Core;
use crate::daemon::relay::{Relay, is_first};
use crate::daemon::trial::Outcome;
use crate::daemon::way_out::{self, Sequel, WayOut};
use crate::split::opening::{Ends, Opening};

/// Sends SYNs to the listener that their mark identifies.
pub struct FirstSender {
    sender: Sender,
    mark: u32,
}

impl FirstSender {
    /// Opens a socket whose packets bypass the gateway's own rules because of its `mark`.
    pub fn new(mark: u32) -> io::Result<Self> {
        Ok(Self { sender: Sender::new(mark)?, mark })
    }

    fn send(&self, packet: &[u8], listener: u32) -> io::Result<()> {
        self.sender.set_mark(self.mark | listener)?;
        self.sender.send(packet)
    }

    /// Returns the socket, whose mark is set before each packet, and the gateway's mark.
    const fn parts(&self) -> (&Sender, u32) {
        (&self.sender, self.mark)
    }
}

/// Lets a SYN continue unsplit, past only the rule that sent it here.
pub(super) fn pass(verdicts: &mut Verdicts, packet: &Queued<'_>, core: &Core) {
    match &core.relay {
        Some(relay) => verdicts.repeat(packet.id, packet.mark | relay.marks().opened),
        None => verdicts.accept_one(packet.id),
    }
}

/// Returns whether a packet from this interface to a socket of the relay enters the queue again on its way there.
pub(super) fn is_queued_again(links: &Links, packet: &Queued<'_>, core: &Core) -> bool {
    core.beneath.is_some() && links.contains(packet.from)
}

/// Returns the ends of a connection whose SYN arrived from the hop and is on its last step to a socket of the relay.
pub(super) fn first_at_home(links: &Links, packet: &Queued<'_>) -> Option<Ends> {
    let begins = |packet: &Queued<'_>| lasthop_wire::parse(packet.bytes).is_some_and(|view| is_first(&view));
    let matters = packet.hook == Hook::Local && links.contains(packet.from) && begins(packet);
    matters.then(|| Opening::read(packet.bytes)).flatten().map(|opening| opening.ends)
}

/// Sends a SYN that was held during a trial.
pub(super) fn go_on(senders: &Senders, sequel: Sequel, core: &mut Core, way_out: &mut WayOut) {
    let Some(first) = &senders.first else { return };
    let marks = core.relay.as_ref().map(Relay::marks).unwrap_or_default();
    let packet = match sequel {
        Sequel::Lead(ends, packet, mark) => {
            let mark = mark | marks.deliver;
            let carried = way_out.is_carried_home(ends, |decoy| drop(first.send(decoy, mark)));
            if carried && first.send(&packet, mark).is_ok() {
                return;
            }
            packet
        }
        Sequel::Forward(packet) => packet,
    };
    if let Some((relay, opening)) = core.relay.as_ref().zip(Opening::read(&packet)) {
        relay.give_up(opening);
    }
    // Sent like any packet of this machine, so that connection tracking takes it for the start of a connection; if that
    // is refused, with the mark of the relay.
    let (sender, _) = first.parts();
    let send = |mark| sender.set_mark(mark).and_then(|()| sender.send(&packet));
    if let Err(error) = send(0).or_else(|_| send(marks.opened)) {
        // Its sender retransmits it, and the retransmission passes.
        core.counters.injection_failures += 1;
        tracing::debug!(%error, "cannot forward the SYN of a connection");
    }
}

/// Returns the mark that sends the SYN to the relay, and the ends of its connection; `None` if it is to pass.
pub(super) fn lead(
    senders: &Senders,
    links: &Links,
    way_out: &mut WayOut,
    packet: &Queued<'_>,
    core: &mut Core,
) -> Option<(u32, Ends)> {
    let relay = core.relay.as_mut()?;
    let ends = Opening::read(packet.bytes)?.ends;
    if let Some(first) = &senders.first {
        let (sender, own) = first.parts();
        let by = relay.interfaces(packet, ends);
        if !way_out.try_split(ends, sender, (own, relay.marks()), by) {
            way_out.try_beside(ends, |ends| relay.try_far(ends));
            return None;
        }
    }
    relay.mark(packet, links).map(|mark| (mark, ends))
}

/// Returns whether a forwarded packet is the SYN of a connection that is subject to a port forward and split by a rule.
/// The SYN has then been sent to the relay as it arrived, and must be dropped before connection tracking confirms the
/// connection.
pub(super) fn leads_home(
    senders: &Senders,
    links: &Links,
    way_out: &mut WayOut,
    packet: &Queued<'_>,
    core: &mut Core,
) -> bool {
    if packet.hook != Hook::Elsewhere || packet.extent != Extent::Whole {
        return false;
    }
    let (Some(relay), Some(first)) = (&mut core.relay, &senders.first) else { return false };
    let Some(family) = way_out::family(packet.bytes) else { return false };
    if way_out.passage.ask(Instant::now(), Treatment::Split, family, Way::In) == Answer::Pass {
        return false;
    }
    let Some((came, mark)) = relay.reclaim(packet, links) else { return false };
    let Some(opening) = Opening::read(&came) else { return false };
    let sent = match way_out.is_carried_home(opening.ends, |decoy| drop(first.send(decoy, mark))) {
        true => first.send(&came, mark),
        false => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    way_out.on_sent(Treatment::Split, &came, Outcome::of(&sent));
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot redirect a connection to the relay; it passes unsplit");
        relay.give_up(opening);
        return false;
    }
    true
}
