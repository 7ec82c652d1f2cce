use std::net::SocketAddr;

use lasthop_proto::packet::{Body, Flags, FlowId, Segment};
use lasthop_proto::random::Root;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;
use lasthop_wire::Route;

use super::*;
use crate::air::Air;
use crate::elements::{ETHERNET, IPV4};

const TEXT: &str = r#"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.desk]
[routers.vps]
[routers.office]
[links.internet]
between = ["server", "vps"]
rate = "1 Gbps"
delay = "1 ms"
[links.first]
between = ["vps", "office"]
rate = "20 Mbps"
delay = "5 ms"
[links.second]
between = ["vps", "office"]
rate = "10 Mbps"
delay = "9 ms"
[links.lan]
between = ["office", "desk"]
rate = "1 Gbps"
delay = "1 ms"
[bundles.lines]
links = ["first", "second"]
[flows.download]
from = "server"
to = "desk"
size = "1 MiB"
[flows.call]
from = "server"
to = "desk"
app = "call"
[base_station]
router = "vps"
link = "first"
"#;

/// Ends of both links at `vps`, and the far end of the first.
const FIRST: Point = 2;
const SECOND: Point = 4;
const OFFICE: Point = 3;

fn network(scheme: &str) -> (Scenario, &'static Scheme, Network) {
    let (scenario, scheme) = (Scenario::parse("test.toml", TEXT).unwrap(), Scheme::by_name(scheme).unwrap());
    let network = scenario.network(scheme).unwrap();
    (scenario, scheme, network)
}

/// Returns the frame of a segment of the download.
fn data(plan: &Plan<'_>, seq: u32) -> Vec<u8> {
    let [source, destination] = plan.flow_sockets(FlowId(0), &plan.network.flows[0]).map(SocketAddr::V4);
    let segment = Segment { seq: Seq(seq), flags: Flags::ACK, window: 100, ..Segment::default() };
    let packet = lasthop_wire::build(Route { source, destination }, &segment, &[7; 1400]).unwrap();
    [&[0; 12], &IPV4[..], &packet].concat()
}

/// Returns the bytes that each of the two links carried downwards, and the frames that arrived at the far router.
fn carry(scheme: &str) -> ([u64; 2], Vec<Vec<u8>>) {
    let (scenario, scheme, network) = network(scheme);
    let plan = Plan::new(&network, scheme, scenario.lab()).unwrap();
    let mut air = Air::new(&plan, Root(1), None);
    let mut arrived = Vec::new();
    let mut keep = |arrival: crate::air::Arrival<'_>| {
        assert_eq!(arrival.point, OFFICE, "packets leave the element at the device of its own link");
        arrived.push(arrival.bytes.to_vec());
        Ok(())
    };
    // 28 Mbps for 2 s.
    let interval = Duration::from_micros(411);
    let mut now = Instant::ZERO;
    for number in 0..5000 {
        air.advance(now, &mut keep).unwrap();
        air.send(now, FIRST, &data(&plan, 1 + 1400 * number));
        now += interval;
    }
    air.advance(now + Duration::from_secs(2), &mut keep).unwrap();
    let links = air.finish().links;
    ([FIRST, SECOND].map(|point| links[point / 2][0].bytes), arrived)
}

#[test]
fn an_element_uses_all_links_of_its_bundle() {
    let ([first, second], arrived) = carry("LINK-MULTI");
    assert!(first > 4_000_000 && second > 1_500_000, "{first} and {second} bytes");
    // 28 of 30 Mbps with headers: all arrive, once, in order and unchanged.
    let (_, scheme, network) = network("LINK-MULTI");
    let scenario = Scenario::parse("test.toml", TEXT).unwrap();
    let plan = Plan::new(&network, scheme, scenario.lab()).unwrap();
    let sent: Vec<_> = (0..5000).map(|number| data(&plan, 1 + 1400 * number)).collect();
    assert_eq!(arrived.len(), sent.len());
    assert!(arrived == sent);
}

#[test]
fn other_schemes_use_one_link_of_a_bundle() {
    for scheme in ["E2E-CUBIC", "LINK-HYBRID"] {
        let ([first, second], arrived) = carry(scheme);
        assert!(first > 4_000_000 && second == 0, "{scheme}: {first} and {second} bytes");
        assert!(arrived.len() > 3000, "{scheme}: {}", arrived.len());
    }
}

#[test]
fn a_calls_datagram_is_read_as_one() {
    let (scenario, scheme, network) = network("LINK-MULTI");
    let plan = Plan::new(&network, scheme, scenario.lab()).unwrap();
    let air = Air::new(&plan, Root(1), None);
    let [source, destination] = plan.flow_sockets(FlowId(1), &network.flows[1]);
    // IPv4 header, UDP header, RTP header with timestamp 77, 160 bytes.
    let mut packet = vec![0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([source.ip().octets(), destination.ip().octets()].concat());
    packet.extend([source.port().to_be_bytes(), destination.port().to_be_bytes()].concat());
    packet.extend([0, 180, 0, 0, 0x80, 96, 0, 77, 0, 0, 0, 77, 0, 0, 0, 1]);
    packet.resize(200, 0);
    let read = air.read(&packet);
    assert_eq!((read.flow, read.body), (FlowId(1), Body::Media { number: 77 }));
    assert_eq!((read.header_len, read.len), (40, 160));
    // The other end of the flow sends nothing, but its ports are known.
    assert_eq!(air.read(&packet[..ETHERNET]).flow, FlowId::NONE);
}
