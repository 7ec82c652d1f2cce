//! Tests of `explain`: the text is complete, and parses to the same scenario.

use std::collections::BTreeSet;

use lasthop_proto::scheme::SCHEMES;
use lasthop_scenario::{Scenario, builtin_names};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
const DOCUMENTATION: &str = include_str!("../../../docs/scenarios.md");

fn everything() -> Scenario {
    Scenario::load(format!("{DATA}/everything.toml")).unwrap()
}

#[test]
fn explained_scenarios_are_the_same_scenarios() {
    for name in builtin_names() {
        let scenario = Scenario::builtin(name).unwrap();
        let again = Scenario::parse("explained.toml", &scenario.explain()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again, scenario, "{name}");
        let values = scenario.to_toml();
        assert!(!values.contains('#'), "{values}");
        assert_eq!(Scenario::parse("values.toml", &values).unwrap_or_else(|error| panic!("{error}")), scenario);
        for scheme in &SCHEMES {
            let [one, other] = [&scenario, &again].map(|scenario| format!("{:?}", scenario.network(scheme)));
            assert_eq!(one, other, "{name}");
        }
    }
}

#[test]
fn a_scenario_with_every_key_survives_too() {
    let scenario = everything();
    // In the folder of the original, which contains the loss trace.
    let path = format!("{DATA}/explained-{}.toml", std::process::id());
    std::fs::write(&path, scenario.explain()).unwrap();
    let again = Scenario::load(&path);
    std::fs::remove_file(&path).unwrap();
    let again = again.unwrap_or_else(|error| panic!("{error}\n{}", scenario.explain()));
    assert_eq!(again, scenario);
}

#[test]
fn explaining_twice_changes_no_value() {
    let values = |text: &str| {
        text.lines().map(|line| line.split(" # ").next().unwrap_or("").trim_end().to_owned()).collect::<Vec<_>>()
    };
    let once = Scenario::builtin("wavelan-wan").unwrap().explain();
    let twice = Scenario::parse("wavelan-wan", &once).unwrap().explain();
    assert_eq!(values(&once), values(&twice));
}

#[test]
fn a_scenario_is_made_again_from_its_source() {
    let scenario = everything().with_overrides(&[("seed", "77")]).unwrap();
    let again = Scenario::from_source(scenario.source().clone()).unwrap();
    assert_eq!((again.seed(), &again), (77, &scenario));
}

/// Returns the line of `key` in the table `table`.
#[track_caller]
fn line<'t>(text: &'t str, table: &str, key: &str) -> &'t str {
    let (_, rest) = text.split_once(&format!("\n[{table}]\n")).expect("the table");
    let rest = rest.split("\n[").next().unwrap_or_default();
    rest.lines().find(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = "))).expect("the key")
}

#[test]
fn each_value_says_where_it_comes_from() {
    let scenario =
        Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("links.wired.rate", "1000 kbps")]).unwrap();
    let text = scenario.explain();
    let says = |table: &str, key: &str, value: &str, source: &str| {
        let line = line(&text, table, key);
        let (left, right) = line.split_once(" # ").expect("a remark");
        assert_eq!((left.trim_end(), right), (&*format!("{key} = {value}"), source));
    };
    says("tcp", "nagle", "\"on\"", "preset bsd-lite");
    says("tcp", "recovery", "\"scheme\"", "default: the scheme decides");
    says("flows.bulk", "start", "\"0 s\"", "default");
    says("links.wired", "rate", "\"1 Mbps\"", "override, written \"1000 kbps\"");
    assert!(line(&text, "flows.bulk", "size").contains("# line "));
    // A derived value is shown, but as a remark: changing the other key must still change both.
    assert!(line(&text, "links.wired", "rate_up").starts_with("# rate_up = \"1 Mbps\""));
    assert!(line(&text, "tcp", "send_buffer").starts_with("# send_buffer = \"32 KiB\""));
}

#[test]
fn every_key_is_documented() {
    let text = everything().explain() + &Scenario::builtin("satellite").unwrap().explain();
    let text = ["wavelan-lan", "train-lte", "5g-fwa"]
        .iter()
        .fold(text, |text, name| text + &Scenario::builtin(name).unwrap().explain());
    assert!(text.contains("\n[base_station.split.wireless]\n"), "all tables are there");
    let keys = text.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = ")).map(|(key, _)| key);
    let keys: BTreeSet<_> = keys.filter(|key| key.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect();
    assert!(keys.len() > 80, "{}", keys.len());
    let missing: Vec<_> = keys.into_iter().filter(|key| !DOCUMENTATION.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "not in docs/scenarios.md: {missing:?}");
}

#[test]
fn every_congestion_control_is_documented() {
    let row = DOCUMENTATION.lines().find(|line| line.starts_with("| `congestion` | reno |")).expect("a row of `[tcp]`");
    let missing: Vec<_> = lasthop_proto::tcp::congestion::ALGORITHMS
        .iter()
        .map(|algorithm| algorithm.name)
        .filter(|name| !row.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not in the row `congestion` of docs/scenarios.md: {missing:?}");
}

#[test]
fn the_documented_presets_are_the_real_ones() {
    let columns = ["bsd-lite", "ns2", "rfc", "linux-6.18", "rfc-2026"].map(|preset| {
        let tcp = format!("{{ preset = \"{preset}\" }}");
        Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("tcp", tcp)]).unwrap().explain()
    });
    let rows = DOCUMENTATION
        .split("| key | bsd-lite | ns2 | rfc | linux-6.18 | rfc-2026 | meaning |")
        .nth(1)
        .expect("the table of presets");
    let mut documented = 0;
    for row in rows.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let key = cells[1].trim_matches('`');
        let shown = columns.each_ref().map(|text| {
            let tcp = text.split("\n[tcp]\n").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or_default();
            let value = tcp.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))?.split(" # ").next());
            value.map_or("\u{2013}", |value| value.trim().trim_matches('"'))
        });
        assert_eq!(cells[2..7], shown, "{key}");
        documented += 1;
    }
    assert!(documented > 35, "{documented}");
}

#[test]
fn the_documented_scenario_is_one() {
    let text = DOCUMENTATION.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let scenario = Scenario::parse("example.toml", text).unwrap_or_else(|error| panic!("{error}"));
    assert!(SCHEMES.iter().all(|scheme| scenario.network(scheme).is_ok()));
}
