//! Tests of handoffs on the emulated links without kernels: nodes forward at once by the current routes. Times and
//! deliveries are those of the simulator's tests (`lasthop-scenario/tests/mobility.rs`), derived there.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::scheme::SCHEMES;
use lasthop_proto::seq::Seq;
use lasthop_scenario::Scenario;
use lasthop_wire::{Checksum, Checksums, Route, checksums, parse};

use super::*;

/// Sends a packet of 1028 bytes every 2 ms, the nth at 2n ms, from the source over 5 ms to the core, over 1 ms to a
/// base station, and in a transmission of 1 ms to the host. The other wires take 8 us per packet. The nth is at the
/// core at 2n + 5.008 ms, at the station at 2n + 6.016 ms, and at the host at 2n + 7.016 ms. The host leaves the first
/// station after 50 ms, and attaches to the second after 60.
const TEXT: &str = r#"
hosts = { source = {}, mobile = {} }
routers = { core = {}, base-1 = {}, base-2 = {} }
[links]
far = { between = ["source", "core"], rate = "1 Gbps", delay = "5 ms" }
wire-1 = { between = ["core", "base-1"], rate = "1 Gbps", delay = "1 ms" }
wire-2 = { between = ["core", "base-2"], rate = "1 Gbps", delay = "1 ms" }
cell-1 = { between = ["base-1", "mobile"], rate = "8224 kbps", delay = "0 s" }
cell-2 = { between = ["base-2", "mobile"], rate = "8224 kbps", delay = "0 s" }
[flows.stream]
from = "source"
to = "mobile"
size = "1 MiB"
[mobility]
host = "mobile"
stations = ["cell-1", "cell-2"]
moves = { at = ["50 ms"] }
detection = "4 ms"
registration = "6 ms"
"#;
/// Number of the last packet that arrives within 200 ms.
const LAST: u32 = 96;
const PAYLOAD: u32 = 988;
const SOURCE: Point = 0;

/// Returns the numbers of the packets that reach the host, in order, and the results of the handoffs.
fn stream(text: &str) -> (Vec<u32>, MobilityReport) {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let network = scenario.network(&SCHEMES[0]).unwrap();
    let plan = Plan::new(&network, &SCHEMES[0], scenario.lab()).unwrap();
    let routes = Arc::new(Mutex::new(BTreeMap::new()));
    let told = routes.clone();
    let set_route = move |change: &Change| {
        told.lock().unwrap().insert((change.node.0, change.to), change.out);
        Ok(())
    };
    let mut air = Air::new(&plan, Root(1), None).with_routes(Box::new(set_route)).unwrap();
    let [source, destination] = plan.flow_sockets(FlowId(0), &network.flows[0]).map(SocketAddr::V4);
    let host = network.mobility.as_ref().unwrap().host;
    let mut arrived = Vec::new();
    let mut run = |air: &mut Air, until: Instant| {
        while let Some(due) = air.poll_deadline().filter(|due| *due <= until) {
            let mut came = Vec::new();
            air.advance(due, |arrival| {
                came.push((arrival.point, arrival.bytes.to_vec()));
                Ok(())
            })
            .unwrap();
            for (port, bytes) in came {
                let agent = port.checked_sub(plan.points()).map(|agent| plan.agents()[agent]);
                let node = agent.unwrap_or_else(|| plan.node(port.min(plan.points() - 1)));
                if node == host {
                    let view = parse(&bytes[ETHERNET..]).unwrap();
                    assert_eq!(checksums(&bytes[ETHERNET..], &view, Checksum::Complete), Checksums::Hold);
                    arrived.push((view.segment.seq.0 - 1) / PAYLOAD);
                    continue;
                }
                let to = super::destination(&bytes).unwrap();
                let next = |to: NodeId| plan.next_hops(node).get(&to.0).copied();
                let stations = plan.cells().into_iter().enumerate();
                let mut ends = stations.map(|(station, cell)| (Plan::care_of(station, Plan::address(host)), cell));
                let end = ends.find(|(care_of, _)| *care_of == to).map(|(_, cell)| plan.node(cell));
                let out = match (end, agent) {
                    (Some(end), _) if end == node => {
                        plan.points() + plan.agents().iter().position(|at| *at == node).unwrap()
                    }
                    (Some(end), _) => next(end).unwrap(),
                    // Frames that an agent returns go into the cell.
                    (None, Some(_)) => *plan.cells().iter().find(|cell| plan.node(**cell) == node).unwrap(),
                    (None, None) => match routes.lock().unwrap()[&(node.0, to)] {
                        Out::Link(point) => point,
                        Out::Agent => plan.points() + plan.agents().iter().position(|at| *at == node).unwrap(),
                    },
                };
                air.send(due, out, &bytes);
            }
        }
    };
    for number in 1..=LAST {
        let now = Instant::ZERO + Duration::from_millis(2 * u64::from(number));
        run(&mut air, now);
        let segment = Segment { seq: Seq(1 + number * PAYLOAD), flags: Flags::ACK, ..Segment::default() };
        let packet = lasthop_wire::build(Route { source, destination }, &segment, &[7; PAYLOAD as usize]).unwrap();
        air.send(now, SOURCE, &[&[0; 12], &IPV4[..], &packet].concat());
    }
    run(&mut air, Instant::ZERO + Duration::from_millis(400));
    (arrived, air.finish().moves.unwrap().report)
}

fn all_but(missing: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    (1..=LAST).filter(|number| !missing.contains(number)).collect()
}

#[test]
fn each_kind_of_handoff_loses_keeps_and_forwards_what_the_simulators_does() {
    let mut overtaken = all_but(30..=30);
    overtaken.insert(30, 30);
    for (lines, expected, lost, gap) in [
        ("kind = \"hard\"", all_but(22..=30), 9, 20.0),
        ("kind = \"hierarchical\"", all_but(22..=27), 6, 14.0),
        ("route_update = \"0 s\"", all_but(22..=27), 6, 14.0),
        ("kind = \"forwarding\"", overtaken, 0, 16.0),
        ("kind = \"multicast\"", all_but(0..=0), 0, 11.984),
        ("kind = \"multicast\"\nbuffer = \"2 packets\"", all_but(22..=24), 3, 11.984),
    ] {
        let (arrived, report) = stream(&format!("{TEXT}{lines}"));
        assert_eq!(arrived, expected, "{lines}");
        assert_eq!((report.handoffs, report.lost, report.repeated), (1, lost, 0), "{lines}");
        assert_eq!(report.reordered, u64::from(lines.contains("forwarding")), "{lines}");
        let measured = report.mean_gap().unwrap().as_nanos() as f64 / 1e6;
        assert!((measured - gap).abs() < 0.001, "{lines}: {measured} ms");
    }
}

#[test]
fn a_station_keeps_no_more_than_it_may() {
    let (mut arrived, report) = stream(&format!("{TEXT}kind = \"forwarding\"\nbuffer = \"2 packets\""));
    arrived.sort_unstable();
    assert_eq!((arrived, report.lost), (all_but(24..=27), 4));
}

/// The cell takes 2.667 ms per packet, of which the nth arrives there at 2n + 6.016. At 49.9 ms the 16th is on the air,
/// and 17 to 21 are queued: they are forwarded, or the other station has copies.
#[test]
fn what_waits_is_forwarded_and_what_is_on_the_air_is_not() {
    let slow = TEXT.replace("8224 kbps", "3084 kbps");
    for (kind, lost) in [("forwarding", 1), ("multicast", 0)] {
        let (arrived, report) = stream(&format!("{slow}kind = \"{kind}\"").replace("\"50 ms\"", "\"49900 us\""));
        assert_eq!((report.handoffs, report.lost, report.repeated), (1, lost, 0), "{kind}");
        assert_eq!(arrived.len() as u64, u64::from(LAST) - lost, "{kind}");
    }
}

#[test]
fn a_host_that_turns_back_finds_what_was_kept() {
    for kind in ["forwarding", "multicast"] {
        let (arrived, report) =
            stream(&format!("{TEXT}kind = \"{kind}\"").replace("[\"50 ms\"]", "[\"50 ms\", \"55 ms\"]"));
        assert_eq!(arrived, all_but(0..=0), "{kind}");
        assert_eq!((report.handoffs, report.lost, report.reordered), (1, 0, 0), "{kind}");
    }
}
