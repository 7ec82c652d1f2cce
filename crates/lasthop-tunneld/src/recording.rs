//! What the links of an end were told and what they decided, as a pcapng file: recorded where packets are real, replayed in the
//! simulator's node.
//!
//! A section is a worker. Its comment is the line `lasthop tunnel recording 2`. Stamps are the times that the links were told, in
//! nanoseconds of the clock that goes on while the machine sleeps. Three interfaces:
//!
//! | interface | its frames |
//! |---|---|
//! | `inner` (raw IP, on a bridge Ethernet) | inbound: a packet that is to cross the hop, of that flow and kind. Outbound: one that came over it and goes on; `back`: one that the hop gave back |
//! | `hop` (147, for private use) | the low 32 bits of a frame's number, and the frame of the link, opened ([`crate::frames`]). Inbound: it came. Outbound: the link wanted to send it |
//! | `end` (text, as Wireshark exports PDUs: LINKTYPE 252) | `begin NAME` and the link's settings: a new link; `anew` and settings: the other end has forgotten everything; `path` and bytes of headers; `timeout`: its deadline came; `pause`: it was asked for a frame and had none; `back`: it was to give back what it had |
//!
//! Each frame has the comment `peer NUMBER`: links do not know of each other. What a link decided follows what it was told, with the same stamp. Of packets, and of
//! sums of packets, the first [`HEAD`] bytes are kept; a sum of heads is the head of the sum, so that the code restores heads. No decision depends on the rest.
//!
//! | module | holds |
//! |---|---|
//! | [`hop`] | a link's state machine that is recorded |
//! | [`reader`] | reads a recording |
//! | `node` | the simulator's node with the tunnel's packets |
//! | [`replay`] | feeds a recording to it, and compares decisions |

pub mod hop;
mod node;
pub mod reader;
pub mod replay;

use lasthop_daemon::recording::{RecordFile, Recorder};
use lasthop_proto::link::hybrid::{Frame, HopConfig, Medium, RateRule, Repair, Traffic};
use lasthop_proto::time::{Duration, Instant};
use pcap_file::DataLink;

use crate::frames;
use crate::inner::frame::{ETHERNET, LENGTH, TAGS, is_frame};
use crate::inner::packet::Packet;
use crate::plan::Way;

/// Bytes of packets that are kept, from the IP header on, on a bridge from the frame's length on: what all decisions see. That is the longest headers of
/// TCP over IPv4, behind those of Ethernet with its tags.
pub const HEAD: usize = LENGTH + ETHERNET + TAGS + 60 + 60;

const FORMAT: &str = "lasthop tunnel recording 2";
/// Interfaces by number.
const INTERFACES: [&str; 3] = ["inner", "hop", "end"];
const INNER: u32 = 0;
const HOP: u32 = 1;
const END: u32 = 2;

/// Begins to record an end whose packets come that way; what is wrong is logged.
pub fn start(file: RecordFile, way: &Way) -> Option<Recorder> {
    let inner = match way {
        Way::Routed(_) => DataLink::RAW,
        Way::Bridged(_) => DataLink::ETHERNET,
    };
    let [name, hop, end] = INTERFACES;
    file.start(FORMAT, &[(name, inner), (hop, DataLink::USER0), (end, DataLink::WIRESHARK_UPPER_PDU)])
}

/// The beginning of something that was longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its first bytes.
    pub bytes: Vec<u8>,
    /// How many it had.
    pub len: usize,
}

impl Head {
    /// The beginning of a packet, as the link carries it.
    fn of_packet(packet: &Packet) -> Self {
        let bytes = packet.bytes();
        Self { bytes: bytes[..HEAD.min(bytes.len())].to_vec(), len: bytes.len() }
    }

    /// The beginning of a frame of the link: up to the head of the packet, or of the sum, in it.
    fn of_frame(frame: &Frame<Packet>) -> Self {
        let mut bytes = Vec::new();
        frames::write(frame, &mut bytes);
        let len = bytes.len();
        match frame {
            Frame::Data(..) | Frame::Repair(..) => bytes.truncate(frames::DATA + HEAD),
            Frame::Bare(_) => bytes.truncate(1 + HEAD),
            Frame::Feedback(_) | Frame::Floor(_) | Frame::Probe => {}
        }
        Self { bytes, len }
    }

    /// As long as it was, with zeros for what was not kept.
    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(self.len.max(bytes.len()), 0);
        bytes
    }
}

/// How a link was set up.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Its parameters.
    pub config: HopConfig,
    /// By so much its driver may be late.
    pub lag: Duration,
}

/// What a link was told.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// It is new.
    Begin(Setting),
    /// The other end has forgotten everything.
    Anew(HopConfig),
    /// Frames go another way, with so many bytes of headers.
    Path(u16),
    /// A packet is to cross the hop.
    Packet {
        /// Its beginning.
        head: Head,
        /// What tells its flow from others.
        flow: u32,
        /// What it is.
        traffic: Traffic,
    },
    /// A frame came.
    Frame {
        /// The low bits of its number.
        number: u32,
        /// Its beginning.
        head: Head,
    },
    /// Its deadline came.
    Timeout,
    /// It was asked for a frame.
    Poll,
    /// It was to give back what it had.
    Back,
}

/// What it decided.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// What it gave back.
    pub back: Vec<Head>,
    /// Packets that go on.
    pub items: Vec<Head>,
    /// A frame with the low bits of its number.
    pub frame: Option<(u32, Head)>,
}

/// What a link was told, and what it decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The number of its first frame in the file, from 1, as Wireshark counts.
    pub frame: u64,
    /// The time that the link was told.
    pub time: Instant,
    /// Which.
    pub peer: u32,
    /// What else it was told.
    pub told: Told,
    /// What it decided.
    pub decision: Decision,
}

const KINDS: [(&str, Traffic); 5] = [
    ("stream", Traffic::Stream),
    ("acknowledgment", Traffic::Acknowledgment),
    ("call", Traffic::Call),
    ("datagram", Traffic::Datagram),
    ("unrepaired", Traffic::Bare),
];

/// Settings as words, of which each is the one before and a space.
fn words_of(config: &HopConfig) -> String {
    let HopConfig { rate, repair, medium, header, queue, target, interval } = config;
    let rate = match rate {
        RateRule::Fixed(rate) => rate.to_string(),
        RateRule::Auto => "auto".to_owned(),
    };
    // There is no other in a tunnel.
    let repair = if *repair == Repair::Repeat { "arq" } else { "hybrid" };
    let medium = if *medium == Medium::Shared { "shared" } else { "own" };
    let [target, interval] = [target, interval].map(|span| span.as_nanos());
    format!(
        "rate={rate} repair={repair} medium={medium} header={header} queue={queue} target={target} interval={interval}"
    )
}

/// What [`words_of`] wrote.
fn config_of(words: &[&str]) -> Option<HopConfig> {
    let &[rate, repair, medium, header, queue, target, interval] = words else { return None };
    let rate = match rate.strip_prefix("rate=")? {
        "auto" => RateRule::Auto,
        rate => RateRule::Fixed(rate.parse().ok().filter(|rate| (1..=MOST_RATE).contains(rate))?),
    };
    let repair = match repair.strip_prefix("repair=")? {
        "arq" => Repair::Repeat,
        "hybrid" => Repair::Adaptive,
        _ => return None,
    };
    let medium = match medium.strip_prefix("medium=")? {
        "own" => Medium::Own,
        "shared" => Medium::Shared,
        _ => return None,
    };
    let span = |word: &str, name: &str| {
        let nanos = word.strip_prefix(name)?.parse().ok().filter(|nanos| (1..=MOST_NANOS).contains(nanos))?;
        Some(Duration::from_nanos(nanos))
    };
    Some(HopConfig {
        rate,
        repair,
        medium,
        header: header.strip_prefix("header=")?.parse().ok().filter(|header| *header <= MOST_HEADER)?,
        queue: queue.strip_prefix("queue=")?.parse().ok().filter(|queue| (1..=MOST_QUEUE).contains(queue))?,
        target: span(target, "target=")?,
        interval: span(interval, "interval=")?,
    })
}

/// Beyond what configurations allow.
const MOST_RATE: u64 = 1_000_000_000_000;
const MOST_QUEUE: u32 = 1_000_000;
const MOST_HEADER: u16 = 1_000;
const MOST_NANOS: u64 = 60_000_000_000;

/// The packet that the link carries, as it stands in a capture: frames have no length in front.
fn captured(head: &Head) -> (&[u8], usize) {
    let skip = if is_frame(&head.bytes) { LENGTH } else { 0 };
    (&head.bytes[skip.min(head.bytes.len())..], head.len.saturating_sub(skip))
}

#[cfg(test)]
mod tests;
