//! Comparison with a share of unrepaired flows: goodput and round-trip time of TCP connections, and packet loss, of
//! both arms.

use lasthop_daemon::ab::{Arm, ArmReport, Difference, Gain, Reservoir, RuleArms};
use lasthop_daemon::flows::{Client, FlowTable, Key, Standing};
use lasthop_daemon::observe::{Tally, Watch};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, FlowId};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::Route;
use std::net::SocketAddr;

use crate::inner::look::View;

/// Maximum number of connections to watch at a time.
const FLOWS: usize = 4096;
/// Minimum number of acknowledged bytes for a connection to count, as in the gateway.
const MEASURED: u64 = 100_000;
/// Denominator of shares.
pub const WHOLE: u32 = 1_000_000;

/// Packets of one arm.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ArmCounters {
    /// Packets sent to the peer; each counts once.
    pub packets: u64,
    /// Packets that were lost and not repaired.
    pub lost: u64,
}

/// Round-trip times of one connection over the hop.
#[derive(Clone, Copy, Default, Debug)]
struct Trips {
    count: u64,
    sum: Duration,
}

impl Tally for Trips {
    fn lost(&mut self, _: u64) {}

    fn reordered(&mut self, _: u64) {}

    fn resent(&mut self, _: u64) {}

    fn round_trip(&mut self, port: Port, time: Duration) {
        if port == Port::WIRELESS {
            (self.count, self.sum) = (self.count + 1, self.sum + time);
        }
    }
}

impl Trips {
    /// Returns the mean of the round trips, in seconds; `None` without samples.
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.as_secs_f64() / self.count as f64)
    }
}

/// TCP connection.
#[derive(Debug)]
struct Flow {
    arm: Arm,
    watch: Watch,
    trips: Trips,
}

/// Results of both arms.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Findings {
    /// Goodputs of connections, in bytes per second.
    pub goodputs: RuleArms,
    /// Mean round-trip times of connections over the hop, in seconds.
    pub trips: RuleArms,
    /// Packets of the treated and the untreated arm.
    pub packets: [ArmCounters; 2],
}

impl Findings {
    /// Returns the ratio of the goodputs of treated connections to those of untreated ones.
    pub fn gain(&self) -> Option<Gain> {
        self.goodputs.gain()
    }

    /// Returns the ratio of the round-trip times of treated connections to those of untreated ones.
    pub fn delay(&self) -> Option<Gain> {
        self.trips.gain()
    }

    /// Returns the difference of the loss rates of untreated and treated flows.
    pub fn loss(&self) -> Option<Difference> {
        let [treated, untreated] = self.packets.map(|arm| (arm.lost, arm.packets));
        Difference::of(untreated, treated)
    }
}

/// Selection of the unrepaired flows, and results of both arms. At most 4096 connections are remembered, and 1024
/// values of each quantity and arm.
#[derive(Debug)]
pub struct Comparison {
    share: u32,
    keys: [u64; 2],
    flows: FlowTable<Flow>,
    /// Goodputs by [`Arm`].
    goodputs: [Reservoir; 2],
    trips: [Reservoir; 2],
    sample: Stream,
    /// Packets by [`Arm`]. The link counts the losses of treated flows.
    pub packets: [ArmCounters; 2],
}

impl Comparison {
    /// Leaves `share` of the flows, in 10⁻⁶, unrepaired. `keys`, which both ends have, select them.
    pub fn new(share: u32, keys: [u64; 2]) -> Self {
        Self {
            share,
            keys,
            flows: FlowTable::new(FLOWS, keys),
            goodputs: Default::default(),
            trips: Default::default(),
            sample: Root(keys[0]).stream("tunnel/sample"),
            packets: Default::default(),
        }
    }

    /// Returns the arm of a packet's flow, for either direction. Fragments after the first have no ports and are
    /// selected by addresses alone.
    pub fn arm(&self, packet: &[u8], view: &View) -> Arm {
        let [source, destination] = view.ports(packet).unwrap_or_default();
        let (from, to) = view.addresses;
        self.choose(&Key::of(&Route {
            source: SocketAddr::new(from, source),
            destination: SocketAddr::new(to, destination),
        }))
    }

    fn choose(&self, key: &Key) -> Arm {
        if key.uniform(self.keys) < f64::from(self.share) / f64::from(WHOLE) { Arm::Untreated } else { Arm::Treated }
    }

    /// Records a packet: from the device at [`Port::WIRED`], from the peer at [`Port::WIRELESS`].
    pub fn watch(&mut self, now: Instant, port: Port, packet: &[u8]) {
        let Some(view) = lasthop_wire::parse(packet) else { return };
        let key = Key::of(&view.route);
        let id = match self.flows.find(&key) {
            Some(id) => id,
            None => {
                let far = if port == Port::WIRED { view.route.destination } else { view.route.source };
                let client = Client::of(far.ip());
                if let Some(old) = self.flows.surplus(client) {
                    self.forget(old);
                }
                let flow = Flow { arm: self.choose(&key), watch: Watch::default(), trips: Trips::default() };
                let Some(id) = self.flows.insert(key, client, flow) else { return };
                id
            }
        };
        let Some(flow) = self.flows.get_mut(id) else { return };
        let flags = view.segment.flags;
        if flags.has(Flags::SYN) && !flags.has(Flags::ACK) && flow.watch.bytes > 0 {
            // A new connection with the addresses and ports of an old one.
            let (watch, trips) = (std::mem::take(&mut flow.watch), std::mem::take(&mut flow.trips));
            let ended = Flow { arm: flow.arm, watch, trips };
            self.settle(&ended);
        }
        let Some(flow) = self.flows.get_mut(id) else { return };
        flow.watch.on_packet(now, port, &view, view.payload_len.max(1) as u32, &mut flow.trips);
        let standing = if flow.watch.bytes > 0 { Standing::Established } else { Standing::Doubtful };
        self.flows.touch(id, standing);
        while let Some(old) = self.flows.crowded_out(id) {
            self.forget(old);
        }
    }

    fn forget(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.remove(id) {
            self.settle(&flow);
        }
    }

    /// Records the measurements of a connection that has ended.
    fn settle(&mut self, flow: &Flow) {
        let Some(goodput) = flow.watch.goodput(MEASURED) else { return };
        self.goodputs[flow.arm as usize].push(goodput, &mut self.sample);
        if let Some(trip) = flow.trips.mean() {
            self.trips[flow.arm as usize].push(trip, &mut self.sample);
        }
    }

    /// Returns the results of both arms. `given_up` is the number of unrepaired losses of treated flows.
    pub fn findings(&mut self, given_up: u64) -> Findings {
        let arms = |reservoirs: &[Reservoir; 2], name: &str| RuleArms {
            name: name.to_owned(),
            treated: ArmReport::of(&reservoirs[Arm::Treated as usize]),
            untreated: ArmReport::of(&reservoirs[Arm::Untreated as usize]),
        };
        let (mut goodputs, mut trips) = (arms(&self.goodputs, "goodput"), arms(&self.trips, "round trip"));
        for (_, flow) in self.flows.iter_mut() {
            let Some(goodput) = flow.watch.goodput(MEASURED) else { continue };
            goodputs.arm_mut(flow.arm).push(goodput);
            if let Some(trip) = flow.trips.mean() {
                trips.arm_mut(flow.arm).push(trip);
            }
        }
        let mut packets = self.packets;
        packets[Arm::Treated as usize].lost = given_up;
        Findings { goodputs, trips, packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inner::look::look;

    /// Returns a UDP or TCP packet between two hosts and ports.
    fn packet(protocol: u8, from: [u8; 2], to: [u8; 2]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, from[0], 10, 0, 0, to[0]];
        packet.extend_from_slice(&[7, from[1], 8, to[1]]);
        packet.resize(40, 0x50);
        packet
    }

    fn arm(comparison: &Comparison, packet: &[u8]) -> Arm {
        comparison.arm(packet, &look(packet).unwrap())
    }

    #[test]
    fn the_share_goes_unrepaired() {
        for share in [0, 100_000, 500_000] {
            let comparison = Comparison::new(share, [3, 4]);
            let all = (0..10_000_u32).map(|n| packet(17, [1 + (n >> 8) as u8, n as u8], [200, 9]));
            let untreated = all.filter(|packet| arm(&comparison, packet) == Arm::Untreated).count() as f64;
            let expected = f64::from(share) / 100.0;
            // Four standard deviations of 10,000 draws.
            assert!((untreated - expected).abs() <= 200.0, "{share}: {untreated}");
            assert_eq!(untreated == 0.0, share == 0);
        }
    }

    proptest::proptest! {
        /// Checks both directions, at both ends, which have the same keys.
        #[test]
        fn both_directions_are_in_the_same_arm(keys: [u64; 2], from: [u8; 2], to: [u8; 2], tcp: bool) {
            let ends = [Comparison::new(500_000, keys), Comparison::new(500_000, keys)];
            let protocol = if tcp { 6 } else { 17 };
            let mut back = packet(protocol, to, from);
            let there = packet(protocol, from, to);
            // The ports are swapped too.
            back[20..24].copy_from_slice(&[8, to[1], 7, from[1]]);
            proptest::prop_assert_eq!(arm(&ends[0], &there), arm(&ends[1], &back));
        }
    }

    /// The number of remembered connections is bounded, and connections that moved data count.
    #[test]
    fn memory_is_bounded() {
        let mut comparison = Comparison::new(500_000, [1, 2]);
        for n in 0..20_000_u32 {
            let mut syn = packet(6, [1, n as u8], [(n >> 16) as u8, 1]);
            syn[22..24].copy_from_slice(&((n >> 8) as u16).to_be_bytes());
            syn[32..34].copy_from_slice(&[0x50, 2]);
            comparison.watch(Instant::from_nanos(u64::from(n)), Port::WIRED, &syn);
        }
        assert!(comparison.flows.len() <= FLOWS && !comparison.flows.is_empty(), "{}", comparison.flows.len());
    }
}
