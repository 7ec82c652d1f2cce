//! Interface between the worker's loop and the packet paths.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lasthop_daemon::worker::Heart;
use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;
use lasthop_sys::clock::Clock;

use crate::configuration::Gateway;
use crate::daemon::passage::{Treatment, Untreated};
use crate::daemon::relay::{Gate, Relay};
use crate::daemon::snapshot::PacketCounters;
use crate::daemon::tape::Tape;
use crate::engine::recording::engine::RecordedEngine;
use crate::engine::rules::EngineConfig;
use crate::engine::{Engine, Injection, Offloaded, Verdict};
use crate::settings;

/// Interval of heartbeats: a fifth of the silence after which programs at a bridge's ports let packets pass.
pub(super) const BEAT: Duration = Duration::from_millis(20);

/// State shared by the loop and all packet paths.
pub(super) struct Core {
    pub heart: Heart,
    pub engine: RecordedEngine,
    /// Engine that repairs the relay's own connections over the hop, if a rule enables it.
    pub beneath: Option<Beneath>,
    /// Relay for connections that a rule splits.
    pub relay: Option<Relay>,
    /// Packets that the engine wants to send.
    pub injections: Vec<Injection>,
    pub counters: PacketCounters,
    pub clock: Clock,
    /// Record of packets that cross the hop, if enabled.
    pub tape: Option<Tape>,
    /// Current configuration and its text.
    configured: (Gateway, String),
}

/// Engine between the relay's sockets and the hop. The wired end of its connections is this machine.
pub(super) struct Beneath {
    pub engine: Engine,
    /// Packets that the engine wants to send.
    pub injections: Vec<Injection>,
}

impl Beneath {
    pub fn new(config: EngineConfig, seed: u64) -> Self {
        Self { engine: Engine::new(config, seed), injections: Vec::new() }
    }
}

impl Core {
    pub fn new(
        heart: Heart,
        engine: RecordedEngine,
        beneath: Option<Beneath>,
        relay: Option<Relay>,
        tape: Option<Tape>,
        configured: (Gateway, String),
    ) -> Self {
        let (injections, counters) = (Vec::new(), PacketCounters::default());
        Self { heart, engine, beneath, relay, injections, counters, clock: Clock::start(), tape, configured }
    }

    /// Returns the verdict on a packet that arrived at `port`.
    pub fn judge(&mut self, port: Port, packet: &[u8], offloaded: Offloaded) -> Verdict {
        self.counters.count(port, packet.len());
        let now = self.clock.now();
        let verdict = self.engine.handle_packet(now, port, packet, offloaded, &mut self.injections);
        // Treated connections are excluded: their local repairs would look like the sender's retransmissions.
        if let Some(tape) = self.tape.as_mut().filter(|_| self.engine.leaves_alone()) {
            tape.put(now, packet);
        }
        verdict
    }

    /// Returns the verdict on a packet between the relay and the hop.
    pub fn judge_own(&mut self, port: Port, packet: &[u8], offloaded: Offloaded) -> Verdict {
        self.counters.count(port, packet.len());
        let now = self.clock.now();
        match &mut self.beneath {
            Some(Beneath { engine, injections }) => engine.handle_packet(now, port, packet, offloaded, injections),
            None => Verdict::Accept,
        }
    }

    /// Returns the time at which [`Core::handle_timeout`] is due.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let beneath = self.beneath.as_ref().and_then(|beneath| beneath.engine.poll_deadline());
        [self.engine.poll_deadline(), beneath].into_iter().flatten().min()
    }

    /// Acts on the deadlines of the engines that have passed.
    pub fn handle_timeout(&mut self) {
        let now = self.clock.now();
        self.engine.handle_timeout(now, &mut self.injections);
        if let Some(Beneath { engine, injections }) = &mut self.beneath {
            engine.handle_timeout(now, injections);
        }
    }

    /// Applies another configuration.
    pub fn reconfigure(&mut self, gateway: &Gateway, text: &str) {
        self.relay.iter_mut().for_each(|relay| relay.reconfigure(gateway));
        let now = self.clock.now();
        self.engine.reconfigure(now, gateway, text, &mut self.injections);
        if let Some((Beneath { engine, injections }, config)) = self.beneath.as_mut().zip(settings::beneath(gateway)) {
            engine.reconfigure(now, config, injections);
        }
        self.configured = (gateway.clone(), text.to_owned());
    }

    /// Removes the connections of an engine whose treatment is suspended. Packets held back are to be sent.
    pub fn forget(&mut self, treatment: Treatment) {
        let now = self.clock.now();
        let (gateway, text) = &self.configured;
        match treatment {
            Treatment::Snoop | Treatment::Quic => {
                self.engine.release(now, &mut self.injections);
                self.engine.reconfigure(now, gateway, text, &mut self.injections);
            }
            Treatment::Repair => {
                if let Some((Beneath { engine, injections }, config)) =
                    self.beneath.as_mut().zip(settings::beneath(gateway))
                {
                    engine.reconfigure(now, EngineConfig::new(Vec::new()), injections);
                    engine.reconfigure(now, config, injections);
                }
            }
            // The relay's connections continue; new ones pass.
            Treatment::Split => {}
        }
    }

    /// Stops treatment: packets held back are to be sent, and no new connection is split.
    pub fn release(&mut self) {
        self.relay.iter_mut().for_each(|relay| relay.set_gate(Gate::Closed));
        let now = self.clock.now();
        self.engine.release(now, &mut self.injections);
        if let Some(Beneath { engine, injections }) = &mut self.beneath {
            engine.reconfigure(now, EngineConfig::new(Vec::new()), injections);
        }
    }

    /// Sets the size of the largest packet that can leave over the hops.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.engine.set_mtu(Port::WIRELESS, mtu);
        if let Some(beneath) = &mut self.beneath {
            beneath.engine.set_mtu(Port::WIRELESS, mtu);
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

/// Input that waits for a packet path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Waiting {
    /// True if packets arrived.
    pub packets: bool,
    /// True if interfaces changed: [`PacketPath::look_up`] is due.
    pub changes: bool,
}

/// Packet path: receives and sends packets.
pub(super) trait PacketPath {
    /// Returns the descriptors to wait on.
    fn descriptors(&self) -> [BorrowedFd<'_>; 2];

    /// Returns the input that waits if these of the descriptors are ready.
    fn waiting(&self, ready: [bool; 2]) -> Waiting;

    /// Handles waiting packets until the next beat is due, and sends the engine's packets.
    fn take_packets(&mut self, core: &mut Core) -> io::Result<()>;

    /// Sends the engine's packets.
    fn inject(&mut self, core: &mut Core);

    /// Signals that the loop is running to the component that otherwise lets packets pass.
    fn beat(&mut self) -> io::Result<()>;

    /// Updates the state of the interfaces, which may appear, disappear, or change their MTUs.
    fn look_up(&mut self, core: &mut Core) -> io::Result<()>;

    /// Applies another configuration, which differs only in settings that do not need a restart.
    /// [`PacketPath::look_up`] must follow.
    fn reconfigure(&mut self, gateway: &Gateway) -> io::Result<()>;

    /// Checks whether sent packets still leave the machine. Must be called at every heartbeat.
    fn watch(&mut self, _: &mut Core) {}

    /// Returns the suspended treatments, and the number of suspensions so far.
    fn untreated(&self) -> (Vec<Untreated>, u64) {
        (Vec::new(), 0)
    }

    /// Handles the last packets; later ones bypass the gateway.
    fn finish(&mut self, core: &mut Core) -> io::Result<()>;
}
