//! Routed packets: from the queue, back with verdicts, and out by raw sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use lasthop_proto::node::Port;
use lasthop_sys::links::Links;
use lasthop_sys::nfqueue::message::{COPY_RANGE, Extent, Hook, Message, Queued, Shape, Verdicts};
use lasthop_sys::nfqueue::{Buffer, Queue, Received};
use lasthop_sys::raw::Sender;

use crate::configuration::Gateway;
use crate::daemon::nat::{Source, Translator};
use crate::daemon::path::{BEAT, Core, PacketPath};
use crate::daemon::snapshot::PacketCounters;
use crate::engine::{Injection, LEAST_MTU, Offloaded, Verdict};

/// How long, in all, packets may wait at once for a socket that is full, and how often it is tried again.
const FULL: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of verdicts after which they are sent before the batch is over: well within a socket's buffer.
const MOST_VERDICT_BYTES: usize = 96 << 10;
/// Payload of the pieces of a changed super-segment: they fit every link that takes IPv6.
const PIECE: usize = 1200;

/// The names of the interfaces towards the lossy hops.
fn interfaces(gateway: &Gateway) -> Vec<String> {
    gateway.rules.iter().map(|rule| rule.interface.clone()).collect()
}

/// By which port of the engine a packet came in; none when no lossy hop is involved.
fn port(links: &Links, packet: &Queued<'_>) -> Option<Port> {
    if links.contains(packet.to) { Some(Port::WIRED) } else { links.contains(packet.from).then_some(Port::WIRELESS) }
}

/// Where packets go that the gateway sends by itself.
pub(super) struct Senders {
    /// To wherever their destination is.
    pub out: Sender,
    /// To the relay's sockets on this machine, whatever their destination says; none where there is no relay.
    pub home: Option<Sender>,
    /// To the relay's listeners; none where there is no relay.
    pub first: Option<FirstSender>,
}

/// Sends first packets of connections to the listener that their mark names.
pub(super) struct FirstSender {
    sender: Sender,
    mark: u32,
}

impl FirstSender {
    /// Past the gateway's own rules, by its `mark`.
    pub fn new(mark: u32) -> io::Result<Self> {
        Ok(Self { sender: Sender::new(mark)?, mark })
    }

    fn send(&self, packet: &[u8], listener: u32) -> io::Result<()> {
        self.sender.set_mark(self.mark | listener)?;
        self.sender.send(packet)
    }
}

/// Whose packets an engine treats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    /// Others', forwarded.
    Forwarded,
    /// The relay's own.
    Own,
}

/// A queue and raw sockets.
pub(super) struct QueuePath {
    queue: Queue,
    senders: Senders,
    translator: Translator,
    links: Links,
    buffer: Buffer,
    verdicts: Verdicts,
}

impl QueuePath {
    /// Fails when the kernel does not list its interfaces.
    pub fn new(gateway: &Gateway, queue: Queue, senders: Senders, buffer: Buffer) -> io::Result<Self> {
        let mut links = Links::open()?;
        links.follow(interfaces(gateway))?;
        let (translator, verdicts) = (Translator::open(), Verdicts::new(queue.number()));
        Ok(Self { queue, senders, translator, links, buffer, verdicts })
    }

    /// Sends what waits to be sent; what is too long for its interface comes back.
    fn send_injections(&mut self, whose: Whose, core: &mut Core) -> Vec<Injection> {
        let injections = waiting(whose, core).map(std::mem::take).unwrap_or_default();
        let Core { heart, counters, .. } = core;
        let mut refused = Vec::new();
        let mut patience = FULL;
        for mut injection in injections {
            // The relay knows its connections by the addresses that they have here.
            let home = self.senders.home.as_ref().filter(|_| whose == Whose::Own && injection.towards == Port::WIRED);
            let sender = home.unwrap_or(&self.senders.out);
            if home.is_none()
                && self.translator.translate(&mut injection.packet) == Source::Unknown
                && injection.towards == Port::WIRED
            {
                // An acknowledgment under a wrong address would be answered with a reset; the next one says the same.
                continue;
            }
            let mut sent = sender.send(&injection.packet);
            while matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) && !patience.is_zero() {
                std::thread::sleep(PAUSE);
                patience = patience.saturating_sub(PAUSE);
                sent = sender.send(&injection.packet);
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
            // A thousand timers may have come at once.
            heart.beat();
        }
        refused
    }
}

impl PacketPath for QueuePath {
    fn packets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.queue.as_fd()]
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.links.as_fd())
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
                        // The beginning of a connection that a rule splits.
                        if core.relay.as_ref().is_some_and(|relay| relay.crosses(&packet)) {
                            self.verdicts.drop(packet.id);
                            continue;
                        }
                        match core.relay.as_mut().and_then(|relay| relay.mark(&packet, &self.links)) {
                            Some(mark) => self.verdicts.repeat(packet.id, packet.mark | mark),
                            None => self.verdicts.accept(packet.id),
                        }
                        continue;
                    }
                    if leads_home(&self.senders, &self.links, &packet, core) {
                        self.verdicts.drop(packet.id);
                        continue;
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
                            match whose(&packet) {
                                Whose::Forwarded => core.judge(port, packet.bytes, offloaded),
                                Whose::Own => core.judge_own(port, packet.bytes, offloaded),
                            }
                        }
                    };
                    judge(&packet, verdict, &mut self.verdicts, core);
                }
                if self.verdicts.len() > MOST_VERDICT_BYTES {
                    send(&self.queue, &mut self.verdicts, &mut core.counters);
                }
            }
            send(&self.queue, &mut self.verdicts, &mut core.counters);
            // After the verdicts: what is sent besides never overtakes what it was sent because of.
            self.inject(core);
            core.heart.beat();
        }
        Ok(())
    }

    /// An MTU that has just become smaller may not be known yet: what is too long for it is cut again, once.
    fn inject(&mut self, core: &mut Core) {
        self.inject_of(Whose::Forwarded, core);
        self.inject_of(Whose::Own, core);
    }

    fn beat(&mut self) -> io::Result<()> {
        // The kernel lets packets pass when the queue is given up.
        Ok(())
    }

    fn look_up(&mut self, core: &mut Core) -> io::Result<()> {
        self.links.read()?;
        if let Some(mtu) = self.links.mtu() {
            core.set_mtu(mtu);
        }
        Ok(())
    }

    fn reconfigure(&mut self, gateway: &Gateway) -> io::Result<()> {
        self.links.follow(interfaces(gateway))
    }

    fn finish(&mut self, core: &mut Core) -> io::Result<()> {
        self.take_packets(core)
    }
}

impl QueuePath {
    fn inject_of(&mut self, whose: Whose, core: &mut Core) {
        let mut refused = self.send_injections(whose, core);
        if refused.is_empty() {
            return;
        }
        if let Err(error) = self.look_up(core) {
            tracing::debug!(%error, "cannot read changes of interfaces");
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
        core.counters.injection_failures += self.send_injections(whose, core).len() as u64;
    }
}

/// Whether a forwarded packet begins a connection that a port forward leads on and a rule splits: it has gone to the relay as it came in, and
/// ends here, before it counts as a tracked connection.
fn leads_home(senders: &Senders, links: &Links, packet: &Queued<'_>, core: &mut Core) -> bool {
    if packet.hook != Hook::Elsewhere || packet.extent != Extent::Whole {
        return false;
    }
    let (Some(relay), Some(first)) = (&mut core.relay, &senders.first) else { return false };
    let Some((came, mark)) = relay.reclaim(packet, links) else { return false };
    if let Err(error) = first.send(&came, mark) {
        // Its sender repeats it.
        core.counters.injection_failures += 1;
        tracing::debug!(%error, "cannot lead a connection to the relay");
    }
    true
}

/// Whose packet it is.
fn whose(packet: &Queued<'_>) -> Whose {
    match packet.hook {
        Hook::Local => Whose::Own,
        Hook::Prerouting | Hook::Elsewhere => Whose::Forwarded,
    }
}

/// What waits to be sent for them.
fn waiting(whose: Whose, core: &mut Core) -> Option<&mut Vec<Injection>> {
    match whose {
        Whose::Forwarded => Some(&mut core.injections),
        Whose::Own => core.beneath.as_mut().map(|beneath| &mut beneath.injections),
    }
}

/// Writes down the verdict on a packet, and counts it.
fn judge(packet: &Queued<'_>, verdict: Verdict, verdicts: &mut Verdicts, core: &mut Core) {
    match verdict {
        Verdict::Accept => {
            core.counters.accepted += 1;
            verdicts.accept(packet.id);
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
                // The kernel would cut the new bytes by the old ones' sizes: they go out in pieces instead.
                (_, Some(view)) => {
                    verdicts.drop(packet.id);
                    let pieces = lasthop_wire::pieces(&bytes, &view, PIECE).into_iter();
                    let pieces = pieces.map(|packet| Injection { towards: Port::WIRED, packet });
                    if let Some(waiting) = waiting(whose(packet), core) {
                        waiting.extend(pieces);
                    }
                }
                (_, None) => verdicts.accept(packet.id),
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
