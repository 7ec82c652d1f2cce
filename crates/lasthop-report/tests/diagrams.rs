//! Tests of time-sequence diagrams of recorded runs.

use lasthop_proto::packet::{Cause, FlowId};
use lasthop_report::diagram::{Diagram, Fate, Kind, busiest_flow};
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;
use lasthop_sim::trace::{Trace, What};
use lasthop_sim::{Recording, run};

/// Records a transfer under TCP Reno with some losses.
fn recorded() -> (Network, Trace) {
    let scenario = Scenario::builtin("wavelan-lan").expect("it is built in");
    let scenario = scenario.with_overrides(&[("flows.bulk.size", "500 KiB"), ("scheme", "E2E")]).expect("it holds");
    let network = scenario.network(scenario.scheme()).expect("it is a network");
    let trace = run(&network, 5, Recording::On).trace;
    (network, trace)
}

#[test]
fn each_packet_sent_is_an_arrow_and_each_ends_where_the_record_says() {
    let (network, trace) = recorded();
    let diagram = Diagram::of(&network, &trace, FlowId(0));
    assert_eq!(diagram.lanes, ["source", "base", "mobile"]);
    let count = |of: fn(&What) -> bool| trace.records.iter().filter(|record| of(&record.what)).count();
    assert_eq!(diagram.packets.len(), count(|what| matches!(what, What::Sent(_))));
    let fate = |fate: Fate| diagram.packets.iter().filter(|arrow| arrow.fate == fate).count();
    assert_eq!(fate(Fate::Lost), count(|what| matches!(what, What::Dropped(..))));
    assert!(fate(Fate::Lost) > 0);
    assert_eq!(fate(Fate::Arrived), count(|what| matches!(what, What::Received(_))));
    for arrow in &diagram.packets {
        assert!(arrow.sent <= arrow.ended && arrow.ended <= diagram.end, "{arrow:?}");
        assert_eq!(arrow.from.abs_diff(arrow.to), 1, "{arrow:?}");
    }
    assert_eq!(busiest_flow(&trace), FlowId(0));
}

#[test]
fn what_is_sent_again_and_what_is_acknowledged_twice_is_told_apart() {
    let (network, trace) = recorded();
    let diagram = Diagram::of(&network, &trace, FlowId(0));
    let of = |kind: Kind| diagram.packets.iter().filter(move |arrow| arrow.kind == kind);
    assert!(of(Kind::SourceRetransmission).all(|arrow| arrow.cause.is_source_retransmission()));
    assert!(of(Kind::SourceRetransmission).count() > 0);
    // Positions in the stream: the first data is byte 0, and retransmitted data was sent before.
    assert_eq!(of(Kind::Data).next().map(|arrow| arrow.number), Some(0));
    for again in of(Kind::SourceRetransmission) {
        assert!(of(Kind::Data).any(|arrow| arrow.number == again.number && arrow.sent < again.sent), "{again:?}");
    }
    assert!(of(Kind::DuplicateAck).count() >= 3);
    for arrow in of(Kind::Handshake) {
        assert_eq!(arrow.cause, Cause::Handshake);
    }
    assert!(diagram.notes.iter().any(|note| note.event == "recovery-entered" && note.lane == 0));
}

#[test]
fn a_flow_that_does_not_exist_has_no_lanes() {
    let (network, trace) = recorded();
    assert!(Diagram::of(&network, &trace, FlowId(9)).lanes.is_empty());
    assert!(Diagram::of(&network, &Trace::default(), FlowId(0)).packets.is_empty());
}
