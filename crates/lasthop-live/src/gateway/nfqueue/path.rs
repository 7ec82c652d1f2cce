//! Routed packets: from the queue, back with verdicts, and out by raw sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use lasthop_proto::node::Port;
use lasthop_scenario::gateway::Gateway;

use super::message::{COPY_RANGE, Extent, Message, Queued, Shape, Verdicts};
use super::{Buffer, Queue, Received};
use crate::gateway::engine::{Injection, Verdict};
use crate::gateway::path::{Core, PacketPath};
use crate::gateway::raw::Sender;
use crate::gateway::snapshot::PacketCounters;

/// Batches taken before the loop looks after its other duties.
const BATCHES: usize = 8;
/// Bytes of verdicts after which they are sent before the batch is over: well within a socket's buffer.
const MOST_VERDICT_BYTES: usize = 96 << 10;
/// Payload of the pieces of a changed super-segment: they fit every link that takes IPv6.
const PIECE: usize = 1200;

/// The interfaces towards the lossy hops, by number.
#[derive(Debug)]
struct Interfaces {
    names: Vec<String>,
    indices: Vec<u32>,
}

impl Interfaces {
    fn new(gateway: &Gateway, queue: &Queue) -> Self {
        let mut names: Vec<String> = gateway.rules.iter().map(|rule| rule.interface.clone()).collect();
        names.sort();
        names.dedup();
        let mut interfaces = Self { names, indices: Vec::new() };
        interfaces.look_up(queue);
        interfaces
    }

    fn look_up(&mut self, queue: &Queue) {
        let index = |name: &String| rustix::net::netdevice::name_to_index(queue.as_fd(), name).ok();
        self.indices = self.names.iter().filter_map(index).collect();
    }

    /// The smallest of their MTUs; none while there are none.
    fn mtu(&self) -> Option<u16> {
        let mtu = |name| std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?.trim().parse::<u32>().ok();
        let least = self.names.iter().filter_map(mtu).min()?;
        Some(u16::try_from(least).unwrap_or(u16::MAX))
    }

    /// By which port of the engine a packet came in; none when no lossy hop is involved.
    fn port(&self, packet: &Queued<'_>) -> Option<Port> {
        if self.indices.contains(&packet.to) {
            Some(Port::WIRED)
        } else {
            self.indices.contains(&packet.from).then_some(Port::WIRELESS)
        }
    }
}

/// A queue and raw sockets.
pub(in crate::gateway) struct QueuePath {
    queue: Queue,
    sender: Sender,
    interfaces: Interfaces,
    buffer: Buffer,
    verdicts: Verdicts,
}

impl QueuePath {
    pub fn new(gateway: &Gateway, queue: Queue, sender: Sender, buffer: Buffer) -> Self {
        let interfaces = Interfaces::new(gateway, &queue);
        Self { interfaces, verdicts: Verdicts::new(queue.number()), queue, sender, buffer }
    }
}

impl PacketPath for QueuePath {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.queue.as_fd()]
    }

    fn take_packets(&mut self, core: &mut Core) -> io::Result<()> {
        for _ in 0..BATCHES {
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
                    let verdict = match self.interfaces.port(&packet) {
                        _ if packet.extent == Extent::Truncated => {
                            core.counters.truncated += 1;
                            Verdict::Accept
                        }
                        None => {
                            core.counters.strangers += 1;
                            Verdict::Accept
                        }
                        Some(port) => core.judge(port, packet.bytes, None),
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
        }
        Ok(())
    }

    fn inject(&mut self, core: &mut Core) {
        for injection in core.injections.drain(..) {
            match (self.sender.send(&injection.packet), injection.towards) {
                (Ok(()), Port::WIRELESS) => core.counters.injected_wireless += 1,
                (Ok(()), _) => core.counters.injected_wired += 1,
                (Err(error), _) => {
                    core.counters.injection_failures += 1;
                    tracing::debug!(%error, bytes = injection.packet.len(), "cannot send a packet");
                }
            }
        }
    }

    fn beat(&mut self) -> io::Result<()> {
        // The kernel lets packets pass when the queue is given up.
        Ok(())
    }

    fn look_up(&mut self, core: &mut Core) -> io::Result<()> {
        self.interfaces.look_up(&self.queue);
        if let Some(mtu) = self.interfaces.mtu() {
            core.engine.set_mtu(Port::WIRELESS, mtu);
        }
        Ok(())
    }

    fn reconfigure(&mut self, gateway: &Gateway) {
        self.interfaces = Interfaces::new(gateway, &self.queue);
    }

    fn finish(&mut self, core: &mut Core) -> io::Result<()> {
        self.take_packets(core)
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
                    core.injections.extend(pieces.map(|packet| Injection { towards: Port::WIRED, packet }));
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
