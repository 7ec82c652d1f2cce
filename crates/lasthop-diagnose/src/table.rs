//! All connections of a capture.
#![expect(clippy::disallowed_types, reason = "only looked up, so that no order shows")]

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::{Flags, Segment};
use lasthop_wire::{Head, Kept, Transport, parse_head};

use crate::Options;
use crate::capture::{Frame, Interface};
use crate::flow::{Arrived, Flow};
use crate::half::Packet;
use crate::link::{self, Network};
use crate::spin::{Form, QuicFlow};

/// Most connections that are followed. Later ones are counted.
pub const MOST_FLOWS: usize = 50_000;
/// Most QUIC connections, and most pairs of addresses between which bytes are counted.
const MOST_PAIRS: usize = 50_000;
/// Between two captures' clocks merged into one file, or between processors, times go back a little.
const SMALL_STEP: i64 = 20_000_000;
/// Nobody is silent for so long in the midst of a capture: the clock was set.
const LONG_STEP: i64 = 6 * 3600 * 1_000_000_000;

/// What stands before the number of a device that has no name.
pub(crate) const DEVICE: &str = "device ";

/// A connection's place and its ends, the lower address first.
type Key = ((u32, u32), SocketAddr, SocketAddr);

/// A capture that is being looked at.
#[derive(Debug, Default)]
pub struct Diagnosis {
    options: Options,
    /// Looked up only, never walked through.
    by_key: HashMap<Key, usize>,
    pub(crate) flows: Vec<Flow>,
    quic_by_key: HashMap<Key, usize>,
    pub(crate) quic: Vec<QuicFlow>,
    /// Bytes towards each address at each place: all of them share the last hop.
    volumes: HashMap<((u32, u32), IpAddr), u64>,
    /// Where a packet went by last, to know its copy in a capture of all interfaces.
    copies: Copies,
    clock: Clock,
    pub(crate) counts: Counts,
}

/// What was seen besides.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    pub packets: u64,
    pub tcp: u64,
    /// No IP packet, or none that can be read.
    pub unread: u64,
    pub copies: u64,
    /// Segments whose TCP options were not all kept.
    pub options_cut: u64,
    /// By link type.
    pub unknown_links: BTreeMap<u32, u64>,
    pub flows_left_out: u64,
    pub clock_steps: u64,
    /// First and last packet.
    pub span: Option<(i64, i64)>,
    pub other_interfaces: u64,
}

/// Time without the jumps of a clock that is set.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Clock {
    last: Option<i64>,
    offset: i64,
    steps: u64,
}

impl Clock {
    pub(crate) fn read(&mut self, stamp: u64) -> i64 {
        let stamp = i64::try_from(stamp).unwrap_or(i64::MAX);
        let time = stamp.saturating_add(self.offset);
        let Some(last) = self.last else {
            self.last = Some(time);
            return time;
        };
        let step = time.saturating_sub(last);
        let now = if (-SMALL_STEP..LONG_STEP).contains(&step) {
            time.max(last)
        } else {
            self.offset = self.offset.saturating_sub(step);
            self.steps += 1;
            last
        };
        self.last = Some(now);
        now
    }
}

/// The last packets, by what makes a TCP packet unique.
#[derive(Debug)]
pub(crate) struct Copies {
    last: Vec<Option<(u64, i64)>>,
}

impl Default for Copies {
    fn default() -> Self {
        Self { last: vec![None; 1024] }
    }
}

/// A router forwards within this.
const FORWARDED_WITHIN: i64 = 50_000_000;

impl Copies {
    /// Whether the packet is a copy of one that went by at another interface, in a capture that has them all as one. Where it names devices, each of them
    /// has whole connections.
    pub(crate) fn knows_at(&mut self, device: u32, head: &Head<'_>, segment: &Segment, time: i64) -> bool {
        device == 0 && self.knows(head, segment, time)
    }

    /// Whether the packet went by at another interface just now: same identification, same sequence numbers, same stamps, another
    /// time to live.
    pub(crate) fn knows(&mut self, head: &Head<'_>, segment: &Segment, time: i64) -> bool {
        let stamps = segment.options.timestamps.map_or((0, 0), |stamps| (stamps.val, stamps.ecr));
        let fields = [
            u64::from(head.identification.unwrap_or(0)) << 32 | u64::from(segment.seq.0),
            u64::from(segment.ack.0) << 32 | u64::from(stamps.0),
            u64::from(stamps.1) << 32 | u64::from(head.total_len),
            u64::from(head.route.source.port()) << 16 | u64::from(head.route.destination.port()),
        ];
        let hash = fields.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, field| {
            (hash ^ field).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        // The time to live stands in the lowest byte.
        let (hash, hops) = (hash & !0xff, u64::from(head.hop_limit));
        let slot = &mut self.last[(hash >> 54) as usize];
        let copy = slot.is_some_and(|(before, at)| {
            before & !0xff == hash && before & 0xff != hops && time.saturating_sub(at) < FORWARDED_WITHIN
        });
        if !copy {
            *slot = Some((hash | hops, time));
        }
        copy
    }
}

/// Whether a packet was seen at the interface of that name, or at the device that a report calls so.
fn is_called(name: &str, interface: &Interface, network: Option<Network<'_>>) -> bool {
    let device = name.strip_prefix(DEVICE).and_then(|number| number.parse().ok());
    interface.name.as_deref() == Some(name) || device.is_some() && device == network.map(|network| network.device)
}

impl Diagnosis {
    /// One that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Packets so far.
    pub const fn packets(&self) -> u64 {
        self.counts.packets
    }

    /// Takes the next packet, captured at `interface`.
    pub fn take(&mut self, frame: &Frame<'_>, interface: &Interface) {
        self.counts.packets += 1;
        let network = link::network(interface.link, frame);
        if self.options.interface.as_ref().is_some_and(|name| !is_called(name, interface, network)) {
            self.counts.other_interfaces += 1;
            return;
        }
        let time = self.clock.read(frame.time);
        self.counts.clock_steps = self.clock.steps;
        self.counts.span = Some((self.counts.span.map_or(time, |(first, _)| first), time));
        if !link::is_known(interface.link) {
            *self.counts.unknown_links.entry(interface.link).or_default() += 1;
            return;
        }
        let head = network.and_then(|Network { packet, len, .. }| parse_head(packet, len));
        let (Some(network), Some(head)) = (network, head) else {
            self.counts.unread += 1;
            return;
        };
        let place = (frame.interface, network.device);
        match head.transport {
            Transport::Tcp { segment, payload_len, options } => {
                self.counts.tcp += 1;
                self.counts.options_cut += u64::from(options == Kept::CutOff);
                if self.copies.knows_at(network.device, &head, &segment, time) {
                    self.counts.copies += 1;
                    return;
                }
                let volume = self.volume(place, &head);
                let packet = Packet {
                    time,
                    number: frame.number,
                    segment: &segment,
                    options,
                    len: payload_len,
                    wire: head.total_len,
                    volume,
                    stamped: None,
                };
                self.tcp(place, &head, packet);
            }
            Transport::Udp { payload } => {
                self.volume(place, &head);
                self.udp(place, &head, payload, time);
            }
        }
    }

    fn volume(&mut self, place: (u32, u32), head: &Head<'_>) -> u64 {
        let key = (place, head.route.destination.ip());
        if self.volumes.len() >= MOST_PAIRS && !self.volumes.contains_key(&key) {
            // Whoever sends to so many shares one count.
            let shared = self.volumes.entry((place, IpAddr::from([0, 0, 0, 0]))).or_default();
            *shared += u64::from(head.total_len);
            return *shared;
        }
        let volume = self.volumes.entry(key).or_default();
        *volume += u64::from(head.total_len);
        *volume
    }

    fn tcp(&mut self, place: (u32, u32), head: &Head<'_>, packet: Packet<'_>) {
        let (source, destination) = (head.route.source, head.route.destination);
        let (from, ends) = if source <= destination { (0, [source, destination]) } else { (1, [destination, source]) };
        let key = (place, ends[0], ends[1]);
        let flags = packet.segment.flags;
        let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        let known = self.by_key.get(&key).copied().filter(|&index| !(opens && self.flows[index].closed));
        let index = match known {
            Some(index) => index,
            None if self.flows.len() >= MOST_FLOWS => {
                self.counts.flows_left_out += u64::from(opens);
                return;
            }
            None => {
                self.flows.push(Flow::new(ends, place, packet.time, packet.number));
                self.by_key.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
        };
        self.flows[index].take(&Arrived { packet, from, ecn: head.ecn, epoch: self.clock.steps });
    }

    fn udp(&mut self, place: (u32, u32), head: &Head<'_>, payload: &[u8], time: i64) {
        let Some(form) = Form::of(payload) else { return };
        let (source, destination) = (head.route.source, head.route.destination);
        let ends = [source.min(destination), source.max(destination)];
        let key = (place, ends[0], ends[1]);
        let known = self.quic_by_key.get(&key).copied();
        match (form, known) {
            (Form::Long, None) if self.quic.len() < MOST_PAIRS => {
                self.quic_by_key.insert(key, self.quic.len());
                self.quic.push(QuicFlow::new(head));
            }
            (Form::Short(bit), Some(index)) => {
                let flow = &mut self.quic[index];
                let from = usize::from(flow.ends[0] != source);
                flow.spins[from].take(bit, time);
            }
            _ => {}
        }
    }

    /// No packet comes any more.
    pub fn close(&mut self) {
        for flow in self.flows.iter_mut().filter(|flow| !flow.closed) {
            flow.finish();
        }
    }
}
