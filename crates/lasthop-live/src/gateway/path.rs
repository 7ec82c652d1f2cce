//! The seam between the worker's loop and the ways in which packets come to it and leave it.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;

use lasthop_proto::node::Port;
use lasthop_scenario::gateway::Gateway;

use crate::clock::Clock;
use crate::gateway::engine::{Engine, Injection, Verdict};
use crate::gateway::snapshot::PacketCounters;

/// What the loop and every packet path work with.
pub(super) struct Core {
    pub engine: Engine,
    /// What the engine wants to be sent.
    pub injections: Vec<Injection>,
    pub counters: PacketCounters,
    pub clock: Clock,
}

impl Core {
    pub fn new(engine: Engine) -> Self {
        Self { engine, injections: Vec::new(), counters: PacketCounters::default(), clock: Clock::start() }
    }

    /// What becomes of a packet that came in at `port`; `size` is the payload of each segment in it, where that is known.
    pub fn judge(&mut self, port: Port, packet: &[u8], size: Option<NonZeroU16>) -> Verdict {
        self.counters.count(port, packet.len());
        let now = self.clock.now();
        match size {
            Some(size) => self.engine.handle_super_segment(now, port, packet, size, &mut self.injections),
            None => self.engine.handle_packet(now, port, packet, &mut self.injections),
        }
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

/// A way in which packets come and leave.
pub(super) trait PacketPath {
    /// Where packets are waited for.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Handles the packets that wait, for some milliseconds at most, and sends what the engine wants besides.
    fn take_packets(&mut self, core: &mut Core) -> io::Result<()>;

    /// Sends what the engine wants to be sent.
    fn inject(&mut self, core: &mut Core);

    /// Says to whoever lets packets pass in the other case that the loop turns.
    fn beat(&mut self) -> io::Result<()>;

    /// Sees what has become of the interfaces: they come and go, and their MTUs change.
    fn look_up(&mut self, core: &mut Core) -> io::Result<()>;

    /// Takes another configuration, which differs in nothing that only a start can change.
    fn reconfigure(&mut self, gateway: &Gateway);

    /// Handles the last packets; all that come after them pass by.
    fn finish(&mut self, core: &mut Core) -> io::Result<()>;
}
