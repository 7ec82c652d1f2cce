//! Packet path of routed packets: from the queue, back with verdicts, and out by raw sockets.

mod datagrams;
mod syns;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use lasthop_proto::node::Port;
use lasthop_sys::links::Links;
use lasthop_sys::nfqueue::message::{COPY_RANGE, Extent, Hook, Message, Queued, Shape, Verdicts};
use lasthop_sys::nfqueue::{Buffer, Queue, Received};
use lasthop_sys::raw::Sender;
use lasthop_wire::Checksum;

use self::datagrams::{is_datagram, let_go, treat_datagram, whole_datagram};
pub(super) use self::syns::FirstSender;
use self::syns::{first_at_home, go_on, is_queued_again, lead, leads_home, pass};
use crate::configuration::{Gateway, Mode};
use crate::daemon::held_datagrams::{HeldDatagrams, Kept};
use crate::daemon::nat::{Source, Translator};
use crate::daemon::parked::{Fate, Parked};
use crate::daemon::passage::{Answer, Change, Treatment, Untreated, Way};
use crate::daemon::path::{BEAT, Core, PacketPath, Waiting};
use crate::daemon::relay::Relay;
use crate::daemon::snapshot::PacketCounters;
use crate::daemon::trial::Outcome;
use crate::daemon::way_out::{self, Decoy, Sequel, WayOut};
use crate::engine::{Injection, LEAST_MTU, Offloaded, Verdict};
use crate::family::Family;
use crate::split::opening::Opening;

/// Total time per batch to wait for a full socket, and the interval of retries.
const FULL: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(1);
/// Size at which verdicts are sent before the end of the batch, in bytes: well within a socket's buffer.
const MOST_VERDICT_BYTES: usize = 96 << 10;
/// Payload of the pieces of a modified super-segment: they fit every link that supports IPv6.
const PIECE: usize = 1200;

/// Returns the names of the interfaces towards the lossy hops.
fn interfaces(gateway: &Gateway) -> Vec<String> {
    gateway.rules.iter().map(|rule| rule.interface.clone()).collect()
}

/// Returns the engine's port at which a packet arrived; `None` if it does not cross a lossy hop.
fn port(links: &Links, packet: &Queued<'_>) -> Option<Port> {
    if links.contains(packet.to) { Some(Port::WIRED) } else { links.contains(packet.from).then_some(Port::WIRELESS) }
}

/// Sockets for packets that the gateway sends itself.
pub(super) struct Senders {
    /// Sends to the packet's destination.
    pub out: Sender,
    /// Delivers to the relay's sockets on this machine, regardless of the destination; `None` without a relay.
    pub home: Option<Sender>,
    /// Delivers to the relay's listeners; `None` without a relay.
    pub first: Option<FirstSender>,
}

/// Origin of the packets that an engine treats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    /// Forwarded packets of other hosts.
    Forwarded,
    /// Packets of the relay.
    Own,
}

impl Whose {
    const fn treatment(self) -> Treatment {
        match self {
            Self::Forwarded => Treatment::Snoop,
            Self::Own => Treatment::Repair,
        }
    }
}

/// Packet path with a queue and raw sockets.
pub(super) struct QueuePath {
    queue: Queue,
    senders: Senders,
    translator: Translator,
    way_out: WayOut,
    parked: Parked,
    datagrams: HeldDatagrams,
    /// Indicates whether a rule makes the gateway send packets of its own on forwarded connections, and the mark of
    /// these packets.
    snoops: bool,
    mark: u32,
    links: Links,
    buffer: Buffer,
    verdicts: Verdicts,
}

impl QueuePath {
    /// Fails if the kernel does not list its interfaces.
    pub fn new(gateway: &Gateway, queue: Queue, senders: Senders, buffer: Buffer) -> io::Result<Self> {
        let mut links = Links::open()?;
        links.follow(interfaces(gateway))?;
        let (translator, verdicts) = (Translator::open(), Verdicts::new(queue.number()));
        let trial = gateway.trial.map(|span| Duration::from_nanos(span.as_nanos()));
        let (way_out, parked, snoops, mark) = (WayOut::open(trial), Parked::default(), snoops(gateway), gateway.mark);
        let datagrams = HeldDatagrams::default();
        Ok(Self { queue, senders, translator, way_out, parked, datagrams, snoops, mark, links, buffer, verdicts })
    }

    /// Sends waiting packets, and returns those that are too long for their interface.
    fn send_injections(&mut self, whose: Whose, core: &mut Core) -> (Vec<Injection>, Change) {
        let_go(&mut self.datagrams, &mut self.verdicts, core);
        let injections = waiting(whose, core).map(std::mem::take).unwrap_or_default();
        let Core { heart, counters, .. } = core;
        let (mut refused, mut change) = (Vec::new(), Change::None);
        let mut patience = FULL;
        for mut injection in injections {
            // Before translation of its source.
            let is_data = whose == Whose::Forwarded && injection.towards == Port::WIRELESS && !self.parked.is_empty();
            let route = is_data.then(|| lasthop_wire::parse(&injection.packet)).flatten();
            // The relay's connections have their untranslated addresses here.
            let home = self.senders.home.as_ref().filter(|_| whose == Whose::Own && injection.towards == Port::WIRED);
            let sender = home.unwrap_or(&self.senders.out);
            let treatment = treatment(whose, &injection.packet);
            if home.is_none()
                && treatment != Treatment::Quic
                && self.translator.translate(&mut injection.packet) == Source::Unknown
                && injection.towards == Port::WIRED
            {
                // An acknowledgment from a wrong address would cause a reset. The next one carries the same
                // information.
                continue;
            }
            let mut sent = sender.send(&injection.packet);
            while matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) && !patience.is_zero() {
                std::thread::sleep(PAUSE);
                patience = patience.saturating_sub(PAUSE);
                sent = sender.send(&injection.packet);
            }
            let outcome = Outcome::of(&sent);
            if self.way_out.on_sent(treatment, &injection.packet, outcome) == Change::Suspended {
                change = Change::Suspended;
            }
            if !self.parked.is_empty()
                && let Some(fate) = route.and_then(|view| self.parked.on_sent(&view, outcome == Outcome::Left))
            {
                match fate {
                    Fate::Drop(id) => self.verdicts.drop(id),
                    Fate::Accept(id) => {
                        counters.accepted += 1;
                        self.verdicts.accept_one(id);
                        continue;
                    }
                }
            }
            match (sent, injection.towards) {
                (Ok(()), Port::WIRELESS) => counters.injected_wireless += 1,
                (Ok(()), _) => counters.injected_wired += 1,
                (Err(error), _) if error.raw_os_error() == Some(libc::EMSGSIZE) => refused.push(injection),
                (Err(error), _) => {
                    counters.injection_failures += 1;
                    tracing::debug!(%error, bytes = injection.packet.len(), "cannot send a packet");
                }
            }
            // A thousand timers may have expired at once.
            heart.beat();
        }
        send(&self.queue, &mut self.verdicts, counters);
        (refused, change)
    }
}

impl PacketPath for QueuePath {
    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.queue.as_fd(), self.links.as_fd()]
    }

    fn waiting(&self, [packets, changes]: [bool; 2]) -> Waiting {
        Waiting { packets, changes }
    }

    fn take_packets(&mut self, core: &mut Core) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < BEAT {
            let count = match self.queue.receive(&mut self.buffer)? {
                Received::Messages(count) => count,
                Received::Nothing => break,
                Received::Overflow => {
                    core.counters.overflows += 1;
                    continue;
                }
            };
            for index in 0..count {
                for message in self.buffer.messages(index) {
                    let packet = match message {
                        Message::Queued(packet) => packet,
                        Message::Answer { errno: 0, .. } | Message::Other => continue,
                        Message::Answer { .. } => {
                            core.counters.verdict_failures += 1;
                            continue;
                        }
                    };
                    if packet.hook == Hook::Prerouting {
                        // SYN of a connection that a rule splits.
                        if core.relay.as_ref().is_some_and(|relay| relay.crosses(&packet)) {
                            self.verdicts.drop(packet.id);
                            continue;
                        }
                        match lead(&self.senders, &self.links, &mut self.way_out, &packet, core) {
                            Some((mark, ends)) if self.way_out.joins(ends, || (whole(&packet), packet.mark | mark)) => {
                                // The stored copy of the packet continues.
                                self.verdicts.drop(packet.id);
                            }
                            Some((_, ends)) if self.way_out.is_full(Family::of(ends.client.ip())) => {
                                if let Some((relay, opening)) = core.relay.as_ref().zip(Opening::read(packet.bytes)) {
                                    relay.give_up(opening);
                                }
                                pass(&mut self.verdicts, &packet, core);
                            }
                            Some((mark, ends)) if self.way_out.wants_trial(Family::of(ends.client.ip())) => {
                                let (id, mark) = (packet.id, packet.mark | mark);
                                let first = whole(&packet);
                                let Core { relay, counters, .. } = core;
                                let (verdicts, queue) = (&mut self.verdicts, &self.queue);
                                let deliver = relay.as_ref().map_or(0, |relay| relay.marks().deliver);
                                let redirect = |packet: &[u8], decoy| {
                                    let more = if decoy == Decoy::Later { deliver } else { 0 };
                                    verdicts.repeat_as(id, mark | more, packet);
                                    send(queue, verdicts, counters);
                                };
                                let far = |ends| match relay {
                                    Some(relay) => relay.try_far(ends),
                                    None => Err(io::ErrorKind::NotFound.into()),
                                };
                                let sequel = self.way_out.try_redirection(ends, (first, mark), redirect, far);
                                if let Some(sequel) = sequel {
                                    go_on(&self.senders, sequel, core, &mut self.way_out);
                                }
                            }
                            Some((mark, ends))
                                if !is_queued_again(&self.links, &packet, core) && self.way_out.follows() =>
                            {
                                // The verdict carries it to its socket, unless a chain drops it.
                                send(&self.queue, &mut self.verdicts, &mut core.counters);
                                self.verdicts.repeat(packet.id, packet.mark | mark);
                                let (verdicts, queue) = (&mut self.verdicts, &self.queue);
                                if self.way_out.is_lost(ends, || send(queue, verdicts, &mut core.counters)) {
                                    let sequel = Sequel::Forward(whole(&packet));
                                    go_on(&self.senders, sequel, core, &mut self.way_out);
                                }
                            }
                            Some((mark, _)) => self.verdicts.repeat(packet.id, packet.mark | mark),
                            None => pass(&mut self.verdicts, &packet, core),
                        }
                        continue;
                    }
                    if leads_home(&self.senders, &self.links, &mut self.way_out, &packet, core) {
                        self.verdicts.drop(packet.id);
                        continue;
                    }
                    let first = first_at_home(&self.links, &packet).filter(|_| self.way_out.follows());
                    if first.is_some() {
                        send(&self.queue, &mut self.verdicts, &mut core.counters);
                    }
                    let verdict = match port(&self.links, &packet) {
                        _ if packet.extent == Extent::Truncated => {
                            core.counters.truncated += 1;
                            Verdict::Accept
                        }
                        None => {
                            core.counters.strangers += 1;
                            Verdict::Accept
                        }
                        Some(port) => {
                            let offloaded = Offloaded { size: None, checksum: packet.checksum };
                            let parts = (&self.senders, &mut self.translator, &mut self.way_out);
                            match whose(&packet) {
                                _ if is_datagram(packet.bytes) => {
                                    treat_datagram(&self.way_out, port, &packet, offloaded, core)
                                }
                                whose if !may_treat(parts, (self.snoops, self.mark), (whose, port, &packet), core) => {
                                    Verdict::Accept
                                }
                                Whose::Forwarded => core.judge(port, packet.bytes, offloaded),
                                Whose::Own => core.judge_own(port, packet.bytes, offloaded),
                            }
                        }
                    };
                    if verdict == Verdict::Drop && is_datagram(packet.bytes) {
                        let now = Instant::now();
                        match self.datagrams.keep(now, packet.id, whole_datagram(&packet)) {
                            Kept::Waits => core.counters.dropped += 1,
                            Kept::Passes => {
                                core.counters.accepted += 1;
                                self.verdicts.accept_one(packet.id);
                            }
                        }
                        let_go(&mut self.datagrams, &mut self.verdicts, core);
                        continue;
                    }
                    let held = verdict == Verdict::Drop
                        && packet.hook == Hook::Elsewhere
                        && self.links.contains(packet.to)
                        && lasthop_wire::parse(packet.bytes)
                            .is_some_and(|view| self.parked.keep(Instant::now(), packet.id, &view));
                    if held {
                        core.counters.dropped += 1;
                    } else {
                        let waits = !self.parked.is_empty() || !self.datagrams.is_empty();
                        judge(&packet, verdict, (&mut self.verdicts, waits), core);
                    }
                    let_go(&mut self.datagrams, &mut self.verdicts, core);
                    if let Some(ends) = first {
                        let (verdicts, queue) = (&mut self.verdicts, &self.queue);
                        if self.way_out.is_lost(ends, || send(queue, verdicts, &mut core.counters)) {
                            go_on(&self.senders, Sequel::Forward(whole(&packet)), core, &mut self.way_out);
                        }
                    }
                }
                if self.verdicts.len() > MOST_VERDICT_BYTES {
                    send(&self.queue, &mut self.verdicts, &mut core.counters);
                }
            }
            send(&self.queue, &mut self.verdicts, &mut core.counters);
            // After the verdicts, so that an injected packet never precedes the packet that caused it.
            self.inject(core);
            core.heart.beat();
        }
        Ok(())
    }

    /// Sends the engines' packets. A reduced MTU may not be known yet: packets that are too long are split again, once.
    fn inject(&mut self, core: &mut Core) {
        self.inject_of(Whose::Forwarded, core);
        self.inject_of(Whose::Own, core);
    }

    fn beat(&mut self) -> io::Result<()> {
        // The kernel lets packets pass when the queue is closed.
        Ok(())
    }

    fn look_up(&mut self, core: &mut Core) -> io::Result<()> {
        self.links.read()?;
        if let Some(mtu) = self.links.mtu() {
            core.set_mtu(mtu);
        }
        Ok(())
    }

    fn watch(&mut self, core: &mut Core) {
        for sequel in self.way_out.watch(core.relay.as_ref().map(Relay::counters)) {
            go_on(&self.senders, sequel, core, &mut self.way_out);
        }
        for id in self.parked.expire(Instant::now()) {
            self.verdicts.drop(id);
        }
        for id in self.datagrams.expire(Instant::now()) {
            self.verdicts.accept_one(id);
        }
        send(&self.queue, &mut self.verdicts, &mut core.counters);
    }

    fn untreated(&self) -> (Vec<Untreated>, u64) {
        (self.way_out.passage.untreated(Instant::now()), self.way_out.passage.suspensions())
    }

    fn reconfigure(&mut self, gateway: &Gateway) -> io::Result<()> {
        self.snoops = snoops(gateway);
        self.links.follow(interfaces(gateway))
    }

    fn finish(&mut self, core: &mut Core) -> io::Result<()> {
        self.take_packets(core)
    }
}

impl QueuePath {
    fn inject_of(&mut self, whose: Whose, core: &mut Core) {
        let (mut refused, change) = self.send_injections(whose, core);
        if change == Change::Suspended {
            // Held packets go out now, or their senders retransmit them. No packet is held any more.
            core.forget(whose.treatment());
            let (more, _) = self.send_injections(whose, core);
            refused.extend(more);
        }
        if refused.is_empty() {
            return;
        }
        if let Err(error) = self.look_up(core) {
            tracing::debug!(%error, "cannot read interface changes");
        }
        let mtu = self.links.mtu().map_or(PIECE, usize::from).max(LEAST_MTU);
        for Injection { towards, packet } in refused.drain(..) {
            let Some(view) = lasthop_wire::parse(&packet) else { continue };
            let most = mtu.saturating_sub(view.header_len);
            let pieces = lasthop_wire::pieces(&packet, &view, most).into_iter();
            let pieces = pieces.map(|packet| Injection { towards, packet });
            if let Some(waiting) = waiting(whose, core) {
                waiting.extend(pieces);
            }
        }
        core.counters.injection_failures += self.send_injections(whose, core).0.len() as u64;
    }
}

/// Returns whether a rule makes the gateway send packets of its own on forwarded connections.
fn snoops(gateway: &Gateway) -> bool {
    gateway.rules.iter().any(|rule| matches!(rule.mode, Mode::Snoop(_)))
}

/// Returns whether a packet may be treated: the packets that the gateway would send because of it must leave the
/// machine.
fn may_treat(
    (senders, translator, way_out): (&Senders, &mut Translator, &mut WayOut),
    (snoops, mark): (bool, u32),
    (whose, port, packet): (Whose, Port, &Queued<'_>),
    core: &mut Core,
) -> bool {
    let Some(family) = way_out::family(packet.bytes).filter(|_| snoops || whose == Whose::Own) else { return true };
    let treatment = whose.treatment();
    let way = if port == Port::WIRED { Way::There } else { Way::Back };
    match way_out.passage.ask(Instant::now(), treatment, family, way) {
        Answer::Treat => true,
        Answer::Pass => false,
        Answer::Try => {
            let home = senders.home.as_ref().filter(|_| whose == Whose::Own).unwrap_or(&senders.out);
            let ways = match way {
                Way::There => way_out::ways(&senders.out, home, mark, (packet.to, packet.mark)),
                _ => way_out::ways(
                    home,
                    &senders.out,
                    mark,
                    (if whose == Whose::Own { 0 } else { packet.to }, packet.mark),
                ),
            };
            let (may, change) = way_out.try_own(treatment, (packet, way), ways, translator);
            if change == Change::Suspended {
                core.forget(treatment);
            }
            may
        }
    }
}

/// Returns a packet without trailing bytes, and with its checksum.
fn whole(packet: &Queued<'_>) -> Vec<u8> {
    let Some(view) = lasthop_wire::parse(packet.bytes) else { return packet.bytes.to_vec() };
    let mut bytes = packet.bytes[..view.total_len()].to_vec();
    if packet.checksum == Checksum::Pending {
        lasthop_wire::seal(&mut bytes, &view);
    }
    bytes
}

/// Returns the treatment whose packet the gateway sends.
fn treatment(whose: Whose, packet: &[u8]) -> Treatment {
    match whose {
        Whose::Forwarded if is_datagram(packet) => Treatment::Quic,
        Whose::Forwarded | Whose::Own => whose.treatment(),
    }
}

/// Returns the origin of a packet.
fn whose(packet: &Queued<'_>) -> Whose {
    match packet.hook {
        Hook::Local => Whose::Own,
        Hook::Prerouting | Hook::Elsewhere => Whose::Forwarded,
    }
}

/// Returns the packets that wait to be sent.
fn waiting(whose: Whose, core: &mut Core) -> Option<&mut Vec<Injection>> {
    match whose {
        Whose::Forwarded => Some(&mut core.injections),
        Whose::Own => core.beneath.as_mut().map(|beneath| &mut beneath.injections),
    }
}

/// Accepts a packet. While packets are held (`waits`), an individual verdict: one for a batch would include them.
fn accept(verdicts: &mut Verdicts, waits: bool, id: u32) {
    if waits { verdicts.accept_one(id) } else { verdicts.accept(id) }
}

/// Adds the verdict on a packet to the batch, and counts it.
fn judge(packet: &Queued<'_>, verdict: Verdict, (verdicts, waits): (&mut Verdicts, bool), core: &mut Core) {
    match verdict {
        Verdict::Accept => {
            core.counters.accepted += 1;
            accept(verdicts, waits, packet.id);
        }
        Verdict::Drop => {
            core.counters.dropped += 1;
            verdicts.drop(packet.id);
        }
        Verdict::Replace(bytes) => {
            core.counters.replaced += 1;
            let fits = bytes.len() <= COPY_RANGE as usize;
            match (packet.shape, lasthop_wire::parse(&bytes)) {
                (Shape::Single, _) if fits => verdicts.replace(packet.id, &bytes),
                // The kernel would segment the new bytes with the old segment size: they are sent in pieces instead.
                (_, Some(view)) => {
                    verdicts.drop(packet.id);
                    let pieces = lasthop_wire::pieces(&bytes, &view, PIECE).into_iter();
                    let pieces = pieces.map(|packet| Injection { towards: Port::WIRED, packet });
                    if let Some(waiting) = waiting(whose(packet), core) {
                        waiting.extend(pieces);
                    }
                }
                (_, None) => accept(verdicts, waits, packet.id),
            }
        }
    }
}

fn send(queue: &Queue, verdicts: &mut Verdicts, counters: &mut PacketCounters) {
    if let Err(error) = queue.send(verdicts) {
        counters.verdict_failures += 1;
        tracing::debug!(%error, "cannot send verdicts");
    }
}
