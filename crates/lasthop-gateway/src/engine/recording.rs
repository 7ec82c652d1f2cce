//! Recordings of an engine's inputs and decisions as pcapng files, made on real networks and replayed without one.
//!
//! Wireshark opens the files. A section contains one engine, starting at its first packet; a replacement worker starts
//! another section. The section header has a comment with the line `lasthop gateway recording 2, seed SEED`, followed
//! by the text of the configuration file (a long one continues in further comments). There are three interfaces. Their
//! timestamps are nanoseconds since the engine's start; `if_tsoffset` is the time of day of the start, in seconds:
//!
//! | interface | its frames |
//! |---|---|
//! | `wired`, `wireless` (raw IP) | inbound: a packet that arrived there. The comment `dropped` or `replaced` is the verdict; without one it was accepted. `segments of 1448` is the payload size of each segment in it, if the driver knew; `checksum pending`: the checksum was not computed yet; `checksum wrong`: it was wrong. Outbound: a packet that the engine sent there, `replacement` for the packet before, or `injected` in addition |
//! | `engine` (text, as Wireshark exports PDUs: LINKTYPE 252) | `timeout`: the engine acted on its deadlines. `mtu wireless 1500`: the MTU there. `configure`, and on the next lines the new configuration. `release`: the engine stopped treating packets |
//!
//! Packets that the engine sent follow the input that caused them, with the same timestamp. Payload is not recorded: no
//! decision depends on it, and user data stays out of the file. Replayed packets contain zeros instead, and a checksum
//! that is correct or wrong like the original's. Recordings of format 1 do not indicate which: no checksum was verified
//! when they were made, and none is verified in the replay.
//!
//! | module | contents |
//! |---|---|
//! | [`recorder`] | writer; the file is [`lasthop_daemon::recording`]'s |
//! | [`engine`] | an engine with a recorder |
//! | [`reader`] | parser |
//! | [`replay`] | replay to an engine, or to the simulator's element, and comparison of decisions |

pub mod element;
pub mod engine;
pub mod reader;
pub mod recorder;
pub mod replay;
mod text;

use lasthop_proto::node::Port;
use lasthop_proto::packet::HeaderForm;

use crate::engine::{Condition, Injection, Offloaded, Verdict};

/// Beginning of a section's first comment; the seed follows.
const FORMAT: &str = "lasthop gateway recording 2, seed ";
/// Beginning of that comment in recordings that do not mark packets with a complete checksum.
const FORMAT_1: &str = "lasthop gateway recording 1, seed ";
/// Names of the interfaces by number; the first two are ports.
const INTERFACES: [&str; 3] = ["wired", "wireless", "engine"];
/// Number of the interface for events other than packets.
const ENGINE: u32 = 2;
const DROPPED: &str = "dropped";
const REPLACED: &str = "replaced";
const REPLACEMENT: &str = "replacement";
const INJECTED: &str = "injected";
/// Separate comments; a number follows the first one.
const SEGMENTS: &str = "segments of ";
const PENDING: &str = "checksum pending";
const WRONG: &str = "checksum wrong";
/// Length of the longest headers that are read, in bytes: IPv4 and TCP, each with all its options.
const LONGEST_HEADERS: usize = 120;

/// Length of the part of a long header that decisions depend on: its form, and the version (RFC 8999 §5.1).
const INVARIANT: usize = 5;

/// A packet without its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// IP and TCP headers; of datagrams the headers, the form of QUIC's header and its version; of other packets the
    /// beginning, enough to recognize that they are neither.
    pub bytes: Vec<u8>,
    /// Length of the whole packet, in bytes.
    pub len: usize,
}

impl Headers {
    /// Returns the headers of a packet.
    pub fn of(packet: &[u8]) -> Self {
        Self { bytes: packet[..headers_len(packet)].to_vec(), len: packet.len() }
    }

    /// Returns the packet with zeros for its payload.
    pub fn packet(&self) -> Vec<u8> {
        let mut packet = self.bytes.clone();
        packet.resize(self.len.max(packet.len()), 0);
        packet
    }

    /// Returns the packet with zeros for its payload, and a checksum over them that is correct or wrong like the
    /// original's.
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

    /// Returns whether both describe the same packet. Ignores the checksum of packets with payload, which is not
    /// recorded.
    pub fn agrees(&self, other: &Self) -> bool {
        let plain = |headers: &Self| {
            let mut packet = headers.packet();
            if let Some(view) = lasthop_wire::parse(&packet).filter(|view| view.payload_len > 0) {
                packet[view.ip_len + 16..view.ip_len + 18].fill(0);
            } else if let Some(datagram) = lasthop_wire::parse_datagram(&packet) {
                packet[datagram.ip_len + 6..datagram.ip_len + 8].fill(0);
            }
            packet
        };
        self == other || plain(self) == plain(other)
    }
}

fn headers_len(packet: &[u8]) -> usize {
    if let Some(view) = lasthop_wire::parse(packet) {
        return view.header_len;
    }
    match lasthop_wire::parse_datagram(packet) {
        Some(datagram) => {
            let form = HeaderForm::of(datagram.payload(packet));
            let kept = if form == HeaderForm::Long { INVARIANT } else { 1 };
            datagram.header_len() + kept.min(datagram.payload_len)
        }
        None => LONGEST_HEADERS.min(packet.len()),
    }
}

/// Input of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// A packet arrived.
    Packet {
        /// Port at which the packet arrived.
        port: Port,
        /// Headers of the packet.
        headers: Headers,
        /// Metadata from the driver.
        offloaded: Offloaded,
        /// True if the packet arrived undamaged.
        condition: Condition,
    },
    /// A deadline passed.
    Timeout,
    /// The MTU at a port became known.
    Mtu {
        /// The port.
        port: Port,
        /// MTU, in bytes.
        mtu: u16,
    },
    /// A new configuration was applied.
    Configure {
        /// Text of the configuration file.
        text: String,
    },
    /// All rules were removed.
    Release,
}

/// Decision on a packet; inputs other than packets count as accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The packet passes unchanged.
    Accept,
    /// The packet does not pass.
    Drop,
    /// The given packet passes instead.
    Replace(Headers),
}

/// Complete decision of an engine on one input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Decision on the packet.
    pub judgement: Judgement,
    /// Additional packets that the engine sent, with their ports, in order.
    pub sent: Vec<(Port, Headers)>,
}

impl Decision {
    /// Converts an engine's decision.
    pub fn of(verdict: &Verdict, sent: &[Injection]) -> Self {
        let judgement = match verdict {
            Verdict::Accept => Judgement::Accept,
            Verdict::Drop => Judgement::Drop,
            Verdict::Replace(packet) => Judgement::Replace(Headers::of(packet)),
        };
        Self { judgement, sent: sent.iter().map(|sent| (sent.towards, Headers::of(&sent.packet))).collect() }
    }
}

/// One input and the decision on it.
pub type Step = lasthop_daemon::recording::steps::Step<Call, Decision>;

#[cfg(test)]
#[path = "recording/tests.rs"]
mod tests;
