//! Admission of new connections. Connections beyond the limits are forwarded unsplit.
//!
//! The kernel answers SYNs in a listen queue of limited length, and sends SYN cookies when it is full. No rule can
//! recognize the acknowledgments of cookies, so admission keeps the number of opening connections below that limit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::opening::{Ends, Opening};

/// Time for which the kernel remembers a closed connection (`TCP_TIMEWAIT_LEN`), and a sender retransmits its SYN.
const MEMORY: Duration = Duration::from_secs(64);
/// Maximum number of closed connections, and of forwarded ones per generation, to remember.
const MOST: usize = 1 << 15;

/// Limits on connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Maximum number of connections, open or opening.
    pub connections: u32,
    /// Maximum number of connections of one client.
    pub of_client: u32,
    /// Maximum number of opening connections.
    pub opening: u32,
    /// Time for which the kernel waits for the ACK that completes a handshake.
    pub patience: Duration,
}

/// Table of admitted connections, shared by the thread that decides on new connections and the one that relays them.
#[derive(Debug)]
pub struct Admission(Mutex<Register>);

#[derive(Debug)]
struct Register {
    room: Room,
    known: HashMap<Ends, State>,
    opening: u32,
    open: u32,
    clients: HashMap<IpAddr, Held>,
    /// Expiry times in chronological order, with the connections that expire.
    opened_until: VecDeque<(Instant, Ends)>,
    over_until: VecDeque<(Instant, Ends)>,
    passed: Passed,
    /// End of a pause in which no new connection is admitted.
    paused: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Admitted with the server that it leads to; the relay has not accepted it yet.
    Opening { until: Instant, server: SocketAddr },
    /// Accepted by the relay.
    Open { server: SocketAddr },
    /// Closed, but the kernel may still know its ends.
    Over { until: Instant },
}

/// Connections of one client.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Held {
    opening: u32,
    open: u32,
}

/// SYNs that were forwarded; retransmissions of them are forwarded too.
#[derive(Debug)]
struct Passed {
    young: HashSet<(Ends, u32)>,
    old: HashSet<(Ends, u32)>,
    since: Option<Instant>,
}

impl Admission {
    /// Creates an empty table.
    pub fn new(room: Room) -> Self {
        let passed = Passed { young: HashSet::new(), old: HashSet::new(), since: None };
        Self(Mutex::new(Register {
            room,
            known: HashMap::new(),
            opening: 0,
            open: 0,
            clients: HashMap::new(),
            opened_until: VecDeque::new(),
            over_until: VecDeque::new(),
            passed,
            paused: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Register> {
        // A thread that panicked can at worst leave a wrong count.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether to admit the connection that `opener` begins. Its SYN is addressed to `opener.ends.server`,
    /// which leads to `server`. `is_forwarded` returns whether a forwarded connection between these ends exists: a SYN,
    /// which may be spoofed, must not end it.
    pub fn admit(
        &self,
        now: Instant,
        opener: Opening,
        server: SocketAddr,
        is_forwarded: impl FnOnce() -> bool,
    ) -> bool {
        if let Some(admitted) = self.lock().admit_known(now, opener, server) {
            return admitted;
        }
        // Called without the lock, which would block the relay.
        let passes = is_forwarded();
        let mut register = self.lock();
        if passes {
            register.passed.insert(now, (opener.ends, opener.number));
        } else {
            register.let_in(now, opener.ends, server);
        }
        !passes
    }

    /// Forwards an admitted connection that the relay has not accepted.
    pub fn give_up(&self, now: Instant, Opening { ends, number }: Opening) {
        let mut register = self.lock();
        if register.forget_one(ends, |state| matches!(state, State::Opening { .. })) {
            register.no_longer_opening(ends);
        }
        register.passed.insert(now, (ends, number));
    }

    /// Records that the relay has accepted a connection. Returns the server that it leads to, if it was admitted.
    pub fn accepted(&self, ends: Ends) -> Option<SocketAddr> {
        self.lock().accepted(ends)
    }

    /// Returns whether a connection between these ends was admitted and the relay has not accepted it yet.
    pub fn is_opening(&self, ends: Ends) -> bool {
        matches!(self.lock().known.get(&ends), Some(State::Opening { .. }))
    }

    /// Admits no new connection until then: the relay cannot accept any.
    pub fn pause(&self, until: Instant) {
        self.lock().paused = Some(until);
    }

    /// Records that the relay has closed an accepted connection.
    pub fn ended(&self, now: Instant, ends: Ends) {
        self.lock().ended(now, ends);
    }
}

impl Register {
    /// Returns the decision for known ends, and for connections beyond the limits; `None` for others.
    fn admit_known(&mut self, now: Instant, Opening { ends, number }: Opening, server: SocketAddr) -> Option<bool> {
        self.forget(now);
        match self.known.get(&ends) {
            // The kernel already has the connection: a retransmitted SYN, or an invalid one.
            Some(State::Opening { .. } | State::Open { .. }) => Some(true),
            // Otherwise the packets of these ends would meet the kernel's state of the old connection.
            Some(State::Over { .. }) => {
                self.let_in(now, ends, server);
                Some(true)
            }
            None if self.passed.contains(now, (ends, number)) => Some(false),
            None if self.paused.is_some_and(|until| now < until) || !self.has_room(ends) => {
                self.passed.insert(now, (ends, number));
                Some(false)
            }
            None => None,
        }
    }

    fn let_in(&mut self, now: Instant, ends: Ends, server: SocketAddr) {
        let until = now + self.room.patience;
        self.known.insert(ends, State::Opening { until, server });
        self.opened_until.push_back((until, ends));
        self.opening += 1;
        self.clients.entry(client(ends)).or_default().opening += 1;
    }

    fn has_room(&self, ends: Ends) -> bool {
        let Room { connections, of_client, opening, .. } = self.room;
        let held = self.clients.get(&client(ends)).copied().unwrap_or_default();
        // The same proportion as of all connections.
        let opening_of_client = u64::from(opening) * u64::from(of_client) / u64::from(connections.max(1));
        self.opening < opening
            && self.opening.saturating_add(self.open) < connections
            && held.opening.saturating_add(held.open) < of_client
            && u64::from(held.opening) < opening_of_client.max(1)
    }

    fn accepted(&mut self, ends: Ends) -> Option<SocketAddr> {
        let server = match self.known.get(&ends) {
            Some(&State::Opening { server, .. }) => {
                self.no_longer_opening(ends);
                Some(server)
            }
            // The end of the old connection has not been reported yet.
            Some(&State::Open { server }) => Some(server),
            Some(State::Over { .. }) | None => None,
        };
        self.known.insert(ends, State::Open { server: server.unwrap_or(ends.server) });
        self.open += 1;
        self.clients.entry(client(ends)).or_default().open += 1;
        server
    }

    fn ended(&mut self, now: Instant, ends: Ends) {
        self.open = self.open.saturating_sub(1);
        self.release(ends, |held| held.open = held.open.saturating_sub(1));
        if self.over_until.len() >= MOST
            && let Some((until, oldest)) = self.over_until.pop_front()
        {
            self.forget_one(oldest, |state| state == State::Over { until });
        }
        let until = now + MEMORY;
        self.known.insert(ends, State::Over { until });
        self.over_until.push_back((until, ends));
    }

    fn no_longer_opening(&mut self, ends: Ends) {
        self.opening = self.opening.saturating_sub(1);
        self.release(ends, |held| held.opening = held.opening.saturating_sub(1));
    }

    fn release(&mut self, ends: Ends, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.clients.get_mut(&client(ends)) {
            change(held);
            if *held == Held::default() {
                self.clients.remove(&client(ends));
            }
        }
    }

    /// Removes expired entries.
    fn forget(&mut self, now: Instant) {
        while let Some(&(until, ends)) = self.opened_until.front().filter(|(until, _)| *until <= now) {
            self.opened_until.pop_front();
            if self.forget_one(ends, |state| matches!(state, State::Opening { until: its, .. } if its == until)) {
                self.no_longer_opening(ends);
            }
        }
        while let Some(&(until, ends)) = self.over_until.front().filter(|(until, _)| *until <= now) {
            self.over_until.pop_front();
            self.forget_one(ends, |state| state == State::Over { until });
        }
    }

    /// Removes a connection if its state matches, and returns whether it did.
    fn forget_one(&mut self, ends: Ends, is_such: impl FnOnce(State) -> bool) -> bool {
        let is_so = self.known.get(&ends).copied().is_some_and(is_such);
        if is_so {
            self.known.remove(&ends);
        }
        is_so
    }
}

impl Passed {
    fn turn(&mut self, now: Instant) {
        if self.young.len() >= MOST || self.since.is_some_and(|since| now.duration_since(since) >= MEMORY) {
            self.old = std::mem::take(&mut self.young);
            self.since = None;
        }
    }

    fn contains(&mut self, now: Instant, what: (Ends, u32)) -> bool {
        self.turn(now);
        self.young.contains(&what) || self.old.contains(&what)
    }

    fn insert(&mut self, now: Instant, what: (Ends, u32)) {
        self.since.get_or_insert(now);
        self.young.insert(what);
    }
}

/// Returns the address that identifies a client: an IPv4 address, or the /64 of an IPv6 address.
fn client(ends: Ends) -> IpAddr {
    match ends.client.ip() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { connections: 8, of_client: 4, opening: 4, patience: Duration::from_secs(63) };

    fn ends(client: &str) -> Ends {
        Ends { client: client.parse().unwrap(), server: "192.0.2.1:80".parse().unwrap() }
    }

    /// Returns whether a SYN with this sequence number is admitted.
    fn admit(admission: &Admission, now: Instant, ends: Ends, number: u32) -> bool {
        admission.admit(now, Opening { ends, number }, ends.server, || false)
    }

    #[test]
    fn what_passes_is_not_ended_by_a_strangers_first_packet() {
        let (admission, now, one) = (Admission::new(ROOM), Instant::now(), ends("10.0.0.1:1"));
        assert!(!admission.admit(now, Opening { ends: one, number: 7 }, one.server, || true));
        assert!(!admit(&admission, now, one, 7), "repeated");
        assert!(admit(&admission, now, one, 8), "another connection, once that one is over");
        // Known connections need no check.
        assert!(admission.admit(now, Opening { ends: one, number: 9 }, one.server, || unreachable!()));
    }

    #[test]
    fn a_connection_that_is_given_up_passes_and_takes_no_room() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        for n in 0..100 {
            let one = ends(&format!("10.0.0.1:{}", n + 1));
            assert!(admit(&admission, now, one, n));
            admission.give_up(now, Opening { ends: one, number: n });
            assert!(!admit(&admission, now, one, n), "repeated");
        }
        assert!(admit(&admission, now, ends("10.0.0.1:1"), 1000), "another connection");
    }

    #[test]
    fn a_flood_of_openings_passes_and_so_do_its_repetitions() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        let flood = |n: u32| ends(&format!("10.0.{}.{}:7", n >> 8, n & 255));
        let admitted: Vec<bool> = (0..1000).map(|n| admit(&admission, now, flood(n), n)).collect();
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 4);
        let again: Vec<bool> =
            (0..1000).map(|n| admit(&admission, now + Duration::from_secs(30), flood(n), n)).collect();
        assert_eq!(admitted, again);
        // Capacity is free once the kernel has given up on the others, but forwarded connections stay forwarded.
        let later = now + Duration::from_secs(63);
        assert!(!admit(&admission, later, flood(999), 999));
        assert!(admit(&admission, later, flood(999), 1));
    }

    #[test]
    fn while_the_relay_can_take_none_new_ones_pass() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        let later = now + Duration::from_secs(1);
        assert!(admit(&admission, now, ends("10.0.0.1:1"), 7));
        admission.pause(later);
        assert!(admit(&admission, now, ends("10.0.0.1:1"), 7), "the kernel has it");
        assert!(!admit(&admission, now, ends("10.0.0.2:1"), 8));
        assert!(!admit(&admission, later, ends("10.0.0.2:1"), 8), "it passes");
        assert!(admit(&admission, later, ends("10.0.0.3:1"), 9));
    }

    /// A simultaneous open (RFC 9293 §3.5): the relay accepts one connection and opens the other itself.
    #[test]
    fn a_connection_that_opens_is_known_from_its_other_end() {
        let (admission, now, one) = (Admission::new(ROOM), Instant::now(), ends("10.0.0.1:1"));
        assert!(!admission.is_opening(one.crossing().crossing()));
        assert!(admit(&admission, now, one, 7));
        assert!(admission.is_opening(one) && !admission.is_opening(one.crossing()));
        admission.accepted(one);
        assert!(!admission.is_opening(one), "the kernel knows by now");
    }

    #[test]
    fn one_client_has_its_share() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        let open = |client: &str| {
            let admitted = admit(&admission, now, ends(client), 0);
            if admitted {
                admission.accepted(ends(client));
            }
            admitted
        };
        let mine: Vec<bool> = (1..=6).map(|port| open(&format!("10.0.0.1:{port}"))).collect();
        assert_eq!(mine, [true, true, true, true, false, false]);
        let six: Vec<bool> = (1..=5).map(|host| open(&format!("[2001:db8::{host}]:1"))).collect();
        assert_eq!(six, [true, true, true, true, false]);
        // The limit is reached for every client.
        assert!(!open("10.0.0.2:1"));
        admission.ended(now, ends("10.0.0.1:1"));
        assert!(open("10.0.0.1:9"));
        assert!(!open("10.0.0.1:10"));
    }

    #[test]
    fn of_those_that_are_opening_one_client_has_its_share_too() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        let admitted = (1..=4).filter(|port| admit(&admission, now, ends(&format!("10.0.0.1:{port}")), 0)).count();
        assert_eq!(admitted, 2);
        assert!(admit(&admission, now, ends("10.0.0.2:1"), 0));
    }

    #[test]
    fn ends_that_the_kernel_knows_are_never_let_pass() {
        let room = Room { connections: 1, of_client: 1, ..ROOM };
        let (admission, now) = (Admission::new(room), Instant::now());
        let (one, other) = (ends("10.0.0.1:1"), ends("10.0.0.2:1"));
        assert!(admit(&admission, now, one, 5) && !admit(&admission, now, other, 6));
        assert!(admit(&admission, now, one, 5), "repeated");
        admission.accepted(one);
        assert!(admit(&admission, now, one, 9), "open");
        admission.ended(now, one);
        assert!(admit(&admission, now, other, 7), "room again");
        assert!(admit(&admission, now, one, 10), "in TIME_WAIT");
        let later = now + Duration::from_secs(200);
        assert!(admit(&admission, later, other, 8));
        assert!(!admit(&admission, later, one, 11));
    }

    #[test]
    fn whom_a_translated_connection_calls_is_known_as_long_as_it_is() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        let (ends, number, behind) = (ends("10.0.0.1:1"), 5, "10.2.0.2:8080".parse().unwrap());
        assert_eq!(admission.accepted(ends), None);
        admission.ended(now, ends);
        assert!(admission.admit(now, Opening { ends, number }, behind, || false));
        assert_eq!(admission.accepted(ends), Some(behind));
        // The kernel reuses the ends before the end of the first connection is reported.
        assert_eq!(admission.accepted(ends), Some(behind));
        admission.ended(now, ends);
        admission.ended(now, ends);
        assert_eq!(admission.accepted(ends), None);
    }

    #[test]
    fn nothing_is_left_of_who_came_and_went() {
        let (admission, now) = (Admission::new(ROOM), Instant::now());
        for n in 0..50_000_u32 {
            let ends = ends(&format!("10.0.{}.{}:7", n >> 8 & 255, n & 255));
            if admit(&admission, now, ends, n) && n % 2 == 0 {
                admission.accepted(ends);
                admission.ended(now, ends);
            }
        }
        let mut register = admission.lock();
        assert!(
            register.over_until.len() <= MOST && register.known.len() <= MOST + 8 && register.passed.old.len() <= MOST
        );
        register.forget(now + Duration::from_secs(100));
        assert_eq!((register.known.len(), register.clients.len(), register.opening, register.open), (0, 0, 0, 0));
    }
}
