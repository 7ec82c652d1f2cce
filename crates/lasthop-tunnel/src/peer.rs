//! State of one peer: its sessions, its address, its timers.

mod announcement;
mod initiations;
mod liveness;
mod path;

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::{PathId, Terms};
use lasthop_proto::time::{Duration, Instant};

pub(crate) use self::initiations::Freshness;
use self::initiations::Initiations;
use self::liveness::Liveness;
use self::path::Path;
use crate::carrier::Carrier;
use crate::control::Control;
use crate::entropy::Entropy;
use crate::hello::Hello;
use crate::keys::{PresharedKey, PublicKey};
use crate::mac::Signer;
use crate::noise::Initiator;
use crate::pmtu::Search;
use crate::session::{REJECT_AFTER, Session};
use crate::tunnel::api::{Counters, Event, PeerConfig, PeerId, Purpose, SocketId, Transmit};
use crate::wire::{Index, Phase};

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
    /// Carrier, and initial MTU of the paths' interfaces in bytes.
    pub(crate) carrier: Carrier,
    pub(crate) link_mtu: u16,
    /// Socket on which the latest datagram arrived.
    pub(crate) arrived_on: SocketId,
}

impl Shared {
    pub(crate) fn transmit(&mut self, transmit: Transmit) {
        if self.transmits.len() < MOST_WAITING {
            self.transmits.push_back(transmit);
        }
    }

    /// Answers a handshake message from `to`, on the socket on which it arrived.
    pub(crate) fn answer_handshake(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        self.transmit(Transmit { to, socket: self.arrived_on, bytes, purpose: Purpose::Handshake });
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
    pub(crate) path: PathId,
    pub(crate) to: SocketAddr,
    pub(crate) first_at: Instant,
    pub(crate) retry_at: Instant,
    pub(crate) tries: u32,
}

/// A peer and everything known about it.
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) key: PublicKey,
    pub(crate) shared_key: PresharedKey,
    pub(crate) signer: Signer,
    sessions: Vec<Session>,
    pub(crate) attempt: Option<Attempt>,
    /// Start time of the next handshake.
    pub(crate) begin_at: Option<Instant>,
    last_begun: Option<Instant>,
    /// Paths by number, at least one.
    paths: Vec<Path>,
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
    pub(crate) fn new(id: PeerId, config: PeerConfig, link_mtu: u16, own_epoch: u64, now: Instant) -> Self {
        Self {
            id,
            signer: Signer::new(&config.key),
            key: config.key,
            shared_key: config.preshared,
            sessions: Vec::new(),
            attempt: None,
            begin_at: (config.keepalive.is_some() && config.paths.iter().any(|path| path.endpoint.is_some()))
                .then_some(now),
            last_begun: None,
            paths: config.paths.into_iter().map(|path| Path::new(path, link_mtu)).collect(),
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

    /// Returns the number of configured paths.
    pub(crate) fn path_count(&self) -> u8 {
        self.paths.len() as u8
    }

    fn path(&self, path: PathId) -> Option<&Path> {
        self.paths.get(usize::from(path.0))
    }

    pub(crate) fn path_mut(&mut self, path: PathId) -> Option<&mut Path> {
        self.paths.get_mut(usize::from(path.0))
    }

    /// Returns the paths of the newest session.
    fn used(&self) -> impl Iterator<Item = PathId> + use<> {
        let paths = self.sessions.last().map_or(1, Session::paths);
        (0..paths as u8).map(PathId)
    }

    /// Returns the peer's proven address on a path.
    pub(crate) fn address(&self, path: PathId) -> Option<SocketAddr> {
        self.path(path)?.address
    }

    /// Returns the time of the last authentic datagram on a path.
    pub(crate) fn heard_on(&self, path: PathId) -> Option<Instant> {
        self.path(path)?.heard_at
    }

    pub(crate) fn search(&mut self, path: PathId) -> Option<&mut Search> {
        self.path_mut(path)?.search.as_mut()
    }

    pub(crate) fn size(&self, path: PathId) -> Option<u16> {
        self.path(path)?.size()
    }

    /// Returns a lower bound of the number of the link's next packet on each path.
    pub(crate) fn next_link(&self) -> u64 {
        self.paths.iter().map(|path| path.next_link).max().unwrap_or(0)
    }

    /// Records that the other end's link begins at number `first` on each path.
    pub(crate) fn expect_from(&mut self, first: u64) {
        self.paths.iter_mut().for_each(|path| path.expected = first);
    }

    /// Records the number of the newest link packet of the session `local` on a path. Earlier sessions, whose packets may
    /// be from before a restart of the other end, do not count.
    pub(crate) fn link_arrived(&mut self, local: Index, path: PathId, number: u64) {
        let is_newest = self.sessions.last().is_some_and(|session| session.local == local);
        if let Some(path) = self.path_mut(path).filter(|_| is_newest) {
            path.expected = number + 1;
        }
    }

    /// Returns lower bounds of the numbers of the other end's next link packets, by path, for a session that both agree
    /// on. A link that restarts begins at the number in the other end's hello; one that continues follows the packets that
    /// arrived.
    pub(crate) fn first_numbers(&self, hello: &Hello) -> Vec<u64> {
        let continues = hello.paths > 1 && self.epoch == Some(hello.epoch);
        let paths = self.paths.iter().take(usize::from(hello.paths));
        paths.map(|path| if continues { path.expected } else { hello.next }).collect()
    }

    /// Returns the phase of the next session.
    pub(crate) fn next_phase(&self) -> Phase {
        self.sessions.last().map_or(Phase::Even, |session| session.phase.next())
    }

    /// Returns the destination of the next initiation: each path in turn, alternately at its current address and the
    /// configured one.
    pub(crate) fn destination(&self, tries: u32) -> Option<(PathId, SocketAddr)> {
        let count = self.paths.len() as u32;
        let on = |path: &Path| {
            if (tries / count).is_multiple_of(2) {
                path.address.or(path.configured)
            } else {
                path.configured.or(path.address)
            }
        };
        let places = || (0..count).map(|step| PathId(((tries + step) % count) as u8));
        let to = |path: PathId| Some((path, on(self.path(path)?)?));
        let is_on = |path: &PathId| self.path(*path).is_some_and(Path::is_on);
        places().filter(is_on).find_map(to)
    }

    /// Starts to announce the terms on which this end uses a path.
    pub(crate) fn announce(&mut self, now: Instant, path: PathId, terms: Terms) {
        if let Some(path) = self.path_mut(path) {
            path.announcement.start(now, terms);
        }
    }

    /// Forgets the other end's terms, because it has restarted.
    pub(crate) fn forget_terms(&mut self) {
        self.paths.iter_mut().for_each(|path| path.peer_terms = Terms::default());
    }

    /// Records that the other end knows the terms of a path.
    pub(crate) fn on_terms_seen(&mut self, path: PathId, terms: Terms) {
        if let Some(path) = self.path_mut(path) {
            path.announcement.acknowledged(terms);
        }
    }

    /// Sends due announcements, on all paths that this end uses: the one that they are about may be the only one to fail.
    fn send_announcements(&mut self, now: Instant, shared: &mut Shared) {
        let is_up = self.is_up(now);
        for about in (0..self.path_count()).map(PathId) {
            let Some(terms) = self.path_mut(about).and_then(|path| path.announcement.poll(now, is_up)) else {
                continue;
            };
            for path in self.used() {
                let is_eligible = |state: &&Path| state.is_on() || path == about;
                let Some(address) = self.path(path).filter(is_eligible).and_then(|path| path.address) else { continue };
                self.send_to(now, path, address, (Control::Terms(about, terms), 0), shared);
            }
        }
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

    /// Sets the peer's proven address on a path.
    pub(crate) fn set_address(&mut self, now: Instant, path: PathId, address: SocketAddr, shared: &mut Shared) {
        let Some(size) = self.path_mut(path).and_then(|path| path.set_address(now, address, shared)) else { return };
        shared.tell(Event::Path { peer: self.id, path, address, size });
    }

    /// Starts to use the other paths of a new session at their configured addresses. Keep-alives find the peer on paths
    /// without one.
    pub(crate) fn use_configured(&mut self, now: Instant, shared: &mut Shared) {
        if self.used().count() < 2 {
            return;
        }
        for path in self.used() {
            let address = self.path(path).filter(|path| path.address.is_none()).and_then(Path::configured_host);
            if let Some(address) = address {
                self.set_address(now, path, address, shared);
            }
        }
    }

    /// Records an authentic datagram of `length` bytes from `from` on a path; `newest` if no larger number arrived before.
    pub(crate) fn came_from(
        &mut self,
        now: Instant,
        path: PathId,
        from: SocketAddr,
        (length, newest): (usize, bool),
        shared: &mut Shared,
    ) {
        let state = self.path_mut(path);
        let challenge = state.and_then(|path| path.came_from(now, from, length, newest, &mut shared.entropy));
        if let Some(number) = challenge {
            self.send_to(now, path, from, (Control::Challenge(number), 0), shared);
        }
    }

    /// Sends a control frame to `to`, in a datagram padded to `size` bytes.
    pub(crate) fn send_to(
        &mut self,
        now: Instant,
        path: PathId,
        to: SocketAddr,
        (frame, size): (Control, u16),
        shared: &mut Shared,
    ) {
        let purpose = if let Control::Probe(_) = frame { Purpose::Probe } else { Purpose::Control };
        let Some(socket) = self.path(path).map(|path| path.socket) else { return };
        let Some(session) = self.sending(now) else { return };
        let (bytes, worn) = (session.control(path, frame, size.into()), session.is_worn(now));
        let Some(bytes) = bytes else { return };
        shared.transmit(Transmit { to, socket, bytes, purpose });
        self.liveness.sent(now);
        if worn {
            self.want(now);
        }
    }

    /// Seals a link datagram with the newest session.
    pub(crate) fn seal(
        &mut self,
        now: Instant,
        path: PathId,
        number: u64,
        datagram: &mut [u8],
        shared: &mut Shared,
    ) -> bool {
        let Some(session) = self.sending(now) else {
            self.want(now);
            return false;
        };
        let (sealed, worn) = (session.seal(path, number, datagram), session.is_worn(now));
        if sealed {
            if let Some(path) = self.path_mut(path) {
                path.next_link = number + 1;
            }
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
    pub(crate) fn answered(&mut self, now: Instant, path: PathId, from: SocketAddr, number: u64, shared: &mut Shared) {
        if self.path(path).is_some_and(|path| path.is_answer(from, number)) {
            self.set_address(now, path, from, shared);
        }
    }

    /// Removes all sessions.
    pub(crate) fn clear(&mut self, shared: &mut Shared) {
        shared.retired.extend(self.sessions.drain(..).map(|session| session.local));
        shared.retired.extend(self.attempt.take().map(|attempt| attempt.index));
        self.begin_at = None;
        self.paths.iter_mut().for_each(Path::forget_candidate);
        self.liveness.stop();
    }

    /// Returns the time of the next call of [`Self::handle_timeout`].
    pub(crate) fn poll_deadline(&self) -> Option<Instant> {
        let sessions = self.sessions.iter().map(|session| session.born + REJECT_AFTER).min();
        let searches = self.paths.iter().filter_map(|path| path.search.as_ref()?.poll_deadline());
        let search = searches.min().filter(|_| !self.sessions.is_empty());
        let retry = self.attempt.as_ref().map(|attempt| attempt.retry_at);
        let announcements = self.paths.iter().filter_map(|path| path.announcement.poll_deadline());
        let announcement = announcements.min().filter(|_| self.sessions.iter().any(|session| session.confirmed));
        let timers = [sessions, search, retry, self.begin_at, announcement, self.liveness.poll_deadline()];
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
        self.search_on(now, shared);
        self.send_announcements(now, shared);
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

    /// Continues the searches for the paths' MTUs.
    fn search_on(&mut self, now: Instant, shared: &mut Shared) {
        let (is_up, used) = (self.is_up(now), self.used().count());
        for path in (0..self.path_count()).map(PathId) {
            let before = self.size(path);
            let Some(state) = self.path_mut(path) else { continue };
            let is_on = state.is_on();
            let (Some(address), Some(search)) = (state.address, &mut state.search) else { continue };
            if !is_up || !is_on || usize::from(path.0) >= used {
                // No probe can be sent: the search resumes with the next session, or when the path is switched on.
                search.hold(now);
                continue;
            }
            if let Some((number, size)) = search.poll(now) {
                self.send_to(now, path, address, (Control::Probe(number), size), shared);
            }
            self.tell_size(path, before, shared);
        }
    }

    /// Reports a changed path MTU to the driver.
    pub(crate) fn tell_size(&self, path: PathId, before: Option<u16>, shared: &mut Shared) {
        if let Some(size) = self.size(path).filter(|size| Some(*size) != before) {
            shared.tell(Event::Size { peer: self.id, path, size });
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
