//! Compares the preset `ns2` with ns-2.35's packets under the same losses, as recorded by `benches/peers/compare.py
//! --record`.

use lasthop_proto::packet::{Body, Flags, Packet, Side};
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::trace::{Trace, What};
use lasthop_sim::{Recording, run};

const CASES: &str = include_str!("data/ns2.txt");
const SEGMENT: u32 = 1400;
/// Tolerance in microseconds.
const TOLERANCE: f64 = 100.0;

/// Returns the number of a packet of the initiator as in ns-2: 0 is the SYN, 1 the first data.
fn number(packet: &Packet, iss: u32) -> Option<u32> {
    let Body::Tcp(segment) = packet.body else { return None };
    match (packet.from, packet.len) {
        (Side::Initiator, 0) => segment.flags.has(Flags::SYN).then_some(0),
        (Side::Initiator, SEGMENT) => Some(segment.seq.0.wrapping_sub(iss) / SEGMENT + 1),
        _ => None,
    }
}

fn sent(trace: &Trace) -> Vec<(f64, u32)> {
    let iss = trace.flows[0].iss[0];
    let source = trace.points.iter().position(|point| point.name == "source").expect("the source");
    let of_source = trace.records.iter().filter(|record| usize::from(record.point) == source);
    of_source
        .filter_map(|record| match &record.what {
            What::Sent(packet) => Some((record.time.as_nanos() as f64 / 1000.0, number(packet, iss)?)),
            _ => None,
        })
        .collect()
}

fn has_fin(what: &What) -> bool {
    matches!(what, What::Sent(Packet { body: Body::Tcp(segment), .. }) if segment.flags.has(Flags::FIN))
}

#[test]
fn sends_what_ns2_sends() {
    let mut cases = 0;
    for case in CASES.split("=== ").skip(1) {
        let (name, rest) = case.split_once('\n').expect("a name");
        let (scenario, expected) = rest.split_once("---\n").expect("a scenario");
        let (scheme, _) = name.split_once(',').expect("a scheme");
        let scenario = Scenario::parse(name, scenario).unwrap();
        let network = scenario.network(Scheme::by_name(scheme).expect("a scheme")).unwrap();
        let outcome = run(&network, 1, Recording::On);
        assert!(outcome.report.flows[0].complete, "{name}");
        assert!(!outcome.trace.records.iter().any(|record| has_fin(&record.what)), "{name}: left open");
        let sent = sent(&outcome.trace);
        for (index, line) in expected.lines().enumerate() {
            let (time, packet) = line.split_once(' ').expect("time and packet");
            let (time, packet): (f64, u32) = (time.parse().unwrap(), packet.parse().unwrap());
            let ours = *sent.get(index).unwrap_or_else(|| panic!("{name}: ends after {index} segments"));
            let close = (ours.0 - time).abs() <= TOLERANCE;
            assert!(close && ours.1 == packet, "{name}, segment {index}: {ours:?} instead of {:?}", (time, packet));
        }
        assert_eq!(sent.len(), expected.lines().count(), "{name}");
        cases += 1;
    }
    assert!(cases >= 40);
}
