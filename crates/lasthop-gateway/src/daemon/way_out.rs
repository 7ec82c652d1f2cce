//! The trials of the queue's packet path, and what follows from them ([`super::passage`]).

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use lasthop_proto::packet::Flags;
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
use crate::split::opening::Ends;
use crate::split::{Marks, SplitCounters};

/// Time after which a redirected packet must have reached its socket, where another program's queue had it meanwhile.
const ARRIVAL: Duration = Duration::from_millis(50);
/// Redirected packets are followed to their sockets at most so often, once that way is proven.
const LOOK: Duration = Duration::from_millis(100);
/// Time in which the one called is to answer a trial: shorter than after what time an opener repeats its first packet.
const ANSWER: Duration = Duration::from_millis(900);
/// Most connections that wait for a trial; others pass.
const MOST_HELD: usize = 512;
/// Ports from which trials of connections to the one called come, in turn: no client's either.
const TRIAL_PORTS: std::ops::Range<u16> = 1000..1020;
/// Port from which a trial of the far half comes (discard, RFC 863).
const TRIAL_PORT: u16 = 9;
/// Most redirected packets that are followed at once.
const MOST_AWAITED: usize = 1024;
/// Connections without an answer, in a row, after which the far side counts as unreachable: one right after the start or a change of
/// rules, since a server may be down.
const SILENT_AT_FIRST: u64 = 1;
const SILENT: u64 = 3;

/// Trials of one worker's queue.
pub(super) struct WayOut {
    pub passage: Passage,
    routes: Routes,
    /// None where the kernel has no nf_tables.
    announcements: Option<Announcements>,
    /// None where the kernel cannot tell: then redirection is believed.
    sockets: Option<TcpSockets>,
    /// Redirected packets whose sockets are looked for at that time; with the packet, if it went by another way than others do.
    awaited: Vec<(Instant, Ends, Option<Vec<u8>>)>,
    /// Trials of the far half; at most one of each version of IP.
    held: Vec<Held>,
    /// The kernel's counts of TCP, those of wrong checksums among them.
    counts: Option<File>,
    next_port: u16,
    next_look: Instant,
    /// By version of IP: connections of the relay that were answered, and that were not, as counted last.
    far: [Far; 2],
}

/// Connections that wait until one called has answered a trial.
struct Held {
    family: Family,
    /// Their first packets, whole, with the marks that lead them to the relay.
    first: Vec<(Ends, Vec<u8>, u32)>,
    trial: Socket,
    until: Instant,
}

/// What becomes of a first packet that was held, or whose place a trial took.
pub(super) enum Sequel {
    /// It goes to the relay, with this mark.
    Lead(Ends, Vec<u8>, u32),
    /// It goes on, unsplit.
    Forward(Vec<u8>),
}

#[derive(Clone, Copy, Default)]
struct Far {
    answered: u64,
    silent: u64,
    /// Whether any has been answered since rules changed last.
    proven: bool,
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
        let sockets =
            TcpSockets::open().inspect_err(|error| tracing::debug!(%error, "the kernel has no sock_diag")).ok();
        Self {
            passage: Passage::default(),
            routes: Routes::open(),
            announcements,
            sockets,
            awaited: Vec::new(),
            held: Vec::new(),
            counts: File::open("/proc/net/snmp").ok(),
            next_port: TRIAL_PORTS.start,
            next_look: Instant::now(),
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
            Outcome::Unrouted => (false, self.passage.stopped(now, treatment, family, Cause::NoRoute)),
            // Believed, and tried again with the next packet.
            Outcome::Unknown => (true, Change::None),
        }
    }

    /// Whether a connection that begins may be split: whether what the relay will send to both ends would leave. `by` are the interfaces
    /// towards its opener and towards the one called, as far as they are known.
    pub fn try_split(&mut self, ends: Ends, sender: &Sender, (own, marks): (u32, Marks), by: [Option<u32>; 2]) -> bool {
        let (now, family) = (Instant::now(), family_of(ends.client));
        let answer = self.passage.ask(now, Treatment::Split, family, Way::In);
        if answer == Answer::Pass {
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
        let forwarded = 0;
        let mut outcome = Outcome::Left;
        for (route, flags, mark, by) in halves {
            if outcome != Outcome::Left || sender.set_mark(mark).is_err() {
                continue;
            }
            if let Some(packet) = trial::packet(route, flags) {
                outcome = trial::send(&mut self.routes, &trial::Way { sender, mark, by, forwarded }, route, &packet);
            }
        }
        let cause = match outcome {
            Outcome::Left | Outcome::Unknown => {
                self.passage.sent(now, Treatment::Split, family);
                return true;
            }
            Outcome::Stopped(cause) => cause,
            Outcome::Unrouted => Cause::NoRoute,
        };
        self.passage.stopped(now, Treatment::Split, family, cause);
        false
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

    /// Whether a trial has to show that redirected packets of this version of IP arrive, or that the far half is answered.
    pub fn wants_trial(&self, family: Family) -> bool {
        self.counts.is_some()
            && (!self.far[family as usize].proven
                || self.passage.ask(Instant::now(), Treatment::Split, family, Way::In) != Answer::Treat)
    }

    /// Segments with a wrong checksum that this machine's TCP has got so far.
    fn damaged(&self) -> Option<u64> {
        let mut text = vec![0; 1 << 14];
        let len = self.counts.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let place = lines.next()?.split(' ').position(|name| name == "InCsumErrors")?;
        lines.next()?.split(' ').nth(place)?.parse().ok()
    }

    /// Sends a packet that no socket takes through the redirection in the place of a first packet, by `redirect`, and sees whether it gets
    /// to this machine's TCP. Then the one called is tried, if it is not known to answer. The first packet itself goes on, one way
    /// or the other: at once, or from [`WayOut::watch`].
    pub fn try_redirection(
        &mut self,
        ends: Ends,
        (packet, mark): (Vec<u8>, u32),
        redirect: impl FnOnce(&[u8]),
        try_far: impl FnOnce(Ends) -> io::Result<Socket>,
    ) -> Option<Sequel> {
        let (now, family) = (Instant::now(), family_of(ends.client));
        let stranger = SocketAddr::new(ends.client.ip(), TRIAL_PORT);
        let Some(decoy) = trial::packet(between(stranger, ends.server), Flags::SYN) else {
            return Some(Sequel::Lead(ends, packet, mark));
        };
        let before = self.damaged();
        redirect(&decoy);
        // The verdict carries it all the way, unless another program's queue has it meanwhile.
        if before.is_some() && self.damaged() == before {
            self.passage.stopped(now, Treatment::Split, family, Cause::Input);
            return Some(Sequel::Forward(packet));
        }
        if self.far[family as usize].proven {
            self.passage.passed(now, Treatment::Split, family, Way::In);
            return Some(Sequel::Lead(ends, packet, mark));
        }
        let port = self.next_port;
        self.next_port = if port + 1 < TRIAL_PORTS.end { port + 1 } else { TRIAL_PORTS.start };
        let from = SocketAddr::new(ends.client.ip(), port);
        match try_far(Ends { client: from, ..ends }) {
            Ok(trial) => {
                self.held.push(Held { family, first: vec![(ends, packet, mark)], trial, until: now + ANSWER });
                None
            }
            // Not a word about rules: no port, no memory.
            Err(error) => {
                tracing::debug!(%error, "cannot try the far half of split connections");
                self.passage.passed(now, Treatment::Split, family, Way::In);
                Some(Sequel::Lead(ends, packet, mark))
            }
        }
    }

    /// What has come of the trials of far halves.
    fn answers(&mut self, now: Instant) -> Vec<Sequel> {
        let mut sequels = Vec::new();
        let over = |held: &mut Held| {
            // Refused is answered, too.
            let answered = held.trial.peer_addr().is_ok()
                || held
                    .trial
                    .take_error()
                    .ok()
                    .flatten()
                    .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            answered || now >= held.until
        };
        for held in self.held.extract_if(.., over).collect::<Vec<_>>() {
            let family = held.family;
            // The other end is told that it was nothing.
            let _ = held.trial.set_linger(Some(Duration::ZERO));
            if now < held.until {
                self.far[family as usize].proven = true;
                self.passage.passed(now, Treatment::Split, family, Way::In);
                sequels.extend(held.first.into_iter().map(|(ends, packet, mark)| Sequel::Lead(ends, packet, mark)));
            } else {
                self.passage.stopped(now, Treatment::Split, family, Cause::Silent);
                sequels.extend(held.first.into_iter().map(|(_, packet, _)| Sequel::Forward(packet)));
            }
        }
        sequels
    }

    /// Whether it is to be looked whether the next redirected packet of this version of IP arrives.
    pub fn follows(&self, family: Family) -> bool {
        let now = Instant::now();
        now >= self.next_look || self.passage.ask(now, Treatment::Split, family, Way::In) != Answer::Treat
    }

    /// Follows a first packet that was led to the relay: its socket is there as soon as netfilter has let it through.
    pub fn follow(&mut self, ends: Ends) {
        let now = Instant::now();
        self.next_look = now + LOOK;
        if !self.has_arrived(now, ends) && self.awaited.len() < MOST_AWAITED {
            self.awaited.push((now + ARRIVAL, ends, None));
        }
    }

    /// Follows a first packet that went to the relay by the loopback device: where that one is closed to it, as by strict reverse path
    /// filters, it goes on unsplit, which says nothing about others.
    pub fn follow_home(&mut self, ends: Ends, packet: Vec<u8>) {
        let now = Instant::now();
        if !self.has_arrived(now, ends) && self.awaited.len() < MOST_AWAITED {
            self.awaited.push((now + ARRIVAL, ends, Some(packet)));
        }
    }

    fn has_arrived(&mut self, now: Instant, ends: Ends) -> bool {
        let family = family_of(ends.client);
        // What cannot be seen is believed; connections that stay silent show it, too.
        match self.sockets.as_mut().map_or(Ok(true), |sockets| sockets.has(ends.server, ends.client)) {
            Ok(true) => {
                if self.passage.cause(Treatment::Split, family) != Some(Cause::Silent) {
                    self.passage.passed(now, Treatment::Split, family, Way::In);
                }
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::debug!(%error, "sock_diag does not answer");
                self.sockets = None;
                true
            }
        }
    }

    /// Takes note of a packet of the gateway's own that was sent, or was not.
    pub fn on_sent(&mut self, treatment: Treatment, packet: &[u8], outcome: Outcome) -> Change {
        let Some(family) = family(packet) else { return Change::None };
        let now = Instant::now();
        match outcome {
            Outcome::Left => {
                self.passage.routed(treatment, family);
                Change::None
            }
            Outcome::Stopped(cause) => self.passage.stopped(now, treatment, family, cause),
            Outcome::Unrouted => self.passage.unrouted(now, treatment, family),
            Outcome::Unknown => Change::None,
        }
    }

    /// Looks at what has come of redirected packets, of the relay's connections, and at announced changes. To be called at every beat.
    pub fn watch(&mut self, relay: Option<&SplitCounters>) -> Vec<Sequel> {
        let now = Instant::now();
        let mut sequels = self.answers(now);
        if self.announcements.as_ref().is_some_and(|rules| rules.take() == Ruleset::Changed) {
            self.passage.reconsider(now);
            self.far.iter_mut().for_each(|far| far.proven = false);
        }
        for (_, ends, packet) in self.awaited.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            if self.has_arrived(now, ends) {
                continue;
            }
            match packet {
                Some(packet) => sequels.push(Sequel::Forward(packet)),
                None => {
                    self.passage.stopped(now, Treatment::Split, family_of(ends.client), Cause::Input);
                }
            }
        }
        for family in Family::BOTH {
            if let Some(counters) = relay {
                self.look_at_far(now, family, counters.far(family));
            }
        }
        sequels
    }

    fn look_at_far(&mut self, now: Instant, family: Family, (answered, silent): (u64, u64)) {
        let far = &mut self.far[family as usize];
        if answered != far.answered {
            *far = Far { answered, silent, proven: true };
            if self.passage.cause(Treatment::Split, family) == Some(Cause::Silent) {
                self.passage.passed(now, Treatment::Split, family, Way::Back);
            }
        }
        let most = if far.proven { SILENT } else { SILENT_AT_FIRST };
        if silent - far.silent >= most {
            *far = Far { answered, silent, proven: false };
            self.passage.stopped(now, Treatment::Split, family, Cause::Silent);
        }
    }
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
