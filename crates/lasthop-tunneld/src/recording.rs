//! Recordings of the links' inputs and decisions as pcapng files, made on real networks and replayed by the simulator's
//! node.
//!
//! A section contains one worker. Its comment is the line `lasthop tunnel recording 2`. Timestamps are the times passed
//! to the links, in nanoseconds of the clock that includes suspend. There are three interfaces:
//!
//! | interface | its frames |
//! |---|---|
//! | `inner` (raw IP, on a bridge Ethernet) | inbound: a packet offered to the hop, with its flow and class. Outbound: a received packet that is passed on; `back`: one that the hop gave back |
//! | `hop` (147, for private use) | the low 32 bits of a frame's number, and the decrypted frame of the link ([`crate::frames`]). Inbound: received. Outbound: the link sent it. With the comment `path NUMBER` if it is not the first path |
//! | `end` (text, as Wireshark exports PDUs: LINKTYPE 252) | `begin NAME` and the link's settings: a new link; `anew` and settings, with `multipath=USE`, and `path=RATE,HEADER` for each path after the first, if there are several: the other end restarted; `path`, the size of headers, and the number of the path if it is not the first; `terms`, the number of a path, its tier and copies; `timeout`: a deadline passed; `pause`: the link had no frame to send; `back`: the link was asked to give back its packets |
//!
//! Each frame has the comment `peer NUMBER`: links are independent. A link's decisions follow the input that caused
//! them, with the same timestamp. Only the first [`HEAD`] bytes of packets and combinations are recorded. The head of a
//! combination is the combination of heads, so decoding yields heads. No decision depends on the rest.
//!
//! | module | contents |
//! |---|---|
//! | [`hop`] | state machine of a link with a recorder |
//! | [`reader`] | parser |
//! | `node` | the simulator's node with the tunnel's packets |
//! | [`replay`] | replay to that node, and comparison of decisions |

pub mod hop;
mod node;
pub mod reader;
pub mod replay;

use lasthop_daemon::recording::{RecordFile, Recorder};
use lasthop_proto::link::hybrid::{
    Bundle, Frame, HopConfig, MOST_PATHS, Medium, Multipath, PathId, RateRule, Repair, Terms, Traffic,
};
use lasthop_proto::time::Duration;
use lasthop_settings::values::Choice;
use pcap_file::DataLink;

use crate::frames;
use crate::inner::frame::{ETHERNET, LENGTH, TAGS, is_frame};
use crate::inner::packet::Packet;
use crate::plan::Way;

/// Number of recorded bytes of a packet, starting at the IP header, on a bridge at the frame's length: all that
/// decisions use. These are the longest headers of TCP over IPv4, after those of Ethernet with tags.
pub const HEAD: usize = LENGTH + ETHERNET + TAGS + 60 + 60;

const FORMAT: &str = "lasthop tunnel recording 2";
/// Names of the interfaces by number.
const INTERFACES: [&str; 3] = ["inner", "hop", "end"];
const INNER: u32 = 0;
const HOP: u32 = 1;
const END: u32 = 2;

/// Starts recording an end with this source of packets. Logs errors.
pub fn start(file: RecordFile, way: &Way) -> Option<Recorder> {
    let inner = match way {
        Way::Routed(_) => DataLink::RAW,
        Way::Bridged(_) => DataLink::ETHERNET,
    };
    let [name, hop, end] = INTERFACES;
    file.start(FORMAT, &[(name, inner), (hop, DataLink::USER0), (end, DataLink::WIRESHARK_UPPER_PDU)])
}

/// Truncated data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// Original length, in bytes.
    pub len: usize,
}

impl Head {
    /// Returns the head of a packet as the link carries it.
    fn of_packet(packet: &Packet) -> Self {
        let bytes = packet.bytes();
        Self { bytes: bytes[..HEAD.min(bytes.len())].to_vec(), len: bytes.len() }
    }

    /// Returns the head of a link's frame, up to the head of the packet or combination in it.
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

    /// Returns data of the original length, with zeros for the missing part.
    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(self.len.max(bytes.len()), 0);
        bytes
    }
}

/// Settings of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Parameters.
    pub config: HopConfig,
    /// Scheduling slack of the link's driver.
    pub lag: Duration,
}

/// Input of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// The link is new.
    Begin(Setting),
    /// The other end restarted; the paths after the first.
    Anew(HopConfig, Bundle),
    /// A path changed; the value is the size of the path's headers, in bytes.
    Path(PathId, u16),
    /// The terms of a path changed.
    Terms(PathId, Terms),
    /// A packet was offered.
    Packet {
        /// Head of the packet.
        head: Head,
        /// Number that identifies the packet's flow.
        flow: u32,
        /// Class of the packet.
        traffic: Traffic,
    },
    /// A frame arrived.
    Frame {
        /// Path of the frame.
        path: PathId,
        /// Low bits of the frame's number.
        number: u32,
        /// Head of the frame.
        head: Head,
    },
    /// A deadline passed.
    Timeout,
    /// A frame was requested.
    Poll,
    /// The link was asked to give back its packets.
    Back,
}

/// Decision of a link.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// Packets given back.
    pub back: Vec<Head>,
    /// Packets passed on.
    pub items: Vec<Head>,
    /// A frame, with its path and the low bits of its number.
    pub frame: Option<(PathId, u32, Head)>,
}

/// Input of one of the links.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Number of the link's peer.
    pub peer: u32,
    /// The input.
    pub told: Told,
}

/// Input of a link, and its decision.
pub type Step = lasthop_daemon::recording::steps::Step<Call, Decision>;

const KINDS: [(&str, Traffic); 5] = [
    ("stream", Traffic::Stream),
    ("acknowledgment", Traffic::Acknowledgment),
    ("call", Traffic::Call),
    ("datagram", Traffic::Datagram),
    ("unrepaired", Traffic::Bare),
];

/// Formats a rate.
fn word_of(rate: RateRule) -> String {
    match rate {
        RateRule::Fixed(rate) => rate.to_string(),
        RateRule::Auto => "auto".to_owned(),
    }
}

/// Parses the output of [`word_of`].
fn rate_of(word: &str) -> Option<RateRule> {
    match word {
        "auto" => Some(RateRule::Auto),
        rate => Some(RateRule::Fixed(rate.parse().ok().filter(|rate| (1..=MOST_RATE).contains(rate))?)),
    }
}

/// Formats the paths after the first as words, each after a space; empty without any.
fn words_of_paths(bundle: &Bundle) -> String {
    if bundle.more.is_empty() {
        return String::new();
    }
    let name = bundle.multipath.name().unwrap_or_default();
    let paths = bundle.more.iter().map(|(rate, header)| format!(" path={},{header}", word_of(*rate)));
    std::iter::once(format!(" multipath={name}")).chain(paths).collect()
}

/// Parses the output of [`words_of_paths`].
fn paths_of(words: &[&str]) -> Option<Bundle> {
    let Some((multipath, words)) = words.split_first() else { return Some(Bundle::default()) };
    let multipath = Multipath::named(multipath.strip_prefix("multipath=")?)?;
    if words.len() >= usize::from(MOST_PATHS) {
        return None;
    }
    let path = |word: &&str| {
        let (rate, header) = word.strip_prefix("path=")?.split_once(',')?;
        Some((rate_of(rate)?, header.parse().ok().filter(|header| *header <= MOST_HEADER)?))
    };
    Some(Bundle { multipath, more: words.iter().map(path).collect::<Option<_>>()?, terms: Vec::new() })
}

/// Formats settings as words separated by spaces.
fn words_of(config: &HopConfig) -> String {
    let HopConfig { rate, repair, medium, header, queue, memory, target, interval } = config;
    let rate = word_of(*rate);
    // A tunnel uses no other.
    let repair = if *repair == Repair::Repeat { "arq" } else { "hybrid" };
    let medium = if *medium == Medium::Shared { "shared" } else { "own" };
    let [target, interval] = [target, interval].map(|span| span.as_nanos());
    let queue = queue.map_or("auto".to_owned(), |packets| packets.to_string());
    format!(
        "rate={rate} repair={repair} medium={medium} header={header} queue={queue} memory={memory} target={target} interval={interval}"
    )
}

/// Number of words of [`words_of`].
const SETTINGS: usize = 8;

/// Parses the output of [`words_of`].
fn config_of(words: &[&str]) -> Option<HopConfig> {
    let &[rate, repair, medium, header, queue, memory, target, interval] = words else { return None };
    let rate = rate_of(rate.strip_prefix("rate=")?)?;
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
        queue: match queue.strip_prefix("queue=")? {
            "auto" => None,
            packets => Some(packets.parse().ok().filter(|packets| (1..=MOST_QUEUE).contains(packets))?),
        },
        memory: memory.strip_prefix("memory=")?.parse().ok().filter(|memory| *memory <= MOST_MEMORY)?,
        target: span(target, "target=")?,
        interval: span(interval, "interval=")?,
    })
}

/// Upper bounds of settings in recordings. They exceed those of configurations.
const MOST_RATE: u64 = 1_000_000_000_000;
const MOST_QUEUE: u32 = 1_000_000;
const MOST_MEMORY: u64 = 1 << 40;
const MOST_HEADER: u16 = 1_000;
const MOST_NANOS: u64 = 60_000_000_000;

/// Returns a carried packet as it appears in a capture, where frames have no length field, and its length.
fn captured(head: &Head) -> (&[u8], usize) {
    let skip = if is_frame(&head.bytes) { LENGTH } else { 0 };
    (&head.bytes[skip.min(head.bytes.len())..], head.len.saturating_sub(skip))
}

#[cfg(test)]
mod tests;
