//! Small captures of which it is known what happened ([`cases/README.md`](cases/README.md)).

use std::fs::File;
use std::path::{Path, PathBuf};

use lasthop_diagnose::loss::Needless;
use lasthop_diagnose::rounds::Factor;
use lasthop_diagnose::words::lines;
use lasthop_diagnose::{At, Direction, Options, Report, Vantage, diagnose};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn report(name: &str) -> Report {
    let name = if name.ends_with(".gz") { name.to_owned() } else { format!("{name}.gz") };
    let file = File::open(folder().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    diagnose(file, &Options::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The direction with most data.
fn direction(report: &Report) -> &Direction {
    report.with_most_data(None).expect("a flow with data").1
}

/// Returns the complete text on a flow.
fn said(report: &Report) -> String {
    let (flow, direction) = report.with_most_data(None).expect("a flow with data");
    [report.missing(), lines(flow, direction)].concat().join("\n")
}

fn share(direction: &Direction, factor: Factor) -> f64 {
    direction.limits.iter().find(|limit| limit.factor == factor).map_or(0.0, |limit| limit.share)
}

#[test]
fn each_capture_has_lost_what_it_should() {
    let expected = std::fs::read_to_string(folder().join("expected.csv")).unwrap();
    let mut lines = expected.lines();
    assert_eq!(lines.next(), Some("file,lost_least,lost_most,limit"));
    let mut checked = 0;
    for line in lines {
        let [file, least, most, limit] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let report = report(file);
        assert_eq!(report.damage, None, "{file}");
        let lost: u64 =
            report.flows.iter().flat_map(|flow| &flow.directions).map(|direction| direction.causes.lost).sum();
        let direction = direction(&report);
        let range = least.parse::<u64>().unwrap()..=most.parse().unwrap();
        assert!(range.contains(&lost), "{file}: {lost} lost\n{}", said(&report));
        assert_eq!(
            direction.causes.corruption + direction.causes.congestion + direction.causes.unknown,
            direction.causes.lost,
            "{file}"
        );
        if limit == "window" {
            assert!(share(direction, Factor::ReceiveWindow) > 0.3, "{file}: {:?}", direction.limits);
        }
        checked += 1;
    }
    assert_eq!(checked, 31);
}

#[test]
fn copies_of_a_mirror_port_are_no_retransmissions() {
    let report = report("span-copies-same-ttl.pcapng");
    let direction = direction(&report);
    assert_eq!((direction.packets, direction.resent.retransmissions, direction.resent.needless), (30, 0, 0));
    assert!(direction.rtt_ms.is_some_and(|rtt| (rtt - 20.0).abs() < 0.2), "{:?}", direction.rtt_ms);
    let kinds = report.copy_kinds;
    assert_eq!((kinds.packets, kinds.mirrored, kinds.all()), (report.packets / 2, report.packets / 2, report.copies));
    assert!(said(&report).contains("captured twice (mirror port)"), "{}", said(&report));
}

/// Two mirrors at two hops: each packet four times.
#[test]
fn copies_at_several_hops_are_told_apart() {
    let report = report("span-copies-two-hops.pcapng");
    let direction = direction(&report);
    assert_eq!((direction.packets, direction.resent.retransmissions), (30, 0));
    let kinds = report.copy_kinds;
    assert_eq!((kinds.packets * 4, kinds.packets * 3), (report.packets, kinds.all()));
    assert!(kinds.hops >= kinds.packets && kinds.mirrored > 0, "{kinds:?}");
}

#[test]
fn what_a_closed_window_discards_is_no_loss() {
    let report = report("receiver-closed-its-window.pcapng");
    let direction = direction(&report);
    // 21 packets lie beyond the window's edge; the first of them came before the acknowledgment that closed it.
    assert_eq!((direction.window.discarded, direction.window.discarded_closed), (21, 20), "{}", said(&report));
    assert_eq!((direction.window.zero_windows, direction.resent.timeouts), (1, 0));
    assert!(said(&report).contains("discarded"), "{}", said(&report));
}

#[test]
fn window_probes_are_no_losses() {
    let report = report("zero-window-probes.pcapng");
    let direction = direction(&report);
    assert_eq!(
        (direction.window.window_probes, direction.window.zero_windows, direction.packets),
        (4, 4, 40),
        "{}",
        said(&report)
    );
    assert_eq!(direction.limit, Some(Factor::ReceiveWindow), "{:?}", direction.limits);
    assert_eq!((direction.bytes, direction.unseen_bytes), (56_000, 0));
}

/// No timestamps, and packets up to 40 ms late: identifications, which count up, prove that nothing was retransmitted.
#[test]
fn identifications_prove_that_packets_were_overtaken() {
    let report = report("overtaken-late.pcapng");
    let direction = direction(&report);
    assert_eq!(
        (direction.reordered, direction.resent.retransmissions, direction.resent.needless),
        (51, 0, 0),
        "{}",
        said(&report)
    );
    assert!(direction.limits.iter().all(|limit| limit.factor != Factor::AfterUnknown), "{:?}", direction.limits);
}

#[test]
fn a_loss_that_is_repaired_in_pieces_is_one() {
    let report = report("one-loss-resent-in-three.pcapng");
    let direction = direction(&report);
    assert_eq!((direction.losses.len(), direction.losses[0].bytes), (1, 1400), "{}", said(&report));
}

/// A capture that the user declares to be the receiver's contains only packets that have arrived.
#[test]
fn at_the_receiver_what_was_captured_has_arrived() {
    let file = File::open(folder().join("one-loss-resent-in-three.pcapng.gz")).unwrap();
    let options = Options { at: At::Given(Vantage::Receiver), ..Options::default() };
    let report = diagnose(file, &options).unwrap();
    let direction = direction(&report);
    assert_eq!((direction.causes.lost, direction.losses[0].needless), (0, Some(Needless::Captured)));
}

#[test]
fn a_path_mtu_black_hole_is_named() {
    let report = report("pmtu-black-hole.pcapng");
    let direction = direction(&report);
    assert_eq!(
        (direction.causes.path_mtu, direction.causes.corruption, direction.causes.congestion),
        (direction.causes.lost, 0, 0)
    );
    assert_eq!(direction.limit, Some(Factor::PathMtu), "{:?}", direction.limits);
    assert!(said(&report).contains("path-MTU black hole"), "{}", said(&report));
}

/// The same flow in every encapsulation: what is said of it is the same.
#[test]
fn encapsulations_change_nothing() {
    for entry in std::fs::read_dir(folder().join("encap")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let report = report(&format!("encap/{name}"));
        assert_eq!((report.unread, report.copies), (0, 0), "{name}: {:?}", report.unread_kinds);
        let direction = direction(&report);
        assert_eq!((direction.packets, direction.resent.retransmissions, direction.causes.lost), (25, 1, 1), "{name}");
    }
}
