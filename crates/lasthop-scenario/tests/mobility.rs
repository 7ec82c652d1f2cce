//! Tests of a host that moves among base stations: packets that are lost, forwarded or kept, and the integrity of
//! streams.

use lasthop_proto::packet::Body;
use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::trace::{DropReason, What};
use lasthop_sim::{Outcome, Recording, run};
use proptest::prelude::*;

/// Sends a datagram every 2 ms, the nth at 2n ms, from the source over 5 ms to the core, over 1 ms to a base station,
/// and in a transmission of 1 ms to the host. The other wires take 8 us per datagram. The nth one is at the core at 2n
/// + 5.008 ms, at the station at 2n + 6.016 ms, and at the host at 2n + 7.016 ms.
const DATAGRAMS: &str = r#"
limit = "200 ms"
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
app = "on-off"
on = "10 s"
off = "0 s"
rate = "4 Mbps"
packet = "1000 B"
"#;

/// A move from the first station after 50 ms; the host attaches to the second after 60.
const ONE_MOVE: &str = r#"
[mobility]
host = "mobile"
stations = ["cell-1", "cell-2"]
moves = { at = ["50 ms"] }
detection = "4 ms"
registration = "6 ms"
"#;

fn outcome(text: &str, scheme: &Scheme, seed: u64, recording: Recording) -> Outcome {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    run(&scenario.network(scheme).unwrap(), seed, recording)
}

/// Returns the datagrams that reach the host, in order and counted from one, and the report.
fn stream(mobility: &str) -> (Vec<u32>, Report) {
    stream_with(&format!("{ONE_MOVE}{mobility}"))
}

/// Returns the datagrams and the report for other moves.
fn stream_with(mobility: &str) -> (Vec<u32>, Report) {
    stream_of(DATAGRAMS, mobility)
}

/// Returns the datagrams and the report for another network.
fn stream_of(network: &str, mobility: &str) -> (Vec<u32>, Report) {
    let text = format!("{network}{mobility}");
    let Outcome { report, trace } = outcome(&text, &SCHEMES[0], 1, Recording::On);
    let host = |point: u16| trace.points[usize::from(point)].name.starts_with("mobile");
    let arrived = trace.records.iter().filter_map(|record| match record.what {
        What::Received(packet) if host(record.point) => match packet.body {
            Body::Datagram { number } => Some(number + 1),
            _ => None,
        },
        _ => None,
    });
    (arrived.collect(), report)
}

/// Number of the last datagram that arrives before the run ends: 2n + 7.016 <= 200.
const LAST: u32 = 96;

fn all_but(missing: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    (1..=LAST).filter(|number| !missing.contains(number)).collect()
}

/// 21 arrives at 49.016. Routes change at the source's router at 60 ms plus 6 ms, the links' delays from the new
/// station to the source: datagrams that pass the core later go to the new station. 30 passes at 65.008, 31 at 67.008.
#[test]
fn a_hard_handoff_loses_what_goes_to_the_old_station() {
    let (arrived, report) = stream("");
    assert_eq!(arrived, all_but(22..=30));
    let moves = report.mobility.unwrap();
    assert_eq!((moves.handoffs, moves.lost, moves.reordered, moves.repeated), (1, 9, 0, 0));
    // From 49.016 to 2 * 31 + 7.016, except for the excess of the wires' 8.224 us over 8.
    let gap = moves.mean_gap().unwrap();
    assert!(gap.as_nanos().abs_diff(20_000_000) < 10, "{gap}");
}

/// Only the delay from the new station to the core counts: 61 ms. 27 passes the core at 59.008, 28 at 61.008.
#[test]
fn a_hierarchical_handoff_changes_routes_near_the_host() {
    let (arrived, report) = stream("kind = \"hierarchical\"");
    assert_eq!(arrived, all_but(22..=27));
    assert_eq!(report.mobility.unwrap().lost, 6);
}

/// The second station is behind the first, 1 ms away: the nth datagram is at the first at 2n + 6.016 ms, and at the
/// host in the second cell at 2n + 8.024. Routes change 7 ms after 60, near the host 1 ms after: 30 is at the first
/// station at 66.016, 27 at 60.016. Later datagrams pass it. With forwarding, it learns of the second at 61, and sends
/// the datagrams that it kept before all others on the same path.
#[test]
fn a_station_may_be_on_the_way_to_another() {
    let text = DATAGRAMS.replace("[\"core\", \"base-2\"]", "[\"base-1\", \"base-2\"]");
    let until = |missing: std::ops::RangeInclusive<u32>| (1..LAST).filter(|n| !missing.contains(n)).collect::<Vec<_>>();
    for (kind, missing) in [("hard", 22..=30), ("hierarchical", 22..=27), ("forwarding", 0..=0), ("multicast", 0..=0)] {
        let (mut arrived, report) = stream_of(&text, &format!("{ONE_MOVE}kind = \"{kind}\""));
        // The last ones arrive around the end of the run.
        arrived.retain(|number| *number < LAST);
        let lost = u64::from(missing.end() - missing.start()) + u64::from(*missing.start() > 0);
        assert_eq!((arrived, report.mobility.unwrap().lost), (until(missing), lost), "{kind}");
    }
}

/// Datagrams in flight from the core to the old station are lost even if routes change at once: 22 to 26 arrive there
/// by 58.016, and 27, at the core at 59.008, does later.
#[test]
fn a_route_update_may_take_no_time() {
    let (arrived, _) = stream("route_update = \"0 s\"");
    assert_eq!(arrived, all_but(22..=27));
}

/// The old station learns at 62 ms of the new one, 2 ms away, and has kept 22 to 27 by then. It forwards 28 to 30 as
/// they arrive. 30 is at the new station at 68.032, after 31, which took the new route, at 68.016.
#[test]
fn a_forwarding_station_loses_nothing_and_changes_the_order() {
    let (arrived, report) = stream("kind = \"forwarding\"");
    let mut expected = all_but(30..=30);
    expected.insert(30, 30);
    assert_eq!(arrived, expected);
    let moves = report.mobility.unwrap();
    assert_eq!((moves.lost, moves.reordered, moves.repeated), (0, 1, 0));
    // 22 leaves the old station at 62, and takes 2 ms, two transmissions of 8 us on the wires, and 1 ms in the cell.
    let gap = moves.mean_gap().unwrap();
    assert!(gap.as_nanos().abs_diff(65_016_000 - 49_016_000) < 500, "{gap}");
}

/// Its buffer holds 22 and 23; 24 to 27 are dropped.
#[test]
fn a_forwarding_station_keeps_no_more_than_it_may() {
    for buffer in ["2 packets", "2056 B", "2999 B"] {
        let (mut arrived, report) = stream(&format!("kind = \"forwarding\"\nbuffer = \"{buffer}\""));
        arrived.sort_unstable();
        assert_eq!(arrived, all_but(24..=27), "{buffer}");
        assert_eq!(report.mobility.unwrap().lost, 4, "{buffer}");
    }
}

/// The new station receives 26 at 58.016, and 27 at 60.016 after the host has attached. The host reports that it has
/// received the kept packets up to 21.
#[test]
fn neighbours_that_keep_copies_send_what_is_missing_in_order() {
    let (arrived, report) = stream("kind = \"multicast\"");
    assert_eq!(arrived, all_but(0..=0));
    let moves = report.mobility.unwrap();
    assert_eq!((moves.handoffs, moves.lost, moves.reordered, moves.repeated), (1, 0, 0, 0));
    // 22 leaves the new station at 60.
    let gap = moves.mean_gap().unwrap();
    assert!(gap.as_nanos().abs_diff(61_000_000 - 49_016_000) < 500, "{gap}");
}

/// The neighbour keeps the latest two: 25 and 26 at 60 ms. So 22 to 24 are lost. The host's report then matches none,
/// and nothing is duplicated.
#[test]
fn neighbours_keep_the_latest() {
    let (arrived, report) = stream("kind = \"multicast\"\nbuffer = \"2 packets\"");
    assert_eq!(arrived, all_but(22..=24));
    assert_eq!(report.mobility.unwrap().lost, 3);
}

/// The cell takes 4 ms per datagram, and one arrives each 3.2 ms: the nth at 3.2n + 6.016 ms. Its transmission ends at
/// 9.216 + 4n, that of the tenth at 49.216. At 49.9 the eleventh is on the air, and only neighbours have another copy;
/// 12 and 13 are queued.
#[test]
fn what_waits_is_forwarded_and_what_is_on_the_air_is_not() {
    let slow = DATAGRAMS.replace("8224 kbps", "2056 kbps").replace("rate = \"4 Mbps\"", "rate = \"2500 kbps\"");
    for (kind, lost) in [("hard", None), ("forwarding", Some(1)), ("multicast", Some(0))] {
        let text = format!("{slow}{ONE_MOVE}kind = \"{kind}\"").replace("50 ms", "49900 us");
        let Outcome { report, trace } = outcome(&text, &SCHEMES[0], 1, Recording::On);
        let moves = report.mobility.unwrap();
        match lost {
            Some(lost) => assert_eq!(moves.lost, lost, "{kind}"),
            None => assert!(moves.lost > 1, "{kind}"),
        }
        let dropped =
            |record: &&lasthop_sim::trace::Record| matches!(record.what, What::Dropped(_, DropReason::Handoff));
        assert!(trace.records.iter().filter(dropped).count() as u64 >= moves.lost);
        assert_eq!(moves.repeated, 0, "{kind}");
    }
}

/// A second move at 55 ms, before the first is complete: the host attaches to the third station at 65 ms, and never to
/// the second. The old station learns of the third.
#[test]
fn a_move_in_the_middle_of_a_handoff_goes_on_from_there() {
    let more = "[links.wire-3]\nbetween = [\"core\", \"base-3\"]\nrate = \"1 Gbps\"\ndelay = \"1 ms\"\n\
                [links.cell-3]\nbetween = [\"base-3\", \"mobile\"]\nrate = \"8224 kbps\"\ndelay = \"0 s\"\n";
    let moves = ONE_MOVE.replace("\"50 ms\"", "\"50 ms\", \"55 ms\"").replace("\"cell-2\"]", "\"cell-2\", \"cell-3\"]");
    let datagrams = DATAGRAMS.replace("base-2 = {} }", "base-2 = {}, base-3 = {} }");
    let text = |kind: &str| {
        let flows = datagrams.find("[flows").unwrap();
        format!("{}{more}{}{moves}kind = \"{kind}\"", &datagrams[..flows], &datagrams[flows..])
    };
    for kind in ["forwarding", "multicast"] {
        let report = outcome(&text(kind), &SCHEMES[0], 1, Recording::Off).report;
        let moves = report.mobility.unwrap();
        assert_eq!((moves.handoffs, moves.lost, moves.repeated), (1, 0, 0), "{kind}");
        assert_eq!(report.flows[0].received, 972 * u64::from(LAST), "{kind}");
    }
    // Until 71 ms, when routes have changed: 22 to 32, of which the last is at the core at 69.008; 33 is there at
    // 71.008.
    let report = outcome(&text("hard"), &SCHEMES[0], 1, Recording::Off).report;
    assert_eq!(report.mobility.unwrap().lost, 11);
}

/// The host returns to its station before it has attached to another: the kept packets are sent there.
#[test]
fn a_host_that_turns_back_finds_what_was_kept() {
    let moves = ONE_MOVE.replace("\"50 ms\"", "\"50 ms\", \"55 ms\"");
    for kind in ["forwarding", "multicast"] {
        let text = format!("{DATAGRAMS}{moves}kind = \"{kind}\"");
        let report = outcome(&text, &SCHEMES[0], 1, Recording::Off).report;
        let moves = report.mobility.unwrap();
        assert_eq!((moves.handoffs, moves.lost, moves.reordered, moves.repeated), (1, 0, 0, 0), "{kind}");
        assert_eq!(report.flows[0].received, 972 * u64::from(LAST), "{kind}");
    }
}

/// Returns transfers in both directions, over lossy cells.
fn transfers(mobility: &str) -> String {
    let errors = "errors = { model = \"uniform\", frame_loss = \"1 %\" }\n";
    let cell = |number: u32| {
        format!(
            "[links.wire-{number}]\nbetween = [\"core\", \"base-{number}\"]\nrate = \"10 Mbps\"\ndelay = \"1 ms\"\n\
             [links.cell-{number}]\nbetween = [\"base-{number}\", \"mobile\"]\nrate = \"4 Mbps\"\ndelay = \"1 ms\"\n\
             medium = \"half-duplex\"\n{errors}"
        )
    };
    format!(
        "limit = \"600 s\"\nhosts = {{ source = {{}}, mobile = {{}} }}\n\
         routers = {{ core = {{}}, base-1 = {{}}, base-2 = {{}}, base-3 = {{}} }}\n\
         [links.far]\nbetween = [\"source\", \"core\"]\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\n{}{}{}\
         [flows]\ndown = {{ from = \"source\", to = \"mobile\", size = \"300 kB\" }}\n\
         up = {{ from = \"mobile\", to = \"source\", size = \"100 kB\" }}\n\
         [base_station]\nrouter = \"base-1\"\nlink = \"cell-1\"\n\
         [mobility]\nhost = \"mobile\"\nstations = [\"cell-1\", \"cell-2\", \"cell-3\"]\n{mobility}",
        cell(1),
        cell(2),
        cell(3)
    )
}

const KINDS: [&str; 4] = ["hard", "forwarding", "multicast", "hierarchical"];

/// Every scheme delivers every byte, once and in order, through any handoffs; two runs are equal. With moves twice as
/// frequent some connections are aborted, as they should: handoffs interrupt one window after another while timers
/// double.
#[test]
fn streams_stay_whole_under_every_scheme() {
    for (number, scheme) in SCHEMES.iter().enumerate() {
        for (kind, extra) in KINDS.into_iter().zip(["", "soft_state = \"mirrored\"", "link_session = \"moved\"", ""]) {
            let moves = ["{ mean = \"500 ms\" }", "{ every = \"470 ms\" }"][number % 2];
            let text = transfers(&format!("moves = {moves}\nkind = \"{kind}\"\nstate_setup = \"50 ms\"\n{extra}"));
            let scenario = Scenario::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
            let network = scenario.network(scheme).unwrap();
            let report = run(&network, 7, Recording::Off).report;
            let what = format!("{} {kind} {report:?}", scheme.name);
            assert_eq!([report.flows[0].received, report.flows[1].received], [300_000, 100_000], "{what}");
            assert!(report.flows.iter().all(|flow| flow.complete && !flow.aborted), "{what}");
            assert!(report.mobility.unwrap().handoffs > 0, "{what}");
            assert_eq!(run(&network, 7, Recording::Off).report, report, "{}", scheme.name);
        }
    }
}

/// Generates a timetable with handoffs of any duration and kind, and buffers of any size at the stations.
fn any_moves(times: std::ops::Range<u32>) -> impl Strategy<Value = (&'static str, String)> {
    let moves = proptest::collection::btree_set(times, 0..6);
    let spans = (0_u32..20, 0_u32..20, proptest::option::of(0_u32..10));
    (moves, proptest::sample::select(&KINDS[..]), spans, 1_u32..40).prop_map(|(moves, kind, spans, room)| {
        let at: Vec<_> = moves.into_iter().map(|at| format!("\"{at} ms\"")).collect();
        let (detection, registration, update) = spans;
        let update = update.map(|update| format!("route_update = \"{update} ms\"\n")).unwrap_or_default();
        let keeps = matches!(kind, "forwarding" | "multicast");
        let buffer = if keeps { format!("buffer = \"{room} packets\"\n") } else { String::new() };
        let text = format!(
            "moves = {{ at = [{}] }}\nkind = \"{kind}\"\ndetection = \"{detection} ms\"\n\
             registration = \"{registration} ms\"\n{update}{buffer}",
            at.join(", ")
        );
        (kind, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tests any timetable: the number of duplicates equals that of the report, the only missing datagrams of those
    /// sent in time are the ones reported lost, and datagrams are reordered only if stations keep packets.
    #[test]
    fn of_datagrams_nothing_is_unaccounted_for((kind, moves) in any_moves(1..150)) {
        let mobility = format!("[mobility]\nhost = \"mobile\"\nstations = [\"cell-1\", \"cell-2\"]\n{moves}");
        let (mut arrived, report) = stream_with(&mobility);
        let counted = report.mobility.unwrap();
        if kind == "hard" || kind == "hierarchical" {
            prop_assert!(arrived.is_sorted(), "{arrived:?}");
            prop_assert_eq!((counted.reordered, counted.repeated), (0, 0));
        }
        let all = arrived.len() as u64;
        arrived.sort_unstable();
        arrived.dedup();
        let once = arrived.len() as u64;
        prop_assert_eq!(all - once, counted.repeated, "{:?}", counted);
        // The last datagrams may still be in flight or wait for the end of a handoff.
        prop_assert!(once + counted.lost <= 100 && once + counted.lost >= u64::from(LAST) - 40, "{} {:?}", once, counted);
    }

    /// Streams arrive complete, once and in order, under any scheme and timetable.
    #[test]
    fn streams_stay_whole_through_any_handoffs(
        (_, moves) in any_moves(1..3000),
        scheme in 0..SCHEMES.len(),
        seed in 0_u64..100,
    ) {
        let Outcome { report, .. } = outcome(&transfers(&moves), &SCHEMES[scheme], seed, Recording::Off);
        prop_assert_eq!([report.flows[0].received, report.flows[1].received], [300_000, 100_000]);
        prop_assert!(report.flows.iter().all(|flow| flow.complete && !flow.aborted));
    }
}

/// Copies reach the application once, also with QUIC, whose endpoints are another implementation.
#[test]
fn quic_stays_whole() {
    for kind in KINDS {
        let text = transfers(&format!("moves = {{ every = \"500 ms\" }}\nkind = \"{kind}\""));
        let text = text.replace("size = \"300 kB\"", "size = \"300 kB\", app = \"quic\"");
        let report = outcome(&text, &SCHEMES[0], 3, Recording::Off).report;
        assert_eq!((report.flows[0].received, report.flows[0].complete), (300_000, true), "{kind}");
    }
}

/// A host that never moves behaves as with a single link: all measurements and records are equal.
#[test]
fn without_a_move_nothing_changes() {
    for kind in KINDS {
        for scheme in &SCHEMES {
            let still = transfers(&format!("moves = {{ at = [] }}\nkind = \"{kind}\""));
            let moves = outcome(&still, scheme, 5, Recording::On);
            let plain = still[..still.find("[mobility]").unwrap()].to_owned();
            let cut = |text: String, name: &str| {
                let begin = text.find(&format!("[links.{name}]")).unwrap();
                let end = text[begin + 1..].find("\n[").unwrap() + begin + 2;
                text[..begin].to_owned() + &text[end..]
            };
            let plain = outcome(&cut(cut(plain, "cell-2"), "cell-3"), scheme, 5, Recording::On);
            let what = format!("{} {kind}", scheme.name);
            assert_eq!(moves.report.flows, plain.report.flows, "{what}");
            assert_eq!(moves.report.links[2], plain.report.links[2], "{what}");
            let moved = moves.report.mobility.unwrap();
            assert_eq!((moved.handoffs, moved.gaps, moved.lost), (0, 0, 0), "{what}");
            if kind == "multicast" {
                // The other stations have copies.
                continue;
            }
            assert_eq!(moves.report.frames, plain.report.frames, "{what}");
            let whats = |outcome: &Outcome| {
                outcome.trace.records.iter().map(|record| (record.time, record.what)).collect::<Vec<_>>()
            };
            assert_eq!(whats(&moves), whats(&plain), "{what}");
        }
    }
}

/// A split connection's state is sent over the wire: at least the two sockets, at most these and the relay's buffer in
/// both directions.
#[test]
fn a_split_connection_waits_for_its_state() {
    let gap = |scheme: &str, setup: &str| {
        let text =
            transfers(&format!("moves = {{ at = [\"400 ms\"] }}\nkind = \"forwarding\"\nstate_setup = \"{setup}\""));
        let text = text.replace("frame_loss = \"1 %\"", "frame_loss = \"0 %\"").replace("up = {", "# {");
        let report = outcome(&text, Scheme::by_name(scheme).unwrap(), 1, Recording::Off).report;
        assert_eq!(report.flows[0].received, 300_000);
        report.mobility.unwrap().mean_gap().unwrap()
    };
    let end_to_end = gap("E2E", "200 ms");
    assert!(end_to_end < Duration::from_millis(60), "{end_to_end}");
    let bare = gap("SPLIT", "0 s");
    let wire = |bytes: u64| Duration::from_nanos(bytes * 800);
    assert!(bare > end_to_end && bare < end_to_end + wire(2 * 512 + 2 * 65_536), "{bare}");
    let split = gap("SPLIT", "200 ms");
    assert!(split >= bare + Duration::from_millis(190), "{split} {bare}");
}

/// Mirrored soft state continues to be used.
#[test]
fn a_mirrored_cache_repairs_what_the_old_station_knew_of() {
    let snoop = Scheme::by_name("LL-TCP-AWARE").unwrap();
    let report = |extra: &str| {
        let text = transfers(&format!("moves = {{ every = \"150 ms\" }}\nkind = \"multicast\"\n{extra}"));
        outcome(&text.replace("1 %", "5 %"), snoop, 2, Recording::Off).report
    };
    let (lost, mirrored) = (report(""), report("soft_state = \"mirrored\""));
    assert_ne!(lost.flows[0], mirrored.flows[0]);
    assert!(lost.flows.iter().chain(&mirrored.flows).all(|flow| flow.complete));
}

/// Useful bytes are credited to the cells that they crossed.
#[test]
fn bytes_count_for_the_cell_that_carried_them() {
    let text = transfers("moves = { every = \"300 ms\" }\nkind = \"forwarding\"");
    let report = outcome(&text, &SCHEMES[0], 4, Recording::Off).report;
    let cells = [2, 4, 6].map(|link| report.links[link]);
    for (side, bytes) in [(0, 300_000), (1, 100_000)] {
        let useful: u64 = cells.iter().map(|cell| cell[side].useful).sum();
        assert_eq!(useful, bytes);
    }
    assert!(cells.iter().all(|cell| cell[0].useful > 0));
}

#[track_caller]
fn refused(mobility: &str, expected: &str) {
    let text = transfers(mobility);
    let error = Scenario::parse("test.toml", &text).expect_err("a mistake to be found").to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains('\n') && error.starts_with("test.toml"), "{error}");
}

#[test]
fn mistakes_are_named() {
    refused("", "mobility.moves");
    refused("moves = {}", "give one of the three");
    refused("moves = { every = \"1 s\", mean = \"1 s\" }", "give one of the three");
    refused("moves = { every = \"10 us\" }", "a time of 1 ms or more");
    refused(
        "moves = { at = [\"2 s\", \"1 s\"] }",
        "cannot be an array (\"1 s\" follows \"2 s\"); give at most 10000 times, each later",
    );
    refused("moves = { at = [\"2 s\", \"2 s\"] }", "\"2 s\" follows \"2 s\"");
    refused("moves = { evry = \"1 s\" }", "every");
    refused("moves = { every = \"1 s\" }\nkind = \"soft\"", "\"hard\"");
    refused("moves = { every = \"1 s\" }\nbuffer = \"5 packets\"", "buffer packets");
    refused("moves = { every = \"1 s\" }\nlatency = \"5 ms\"", "latency");
    let with = |from: &str, to: &str| {
        let text = transfers("moves = { every = \"1 s\" }").replace(from, to);
        Scenario::parse("test.toml", &text).expect_err("a mistake to be found").to_string()
    };
    let stations = "stations = [\"cell-1\", \"cell-2\", \"cell-3\"]";
    assert!(with(stations, "stations = [\"cell-1\", \"cell-2\", \"cell-3\", \"cell-4\"]").contains("cell-4"));
    assert!(with(stations, "stations = [\"cell-1\", \"cell-2\"]").contains("\"mobile\" already has a link"));
    assert!(
        with(stations, "stations = [\"cell-1\", \"cell-2\", \"cell-3\", \"wire-1\"]").contains("\"wire-1\" connects")
    );
    assert!(with(stations, "stations = []").contains("mobility.stations"));
    assert!(with(stations, "stations = [\"cell-1\"]").contains("mobility.stations"));
    assert!(with("host = \"mobile\"", "host = \"base-1\"").contains("mobility.host"));
    assert!(with("host = \"mobile\"", "host = \"source\"").contains("\"cell-1\" connects"));
}

/// The text of `explain` has the same meaning.
#[test]
fn explained_scenarios_are_the_same() {
    for moves in ["{ every = \"1 s\" }", "{ at = [\"1 s\", \"1500 ms\"] }", "{ mean = \"2 s\" }"] {
        for kind in KINDS {
            let text = transfers(&format!("moves = {moves}\nkind = \"{kind}\"\nroute_update = \"3 ms\""));
            let scenario = Scenario::parse("test.toml", &text).unwrap();
            let again = Scenario::parse("again.toml", &scenario.explain()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again, scenario);
        }
    }
}
