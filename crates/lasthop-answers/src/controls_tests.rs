use lasthop_proto::channel::ErrorSpec;
use lasthop_scenario::builtin_names;

use super::*;

fn facts(name: &str) -> Facts {
    Facts::of(&Scenario::builtin(name).unwrap()).unwrap()
}

fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn every_stop_of_every_control_is_taken_by_every_scenario() {
    for name in builtin_names() {
        let mut scenario = Scenario::builtin(name).unwrap();
        if name == "many-flows" {
            // The full number of flows would only take longer.
            scenario = scenario.with_overrides(&[("flows.bulk.count", "10")]).unwrap();
        }
        let facts = Facts::of(&scenario).unwrap();
        for control in facts.controls(&[]) {
            assert_eq!(control.fixed, None, "{name} {}", control.id);
            assert!(control.at < control.stops.len(), "{name} {control:?}");
            let last = control.stops.len() - 1;
            for (index, stop) in control.stops.iter().enumerate() {
                // All stops of one scenario, and the extreme ones of the others.
                if name != "wavelan-lan" && index != 0 && index != last {
                    continue;
                }
                let given = given(&[(&control.id, stop)]);
                let overrides = facts.overrides(&given).unwrap();
                let set = scenario.with_overrides(&overrides).unwrap_or_else(|error| panic!("{name} {stop}: {error}"));
                // The slider stays at its position.
                let controls = Facts::of(&set).unwrap().controls(&given);
                let again = controls.iter().find(|other| other.id == control.id).unwrap();
                assert_eq!(
                    (again.at, again.text.as_str(), again.set),
                    (index, stop.as_str(), true),
                    "{name} {}",
                    control.id
                );
            }
        }
    }
}

#[test]
fn a_control_shows_what_the_scenario_has() {
    let controls = facts("wavelan-lan").controls(&[]);
    let text = |id: &str| controls.iter().find(|control| control.id == id).unwrap().text.clone();
    let texts =
        ["loss", "burst", "delay.wired", "delay.wireless", "rate", "queue", "window", "size", "runs", "seed"].map(text);
    assert_eq!(texts, ["2.17 %", "1", "247 us", "1 us", "2 Mbps", "100 packets", "32 KiB", "8 MiB", "30", "1"]);
    assert!(controls.iter().all(|control| !control.set));
    // The lossy link, not the other one.
    assert!(controls.iter().find(|control| control.id == "rate").unwrap().keys == ["links.wireless.rate"]);
    // A session has no size, and multiple flows have a count.
    let ids = |name: &str| facts(name).controls(&[]).into_iter().map(|control| control.id).collect::<Vec<_>>();
    assert!(
        ids("multilayer-web-lan").contains(&"limit".to_owned())
            && !ids("multilayer-web-lan").contains(&"size".to_owned())
    );
    assert!(ids("many-flows").contains(&"count".to_owned()));
}

#[test]
fn loss_keeps_the_kind_of_model_and_the_ways_that_have_one() {
    let set = |name: &str, pairs: &[(&str, &str)]| {
        let scenario = Scenario::builtin(name).unwrap();
        let overrides = Facts::of(&scenario).unwrap().overrides(&given(pairs)).unwrap();
        let scenario = scenario.with_overrides(&overrides).unwrap();
        let network = scenario.network(scenario.scheme()).unwrap();
        network.links[1].directions.clone().map(|way| way.errors)
    };
    let [down, up] = set("wavelan-lan", &[("loss", "5 %")]);
    assert!(
        matches!(down, ErrorSpec::Exponential { mean_bytes, .. } if (mean_bytes - 28073.9).abs() < 0.1),
        "{down:?}"
    );
    assert_eq!(down, up);
    let [down, _] = set("wavelan-lan", &[("burst", "4")]);
    assert!(matches!(down, ErrorSpec::Burst { packets: 4, .. }), "{down:?}");
    // Only one direction loses data here.
    let [down, up] = set("peer-transfer", &[("loss", "10 %"), ("burst", "2")]);
    assert!(
        matches!(down, ErrorSpec::TwoStatePacket { bad_to_good, frames: lasthop_proto::channel::Frames::Data, .. } if bad_to_good == 0.5)
    );
    assert_eq!(up, ErrorSpec::None);
    assert_eq!(set("satellite", &[("loss", "0")]), [ErrorSpec::None, ErrorSpec::None]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |id: &str, text: &str| facts("wavelan-lan").overrides(&given(&[(id, text)])).unwrap_err();
    for (id, text) in [
        ("loss", "60 %"),
        ("loss", "-1 %"),
        ("loss", "much"),
        ("loss", ""),
        ("burst", "0"),
        ("burst", "1.5"),
        ("burst", "1000"),
        ("dealy.wired", "1 ms"),
    ] {
        let refusal = refused(id, text);
        assert_eq!(refusal.control.as_deref(), Some(id));
        assert!(
            refusal.message.starts_with(&format!("{id}: ")) && refusal.message.contains("give") || id == "dealy.wired",
            "{refusal}"
        );
    }
}

#[test]
fn numbers_are_short() {
    for (value, text) in
        [(0.0, "0"), (2.1735, "2.17"), (12.0, "12"), (0.05, "0.05"), (0.000_123_4, "0.000123"), (150.4, "150")]
    {
        assert_eq!(short(value), text);
    }
}

/// A trace with these columns replaces these controls' keys; the others take effect.
#[test]
fn a_control_that_a_trace_replaces_cannot_be_set() {
    let folder = std::env::temp_dir().join(format!("lasthop-controls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let trace = folder.join("link.csv");
    let path = folder.join("scenario.toml");
    let text = Scenario::builtin_text("starlink").unwrap();
    let is_replaced =
        |line: &&str| !["rate_variation", "delay_variation", "errors_"].iter().any(|key| line.starts_with(key));
    let text: Vec<_> = text.lines().filter(is_replaced).collect();
    let text =
        text.join("\n").replace("queue_up =", &format!("trace = {{ file = '{}' }}\nqueue_up =", trace.display()));
    std::fs::write(&path, text).unwrap();
    for (rows, expected) in [
        ("t_s,rate_down_mbps\n0,5\n1,7\n2,7\n", &["rate"][..]),
        ("t_s,delay_down_ms,delay_up_ms\n0,5,5\n1,7,7\n2,7,7\n", &["delay.satellite"]),
        ("t_s,loss_down,loss_up\n0,0,0\n1,0.1,0\n2,0,0\n", &["loss", "burst"]),
        // The other direction's losses can be set.
        ("t_s,loss_down\n0,0\n1,0.1\n2,0\n", &[]),
    ] {
        std::fs::write(&trace, rows).unwrap();
        let scenario = Scenario::load(&path).unwrap();
        let facts = Facts::of(&scenario).unwrap();
        let controls = facts.controls(&[]);
        let fixed: Vec<_> = controls.iter().filter(|control| control.fixed.is_some()).map(|c| c.id.as_str()).collect();
        assert_eq!(fixed, expected, "{rows}");
        for id in ["loss", "rate", "delay.satellite"] {
            let control = controls.iter().find(|control| control.id == id).unwrap();
            let overrides = facts.overrides(&given(&[(id, &control.stops[4])]));
            if control.fixed.is_some() {
                assert!(overrides.unwrap_err().message.contains("the link's trace"));
            } else {
                assert_ne!(scenario.with_overrides(&overrides.unwrap()).unwrap(), scenario, "{rows} {id}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
