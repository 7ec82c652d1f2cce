//! A session: the keys of a handshake, and the numbers sent and received with them.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::{Duration, Instant};

use crate::control::{Control, SHORTEST};
use crate::replay::ReplayWindow;
use crate::seal::{Keys, Space};
use crate::wire::{HEADER, Header, Index, Kind, OVERHEAD, Phase};

/// Age after which the initiator starts another session when it sends.
pub const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Age after which no datagram is sent or accepted.
pub const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Number of packets that has the effect of [`REKEY_AFTER`].
pub const REKEY_AFTER_PACKETS: u64 = 1 << 60;
/// First number that is not used.
const LAST_NUMBER: u64 = u64::MAX - (1 << 13);

/// Role in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

/// Reason why a sealed datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unopened {
    Expired,
    Replayed,
    Damaged,
}

pub(crate) struct Session {
    pub(crate) local: Index,
    pub(crate) remote: Index,
    keys: Keys,
    pub(crate) phase: Phase,
    pub(crate) role: Role,
    pub(crate) born: Instant,
    /// True if the other end is known to have the keys.
    pub(crate) confirmed: bool,
    /// Destination of the response: a confirmation from there proves the address.
    pub(crate) answered: SocketAddr,
    /// Numbers on each path.
    numbers: Vec<Numbers>,
    packets: u64,
}

/// Numbers sent and received on a path.
struct Numbers {
    seen_link: ReplayWindow,
    seen_control: ReplayWindow,
    next_control: u64,
}

/// Result of a handshake.
pub(crate) struct Agreement {
    pub(crate) local: Index,
    pub(crate) remote: Index,
    pub(crate) keys: Keys,
    pub(crate) phase: Phase,
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
    /// Lower bounds of the numbers of the other end's next link packets, by path.
    pub(crate) first: Vec<u64>,
}

impl Numbers {
    fn starting_at(first: u64) -> Self {
        Self { seen_link: ReplayWindow::starting_at(first), seen_control: ReplayWindow::default(), next_control: 0 }
    }
}

impl Session {
    pub(crate) fn new(now: Instant, agreed: Agreement) -> Self {
        Self {
            local: agreed.local,
            remote: agreed.remote,
            keys: agreed.keys,
            phase: agreed.phase,
            role: agreed.role,
            born: now,
            confirmed: agreed.role == Role::Initiator,
            answered: agreed.address,
            numbers: agreed.first.into_iter().map(Numbers::starting_at).collect(),
            packets: 0,
        }
    }

    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        now.since(self.born) < REJECT_AFTER
    }

    /// Returns whether packets can be sent with the session.
    pub(crate) fn sends(&self, now: Instant) -> bool {
        self.confirmed && self.is_alive(now) && self.numbers.iter().all(|path| path.next_control < LAST_NUMBER)
    }

    /// Returns whether this end should start a new session when it sends.
    pub(crate) fn is_worn(&self, now: Instant) -> bool {
        self.role == Role::Initiator && (now.since(self.born) >= REKEY_AFTER || self.packets >= REKEY_AFTER_PACKETS)
    }

    /// Returns the number of paths.
    pub(crate) fn paths(&self) -> usize {
        self.numbers.len()
    }

    /// Seals a link datagram. The caller must never use a number twice on a path.
    pub(crate) fn seal(&mut self, path: PathId, number: u64, datagram: &mut [u8]) -> bool {
        let exists = usize::from(path.0) < self.paths();
        exists && number < LAST_NUMBER && self.seal_as(Space { kind: Kind::Link, path }, number, datagram)
    }

    /// Returns a sealed datagram with one control frame, padded to `size` bytes.
    pub(crate) fn control(&mut self, path: PathId, frame: Control, size: usize) -> Option<Vec<u8>> {
        let numbers = self.numbers.get_mut(usize::from(path.0))?;
        let mut datagram = vec![0; size.max(OVERHEAD + SHORTEST)];
        datagram[HEADER..HEADER + SHORTEST].copy_from_slice(&frame.encode());
        let number = numbers.next_control;
        numbers.next_control += 1;
        self.seal_as(Space { kind: Kind::Control, path }, number, &mut datagram).then_some(datagram)
    }

    fn seal_as(&mut self, space: Space, number: u64, datagram: &mut [u8]) -> bool {
        let Space { kind, path } = space;
        let Some(header) = datagram.first_chunk_mut() else { return false };
        Header { kind, phase: self.phase, path, receiver: self.remote, low: number as u32 }.write(header);
        self.packets = self.packets.saturating_add(1);
        self.keys.seal(space, number, datagram).is_ok()
    }

    /// Opens a datagram in place. Returns its number, and whether it is the newest of its kind on its path.
    pub(crate) fn open(&mut self, now: Instant, header: Header, datagram: &mut [u8]) -> Result<(u64, bool), Unopened> {
        if !self.is_alive(now) {
            return Err(Unopened::Expired);
        }
        let numbers = self.numbers.get_mut(usize::from(header.path.0)).ok_or(Unopened::Damaged)?;
        let seen = match header.kind {
            Kind::Link => &mut numbers.seen_link,
            Kind::Control => &mut numbers.seen_control,
        };
        let number = seen.expand(header.low);
        if !seen.is_new(number) {
            return Err(Unopened::Replayed);
        }
        if header.phase != self.phase
            || self.keys.open(Space { kind: header.kind, path: header.path }, number, datagram).is_err()
        {
            return Err(Unopened::Damaged);
        }
        let newest = number >= seen.next();
        if !seen.accept(number) {
            return Err(Unopened::Replayed);
        }
        Ok((number, newest))
    }
}
