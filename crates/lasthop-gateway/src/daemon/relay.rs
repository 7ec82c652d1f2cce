//! Interface between the packet loop and the relay of split connections, and supervision of the relay.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use lasthop_daemon::ab::RuleArms;
use lasthop_proto::packet::Flags;
use lasthop_sys::conntrack::Conntrack;
use lasthop_sys::links::Links;
use lasthop_sys::nfqueue::message::Queued;
use lasthop_sys::routes::{Routes, Way};
use lasthop_wire::{Checksum, Checksums, Route, View};

use crate::configuration::{Gateway, Mode, Rule};
use crate::daemon::nat::set_destination;
use crate::split::calls::Calls;
use crate::split::decide::{Chooser, Crossing};
use crate::split::opening::{Ends, Opening, is_end_to_end};
use crate::split::{Admission, Marks, SplitConfig, SplitCounters, SplitProxy, SplitSnapshot, try_far};

/// Number of beats without an iteration, half a second or more, after which the relay is considered hung.
const STILL: u32 = 25;

/// The relay of split connections, which runs in a thread of its own, and the decisions on connections for it.
#[derive(Debug)]
pub(super) struct Relay {
    config: SplitConfig,
    chooser: Chooser,
    admission: Arc<Admission>,
    routes: Routes,
    /// Table of tracked connections, to find forwarded ones.
    conntrack: Option<Conntrack>,
    calls: Calls,
    gate: Gate,
    counters: Arc<SplitCounters>,
    /// Names of the rules that split, in their order; they only change with a restart.
    names: Vec<String>,
    pulse: Pulse,
}

/// Admission of new connections to the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    /// Connections that a rule splits go to the relay.
    Open,
    /// All connections pass.
    Closed,
}

/// Detector of a hung loop. It counts the beats of another loop, so that time in which neither loop gets the CPU does
/// not count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Pulse {
    turns: u64,
    /// Number of beats since the last iteration.
    missed: u32,
}

impl Pulse {
    /// Returns whether the loop hangs, given its number of iterations so far.
    fn stands_still(&mut self, turns: u64) -> bool {
        self.missed = if turns == self.turns { self.missed + 1 } else { 0 };
        self.turns = turns;
        self.missed >= STILL
    }
}

impl Relay {
    /// Starts the relay, which runs until the process ends.
    pub fn start(mut proxy: SplitProxy, config: SplitConfig, gateway: &Gateway) -> io::Result<Self> {
        let (counters, admission) = (proxy.counters(), proxy.admission());
        std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
            // The connections end with the process.
            if let Err(error) = proxy.run(&AtomicBool::new(false)) {
                tracing::error!(%error, "the relay of split connections failed; the worker exits");
                std::process::exit(1);
            }
        })?;
        Ok(Self {
            config,
            chooser: Chooser::new(gateway),
            admission,
            routes: Routes::default(),
            conntrack: Conntrack::open().ok(),
            calls: Calls::default(),
            gate: Gate::Open,
            counters,
            names: split_names(gateway),
            pulse: Pulse::default(),
        })
    }

    /// Applies the new rules.
    pub fn reconfigure(&mut self, gateway: &Gateway) {
        self.chooser = Chooser::new(gateway);
    }

    /// Opens or closes the relay for new connections.
    pub fn set_gate(&mut self, gate: Gate) {
        self.gate = gate;
    }

    /// Returns whether a SYN comes from the called end of a connection that is being split, between the same ports: a
    /// simultaneous open (RFC 9293 §3.5). It must be dropped. The relay has answered one end, and will send a SYN to
    /// the other, which accepts it as the SYN that it waits for. A forwarded SYN would meet the relay's answer and end
    /// the connection.
    pub fn crosses(&self, packet: &Queued<'_>) -> bool {
        Opening::read(packet.bytes).is_some_and(|opening| self.admission.is_opening(opening.ends.crossing()))
    }

    /// Returns the mark that sends an arriving SYN to the relay; `None` if it is to pass.
    pub fn mark(&mut self, packet: &Queued<'_>, links: &Links) -> Option<u32> {
        let opening = Opening::read(packet.bytes).filter(|_| self.gate == Gate::Open)?;
        let now = Instant::now();
        let Ends { client, server } = opening.ends;
        let way = self.routes.way(now, (packet.from, client.ip(), server.ip()));
        if way == Way::Here {
            // A port forward may apply.
            self.calls.keep(now, opening);
            return None;
        }
        let listener =
            self.chooser.choose(&self.config, &opening, &Passage { links, from: packet.from, to: way.out() })?;
        if is_end_to_end(packet.bytes) {
            self.counters.passed();
            return None;
        }
        self.admit(now, opening, server, listener)
    }

    /// Returns the SYN of a connection that is subject to a port forward (DNAT) as it arrived, with the mark that sends
    /// it to the relay; `None` if it is to continue.
    pub fn reclaim(&mut self, packet: &Queued<'_>, links: &Links) -> Option<(Vec<u8>, u32)> {
        let view = lasthop_wire::parse(packet.bytes).filter(|view| self.gate == Gate::Open && is_first(view))?;
        let opening = Opening::read(packet.bytes)?;
        let now = Instant::now();
        let called = self.calls.called(now, opening)?;
        // A damaged packet must not be resealed.
        if lasthop_wire::checksums(packet.bytes, &view, packet.checksum) != Checksums::Hold {
            return None;
        }
        let passage = Passage { links, from: packet.from, to: Some(packet.to) };
        let listener = self.chooser.choose(&self.config, &opening, &passage)?;
        if is_end_to_end(packet.bytes) {
            self.counters.passed();
            return None;
        }
        let Ends { client, server } = opening.ends;
        let opening = Opening { ends: Ends { client, server: called }, ..opening };
        let mark = self.admit(now, opening, server, listener)?;
        let mut came = packet.bytes[..view.total_len()].to_vec();
        set_destination(&mut came, called);
        if packet.checksum == Checksum::Pending {
            lasthop_wire::seal(&mut came, &view);
        }
        Some((came, mark))
    }

    /// Returns the mark that sends a SYN to this listener, if the connection is admitted.
    fn admit(&mut self, now: Instant, opening: Opening, server: SocketAddr, listener: u32) -> Option<u32> {
        let conntrack = &mut self.conntrack;
        let route = Route { source: opening.ends.client, destination: opening.ends.server };
        let is_forwarded = || conntrack.as_mut().is_some_and(|conntrack| conntrack.is_under_way(route));
        if !self.admission.admit(now, opening, server, is_forwarded) {
            self.counters.passed();
            return None;
        }
        Some(self.config.marks.accepted | self.config.marks.of_listener(listener))
    }

    /// Records that an admitted connection passes, so that retransmissions of its SYN pass too.
    pub fn give_up(&self, opening: Opening) {
        self.counters.passed();
        self.admission.give_up(Instant::now(), opening);
    }

    /// Returns the relay's counters.
    pub fn counters(&self) -> &SplitCounters {
        &self.counters
    }

    /// Returns the bits of the relay's marks.
    pub const fn marks(&self) -> Marks {
        self.config.marks
    }

    /// Starts connecting to the called end as the relay would; see [`try_far`].
    pub fn try_far(&self, ends: Ends) -> io::Result<socket2::Socket> {
        try_far(&self.config, ends)
    }

    /// Returns the interfaces towards the opener and the called end of a new connection, if known.
    pub fn interfaces(&mut self, packet: &Queued<'_>, Ends { client, server }: Ends) -> [Option<u32>; 2] {
        let out = self.routes.way(Instant::now(), (packet.from, client.ip(), server.ip())).out();
        [(packet.from != 0).then_some(packet.from), out]
    }

    /// Returns whether the relay hangs. Must be called at every heartbeat.
    pub fn hangs(&mut self) -> bool {
        self.pulse.stands_still(self.counters.turns())
    }

    /// Adds the goodputs of split connections to the arms of their rules.
    pub fn treated(&self, arms: &mut [RuleArms]) {
        for (place, name) in self.names.iter().enumerate() {
            if let Some(arms) = arms.iter_mut().find(|arms| arms.name == *name) {
                arms.treated = self.counters.goodputs(place);
            }
        }
    }

    /// Returns a snapshot of the relay's counters.
    pub fn snapshot(&self) -> SplitSnapshot {
        self.counters.snapshot()
    }
}

/// Returns whether a packet is a SYN that opens a connection (`--syn` of iptables).
pub(super) fn is_first(view: &View) -> bool {
    let about = Flags::SYN.with(Flags::ACK).with(Flags::RST).with(Flags::FIN);
    view.segment.flags.0 & about.0 == Flags::SYN.0
}

fn split_names(gateway: &Gateway) -> Vec<String> {
    let splits = |rule: &&Rule| matches!(rule.mode, Mode::Split(_));
    gateway.rules.iter().filter(splits).map(|rule| rule.name.clone()).collect()
}

/// Interfaces by which a packet crosses this machine.
struct Passage<'a> {
    links: &'a Links,
    from: u32,
    to: Option<u32>,
}

impl Crossing for Passage<'_> {
    fn comes_from(&self, interface: &str) -> bool {
        self.links.number(interface) == Some(self.from)
    }

    fn leads_to(&self, interface: &str) -> bool {
        self.to.is_some() && self.links.number(interface) == self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_turns_now_and_then_does_not_stand_still() {
        let mut pulse = Pulse::default();
        // An idle relay iterates every five beats.
        assert!((0..1000).all(|beat| !pulse.stands_still(beat / 5)));
        let mut still = (0..2 * STILL).map(|_| pulse.stands_still(999));
        assert_eq!(still.position(|still| still), Some(STILL as usize));
        assert!(!pulse.stands_still(1000));
    }
}
