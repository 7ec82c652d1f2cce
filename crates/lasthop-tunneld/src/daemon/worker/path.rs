//! Packet paths of the worker's loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lasthop_proto::time::Instant;
use lasthop_sys::clock::BootClock;
use lasthop_tunnel::Origin;

use super::WorkerError;
use crate::bridge::Bridge;
use crate::device::{Device, Reader, Writer};
use crate::engine::Engine;
use crate::plan::{HopInterface, Own, Plan, Routed, Way};
use crate::socket::Inbox;
use crate::sockets::Sockets;

/// Number of datagrams after which frames are sent, because feedback covers 128; and number of packets after which they
/// are sent, because a burst of super-segments is longer than the queue.
const STRIDE: usize = 64;
/// Maximum number of packets to read from the device before the socket gets its turn.
const PACKETS: usize = 1_024;
/// Maximum number of frames to read on a bridge before datagrams get their turn; each needs one read.
const FRAMES: usize = 256;
/// Maximum number of batches of datagrams before frames get their turn.
const BATCHES: usize = 8;

/// Packet path: receives and sends packets.
pub(super) trait PacketPath {
    /// Returns the descriptors to wait on for packets of the inner network, and for datagrams.
    fn descriptors(&self) -> [BorrowedFd<'_>; 2];

    /// Passes waiting datagrams to the engine.
    fn take_datagrams(&mut self, engine: &mut Engine, clock: BootClock) -> io::Result<()>;

    /// Passes waiting packets of the inner network to the engine.
    fn take_packets(&mut self, engine: &mut Engine, clock: BootClock) -> io::Result<()>;

    /// Sends the engine's packets and datagrams.
    fn give(&mut self, engine: &mut Engine, now: Instant);

    /// Signals to the programs that redirect packets whether the loop runs and takes them.
    fn beat(&mut self, engine: &Engine) -> io::Result<()>;

    /// Checks the state of the interfaces.
    fn look_up(&mut self, engine: &mut Engine, now: Instant) -> io::Result<()>;

    /// Restores addresses and routes that the device lost, and the port of a bridge.
    fn look_after(&mut self);

    /// Applies another plan, or fails without effect.
    fn reconfigure(&mut self, plan: &Plan) -> Result<(), String>;

    /// Returns the number of packets and datagrams that the system refused.
    fn unsent(&self) -> u64;
}

/// Opens the resources of a plan, or fails without effect. `entropy` must come from the operating system.
pub(super) fn open(plan: &Plan, entropy: u32) -> Result<Box<dyn PacketPath>, WorkerError> {
    match &plan.way {
        Way::Routed(routed) => {
            let interface = match &plan.own {
                Own::Key(_) => None,
                Own::Name { interface, .. } => Some(interface.as_str()),
            };
            let listen = |error| WorkerError::Listen { address: routed.listen, error };
            let sockets = Sockets::open(routed.listen, interface, &plan.interfaces).map_err(listen)?;
            let device = Device::open(&plan.device, routed)?;
            let (inbox, reader, writer) = (Inbox::default(), Reader::default(), Writer::new(&device));
            Ok(Box::new(RoutedPath { sockets, device, inbox, reader, writer }))
        }
        Way::Bridged(hop) => {
            let silence = plan.peers.iter().map(|peer| Duration::from_nanos(peer.silence)).min().unwrap_or_default();
            Ok(Box::new(BridgedPath(Bridge::open(&plan.device, (hop, &plan.interfaces), silence, entropy)?)))
        }
    }
}

/// Updates the plan with the current state of interfaces, which may have changed since it was made.
pub(super) fn refresh(plan: &mut Plan) -> Result<(), WorkerError> {
    if let Way::Bridged(hop) = &mut plan.way {
        *hop = HopInterface::find(&hop.name).map_err(crate::bridge::BridgeError::Interface)?;
    }
    Ok(())
}

/// TUN device and UDP sockets.
struct RoutedPath {
    sockets: Sockets,
    device: Device,
    inbox: Inbox,
    reader: Reader,
    writer: Writer,
}

impl PacketPath for RoutedPath {
    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.device.as_fd(), self.sockets.descriptor()]
    }

    fn take_datagrams(&mut self, engine: &mut Engine, clock: BootClock) -> io::Result<()> {
        let Self { sockets, device, inbox, writer, .. } = self;
        let (mut taken, mut now) = (0, clock.now());
        for socket in sockets.ids() {
            sockets.fill(inbox, socket)?;
            inbox.for_each(|datagram| {
                let from = Origin { address: datagram.from, socket };
                engine.handle_datagram(now, from, datagram.to, datagram.ecn, datagram.bytes);
                taken += 1;
                if taken % STRIDE == 0 {
                    now = clock.now();
                    engine.send(now, sockets);
                    while engine.poll_packet(|packet| writer.put(device, packet)) {}
                }
            });
        }
        // Before packets from the device get their turn, which takes longer.
        write_all(engine, device, writer);
        Ok(())
    }

    fn take_packets(&mut self, engine: &mut Engine, clock: BootClock) -> io::Result<()> {
        let Self { sockets, device, reader, .. } = self;
        let (mut taken, mut sent) = (0, 0);
        while taken < PACKETS {
            let now = clock.now();
            let count = reader.read(device, |packet| engine.handle_packet(now, packet))?;
            if count == 0 {
                break;
            }
            taken += count;
            if taken - sent >= STRIDE {
                engine.send(now, sockets);
                sent = taken;
            }
        }
        Ok(())
    }

    fn give(&mut self, engine: &mut Engine, now: Instant) {
        let Self { sockets, device, writer, .. } = self;
        engine.send(now, sockets);
        sockets.flush(|to, size| engine.too_big(now, to, size));
        write_all(engine, device, writer);
    }

    fn beat(&mut self, _: &Engine) -> io::Result<()> {
        Ok(())
    }

    fn look_up(&mut self, _: &mut Engine, _: Instant) -> io::Result<()> {
        self.sockets.look_up();
        Ok(())
    }

    fn look_after(&mut self) {
        if let Err(error) = self.device.look_after() {
            tracing::error!(%error, "the device was down; some of its addresses or routes could not be restored");
        }
    }

    fn reconfigure(&mut self, plan: &Plan) -> Result<(), String> {
        match &plan.way {
            Way::Routed(Routed { routes, .. }) => self.device.route(routes).map_err(|error| error.to_string()),
            Way::Bridged(_) => Ok(()),
        }
    }

    fn unsent(&self) -> u64 {
        self.sockets.unsent() + self.writer.refused
    }
}

/// Writes all packets for the device.
fn write_all(engine: &mut Engine, device: &Device, writer: &mut Writer) {
    while engine.poll_packet(|packet| writer.put(device, packet)) {}
    writer.flush(device);
}

/// Frames that leave by the interface towards the hop.
struct BridgedPath(Bridge);

impl PacketPath for BridgedPath {
    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.0.device(), self.0.socket()]
    }

    fn take_datagrams(&mut self, engine: &mut Engine, clock: BootClock) -> io::Result<()> {
        for _ in 0..BATCHES {
            let now = clock.now();
            let more = self.0.take_datagrams(now, engine)?;
            self.0.give(now, engine);
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn take_packets(&mut self, engine: &mut Engine, clock: BootClock) -> io::Result<()> {
        let now = clock.now();
        for _ in 0..FRAMES {
            if !self.0.take_frame(now, engine)? {
                break;
            }
        }
        Ok(())
    }

    fn give(&mut self, engine: &mut Engine, now: Instant) {
        self.0.give(now, engine);
    }

    fn beat(&mut self, engine: &Engine) -> io::Result<()> {
        self.0.beat(engine.takes())
    }

    fn look_up(&mut self, engine: &mut Engine, now: Instant) -> io::Result<()> {
        self.0.look_up(now, engine)
    }

    fn look_after(&mut self) {
        self.0.look_after_port();
    }

    fn reconfigure(&mut self, _: &Plan) -> Result<(), String> {
        // The interface only changes with a restart.
        Ok(())
    }

    fn unsent(&self) -> u64 {
        self.0.unsent()
    }
}
