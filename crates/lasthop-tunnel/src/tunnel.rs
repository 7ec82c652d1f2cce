//! All sessions of this end: what comes in, what goes out, and when.

mod api;
mod handshakes;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::time::Instant;

use crate::allowed::Allowed;
use crate::control::Control;
use crate::entropy::Entropy;
use crate::hello::Capabilities;
use crate::keys::PublicKey;
use crate::load::Gate;
use crate::mac::Checker;
use crate::noise::Identity;
use crate::peer::{Peer, Shared};
use crate::session::Unopened;
use crate::wire::{self, Datagram, HEADER, Header, Index, Kind, TAG};

pub use self::api::{
    Arrival, Counters, Drop, Event, MOST_PEERS, PeerConfig, PeerError, PeerId, Purpose, Start, Transmit, TunnelConfig,
    Unsealed,
};

/// Nobody is left to repeat the end of a session: it is told so many times at once.
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
    /// When the driver was last told of a caller who was refused.
    told_of_caller: Option<Instant>,
    shared: Shared,
}

impl Tunnel {
    /// An end without peers. `seed` is 32 bytes from the operating system; `now` comes from a clock that goes on while the
    /// machine sleeps.
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
            told_of_caller: None,
            shared,
        }
    }

    /// This end's public key.
    pub const fn public_key(&self) -> PublicKey {
        self.own.public
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// If its key or one of its prefixes is taken, or there are too many; nothing has changed then.
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
        self.peers[free] = Some(Peer::new(id, config, own_epoch, now));
        Ok(id)
    }

    /// Closes the sessions with a peer and forgets it.
    pub fn remove_peer(&mut self, now: Instant, id: PeerId) {
        self.close(now, id);
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::take) {
            self.by_key.remove(&peer.key);
            self.allowed.remove(id);
        }
    }

    /// Tells a peer that this end goes away, and forgets the sessions with it.
    pub fn close(&mut self, now: Instant, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        if let Some(path) = peer.path() {
            for _ in 0..CLOSES {
                peer.send_to(now, path, Control::Close, 0, Purpose::Control, &mut self.shared);
            }
        }
        peer.clear(&mut self.shared);
        self.retire();
    }

    /// The peer that a packet to `destination` goes to.
    pub fn route(&self, destination: IpAddr) -> Option<PeerId> {
        self.allowed.owner(destination)
    }

    /// Whether a packet that came from `peer` may have the source `source`.
    pub fn permits(&self, peer: PeerId, source: IpAddr) -> bool {
        self.allowed.owner(source) == Some(peer)
    }

    /// Whether packets can be sent to a peer now.
    pub fn is_up(&self, now: Instant, id: PeerId) -> bool {
        self.peer(id).is_some_and(|peer| peer.is_up(now))
    }

    /// When something authentic came from a peer last, at this end's first session with it or later.
    pub fn heard(&self, id: PeerId) -> Option<Instant> {
        self.peer(id).and_then(|peer| peer.authentic_at)
    }

    /// Since when a peer is called and has not answered, if it is.
    pub fn called_since(&self, id: PeerId) -> Option<Instant> {
        self.peer(id)?.attempt.as_ref().map(|attempt| attempt.first_at)
    }

    /// Begins a handshake with a peer that does not answer: it may have started anew, and know nothing of the session.
    pub fn call(&mut self, now: Instant, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) {
            peer.want(now);
        }
    }

    /// Sends a peer a sign of life now, if there is a session.
    pub fn keep_alive(&mut self, now: Instant, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) {
            peer.keep_alive(now, &mut self.shared);
        }
    }

    /// Where a peer is reached.
    pub fn address(&self, id: PeerId) -> Option<SocketAddr> {
        self.peer(id).and_then(Peer::path)
    }

    /// Bytes of UDP payload that pass to a peer: [`OVERHEAD`](wire::OVERHEAD) of them are the session's.
    pub fn size(&self, id: PeerId) -> Option<u16> {
        self.peer(id).and_then(Peer::size)
    }

    /// Sessions and handshakes that are underway, of all peers together: at most five of each peer.
    pub fn sessions(&self) -> usize {
        self.indexes.len()
    }

    /// Datagrams so far.
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id.0 as usize).and_then(Option::as_ref)
    }

    /// Seals a datagram of the link in place and says where it goes. It has [`HEADER`] bytes of room in front of its frames and
    /// [`TAG`] behind them. Numbers rise from one datagram to the next, over changes of keys too.
    ///
    /// # Errors
    /// If there is no session or address yet, the number was used, or the room is missing.
    pub fn seal(&mut self, now: Instant, id: PeerId, number: u64, datagram: &mut [u8]) -> Result<SocketAddr, Unsealed> {
        let peer = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or(Unsealed::Peer)?;
        if datagram.len() < HEADER + TAG {
            return Err(Unsealed::Short);
        }
        if number < peer.next_link {
            return Err(Unsealed::Number);
        }
        if !peer.is_up(now) {
            peer.want(now);
            return Err(Unsealed::Session);
        }
        let path = peer.path().ok_or(Unsealed::Address)?;
        if peer.seal(now, number, datagram, &mut self.shared) { Ok(path) } else { Err(Unsealed::Session) }
    }

    /// Takes a datagram that came from `from`; frames for the link are opened in place.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) -> Arrival {
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
        if first && answered == from {
            peer.set_path(now, from, &mut self.shared);
        }
        if first {
            self.confirmed(id, local);
        }
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Arrival::Dropped(Drop::Index);
        };
        peer.received(now, local);
        let frames = HEADER..datagram.len() - TAG;
        // What the answer to it takes is not there for a challenge.
        let answer = match header.kind {
            Kind::Control => match Control::decode(&datagram[frames.clone()]) {
                Some(Control::Challenge(_) | Control::Probe(_)) => wire::OVERHEAD + crate::control::SHORTEST,
                _ => 0,
            },
            Kind::Link => 0,
        };
        peer.came_from(now, from, datagram.len().saturating_sub(answer), newest, &mut self.shared);
        if header.kind == Kind::Link {
            peer.owes_sign_of_life(now);
            return Arrival::Link { peer: id, number, frames };
        }
        let Some(control) = Control::decode(&datagram[frames]) else { return Arrival::Dropped(Drop::Unknown) };
        self.take_control(now, from, id, control)
    }

    fn take_control(&mut self, now: Instant, from: SocketAddr, id: PeerId, control: Control) -> Arrival {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return Arrival::Taken };
        let shared = &mut self.shared;
        match control {
            Control::Keepalive => {}
            Control::Challenge(number) => {
                peer.send_to(now, from, Control::Answer(number), 0, Purpose::Control, shared);
            }
            Control::Answer(number) => peer.answered(now, from, number, shared),
            Control::Probe(number) => peer.send_to(now, from, Control::Seen(number), 0, Purpose::Control, shared),
            Control::Seen(number) => self.size_may_change(id, |search| search.seen(now, number)),
            Control::Close => {
                peer.clear(shared);
                shared.tell(Event::Down { peer: id });
            }
        }
        Arrival::Taken
    }

    fn size_may_change(&mut self, id: PeerId, change: impl FnOnce(&mut crate::pmtu::Search) -> bool) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let before = peer.size();
        if peer.search().is_some_and(change) {
            peer.tell_size(before, &mut self.shared);
        }
    }

    /// The link learned that a datagram of `size` bytes arrived.
    pub fn acknowledged(&mut self, id: PeerId, size: u16) {
        self.size_may_change(id, |search| {
            search.acknowledged(size);
            false
        });
    }

    /// The link learned that a datagram of `size` bytes was lost.
    pub fn lost(&mut self, now: Instant, id: PeerId, size: u16) {
        self.size_may_change(id, |search| search.lost(now, size));
    }

    /// The system refused to send a datagram of `size` bytes to a peer, as too big.
    pub fn too_big(&mut self, now: Instant, id: PeerId, size: u16) {
        self.size_may_change(id, |search| search.too_big(now, size));
    }

    /// When [`Self::handle_deadline`] is to be called next.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.peers.iter().flatten().filter_map(Peer::deadline).min()
    }

    /// Does what is due. `wall` is the time of day in nanoseconds since 1970: handshakes bear it.
    pub fn handle_deadline(&mut self, now: Instant, wall: u64) {
        for at in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[at] else { continue };
            if peer.deadline().is_some_and(|deadline| deadline <= now) && peer.on_time(now, &mut self.shared) {
                self.begin(now, wall, PeerId(at as u32));
            }
        }
        self.retire();
    }

    /// The next datagram that the session sends.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.shared.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    fn retire(&mut self) {
        for index in self.shared.retired.drain(..) {
            self.indexes.remove(&index);
        }
    }
}
