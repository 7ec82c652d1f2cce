//! The called end. It answers only holders of the key.
//!
//! A caller first requests a cookie and opens a session with it. This proves that it receives at its source address,
//! and that the messages are not replayed. Until then the server keeps no state, and no answer is longer than its
//! request. A session's packets go to that address only, as long as packets from the caller arrive, and never faster
//! than the maximum rate.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::time::{Duration, Instant};

use crate::end::{Datagram, End, Side, TOTALS, Transmit};
use crate::key::{KEY, Key};
use crate::order::Order;
use crate::sink::tell_sent;
use crate::wire::{Cookie, HEADER, Kind, Nonce, OPENING, Reader, opening, read_opening, session_of};

/// Lifetime of a cookie.
const COOKIE_LIFE: Duration = Duration::from_secs(10);
/// Maximum number of answers per second to callers without a session.
const ANSWERS: u64 = 50;
/// Time without a packet from the caller after which sending stops.
const QUIET: Duration = Duration::from_millis(1500);
/// Time without a packet from the caller after which the session ends.
const GONE: Duration = Duration::from_secs(4);
/// Maximum duration of a session.
const LONGEST: Duration = Duration::from_secs(330);
/// Maximum configurable number of sessions.
pub const MOST_SESSIONS: usize = 16;

/// Limits of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// Maximum sending rate of all sessions together, in bits per second.
    pub max_rate: u64,
    /// Maximum number of concurrent sessions, 1 to [`MOST_SESSIONS`].
    pub sessions: usize,
}

/// Event for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A session began.
    Opened(SocketAddr),
    /// A session ended.
    Closed(SocketAddr),
    /// An authenticated caller was refused, since all sessions are in use.
    Busy(SocketAddr),
}

struct Session {
    end: End,
    nonce: Nonce,
    accept: Vec<u8>,
    opened: Instant,
    heard: Instant,
}

/// State machine of the server.
pub struct Server {
    key: Key,
    secret: Key,
    config: ServerConfig,
    sessions: Vec<Session>,
    /// Nonces of sessions that are over, for the lifetime of a cookie.
    used: VecDeque<(Nonce, Instant)>,
    answers: VecDeque<Transmit>,
    answered: (Instant, u64),
    events: VecDeque<Event>,
    overruns: u32,
    stopped: bool,
}

impl Server {
    /// Creates a server. `key` is shared with callers; the driver drew `secret` for this server only.
    pub fn new(key: Key, secret: [u8; KEY], config: ServerConfig) -> Self {
        Self {
            key,
            secret: Key::from_bytes(secret),
            config: ServerConfig { sessions: config.sessions.clamp(1, MOST_SESSIONS), ..config },
            sessions: Vec::new(),
            used: VecDeque::new(),
            answers: VecDeque::new(),
            answered: (Instant::ZERO, 0),
            events: VecDeque::new(),
            overruns: 0,
            stopped: false,
        }
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sets the number of datagrams that the kernel has dropped because the receive buffer was full.
    pub fn set_overruns(&mut self, overruns: u32) {
        self.overruns = overruns;
    }

    /// Processes a datagram from any source.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        match Kind::peek(datagram.bytes) {
            Some(kind @ (Kind::Hello | Kind::Open)) if datagram.bytes.len() == OPENING && !self.stopped => {
                let Some((nonce, body)) = read_opening(&self.key, datagram.bytes) else { return };
                if !self.may_answer(now) {
                    return;
                }
                let answer = match kind {
                    Kind::Hello => {
                        let cookie = self.cookie(now, &nonce, datagram.from);
                        Some(opening(&self.key, Kind::Challenge, &nonce, &cookie, 0))
                    }
                    _ => self.open(now, &nonce, body, datagram.from),
                };
                let to = datagram.from;
                self.answers.extend(answer.map(|bytes| Transmit { to, dscp: 0, bytes }));
            }
            Some(kind) if kind as u8 >= Kind::Data as u8 => self.take(now, datagram),
            _ => {}
        }
    }

    /// Counts an answer to a caller without a session; returns whether the limit permits it.
    fn may_answer(&mut self, now: Instant) -> bool {
        let (since, count) = self.answered;
        if now.since(since) >= Duration::from_secs(1) {
            self.answered = (now, 1);
            return true;
        }
        self.answered = (since, count + 1);
        count < ANSWERS
    }

    fn cookie(&self, at: Instant, nonce: &Nonce, to: SocketAddr) -> Cookie {
        let ip = match to.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let at = at.as_nanos().to_be_bytes();
        let tag = self.secret.tag(&[&at, nonce, &ip.octets(), &to.port().to_be_bytes()]);
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&at);
        cookie[8..].copy_from_slice(&tag);
        cookie
    }

    /// Opens a session for a valid cookie, once per nonce.
    fn open(&mut self, now: Instant, nonce: &Nonce, body: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let (cookie, _) = body.split_first_chunk::<24>()?;
        let made = Instant::from_nanos(Reader(cookie).u64()?);
        let fresh = made <= now && now.since(made) <= COOKIE_LIFE;
        if !fresh || self.cookie(made, nonce, from) != *cookie {
            return None;
        }
        // The answer may have been lost.
        if let Some(session) = self.sessions.iter().find(|session| session.nonce == *nonce) {
            return Some(session.accept.clone());
        }
        self.used.retain(|(_, until)| *until > now);
        if self.used.iter().any(|(used, _)| used == nonce) {
            return None;
        }
        if self.sessions.len() >= self.config.sessions {
            self.tell(Event::Busy(from));
            return Some(opening(&self.key, Kind::Refuse, nonce, &[self.sessions.len() as u8], 0));
        }
        let rate = self.config.max_rate / self.config.sessions as u64;
        let accept = opening(&End::acceptance(&self.key, cookie), Kind::Accept, nonce, &rate.to_be_bytes(), 0);
        let end = End::new(&self.key, Side::Called, from, nonce, cookie, rate);
        self.sessions.push(Session { end, nonce: *nonce, accept: accept.clone(), opened: now, heard: now });
        self.tell(Event::Opened(from));
        Some(accept)
    }

    /// Processes a packet of a session.
    fn take(&mut self, now: Instant, datagram: &Datagram<'_>) {
        let Some(id) = session_of(datagram.bytes) else { return };
        let (overruns, others) = (self.overruns, self.sessions.len().saturating_sub(1) as u8);
        let Some(at) = self.sessions.iter().position(|session| session.end.id == id) else { return };
        let Session { end, heard, .. } = &mut self.sessions[at];
        let Some((header, body)) = end.receive(datagram) else { return };
        *heard = now;
        let totals = end.totals(overruns).to_bytes();
        // Answers are never longer than their requests.
        let room = body.len();
        match header.kind {
            Kind::Ping => {
                let mut answer = header.sent.to_be_bytes().to_vec();
                answer.extend(datagram.at.as_nanos().to_be_bytes());
                answer.extend(totals);
                answer.push(others);
                if answer.len() <= room {
                    end.post(Kind::Pong, answer, HEADER + room);
                }
            }
            Kind::Order => {
                let Some(order) = Order::read(body) else { return };
                let taken = end.source.take(now, order);
                end.post(Kind::Ordered, [&order.id.to_be_bytes()[..], &[u8::from(taken)]].concat(), 0);
            }
            Kind::Fetch => {
                let mut reader = Reader(body);
                let mut answer = totals;
                let Some(left) = room.checked_sub(TOTALS + 1) else { return };
                match reader.u8() {
                    Some(0) => {
                        let Some(from) = reader.u32() else { return };
                        answer.push(0);
                        answer.extend(end.sink.tell(from, left));
                    }
                    Some(1) => {
                        let Some(sent) = tell_sent(end.source.log(), reader) else { return };
                        answer.push(1);
                        answer.extend(sent);
                    }
                    _ => return,
                }
                if answer.len() <= room {
                    end.post(Kind::Log, answer, 0);
                }
            }
            Kind::Bye => self.close(now, at),
            _ => {}
        }
    }

    fn close(&mut self, now: Instant, at: usize) {
        let session = self.sessions.swap_remove(at);
        self.used.push_back((session.nonce, now + COOKIE_LIFE));
        self.tell(Event::Closed(session.end.peer));
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < 64 {
            self.events.push_back(event);
        }
    }

    /// Ends all sessions and notifies their callers.
    pub fn stop(&mut self) {
        self.stopped = true;
        for session in &mut self.sessions {
            session.end.source.stop();
            (0..3).for_each(|_| session.end.post(Kind::Bye, Vec::new(), 0));
        }
    }

    /// Returns the latest time at which to call [`Server::poll_transmit`]; `None` while there is nothing to do.
    pub fn poll_deadline(&self) -> Option<Instant> {
        if !self.answers.is_empty() {
            return Some(Instant::ZERO);
        }
        let sessions = self.sessions.iter().flat_map(|session| {
            let over = (session.heard + GONE).min(session.opened + LONGEST);
            [Some(over), session.end.poll_deadline()]
        });
        sessions.flatten().min()
    }

    /// Returns the next datagram that is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        while let Some(at) =
            self.sessions.iter().position(|session| now >= session.heard + GONE || now >= session.opened + LONGEST)
        {
            self.close(now, at);
        }
        for session in &mut self.sessions {
            if now >= session.heard + QUIET {
                session.end.source.pause(now);
            }
            if let Some(transmit) = session.end.poll(now) {
                return Some(transmit);
            }
        }
        None
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
