use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use serde_json::json;

use super::*;
use crate::replicate::{Silent, Task, run_all};

#[test]
fn transfers_that_the_mean_leaves_out_are_counted() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap();
    let task = |overrides: &[(&str, &str)]| {
        let scenario = scenario.with_overrides(overrides).unwrap();
        Task::new(&scenario, scenario.scheme(), 1, 1).unwrap()
    };
    let measured = |task: &Task| {
        let report = run_all(std::slice::from_ref(task), 1, &Silent).unwrap().remove(0).remove(0);
        let measures = measures(&task.network, &report);
        let of = |name: &str| measures.iter().find(|measure| measure.name == name).map(|measure| measure.value);
        (of("throughput"), of("starved"), of("incomplete"))
    };
    // The second copy starts just before the end of the run.
    let two = task(&[("limit", "1 s"), ("flows.bulk.count", "2"), ("flows.bulk.spacing", "999999 us")]);
    let (throughput, starved, incomplete) = measured(&two);
    assert_eq!((starved, incomplete), (Some(1.0), Some(2.0)));
    assert_eq!(throughput, measured(&task(&[("limit", "1 s")])).0);
    // A single transfer is never omitted; if nothing arrived, its throughput is not negative zero.
    let (throughput, starved, _) = measured(&task(&[("limit", "1 ms")]));
    assert_eq!((throughput.map(f64::to_bits), starved), (Some(0), None));
}

/// Half a megabyte by the second second, and nothing more: with eight seconds left to the limit, the rate is 0.4 Mbps
/// instead of 2.
#[test]
fn a_silence_until_the_limit_counts() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("limit", "10 s")]).unwrap();
    let network = Task::new(&scenario, scenario.scheme(), 1, 1).unwrap().network;
    let end = Instant::ZERO + Duration::from_secs(2);
    let stalled = FlowReport { received: 500_000, end, ..FlowReport::default() };
    assert_eq!(carried(&network, &stalled), 400e3);
    assert_eq!(carried(&network, &FlowReport { complete: true, ..stalled.clone() }), 2e6);
    assert_eq!(carried(&network, &FlowReport { aborted: true, ..stalled }), 2e6);
}

#[test]
fn jains_index_is_one_for_equals_and_falls_to_one_over_their_number() {
    assert_eq!(jain(&[2.0, 2.0, 2.0, 2.0]), Some(1.0));
    assert_eq!(jain(&[3.0, 0.0, 0.0, 0.0]), Some(0.25));
    // (1 + 3)^2 over 2 (1 + 9).
    assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
    assert_eq!(jain(&[0.0, 0.0]), None);
}

/// Jain's index exists for several transfers, the throughputs by kind if some transfers cross a lossy link and others
/// do not, and judgements if radios judge.
#[test]
fn fairness_needs_several_transfers() {
    let names = |scenario: &str| {
        let scenario = Scenario::builtin(scenario).unwrap();
        columns(&scenario.network(scenario.scheme()).unwrap()).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let ours = ["lossy_throughput", "lossless_throughput", "fairness", "losses_judged", "judged_right"];
    let of = |scenario: &str| {
        let names = names(scenario);
        ours.into_iter().filter(|name| names.iter().any(|known| known == name)).collect::<Vec<_>>()
    };
    assert_eq!(of("mixed-losses"), ours[..3]);
    assert_eq!(of("wavelan-lan"), [""; 0]);
    let two = Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("flows.bulk.count", "2")]).unwrap();
    let two = columns(&two.network(two.scheme()).unwrap());
    assert!(two.iter().any(|(name, _)| name == "fairness") && !two.iter().any(|(name, _)| name == "lossy_throughput"));
    assert_eq!(of("packet-radio-chain"), ours[3..]);
}

/// Marks are a metric only if a queue can mark.
#[test]
fn marks_are_counted_where_there_can_be_any() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap();
    let queue = ("links.wireless.queue", r#"{ kind = "fq-codel", target = "1 ms", interval = "10 ms" }"#);
    let marks = |overrides: &[(&str, &str)]| {
        let scenario = scenario.with_overrides(overrides).unwrap();
        let task = Task::new(&scenario, scenario.scheme(), 1, 1).unwrap();
        let report = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0).remove(0);
        measures(&task.network, &report).iter().find(|measure| measure.name == "marks").map(|measure| measure.value)
    };
    assert_eq!(marks(&[]), None);
    assert_eq!(marks(&[queue]), None);
    assert_eq!(marks(&[("tcp.ecn", r#""on""#)]), None);
    assert!(marks(&[queue, ("tcp.ecn", r#""on""#)]).unwrap() > 0.0);
}

#[test]
fn values_carry_samples_from_one_process_to_another() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap();
    // Nothing is delivered within a millisecond: no goodput.
    for limit in ["1 ms", "2 s"] {
        let scenario = scenario.with_overrides(&[("limit", limit)]).unwrap();
        let task = Task::new(&scenario, scenario.scheme(), 1, 3).unwrap();
        let reports = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0);
        let mut samples = Samples::new(columns(&task.network));
        reports.iter().for_each(|report| samples.push(&task.network, report));
        let again = Samples::from_values(samples.columns().to_vec(), samples.values().to_vec());
        assert_eq!((again.runs(), again.summaries()), (3, summarise(&task.network, &reports)));
        let goodput = samples.columns().iter().position(|(name, _)| name == "wired_goodput").unwrap();
        assert_eq!(samples.column(goodput).flatten().count(), if limit == "1 ms" { 0 } else { 3 });
    }
}

/// A link that loses 15 % of its frames is reported with 15 %; lost segments, each counted once, are fewer.
#[test]
fn losses_are_counted_as_frames() {
    let scenario = Scenario::builtin("farm-radio").unwrap();
    let values = [("links.radio.errors.frame_loss", "15 %"), ("limit", "20 s")];
    let scenario = scenario.with_overrides(&values).unwrap();
    let task = Task::new(&scenario, Scheme::by_name("SNOOP").unwrap(), 1, 1).unwrap();
    let report = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0).remove(0);
    let measures = measures(&task.network, &report);
    let of = |name: &str| measures.iter().find(|measure| measure.name == name).map(|measure| measure.value).unwrap();
    assert!((of("radio_loss") - 15.0).abs() < 0.7, "{}", of("radio_loss"));
    assert!(of("frames_lost") > of("segments_lost"), "acknowledgments and copies count as well");
    let down = &report.links[1][0];
    assert!(of("segments_lost") < 0.14 * down.frames as f64, "each segment once");
    assert!(!measures.iter().any(|measure| measure.name == "internet_loss"), "this link has no error model");
}

/// Metered runs have the same counts as others, and the announced columns.
#[test]
fn metered_runs_have_more_columns_and_the_same_values() {
    let scenario = Scenario::builtin("call-radio").unwrap().with_overrides(&[("limit", "10 s")]).unwrap();
    let plain = Task::new(&scenario, Scheme::by_name("SNOOP").unwrap(), 1, 1).unwrap();
    let metered = plain.clone().metered();
    let of = |task: &Task| {
        let report = run_all(std::slice::from_ref(task), 1, &Silent).unwrap().remove(0).remove(0);
        measures(&task.network, &report)
    };
    let (few, many) = (of(&plain), of(&metered));
    let names =
        |measures: &[Measure]| measures.iter().map(|measure| measure.name.clone().into_owned()).collect::<Vec<_>>();
    let delays = |name: &str| need_metering(std::iter::once(name));
    assert!(!names(&few).iter().any(|name| delays(name)));
    assert_eq!(names(&many).iter().filter(|name| delays(name)).count(), 9, "three distributions, three quantiles each");
    let without: Vec<Measure> = many.iter().filter(|measure| !delays(&measure.name)).cloned().collect();
    assert_eq!(without, few);
    let known: Vec<String> = metered_columns(&metered.network).into_iter().map(|(name, _)| name).collect();
    assert!(names(&many).iter().all(|name| known.contains(name)));
    // The call's own log, which counts each packet once, agrees.
    let value = |name: &str| many.iter().find(|measure| measure.name == name).unwrap().value;
    assert!((value("one_way_delay_p95") / value("call_delay_p95") - 1.0).abs() < 0.02);
}

/// A metric that only some runs have has the mean over those; metrics are in the order in which they are found. As
/// JSON, each is an object under its name.
#[test]
fn metrics_of_several_runs_are_found_by_name() {
    let run = |received, timeouts| {
        let flow = FlowReport { received, losses: timeouts, ..FlowReport::default() };
        Report { flows: vec![flow], ..Report::default() }
    };
    let of = |report: &Report| {
        let flow = &report.flows[0];
        let lost = Measure { name: "lost".into(), unit: "count", value: flow.losses as f64 };
        let received = Measure { name: "received".into(), unit: "bytes", value: flow.received as f64 };
        if flow.losses > 0 { vec![lost, received] } else { vec![received] }
    };
    let summaries = summarise_each(&[run(10, 0), run(20, 3), run(60, 5)], of);
    let found: Vec<_> = summaries.iter().map(|it| (it.name.as_ref(), it.estimate.mean, it.estimate.n)).collect();
    assert_eq!(found, [("received", 30.0, 3), ("lost", 4.0, 2)]);
    let one = summarise_each(&[run(10, 2)], of);
    assert_eq!(
        serde_json::to_string(&ByName(&one)).unwrap(),
        r#"{"lost":{"unit":"count","mean":2.0,"ci95":null,"runs":1},"received":{"unit":"bytes","mean":10.0,"ci95":null,"runs":1}}"#
    );
}

/// As JSON, a flow has its names, its metrics, and for TCP the state of its connection, in words where Linux has words.
#[test]
fn flows_are_written_one_after_the_other() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("flows.bulk.size", "4 KiB")]).unwrap();
    let task = Task::new(&scenario, scenario.scheme(), 1, 1).unwrap().metered();
    let reports = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0);
    let flows = flows::Flows { network: &task.network, reports: &reports };
    let value = serde_json::to_value(flows).unwrap();
    let keys: Vec<&String> = value[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["flow", "kind", "from", "to", "measures", "tcp_info"]);
    assert_eq!((&value[0]["flow"], &value[0]["measures"]["received"]["mean"]), (&json!("bulk"), &json!(4096.0)));
    let info = &value[0]["tcp_info"];
    assert!(info["state"].is_string() && info["snd_mss"].is_u64(), "{info}");
    assert_eq!(value.as_array().map(Vec::len), Some(flows::flows(&task.network, &reports).len()));
}
