//! One peer: repair of the paths to it, numbering of its packets, and their MTU.

mod path;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use lasthop_daemon::ab::Arm;
use lasthop_proto::link::hybrid::{
    Bundle, Counters, Fate, Feedback, Frame, HopConfig, Medium, Outgoing, PacketNumber, PathId, RateRule, Repair,
    State, Terms, Tier, Why,
};
use lasthop_proto::node::Port;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::OVERHEAD;
use lasthop_tunnel::{Capabilities, Carrier, Mac, SocketId, Start};

use crate::comparison::{Comparison, Findings};
use crate::frames::{DATA, Near, Own};
use crate::inner::frame::ETHERNET;
use crate::inner::look::View;
use crate::inner::packet::Packet;
use crate::plan::PeerPlan;
use crate::recording::hop::{RecordedHop, Tape};

pub use self::path::LinkPath;

/// Capability to decode packets from combinations.
pub const CODES: Capabilities = Capabilities(1);
/// Capability to accept unrepaired packets.
pub const BARE: Capabilities = Capabilities(2);
/// Capability to read the number of marked packets in feedback.
pub const MARKS: Capabilities = Capabilities(4);
/// Capability to follow the terms that the other end announces for its paths.
pub const TERMS: Capabilities = Capabilities(8);
/// All capabilities of this end.
pub const ALL: Capabilities = Capabilities(CODES.0 | BARE.0 | MARKS.0 | TERMS.0);

/// Scheduling slack allowed for the loops of both ends, without a lower rate or packets declared lost.
const LAG: Duration = Duration::from_millis(3);
/// Target and interval of the queue (docs/models/two-ended-link.md).
const TARGET: Duration = Duration::from_millis(40);
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for which a packet waits for a session: after it, the sender has given the packet up or retransmitted
/// it.
const EARLY: Duration = Duration::from_secs(1);
/// Maximum number of packets that wait for a session.
const MOST_EARLY: usize = 512;

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Total number of bytes of the packets, starting at the IP header.
    pub bytes: u64,
}

impl Tally {
    /// Counts a packet of the given length in bytes.
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Statistics of a peer besides the link's own [`Counters`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// Packets from the device to the peer.
    pub sent: Tally,
    /// Packets from the peer to the device.
    pub received: Tally,
    /// Datagrams with frames of the link to the peer.
    pub frames: Tally,
    /// Repair among these datagrams: retransmissions, copies, and combinations.
    pub repair: Tally,
    /// Packets that were too big for the path.
    pub oversize: u64,
    /// Invalid packets from the peer, or with a source that does not belong to it.
    pub foreign: u64,
    /// Packets from the peer that were marked on the path although they are not ECN-capable.
    pub marked_lost: u64,
    /// Times that the peer started a new session.
    pub starts: u64,
    /// Frames sent unrepaired: they were too big, or the peer was silent.
    pub plain: u64,
    /// Times that the peer became silent.
    pub silences: u64,
}

/// A peer.
pub struct Link {
    /// Configuration of the peer.
    pub plan: PeerPlan,
    /// Repair.
    pub hop: RecordedHop,
    /// Statistics.
    pub counters: LinkCounters,
    /// Counters of the link before its last restart.
    before: Counters,
    /// Paths of the configuration by number. The hop has those that the other end has as well.
    paths: Vec<LinkPath>,
    /// Packets from the device that wait for a session, with their arrival times.
    early: VecDeque<(Instant, Packet)>,
    /// True if there is a session.
    pub up: bool,
    /// Start of the session.
    pub since: Option<Instant>,
    /// Time of the first transmission since the peer was last heard that requires an answer.
    pub asked: Option<Instant>,
    /// Comparison with unrepaired flows, if enabled.
    comparison: Option<Comparison>,
    /// True if the peer accepts unrepaired packets.
    takes_bare: bool,
    /// True if the peer reads the number of marked packets.
    reads_marks: bool,
    /// True if the peer follows this end's terms.
    reads_terms: bool,
    /// State of repair at the last log message.
    state: State,
    carrier: Carrier,
}

impl Link {
    /// Creates a peer without a session, with paths by interfaces with the MTU of `carrier`.
    pub fn new(now: Instant, plan: PeerPlan, (carrier, link_mtu): (Carrier, u16), tape: Option<Tape>) -> Self {
        Self {
            hop: RecordedHop::new(now, config(&plan, CODES, 28), LAG, &plan.name, tape),
            counters: LinkCounters::default(),
            before: Counters::default(),
            paths: vec![LinkPath::new(link_mtu); plan.paths.len()],
            early: VecDeque::new(),
            up: false,
            since: None,
            asked: None,
            comparison: (plan.ab > 0).then(|| Comparison::new(plan.ab, plan.ab_keys)),
            takes_bare: false,
            reads_marks: false,
            reads_terms: false,
            state: State::Silent,
            carrier,
            plan,
        }
    }

    /// Returns the link's counters since the start.
    pub fn hop_counters(&self) -> Counters {
        self.before.plus(&self.hop.counters())
    }

    /// Handles the start of a session with `paths` paths.
    pub fn on_up(&mut self, now: Instant, capabilities: Capabilities, paths: u8, start: Start) {
        self.up = true;
        self.takes_bare = capabilities.0 & BARE.0 != 0;
        self.reads_marks = capabilities.0 & MARKS.0 != 0;
        self.reads_terms = capabilities.0 & TERMS.0 != 0;
        self.since.get_or_insert(now);
        if start == Start::Rekeyed {
            self.offer_early(now);
            return;
        }
        self.since = Some(now);
        self.counters.starts += 1;
        // Every path starts at the largest number, which the other end learned or exceeds what it learned.
        let offset = self.hop.path_ids().map(|path| self.next_number(path)).max().unwrap_or(0);
        self.paths.iter_mut().for_each(|path| path.begin_anew(offset));
        // Waiting packets were not sent: they are neither dropped nor counted twice.
        let gone = self.hop.counters();
        self.before = self.before.plus(&Counters { dropped: 0, ..gone });
        let more = (1..paths).map(PathId).map(|path| {
            let plan = self.plan.paths.get(usize::from(path.0));
            (rate_rule(plan.and_then(|plan| plan.rate)), self.cost(path) + crate::plan::ADDED)
        });
        let bundle = Bundle { multipath: self.plan.multipath, more: more.collect(), terms: Vec::new() };
        self.hop.begin_anew(now, config(&self.plan, capabilities, self.cost(PathId::FIRST)), &bundle);
        self.paths.iter_mut().for_each(|path| path.peer_terms = Terms::default());
        self.apply_terms(now);
        self.offer_early(now);
    }

    /// Returns the terms on which this end uses a path: those of the configuration, or a later tier if its data volume
    /// requires that.
    pub fn own_terms(&self, path: PathId) -> Terms {
        let index = usize::from(path.0);
        let given = self.plan.paths.get(index).map_or(Terms::default(), |path| path.terms);
        let limit = self.paths.get(index).map_or(Tier::Primary, |path| path.limit);
        if limit > given.tier { given.both(Terms::of(limit)) } else { given }
    }

    /// Returns the paths whose terms the other end has to know, with those terms.
    pub fn announced(&self) -> Vec<(PathId, Terms)> {
        if !self.reads_terms {
            return Vec::new();
        }
        let terms = self.hop.path_ids().map(|path| (path, self.own_terms(path)));
        terms.filter(|(_, terms)| *terms != Terms::default()).collect()
    }

    /// Applies the terms of both ends to the hop's paths.
    fn apply_terms(&mut self, now: Instant) {
        for path in self.hop.path_ids() {
            let peer = self.paths.get(usize::from(path.0)).map_or(Terms::default(), |path| path.peer_terms);
            let terms = self.own_terms(path).both(peer);
            if terms != self.hop.terms(path) {
                self.hop.set_terms(now, path, terms);
            }
        }
    }

    /// Handles the terms that the other end announced for a path. Returns whether they are new.
    pub fn on_peer_terms(&mut self, now: Instant, path: PathId, terms: Terms) -> bool {
        let Some(state) = self.path_mut(path) else { return false };
        let is_new = std::mem::replace(&mut state.peer_terms, terms) != terms;
        self.apply_terms(now);
        is_new
    }

    /// Limits a path to a tier, because of its data volume. Returns whether that changes this end's terms.
    pub fn limit(&mut self, now: Instant, path: PathId, tier: Tier) -> bool {
        let before = self.own_terms(path);
        if let Some(state) = self.path_mut(path) {
            state.limit = tier;
        }
        self.apply_terms(now);
        self.own_terms(path) != before
    }

    /// Handles the end of the session. Unacknowledged packets would be outdated in the next one.
    pub fn on_down(&mut self, now: Instant) {
        (self.up, self.since) = (false, None);
        drop(self.hop.give_back(now));
    }

    /// Keeps a packet until there is a session, for at most [`EARLY`].
    fn keep_early(&mut self, now: Instant, packet: Packet) {
        while self.early.len() >= MOST_EARLY || self.early.front().is_some_and(|(came, _)| now.since(*came) > EARLY) {
            self.early.pop_front();
        }
        self.early.push_back((now, packet));
    }

    /// Offers packets that arrived without a session, unless they are outdated.
    fn offer_early(&mut self, now: Instant) {
        for (came, packet) in std::mem::take(&mut self.early) {
            if now.since(came) <= EARLY {
                self.hop.handle_item(now, packet);
            }
        }
    }

    /// Returns the number of packets that wait for a session, or to be sent.
    pub fn waiting(&self) -> usize {
        self.early.len() + self.hop.sizes().waiting
    }

    /// Takes a packet from the device and determines the arm of its flow. `ip` is absent for frames without IP.
    pub fn offer(&mut self, now: Instant, mut packet: Packet, ip: Option<(&[u8], &View)>) {
        if let Some((comparison, (bytes, view))) = self.comparing().zip(ip) {
            comparison.watch(now, Port::WIRED, bytes);
            if comparison.arm(bytes, view) == Arm::Untreated {
                packet.make_bare();
            }
        }
        if self.up {
            self.hop.handle_item(now, packet);
        } else {
            self.keep_early(now, packet);
        }
    }

    /// Records a packet from the peer to the device; `bytes` includes the headers before IP.
    pub fn on_received(&mut self, now: Instant, bytes: usize, ip: Option<&[u8]>) {
        self.counters.received.count(bytes);
        if let Some((comparison, packet)) = self.comparing().zip(ip) {
            comparison.watch(now, Port::WIRELESS, packet);
        }
    }

    fn comparing(&mut self) -> Option<&mut Comparison> {
        self.comparison.as_mut().filter(|_| self.takes_bare)
    }

    /// Returns the results of both arms, if there is a comparison.
    pub fn findings(&mut self) -> Option<Findings> {
        let given_up = self.hop_counters().given_up;
        self.comparison.as_mut().map(|comparison| comparison.findings(given_up))
    }

    /// Returns the paths of the configuration.
    pub fn paths(&self) -> &[LinkPath] {
        &self.paths
    }

    /// Returns a path of the configuration.
    pub fn path_mut(&mut self, path: PathId) -> Option<&mut LinkPath> {
        self.paths.get_mut(usize::from(path.0))
    }

    /// Returns the path on which the peer has an address.
    pub fn path_to(&self, address: SocketAddr) -> Option<&LinkPath> {
        self.paths.iter().find(|path| path.address == Some(address))
    }

    /// Returns the name of a path; empty if the configuration names none.
    pub fn path_name(&self, path: PathId) -> &str {
        self.plan.paths.get(usize::from(path.0)).map_or("", |path| &path.name)
    }

    /// Returns this end's address on a path, if it is known, and the socket from which to send.
    pub fn socket(&self, path: PathId) -> (Option<IpAddr>, SocketId) {
        let index = usize::from(path.0);
        let socket = self.plan.paths.get(index).map_or(0, |path| path.socket);
        (self.paths.get(index).and_then(|path| path.local), SocketId(socket))
    }

    /// Handles a new address of the peer on a path, and this end's address that the peer sends to, if it is known.
    pub fn on_path(&mut self, now: Instant, path: PathId, addresses: (SocketAddr, Option<IpAddr>), size: u16) {
        let Some(state) = self.path_mut(path) else { return };
        state.move_to(now, addresses, size);
        // Before the session starts, the hop has only the first path.
        if self.hop.has_path(path) {
            self.hop.on_new_path(now, path, self.cost(path) + crate::plan::ADDED);
        }
    }

    /// Sets the MTU of the interface by which a path leaves.
    pub fn set_link_mtu(&mut self, path: PathId, mtu: u16) {
        if let Some(path) = self.path_mut(path) {
            path.set_link_mtu(mtu);
        }
    }

    /// Handles a new MTU of a path.
    pub fn on_size(&mut self, path: PathId, size: u16) {
        if let Some(path) = self.path_mut(path) {
            path.on_size(size);
        }
    }

    /// Returns the number of header bytes before a datagram on a path that count towards an MTU.
    fn headers(&self, path: &LinkPath) -> u16 {
        path.address.map_or(28, |address| self.carrier.headers(address))
    }

    /// Returns the number of header bytes before a datagram on a path that need time on the hop.
    fn cost(&self, path: PathId) -> u16 {
        let headers = self.paths.get(usize::from(path.0)).map_or(28, |path| self.headers(path));
        match self.carrier {
            Carrier::Udp => headers,
            Carrier::Ethernet => headers + ETHERNET as u16,
        }
    }

    /// Returns the maximum size of an inner packet, or of a frame with its length, in bytes: what passes on every path in
    /// use, since repairs may take another path.
    pub fn mtu(&self, now: Instant) -> u16 {
        let used = self.paths.iter().take(self.hop.path_count().into()).filter(|path| path.address.is_some());
        let sizes = used.map(|path| path.size(now, self.headers(path)));
        // Before the peer has an address, the size is that of a new path.
        sizes.min().unwrap_or(lasthop_tunnel::pmtu::BASE).saturating_sub(crate::plan::ADDED)
    }

    /// Returns the reference numbers for the expansion of numbers in the peer's frames.
    pub fn near(&self) -> Near {
        Near { symbol: self.hop.near(PathId::FIRST).1, own_symbol: self.hop.near_own(PathId::FIRST).1 }
    }

    /// Returns this end's packet numbers on a path, if there is such a path.
    pub fn own(&self, path: PathId) -> Option<Own> {
        let offset = self.paths.get(usize::from(path.0)).filter(|_| self.hop.has_path(path))?.offset;
        Some(Own { next: PacketNumber(self.next_number(path)), offset })
    }

    /// Returns the wire number of the next datagram on a path of the hop.
    pub fn next_number(&self, path: PathId) -> u64 {
        let offset = self.paths.get(usize::from(path.0)).map_or(0, |path| path.offset);
        offset + self.hop.near_own(path).0.0
    }

    /// Records a frame sent as a datagram with `payload` bytes of UDP payload. Returns its wire number.
    pub fn on_frame(&mut self, outgoing: &Outgoing<Packet>, payload: usize) -> Option<u64> {
        let arm = if matches!(outgoing.frame, Frame::Bare(_)) { Arm::Untreated } else { Arm::Treated };
        if let Some(comparison) = self.comparison.as_mut().filter(|_| outgoing.why == Why::First) {
            comparison.packets[arm as usize].packets += 1;
        }
        self.counters.frames.count(payload);
        let is_repair = matches!(outgoing.why, Why::Resend | Why::Probe | Why::Redundancy);
        if is_repair {
            self.counters.repair.count(payload);
        }
        self.count_volume(outgoing.path, payload);
        Some(self.path_mut(outgoing.path)?.on_frame(outgoing.packet, payload, is_repair, arm))
    }

    /// Counts a datagram on a path, in either direction, with `payload` bytes after its headers.
    pub fn count_volume(&mut self, path: PathId, payload: usize) {
        let headers = usize::from(self.cost(path));
        if let Some(path) = self.path_mut(path) {
            path.volume.count(payload + headers);
        }
    }

    /// Returns the path on which the peer has an address, by a socket of this end.
    pub fn path_by(&self, address: SocketAddr, socket: SocketId) -> Option<PathId> {
        let mut paths = self.paths.iter().zip(&self.plan.paths);
        let place = paths.position(|(path, plan)| path.address == Some(address) && plan.socket == socket.0)?;
        Some(PathId(place as u8))
    }

    /// Converts a frame to one that this peer can read.
    pub fn readable(&self, frame: Frame<Packet>) -> Frame<Packet> {
        match frame {
            Frame::Feedback(feedback) if !self.reads_marks => Frame::Feedback(Feedback { marked: 0, ..feedback }),
            frame => frame,
        }
    }

    /// Returns the state of repair if the circuit breaker has opened or closed since the last call.
    pub fn news(&mut self, now: Instant) -> Option<State> {
        let is_broken = |path| self.hop.state(now, path) == State::Broken;
        let broken = self.hop.path_ids().find(|path| is_broken(*path));
        let state = self.hop.state(now, broken.unwrap_or(PathId::FIRST));
        let before = std::mem::replace(&mut self.state, state);
        ((before == State::Broken) != (state == State::Broken)).then_some(state)
    }

    /// Returns the size of a datagram on a path and whether it arrived or was lost.
    pub fn poll_fate(&mut self, path: PathId) -> Option<(u16, Fate)> {
        loop {
            let fate = self.hop.poll_fate(path)?;
            if let Some((size, arm)) = self.paths.get(usize::from(path.0)).and_then(|path| path.sent(fate)) {
                if let (Fate::Lost(_), Arm::Untreated, Some(comparison)) = (fate, arm, &mut self.comparison) {
                    comparison.packets[arm as usize].lost += 1;
                }
                return Some((size, fate));
            }
        }
    }
}

/// Formats the address of a peer: of a socket, or of an interface.
pub fn shown(address: SocketAddr) -> String {
    Mac::of(address).map_or_else(|| address.to_string(), |mac| mac.to_string())
}

fn rate_rule(rate: Option<u64>) -> RateRule {
    rate.map_or(RateRule::Auto, RateRule::Fixed)
}

/// Returns the configuration of a link to a peer with `capabilities`, with `headers` bytes of outer headers.
fn config(plan: &PeerPlan, capabilities: Capabilities, headers: u16) -> HopConfig {
    let codes = plan.codes && capabilities.0 & CODES.0 != 0;
    HopConfig {
        rate: rate_rule(plan.paths.first().and_then(|path| path.rate)),
        repair: if codes { Repair::Adaptive } else { Repair::Repeat },
        medium: if plan.shared { Medium::Shared } else { Medium::Own },
        header: headers + (OVERHEAD + DATA) as u16,
        queue: plan.queue,
        memory: plan.memory,
        target: TARGET,
        interval: INTERVAL,
    }
}
