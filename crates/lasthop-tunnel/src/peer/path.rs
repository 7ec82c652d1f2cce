//! One path to a peer: the peer's address on it, and its MTU.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::{Terms, Tier};
use lasthop_proto::time::{Duration, Instant};

use super::Shared;
use super::announcement::Announcement;
use crate::carrier::Carrier;
use crate::control::SHORTEST;
use crate::entropy::Entropy;
use crate::pmtu::Search;
use crate::tunnel::api::{PathConfig, SocketId};
use crate::wire::OVERHEAD;

/// Initial time between challenges to an address; it doubles each time.
const CHALLENGE_GAP: Duration = Duration::from_millis(250);
/// Time without a datagram on one of several paths after which its keep-alives are sent to all hosts on the line, and
/// the time between such keep-alives.
const MISSING: Duration = Duration::from_secs(1);
const DISCOVERY_GAP: Duration = Duration::from_millis(250);

/// Minimum interval between keep-alives on a path that is not primary. Address translators keep an entry for 30 s and
/// more.
const STANDBY_KEEPALIVE: Duration = Duration::from_secs(25);

/// Address to which the peer may have moved.
struct Candidate {
    address: SocketAddr,
    number: u64,
    /// Bytes received from the address minus bytes sent to it.
    credit: usize,
    poll_deadline: Instant,
    gap: Duration,
}

/// A path to a peer.
pub(crate) struct Path {
    /// Address at which the peer is called.
    pub(crate) configured: Option<SocketAddr>,
    /// Socket of this end.
    pub(crate) socket: SocketId,
    /// Proven address of the peer.
    pub(crate) address: Option<SocketAddr>,
    candidate: Option<Candidate>,
    /// MTU of the interface, in bytes.
    link_mtu: u16,
    pub(crate) search: Option<Search>,
    /// Time of the last authentic datagram on the path, and of the last keep-alive to all hosts.
    pub(crate) heard_at: Option<Instant>,
    discovered_at: Option<Instant>,
    /// Minimum number for the link's next packet.
    pub(crate) next_link: u64,
    /// One more than the largest number of a link packet that arrived.
    pub(crate) expected: u64,
    /// Announcement of this end's terms.
    pub(super) announcement: Announcement,
    /// Terms of the other end.
    pub(crate) peer_terms: Terms,
    /// Time of the last keep-alive.
    kept_alive: Option<Instant>,
}

impl Path {
    pub(crate) fn new(PathConfig { endpoint, socket }: PathConfig, link_mtu: u16) -> Self {
        Self {
            configured: endpoint,
            socket,
            address: None,
            candidate: None,
            link_mtu,
            search: None,
            heard_at: None,
            discovered_at: None,
            next_link: 0,
            expected: 0,
            announcement: Announcement::default(),
            peer_terms: Terms::default(),
            kept_alive: None,
        }
    }

    /// Returns the later one of both ends' tiers.
    fn tier(&self) -> Tier {
        self.announcement.terms().both(self.peer_terms).tier
    }

    /// Returns whether both ends use the path.
    pub(super) fn is_on(&self) -> bool {
        self.tier() != Tier::Off
    }

    /// Returns whether a keep-alive is to be sent, and counts it as sent. Of a path that is not primary, few suffice.
    pub(super) fn take_keepalive(&mut self, now: Instant) -> bool {
        let is_due = match self.tier() {
            Tier::Primary => true,
            Tier::Secondary | Tier::Backup => self.kept_alive.is_none_or(|last| now.since(last) >= STANDBY_KEEPALIVE),
            Tier::Off => false,
        };
        if is_due {
            self.kept_alive = Some(now);
        }
        is_due
    }

    /// Returns the configured address if it is that of a host, not of all hosts on the line.
    pub(crate) fn configured_host(&self) -> Option<SocketAddr> {
        self.configured.filter(|address| !address.ip().is_multicast())
    }

    /// Returns the configured address if it is that of all hosts on the line.
    fn group(&self) -> Option<SocketAddr> {
        self.configured.filter(|address| address.ip().is_multicast())
    }

    /// Returns whether keep-alives can be sent.
    pub(super) fn has_destination(&self) -> bool {
        self.address.is_some() || self.group().is_some()
    }

    /// Returns the destination of a keep-alive on one of several paths: the peer's address, or all hosts on the line from
    /// time to time while nothing arrives, since the address may be unknown or outdated.
    pub(crate) fn keep_alive_to(&mut self, now: Instant) -> Option<SocketAddr> {
        let is_over = |at: Option<Instant>, span| at.is_none_or(|at| now.since(at) >= span);
        let is_due = is_over(self.heard_at, MISSING) && is_over(self.discovered_at, DISCOVERY_GAP);
        match self.group().filter(|_| is_due) {
            Some(group) => {
                self.discovered_at = Some(now);
                Some(group)
            }
            None => self.address,
        }
    }

    /// Sets the MTU of the interface. The search for the path's MTU restarts if it is another one.
    pub(crate) fn set_link_mtu(&mut self, now: Instant, link_mtu: u16, carrier: Carrier) {
        if std::mem::replace(&mut self.link_mtu, link_mtu) != link_mtu
            && let Some(address) = self.address
        {
            self.begin_search(now, carrier.headers(address));
        }
    }

    /// Starts the search for the path's MTU. Returns its initial size.
    fn begin_search(&mut self, now: Instant, headers: u16) -> u16 {
        self.search.insert(Search::new(now, self.link_mtu.saturating_sub(headers))).size()
    }

    /// Returns the bytes of UDP payload that are known to pass.
    pub(crate) fn size(&self) -> Option<u16> {
        self.search.as_ref().map(Search::size)
    }

    /// Sets the peer's proven address. Returns the initial size of datagrams to it if it is another one.
    pub(crate) fn set_address(&mut self, now: Instant, address: SocketAddr, shared: &Shared) -> Option<u16> {
        self.candidate = None;
        if self.address == Some(address) {
            return None;
        }
        self.address = Some(address);
        Some(self.begin_search(now, shared.carrier.headers(address)))
    }

    /// Records an authentic datagram of `length` bytes from `from`; `newest` if no larger number arrived before. Returns
    /// the number of the challenge to send to that address, if one is due.
    pub(crate) fn came_from(
        &mut self,
        now: Instant,
        from: SocketAddr,
        length: usize,
        newest: bool,
        entropy: &mut Entropy,
    ) -> Option<u64> {
        self.heard_at = Some(now);
        if self.address == Some(from) {
            if newest {
                self.candidate = None;
            }
            return None;
        }
        if self.candidate.as_ref().is_none_or(|candidate| candidate.address != from) {
            if !newest {
                return None;
            }
            let number = u64::from_le_bytes(entropy.bytes());
            self.candidate =
                Some(Candidate { address: from, number, credit: 0, poll_deadline: now, gap: CHALLENGE_GAP });
        }
        let candidate = self.candidate.as_mut()?;
        candidate.credit = candidate.credit.saturating_add(length);
        if now < candidate.poll_deadline || candidate.credit < OVERHEAD + SHORTEST {
            return None;
        }
        candidate.credit -= OVERHEAD + SHORTEST;
        candidate.poll_deadline = now + candidate.gap;
        candidate.gap = candidate.gap.saturating_mul(2).min(super::RETRY);
        Some(candidate.number)
    }

    /// Returns whether this is the answer to the challenge sent to `from`.
    pub(crate) fn is_answer(&self, from: SocketAddr, number: u64) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.address == from && candidate.number == number)
    }

    /// Forgets an address that has not been proven.
    pub(crate) fn forget_candidate(&mut self) {
        self.candidate = None;
    }
}
