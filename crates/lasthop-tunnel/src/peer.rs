//! State of one peer: its sessions, its address, its timers.

mod initiations;
mod liveness;

use std::net::SocketAddr;

use lasthop_proto::time::{Duration, Instant};

pub(crate) use self::initiations::Freshness;
use self::initiations::Initiations;
use self::liveness::Liveness;
use crate::carrier::Carrier;
use crate::control::{Control, SHORTEST};
use crate::entropy::Entropy;
use crate::hello::Hello;
use crate::keys::{PresharedKey, PublicKey};
use crate::mac::Signer;
use crate::noise::Initiator;
use crate::pmtu::Search;
use crate::session::{REJECT_AFTER, Session};
use crate::tunnel::api::{Counters, Event, PeerConfig, PeerId, Purpose, Transmit};
use crate::wire::{Index, OVERHEAD, Phase};

/// Maximum number of sessions to keep: the newest, and earlier ones whose packets may still be in flight.
const MOST_SESSIONS: usize = 4;
/// Time without an answer, to which [`RETRY`] is added, after which a new handshake starts.
pub const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time between initiations after the first ones, plus a jitter of up to [`JITTER`].
pub const RETRY: Duration = Duration::from_secs(5);
/// Times between the first initiations of a handshake, plus the same jitter: one may be lost, and the other end may be
/// restarting.
pub const FIRST_RETRIES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// Minimum time between the starts of two handshakes.
const HANDSHAKE_GAP: Duration = Duration::from_secs(1);
/// Maximum jitter added to [`RETRY`].
pub const JITTER: Duration = Duration::from_millis(333);
/// Time without a response after which a handshake is given up, until there is data to send.
pub const GIVE_UP: Duration = Duration::from_secs(90);
/// Initial time between challenges to an address; it doubles each time.
const CHALLENGE_GAP: Duration = Duration::from_millis(250);
/// Maximum number of datagrams, and of events, that wait for the driver.
const MOST_WAITING: usize = 4_096;

/// State shared by all peers.
pub(crate) struct Shared {
    pub(crate) entropy: Entropy,
    pub(crate) transmits: std::collections::VecDeque<Transmit>,
    pub(crate) events: std::collections::VecDeque<Event>,
    /// Indexes to be released.
    pub(crate) retired: Vec<Index>,
    pub(crate) counters: Counters,
    /// Carrier, and MTU of the local interface in bytes.
    pub(crate) carrier: Carrier,
    pub(crate) link_mtu: u16,
}

impl Shared {
    pub(crate) fn transmit(&mut self, to: SocketAddr, bytes: Vec<u8>, purpose: Purpose) {
        if self.transmits.len() < MOST_WAITING {
            self.transmits.push_back(Transmit { to, bytes, purpose });
        }
    }

    pub(crate) fn tell(&mut self, event: Event) {
        if self.events.len() < MOST_WAITING {
            self.events.push_back(event);
        }
    }
}

/// Handshake started by this end.
pub(crate) struct Attempt {
    pub(crate) state: Initiator,
    pub(crate) index: Index,
    pub(crate) phase: Phase,
    pub(crate) to: SocketAddr,
    pub(crate) first_at: Instant,
    pub(crate) retry_at: Instant,
    pub(crate) tries: u32,
}

/// Address to which the peer may have moved.
struct Candidate {
    address: SocketAddr,
    number: u64,
    /// Bytes received from the address minus bytes sent to it.
    credit: usize,
    poll_deadline: Instant,
    gap: Duration,
}

/// A peer and everything known about it.
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) key: PublicKey,
    pub(crate) shared_key: PresharedKey,
    pub(crate) configured: Option<SocketAddr>,
    pub(crate) signer: Signer,
    sessions: Vec<Session>,
    pub(crate) attempt: Option<Attempt>,
    /// Start time of the next handshake.
    pub(crate) begin_at: Option<Instant>,
    last_begun: Option<Instant>,
    path: Option<SocketAddr>,
    candidate: Option<Candidate>,
    search: Option<Search>,
    /// Minimum number for the link's next packet.
    pub(crate) next_link: u64,
    liveness: Liveness,
    /// Initiations received from the peer.
    pub(crate) initiations: Initiations,
    /// Time of the last authentic datagram.
    pub(crate) authentic_at: Option<Instant>,
    /// Time at which the peer last refused this end's timestamp as stale.
    behind_at: Option<Instant>,
    /// Timestamp of this end's last initiation.
    pub(crate) timestamp: u64,
    /// Epoch in the peer's last handshake.
    pub(crate) epoch: Option<u64>,
    /// Epoch of this end, which tells the peer that all state was lost: after a start, or after the peer was removed
    /// and added again.
    pub(crate) own_epoch: u64,
    /// Unconfirmed session answered last, with the peer's hello.
    pub(crate) offered: Option<(Index, Hello)>,
}

impl Peer {
    pub(crate) fn new(id: PeerId, config: PeerConfig, own_epoch: u64, now: Instant) -> Self {
        Self {
            id,
            signer: Signer::new(&config.key),
            key: config.key,
            shared_key: config.preshared,
            configured: config.endpoint,
            sessions: Vec::new(),
            attempt: None,
            begin_at: (config.keepalive.is_some() && config.endpoint.is_some()).then_some(now),
            last_begun: None,
            path: None,
            candidate: None,
            search: None,
            next_link: 0,
            liveness: Liveness::new(config.keepalive),
            initiations: Initiations::default(),
            authentic_at: None,
            behind_at: None,
            timestamp: 0,
            epoch: None,
            own_epoch,
            offered: None,
        }
    }

    pub(crate) fn session(&mut self, local: Index) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.local == local)
    }

    /// Returns the newest session under which packets can be sent.
    fn sending(&mut self, now: Instant) -> Option<&mut Session> {
        self.sessions.iter_mut().rev().find(|session| session.sends(now))
    }

    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.sessions.iter().any(|session| session.sends(now))
    }

    pub(crate) fn path(&self) -> Option<SocketAddr> {
        self.path
    }

    pub(crate) fn search(&mut self) -> Option<&mut Search> {
        self.search.as_mut()
    }

    pub(crate) fn size(&self) -> Option<u16> {
        self.search.as_ref().map(Search::size)
    }

    /// Returns the phase of the next session.
    pub(crate) fn next_phase(&self) -> Phase {
        self.sessions.last().map_or(Phase::Even, |session| session.phase.next())
    }

    /// Returns the destination of the next initiation: alternately the current address and the configured one.
    pub(crate) fn destination(&self, tries: u32) -> Option<SocketAddr> {
        if tries.is_multiple_of(2) { self.path.or(self.configured) } else { self.configured.or(self.path) }
    }

    /// Requests a handshake, unless one is in progress.
    pub(crate) fn want(&mut self, now: Instant) {
        if self.attempt.is_none() && self.begin_at.is_none() {
            let earliest = self.last_begun.map_or(now, |begun| begun + HANDSHAKE_GAP);
            self.begin_at = Some(now.max(earliest));
        }
    }

    /// Records the start of a handshake.
    pub(crate) fn begin(&mut self, now: Instant, attempt: Attempt, shared: &mut Shared) {
        self.begin_at = None;
        self.last_begun = Some(now);
        if let Some(before) = self.attempt.replace(attempt) {
            shared.retired.push(before.index);
        }
    }

    /// Returns the time of the next handshake after the peer refused our timestamp as stale: at once, but not
    /// repeatedly.
    pub(crate) fn after_refusal(&mut self, now: Instant) -> Instant {
        let before = self.behind_at.replace(now);
        if before.is_none_or(|before| now.since(before) >= RETRY) { now } else { now + RETRY }
    }

    /// Adds a new session.
    pub(crate) fn push(&mut self, session: Session, shared: &mut Shared) {
        if !session.confirmed {
            // A peer that starts a new handshake has given up its earlier unconfirmed ones.
            let given_up = self.sessions.extract_if(.., |session| !session.confirmed);
            shared.retired.extend(given_up.map(|session| session.local));
        }
        if self.sessions.len() >= MOST_SESSIONS {
            shared.retired.push(self.sessions.remove(0).local);
        }
        self.sessions.push(session);
    }

    /// Sets the peer's proven address.
    pub(crate) fn set_path(&mut self, now: Instant, address: SocketAddr, shared: &mut Shared) {
        self.candidate = None;
        if self.path == Some(address) {
            return;
        }
        self.path = Some(address);
        let headers = shared.carrier.headers(address);
        let search = Search::new(now, shared.link_mtu.saturating_sub(headers));
        shared.tell(Event::Path { peer: self.id, address, size: search.size() });
        self.search = Some(search);
    }

    /// Records an authentic datagram of `length` bytes from `from`; `newest` if no larger number arrived before.
    pub(crate) fn came_from(
        &mut self,
        now: Instant,
        from: SocketAddr,
        length: usize,
        newest: bool,
        shared: &mut Shared,
    ) {
        if self.path == Some(from) {
            if newest {
                self.candidate = None;
            }
            return;
        }
        if self.candidate.as_ref().is_none_or(|candidate| candidate.address != from) {
            if !newest {
                return;
            }
            let number = u64::from_le_bytes(shared.entropy.bytes());
            self.candidate =
                Some(Candidate { address: from, number, credit: 0, poll_deadline: now, gap: CHALLENGE_GAP });
        }
        let Some(candidate) = &mut self.candidate else { return };
        candidate.credit = candidate.credit.saturating_add(length);
        if now < candidate.poll_deadline || candidate.credit < OVERHEAD + SHORTEST {
            return;
        }
        candidate.credit -= OVERHEAD + SHORTEST;
        candidate.poll_deadline = now + candidate.gap;
        candidate.gap = candidate.gap.saturating_mul(2).min(RETRY);
        let challenge = Control::Challenge(candidate.number);
        self.send_to(now, from, challenge, 0, Purpose::Control, shared);
    }

    /// Sends a control frame to `to`, in a datagram padded to `size` bytes.
    pub(crate) fn send_to(
        &mut self,
        now: Instant,
        to: SocketAddr,
        frame: Control,
        size: u16,
        purpose: Purpose,
        shared: &mut Shared,
    ) {
        let Some(session) = self.sending(now) else { return };
        let (datagram, worn) = (session.control(frame, size.into()), session.is_worn(now));
        let Some(datagram) = datagram else { return };
        shared.transmit(to, datagram, purpose);
        self.liveness.sent(now);
        if worn {
            self.want(now);
        }
    }

    /// Sends a keep-alive.
    pub(crate) fn keep_alive(&mut self, now: Instant, shared: &mut Shared) {
        if let Some(path) = self.path {
            self.send_to(now, path, Control::Keepalive, 0, Purpose::Control, shared);
        }
        self.liveness.answered();
    }

    /// Seals a link datagram with the newest session.
    pub(crate) fn seal(&mut self, now: Instant, number: u64, datagram: &mut [u8], shared: &mut Shared) -> bool {
        let Some(session) = self.sending(now) else {
            self.want(now);
            return false;
        };
        let (sealed, worn) = (session.seal(number, datagram), session.is_worn(now));
        if sealed {
            self.next_link = number + 1;
            self.liveness.sent(now);
            self.liveness.await_answer(|| now + KEEPALIVE + RETRY + jitter(&mut shared.entropy));
        }
        if worn {
            self.want(now);
        }
        sealed
    }

    /// Records an authentic datagram of the session `local`.
    pub(crate) fn received(&mut self, now: Instant, local: Index) {
        self.liveness.received(now);
        self.authentic_at = Some(now);
        let margin = KEEPALIVE + RETRY;
        let ends_soon = |session: &&mut Session| {
            session.role == crate::session::Role::Initiator && now.since(session.born) + margin >= REJECT_AFTER
        };
        let is_newest = self.sessions.last().is_some_and(|session| session.local == local);
        if is_newest && self.session(local).as_ref().is_some_and(ends_soon) {
            self.want(now);
        }
    }

    /// Schedules a keep-alive after received data, for which the other end expects an answer.
    pub(crate) fn owes_sign_of_life(&mut self, now: Instant) {
        self.liveness.owe_answer(now);
    }

    /// Handles the answer to a challenge, from `from`.
    pub(crate) fn answered(&mut self, now: Instant, from: SocketAddr, number: u64, shared: &mut Shared) {
        if self.candidate.as_ref().is_some_and(|candidate| candidate.address == from && candidate.number == number) {
            self.set_path(now, from, shared);
        }
    }

    /// Removes all sessions.
    pub(crate) fn clear(&mut self, shared: &mut Shared) {
        shared.retired.extend(self.sessions.drain(..).map(|session| session.local));
        shared.retired.extend(self.attempt.take().map(|attempt| attempt.index));
        (self.begin_at, self.candidate) = (None, None);
        self.liveness.stop();
    }

    /// Returns the time of the next call of [`Self::handle_timeout`].
    pub(crate) fn poll_deadline(&self) -> Option<Instant> {
        let sessions = self.sessions.iter().map(|session| session.born + REJECT_AFTER).min();
        let search = match (&self.path, &self.search) {
            (Some(_), Some(search)) if !self.sessions.is_empty() => search.poll_deadline(),
            _ => None,
        };
        let retry = self.attempt.as_ref().map(|attempt| attempt.retry_at);
        let timers = [sessions, search, retry, self.begin_at, self.liveness.poll_deadline()];
        timers.into_iter().flatten().min()
    }

    /// Performs due work other than handshakes. Returns whether one is to start.
    pub(crate) fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) -> bool {
        if self.sessions.iter().any(|session| !session.is_alive(now)) {
            let was_up = self.sessions.iter().any(|session| session.confirmed);
            let expired = self.sessions.extract_if(.., |session| !session.is_alive(now));
            shared.retired.extend(expired.map(|session| session.local));
            if was_up && !self.is_up(now) {
                shared.tell(Event::Down { peer: self.id });
            }
        }
        if self.liveness.take_silence(now) {
            self.want(now);
        }
        if self.liveness.take_persistent(now) {
            if self.is_up(now) { self.keep_alive(now, shared) } else { self.want(now) }
        }
        if self.liveness.take_answer(now) {
            self.keep_alive(now, shared);
        }
        if let (Some(path), true) = (self.path, self.is_up(now)) {
            let before = self.size();
            if let Some((number, size)) = self.search.as_mut().and_then(|search| search.poll(now)) {
                self.send_to(now, path, Control::Probe(number), size, Purpose::Probe, shared);
            }
            self.tell_size(before, shared);
        } else if let Some(search) = &mut self.search {
            // Without a session no probe can be sent: the search resumes with the next one.
            search.hold(now);
        }
        let mut begins = self.begin_at.take_if(|at| *at <= now).is_some() && self.attempt.is_none();
        if self.attempt.as_ref().is_some_and(|attempt| attempt.retry_at <= now) {
            let given_up = self.attempt.take_if(|attempt| now.since(attempt.first_at) >= GIVE_UP);
            if let Some(attempt) = given_up {
                shared.retired.push(attempt.index);
                shared.tell(Event::Unreachable { peer: self.id });
            } else {
                begins = true;
            }
        }
        begins
    }

    /// Reports a changed path MTU to the driver.
    pub(crate) fn tell_size(&self, before: Option<u16>, shared: &mut Shared) {
        if let Some(size) = self.size().filter(|_| self.size() != before) {
            shared.tell(Event::Size { peer: self.id, size });
        }
    }
}

/// Returns the time that an initiation waits for its response after `tries` earlier ones.
pub(crate) fn patience(tries: u32) -> Duration {
    FIRST_RETRIES.get(tries as usize).copied().unwrap_or(RETRY)
}

pub(crate) fn jitter(entropy: &mut Entropy) -> Duration {
    Duration::from_nanos(entropy.below(JITTER.as_nanos()))
}
