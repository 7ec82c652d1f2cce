//! What an engine was told and what it decided, as a pcapng file: recorded where packets are real, replayed where none are.
//!
//! Wireshark opens it. A section is one engine, from its first packet on; a worker that follows another begins another
//! section. Its header has as comment the line `lasthop gateway recording 2, seed SEED`, and behind it the configuration as it
//! stands in its file (long ones in several comments, which belong together). Three interfaces, with stamps in nanoseconds that count
//! from the engine's start; the time of day of that is in `if_tsoffset`, to a second:
//!
//! | interface | its frames |
//! |---|---|
//! | `wired`, `wireless` (raw IP) | inbound: a packet that came in there. The comment `dropped` or `replaced` is the verdict; without one it was accepted. `segments of 1448` is how many bytes of payload each segment in it has, where the driver knew; `checksum pending`: it was yet to be computed; `checksum wrong`: it was. Outbound: what the engine sent there, `replacement` for the packet before, or `injected` besides |
//! | `engine` (text, as Wireshark exports PDUs: LINKTYPE 252) | `timeout`: it acted on its deadlines. `mtu wireless 1500`: so large are packets there. `configure`, and on the next lines the configuration that it took. `release`: it treats nothing any more |
//!
//! What the engine sent follows what it was told, with the same stamp. Payload is cut off: no decision depends on it, and
//! nobody's data is in the file. Replayed packets have zeros instead, and a checksum that is right, or wrong, as theirs was.
//! Recordings of format 1 do not say which: nothing was verified when they were made, and nothing is when they are replayed.
//!
//! | module | holds |
//! |---|---|
//! | [`recorder`] | writes it; the file is [`lasthop_daemon::recording`]'s |
//! | [`engine`] | an engine that is recorded |
//! | [`reader`] | reads it |
//! | [`replay`] | feeds it to an engine, or to the simulator's element, and compares decisions |

pub mod element;
pub mod engine;
mod player;
pub mod reader;
pub mod recorder;
pub mod replay;

use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;

use crate::engine::{Condition, Injection, Offloaded, Verdict};

/// The first comment of a section begins with this, and goes on with the seed.
const FORMAT: &str = "lasthop gateway recording 2, seed ";
/// The same in recordings that do not say of which packets the checksum was complete.
const FORMAT_1: &str = "lasthop gateway recording 1, seed ";
/// Interfaces by number; the first two are ports.
const INTERFACES: [&str; 3] = ["wired", "wireless", "engine"];
/// The interface of what is no packet.
const ENGINE: u32 = 2;
const DROPPED: &str = "dropped";
const REPLACED: &str = "replaced";
const REPLACEMENT: &str = "replacement";
const INJECTED: &str = "injected";
/// Comments by themselves; of the first the rest is a number.
const SEGMENTS: &str = "segments of ";
const PENDING: &str = "checksum pending";
const WRONG: &str = "checksum wrong";
/// Bytes of the longest headers that are read: IPv4 and TCP, each with all its options.
const LONGEST_HEADERS: usize = 120;

/// A packet without its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// IP and TCP header; of what is not TCP the beginning, enough to see that it is not.
    pub bytes: Vec<u8>,
    /// Bytes of the whole packet.
    pub len: usize,
}

impl Headers {
    /// Those of a packet.
    pub fn of(packet: &[u8]) -> Self {
        Self { bytes: packet[..headers_len(packet)].to_vec(), len: packet.len() }
    }

    /// The packet, with zeros for its payload.
    pub fn packet(&self) -> Vec<u8> {
        let mut packet = self.bytes.clone();
        packet.resize(self.len.max(packet.len()), 0);
        packet
    }

    /// The packet, with zeros for its payload, and with a checksum over them that is right or wrong as its own was.
    fn packet_again(&self, offloaded: Offloaded, condition: Condition) -> Vec<u8> {
        let mut packet = self.packet();
        let Some(view) = lasthop_wire::parse(&packet) else { return packet };
        if offloaded.condition(&packet, &view) != condition {
            lasthop_wire::seal(&mut packet, &view);
            if condition == Condition::Damaged {
                packet[view.ip_len + 16] ^= 0xff;
            }
        }
        packet
    }

    /// Whether both are of the same packet. The checksum over a payload tells nothing when that payload is not there.
    pub fn agrees(&self, other: &Self) -> bool {
        let plain = |headers: &Self| {
            let mut packet = headers.packet();
            if let Some(view) = lasthop_wire::parse(&packet).filter(|view| view.payload_len > 0) {
                packet[view.ip_len + 16..view.ip_len + 18].fill(0);
            }
            packet
        };
        self == other || plain(self) == plain(other)
    }
}

fn headers_len(packet: &[u8]) -> usize {
    lasthop_wire::parse(packet).map_or(LONGEST_HEADERS.min(packet.len()), |view| view.header_len)
}

/// What an engine is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// A packet came in.
    Packet {
        /// Where.
        port: Port,
        /// Which.
        headers: Headers,
        /// What the driver knew.
        offloaded: Offloaded,
        /// Whether it arrived whole.
        condition: Condition,
    },
    /// Its deadline came.
    Timeout,
    /// How large packets are at a port.
    Mtu {
        /// The port.
        port: Port,
        /// Bytes.
        mtu: u16,
    },
    /// A new configuration.
    Configure {
        /// The text of its file.
        text: String,
    },
    /// No rules any more.
    Release,
}

/// What an engine decides on a packet; what is no packet counts as accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// It passes as it is.
    Accept,
    /// It does not pass.
    Drop,
    /// This passes instead.
    Replace(Headers),
}

/// All that an engine decides when it is told something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// What becomes of the packet.
    pub judgement: Judgement,
    /// What it sends besides, and where to, in order.
    pub sent: Vec<(Port, Headers)>,
}

impl Decision {
    /// As the engine says it.
    pub fn of(verdict: &Verdict, sent: &[Injection]) -> Self {
        let judgement = match verdict {
            Verdict::Accept => Judgement::Accept,
            Verdict::Drop => Judgement::Drop,
            Verdict::Replace(packet) => Judgement::Replace(Headers::of(packet)),
        };
        Self { judgement, sent: sent.iter().map(|sent| (sent.towards, Headers::of(&sent.packet))).collect() }
    }
}

/// One call and its decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The number of its first frame in the file, from 1, as Wireshark counts.
    pub frame: u64,
    /// The time that the engine was told.
    pub time: Instant,
    /// What else it was told.
    pub call: Call,
    /// What it decided.
    pub decision: Decision,
}

#[cfg(test)]
#[path = "recording/tests.rs"]
mod tests;
