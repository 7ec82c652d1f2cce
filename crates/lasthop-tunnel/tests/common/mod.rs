//! Two or more ends on a network under the test's control: delay, loss, duplication, modification.
#![allow(dead_code)]

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::{HEADER, OVERHEAD};
use lasthop_tunnel::{
    Arrival, Capabilities, Credentials, Entropy, Event, Origin, PathConfig, PeerConfig, PeerId, PresharedKey,
    PrivateKey, SocketId, Transmit, Tunnel, TunnelConfig, Unsealed,
};

/// One-way delay of the network.
pub const DELAY: Duration = Duration::from_millis(30);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub struct End {
    pub tunnel: Tunnel,
    pub peer: PeerId,
    pub address: SocketAddr,
    /// Addresses of the second socket and those after it.
    pub others: Vec<SocketAddr>,
    /// Next number on each path.
    pub numbers: [u64; 8],
    pub received: Vec<(u64, Vec<u8>)>,
    /// Paths and numbers of the received packets.
    pub received_on: Vec<(PathId, u64)>,
    pub events: Vec<Event>,
    /// Time of day minus the network's time, in nanoseconds.
    pub wall: u64,
}

/// Datagram in flight.
#[derive(Clone)]
pub struct Sent {
    pub at: Instant,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// Fate of a datagram.
pub enum Fate {
    Arrives,
    ArrivesAfter(Duration),
    Lost,
}

pub struct Net {
    pub now: Instant,
    pub ends: [End; 2],
    pub underway: Vec<Sent>,
    /// All datagrams sent so far.
    pub log: Vec<Sent>,
    pub fate: Box<dyn FnMut(&Sent) -> Fate>,
    pub reject: bool,
}

pub fn key(seed: u8) -> PrivateKey {
    PrivateKey::generate(&mut Entropy::new([seed; 32]))
}

pub fn address(end: usize) -> SocketAddr {
    ["192.0.2.1:5000", "198.51.100.2:5000"][end].parse().unwrap()
}

pub fn end(which: usize, now: Instant, seed: u8, change: impl FnOnce(&mut PeerConfig)) -> End {
    let key_of = |end: usize| key(10 + end as u8);
    let config = TunnelConfig {
        credentials: Credentials::Key(key_of(which)),
        capabilities: Capabilities(0b11 << which),
        carrier: lasthop_tunnel::Carrier::Udp,
        link_mtu: 1500,
    };
    let mut tunnel = Tunnel::new(config, [seed; 32], now);
    let mut peer = PeerConfig {
        key: key_of(1 - which).public(),
        preshared: PresharedKey::from_bytes([9; 32]),
        paths: vec![PathConfig::to(Some(address(1 - which)))],
        allowed: vec![["10.0.0.0/24", "10.0.1.0/24"][1 - which].parse().unwrap()],
        keepalive: None,
    };
    change(&mut peer);
    let peer = tunnel.add_peer(now, peer).unwrap();
    End {
        tunnel,
        peer,
        address: address(which),
        others: vec![],
        numbers: [0; 8],
        received: vec![],
        received_on: vec![],
        events: vec![],
        wall: 1 << 60,
    }
}

impl End {
    /// Returns the address of a socket.
    fn of_socket(&self, SocketId(socket): SocketId) -> SocketAddr {
        usize::from(socket).checked_sub(1).map_or(self.address, |other| self.others[other])
    }

    /// Returns the socket with an address.
    fn socket_at(&self, address: SocketAddr) -> Option<SocketId> {
        let mut sockets = (0..=self.others.len()).map(|socket| SocketId(socket as u8));
        sockets.find(|socket| self.of_socket(*socket) == address)
    }

    /// Seals `text` in a datagram of the link on the first path. Returns its destination and bytes.
    pub fn seal(&mut self, now: Instant, text: &[u8]) -> Result<(SocketAddr, Vec<u8>), Unsealed> {
        self.seal_on(now, PathId::FIRST, text)
    }

    /// Seals `text` in a datagram of the link on a path. Returns its destination and bytes.
    pub fn seal_on(&mut self, now: Instant, path: PathId, text: &[u8]) -> Result<(SocketAddr, Vec<u8>), Unsealed> {
        let mut datagram = vec![0; OVERHEAD + text.len()];
        datagram[HEADER..HEADER + text.len()].copy_from_slice(text);
        let number = &mut self.numbers[usize::from(path.0)];
        let to = self.tunnel.seal(now, self.peer, path, *number, &mut datagram)?;
        *number += 1;
        Ok((to, datagram))
    }

    pub fn take(&mut self, now: Instant, from: impl Into<Origin>, bytes: &[u8]) -> Arrival {
        let mut bytes = bytes.to_vec();
        let arrival = self.tunnel.handle_datagram(now, from, &mut bytes);
        if let Arrival::Link { path, number, frames, .. } = &arrival {
            self.received_on.push((*path, *number));
            self.received.push((*number, bytes[frames.clone()].to_vec()));
        }
        arrival
    }
}

impl Net {
    pub fn new() -> Self {
        Self::with(|_, _| {})
    }

    pub fn with(mut change: impl FnMut(usize, &mut PeerConfig)) -> Self {
        let now = Instant::ZERO + secs(1_000);
        let ends = [0, 1].map(|which| end(which, now, 20 + which as u8, |peer| change(which, peer)));
        let fate = Box::new(|_: &Sent| Fate::Arrives);
        Self { now, ends, underway: vec![], log: vec![], fate, reject: false }
    }

    fn put(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let mut sent = Sent { at: self.now + DELAY, from, to, bytes };
        self.log.push(Sent { at: self.now, ..sent.clone() });
        match (self.fate)(&sent) {
            Fate::Lost => return,
            Fate::Arrives => {}
            Fate::ArrivesAfter(more) => sent.at += more,
        }
        self.underway.push(sent);
    }

    /// Sends from one end on the first path. Returns whether it could.
    pub fn send(&mut self, from: usize, text: &[u8]) -> bool {
        self.send_on(from, PathId::FIRST, text)
    }

    /// Sends from one end on a path, by the socket with the same number if there is one. Returns whether it could.
    pub fn send_on(&mut self, from: usize, path: PathId, text: &[u8]) -> bool {
        let sealed = self.ends[from].seal_on(self.now, path, text);
        let sent = sealed.is_ok();
        if let Ok((to, bytes)) = sealed {
            let end = &self.ends[from];
            let socket = if usize::from(path.0) <= end.others.len() { path.0 } else { 0 };
            self.put(end.of_socket(SocketId(socket)), to, bytes);
        }
        self.drain();
        sent
    }

    pub fn drain(&mut self) {
        for from in 0..2 {
            let end = &mut self.ends[from];
            let wall = end.wall.wrapping_add(self.now.as_nanos());
            if end.tunnel.poll_deadline().is_some_and(|deadline| deadline <= self.now) {
                end.tunnel.handle_timeout(self.now, wall);
                let next = end.tunnel.poll_deadline();
                assert!(next.is_none_or(|next| next > self.now), "a deadline lies ahead");
            }
            while let Some(Transmit { to, socket, bytes, .. }) = self.ends[from].tunnel.poll_transmit() {
                self.put(self.ends[from].of_socket(socket), to, bytes);
            }
            while let Some(event) = self.ends[from].tunnel.poll_event() {
                self.ends[from].events.push(event);
            }
        }
    }

    /// Advances the time by `span`.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        self.drain();
        loop {
            let arrival = self.underway.iter().map(|sent| sent.at).min();
            let deadlines = self.ends.iter().filter_map(|end| end.tunnel.poll_deadline());
            let next = deadlines.chain(arrival).min().map(|next| next.max(self.now));
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = next;
            let mut due = Vec::new();
            self.underway.retain(|sent| {
                let arrives = sent.at <= next;
                if arrives {
                    due.push(sent.clone());
                }
                !arrives
            });
            due.sort_by_key(|sent| sent.at);
            for sent in due {
                let at = self.ends.iter_mut().find_map(|end| Some((end.socket_at(sent.to)?, end)));
                if let Some((socket, end)) = at {
                    end.take(next, Origin { address: sent.from, socket }, &sent.bytes);
                }
                self.drain();
            }
            self.drain();
        }
        self.now = until;
    }

    /// Starts a session between both ends.
    pub fn connect(&mut self) {
        self.send(0, b"first");
        self.run(secs(1));
        assert!((0..2).all(|end| self.is_up(end)));
    }

    pub fn is_up(&self, end: usize) -> bool {
        self.ends[end].tunnel.is_up(self.now, self.ends[end].peer)
    }

    /// Returns the number of datagrams of a type (the first byte) that were sent.
    pub fn count(&self, kind: u8) -> usize {
        self.log.iter().filter(|sent| sent.bytes[0] & 0x7f == kind).count()
    }

    /// Replaces one end by another process with the same key and no state.
    pub fn restart(&mut self, which: usize, seed: u8) {
        let wall = self.ends[which].wall;
        self.ends[which] = End { wall, ..end(which, self.now, seed, |_| {}) };
    }
}
