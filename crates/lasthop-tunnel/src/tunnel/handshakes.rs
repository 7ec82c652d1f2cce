//! Handshakes: start, answer and completion.

use std::net::SocketAddr;

use lasthop_proto::time::Instant;

use super::{Arrival, Drop, Event, PeerId, Purpose, Refusal, Start, Transmit, Tunnel};
use crate::hello::{Hello, Status, VERSION};
use crate::load::Admission;
use crate::noise::{Initiator, Responder};
use crate::peer::{Attempt, Freshness, jitter, patience};
use crate::session::{Agreement, Role, Session};
use crate::wire::{COOKIE, INITIATION, Index, NOISE_1, NOISE_2, RESPONSE, begin_initiation, begin_response};

/// Unit of a timestamp: 2^24 ns, about 17 ms, so that it reveals little about the machine's clock.
const TIMESTAMP_BITS: u32 = 24;

impl Tunnel {
    /// Returns an index that no session has.
    fn draw_index(&mut self) -> Option<Index> {
        (0..64).find_map(|_| {
            let index = Index::new(u32::from_le_bytes(self.shared.entropy.bytes()));
            (!self.indexes.contains_key(&index)).then_some(index)
        })
    }

    /// Starts a handshake, or repeats its initiation.
    pub(super) fn begin(&mut self, now: Instant, wall: u64, id: PeerId) {
        let index = self.draw_index();
        let (ephemeral, jitter) = (self.shared.entropy.bytes(), jitter(&mut self.shared.entropy));
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let (first_at, tries) = peer.attempt.as_ref().map_or((now, 0), |before| (before.first_at, before.tries + 1));
        let retry_at = now + patience(tries) + jitter;
        if let Some(before) = &mut peer.attempt {
            before.retry_at = retry_at;
        }
        let Some(index) = index else { return };
        // A peer without an address must call.
        let Some((path, to)) = peer.destination(tries) else { return };
        let Some(socket) = peer.path_mut(path).map(|path| path.socket) else { return };
        let Ok(mut state) = Initiator::new(&self.own, &peer.key, &peer.shared_key, ephemeral) else { return };
        peer.timestamp = (wall >> TIMESTAMP_BITS).max(peer.timestamp.saturating_add(1));
        let phase = peer.next_phase();
        let hello = Hello {
            version: VERSION,
            status: Status::Accepted,
            phase,
            paths: peer.path_count(),
            capabilities: self.capabilities,
            epoch: peer.own_epoch,
            timestamp: peer.timestamp,
            next: peer.next_link(),
        };
        let mut message = vec![0; INITIATION];
        message[..4].copy_from_slice(&begin_initiation(index));
        let mut noise = [0; NOISE_1];
        // Fails only for a public key of small order, which no peer has.
        let written = state.write(&hello.encode(), &mut noise).is_ok();
        peer.begin(now, Attempt { state, index, phase, path, to, first_at, retry_at, tries }, &mut self.shared);
        self.indexes.insert(index, id);
        if written {
            message[4..4 + NOISE_1].copy_from_slice(&noise);
            peer.signer.sign(now, &mut message);
            self.shared.transmit(Transmit { to, socket, bytes: message, purpose: Purpose::Handshake });
        }
    }

    /// Decides whether to process a handshake message; returns the reason if not.
    fn admit(&mut self, now: Instant, from: SocketAddr, sender: Index, message: &[u8]) -> Result<(), Drop> {
        if !self.checker.knows(message) {
            return Err(Drop::Mac);
        }
        let checker = &self.checker;
        match self.gate.judge(now, from, || checker.proof(message, from)) {
            Admission::Work => Ok(()),
            Admission::Drop => Err(Drop::Load),
            Admission::Cookie => {
                let cookie = self.checker.cookie(now, &mut self.shared.entropy, message, sender, from);
                if let Some(cookie) = cookie {
                    self.shared.answer_handshake(from, cookie.to_vec());
                    self.shared.counters.cookies += 1;
                }
                Err(Drop::Load)
            }
        }
    }

    pub(super) fn take_initiation(&mut self, now: Instant, from: SocketAddr, sender: Index, message: &[u8]) -> Arrival {
        match self.answer(now, from, sender, message) {
            Ok(()) => Arrival::Taken,
            Err(reason) => {
                match reason {
                    Drop::Mac => self.tell_refusal(now, from, Refusal::OtherEnd),
                    Drop::Load => self.tell_refusal(now, from, Refusal::Load),
                    _ => {}
                }
                Arrival::Dropped(reason)
            }
        }
    }

    /// Reports a failed handshake to the driver, at a limited rate, so that a flood does not fill the log.
    fn tell_refusal(&mut self, now: Instant, address: SocketAddr, cause: Refusal) {
        if let Some(others) = self.refusals.count(now, cause) {
            self.shared.tell(Event::Refused { address, cause, others });
        }
    }

    fn answer(&mut self, now: Instant, from: SocketAddr, sender: Index, message: &[u8]) -> Result<(), Drop> {
        let noise = message.get(4..).and_then(|rest| rest.first_chunk::<NOISE_1>()).ok_or(Drop::Form)?;
        self.admit(now, from, sender, message)?;
        let ephemeral = self.shared.entropy.bytes();
        let (responder, key, hello) = Responder::read(&self.own, ephemeral, noise).map_err(|_| Drop::Damaged)?;
        let Some(&id) = self.by_key.get(&key) else {
            self.tell_refusal(now, from, Refusal::Stranger(key));
            return Err(Drop::Stranger);
        };
        let hello = Hello::decode(&hello).ok_or(Drop::Unknown)?;
        let local = self.draw_index().ok_or(Drop::Load)?;
        let peer = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or(Drop::Stranger)?;
        let status = match peer.initiations.freshness(hello.timestamp) {
            Freshness::Replayed => return Err(Drop::Replayed),
            Freshness::Stale if !peer.initiations.may_refuse(now) => return Err(Drop::Stale),
            _ if !peer.initiations.may_hear(now) => return Err(Drop::Load),
            Freshness::Stale => Status::Stale,
            Freshness::New if hello.version < VERSION => Status::Version,
            Freshness::New => Status::Accepted,
        };
        if status != Status::Stale {
            peer.initiations.remember(hello.timestamp);
        }
        let ours = Hello {
            version: VERSION,
            status,
            phase: hello.phase,
            paths: peer.path_count(),
            capabilities: self.capabilities,
            epoch: peer.own_epoch,
            timestamp: peer.initiations.newest(),
            next: peer.next_link(),
        };
        let mut sealed = [0; NOISE_2];
        let keys = responder.write(&peer.shared_key, &ours.encode(), &mut sealed).map_err(|_| Drop::Damaged)?;
        let mut response = vec![0; RESPONSE];
        response[..8].copy_from_slice(&begin_response(local, sender));
        response[8..8 + NOISE_2].copy_from_slice(&sealed);
        peer.signer.sign(now, &mut response);
        self.shared.answer_handshake(from, response);
        match status {
            Status::Stale => return Err(Drop::Stale),
            Status::Version => return Err(Drop::Unknown),
            Status::Accepted => {}
        }
        let role = Role::Responder;
        let (phase, first) = (hello.phase, peer.first_numbers(&hello));
        let agreed = Agreement { local, remote: sender, keys, phase, role, address: from, first };
        peer.push(Session::new(now, agreed), &mut self.shared);
        peer.offered = Some((local, hello));
        self.indexes.insert(local, id);
        Ok(())
    }

    pub(super) fn take_response(
        &mut self,
        now: Instant,
        from: SocketAddr,
        [sender, receiver]: [Index; 2],
        message: &[u8],
    ) -> Arrival {
        self.finish(now, from, sender, receiver, message).map_or_else(Arrival::Dropped, |()| Arrival::Taken)
    }

    fn finish(
        &mut self,
        now: Instant,
        from: SocketAddr,
        sender: Index,
        receiver: Index,
        message: &[u8],
    ) -> Result<(), Drop> {
        let noise = message.get(8..).and_then(|rest| rest.first_chunk::<NOISE_2>()).ok_or(Drop::Form)?;
        let id = *self.indexes.get(&receiver).ok_or(Drop::Index)?;
        let begun = |tunnel: &Self| {
            tunnel.peer(id).and_then(|peer| peer.attempt.as_ref()).is_some_and(|attempt| attempt.index == receiver)
        };
        if !begun(self) {
            return Err(Drop::Index);
        }
        self.admit(now, from, sender, message)?;
        let peer = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or(Drop::Index)?;
        let attempt = peer.attempt.as_mut().ok_or(Drop::Index)?;
        let Ok(hello) = attempt.state.read(noise) else {
            self.tell_refusal(now, from, Refusal::Unreadable(id));
            return Err(Drop::Damaged);
        };
        let hello = Hello::decode(&hello).ok_or(Drop::Unknown)?;
        // Reading consumes the state: the attempt ends here, regardless of the response.
        let Some(attempt) = peer.attempt.take() else { return Err(Drop::Index) };
        match hello.status {
            Status::Accepted if hello.version == VERSION => {}
            Status::Stale if hello.timestamp >= peer.timestamp => {
                peer.timestamp = hello.timestamp;
                self.shared.retired.push(receiver);
                self.shared.tell(Event::ClockBehind { peer: id });
                peer.begin_at = Some(peer.after_refusal(now));
                return Ok(());
            }
            Status::Stale => {
                self.shared.retired.push(receiver);
                return Err(Drop::Unknown);
            }
            Status::Accepted | Status::Version => {
                self.shared.retired.push(receiver);
                self.shared.tell(Event::Version { peer: id, version: hello.version });
                return Ok(());
            }
        }
        let keys = attempt.state.keys();
        let (phase, first) = (attempt.phase, peer.first_numbers(&hello));
        let role = Role::Initiator;
        let agreed = Agreement { local: receiver, remote: sender, keys, phase, role, address: from, first };
        peer.push(Session::new(now, agreed), &mut self.shared);
        peer.meet(&hello, self.capabilities, &mut self.shared);
        // The address sent and received, so it is proven. After a broadcast, the address that answered.
        let to = if attempt.to.ip().is_multicast() { from } else { attempt.to };
        let path = attempt.path;
        if from == to || peer.address(path).is_none() {
            peer.set_address(now, path, to, &mut self.shared);
        }
        peer.use_configured(now, &mut self.shared);
        peer.received(now, receiver);
        peer.came_from(now, path, from, (message.len(), true), &mut self.shared);
        // The other end may send with the new keys once it has received a datagram from this end.
        peer.keep_alive(now, &mut self.shared);
        Ok(())
    }

    pub(super) fn take_cookie(&mut self, now: Instant, receiver: Index, datagram: &[u8]) -> Arrival {
        let Some(cookie) = datagram.first_chunk::<COOKIE>() else { return Arrival::Dropped(Drop::Form) };
        let Some(&id) = self.indexes.get(&receiver) else { return Arrival::Dropped(Drop::Index) };
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Arrival::Dropped(Drop::Index);
        };
        if !peer.signer.take_cookie(now, cookie) {
            return Arrival::Dropped(Drop::Damaged);
        }
        // Only for the first initiation of an attempt: otherwise repeated requests for cookies would cause more
        // initiations.
        if let Some(attempt) = peer.attempt.as_mut().filter(|attempt| attempt.index == receiver && attempt.tries == 0) {
            attempt.retry_at = now;
        }
        Arrival::Taken
    }

    /// Records that the peer has proven possession of the keys of the session that it initiated.
    pub(super) fn confirmed(&mut self, now: Instant, id: PeerId, local: Index) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        if let Some((_, hello)) = peer.offered.take_if(|(offered, _)| *offered == local) {
            peer.meet(&hello, self.capabilities, &mut self.shared);
            peer.use_configured(now, &mut self.shared);
        }
    }
}

impl crate::peer::Peer {
    /// Handles the completion of a handshake on both sides.
    fn meet(&mut self, hello: &Hello, own: crate::hello::Capabilities, shared: &mut crate::peer::Shared) {
        shared.counters.handshakes += 1;
        let start = if self.epoch == Some(hello.epoch) { Start::Rekeyed } else { Start::Fresh };
        self.epoch = Some(hello.epoch);
        let paths = self.path_count().min(hello.paths);
        if start == Start::Fresh {
            // The other end's link restarts at the number in its hello.
            self.expect_from(hello.next);
            self.forget_terms();
        }
        shared.tell(Event::Up { peer: self.id, capabilities: own.both(hello.capabilities), paths, start });
    }
}
