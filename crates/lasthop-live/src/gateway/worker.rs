//! The process that handles the packets: one thread, one queue, one engine. Its supervisor feeds it the configuration, and
//! kills it when it no longer beats.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lasthop_proto::node::Port;
use lasthop_scenario::gateway::Gateway;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::clock::Clock;
use crate::gateway::channel::{Channel, Incoming, Notice, Order};
use crate::gateway::engine::{Injection, Verdict};
use crate::gateway::links::Links;
use crate::gateway::nfqueue::message::{COPY_RANGE, Extent, Hook, Message, Queued, Shape, Verdicts};
use crate::gateway::nfqueue::{Buffer, Queue, Received, wait};
use crate::gateway::raw::Sender;
use crate::gateway::recording::engine::RecordedEngine;
use crate::gateway::recording::recorder::RecordTo;
use crate::gateway::relay::Relay;
use crate::gateway::settings;
use crate::gateway::snapshot::{PacketCounters, Snapshot};
use crate::gateway::split::{SplitError, SplitProxy};

/// How often the loop says that it gets on: five times within the shortest silence that the supervisor takes for death.
const BEAT: Duration = Duration::from_millis(20);
/// A snapshot goes every so many beats.
const ROUNDS_PER_SNAPSHOT: u32 = 25;
/// How long, in all, packets may wait at once for a socket that is full, and how often it is tried again.
const FULL: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of verdicts after which they are sent before the batch is over: well within a socket's buffer.
const MOST_VERDICT_BYTES: usize = 96 << 10;
/// How long the first configuration may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// As `nice` counts.
const PRIORITY: i32 = -10;
/// Payload of the pieces of a changed super-segment: they fit every link that takes IPv6.
const PIECE: usize = 1200;

/// Why a worker ends.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its configuration is bad.
    #[error(transparent)]
    Config(#[from] lasthop_scenario::Error),
    /// The supervisor sent none.
    #[error("no configuration came; this command is for the gateway's own use")]
    NoConfig,
    /// The queue cannot be had.
    #[error("cannot bind netfilter queue {queue}: {error}{}", hint(.error))]
    Queue {
        /// Its number.
        queue: u16,
        /// Why.
        error: io::Error,
    },
    /// No raw sockets.
    #[error("cannot open raw sockets: {0}; CAP_NET_RAW is needed")]
    Raw(io::Error),
    /// The relay does nothing.
    #[error("the relay of split connections hangs")]
    Relay,
    /// Connections cannot be split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Something else in the system.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => "; CAP_NET_ADMIN is needed",
        Some(libc::EBUSY) => "; another program has it: give another number as `queue`",
        Some(libc::EPROTONOSUPPORT | libc::EINVAL) => "; the kernel module nfnetlink_queue is needed",
        _ => "",
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> WorkerError {
    move |error| WorkerError::System { what, error }
}

/// Handles packets until the supervisor closes `channel`; what the engine decides is added to the end of the file `record`.
pub fn run(channel: OwnedFd, record: Option<RecordTo>) -> Result<(), WorkerError> {
    let mut channel = Channel::new(channel);
    let outcome = Worker::start(&mut channel, record).and_then(|mut worker| worker.work(&mut channel));
    if let Err(error) = &outcome {
        // It may be gone already.
        let _ = channel.send(&Notice::Failed { message: error.to_string() });
    }
    outcome
}

/// Keeps memory that is free for the next packets. What leaves the cache makes room for what comes: giving its pages back to the
/// kernel and taking them anew, page by page, would cost more time than all that is done to a packet.
fn keep_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// What a worker keeps, beyond what any cache holds.
        const KEPT: libc::c_int = libc::c_int::MAX;
        // SAFETY: sets parameters of the allocator, which takes them at any time.
        unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT) };
    }
}

/// Gives up all rights but those that the packet loop needs, for good.
fn drop_privileges() -> io::Result<()> {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    let has = rustix::thread::capabilities(None)?;
    let kept = has.permitted & needed;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// The names of the interfaces towards the lossy hops.
fn interfaces(gateway: &Gateway) -> Vec<String> {
    gateway.rules.iter().map(|rule| rule.interface.clone()).collect()
}

/// By which port of the engine a packet came in; none when no lossy hop is involved.
fn port(links: &Links, packet: &Queued<'_>) -> Option<Port> {
    if links.contains(packet.to) { Some(Port::WIRED) } else { links.contains(packet.from).then_some(Port::WIRELESS) }
}

/// Tells the supervisor that this process gets on with its work.
#[derive(Debug)]
struct Heart {
    next: Instant,
}

impl Heart {
    /// Beats if it is time.
    fn beat(&mut self, channel: &Channel) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + BEAT;
            // A supervisor that does not read has other worries than this beat.
            let _ = channel.send(&Notice::Beat);
        }
    }
}

struct Worker {
    heart: Heart,
    engine: RecordedEngine,
    relay: Option<Relay>,
    queue: Queue,
    sender: Sender,
    links: Links,
    buffer: Buffer,
    verdicts: Verdicts,
    injections: Vec<Injection>,
    counters: PacketCounters,
    clock: Clock,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Continue,
    End,
}

impl Worker {
    fn start(channel: &mut Channel, record: Option<RecordTo>) -> Result<Self, WorkerError> {
        // Whoever supervises is the only one who takes the rules out: the worker never outlives it, and leaves the signals
        // that a terminal sends to both to it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| system("cannot ask for the parent's death signal")(error.into()))?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
                .map_err(system("cannot handle signals"))?;
        }
        let (gateway, text) = first_configuration(channel)?;
        keep_memory();
        let sender = Sender::new(gateway.mark).map_err(WorkerError::Raw)?;
        let mut buffer = Buffer::default();
        let queue = Queue::bind(gateway.queue, &mut buffer)
            .map_err(|error| WorkerError::Queue { queue: gateway.queue, error })?;
        // Packets wait for this process; where it may not go before others, it works all the same.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        let split = settings::split(&gateway);
        let marks = split.as_ref().map(|split| split.marks.accepted);
        let proxy = split.map(SplitProxy::bind).transpose()?;
        let record = record.and_then(RecordTo::open);
        drop_privileges().map_err(system("cannot drop privileges"))?;
        let relay = proxy.zip(marks).map(|(proxy, mark)| Relay::start(proxy, mark));
        let relay = relay.transpose().map_err(system("cannot start a thread"))?;
        let seed = seed().map_err(system("/dev/urandom"))?;
        let recorder = record.and_then(|file| file.start(&text, seed));
        let mut worker = Self {
            heart: Heart { next: Instant::now() },
            engine: RecordedEngine::new(&gateway, seed, recorder),
            relay,
            links: Links::open().map_err(system("cannot listen for changes of interfaces"))?,
            verdicts: Verdicts::new(queue.number()),
            queue,
            sender,
            buffer,
            injections: Vec::new(),
            counters: PacketCounters::default(),
            clock: Clock::start(),
        };
        worker.links.follow(interfaces(&gateway)).map_err(system("cannot list interfaces"))?;
        worker.tell_mtu();
        Ok(worker)
    }

    fn tell_mtu(&mut self) {
        if let Some(mtu) = self.links.mtu() {
            self.engine.set_mtu(Port::WIRELESS, mtu);
        }
    }

    /// Interfaces come and go, and their MTUs change.
    fn read_links(&mut self) -> io::Result<()> {
        self.links.read()?;
        self.tell_mtu();
        Ok(())
    }

    fn work(&mut self, channel: &mut Channel) -> Result<(), WorkerError> {
        let _ = channel.send(&Notice::Configured);
        let mut next_round = Instant::now();
        let mut rounds = 0_u32;
        loop {
            let now = Instant::now();
            if now >= next_round {
                next_round = now + BEAT;
                if self.relay.as_mut().is_some_and(Relay::hangs) {
                    return Err(WorkerError::Relay);
                }
                rounds = rounds.wrapping_add(1);
                if rounds % ROUNDS_PER_SNAPSHOT == 1 {
                    let _ = channel.send(&Notice::Snapshot(Box::new(self.snapshot())));
                }
            }
            self.heart.beat(channel);
            let patience = next_round.saturating_duration_since(now);
            let patience = self.engine.poll_deadline().map_or(patience, |at| patience.min(self.clock.until(at)));
            let [orders, changes, packets] = [channel.as_fd(), self.links.as_fd(), self.queue.as_fd()];
            let mut fds = [orders, changes, packets].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            wait(&mut fds, patience).map_err(system("cannot wait for packets"))?;
            let [ordered, changed, queued] = fds.map(|fd| !fd.revents().is_empty());
            if changed {
                self.read_links().map_err(system("cannot read changes of interfaces"))?;
            }
            if queued {
                self.take_packets(channel).map_err(system("cannot read packets"))?;
            }
            if self.engine.poll_deadline().is_some_and(|at| at <= self.clock.now()) {
                self.engine.handle_timeout(self.clock.now(), &mut self.injections);
                self.inject(channel);
            }
            if ordered && self.obey(channel)? == Next::End {
                return self.take_packets(channel).map_err(system("cannot read packets"));
            }
        }
    }

    fn obey(&mut self, channel: &mut Channel) -> Result<Next, WorkerError> {
        match channel.receive::<Order>().map_err(system("cannot read from the supervisor"))? {
            Incoming::Nothing => Ok(Next::Continue),
            Incoming::End => Ok(Next::End),
            Incoming::Message(Order::Configure { file, text }) => {
                let gateway = Gateway::parse(&file, &text)?;
                self.links.follow(interfaces(&gateway)).map_err(system("cannot list interfaces"))?;
                self.tell_mtu();
                self.engine.reconfigure(self.clock.now(), &gateway, &text, &mut self.injections);
                Ok(self.carried_out(channel))
            }
            Incoming::Message(Order::Release) => {
                self.relay.iter_mut().for_each(Relay::close);
                self.engine.release(self.clock.now(), &mut self.injections);
                Ok(self.carried_out(channel))
            }
        }
    }

    fn carried_out(&mut self, channel: &Channel) -> Next {
        self.inject(channel);
        let _ = channel.send(&Notice::Configured);
        Next::Continue
    }

    /// Judges what waits, until the next beat is due.
    fn take_packets(&mut self, channel: &Channel) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < BEAT {
            let count = match self.queue.receive(&mut self.buffer)? {
                Received::Messages(count) => count,
                Received::Nothing => break,
                Received::Overflow => {
                    self.counters.overflows += 1;
                    continue;
                }
            };
            for index in 0..count {
                for message in self.buffer.messages(index) {
                    let packet = match message {
                        Message::Queued(packet) => packet,
                        Message::Answer { errno: 0, .. } | Message::Other => continue,
                        Message::Answer { .. } => {
                            self.counters.verdict_failures += 1;
                            continue;
                        }
                    };
                    if packet.hook == Hook::Prerouting {
                        // The beginning of a connection that a rule splits.
                        match self.relay.as_ref().and_then(Relay::mark) {
                            Some(mark) => self.verdicts.repeat(packet.id, packet.mark | mark),
                            None => self.verdicts.accept(packet.id),
                        }
                        continue;
                    }
                    let verdict = match port(&self.links, &packet) {
                        _ if packet.extent == Extent::Truncated => {
                            self.counters.truncated += 1;
                            Verdict::Accept
                        }
                        None => {
                            self.counters.strangers += 1;
                            Verdict::Accept
                        }
                        Some(port) => {
                            self.counters.count(port, packet.bytes.len());
                            let now = self.clock.now();
                            self.engine.handle_packet(now, port, packet.bytes, &mut self.injections)
                        }
                    };
                    judge(&packet, verdict, &mut self.verdicts, &mut self.counters, &mut self.injections);
                }
                if self.verdicts.len() > MOST_VERDICT_BYTES {
                    send(&self.queue, &mut self.verdicts, &mut self.counters);
                }
            }
            send(&self.queue, &mut self.verdicts, &mut self.counters);
            // After the verdicts: what is sent besides never overtakes what it was sent because of.
            self.inject(channel);
            self.heart.beat(channel);
        }
        Ok(())
    }

    /// Sends what waits to be sent. An MTU that has just become smaller may not be known yet: what is too long for it is cut
    /// again, once.
    fn inject(&mut self, channel: &Channel) {
        let mut refused = self.send_injections(channel);
        if refused.is_empty() {
            return;
        }
        if let Err(error) = self.read_links() {
            tracing::debug!(%error, "cannot read changes of interfaces");
        }
        let mtu = self.links.mtu().map_or(PIECE, usize::from);
        for Injection { towards, packet } in refused.drain(..) {
            let Some(view) = lasthop_wire::parse(&packet) else { continue };
            let most = mtu.saturating_sub(view.header_len);
            let pieces = lasthop_wire::pieces(&packet, &view, most).into_iter();
            self.injections.extend(pieces.map(|packet| Injection { towards, packet }));
        }
        self.counters.injection_failures += self.send_injections(channel).len() as u64;
    }

    /// Sends what waits to be sent; what is too long for its interface comes back.
    fn send_injections(&mut self, channel: &Channel) -> Vec<Injection> {
        let mut refused = Vec::new();
        let mut patience = FULL;
        for injection in self.injections.drain(..) {
            let mut sent = self.sender.send(&injection.packet);
            while matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) && !patience.is_zero() {
                std::thread::sleep(PAUSE);
                patience = patience.saturating_sub(PAUSE);
                sent = self.sender.send(&injection.packet);
            }
            match (sent, injection.towards) {
                (Ok(()), Port::WIRELESS) => self.counters.injected_wireless += 1,
                (Ok(()), _) => self.counters.injected_wired += 1,
                (Err(error), _) if error.raw_os_error() == Some(libc::EMSGSIZE) => refused.push(injection),
                (Err(error), _) => {
                    self.counters.injection_failures += 1;
                    tracing::debug!(%error, bytes = injection.packet.len(), "cannot send a packet");
                }
            }
            // A thousand timers may have come at once.
            self.heart.beat(channel);
        }
        refused
    }

    fn snapshot(&mut self) -> Snapshot {
        let (counters, arms) = (self.engine.counters(), self.engine.arms());
        let split = self.relay.as_ref().map(Relay::snapshot);
        Snapshot::new(self.counters, &counters, &arms, split)
    }
}

/// Writes down the verdict on a packet, and counts it.
fn judge(
    packet: &Queued<'_>,
    verdict: Verdict,
    verdicts: &mut Verdicts,
    counters: &mut PacketCounters,
    injections: &mut Vec<Injection>,
) {
    match verdict {
        Verdict::Accept => {
            counters.accepted += 1;
            verdicts.accept(packet.id);
        }
        Verdict::Drop => {
            counters.dropped += 1;
            verdicts.drop(packet.id);
        }
        Verdict::Replace(bytes) => {
            counters.replaced += 1;
            let fits = bytes.len() <= COPY_RANGE as usize;
            match (packet.shape, lasthop_wire::parse(&bytes)) {
                (Shape::Single, _) if fits => verdicts.replace(packet.id, &bytes),
                // The kernel would cut the new bytes by the old ones' sizes: they go out in pieces instead.
                (_, Some(view)) => {
                    verdicts.drop(packet.id);
                    let pieces = lasthop_wire::pieces(&bytes, &view, PIECE).into_iter();
                    injections.extend(pieces.map(|packet| Injection { towards: Port::WIRED, packet }));
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

impl PacketCounters {
    fn count(&mut self, port: Port, bytes: usize) {
        let (packets, sum) = match port {
            Port::WIRELESS => (&mut self.from_wireless, &mut self.from_wireless_bytes),
            _ => (&mut self.towards_wireless, &mut self.towards_wireless_bytes),
        };
        *packets += 1;
        *sum += bytes as u64;
    }
}

/// A number that nobody can guess.
fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn first_configuration(channel: &mut Channel) -> Result<(Gateway, String), WorkerError> {
    wait(&mut [PollFd::new(channel, PollFlags::IN)], PATIENCE).map_err(system("cannot wait for a configuration"))?;
    match channel.receive::<Order>() {
        Ok(Incoming::Message(Order::Configure { file, text })) => Ok((Gateway::parse(&file, &text)?, text)),
        _ => Err(WorkerError::NoConfig),
    }
}
