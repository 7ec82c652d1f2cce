//! Packet path of a bridge: takes TCP from it and returns it. It needs no IP address, route or firewall rule of the
//! machine.
//!
//! | module | contents |
//! |---|---|
//! | [`programs`] | BPF programs that take TCP from the bridge, and fail open |
//! | [`ports`] | state of the bridge from the kernel |
//! | [`links`] | Ethernet headers for packets that the gateway sends itself |
//! | [`check`] | checks of the machine |

pub mod check;
pub mod links;
pub mod ports;
pub mod programs;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use lasthop_daemon::bridge::{self, KernelError, Received, kernel};
use lasthop_daemon::interfaces;
use lasthop_proto::node::Port;
use lasthop_sys::bpf::{Hook, Link, Program};
use lasthop_sys::packet_socket::frame::{ETHERNET, LinkHeader, Offload, Outgoing};
use lasthop_sys::packet_socket::{Arrival, BATCH};
use lasthop_wire::{Route, parse, parse_datagram, pieces};

use self::links::LinkHeaders;
use self::ports::PortError;
use self::programs::{Maps, Protocols};
use crate::configuration::{Bridge, Gateway};
use crate::daemon::path::{BEAT, Core, PacketPath, Waiting};
use crate::daemon::snapshot::PacketCounters;
use crate::engine::{Injection, Offloaded, Verdict};

/// Maximum number of iterations at the end; packets that still wait are then lost.
const LAST_ROUNDS: usize = 100;

/// Reason why TCP cannot be taken from a bridge.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The ports are unsuitable.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The kernel refused the programs.
    #[error("cannot intercept TCP on the bridge: {0}")]
    Kernel(#[from] KernelError),
}

/// Two ports of a bridge.
pub(super) struct BridgePath {
    config: Bridge,
    /// Ports by number in the engine.
    ends: [bridge::Port; 2],
    maps: Maps,
    classifier: Program,
    /// Links of the classifier at all ports of the bridge, by interface index.
    attached: BTreeMap<u32, Link>,
    headers: LinkHeaders,
    state: State,
}

/// Forwarding state of the bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The bridge does not forward between the two ports, or was not checked yet. The gateway takes nothing.
    Closed,
    Open,
}

impl BridgePath {
    /// Prepares to take the packets of these protocols that pass between the two ports, starting with the first
    /// heartbeat. Remembers Ethernet headers of `flows` connections.
    ///
    /// # Errors
    ///
    /// Returns an error if they are not ports of one bridge, the kernel is too old, or permissions are missing.
    pub fn open(config: &Bridge, flows: u32, protocols: Protocols) -> Result<Self, BridgeError> {
        ports::bridge_of(config)?;
        let maps = Maps::new().map_err(kernel("BPF maps"))?;
        let classifier = maps.load_classifier().map_err(kernel("program for the ports"))?;
        let names = [&config.wired, &config.wireless];
        let [wired, wireless] =
            names.map(|name| interfaces::index(name).ok_or_else(|| PortError::Missing(name.clone())));
        let indices = [wired?, wireless?];
        let end = |at: usize| {
            let filter = maps.load_filter(indices[1 - at], protocols).map_err(kernel("socket filter"))?;
            Ok::<_, BridgeError>(bridge::Port::open(names[at], indices[at], &filter)?)
        };
        let ends = [end(0)?, end(1)?];
        let headers = LinkHeaders::new(2 * flows as usize);
        let config = config.clone();
        let mut path =
            Self { config, ends, maps, classifier, attached: BTreeMap::new(), headers, state: State::Closed };
        path.attach().map_err(kernel("tcx"))?;
        Ok(path)
    }

    /// Attaches the classifier to every port of the bridge that lacks it, so that a host that moves to another port is
    /// found.
    fn attach(&mut self) -> io::Result<()> {
        // The bridge may be changing. The two interfaces need no classifier meanwhile: nothing is taken.
        let Ok(bridge) = ports::bridge_of(&self.config) else { return Ok(()) };
        let now = ports::all(&bridge);
        self.attached.retain(|index, _| now.contains_key(index));
        for (&index, name) in &now {
            if self.attached.contains_key(&index) {
                continue;
            }
            match self.classifier.attach(index, Hook::Ingress) {
                Ok(link) => drop(self.attached.insert(index, link)),
                Err(error) if self.ends.iter().any(|end| end.index() == index) => return Err(error),
                // The port may have been removed.
                Err(error) => {
                    tracing::warn!(%error, port = name, "cannot attach to a bridge port; its hosts will go undetected")
                }
            }
        }
        Ok(())
    }

    /// Handles one batch of frames from `port`. Returns whether there may be more.
    fn take_batch(&mut self, port: Port, core: &mut Core) -> io::Result<bool> {
        let [wired, wireless] = &mut self.ends;
        let (from, to) = if port == Port::WIRED { (wired, wireless) } else { (wireless, wired) };
        let headers = &mut self.headers;
        let mut outgoing = Vec::with_capacity(BATCH);
        let received = from.receive(|arrival| pass(arrival, port, core, headers, &mut outgoing))?;
        core.counters.overflows += u64::from(received == Received::Discarded);
        core.counters.verdict_failures += to.send(&outgoing);
        Ok(received != Received::All)
    }
}

/// Returns the route of a packet, and the length of its headers.
fn front(packet: &[u8]) -> Option<(Route, usize)> {
    let of_tcp = parse(packet).map(|view| (view.route, view.header_len));
    of_tcp.or_else(|| parse_datagram(packet).map(|datagram| (datagram.route, datagram.header_len())))
}

/// Appends the frames that result from an arrival to `outgoing`.
fn pass<'b>(
    arrival: Arrival<'b>,
    port: Port,
    core: &mut Core,
    headers: &mut LinkHeaders,
    outgoing: &mut Vec<Outgoing<'b>>,
) {
    let Some(link) = LinkHeader::new(arrival.bytes, arrival.tag) else {
        core.counters.truncated += 1;
        return;
    };
    let packet = &arrival.bytes[ETHERNET..];
    let front = front(packet);
    if let Some((route, _)) = front {
        headers.note(route, link);
    }
    let size = arrival.offload.segment_size();
    let offloaded = Offloaded { size, checksum: arrival.offload.checksum() };
    match core.judge(port, packet, offloaded) {
        Verdict::Accept => {
            core.counters.accepted += 1;
            let header_len = front.map_or(0, |(_, header_len)| link.bytes().len() + header_len);
            let offload = arrival.offload.behind(link, header_len);
            outgoing.push(Outgoing { offload, link, packet: Cow::Borrowed(packet) });
        }
        Verdict::Drop => core.counters.dropped += 1,
        // Checksums of a replacement are computed.
        Verdict::Replace(bytes) => {
            core.counters.replaced += 1;
            let whole = |bytes| Outgoing { offload: Offload::default(), link, packet: Cow::Owned(bytes) };
            match (size, parse(&bytes)) {
                (Some(size), Some(view)) => {
                    outgoing.extend(pieces(&bytes, &view, size.get().into()).into_iter().map(whole));
                }
                _ => outgoing.push(whole(bytes)),
            }
        }
    }
}

impl PacketPath for BridgePath {
    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.ends[0].as_fd(), self.ends[1].as_fd()]
    }

    fn waiting(&self, ready: [bool; 2]) -> Waiting {
        // No notification covers most of the state that `look_up` checks.
        Waiting { packets: ready.contains(&true), changes: false }
    }

    fn take_packets(&mut self, core: &mut Core) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < BEAT {
            let mut more = false;
            for port in [Port::WIRED, Port::WIRELESS] {
                more |= self.take_batch(port, core)?;
                // After the received frames, so that an injected packet never precedes the packet that caused it.
                self.inject(core);
                core.heart.beat();
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn inject(&mut self, core: &mut Core) {
        let mut frames = [Vec::new(), Vec::new()];
        for Injection { towards, packet } in core.injections.drain(..) {
            let link = front(&packet).and_then(|(route, _)| self.headers.get(&route));
            match link {
                Some(link) => {
                    let frame = Outgoing { offload: Offload::default(), link, packet: Cow::Owned(packet) };
                    frames[usize::from(towards.0 & 1)].push(frame);
                }
                // No recent packet on this route.
                None => core.counters.injection_failures += 1,
            }
        }
        let PacketCounters { injected_wired, injected_wireless, injection_failures, .. } = &mut core.counters;
        for ((frames, end), injected) in frames.iter().zip(&self.ends).zip([injected_wired, injected_wireless]) {
            let refused = end.send(frames);
            *injected += frames.len() as u64 - refused;
            *injection_failures += refused;
        }
    }

    fn beat(&mut self) -> io::Result<()> {
        let state = if ports::are_open(&self.config) { State::Open } else { State::Closed };
        if state != self.state {
            self.state = state;
            let Bridge { wired, wireless } = &self.config;
            match state {
                State::Open => tracing::info!(wired, wireless, "treating TCP between these ports"),
                State::Closed => tracing::warn!(wired, wireless, "the bridge does not forward between these ports"),
            }
        }
        if state == State::Closed {
            return self.maps.heartbeat.rest();
        }
        if let Some(silence) = self.maps.heartbeat.beat()? {
            tracing::warn!(silence_ms = silence.as_millis() as u64, "the packet loop stalled; TCP passed untreated");
        }
        Ok(())
    }

    fn look_up(&mut self, core: &mut Core) -> io::Result<()> {
        for end in &self.ends {
            core.counters.overflows += u64::from(end.overruns()?);
        }
        if let Some(mtu) = interfaces::mtu(&self.config.wireless) {
            core.engine.set_mtu(Port::WIRELESS, mtu);
        }
        self.attach()
    }

    fn reconfigure(&mut self, _: &Gateway) -> io::Result<()> {
        // Ports only change with a restart.
        Ok(())
    }

    fn finish(&mut self, core: &mut Core) -> io::Result<()> {
        // From here on the bridge forwards new frames; those already taken must still be forwarded.
        self.maps.heartbeat.rest()?;
        for _ in 0..LAST_ROUNDS {
            let before = core.counters.towards_wireless + core.counters.from_wireless;
            self.take_packets(core)?;
            if core.counters.towards_wireless + core.counters.from_wireless == before {
                break;
            }
        }
        self.attached.clear();
        Ok(())
    }
}
