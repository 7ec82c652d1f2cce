//! The seam between the worker's loop and the ways in which packets come to it and leave it.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use lasthop_daemon::channel::Speaker;
use lasthop_proto::node::Port;
use lasthop_sys::clock::Clock;

use crate::configuration::Gateway;
use crate::daemon::order::Notice;
use crate::daemon::relay::Relay;
use crate::daemon::snapshot::PacketCounters;
use crate::daemon::tape::Tape;
use crate::engine::recording::engine::RecordedEngine;
use crate::engine::{Injection, Offloaded, Verdict};

/// How often the loop says that it gets on: five times within the shortest silence that the supervisor takes for death.
pub(super) const BEAT: Duration = Duration::from_millis(20);

/// Tells the supervisor that this process gets on with its work.
#[derive(Debug)]
pub(super) struct Heart {
    next: Instant,
    speaker: Speaker,
}

impl Heart {
    pub fn new(speaker: Speaker) -> Self {
        Self { next: Instant::now(), speaker }
    }

    /// Beats if it is time.
    pub fn beat(&mut self) {
        let now = Instant::now();
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
    /// To which connections go that a rule splits.
    pub relay: Option<Relay>,
    /// What the engine wants to be sent.
    pub injections: Vec<Injection>,
    pub counters: PacketCounters,
    pub clock: Clock,
    /// What crosses the hop, if that is wanted.
    pub tape: Option<Tape>,
}

impl Core {
    pub fn new(heart: Heart, engine: RecordedEngine, relay: Option<Relay>, tape: Option<Tape>) -> Self {
        let (injections, counters) = (Vec::new(), PacketCounters::default());
        Self { heart, engine, relay, injections, counters, clock: Clock::start(), tape }
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

    /// Handles the last packets; all that come after them pass by.
    fn finish(&mut self, core: &mut Core) -> io::Result<()>;
}
