//! The seam between the worker's loop and the ways in which packets come to it and leave it.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{self, Duration};

use lasthop_daemon::channel::Speaker;
use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;
use lasthop_sys::clock::Clock;

use crate::configuration::Gateway;
use crate::daemon::order::Notice;
use crate::daemon::passage::{Treatment, Untreated};
use crate::daemon::relay::{Gate, Relay};
use crate::daemon::snapshot::PacketCounters;
use crate::daemon::tape::Tape;
use crate::engine::recording::engine::RecordedEngine;
use crate::engine::rules::EngineConfig;
use crate::engine::{Engine, Injection, Offloaded, Verdict};
use crate::settings;

/// How often the loop says that it gets on: five times within the shortest silence that the supervisor takes for death.
pub(super) const BEAT: Duration = Duration::from_millis(20);

/// Tells the supervisor that this process gets on with its work.
#[derive(Debug)]
pub(super) struct Heart {
    next: time::Instant,
    speaker: Speaker,
}

impl Heart {
    pub fn new(speaker: Speaker) -> Self {
        Self { next: time::Instant::now(), speaker }
    }

    /// Beats if it is time.
    pub fn beat(&mut self) {
        let now = time::Instant::now();
        if now >= self.next {
            self.next = now + BEAT;
            // A supervisor that does not read has other worries than this beat.
            let _ = self.speaker.send(&Notice::Beat);
        }
    }
}

/// What the loop and every packet path work with.
pub(super) struct Core {
    pub heart: Heart,
    pub engine: RecordedEngine,
    /// What repairs the relay's own connections over the hop, if a rule wants it.
    pub beneath: Option<Beneath>,
    /// To which connections go that a rule splits.
    pub relay: Option<Relay>,
    /// What the engine wants to be sent.
    pub injections: Vec<Injection>,
    pub counters: PacketCounters,
    pub clock: Clock,
    /// What crosses the hop, if that is wanted.
    pub tape: Option<Tape>,
    /// The configuration in force, and its text.
    configured: (Gateway, String),
}

/// An engine between the relay's sockets and the hop. The wired end of its connections is this machine.
pub(super) struct Beneath {
    pub engine: Engine,
    /// What it wants to be sent.
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

    /// What becomes of a packet that came in at `port`.
    pub fn judge(&mut self, port: Port, packet: &[u8], offloaded: Offloaded) -> Verdict {
        self.counters.count(port, packet.len());
        let now = self.clock.now();
        let verdict = self.engine.handle_packet(now, port, packet, offloaded, &mut self.injections);
        // Local repairs would be taken for the sender's.
        if let Some(tape) = self.tape.as_mut().filter(|_| self.engine.leaves_alone()) {
            tape.put(now, packet);
        }
        verdict
    }

    /// What becomes of a packet between the relay and the hop.
    pub fn judge_own(&mut self, port: Port, packet: &[u8], offloaded: Offloaded) -> Verdict {
        self.counters.count(port, packet.len());
        let now = self.clock.now();
        match &mut self.beneath {
            Some(Beneath { engine, injections }) => engine.handle_packet(now, port, packet, offloaded, injections),
            None => Verdict::Accept,
        }
    }

    /// When [`Core::handle_timeout`] is due.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let beneath = self.beneath.as_ref().and_then(|beneath| beneath.engine.poll_deadline());
        [self.engine.poll_deadline(), beneath].into_iter().flatten().min()
    }

    /// Acts on whatever deadline of an engine has come.
    pub fn handle_timeout(&mut self) {
        let now = self.clock.now();
        self.engine.handle_timeout(now, &mut self.injections);
        if let Some(Beneath { engine, injections }) = &mut self.beneath {
            engine.handle_timeout(now, injections);
        }
    }

    /// Treats packets by another configuration.
    pub fn reconfigure(&mut self, gateway: &Gateway, text: &str) {
        self.relay.iter_mut().for_each(|relay| relay.reconfigure(gateway));
        let now = self.clock.now();
        self.engine.reconfigure(now, gateway, text, &mut self.injections);
        if let Some((Beneath { engine, injections }, config)) = self.beneath.as_mut().zip(settings::beneath(gateway)) {
            engine.reconfigure(now, config, injections);
        }
        self.configured = (gateway.clone(), text.to_owned());
    }

    /// Forgets the connections of an engine, whose treatment is suspended; what is held back of them is to be sent.
    pub fn forget(&mut self, treatment: Treatment) {
        let now = self.clock.now();
        let (gateway, text) = &self.configured;
        match treatment {
            Treatment::Snoop => {
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
            // The relay's connections go on; new ones pass.
            Treatment::Split => {}
        }
    }

    /// Treats nothing from now on: what is held back is sent, and no new connection split.
    pub fn release(&mut self) {
        self.relay.iter_mut().for_each(|relay| relay.set_gate(Gate::Closed));
        let now = self.clock.now();
        self.engine.release(now, &mut self.injections);
        if let Some(Beneath { engine, injections }) = &mut self.beneath {
            engine.reconfigure(now, EngineConfig::new(Vec::new()), injections);
        }
    }

    /// The largest packet that leaves over the hops.
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

/// A way in which packets come and leave.
pub(super) trait PacketPath {
    /// Where packets are waited for.
    fn packets(&self) -> Vec<BorrowedFd<'_>>;

    /// Where changes of the interfaces are told, if they are: then they are looked up at once.
    fn changes(&self) -> Option<BorrowedFd<'_>>;

    /// Handles the packets that wait, until the next beat is due, and sends what the engine wants besides.
    fn take_packets(&mut self, core: &mut Core) -> io::Result<()>;

    /// Sends what the engine wants to be sent.
    fn inject(&mut self, core: &mut Core);

    /// Says to whoever lets packets pass in the other case that the loop turns.
    fn beat(&mut self) -> io::Result<()>;

    /// Sees what has become of the interfaces: they come and go, and their MTUs change.
    fn look_up(&mut self, core: &mut Core) -> io::Result<()>;

    /// Takes another configuration, which differs in nothing that only a start can change; to be followed by
    /// [`PacketPath::look_up`].
    fn reconfigure(&mut self, gateway: &Gateway) -> io::Result<()>;

    /// Looks whether what the gateway sends still leaves the machine; to be called at every beat.
    fn watch(&mut self, _: &mut Core) {}

    /// Treatments that are suspended, and the number of suspensions so far.
    fn untreated(&self) -> (Vec<Untreated>, u64) {
        (Vec::new(), 0)
    }

    /// Handles the last packets; all that come after them pass by.
    fn finish(&mut self, core: &mut Core) -> io::Result<()>;
}
