//! All sessions of this end: input, output and timers.

pub(crate) mod api;
mod handshakes;
mod refusals;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::link::hybrid::{MOST_PATHS, PathId, Terms};
use lasthop_proto::time::Instant;

use crate::allowed::Allowed;
use crate::control::Control;
use crate::entropy::Entropy;
use crate::hello::Capabilities;
use crate::keys::PublicKey;
use crate::load::Gate;
use crate::mac::Checker;
use crate::noise::{Credentials, Identity};
use crate::peer::{Peer, Shared};
use crate::session::Unopened;
use crate::wire::{self, Datagram, HEADER, Header, Index, Kind, TAG};

use self::refusals::Refusals;

pub use self::api::{
    Arrival, Counters, Drop, Event, MOST_PEERS, Origin, PathConfig, PeerConfig, PeerError, PeerId, Purpose, Refusal,
    SocketId, Start, Transmit, TunnelConfig, Unsealed,
};

/// Number of copies of the message that ends a session, since that message is not retransmitted.
const CLOSES: usize = 3;

/// One end of the tunnel, with all its peers.
pub struct Tunnel {
    own: Identity,
    capabilities: Capabilities,
    checker: Checker,
    gate: Gate,
    peers: Vec<Option<Peer>>,
    by_key: BTreeMap<PublicKey, PeerId>,
    indexes: BTreeMap<Index, PeerId>,
    allowed: Allowed,
    refusals: Refusals,
    shared: Shared,
}

impl Tunnel {
    /// Creates an end without peers. `seed` is 32 bytes from the operating system; `now` comes from a clock that
    /// includes suspend.
    pub fn new(config: TunnelConfig, seed: [u8; 32], now: Instant) -> Self {
        let own = Identity::new(config.credentials);
        let mut entropy = Entropy::new(seed);
        let shared = Shared {
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            retired: Vec::new(),
            counters: Counters::default(),
            carrier: config.carrier,
            link_mtu: config.link_mtu,
            arrived_on: SocketId::default(),
            entropy: Entropy::new(entropy.bytes()),
        };
        Self {
            checker: Checker::new(&own.public, now, &mut entropy),
            gate: Gate::new(&mut entropy),
            own,
            capabilities: config.capabilities,
            peers: Vec::new(),
            by_key: BTreeMap::new(),
            indexes: BTreeMap::new(),
            allowed: Allowed::default(),
            refusals: Refusals::default(),
            shared,
        }
    }

    /// Returns this end's public key.
    pub const fn public_key(&self) -> PublicKey {
        self.own.public
    }

    /// Replaces this end's identity. Sessions belong to the identity under which they were agreed, so all of them are
    /// closed without an event.
    pub fn set_credentials(&mut self, now: Instant, credentials: Credentials) {
        for id in (0..self.peers.len()).map(|id| PeerId(id as u32)) {
            self.close(now, id);
        }
        self.own = Identity::new(credentials);
        self.checker = Checker::new(&self.own.public, now, &mut self.shared.entropy);
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// Returns an error if its key or one of its prefixes is already in use, or there are too many peers. Nothing
    /// changes then.
    pub fn add_peer(&mut self, now: Instant, mut config: PeerConfig) -> Result<PeerId, PeerError> {
        if config.key == self.own.public {
            return Err(PeerError::Own);
        }
        if self.by_key.contains_key(&config.key) {
            return Err(PeerError::Key);
        }
        if self.by_key.len() >= MOST_PEERS {
            return Err(PeerError::Many);
        }
        if !(1..=usize::from(MOST_PATHS)).contains(&config.paths.len()) {
            return Err(PeerError::Paths);
        }
        let free = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        let id = PeerId(free as u32);
        let prefixes = std::mem::take(&mut config.allowed);
        for &prefix in &prefixes {
            if let Some(owner) = self.allowed.insert(prefix, id).filter(|owner| *owner != id) {
                self.allowed.remove(id);
                self.allowed.insert(prefix, owner);
                return Err(PeerError::Prefix(prefix));
            }
        }
        if free == self.peers.len() {
            self.peers.push(None);
        }
        self.by_key.insert(config.key, id);
        let own_epoch = u64::from_le_bytes(self.shared.entropy.bytes());
        self.peers[free] = Some(Peer::new(id, config, self.shared.link_mtu, own_epoch, now));
        Ok(id)
    }

    /// Closes the sessions with a peer and removes it.
    pub fn remove_peer(&mut self, now: Instant, id: PeerId) {
        self.close(now, id);
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::take) {
            self.by_key.remove(&peer.key);
            self.allowed.remove(id);
        }
    }

    /// Notifies a peer that this end closes, and removes the sessions with it.
    pub fn close(&mut self, now: Instant, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        for path in (0..peer.path_count()).map(PathId) {
            let Some(address) = peer.address(path) else { continue };
            for _ in 0..CLOSES {
                peer.send_to(now, path, address, (Control::Close, 0), &mut self.shared);
            }
        }
        peer.clear(&mut self.shared);
        self.retire();
    }

    /// Returns the peer to which a packet to `destination` is routed.
    pub fn route(&self, destination: IpAddr) -> Option<PeerId> {
        self.allowed.owner(destination)
    }

    /// Returns whether a packet from `peer` may have the source `source`.
    pub fn permits(&self, peer: PeerId, source: IpAddr) -> bool {
        self.allowed.owner(source) == Some(peer)
    }

    /// Returns whether packets can be sent to a peer now.
    pub fn is_up(&self, now: Instant, id: PeerId) -> bool {
        self.peer(id).is_some_and(|peer| peer.is_up(now))
    }

    /// Returns the time of the last authentic datagram from a peer; `None` before the first session with it.
    pub fn heard(&self, id: PeerId) -> Option<Instant> {
        self.peer(id).and_then(|peer| peer.authentic_at)
    }

    /// Returns the time of the last authentic datagram from a peer on a path; `None` if none has arrived on it.
    pub fn heard_on(&self, id: PeerId, path: PathId) -> Option<Instant> {
        self.peer(id)?.heard_on(path)
    }

    /// Returns the time since which a peer is being called without an answer; `None` if it is not.
    pub fn called_since(&self, id: PeerId) -> Option<Instant> {
        self.peer(id)?.attempt.as_ref().map(|attempt| attempt.first_at)
    }

    /// Starts a handshake with a peer that does not answer: it may have restarted and lost the session.
    pub fn call(&mut self, now: Instant, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) {
            peer.want(now);
        }
    }

    /// Sends a keep-alive to a peer on one path now, if there is a session. One of several paths whose configured address
    /// is that of all hosts on its line finds the peer there.
    pub fn keep_alive(&mut self, now: Instant, id: PeerId, path: PathId) {
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) {
            peer.keep_alive_on(now, path, &mut self.shared);
        }
    }

    /// Sets the MTU of the interface by which a path leaves, in bytes.
    pub fn set_link_mtu(&mut self, now: Instant, id: PeerId, path: PathId, mtu: u16) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let before = peer.size(path);
        let carrier = self.shared.carrier;
        if let Some(state) = peer.path_mut(path) {
            state.set_link_mtu(now, mtu, carrier);
            peer.tell_size(path, before, &mut self.shared);
        }
    }

    /// Announces the terms on which this end uses a path to a peer, which must have the capability to read them. After a
    /// new session with [`Start::Fresh`] the peer knows none.
    pub fn announce(&mut self, now: Instant, id: PeerId, path: PathId, terms: Terms) {
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) {
            peer.announce(now, path, terms);
        }
    }

    /// Returns the address of a peer on a path.
    pub fn address(&self, id: PeerId, path: PathId) -> Option<SocketAddr> {
        self.peer(id)?.address(path)
    }

    /// Returns the bytes of UDP payload that pass to a peer on a path; [`OVERHEAD`](wire::OVERHEAD) of them are the
    /// session's.
    pub fn size(&self, id: PeerId, path: PathId) -> Option<u16> {
        self.peer(id)?.size(path)
    }

    /// Returns the number of sessions and handshakes in progress of all peers: at most five per peer.
    pub fn sessions(&self) -> usize {
        self.indexes.len()
    }

    /// Returns the datagram counters.
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id.0 as usize).and_then(Option::as_ref)
    }

    /// Seals a datagram of the link in place and returns its destination. It has space for [`HEADER`] bytes before its
    /// frames and [`TAG`] bytes after them. On each path, numbers must increase from one datagram to the next, across
    /// changes of keys too.
    ///
    /// # Errors
    /// Returns an error if there is no session or address yet, the number was used, or the space is missing.
    pub fn seal(
        &mut self,
        now: Instant,
        id: PeerId,
        path: PathId,
        number: u64,
        datagram: &mut [u8],
    ) -> Result<SocketAddr, Unsealed> {
        let peer = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or(Unsealed::Peer)?;
        if datagram.len() < HEADER + TAG {
            return Err(Unsealed::Short);
        }
        if peer.path_mut(path).ok_or(Unsealed::Address)?.next_link > number {
            return Err(Unsealed::Number);
        }
        if !peer.is_up(now) {
            peer.want(now);
            return Err(Unsealed::Session);
        }
        let address = peer.address(path).ok_or(Unsealed::Address)?;
        if peer.seal(now, path, number, datagram, &mut self.shared) { Ok(address) } else { Err(Unsealed::Session) }
    }

    /// Handles a datagram; frames for the link are opened in place.
    pub fn handle_datagram(&mut self, now: Instant, from: impl Into<Origin>, datagram: &mut [u8]) -> Arrival {
        let Origin { address: from, socket } = from.into();
        self.shared.arrived_on = socket;
        let arrival = match wire::parse(datagram) {
            None => Arrival::Dropped(Drop::Form),
            Some(Datagram::Sealed(header)) => self.take_sealed(now, from, header, datagram),
            Some(Datagram::Initiation { sender }) => self.take_initiation(now, from, sender, datagram),
            Some(Datagram::Response { sender, receiver }) => {
                self.take_response(now, from, [sender, receiver], datagram)
            }
            Some(Datagram::Cookie { receiver }) => self.take_cookie(now, receiver, datagram),
        };
        let counters = &mut self.shared.counters;
        match &arrival {
            Arrival::Link { .. } => counters.link += 1,
            Arrival::Taken => counters.taken += 1,
            Arrival::Dropped(reason) => counters.dropped[*reason as usize] += 1,
        }
        self.retire();
        arrival
    }

    fn take_sealed(&mut self, now: Instant, from: SocketAddr, header: Header, datagram: &mut [u8]) -> Arrival {
        let local = header.receiver;
        let Some(&id) = self.indexes.get(&local) else { return Arrival::Dropped(Drop::Index) };
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Arrival::Dropped(Drop::Index);
        };
        let Some(session) = peer.session(local) else { return Arrival::Dropped(Drop::Index) };
        let (number, newest) = match session.open(now, header, datagram) {
            Ok(opened) => opened,
            Err(Unopened::Expired) => return Arrival::Dropped(Drop::Expired),
            Err(Unopened::Replayed) => return Arrival::Dropped(Drop::Replayed),
            Err(Unopened::Damaged) => return Arrival::Dropped(Drop::Damaged),
        };
        let (answered, first) = (session.answered, !std::mem::replace(&mut session.confirmed, true));
        let path = header.path;
        if first && answered == from {
            peer.set_address(now, path, from, &mut self.shared);
        }
        if first {
            self.confirmed(now, id, local);
        }
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Arrival::Dropped(Drop::Index);
        };
        peer.received(now, local);
        let frames = HEADER..datagram.len() - TAG;
        // The size of an answer does not count as credit for a challenge.
        let answer = match header.kind {
            Kind::Control => match Control::decode(&datagram[frames.clone()]) {
                Some(Control::Challenge(_) | Control::Probe(_) | Control::Terms(..)) => {
                    wire::OVERHEAD + crate::control::SHORTEST
                }
                _ => 0,
            },
            Kind::Link => 0,
        };
        let length = datagram.len().saturating_sub(answer);
        peer.came_from(now, path, from, (length, newest), &mut self.shared);
        if header.kind == Kind::Link {
            if newest {
                peer.link_arrived(local, path, number);
            }
            peer.owes_sign_of_life(now);
            return Arrival::Link { peer: id, path, number, frames };
        }
        let Some(control) = Control::decode(&datagram[frames]) else { return Arrival::Dropped(Drop::Unknown) };
        self.take_control(now, from, (id, path), control)
    }

    fn take_control(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (id, path): (PeerId, PathId),
        control: Control,
    ) -> Arrival {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return Arrival::Taken };
        let shared = &mut self.shared;
        match control {
            Control::Keepalive => {}
            Control::Challenge(number) => peer.send_to(now, path, from, (Control::Answer(number), 0), shared),
            Control::Answer(number) => peer.answered(now, path, from, number, shared),
            Control::Probe(number) => peer.send_to(now, path, from, (Control::Seen(number), 0), shared),
            Control::Seen(number) => self.size_may_change(id, path, |search| search.seen(now, number)),
            Control::Terms(about, terms) => {
                peer.send_to(now, path, from, (Control::TermsSeen(about, terms), 0), shared);
                if let Some(path) = peer.path_mut(about) {
                    path.peer_terms = terms;
                    shared.tell(Event::Terms { peer: id, path: about, terms });
                }
            }
            Control::TermsSeen(about, terms) => peer.on_terms_seen(about, terms),
            Control::Close => {
                peer.clear(shared);
                shared.tell(Event::Down { peer: id });
            }
        }
        Arrival::Taken
    }

    fn size_may_change(&mut self, id: PeerId, path: PathId, change: impl FnOnce(&mut crate::pmtu::Search) -> bool) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let before = peer.size(path);
        if peer.search(path).is_some_and(change) {
            peer.tell_size(path, before, &mut self.shared);
        }
    }

    /// Records from the link that a datagram of `size` bytes arrived.
    pub fn acknowledged(&mut self, id: PeerId, path: PathId, size: u16) {
        self.size_may_change(id, path, |search| {
            search.acknowledged(size);
            false
        });
    }

    /// Records from the link that a datagram of `size` bytes was lost.
    pub fn lost(&mut self, now: Instant, id: PeerId, path: PathId, size: u16) {
        self.size_may_change(id, path, |search| search.lost(now, size));
    }

    /// Records that the system refused a datagram of `size` bytes to a peer because it was too big.
    pub fn too_big(&mut self, now: Instant, id: PeerId, path: PathId, size: u16) {
        self.size_may_change(id, path, |search| search.too_big(now, size));
    }

    /// Returns the time of the next call of [`Self::handle_timeout`].
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.peers.iter().flatten().filter_map(Peer::poll_deadline).min()
    }

    /// Performs due work. `wall` is the time of day, in nanoseconds since 1970, which handshakes contain.
    pub fn handle_timeout(&mut self, now: Instant, wall: u64) {
        for at in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[at] else { continue };
            if peer.poll_deadline().is_some_and(|deadline| deadline <= now)
                && peer.handle_timeout(now, &mut self.shared)
            {
                self.begin(now, wall, PeerId(at as u32));
            }
        }
        self.retire();
    }

    /// Returns the next datagram that the session sends.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.shared.transmits.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    fn retire(&mut self) {
        // Most datagrams retire none.
        if self.shared.retired.is_empty() {
            return;
        }
        for index in self.shared.retired.drain(..) {
            self.indexes.remove(&index);
        }
    }
}
