//! All connections of a capture.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::Flags;
use lasthop_wire::{Head, Kept, Unread, peel};

use crate::Options;
use crate::capture::{Frame, Interface};
use crate::flow::{Arrived, Flow};
use crate::half::Packet;
use crate::packets::{Found, Packets};
use crate::spin::{Form, QuicFlow};

/// Maximum number of connections that are followed. Later ones are only counted.
pub const MOST_FLOWS: usize = 50_000;
/// Maximum number of QUIC connections, and of pairs of addresses between which bytes are counted.
const MOST_PAIRS: usize = 50_000;
/// Maximum number of data packets that all flows record together.
const MOST_REMEMBERED: usize = 500_000;
/// Maximum step back in time that is not a jump of the clock: between the clocks of merged captures, or between
/// processors.
const SMALL_STEP: i64 = 20_000_000;
/// Minimum silence within a capture that is a jump of the clock.
const LONG_STEP: i64 = 6 * 3600 * 1_000_000_000;

/// Prefix of the number of a device that has no name.
pub(crate) const DEVICE: &str = "device ";

/// Place of a connection and its ends, the lower address first.
type Key = ((u32, u32), SocketAddr, SocketAddr);

/// Diagnosis of a capture in progress.
#[derive(Debug, Default)]
pub struct Diagnosis {
    options: Options,
    /// Used for look-ups only, so its order does not matter.
    by_key: HashMap<Key, usize>,
    pub(crate) flows: Vec<Flow>,
    quic_by_key: HashMap<Key, usize>,
    pub(crate) quic: Vec<QuicFlow>,
    /// Bytes towards each address at each place: all of them share the last hop.
    volumes: HashMap<((u32, u32), IpAddr), u64>,
    pub(crate) read: Packets,
    clock: Clock,
    /// Data packets that flows have recorded to find policers.
    remembered: usize,
    pub(crate) counts: Counts,
}

/// Counters of a capture.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    pub packets: u64,
    pub tcp: u64,
    /// Packets that are not IP, or cannot be read.
    pub unread: u64,
    /// The same, by kind.
    pub unread_kinds: BTreeMap<Unread, u64>,
    /// Fragments of packets that could not be joined.
    pub fragments: u64,
    /// Segments with truncated TCP options.
    pub options_cut: u64,
    /// Packets of unknown link types, by type.
    pub unknown_links: BTreeMap<u32, u64>,
    pub flows_left_out: u64,
    pub clock_steps: u64,
    /// Times of the first and the last packet.
    pub span: Option<(i64, i64)>,
    pub other_interfaces: u64,
}

/// Clock without the jumps of a clock that was set.
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

/// Returns whether a packet was captured at the interface of this name, or at the device with this name in a report.
fn is_called(name: &str, interface: &Interface, device: Option<u32>) -> bool {
    let wanted = name.strip_prefix(DEVICE).and_then(|number| number.parse().ok());
    interface.name.as_deref() == Some(name) || wanted.is_some() && wanted == device
}

impl Diagnosis {
    /// Creates a diagnosis without packets.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Returns the number of packets so far.
    pub const fn packets(&self) -> u64 {
        self.counts.packets
    }

    /// Processes the next packet, captured at `interface`.
    pub fn take(&mut self, frame: &Frame<'_>, interface: &Interface) {
        self.counts.packets += 1;
        if let Some(name) = &self.options.interface {
            let device = peel(interface.link, frame.data, frame.len, 0).ok().map(|packet| packet.device);
            if !is_called(name, interface, device) {
                self.counts.other_interfaces += 1;
                return;
            }
        }
        let time = self.clock.read(frame.time);
        self.counts.clock_steps = self.clock.steps;
        self.counts.span = Some((self.counts.span.map_or(time, |(first, _)| first), time));
        let mut read = std::mem::take(&mut self.read);
        read.read(interface, frame, time, &mut |found| self.found(frame, time, found));
        self.read = read;
    }

    fn found(&mut self, frame: &Frame<'_>, time: i64, found: Found<'_>) {
        let counts = &mut self.counts;
        match found {
            Found::Tcp { head, segment, options, payload_len, device } => {
                counts.tcp += 1;
                counts.options_cut += u64::from(options == Kept::CutOff);
                let place = (frame.interface, device);
                let volume = self.volume(place, head);
                let packet = Packet {
                    time,
                    number: frame.number,
                    segment: &segment,
                    options,
                    len: payload_len,
                    wire: head.total_len,
                    volume,
                    stamped: None,
                    identification: head.identification,
                    is_keep_alive: false,
                    tick: None,
                    is_remembered: self.remembered < MOST_REMEMBERED,
                };
                self.remembered += usize::from(packet.is_remembered && payload_len > 0);
                self.tcp(place, head, packet);
            }
            Found::Udp { head, payload, device } => {
                let place = (frame.interface, device);
                self.volume(place, head);
                self.udp(place, head, payload, time);
            }
            Found::Copy => counts.tcp += 1,
            Found::Fragment => counts.fragments += 1,
            // The last of them was not counted as one.
            Found::Joined(fragments) => counts.fragments = counts.fragments.saturating_sub(fragments - 1),
            Found::Unread(Unread::LinkType(link)) => *counts.unknown_links.entry(link).or_default() += 1,
            Found::Unread(why) => {
                counts.unread += 1;
                *counts.unread_kinds.entry(why).or_default() += 1;
            }
        }
    }

    fn volume(&mut self, place: (u32, u32), head: &Head<'_>) -> u64 {
        let key = (place, head.route.destination.ip());
        if self.volumes.len() >= MOST_PAIRS && !self.volumes.contains_key(&key) {
            // Senders to more destinations than the limit share one count.
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

    /// Ends the diagnosis after the last packet.
    pub fn close(&mut self) {
        for flow in self.flows.iter_mut().filter(|flow| !flow.closed) {
            flow.finish();
        }
    }
}
