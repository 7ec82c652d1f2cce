//! Trials of the queue's packet path, and their consequences ([`super::passage`]).
//!
//! A treatment is suspended on positive evidence only: the kernel refused a packet; a redirected packet did not reach
//! this machine's TCP, twice; or a server answered a forwarded SYN but not the relay's preceding trial, twice. A
//! timeout alone is not evidence. A SYN that did not arrive is forwarded, so that gathering evidence does not break its
//! connection.

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
use lasthop_wire::Version;
use socket2::Socket;

use crate::daemon::nat::Translator;
use crate::daemon::passage::{Answer, Cause, Change, Passage, Treatment, Way};
use crate::daemon::trial::{self, Outcome, between};
use crate::family::Family;
use crate::firewall::TRIAL_PORT;
use crate::split::opening::Ends;
use crate::split::{Marks, SplitCounters};

/// Maximum time for which a busy loopback device may delay a packet.
const LOOPBACK: Duration = Duration::from_millis(50);
/// Lifetime of the finding on whether the loopback device carries SYNs: if it does, and if it does not.
const CARRIES: Duration = Duration::from_secs(10);
const CARRIES_NOT: Duration = Duration::from_secs(60);
/// Minimum time between checks whether a redirected packet arrived, once that path is proven.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of connections that wait for a trial; others pass.
const MOST_HELD: usize = 512;
/// Time for which SYNs pass after a trial without an answer, unless another server answers.
const REST: Duration = Duration::from_secs(2);
/// Time for an answer to a trial after the answer to the forwarded packet: longer than the time after which the kernel
/// retransmits the trial.
const MUCH_LATER: Duration = Duration::from_millis(1500);
/// Time for an answer to the forwarded packet.
const WATCHED: Duration = Duration::from_secs(6);
/// Interval of checks of trials without an answer.
const WATCH: Duration = Duration::from_millis(250);
/// Source ports of trial connections to servers, used in turn; no client uses them.
const TRIAL_PORTS: std::ops::Range<u16> = 1000..1020;
/// Number of consecutive occurrences required of evidence that a lost packet could explain.
const TWICE: u32 = 2;

/// Trials of one worker's queue.
pub(super) struct WayOut {
    pub passage: Passage,
    routes: Routes,
    /// Announcements of changed rules; `None` if the kernel has no nf_tables.
    announcements: Option<Announcements>,
    arrivals: Arrivals,
    conntrack: Option<Conntrack>,
    /// Trials of the far half for which connections wait; at most one of each IP version.
    held: Vec<Held>,
    /// Unanswered trials of the far half, whose connections were forwarded.
    watched: Vec<Watched>,
    /// True if the loopback device carries SYNs to the relay, with the expiry of this result, by IP version.
    home: [Option<(bool, Instant)>; 2],
    /// True for an IP version if a decoy of a later packet has arrived since the inbound path was last proven. The
    /// proof needs one decoy of each kind.
    carried: [bool; 2],
    next_port: u16,
    next_look: Instant,
    next_watch: Instant,
    /// State of the far halves by IP version.
    far: [Far; 2],
    /// Time for which a connection waits for the server's answer to a trial; `None` for no trial.
    trial: Option<Duration>,
}

/// Connections that wait for a server's answer to a trial.
struct Held {
    family: Family,
    /// Complete SYNs, with the marks that send them to the relay. The trial belongs to the first.
    first: Vec<(Ends, Vec<u8>, u32)>,
    trial: Socket,
    until: Instant,
}

/// Unanswered trial, and the connection that was forwarded in the meantime.
struct Watched {
    ends: Ends,
    trial: Socket,
    until: Instant,
    /// Time at which the server was first seen to have answered the forwarded packet.
    answered: Option<Instant>,
}

/// Next step for a SYN that was held during a trial.
pub(super) enum Sequel {
    /// The SYN goes to the relay, with this mark.
    Lead(Ends, Vec<u8>, u32),
    /// The SYN is forwarded unsplit.
    Forward(Vec<u8>),
}

/// Observation of a packet sent to this machine's TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    Seen,
    /// TCP has received nothing in the meantime.
    Missed,
    Unknown,
}

/// Packet that no socket accepts, in place of a packet of a connection's near half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decoy {
    /// A SYN, which the redirection delivers.
    First,
    /// A later packet, which the mark of its socket delivers.
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

/// State of the far halves of connections.
#[derive(Clone, Copy, Default)]
struct Far {
    /// Number of answered relay connections at the last check.
    answered: u64,
    /// True if any relay connection was answered since the rules last changed.
    proven: bool,
    /// Number of consecutive unanswered trials whose forwarded packets were answered.
    silent: u32,
    /// Time until which connections pass without waiting for another trial.
    rest: Option<Instant>,
}

/// Kernel counters that show whether a packet reached this machine's TCP.
struct Arrivals {
    counts: Option<File>,
    /// List of netfilter queues with their programs.
    queues: Option<File>,
    /// Socket lookup; `None` if the kernel does not support it.
    sockets: Option<TcpSockets>,
}

impl Arrivals {
    fn open() -> Self {
        let sockets = TcpSockets::open().inspect_err(|error| tracing::debug!(%error, "sock_diag is unavailable"));
        let queues = File::open("/proc/net/netfilter/nfnetlink_queue").ok();
        Self { counts: File::open("/proc/net/snmp").ok(), queues, sockets: sockets.ok() }
    }

    /// Returns a TCP counter, such as `InSegs`.
    fn count(&self, name: &str) -> Option<u64> {
        let mut text = vec![0; 1 << 14];
        let len = self.counts.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let place = lines.next()?.split(' ').position(|other| other == name)?;
        lines.next()?.split(' ').nth(place)?.parse().ok()
    }

    /// Returns whether another program's queue may hold the packet.
    fn is_detained(&self) -> bool {
        let mut text = [0; 1 << 12];
        let Some(len) = self.queues.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()) else { return true };
        text[..len].iter().filter(|byte| **byte == b'\n').count() != 1
    }

    /// Sends a packet that no socket accepts, and checks whether its wrong checksum is counted within `patience`.
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

    /// Sends a SYN between these ends, and checks whether it has a socket. The system call that sends it delivers it as
    /// well.
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

/// Returns the IP version of a packet.
pub(super) fn family(packet: &[u8]) -> Option<Family> {
    Version::of(packet).map(|version| match version {
        Version::V4 => Family::V4,
        Version::V6 => Family::V6,
    })
}

fn family_of(address: SocketAddr) -> Family {
    Family::of(address.ip())
}

impl WayOut {
    /// Opens the available interfaces to the kernel.
    pub fn open(trial: Option<Duration>) -> Self {
        let announcements = Announcements::listen()
            .inspect_err(|error| tracing::debug!(%error, "cannot subscribe to changes of nf_tables"))
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
            trial,
        }
    }

    /// Executes the trial of a packet's own way, and of the way back. Returns whether the packet may be treated.
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
                translator.translate_trial(&mut packet);
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
            // Treated; the next packet is tried again.
            Outcome::Unknown => (true, Change::None),
        }
    }

    /// Returns whether a new connection may be split: the relay's packets to both ends must leave. `by` contains the
    /// interfaces towards its opener and the called end, if known.
    pub fn try_split(&mut self, ends: Ends, sender: &Sender, (own, marks): (u32, Marks), by: [Option<u32>; 2]) -> bool {
        let (now, family) = (Instant::now(), family_of(ends.client));
        let answer = self.passage.ask(now, Treatment::Split, family, Way::In);
        let rest = self.far[family as usize].rest;
        if answer == Answer::Pass
            || self.wants_answer(family)
            || self.tries_server(family).is_some() && rest.is_some_and(|rest| now < rest)
        {
            return false;
        }
        if answer == Answer::Treat && !self.passage.is_stale(now, Treatment::Split, family, Way::There) {
            return true;
        }
        let Ends { client, server } = ends;
        // The near half bypasses the queue by the mark of the gateway's own packets, like its repairs. The far half is
        // tracked, and so is its trial, whose sequence numbers must not be taken for the connection's: its port is one
        // that no client uses.
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
                // The opener is unreachable, and possibly spoofed.
                Outcome::Unrouted if route.destination == client => is_certain = false,
                // The server is unreachable.
                Outcome::Unrouted => return false,
            }
        }
        if is_certain {
            self.passage.sent(now, Treatment::Split, family);
        }
        true
    }

    /// Returns whether the treatment is suspended because answers were missing, so that further trials run alongside
    /// connections that pass untreated.
    fn wants_answer(&self, family: Family) -> bool {
        self.passage.cause(Treatment::Split, family) == Some(Cause::Silent)
    }

    /// Tests, if a test is due, whether the server of a connection that passes now answers the relay.
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

    /// Returns the ends of a trial for a connection between these ends.
    fn trial_ends(&mut self, ends: Ends) -> Ends {
        let port = self.next_port;
        self.next_port = if port + 1 < TRIAL_PORTS.end { port + 1 } else { TRIAL_PORTS.start };
        Ends { client: SocketAddr::new(ends.client.ip(), port), ..ends }
    }

    /// Lets a connection wait for a trial of the far half in progress. Returns false without one, or if the limit is
    /// reached.
    pub fn joins(&mut self, ends: Ends, first: impl FnOnce() -> (Vec<u8>, u32)) -> bool {
        let Some(held) = self.held.iter_mut().find(|held| held.family == family_of(ends.client)) else { return false };
        if held.first.iter().any(|(others, ..)| *others == ends) {
            // A retransmission.
            return true;
        }
        let has_room = held.first.len() < MOST_HELD;
        if has_room {
            let (packet, mark) = first();
            held.first.push((ends, packet, mark));
        }
        has_room
    }

    /// Returns whether connections of this IP version wait for a trial, so that another one would exceed the limit.
    pub fn is_full(&self, family: Family) -> bool {
        self.held.iter().any(|held| held.family == family)
    }

    /// Returns the time for which a connection waits for its server's answer to a trial; `None` if no trial is due.
    fn tries_server(&self, family: Family) -> Option<Duration> {
        self.trial.filter(|_| !self.far[family as usize].proven)
    }

    /// Returns whether a trial must show that redirected packets of this IP version arrive, or that the far half is
    /// answered.
    pub fn wants_trial(&self, family: Family) -> bool {
        self.tries_server(family).is_some()
            || self.passage.ask(Instant::now(), Treatment::Split, family, Way::In) != Answer::Treat
    }

    /// Sends a packet that no socket accepts through the redirection in place of a SYN, with `redirect`, and checks
    /// whether it reaches this machine's TCP. Then tries the server, if no server is known to answer. The SYN itself
    /// continues at once, or through [`WayOut::watch`].
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
        let Some(wait) = self.tries_server(family) else { return Some(Sequel::Lead(ends, packet, mark)) };
        match try_far(self.trial_ends(ends)) {
            Ok(trial) => {
                self.held.push(Held { family, first: vec![(ends, packet, mark)], trial, until: now + wait });
                None
            }
            // A lack of ports or memory says nothing about rules.
            Err(error) => {
                tracing::debug!(%error, "cannot test the far half of split connections");
                Some(Sequel::Lead(ends, packet, mark))
            }
        }
    }

    /// Records a redirected packet that did not arrive.
    fn missed(&mut self, now: Instant, family: Family) {
        if self.passage.doubted(Treatment::Split, family, Way::In) >= TWICE {
            self.passage.stopped(now, Treatment::Split, family, Cause::Input);
        }
    }

    /// Checks the trials of far halves for which connections wait.
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

    /// Records a trial that was answered.
    fn answered(&mut self, now: Instant, family: Family, trial: &Socket) {
        // Closing sends a reset, and the server discards the connection.
        let _ = trial.set_linger(Some(Duration::ZERO));
        self.far[family as usize].proven = true;
        self.far[family as usize].silent = 0;
        if self.wants_answer(family) {
            self.passage.passed(now, Treatment::Split, family, Way::In);
        }
    }

    /// Checks for each unanswered trial whether the server has answered the packet that was forwarded after it.
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

    /// Returns whether to check the arrival of the next redirected packet.
    pub fn follows(&mut self) -> bool {
        let now = Instant::now();
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + LOOK;
        }
        looks
    }

    /// Redirects a SYN with `send`, and checks whether it arrives. Returns whether it is to be forwarded instead.
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

    /// Returns whether the loopback device carries SYNs between these ends to the relay when `send` sends them.
    /// Reverse-path filters may drop them there, which does not show that they drop packets from other hosts.
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
            tracing::debug!(family = family.name(), "SYNs sent over the loopback device do not reach the relay");
        }
        self.home[family as usize] = Some((is_carried, now + if is_carried { CARRIES } else { CARRIES_NOT }));
        is_carried
    }

    /// Records the outcome of sending a packet of the gateway itself.
    pub fn on_sent(&mut self, treatment: Treatment, packet: &[u8], outcome: Outcome) -> Change {
        let Some(family) = family(packet) else { return Change::None };
        match outcome {
            Outcome::Stopped(cause) => self.passage.stopped(Instant::now(), treatment, family, cause),
            // The host or its interface may have left; a trial beside the next forwarded packet shows whether there is
            // a route.
            Outcome::Unrouted => {
                self.passage.doubted(treatment, family, Way::There);
                Change::None
            }
            // Copies of datagrams have no trials that could show it.
            Outcome::Left if treatment == Treatment::Quic => {
                self.passage.passed(Instant::now(), treatment, family, Way::There);
                Change::None
            }
            Outcome::Left | Outcome::Unknown => Change::None,
        }
    }

    /// Checks pending trials, the relay's connections, and announced changes of rules. Must be called at every
    /// heartbeat.
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

/// Returns whether a server has answered; a refusal counts.
fn is_answered(trial: &Socket) -> bool {
    let error = || trial.take_error().ok().flatten();
    trial.peer_addr().is_ok() || error().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns the trials of a packet's two ways. `by` is the index of the interface by which the packet leaves with the
/// mark `forwarded`, or 0.
pub(super) fn ways<'a>(
    there: &'a Sender,
    back: &'a Sender,
    mark: u32,
    (by, forwarded): (u32, u32),
) -> [trial::Way<'a>; 2] {
    let by = (by != 0).then_some(by);
    [trial::Way { sender: there, mark, by, forwarded }, trial::Way { sender: back, mark, by: None, forwarded }]
}
