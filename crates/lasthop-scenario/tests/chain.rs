//! Tests of packet radios in a chain: one channel, marks from queue lengths, and rejected settings.

use lasthop_proto::link::radio::End;
use lasthop_proto::pep::eln::ElnKnowledge;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_scenario::elements::{ElnMarker, HopRadio};
use lasthop_sim::network::{Medium, Network};
use lasthop_sim::{Recording, run};

fn chain(values: &[(&str, &str)], scheme: &str) -> Network {
    let scenario = Scenario::builtin("packet-radio-chain").unwrap().with_overrides(values).unwrap();
    scenario.network(Scheme::by_name(scheme).unwrap()).unwrap()
}

#[test]
fn hops_share_a_channel_and_radios_sit_at_both_ends() {
    let network = chain(&[("links.hop-5.channel", "other")], "E2E-ELN");
    let channels: Vec<_> = network
        .links
        .iter()
        .filter_map(|link| match link.medium {
            Medium::Shared { channel, frame_overhead } => {
                assert_eq!(frame_overhead, Duration::from_millis(1));
                Some(channel)
            }
            Medium::Duplex | Medium::HalfDuplex { .. } | Medium::Wifi { .. } | Medium::Cell { .. } => None,
        })
        .collect();
    assert_eq!(channels, [0, 0, 0, 0, 1]);
    let radios: Vec<_> = network.elements.iter().filter_map(|spec| spec.element.get::<HopRadio>()).collect();
    assert_eq!(radios.len(), 10);
    assert!(radios.chunks(2).all(|ends| ends[0].0.end == End::Near && ends[1].0.end == End::Far));
    assert_eq!(network.elements[0].element.get::<ElnMarker>(), Some(&ElnMarker(ElnKnowledge::Told)));
    // Endpoints that ignore marks get none.
    assert!(chain(&[], "E2E").elements.iter().all(|spec| spec.element.get::<ElnMarker>().is_none()));
}

#[test]
fn keys_of_shared_media_are_refused_elsewhere() {
    let base = Scenario::builtin("packet-radio-chain").unwrap();
    for (values, what) in [
        ([("links.wired.channel", "radios")], "requires medium = \"shared\""),
        ([("links.hop-1.channel", "7")], "a quoted string"),
        ([("elements.radio-1.threshold", "70000")], "65535"),
        ([("elements.radio-1.exchange", "0 s")], "exchange"),
    ] {
        let error = base.with_overrides(&values).unwrap_err().to_string();
        assert!(error.contains(values[0].0) && error.contains(what), "{error}");
    }
}

/// Three and more hops carry about a third of the traffic of one: of three adjacent hops one sends. Five carry more
/// than if they took turns.
#[test]
fn a_longer_chain_has_a_third() {
    let clean = |host: &str| {
        // A window that fits into the queue.
        let mut values =
            vec![("flows.bulk.to", host), ("flows.bursts.start", "1999 s"), ("tcp.socket_buffer", "6 KiB")];
        let errors = (1..=5).map(|hop| format!("links.hop-{hop}.errors")).collect::<Vec<_>>();
        values.extend(errors.iter().map(|key| (key.as_str(), "{ model = \"none\" }")));
        run(&chain(&values, "E2E"), 1, Recording::Off).report.flows[0].throughput()
    };
    let [one, two, three, five] = ["one", "two", "three", "five"].map(clean);
    assert!((1.8..2.3).contains(&(one / two)), "{one} {two}");
    assert!((2.6..3.6).contains(&(one / three)), "{one} {three}");
    assert!((0.65..1.1).contains(&(five / three)), "{three} {five}");
}

/// Without errors, only stale information causes a wrong verdict of corruption; without a queue that overflows, none
/// causes a wrong verdict of congestion.
#[test]
fn judgements_are_held_against_the_truth() {
    let judged = |values: &[(&str, &str)], scheme: &str| {
        let flows = run(&chain(values, scheme), 3, Recording::Off).report.flows;
        (
            flows.iter().map(|flow| flow.losses_judged).sum::<u64>(),
            flows.iter().map(|flow| flow.judged_right).sum::<u64>(),
        )
    };
    // A window of eight never fills a queue of twelve: all losses are the channel's, and are judged as such.
    let small = [("tcp.socket_buffer", "4 KiB"), ("flows.bursts.start", "1999 s"), ("flows.bulk.size", "1 MiB")];
    let (all, right) = judged(&small, "E2E-ELN");
    // Except if two hops lost consecutive segments, which the later hop takes for one hole of its own.
    assert!(all > 20 && right + 2 >= all, "{right} of {all}");
    // In the unmodified scenario some are the queues'.
    let (all, right) = judged(&[("flows.bulk.size", "1 MiB")], "E2E-ELN");
    assert!(all > 20 && right <= all && 10 * right > 6 * all, "{right} of {all}");
    // A threshold of zero attributes everything to congestion: no verdict about the channel's losses is correct.
    let blind: Vec<_> = (1..=5).map(|hop| format!("elements.radio-{hop}.threshold")).collect();
    let mut values = small.to_vec();
    values.extend(blind.iter().map(|key| (key.as_str(), "0")));
    assert_eq!(judged(&values, "E2E-ELN").1, 0);
}

/// Marks from queue lengths keep the window open: a transfer is faster than without marks.
#[test]
fn marks_from_queue_lengths_help() {
    let rate = |scheme: &str| {
        let network = chain(&[("flows.bulk.to", "two")], scheme);
        (1..=5).map(|seed| run(&network, seed, Recording::Off).report.flows[0].throughput()).sum::<f64>()
    };
    let (marked, unmarked) = (rate("E2E-ELN-RXMT"), rate("E2E"));
    assert!(marked > unmarked, "{marked} {unmarked}");
}

/// SRP delivers everything in both directions, with local repair only.
#[test]
fn srp_brings_everything_both_ways() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap();
    let network = |values: &[(&str, &str)]| {
        let scenario = scenario.with_overrides(values).unwrap();
        scenario.network(Scheme::by_name("SPLIT-SRP").unwrap()).unwrap()
    };
    for (from, to) in [("source", "mobile"), ("mobile", "source")] {
        let network = network(&[("flows.bulk.from", from), ("flows.bulk.to", to), ("flows.bulk.size", "1 MiB")]);
        let report = run(&network, 1, Recording::Off).report;
        assert!(report.flows[0].complete && report.flows[0].received == 1 << 20, "{:?}", report.flows[0]);
        assert!(report.flows[0].sender.local_retransmissions > 0 && report.flows[0].sender.source_retransmissions == 0);
    }
}
