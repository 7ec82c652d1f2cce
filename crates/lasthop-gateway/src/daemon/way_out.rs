//! The trials of the queue's packet path, and what follows from them ([`super::passage`]).
//!
//! A treatment is suspended on positive evidence only: the kernel refused a packet; a packet that the redirection carried did not reach
//! this machine's TCP, twice; or a server answered a forwarded SYN and not the trial of the relay's before it, twice. The passing of
//! time alone is none. A first packet that did not arrive is forwarded, so that evidence costs its connection nothing.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use lasthop_proto::packet::Flags;
use lasthop_sys::conntrack::Conntrack;
use lasthop_sys::nfqueue::message::Queued;
use lasthop_sys::raw::Sender;
use lasthop_sys::routes::Routes;
use lasthop_sys::ruleset::{Announcements, Ruleset};
use lasthop_sys::tcp_sockets::TcpSockets;
use socket2::Socket;

use crate::daemon::nat::Translator;
use crate::daemon::passage::{Answer, Cause, Change, Passage, Treatment, Way};
use crate::daemon::trial::{self, Outcome, between};
use crate::family::Family;
use crate::firewall::TRIAL_PORT;
use crate::split::opening::Ends;
use crate::split::{Marks, SplitCounters};

/// Time for which a loopback device that is busy may keep a packet.
const LOOPBACK: Duration = Duration::from_millis(50);
/// Time for which an answer holds whether that device carries first packets, by whether it does.
const CARRIES: Duration = Duration::from_secs(10);
const CARRIES_NOT: Duration = Duration::from_secs(60);
/// Minimum time between two looks whether a redirected packet arrived, once that way is proven.
const LOOK: Duration = Duration::from_millis(100);
/// Time for which a connection waits for the server's answer to a trial.
const ANSWER: Duration = Duration::from_millis(250);
/// Maximum number of connections that wait for a trial; others pass.
const MOST_HELD: usize = 512;
/// Time for which first packets pass after a trial without an answer, unless another server answers.
const REST: Duration = Duration::from_secs(2);
/// Time that a trial has from the answer to the forwarded packet on: longer than until the kernel has repeated the trial.
const MUCH_LATER: Duration = Duration::from_millis(1500);
/// Time for which the forwarded packet may be answered.
const WATCHED: Duration = Duration::from_secs(6);
/// Time between two looks at trials without an answer.
const WATCH: Duration = Duration::from_millis(250);
/// Ports from which trials of connections to servers come, in turn; no client uses them.
const TRIAL_PORTS: std::ops::Range<u16> = 1000..1020;
/// Number of times in a row that evidence must occur which a lost packet could explain.
const TWICE: u32 = 2;

/// Trials of one worker's queue.
pub(super) struct WayOut {
    pub passage: Passage,
    routes: Routes,
    /// None where the kernel has no nf_tables.
    announcements: Option<Announcements>,
    arrivals: Arrivals,
    conntrack: Option<Conntrack>,
    /// Trials of the far half that connections wait for; at most one of each version of IP.
    held: Vec<Held>,
    /// Trials of the far half without an answer, whose connections were forwarded.
    watched: Vec<Watched>,
    /// By version of IP: whether the loopback device carries first packets to the relay, and until when that holds.
    home: [Option<(bool, Instant)>; 2],
    /// By version of IP: whether a decoy of a later packet has arrived since the way in was proven last. One of each kind proves it.
    carried: [bool; 2],
    next_port: u16,
    next_look: Instant,
    next_watch: Instant,
    /// By version of IP.
    far: [Far; 2],
}

/// Connections that wait until a server has answered a trial.
struct Held {
    family: Family,
    /// Their first packets, whole, with the marks that lead them to the relay. The trial is that of the first.
    first: Vec<(Ends, Vec<u8>, u32)>,
    trial: Socket,
    until: Instant,
}

/// A trial without an answer, and the connection that was forwarded meanwhile.
struct Watched {
    ends: Ends,
    trial: Socket,
    until: Instant,
    /// When the server was first seen to have answered the forwarded packet.
    answered: Option<Instant>,
}

/// Next step for a first packet that was held, or whose place a trial took.
pub(super) enum Sequel {
    /// It goes to the relay, with this mark.
    Lead(Ends, Vec<u8>, u32),
    /// It goes on, unsplit.
    Forward(Vec<u8>),
}

/// Whether a packet that was sent to this machine's TCP got there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    Seen,
    /// TCP has received nothing at all meanwhile.
    Missed,
    Unknown,
}

/// Packet that no socket takes, in the place of one of the near half of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decoy {
    /// Its SYN, which the redirection delivers.
    First,
    /// A later one, which the mark of its socket delivers.
    Later,
}

impl Decoy {
    const fn flags(self) -> Flags {
        match self {
            Self::First => Flags::SYN,
            Self::Later => Flags::ACK,
        }
    }
}

/// What is known of the far halves of connections.
#[derive(Clone, Copy, Default)]
struct Far {
    /// Connections of the relay that were answered, as counted last.
    answered: u64,
    /// Whether any has been since rules changed last.
    proven: bool,
    /// Trials in a row that were not answered although the forwarded packets were.
    silent: u32,
    /// Until when connections do not wait for another trial, and pass.
    rest: Option<Instant>,
}

/// The kernel's counts, which show whether a packet reached this machine's TCP.
struct Arrivals {
    counts: Option<File>,
    /// Programs that have netfilter queues.
    queues: Option<File>,
    /// None where the kernel cannot tell.
    sockets: Option<TcpSockets>,
}

impl Arrivals {
    fn open() -> Self {
        let sockets = TcpSockets::open().inspect_err(|error| tracing::debug!(%error, "the kernel has no sock_diag"));
        let queues = File::open("/proc/net/netfilter/nfnetlink_queue").ok();
        Self { counts: File::open("/proc/net/snmp").ok(), queues, sockets: sockets.ok() }
    }

    /// A count of TCP, as in `InSegs`.
    fn count(&self, name: &str) -> Option<u64> {
        let mut text = vec![0; 1 << 14];
        let len = self.counts.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let place = lines.next()?.split(' ').position(|other| other == name)?;
        lines.next()?.split(' ').nth(place)?.parse().ok()
    }

    /// Whether another program's queue may have the packet.
    fn is_detained(&self) -> bool {
        let mut text = [0; 1 << 12];
        let Some(len) = self.queues.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()) else { return true };
        text[..len].iter().filter(|byte| **byte == b'\n').count() != 1
    }

    /// Sends a packet that no socket takes, and looks whether its wrong checksum is counted within `patience`.
    fn decoy(&self, patience: Duration, send: impl FnOnce()) -> Arrival {
        let Some(before) = self.count("InCsumErrors") else { return Arrival::Unknown };
        send();
        let end = Instant::now() + patience;
        loop {
            if self.count("InCsumErrors") != Some(before) {
                return Arrival::Seen;
            }
            if Instant::now() >= end {
                return if self.is_detained() { Arrival::Unknown } else { Arrival::Missed };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a first packet between these ends, and looks whether it has a socket. The call that sends it carries it all the way.
    fn first(&mut self, ends: Ends, send: impl FnOnce()) -> Arrival {
        let before = self.count("InSegs");
        send();
        match self.sockets.as_mut().map(|sockets| sockets.has(ends.server, ends.client)) {
            Some(Ok(true)) => Arrival::Seen,
            Some(Ok(false)) if before.is_some() && self.count("InSegs") == before && !self.is_detained() => {
                Arrival::Missed
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "sock_diag does not answer");
                self.sockets = None;
                Arrival::Unknown
            }
            Some(Ok(false)) | None => Arrival::Unknown,
        }
    }
}

/// Version of IP of a packet.
pub(super) fn family(packet: &[u8]) -> Option<Family> {
    match packet.first()? >> 4 {
        4 => Some(Family::V4),
        6 => Some(Family::V6),
        _ => None,
    }
}

fn family_of(address: SocketAddr) -> Family {
    Family::of(address.ip())
}

impl WayOut {
    /// Opens what it takes to ask the kernel, as far as the kernel has it.
    pub fn open() -> Self {
        let announcements = Announcements::listen()
            .inspect_err(|error| tracing::debug!(%error, "changes of nf_tables are not announced"))
            .ok();
        Self {
            passage: Passage::default(),
            routes: Routes::open(),
            announcements,
            arrivals: Arrivals::open(),
            conntrack: Conntrack::open().ok(),
            held: Vec::new(),
            watched: Vec::new(),
            home: [None; 2],
            carried: [false; 2],
            next_port: TRIAL_PORTS.start,
            next_look: Instant::now(),
            next_watch: Instant::now(),
            far: [Far::default(); 2],
        }
    }

    /// Carries out the trial of a packet's own way, and, where the treatment was suspended, of the way back; says whether the packet
    /// may be treated.
    pub fn try_own(
        &mut self,
        treatment: Treatment,
        (packet, way): (&Queued<'_>, Way),
        [there, back]: [trial::Way<'_>; 2],
        translator: &mut Translator,
    ) -> (bool, Change) {
        let Some((view, family)) = lasthop_wire::parse(packet.bytes).zip(family(packet.bytes)) else {
            return (true, Change::None);
        };
        let now = Instant::now();
        let mut outcome = Outcome::Left;
        for (way, route) in [(&there, view.route), (&back, view.route.reversed())] {
            if outcome == Outcome::Left
                && let Some(mut packet) = trial::packet(route, Flags::ACK)
            {
                translator.translate(&mut packet);
                outcome = trial::send(&mut self.routes, way, route, &packet);
            }
        }
        match outcome {
            Outcome::Left => {
                self.passage.passed(now, treatment, family, way);
                (true, Change::None)
            }
            Outcome::Stopped(cause) => (false, self.passage.stopped(now, treatment, family, cause)),
            Outcome::Unrouted => (false, self.passage.unrouted(now, treatment, family)),
            // Believed, and tried again with the next packet.
            Outcome::Unknown => (true, Change::None),
        }
    }

    /// Whether a connection that begins may be split: whether what the relay will send to both ends would leave. `by` are the interfaces
    /// towards its opener and towards the one called, as far as they are known.
    pub fn try_split(&mut self, ends: Ends, sender: &Sender, (own, marks): (u32, Marks), by: [Option<u32>; 2]) -> bool {
        let (now, family) = (Instant::now(), family_of(ends.client));
        let answer = self.passage.ask(now, Treatment::Split, family, Way::In);
        let Far { proven, rest, .. } = self.far[family as usize];
        if answer == Answer::Pass || self.wants_answer(family) || !proven && rest.is_some_and(|rest| now < rest) {
            return false;
        }
        if answer == Answer::Treat && !self.passage.is_stale(now, Treatment::Split, family, Way::There) {
            return true;
        }
        let Ends { client, server } = ends;
        // The near half passes by the rule that leads packets to the queue, as its repairs do. The far half is tracked, and so is its
        // trial, whose numbers must not become those of the connection: it has a port that no client uses.
        let stranger = SocketAddr::new(client.ip(), TRIAL_PORT);
        let halves = [
            (between(server, client), Flags::SYN.with(Flags::ACK), marks.accepted | own, by[0]),
            (between(stranger, server), Flags::SYN, marks.opened, by[1]),
        ];
        let mut is_certain = true;
        for (route, flags, mark, by) in halves {
            let Some(packet) = trial::packet(route, flags).filter(|_| sender.set_mark(mark).is_ok()) else { continue };
            let way = trial::Way { sender, mark, by, forwarded: 0 };
            let ends = (route.source.ip(), route.destination.ip());
            match trial::send(&mut self.routes, &way, route, &packet) {
                Outcome::Left => {}
                Outcome::Unknown => is_certain = false,
                Outcome::Stopped(cause) => {
                    self.passage.stopped(now, Treatment::Split, family, cause);
                    return false;
                }
                Outcome::Unrouted if self.routes.leaves_by(ends, way.forwarded).is_some() => {
                    self.passage.unrouted(now, Treatment::Split, family);
                    return false;
                }
                // An opener that no packet reaches, which may be made up.
                Outcome::Unrouted if route.destination == client => is_certain = false,
                // A server that no packet reaches.
                Outcome::Unrouted => return false,
            }
        }
        if is_certain {
            self.passage.sent(now, Treatment::Split, family);
        }
        true
    }

    /// Returns whether the treatment is suspended for want of answers, which are tried beside connections that pass.
    fn wants_answer(&self, family: Family) -> bool {
        self.passage.cause(Treatment::Split, family) == Some(Cause::Silent)
    }

    /// Tries, beside a connection that passes, whether its server answers the relay by now, if that is due.
    pub fn try_beside(&mut self, ends: Ends, try_far: impl FnOnce(Ends) -> io::Result<Socket>) {
        let (now, family) = (Instant::now(), family_of(ends.client));
        let is_due = self.passage.ask(now, Treatment::Split, family, Way::In) == Answer::Try;
        if self.wants_answer(family) && is_due {
            self.passage.stopped(now, Treatment::Split, family, Cause::Silent);
            if let Ok(trial) = try_far(self.trial_ends(ends)) {
                self.watched.push(Watched { ends, trial, until: now + WATCHED, answered: None });
            }
        }
    }

    /// Ends of a trial that is to be answered as the connection between these.
    fn trial_ends(&mut self, ends: Ends) -> Ends {
        let port = self.next_port;
        self.next_port = if port + 1 < TRIAL_PORTS.end { port + 1 } else { TRIAL_PORTS.start };
        Ends { client: SocketAddr::new(ends.client.ip(), port), ..ends }
    }

    /// Has a connection wait for the trial of the far half that is under way, if there is one, and room.
    pub fn joins(&mut self, ends: Ends, first: impl FnOnce() -> (Vec<u8>, u32)) -> bool {
        let Some(held) = self.held.iter_mut().find(|held| held.family == family_of(ends.client)) else { return false };
        if held.first.iter().any(|(others, ..)| *others == ends) {
            // Repeated.
            return true;
        }
        let has_room = held.first.len() < MOST_HELD;
        if has_room {
            let (packet, mark) = first();
            held.first.push((ends, packet, mark));
        }
        has_room
    }

    /// Returns whether connections of this version of IP wait for a trial, and there is no room for another.
    pub fn is_full(&self, family: Family) -> bool {
        self.held.iter().any(|held| held.family == family)
    }

    /// Returns whether a trial has to show that redirected packets of this version of IP arrive, or that the far half is answered.
    pub fn wants_trial(&self, family: Family) -> bool {
        !self.far[family as usize].proven
            || self.passage.ask(Instant::now(), Treatment::Split, family, Way::In) != Answer::Treat
    }

    /// Sends a packet that no socket takes through the redirection in the place of a first packet, by `redirect`, and looks whether it
    /// reaches this machine's TCP. Then the server is tried, if none is known to answer. The first packet itself goes on, one way
    /// or the other: at once, or from [`WayOut::watch`].
    pub fn try_redirection(
        &mut self,
        ends: Ends,
        (packet, mark): (Vec<u8>, u32),
        redirect: impl FnOnce(&[u8], Decoy),
        try_far: impl FnOnce(Ends) -> io::Result<Socket>,
    ) -> Option<Sequel> {
        let (now, family) = (Instant::now(), family_of(ends.client));
        let stranger = SocketAddr::new(ends.client.ip(), TRIAL_PORT);
        let decoy = if self.carried[family as usize] { Decoy::First } else { Decoy::Later };
        let Some(bytes) = trial::packet(between(stranger, ends.server), decoy.flags()) else {
            return Some(Sequel::Lead(ends, packet, mark));
        };
        if self.arrivals.decoy(Duration::ZERO, || redirect(&bytes, decoy)) == Arrival::Missed {
            self.missed(now, family);
            return Some(Sequel::Forward(packet));
        }
        let carried = &mut self.carried[family as usize];
        match decoy {
            Decoy::First => {
                *carried = false;
                self.passage.passed(now, Treatment::Split, family, Way::In);
            }
            Decoy::Later => {
                *carried = true;
                if self.passage.cause(Treatment::Split, family).is_some() {
                    return Some(Sequel::Forward(packet));
                }
            }
        }
        if self.far[family as usize].proven {
            return Some(Sequel::Lead(ends, packet, mark));
        }
        match try_far(self.trial_ends(ends)) {
            Ok(trial) => {
                self.held.push(Held { family, first: vec![(ends, packet, mark)], trial, until: now + ANSWER });
                None
            }
            // No port, no memory: this says nothing about rules.
            Err(error) => {
                tracing::debug!(%error, "cannot try the far half of split connections");
                Some(Sequel::Lead(ends, packet, mark))
            }
        }
    }

    /// Takes note of a redirected packet that did not arrive.
    fn missed(&mut self, now: Instant, family: Family) {
        if self.passage.doubted(Treatment::Split, family, Way::In) >= TWICE {
            self.passage.stopped(now, Treatment::Split, family, Cause::Input);
        }
    }

    /// Looks at the trials of far halves that connections wait for.
    fn answers(&mut self, now: Instant) -> Vec<Sequel> {
        let mut sequels = Vec::new();
        for held in std::mem::take(&mut self.held) {
            if is_answered(&held.trial) {
                self.answered(now, held.family, &held.trial);
                sequels.extend(held.first.into_iter().map(|(ends, packet, mark)| Sequel::Lead(ends, packet, mark)));
            } else if now < held.until {
                self.held.push(held);
            } else if let Some(&(ends, ..)) = held.first.first() {
                self.watched.push(Watched { ends, trial: held.trial, until: now + WATCHED, answered: None });
                self.far[held.family as usize].rest = Some(now + REST);
                sequels.extend(held.first.into_iter().map(|(_, packet, _)| Sequel::Forward(packet)));
            }
        }
        sequels
    }

    /// Takes note of a trial that was answered.
    fn answered(&mut self, now: Instant, family: Family, trial: &Socket) {
        // The server discards the connection.
        let _ = trial.set_linger(Some(Duration::ZERO));
        self.far[family as usize].proven = true;
        self.far[family as usize].silent = 0;
        if self.wants_answer(family) {
            self.passage.passed(now, Treatment::Split, family, Way::In);
        }
    }

    /// Looks at trials without an answer: whether the server has answered the packet that was forwarded after them.
    fn look_at_watched(&mut self, now: Instant) {
        if now < self.next_watch {
            return;
        }
        self.next_watch = now + WATCH;
        for mut one in std::mem::take(&mut self.watched) {
            let family = family_of(one.ends.client);
            if is_answered(&one.trial) {
                self.answered(now, family, &one.trial);
                continue;
            }
            let conntrack = &mut self.conntrack;
            let route = between(one.ends.client, one.ends.server);
            let is_under_way =
                |conntrack: &mut Conntrack| conntrack.is_under_way(route) || conntrack.is_under_way_in_any_zone(route);
            let is_under_way = || conntrack.as_mut().is_some_and(is_under_way).then_some(now);
            one.answered = one.answered.or_else(is_under_way);
            if one.answered.is_some_and(|at| now >= at + MUCH_LATER) {
                let far = &mut self.far[family as usize];
                far.silent += 1;
                if far.silent >= TWICE {
                    self.passage.stopped(now, Treatment::Split, family, Cause::Silent);
                }
            } else if now < one.until || one.answered.is_some() {
                self.watched.push(one);
            }
        }
    }

    /// Returns whether to look whether the next redirected packet arrives.
    pub fn follows(&mut self) -> bool {
        let now = Instant::now();
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + LOOK;
        }
        looks
    }

    /// Redirects a first packet by `send`, and looks whether it arrives. Says whether it is to be forwarded instead.
    pub fn is_lost(&mut self, ends: Ends, send: impl FnOnce()) -> bool {
        let (now, family) = (Instant::now(), family_of(ends.client));
        match self.arrivals.first(ends, send) {
            Arrival::Seen => self.passage.passed(now, Treatment::Split, family, Way::In),
            Arrival::Unknown => {}
            Arrival::Missed => {
                self.missed(now, family);
                return true;
            }
        }
        false
    }

    /// Returns whether the loopback device carries first packets between these ends to the relay, where `send` sends them: filters of
    /// reverse paths may close it to them, which says nothing about packets from elsewhere.
    pub fn is_carried_home(&mut self, ends: Ends, send: impl FnOnce(&[u8])) -> bool {
        let (now, family) = (Instant::now(), family_of(ends.client));
        if let Some((is_carried, until)) = self.home[family as usize]
            && now < until
        {
            return is_carried;
        }
        let stranger = SocketAddr::new(ends.client.ip(), TRIAL_PORT);
        let decoy = trial::packet(between(stranger, ends.server), Flags::SYN);
        let arrival = decoy.map(|decoy| self.arrivals.decoy(LOOPBACK, || send(&decoy)));
        let is_carried = arrival != Some(Arrival::Missed);
        if !is_carried {
            tracing::debug!(family = family.name(), "the loopback device carries no first packets to the relay");
        }
        self.home[family as usize] = Some((is_carried, now + if is_carried { CARRIES } else { CARRIES_NOT }));
        is_carried
    }

    /// Takes note of a packet of the gateway's own that was sent, or was not.
    pub fn on_sent(&mut self, treatment: Treatment, packet: &[u8], outcome: Outcome) -> Change {
        let Some(family) = family(packet) else { return Change::None };
        match outcome {
            Outcome::Stopped(cause) => self.passage.stopped(Instant::now(), treatment, family, cause),
            // The host or its interface may have left; a trial beside the next forwarded packet shows whether that has a route.
            Outcome::Unrouted => {
                self.passage.doubted(treatment, family, Way::There);
                Change::None
            }
            Outcome::Left | Outcome::Unknown => Change::None,
        }
    }

    /// Looks at the trials under way, at the relay's connections, and at announced changes. To be called at every beat.
    pub fn watch(&mut self, relay: Option<&SplitCounters>) -> Vec<Sequel> {
        let now = Instant::now();
        if self.announcements.as_ref().is_some_and(|rules| rules.take() == Ruleset::Changed) {
            self.passage.reconsider(now);
            self.home = [None; 2];
            self.carried = [false; 2];
            self.far.iter_mut().for_each(|far| (far.proven, far.rest) = (false, None));
        }
        for family in Family::BOTH {
            let answered = relay.map_or(0, |counters| counters.answered_so_far(family));
            let far = &mut self.far[family as usize];
            if answered != far.answered {
                *far = Far { answered, proven: true, ..Far::default() };
            }
        }
        self.look_at_watched(now);
        self.answers(now)
    }
}

/// Whether a server has answered, be it by refusing.
fn is_answered(trial: &Socket) -> bool {
    let error = || trial.take_error().ok().flatten();
    trial.peer_addr().is_ok() || error().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Trial of the two ways of a packet: `by` is the interface by which the packet leaves, as far as it is known, with the mark `forwarded`.
pub(super) fn ways<'a>(
    there: &'a Sender,
    back: &'a Sender,
    mark: u32,
    (by, forwarded): (u32, u32),
) -> [trial::Way<'a>; 2] {
    let by = (by != 0).then_some(by);
    [trial::Way { sender: there, mark, by, forwarded }, trial::Way { sender: back, mark, by: None, forwarded }]
}
