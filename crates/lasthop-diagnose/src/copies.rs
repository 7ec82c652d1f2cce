//! Packets that a capture has more than once: from mirror ports, from several interfaces or hops, from inside and
//! outside of a tunnel, or retransmitted by a Wi-Fi link.
//!
//! A copy has the same endpoints, numbers, timestamps, flags, window and length. The IPv4 identification distinguishes
//! it from a retransmission, since senders count it up. If they do not (0 in packets that must not be fragmented, RFC
//! 6864; IPv6 has none), a different hop limit, tag or link address does. If nothing differs, a packet is a copy if it
//! arrives sooner than any sender retransmits data.

use std::collections::BTreeMap;

use lasthop_proto::packet::{Flags, Segment};
use lasthop_wire::{Front, Head, Route};
use serde::Serialize;

use crate::flow::MOST_ROUTES;

/// Maximum number of recent packets, by a hash of the fields that copies share.
const SLOTS: usize = 8192;
/// Maximum delay of a copy at another hop, or of another kind, in nanoseconds: if identifications distinguish packets,
/// and if they do not.
const FORWARDED_WITHIN: [i64; 2] = [1_000_000_000, 50_000_000];
/// Maximum delay of an identical copy whose identification is the same and distinguishes packets.
const MIRRORED_WITHIN: i64 = 200_000_000;
/// Maximum delay of an identical copy without such an identification.
const AT_ONCE: i64 = 1_000_000;

/// Copies of packets, by the difference. Each copy counts once, by the first of these that applies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct CopyKinds {
    /// Packets that the capture has more than once.
    pub packets: u64,
    /// Identical copies: from a mirror port, or duplicated by the path.
    pub mirrored: u64,
    /// Copies with another TTL or hop limit: captured at several hops.
    pub hops: u64,
    /// Copies inside or outside of a tunnel.
    pub tunnels: u64,
    /// Copies with other VLAN tags or MPLS labels.
    pub tags: u64,
    /// Copies between other link addresses.
    pub addresses: u64,
    /// Frames that a Wi-Fi link retransmitted.
    pub wifi_retries: u64,
    /// Copies that an interface with offloads cut or joined differently.
    pub cut_otherwise: u64,
}

impl CopyKinds {
    /// Returns the number of all copies.
    pub const fn all(&self) -> u64 {
        self.mirrored + self.hops + self.tunnels + self.tags + self.addresses + self.wifi_retries + self.cut_otherwise
    }
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    hash: u64,
    time: i64,
    hop_limit: u8,
    front: Front,
    /// Copies so far.
    copies: u32,
}

/// Properties of the packets in one direction of a connection.
#[derive(Clone, Copy, Default, Debug)]
struct Habits {
    identification: Option<u16>,
    /// Different packets with the same identification as the packet before.
    stale: u32,
    fresh: u32,
    /// Maximum delay of a certain identical copy.
    mirrored: Option<i64>,
    /// Maximum delay of a certain copy at another hop, or of another kind, in nanoseconds.
    forwarded: i64,
    /// Time of the last pure acknowledgment in the other direction.
    answered: i64,
}

impl Habits {
    /// Returns whether identifications distinguish packets.
    const fn counts(&self) -> bool {
        self.fresh > self.stale
    }
}

/// Recent packets, by the fields that identify a TCP packet.
#[derive(Debug)]
pub(crate) struct Copies {
    last: Vec<Option<Kept>>,
    /// Used for look-ups only, so its order does not matter.
    habits: BTreeMap<Route, Habits>,
    pub(crate) kinds: CopyKinds,
}

impl Default for Copies {
    fn default() -> Self {
        Self { last: vec![None; SLOTS], habits: BTreeMap::new(), kinds: CopyKinds::default() }
    }
}

/// Fields of a frame that identify copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'p, 'h> {
    pub(crate) head: &'h Head<'p>,
    pub(crate) segment: &'h Segment,
    pub(crate) payload_len: u32,
    pub(crate) front: Front,
    /// Interface and device: each is a separate capture.
    pub(crate) place: (u32, u32),
    pub(crate) time: i64,
}

impl Copies {
    /// Returns whether the packet was captured before at this place.
    pub(crate) fn knows(&mut self, packet: &Captured<'_, '_>) -> bool {
        let Captured { head, segment, front, time, .. } = *packet;
        let hash = hash(packet);
        let habits = *self.habits(head.route);
        let slot = &mut self.last[(hash >> 51) as usize];
        let before = slot.filter(|kept| kept.hash == hash);
        let late = before.map_or(i64::MAX, |kept| time.saturating_sub(kept.time));
        let kind = before.and_then(|kept| kind(&kept, head.hop_limit, front));
        let is_told = head.identification.is_some_and(|id| id != 0) && habits.counts();
        let is_copy = match kind {
            None => false,
            Some(Kind::Mirrored) if is_told => late < MIRRORED_WITHIN,
            // Identical acknowledgments have a meaning; data repeated so soon does not.
            Some(Kind::Mirrored) if packet.payload_len == 0 && !segment.flags.has(Flags::SYN) => {
                habits.mirrored.is_some_and(|longest| late <= longest.saturating_mul(4).max(AT_ONCE / 100))
            }
            Some(Kind::Mirrored) => {
                late < AT_ONCE && before.is_some_and(|kept| habits.answered < kept.time || habits.mirrored.is_some())
            }
            Some(_) if is_told => late <= FORWARDED_WITHIN[0],
            // Packets without such an identification are delayed as long as the others.
            Some(_) => late <= FORWARDED_WITHIN[1].max(habits.forwarded.saturating_mul(5) / 4),
        };
        if let (true, Some(kept)) = (is_copy, before) {
            *slot = Some(Kept { copies: kept.copies + 1, time: kept.time, ..kept });
            self.count(kind.unwrap_or(Kind::Mirrored), kept.copies);
            if kind == Some(Kind::Mirrored) {
                let longest = self.habits(head.route).mirrored.unwrap_or(0).max(late);
                let back = self.habits(head.route.reversed());
                back.mirrored = Some(back.mirrored.unwrap_or(0).max(longest));
                self.habits(head.route).mirrored = Some(longest);
            } else if is_told {
                for route in [head.route, head.route.reversed()] {
                    let habits = self.habits(route);
                    habits.forwarded = habits.forwarded.max(late);
                }
            }
            return true;
        }
        *slot = Some(Kept { hash, time, hop_limit: head.hop_limit, front, copies: 0 });
        self.learn(packet);
        false
    }

    fn habits(&mut self, route: Route) -> &mut Habits {
        // New directions beyond the limit are ignored.
        let route = if self.habits.len() < MOST_ROUTES || self.habits.contains_key(&route) { route } else { NOBODY };
        self.habits.entry(route).or_default()
    }

    fn learn(&mut self, packet: &Captured<'_, '_>) {
        let Captured { head, payload_len, time, .. } = *packet;
        let habits = self.habits(head.route);
        if let Some(id) = head.identification {
            match habits.identification.replace(id) {
                Some(before) if before == id => habits.stale = habits.stale.saturating_add(1),
                // A first packet shows nothing: identifications are assumed to distinguish packets until they do not.
                _ => habits.fresh = habits.fresh.saturating_add(1),
            }
        }
        if payload_len == 0 {
            self.habits(head.route.reversed()).answered = time;
        }
    }

    fn count(&mut self, kind: Kind, before: u32) {
        let kinds = &mut self.kinds;
        kinds.packets += u64::from(before == 0);
        let counter = match kind {
            Kind::Mirrored => &mut kinds.mirrored,
            Kind::Hops => &mut kinds.hops,
            Kind::Tunnels => &mut kinds.tunnels,
            Kind::Tags => &mut kinds.tags,
            Kind::Addresses => &mut kinds.addresses,
            Kind::Retries => &mut kinds.wifi_retries,
        };
        *counter += 1;
    }
}

/// Route of all packets beyond the limit of routes.
const NOBODY: Route = Route {
    source: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
    destination: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Mirrored,
    Hops,
    Tunnels,
    Tags,
    Addresses,
    Retries,
}

/// Returns the difference between two packets, or `None` if the second cannot be a copy.
fn kind(kept: &Kept, hop_limit: u8, front: Front) -> Option<Kind> {
    let before = kept.front;
    Some(if front.tunnels != before.tunnels {
        Kind::Tunnels
    } else if hop_limit != kept.hop_limit {
        Kind::Hops
    } else if front.tags != before.tags {
        Kind::Tags
    } else if front.is_retry {
        Kind::Retries
    } else if front.addresses != before.addresses {
        Kind::Addresses
    } else {
        Kind::Mirrored
    })
}

fn hash(packet: &Captured<'_, '_>) -> u64 {
    let Captured { head, segment, place, .. } = *packet;
    let stamps = segment.options.timestamps.map_or((0, 0), |stamps| (stamps.val, stamps.ecr));
    let address = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(address) => u64::from(address.to_bits()),
        std::net::IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    let fields = [
        u64::from(head.identification.unwrap_or(0)) << 32 | u64::from(segment.seq.0),
        u64::from(segment.ack.0) << 32 | u64::from(stamps.0),
        u64::from(stamps.1) << 32 | u64::from(head.total_len),
        u64::from(head.route.source.port()) << 16 | u64::from(head.route.destination.port()),
        address(head.route.source.ip()),
        address(head.route.destination.ip()),
        u64::from(segment.window) << 16 | u64::from(segment.flags.0),
        u64::from(place.0) << 32 | u64::from(place.1),
    ];
    let blocks =
        segment.options.sack.as_slice().iter().map(|block| u64::from(block.left.0) << 32 | u64::from(block.right.0));
    fields.into_iter().chain(blocks).fold(0xcbf2_9ce4_8422_2325_u64, |hash, field| {
        (hash ^ field).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}
