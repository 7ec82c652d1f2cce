//! All peers of one end, without I/O: takes packets of the inner network and datagrams, and returns datagrams and
//! packets.

mod bridged;
mod events;
mod routed;
mod sizes;
mod volume;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;

use lasthop_daemon::recording::Recorder;
use lasthop_proto::link::hybrid::{Fate, Frame, MOST_PATHS, PacketNumber, PathId, State};
use lasthop_proto::packet::Ecn;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::{HEADER, TAG};
use lasthop_tunnel::{Arrival, Carrier, Credentials, Origin, PeerId, PublicKey, SocketId, Tunnel, TunnelConfig};

use self::bridged::Bridged;
use crate::frames;
use crate::inner::fit::take_mark;
use crate::inner::frame::{ETHERNET, LENGTH, is_frame};
use crate::inner::look::Flows;
use crate::inner::packet::Packet;
use crate::link::{ALL, Link};
use crate::plan::{PeerPlan, Plan, Way};
use crate::recording::hop::{SharedRecorder, Tape};

/// Maximum number of frames that a peer sends in its turn: at least as many as one read of the device returns.
const TURN: usize = 256;
/// Time, and number of round trips, without an answer after which a peer is considered silent.
const UNANSWERED: Duration = Duration::from_secs(1);
const UNANSWERED_TRIPS: u64 = 4;
/// Maximum number of addresses to remember: those to which the session sent something, and those that sent something.
const MOST_ADDRESSED: usize = 16;
/// Maximum number of packets that wait for the device.
const MOST_OUT: usize = 8_192;

/// Outgoing datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'b> {
    /// Destination.
    pub to: SocketAddr,
    /// Socket from which to send.
    pub socket: SocketId,
    /// Source address, if known.
    pub from: Option<IpAddr>,
    /// ECN field of the datagram's IP header.
    pub ecn: Ecn,
    /// UDP payload.
    pub bytes: &'b [u8],
}

/// Sender of datagrams.
pub trait Outbox {
    /// Sends a datagram.
    fn put(&mut self, datagram: Datagram<'_>);
}

/// Statistics of an engine that do not belong to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EngineCounters {
    /// Packets from the device that are invalid, or whose destination belongs to no peer.
    pub unroutable: u64,
    /// The tunnel's own datagrams that were routed into it.
    pub looped: u64,
    /// Packets for the device that were dropped because the queue was full.
    pub overflow: u64,
}

/// Signs of life of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hearing {
    /// Time of the last authentic datagram.
    pub last: Option<Instant>,
    /// True if an answer is overdue.
    pub unanswered: bool,
    /// Time of the last authentic datagram on each path.
    pub on_paths: [Option<Instant>; MOST_PATHS as usize],
}

/// Source of inner packets.
enum Inner {
    /// A TUN device; datagrams are sent from this UDP port.
    Routed { port: u16 },
    /// A bridge.
    Bridged(Bridged),
}

/// One end of the tunnel.
pub struct Engine {
    tunnel: Tunnel,
    links: Vec<Option<Link>>,
    inner: Inner,
    carrier: (Carrier, u16),
    /// MTUs of the interfaces, by socket, that differ from that of `carrier`.
    link_mtus: BTreeMap<SocketId, u16>,
    flows: Flows,
    /// Packets for the device.
    out: VecDeque<Packet>,
    scratch: Vec<u8>,
    /// Source and destination of the latest datagram.
    newest: Option<(SocketAddr, Option<IpAddr>)>,
    /// Sources and destinations of authentic datagrams, each source once, the latest first: answers leave from the
    /// destination, which an address translator expects.
    destinations: VecDeque<(SocketAddr, IpAddr)>,
    /// Addresses to which the session recently sent something: answers to handshakes go to addresses without a link.
    addressed: VecDeque<SocketAddr>,
    counters: EngineCounters,
    /// Recorder of the links' inputs and decisions, if enabled.
    recorder: Option<SharedRecorder>,
}

impl Engine {
    /// Creates an end without sessions. `seed` must come from the operating system.
    ///
    /// # Errors
    ///
    /// Returns an error if two peers are the same, or a key is invalid.
    pub fn new(plan: &Plan, seed: [u8; 32], now: Instant, recorder: Option<Recorder>) -> Result<Self, String> {
        let (carrier, link_mtu) = plan.carrier();
        let config = TunnelConfig { credentials: plan.credentials()?, capabilities: ALL, carrier, link_mtu };
        let inner = match &plan.way {
            Way::Routed(routed) => Inner::Routed { port: routed.listen.port() },
            Way::Bridged(_) => Inner::Bridged(Bridged::default()),
        };
        let mut engine = Self {
            tunnel: Tunnel::new(config, seed, now),
            links: Vec::new(),
            inner,
            carrier: (carrier, link_mtu),
            link_mtus: BTreeMap::new(),
            flows: Flows::default(),
            out: VecDeque::new(),
            scratch: Vec::new(),
            newest: None,
            destinations: VecDeque::new(),
            addressed: VecDeque::new(),
            counters: EngineCounters::default(),
            recorder: recorder.map(|recorder| Rc::new(RefCell::new(recorder))),
        };
        engine.configure(now, &plan.peers)?;
        Ok(engine)
    }

    /// Adopts another plan: its peers and, if it changed, its identity, with which all sessions start again. On success,
    /// returns this end's public key if it changed.
    ///
    /// # Errors
    ///
    /// Returns an error if two peers are the same, or a key is invalid. The peers before it have been applied.
    pub fn adopt(&mut self, now: Instant, plan: &Plan) -> Result<Option<PublicKey>, String> {
        let credentials = plan.credentials()?;
        let public = credentials.public();
        let changes = public != self.tunnel.public_key();
        self.replace(now, &plan.peers, changes.then_some(credentials))?;
        Ok(changes.then_some(public))
    }

    /// Replaces the peers. Peers whose configuration does not change keep their sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if two peers are the same, or a key is invalid. The peers before it have been applied.
    pub fn configure(&mut self, now: Instant, peers: &[PeerPlan]) -> Result<(), String> {
        self.replace(now, peers, None)
    }

    /// Replaces the peers, all of them if this end gets another identity.
    fn replace(&mut self, now: Instant, peers: &[PeerPlan], identity: Option<Credentials>) -> Result<(), String> {
        let mut gone = Vec::new();
        for index in 0..self.links.len() {
            let changes = |link: &mut Link| identity.is_some() || !peers.iter().any(|peer| peer.is_same(&link.plan));
            if let Some(link) = self.links[index].take_if(changes) {
                self.tunnel.remove_peer(now, PeerId(index as u32));
                gone.push(link);
            }
        }
        if let Some(identity) = identity {
            self.tunnel.set_credentials(now, identity);
        }
        for peer in peers {
            if self.links.iter().flatten().any(|link| link.plan.is_same(peer)) {
                continue;
            }
            // A changed peer is called at its last address, because it may have no endpoint for this end. It may also have
            // another key.
            let with_key = gone.iter().find(|link| link.plan.key == peer.key);
            let before = with_key.or_else(|| gone.iter().find(|link| link.plan.name == peer.name));
            let (mut peer, mut is_known) = (peer.clone(), false);
            for (path, before) in peer.paths.iter_mut().zip(before.iter().flat_map(|before| before.paths())) {
                path.last = path.last.or(before.address);
                is_known |= before.address.is_some();
            }
            let added =
                peer.config().and_then(|config| self.tunnel.add_peer(now, config).map_err(|error| error.to_string()));
            let PeerId(id) = added.map_err(|error| format!("peer \"{}\": {error}", peer.name))?;
            let place = id as usize;
            if self.links.len() <= place {
                self.links.resize_with(place + 1, || None);
            }
            let tape = self.recorder.clone().map(|recorder| Tape { recorder, peer: id });
            self.links[place] = Some(Link::new(now, peer.clone(), self.carrier, tape));
            self.apply_link_mtus(now, PeerId(id));
            if is_known {
                self.wake(now, PeerId(id));
            }
        }
        Ok(())
    }

    /// Returns the links to the peers.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    /// Returns the links to the peers for calls that update their state.
    pub fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().flatten()
    }

    /// Returns the number of bytes before an inner IP packet in the data that a link carries.
    pub fn in_front(&self) -> u16 {
        match self.inner {
            Inner::Routed { .. } => 0,
            Inner::Bridged(_) => (LENGTH + ETHERNET) as u16,
        }
    }

    /// Returns the signs of life of the peers, in their order.
    pub fn hearings(&self, now: Instant) -> Vec<Hearing> {
        let places = self.links.iter().zip(0..).filter_map(|(link, id)| Some((link.as_ref()?, PeerId(id))));
        let on_paths = |id| std::array::from_fn(|path| self.tunnel.heard_on(id, PathId(path as u8)));
        places.map(|(link, id)| Hearing { on_paths: on_paths(id), ..self.hearing(now, link, id) }).collect()
    }

    fn hearing(&self, now: Instant, link: &Link, id: PeerId) -> Hearing {
        let last = self.tunnel.heard(id);
        let asked = [link.asked, self.tunnel.called_since(id)].into_iter().flatten();
        let since = match self.inner {
            Inner::Routed { .. } => asked.filter(|asked| last.is_none_or(|last| last < *asked)).min(),
            // On a bridge the other end sends signs of life at all times.
            Inner::Bridged(_) => last,
        };
        let trip = link.hop.path_ids().map(|path| link.hop.round_trip(path)).max().unwrap_or_default();
        let patience = UNANSWERED.max(trip * UNANSWERED_TRIPS);
        let on_paths = [None; MOST_PATHS as usize];
        Hearing { last, on_paths, unanswered: link.up && since.is_some_and(|since| now.since(since) > patience) }
    }

    /// Returns the engine's statistics.
    pub fn counters(&self) -> EngineCounters {
        self.counters
    }

    /// Returns the session's statistics.
    pub fn session_counters(&self) -> &lasthop_tunnel::Counters {
        self.tunnel.counters()
    }

    /// Handles a packet from the device, or a frame on a bridge.
    pub fn handle_packet(&mut self, now: Instant, packet: &mut [u8]) {
        match self.inner {
            Inner::Routed { port } => self.take_routed(now, port, packet),
            Inner::Bridged(_) => self.take_bridged(now, packet),
        }
    }

    /// Starts a session, because data waits.
    fn wake(&mut self, now: Instant, id: PeerId) {
        let Some(link) = self.links.get(id.0 as usize).and_then(Option::as_ref) else { return };
        let _ = self.tunnel.seal(now, id, PathId::FIRST, link.next_number(PathId::FIRST), &mut [0; HEADER + TAG]);
    }

    fn deliver(&mut self, packet: Packet) {
        if self.out.len() < MOST_OUT {
            self.out.push_back(packet);
        } else {
            self.counters.overflow += 1;
        }
    }

    /// Handles a datagram to this end's address `to`.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: impl Into<Origin>,
        to: Option<IpAddr>,
        ecn: Ecn,
        datagram: &mut [u8],
    ) {
        let from = from.into();
        self.newest = Some((from.address, to));
        let arrival = self.tunnel.handle_datagram(now, from, datagram);
        if let (Arrival::Link { .. } | Arrival::Taken, Some(to)) = (&arrival, to) {
            self.remember(from.address, to);
        }
        self.take_events(now);
        match &arrival {
            Arrival::Link { peer, path, .. } => {
                if let Some(link) = link_of(&mut self.links, *peer) {
                    link.count_volume(*path, datagram.len());
                }
            }
            Arrival::Taken => self.count_volume(from.address, from.socket, datagram.len()),
            Arrival::Dropped(_) => {}
        }
        if let Arrival::Link { peer, path, number, frames } = arrival {
            self.look_for_crossing(peer, path, from.socket);
            self.take_frame(now, (peer, path, number), ecn, datagram, frames);
            let path = link_of(&mut self.links, peer).and_then(|link| link.path_mut(path));
            if let Some(path) = path.filter(|path| path.address == Some(from.address)) {
                path.local = to;
            }
        }
    }

    /// Records the destination of a datagram from `from`.
    fn remember(&mut self, from: SocketAddr, to: IpAddr) {
        if self.destinations.front() == Some(&(from, to)) {
            return;
        }
        self.destinations.retain(|(known, _)| *known != from);
        self.destinations.truncate(MOST_ADDRESSED - 1);
        self.destinations.push_front((from, to));
    }

    /// Returns this end's address to which the latest datagram from `address` was sent, if it is known.
    fn destination(&self, address: SocketAddr) -> Option<IpAddr> {
        self.destinations.iter().find(|(from, _)| *from == address).map(|(_, to)| *to)
    }

    fn take_frame(
        &mut self,
        now: Instant,
        (id, path, number): (PeerId, PathId, u64),
        ecn: Ecn,
        datagram: &mut [u8],
        frames: Range<usize>,
    ) {
        let Some(link) = link_of(&mut self.links, id).filter(|link| link.hop.has_path(path)) else { return };
        let bytes = &mut datagram[frames];
        // A data frame: the mark applies to the packet in it.
        if ecn == Ecn::Ce
            && let Some(packet) = frames::packet_mut(bytes)
            && !take_mark(packet)
        {
            link.counters.marked_lost += 1;
            return;
        }
        let Some(frame) = frames::read(bytes, link.near(), |path| link.own(path)) else {
            link.counters.foreign += 1;
            return;
        };
        // Only feedback decides fates, apart from timeouts.
        let is_feedback = matches!(frame, Frame::Feedback(_));
        link.hop.handle_frame(now, path, PacketNumber(number), bytes.len() as u32, frame);
        self.take_items(now, id);
        if is_feedback {
            self.take_fates(now, id);
        }
    }

    /// Passes on packets that a peer's link has received.
    fn take_items(&mut self, now: Instant, id: PeerId) {
        loop {
            let Some(link) = link_of(&mut self.links, id) else { return };
            let Some(packet) = link.hop.poll_item(now) else { return };
            match self.inner {
                Inner::Routed { .. } => self.hand_on_routed(now, id, packet),
                Inner::Bridged(_) => self.hand_on_bridged(now, id, packet),
            }
        }
    }

    /// Reports the sizes of the datagrams that arrive to the session.
    fn take_fates(&mut self, now: Instant, id: PeerId) {
        let Some(link) = link_of(&mut self.links, id) else { return };
        let news = link.news(now);
        let name = link.plan.name.as_str();
        match news {
            Some(State::Broken) => {
                tracing::warn!(
                    peer = name,
                    "circuit breaker open: over 30 % loss for 10 s without queueing; repair suspended"
                );
            }
            Some(_) => tracing::info!(peer = name, "circuit breaker closed: loss decreased; repair resumed"),
            None => {}
        }
        for path in link.hop.path_ids() {
            while let Some((size, fate)) = link.poll_fate(path) {
                match fate {
                    Fate::Arrived(_) => self.tunnel.acknowledged(id, path, size),
                    Fate::Lost(_) => self.tunnel.lost(now, id, path, size),
                }
            }
        }
    }

    /// Performs due work. `wall` is the time of day, in nanoseconds since 1970.
    pub fn handle_timeout(&mut self, now: Instant, wall: u64) {
        if self.tunnel.poll_deadline().is_some_and(|due| due <= now) {
            self.tunnel.handle_timeout(now, wall);
        }
        self.take_events(now);
        self.look_after_silence(now);
        self.call_the_silent(now);
        for index in 0..self.links.len() {
            let Some(link) = self.links[index].as_mut().filter(|link| link.up) else { continue };
            if link.hop.poll_deadline().is_some_and(|due| due <= now) {
                link.hop.handle_timeout(now);
                self.take_items(now, PeerId(index as u32));
                self.take_fates(now, PeerId(index as u32));
            }
        }
    }

    /// Calls peers that do not answer: a restarted peer has lost the session. If only the path is down, the session
    /// continues afterwards.
    fn call_the_silent(&mut self, now: Instant) {
        if matches!(self.inner, Inner::Bridged(_)) {
            return;
        }
        let hearings = self.links.iter().zip(0..).filter_map(|(link, id)| Some((link.as_ref()?, PeerId(id))));
        let silent: Vec<_> =
            hearings.filter(|(link, id)| self.hearing(now, link, *id).unanswered).map(|(_, id)| id).collect();
        for id in silent {
            self.tunnel.call(now, id);
        }
    }

    /// Sends all frames that may leave now, up to a limit for each peer.
    pub fn send(&mut self, now: Instant, outbox: &mut impl Outbox) {
        for index in 0..self.links.len() {
            self.send_to(now, PeerId(index as u32), outbox);
        }
        while let Some(transmit) = self.tunnel.poll_transmit() {
            self.count_volume(transmit.to, transmit.socket, transmit.bytes.len());
            let linked = self.links().find_map(|link| link.path_to(transmit.to)).and_then(|path| path.local);
            let known = self.destination(transmit.to).or(linked);
            let newest = self.newest.filter(|(from, _)| *from == transmit.to).and_then(|(_, local)| local);
            let (from, ecn) = (newest.or(known), Ecn::NotEct);
            if !self.addressed.contains(&transmit.to) {
                self.addressed.truncate(MOST_ADDRESSED - 1);
                self.addressed.push_front(transmit.to);
            }
            outbox.put(Datagram { to: transmit.to, socket: transmit.socket, from, ecn, bytes: &transmit.bytes });
        }
        self.take_events(now);
    }

    fn send_to(&mut self, now: Instant, id: PeerId, outbox: &mut impl Outbox) {
        if !link_of(&mut self.links, id).is_some_and(|link| link.up) {
            return;
        }
        for _ in 0..TURN {
            let Some(link) = link_of(&mut self.links, id) else { return };
            let Some(mut outgoing) = link.hop.poll_frame(now) else { return };
            outgoing.frame = link.readable(outgoing.frame);
            self.scratch.clear();
            self.scratch.resize(HEADER, 0);
            frames::write(&outgoing.frame, &mut self.scratch);
            self.scratch.resize(self.scratch.len() + TAG, 0);
            let ecn = match &outgoing.frame {
                Frame::Data(_, _, packet) | Frame::Bare(packet) => packet.ecn(),
                _ => Ecn::NotEct,
            };
            let (path, number) = (outgoing.path, link.on_frame(&outgoing, self.scratch.len()));
            let heard = self.tunnel.heard(id);
            if outgoing.frame.elicits() && link.asked.is_none_or(|asked| heard >= Some(asked)) {
                link.asked = Some(now);
            }
            let Some(number) = number else { continue };
            let (local, socket) = link.socket(path);
            // If the session has ended, or the peer has no address on the path yet, the datagram is lost as it would be on
            // the path.
            if let Ok(to) = self.tunnel.seal(now, id, path, number, &mut self.scratch) {
                outbox.put(Datagram { to, socket, from: local, ecn, bytes: &self.scratch });
                self.gave_sign(now, id, path);
            }
        }
    }

    /// Passes the next packet for the device to `take`; returns `false` if there is none.
    pub fn poll_packet(&mut self, take: impl FnOnce(&[u8])) -> bool {
        let Some(packet) = self.out.pop_front() else { return false };
        let bytes = packet.bytes();
        take(if is_frame(bytes) { &bytes[LENGTH..] } else { bytes });
        true
    }

    /// Returns the time at which [`Engine::handle_timeout`] and [`Engine::send`] have work to do.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let hops = self.links().filter(|link| link.up).filter_map(|link| link.hop.poll_deadline()).min();
        [self.tunnel.poll_deadline(), hops, self.silence_deadline()].into_iter().flatten().min()
    }

    /// Closes this end: notifies the peers, and on a bridge sends taken frames unrepaired over the hop.
    pub fn close(&mut self, now: Instant) {
        if let (Inner::Bridged(_), Some(id)) = (&self.inner, self.links.iter().position(Option::is_some)) {
            self.fall_silent(now, PeerId(id as u32));
        }
        for index in 0..self.links.len() {
            self.tunnel.close(now, PeerId(index as u32));
        }
    }
}

/// Returns the link to a peer, if the peer exists.
fn link_of(links: &mut [Option<Link>], PeerId(id): PeerId) -> Option<&mut Link> {
    links.get_mut(id as usize)?.as_mut()
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
