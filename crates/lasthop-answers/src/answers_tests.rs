use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::to_value;

use super::*;
use crate::Catalogue;

/// Creates a plan on a testbed of the 1997 study, unless the query names another scenario.
fn plan(query: &str) -> Plan {
    let query = if query.contains("scenario=") { query.to_owned() } else { format!("scenario=wavelan-lan&{query}") };
    Plan::read(&Catalogue::new(&[]).unwrap(), &query).unwrap()
}

#[test]
fn a_few_runs_of_all_schemes_come_first_and_then_better_numbers() {
    let answer = |query: &str, extent: Extent| {
        let mut lines = Vec::new();
        compare(&plan(query), extent, 1, &|| false, |line| lines.push(line)).unwrap();
        lines
    };
    let runs = |lines: &[Value]| lines.iter().filter_map(|line| line["runs"].as_u64()).collect::<Vec<_>>();
    let first = answer("size=100+KiB&runs=8", Extent::First);
    assert_eq!(runs(&first), [3; 12]);
    assert!(first[1]["measures"]["throughput"]["ci95"].is_f64());
    // There are no further runs.
    let mut few = answer("size=100+KiB&runs=2", Extent::First);
    few.retain(|line| line["without_loss"].is_null());
    assert_eq!(few, answer("size=100+KiB&runs=2", Extent::All));
    let lines = answer("size=100+KiB&runs=8", Extent::All);
    assert!(lines[0]["state"]["controls"].is_array());
    assert_eq!(lines.last().unwrap()["done"], true);
    assert_eq!(runs(&lines), [[7; 12], [8; 12]].concat());
}

#[test]
fn what_the_path_carries_without_loss_comes_with_the_first_numbers() {
    let most = |query: &str| {
        let mut most = None;
        compare(&plan(query), Extent::First, 1, &|| false, |line| {
            most = line["without_loss"]["throughput"].as_f64().or(most)
        })
        .unwrap();
        most.unwrap()
    };
    let query = "size=400+KiB&runs=1&schemes=E2E";
    let lossless = most(&format!("{query}&loss=0"));
    // The paper's testbed achieves 1.5 Mbps over 2 Mbps of half-duplex radio.
    assert!((1.3..1.5).contains(&lossless), "{lossless}");
    for loss in ["1+%25", "20+%25", "5+%25&burst=4"] {
        assert_eq!(most(&format!("{query}&loss={loss}")), lossless, "{loss}");
    }
}

#[test]
fn schemes_that_the_scenario_makes_the_same_are_marked_and_computed_once() {
    let query = "size=100+KiB&runs=2&schemes=E2E,E2E-IETF-SACK,LL-TCP-AWARE,E2E-NEWRENO&set=tcp.recovery%3D%22sack%22";
    let mut lines = Vec::new();
    compare(&plan(query), Extent::First, 1, &|| false, |line| lines.push(line)).unwrap();
    let remarks = lines[0]["state"]["remarks"].as_array().unwrap().clone();
    let told = |name: &str| remarks.iter().find(|remark| remark["scheme"] == name).cloned();
    // The scheme that matches its name represents the others.
    assert!(told("E2E-IETF-SACK").is_none());
    for (name, same_as) in
        [("E2E", Some("E2E-IETF-SACK")), ("E2E-NEWRENO", Some("E2E-IETF-SACK")), ("LL-TCP-AWARE", None)]
    {
        let remark = told(name).unwrap();
        assert_eq!(
            (remark["same_as"].as_str(), remark["recovery_of"].as_str()),
            (same_as, Some("E2E-IETF-SACK")),
            "{name}"
        );
    }
    let measures = |name: &str| lines.iter().find(|line| line["scheme"] == name).unwrap()["measures"].clone();
    assert_eq!(measures("E2E"), measures("E2E-IETF-SACK"));
    assert_eq!(measures("E2E-NEWRENO"), measures("E2E-IETF-SACK"));
    assert_ne!(measures("LL-TCP-AWARE"), measures("E2E-IETF-SACK"));
    assert!(plan("schemes=E2E,E2E-IETF-SACK,LL").state().remarks.is_empty());
}

/// Schemes with modern endpoints differ by congestion control, at the ends or at the relay.
#[test]
fn modern_schemes_are_compared_and_marked() {
    let today = plan("scenario=farm-radio&runs=2&size=100+KiB");
    let names: Vec<_> = today.schemes.iter().map(|scheme| scheme.name).collect();
    assert_eq!(names, ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3", "SNOOP", "SPLIT-BBR"]);
    assert_eq!(today.shown.name, "SNOOP");
    assert!(today.state().remarks.is_empty(), "{:?}", today.state().remarks);
    let remarks = |set: &str| plan(&format!("scenario=farm-radio&runs=2&size=100+KiB&{set}")).state().remarks;
    let told = |remarks: &[crate::plan::Remark]| -> Vec<(&'static str, Option<&'static str>, Option<String>)> {
        remarks.iter().map(|remark| (remark.scheme, remark.same_as, remark.set_by.clone())).collect()
    };
    let key = || Some("tcp.congestion".to_owned());
    let cubic = remarks("set=tcp.congestion%3D%22cubic%22");
    let expected = [("E2E-BBR", Some("E2E-CUBIC"), key()), ("E2E-BBR3", Some("E2E-CUBIC"), key())];
    assert_eq!(told(&cubic), expected);
    assert!(cubic.iter().all(|remark| remark.recovery_of == Some("E2E-CUBIC")));
    let relay = remarks("set=base_station.split.wireless.congestion%3D%22reno%22");
    assert_eq!(told(&relay), [("SPLIT-BBR", None, Some("base_station.split.wireless.congestion".to_owned()))]);
}

#[test]
fn nobody_waits_so_nothing_is_computed() {
    let asked = AtomicUsize::new(0);
    let gone = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
    let mut lines = Vec::new();
    // This would be hours of work.
    compare(&plan("size=64+MiB&runs=1000"), Extent::All, 2, &gone, |line| lines.push(line)).unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["done"], false);
    assert!(trace(&plan("size=64+MiB"), &|| true).unwrap().is_none());
}

#[test]
fn a_run_of_the_tcp_aware_hop_shows_what_it_does() {
    let shown = trace(&plan("size=500+KiB&scheme=LL-TCP-AWARE"), &|| false).unwrap().unwrap();
    assert_eq!(shown.diagram.lanes, ["source", "base", "mobile"]);
    let shown = to_value(&shown).unwrap();
    assert_eq!((shown["scheme"].as_str(), shown["cut"].as_bool()), (Some("LL-TCP-AWARE"), Some(false)));
    let packets = shown["diagram"]["packets"].as_array().unwrap();
    let count = |field: usize, name: &str| packets.iter().filter(|packet| packet[field] == name).count();
    assert!(count(4, "local-retransmission") > 0 && count(5, "lost") > 0);
    // Each duplicate acknowledgment that the report counts as suppressed ends at the base station in the diagram.
    let report = {
        let plan = plan("size=500+KiB&scheme=LL-TCP-AWARE");
        let network = plan.scenario.network(plan.shown).unwrap();
        lasthop_sim::run(&network, run_seed(1, 0), lasthop_sim::Recording::Off).report
    };
    assert_eq!(count(5, "suppressed") as u64, report.flows[0].dupacks_suppressed);
    assert!(report.flows[0].dupacks_suppressed > 0);
    assert_eq!(count(4, "local-retransmission") as u64, report.flows[0].sender.local_retransmissions);
    let drawn = &shown["sequence"]["series"][1];
    assert_eq!(drawn["retransmitted"].as_array().unwrap().len() as u64, report.flows[0].sender.local_retransmissions);
    // No packet arrives before it is sent, or goes back to its own lane.
    for packet in packets {
        assert!(packet[1].as_u64() >= packet[0].as_u64() && packet[2] != packet[3], "{packet}");
    }
}

/// The path is the same, but the preset of 1997 applies to the schemes of the study only, not to modern endpoints. The
/// page shows the timers of a run.
#[test]
fn a_run_says_whose_timers_the_sender_has() {
    let timers = |query: &str| trace(&plan(&format!("{query}&size=100+KiB")), &|| false).unwrap().unwrap().timers;
    let farm = "scenario=farm-radio&set=tcp.preset%3D%22bsd-lite%22&scheme=";
    let old = Some("4.4BSD's timers (ticks of 500 ms), timeout of at least 1 s".to_owned());
    assert_eq!(timers(&format!("{farm}E2E")), old);
    for scheme in ["E2E-CUBIC", "SNOOP"] {
        assert_eq!(timers(&format!("{farm}{scheme}")).as_deref(), Some("Linux's timers, timeout of at least 200 ms"));
    }
    // A value that was fitted to the study is shown like any other.
    let fitted = trace(&plan("scheme=E2E&size=100+KiB"), &|| false).unwrap().unwrap().timers.unwrap();
    assert!(fitted.ends_with("at least 3 s"), "{fitted}");
}

#[test]
fn a_long_run_is_shown_up_to_a_bound() {
    let shown = trace(&plan("size=64+MiB&loss=0"), &|| false).unwrap().unwrap();
    assert!(shown.cut);
    assert!(shown.diagram.packets.len() <= MOST_RECORDS);
}

#[test]
fn every_scenario_has_a_run_to_show() {
    for scenario in ["satellite", "multilayer-lan", "multilayer-web-udp-lan", "many-flows", "peer-transfer"] {
        let shown = trace(&plan(&format!("scenario={scenario}")), &|| false).unwrap().unwrap();
        assert!(shown.diagram.packets.len() >= 100, "{scenario}");
        assert!(shown.diagram.lanes.len() > 1, "{scenario}");
    }
}

/// A comparison that would need gigabytes is rejected, and the message names the key.
#[test]
fn a_comparison_that_would_take_too_much_memory_is_refused() {
    let huge = "scenario=mixed-losses&schemes=E2E-BBR&set=links.peer.queue%3D%224294967295+packets%22";
    let fast = format!("{huge}&set=flows.bursts.rate%3D%224294967295+Mbps%22");
    let refusal = Plan::read(&Catalogue::new(&[]).unwrap(), &fast).unwrap_err();
    assert!(refusal.message.contains("flows.bursts.rate: cannot be \"4294967295 Mbps\""), "{refusal}");
    let plan = plan(&format!("{huge}&set=flows.bursts.rate%3D%22100+Gbps%22"));
    let refusal = compare(&plan, Extent::First, 1, &|| false, |_| {}).unwrap_err();
    assert_eq!(refusal.key.as_deref(), Some("links.peer.queue"));
    assert!(refusal.message.contains("more than 1048576 frames"), "{refusal}");
}
