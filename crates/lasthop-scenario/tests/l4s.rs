//! L4S over a lossy hop: RFC 9331's code points survive local repair, and marks reach the receiver.

use std::collections::BTreeMap;

use lasthop_proto::packet::{Ecn, Flags, Packet, Side};
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;
use lasthop_sim::trace::{Record, What};
use lasthop_sim::{Outcome, Recording};

fn run(scheme: &str) -> (Network, Outcome) {
    let values = [("limit", "4 s"), ("links.radio.errors.frame_loss", "\"2 %\"")];
    let scenario = Scenario::builtin("l4s-lossy").unwrap().with_overrides(&values).unwrap();
    let network = scenario.network(Scheme::by_name(scheme).unwrap()).unwrap();
    let outcome = lasthop_sim::run(&network, 1, Recording::On);
    (network, outcome)
}

/// Returns the packets that arrive at the far end of a link, down, from the initiators of its flows or back.
fn arrivals<'a>(
    network: &Network,
    outcome: &'a Outcome,
    link: &str,
    from: Side,
) -> impl Iterator<Item = (&'a Record, Packet)> {
    let index = network.links.iter().position(|spec| spec.name == link).unwrap();
    let point = 2 * index + usize::from(from == Side::Initiator);
    outcome.trace.records.iter().filter_map(move |record| match record.what {
        What::Received(packet)
            if usize::from(record.point) == point && packet.from == from && packet.tcp().is_some() =>
        {
            Some((record, packet))
        }
        _ => None,
    })
}

fn seq(packet: &Packet) -> u32 {
    packet.tcp().map_or(0, |segment| segment.seq.0)
}

/// Elements that repair the hop pass ECT(1) and CE on, also in retransmissions and in restored packets (RFC 9331 §5,
/// RFC 6040): a segment that left the bottleneck once arrives with the same code point.
#[test]
fn code_points_survive_local_repair() {
    for scheme in ["E2E-CUBIC", "SNOOP", "LINK-ARQ", "LINK-HYBRID"] {
        let (network, outcome) = run(scheme);
        let mut before: BTreeMap<(u32, u32), Vec<Ecn>> = BTreeMap::new();
        for (record, packet) in arrivals(&network, &outcome, "bottleneck", Side::Initiator) {
            if packet.len > 0 && record.flow.0 < 2 {
                before.entry((record.flow.0, seq(&packet))).or_default().push(packet.ecn);
            }
        }
        let (mut marked, mut compared) = (0, 0);
        for (record, packet) in arrivals(&network, &outcome, "scalable", Side::Initiator) {
            if packet.len == 0 {
                continue;
            }
            assert!(matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce), "{scheme}: {packet:?}");
            let [ecn] = before[&(record.flow.0, seq(&packet))][..] else { continue };
            assert_eq!(packet.ecn, ecn, "{scheme}: {packet:?}");
            (compared, marked) = (compared + 1, marked + u32::from(ecn == Ecn::Ce));
        }
        assert!(compared > 2000 && marked > 10, "{scheme}: {compared} {marked}");
        let sent: u64 = outcome.report.flows[..2].iter().map(|flow| flow.repaired_locally).sum();
        assert!(scheme != "SNOOP" || sent > 10, "{sent} repairs");
    }
}

/// A relay answers the marks of its wired connection, packet by packet, and sends classic packets over the hop.
#[test]
fn marks_end_at_a_relay() {
    let (network, outcome) = run("SPLIT-BBR");
    let wired = arrivals(&network, &outcome, "bottleneck", Side::Initiator);
    let marked = wired.filter(|(record, packet)| record.flow.0 < 2 && packet.ecn == Ecn::Ce).count();
    let acks: Vec<Flags> = arrivals(&network, &outcome, "bottleneck", Side::Acceptor)
        .filter(|(record, packet)| record.flow.0 < 2 && packet.len == 0)
        .map(|(_, packet)| packet.tcp().unwrap().flags)
        .filter(|flags| !flags.has(Flags::SYN))
        .collect();
    let echoes = acks.iter().filter(|flags| flags.has(Flags::ECE)).count();
    assert!(marked > 50 && echoes > 20 && echoes <= marked, "{marked} marks, {echoes} of {} echo", acks.len());
    assert!(arrivals(&network, &outcome, "scalable", Side::Initiator).all(|(_, packet)| packet.ecn == Ecn::NotEct));
}
