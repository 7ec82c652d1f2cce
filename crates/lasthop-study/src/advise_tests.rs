use lasthop_scenario::Scenario;
use lasthop_sim::network::App;

use super::*;
use crate::replicate::{Silent, run_all};
use crate::stats::Estimate;

fn advice(overrides: &[(&str, &str)], needs: &[Needs], uses: &[Use]) -> Advice {
    let scenario = Scenario::builtin("farm-radio").unwrap().with_overrides(overrides).unwrap();
    let plan = Plan::new(&scenario, needs, uses, 1, 4).unwrap();
    plan.judge(&run_all(plan.tasks(), 2, &Silent).unwrap()).unwrap()
}

const BOX: [Needs; 2] = [Needs::Sender, Needs::Box];

#[test]
fn a_lossy_link_gets_the_cure_that_asks_least_of_those_that_are_as_good() {
    let advice = advice(&[], &BOX, &[Use::Bulk]);
    let names: Vec<&str> = advice.cured.iter().map(|cured| cured.cure.scheme).collect();
    assert_eq!(names, ["E2E-CUBIC", "E2E-BBR", "SNOOP", "SPLIT-BBR"]);
    let best = advice.best().unwrap();
    assert!(best.gain > 1.5, "{}", best.gain);
    for cured in &advice.cured {
        // No cure with smaller requirements is as good, and none with larger ones is clearly better.
        assert!(cured.cure.needs >= best.cure.needs || !cured.helps() || cured.gain < 0.985 * best.gain);
        assert!(cured.gain * 0.985 <= best.gain);
    }
}

#[test]
fn a_link_without_losses_is_left_as_it_is() {
    let advice = advice(&[("links.radio.errors", r#"{ model = "none" }"#)], &[Needs::Box], &[Use::Bulk]);
    assert!(advice.best().is_none(), "{:?}", advice.best().map(|cured| (cured.cure.scheme, cured.gain)));
}

#[test]
fn only_what_can_be_changed_is_advised() {
    let advice = advice(&[], &[Needs::Sender], &[Use::Bulk]);
    assert_eq!(advice.best().map(|cured| cured.cure.scheme), Some("E2E-BBR"));
    assert!(advice.best_with(Needs::Box).is_none());
}

/// A cure without which nothing gets through causes no arithmetic error, and one that harms a use is not advised.
#[test]
fn harm_outweighs_gain() {
    let cured = |values: &[(f64, f64)]| {
        let estimate = |mean| Estimate { mean, ci95: Some(0.01), n: 10 };
        let results = values.iter().map(|(value, ratio)| Effect {
            usage: Use::Bulk,
            value: estimate(*value),
            factor: (*ratio > 0.0).then_some(Factor { mean: *ratio, interval: (ratio - 0.01, ratio + 0.01) }),
            summaries: Vec::new(),
        });
        Cured::new(CURES[2], results.collect())
    };
    assert!(cured(&[(5.0, 2.0)]).helps());
    assert!(!cured(&[(5.0, 4.0), (1.0, 0.9)]).helps());
    assert!(!cured(&[(5.0, 1.01)]).helps());
    let from_nothing = cured(&[(5.0, 0.0)]);
    assert!(from_nothing.helps() && from_nothing.gain.is_infinite());
    assert!(!cured(&[(0.0, 0.0)]).helps());
}

/// A gain that counts but is not significant asks for more runs; one that could not change the advice does not.
#[test]
fn more_runs_are_asked_for_where_chance_decides() {
    let cured = |cure: usize, gain: f64, half: f64| {
        let value = Estimate { mean: gain, ci95: Some(half), n: 10 };
        let factor = Some(Factor { mean: gain, interval: (gain - half, gain + half) });
        Cured::new(CURES[cure], vec![Effect { usage: Use::Bulk, value, factor, summaries: Vec::new() }])
    };
    let may_be_chance = |cured: Vec<Cured>| Advice { runs: 10, cured, ..Advice::default() }.may_be_chance();
    let none = || cured(0, 1.0, 0.0);
    assert!(may_be_chance(vec![none(), cured(2, 1.1, 0.2)]));
    assert!(!may_be_chance(vec![none(), cured(2, 1.1, 0.05)]));
    assert!(!may_be_chance(vec![none(), cured(2, 1.02, 0.2)]));
    // A harmful cure, and an uncertain gain next to a larger significant one.
    assert!(!may_be_chance(vec![none(), cured(2, 0.9, 0.2)]));
    assert!(!may_be_chance(vec![none(), cured(2, 1.1, 0.2), cured(3, 1.3, 0.1)]));
    assert!(may_be_chance(vec![none(), cured(2, 1.1, 0.05), cured(3, 1.3, 0.4)]));
}

fn judged(cure: usize, factor: f64) -> Cured {
    let value = Estimate { mean: factor, ci95: Some(0.01), n: 10 };
    let factor = Some(Factor { mean: factor, interval: (factor - 0.01, factor + 0.01) });
    Cured::new(CURES[cure], vec![Effect { usage: Use::Bulk, value, factor, summaries: Vec::new() }])
}

/// A cure that helps under one value alone is not advised; one that helps under all is, even if it gains less.
#[test]
fn an_advice_holds_under_all_values_that_the_measurement_allows() {
    let cured = |snoop, split| vec![judged(0, 1.0), judged(2, snoop), judged(3, split)];
    let variant =
        |snoop, split| Variant { name: "long bad times".to_owned(), of_rate: false, cured: cured(snoop, split) };
    let advice = |variants| Advice { runs: 10, cured: cured(2.0, 1.5), variants, ..Advice::default() };
    let best = |advice: &Advice| advice.best().map(|best| best.cure.scheme);
    assert_eq!(best(&advice(vec![variant(1.9, 1.4)])), Some("SNOOP"));
    let some = advice(vec![variant(0.98, 1.4)]);
    assert_eq!((best(&some), some.doubtful().len()), (Some("SPLIT-BBR"), 1));
    let none = advice(vec![variant(1.9, 1.4), variant(0.9, 0.9)]);
    assert_eq!(best(&none), None);
    let said = none.words().join(" ");
    assert!(
        said.starts_with("No cure is advised") && said.contains("long bad times") && said.contains("2.00"),
        "{said}"
    );
}

/// Two models of how the rate moves must recommend the same cure, or one nearly as good; otherwise none is advised.
#[test]
fn models_of_the_rate_that_disagree_advise_nothing() {
    let cured = |snoop, split| vec![judged(0, 1.0), judged(2, snoop), judged(3, split)];
    let replay = |snoop, split| Advice {
        runs: 10,
        cured: cured(1.5, 1.2),
        variants: vec![Variant {
            name: "replay of the measured rate down".to_owned(),
            of_rate: true,
            cured: cured(snoop, split),
        }],
        ..Advice::default()
    };
    let best = |advice: &Advice| advice.best().map(|best| best.cure.scheme);
    assert_eq!(best(&replay(1.4, 1.3)), Some("SNOOP"));
    assert_eq!(best(&replay(1.4, 1.43)), Some("SNOOP"));
    for other in [replay(1.4, 1.6), replay(1.0, 1.3), replay(1.0, 1.0)] {
        assert_eq!(best(&other), None);
        assert!(other.best_with(Needs::Box).is_none());
        let said = other.words().join(" ");
        assert!(said.contains("the models of the rate disagree") && said.contains("SNOOP"), "{said}");
    }
}

/// Tests a measurement that rules out judging cures: none is advised, and the reason is given.
#[test]
fn no_cure_is_advised_where_the_link_is_unlike_any_model() {
    let no_cure = Some("a policer drops what exceeds 10 Mbps".to_owned());
    let advice = Advice { runs: 10, cured: vec![judged(0, 1.0), judged(2, 2.0)], no_cure, ..Advice::default() };
    assert!(advice.best().is_none() && advice.best_with(Needs::Box).is_none());
    assert!(advice.words()[0].starts_with("No cure is advised: a policer"), "{:?}", advice.words());
}

/// Gains are listed for each use.
#[test]
fn gains_are_told_by_use() {
    let effect = |usage, factor: f64| Effect {
        usage,
        value: Estimate { mean: factor, ci95: Some(0.01), n: 10 },
        factor: Some(Factor { mean: factor, interval: (factor - 0.01, factor + 0.01) }),
        summaries: Vec::new(),
    };
    let cured = Cured::new(CURES[2], vec![effect(Use::Bulk, 4.0), effect(Use::Call, 1.0)]);
    let advice = Advice { runs: 10, cured: vec![judged(0, 1.0), cured], ..Advice::default() };
    assert!(advice.words()[0].contains("bulk 4.00 times, call 1.00 times"), "{:?}", advice.words());
}

/// The measurement's other values, its reason against cures and its assumptions reach the advice.
#[test]
fn a_scenario_brings_what_its_measurement_says() {
    let text = Scenario::builtin_text("farm-radio").unwrap().to_owned()
        + r#"
[measurement]
unknown = ["order down: not measured"]
assumed = ["queue: 100 packets"]
alternatives = [{ name = "none lost", key = "links.radio.errors", value = { model = "none" } }]
"#;
    let scenario = Scenario::parse("x.toml", &text).unwrap();
    let plan = Plan::new(&scenario, &[Needs::Box], &[Use::Bulk], 1, 2).unwrap();
    assert_eq!(plan.tasks().len(), 6);
    let advice = plan.judge(&run_all(plan.tasks(), 2, &Silent).unwrap()).unwrap();
    assert_eq!((advice.variants.len(), advice.conditions.len()), (1, 2));
    // Without losses nothing helps, and the measurement does not decide.
    assert!(advice.best().is_none() && !advice.doubtful().is_empty());
    let trip = advice.cured[0].results[0].round_trip_ms().expect("a download has round trips");
    assert!(trip[0] > 80.0 && trip[0] <= trip[1], "{trip:?}");
}

/// A scenario without a base station: the router in front of the lossy link is used.
#[test]
fn a_scenario_without_a_base_station_gets_one() {
    let text = Scenario::builtin_text("farm-radio").unwrap();
    let begin = text.find("[base_station]").expect("it has one");
    let end = text[begin + 1..]
        .find(
            "
[",
        )
        .map_or(text.len(), |at| begin + 1 + at);
    let text = [&text[..begin], &text[end..]].concat();
    let plan = Plan::new(&Scenario::parse("x.toml", &text).unwrap(), &[Needs::Box], &[Use::Bulk], 1, 1).unwrap();
    assert_eq!(plan.tasks().len(), 3);
    let advice = plan.judge(&run_all(plan.tasks(), 2, &Silent).unwrap()).unwrap();
    assert!(advice.conditions[0].contains("in front of link radio"), "{:?}", advice.conditions);
}

/// The ratio of correlated values is more precise than each of them.
#[test]
fn the_factor_of_pairs() {
    let factor = Factor::of(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
    assert!((factor.mean - 2.0).abs() < 1e-9 && factor.interval.1 - factor.interval.0 < 1e-6);
    // 2 and 8: the mean is 4; a single run has no interval.
    assert!((Factor::of(&[2.0, 8.0], &[1.0, 1.0]).unwrap().mean - 4.0).abs() < 1e-9);
    assert_eq!(Factor::of(&[3.0], &[1.5]).map(|factor| factor.interval), Some((2.0, 2.0)));
    assert!(Factor::of(&[1.0], &[0.0]).is_none());
    // A cure that sometimes gets nothing through never helps significantly.
    let sometimes = Factor::of(&[0.0, 4.0], &[1.0, 1.0]).unwrap();
    assert_eq!((sometimes.mean, sometimes.interval.0), (2.0, 0.0));
}

#[test]
fn pages_and_downloads_take_the_place_of_the_scenarios_own_traffic() {
    for name in lasthop_scenario::builtin_names() {
        let scenario = Scenario::builtin(name).unwrap();
        let plan = Plan::new(&scenario, &BOX, &Use::USUAL, 1, 1).unwrap();
        assert_eq!(plan.tasks().len(), 12, "{name}");
        for (at, task) in plan.tasks().iter().enumerate() {
            let of = |which: fn(&App) -> bool| task.network.flows.iter().filter(|flow| which(&flow.app)).count();
            let found = (of(App::is_transfer), task.network.sessions.len(), of(|app| matches!(app, App::Call(_))));
            assert_eq!(found, [(1, 0, 0), (0, 1, 0), (0, 0, 2)][at % 3], "{name}");
        }
    }
}

/// A call over a hop with high loss becomes intelligible if the hop repairs all traffic; a device for TCP does not
/// help.
#[test]
fn a_call_is_helped_by_repair_of_all_traffic() {
    let loss = [("links.radio.errors", r#"{ model = "uniform", frame_loss = "8 %" }"#)];
    let scenario = Scenario::builtin("call-radio").unwrap().with_overrides(&loss).unwrap();
    let plan = Plan::new(&scenario, &[Needs::Box, Needs::Boxes], &[Use::Call], 1, 4).unwrap();
    let advice = plan.judge(&run_all(plan.tasks(), 2, &Silent).unwrap()).unwrap();
    assert_eq!(advice.best().map(|cured| cured.cure.scheme), Some("LINK-HYBRID"));
    assert!(advice.best_with(Needs::Box).is_none());
    let score = |at: usize| advice.cured[at].results[0].value.mean;
    let repaired = advice.cured.iter().position(|cured| cured.cure.scheme == "LINK-HYBRID").unwrap();
    assert!(score(repaired) > 4.2 && score(0) < 4.0, "{} {}", score(repaired), score(0));
}

/// A relay acknowledges a request before it has delivered it: the reply must not arrive earlier. Without losses a page
/// takes as many round trips as without a relay, except for the last acknowledgment.
#[test]
fn a_relay_brings_no_reply_before_its_request() {
    let none = ("links.radio.errors", r#"{ model = "none" }"#);
    let advice = advice(&[none], &[Needs::Box], &[Use::Pages]);
    let split = advice.cured.iter().find(|cured| cured.cure.scheme == "SPLIT-BBR").unwrap();
    assert!((1.0..1.34).contains(&split.gain), "{}", split.gain);
    assert_eq!(split.results[0].mean("timeouts") + split.results[0].mean("relay_timeouts"), 0.0);
}

/// A device repairs what it sends over the hop: uploads at the customer's side, where they become as fast as downloads
/// with a device at the base station, and downloads at the base station.
#[test]
fn uploads_are_repaired_at_the_customers_side() {
    let advice = advice(&[], &[Needs::Box], &[Use::Bulk, Use::Upload]);
    let names: Vec<String> = advice.cured.iter().map(|cured| cured.cure.name()).collect();
    assert_eq!(names, ["E2E-CUBIC", "SNOOP", "SPLIT-BBR", "SNOOP@customer", "SPLIT-BBR@customer"]);
    let result = |cure: usize, usage: usize| &advice.cured[cure].results[usage];
    let ratio = |cure, usage| result(cure, usage).factor.unwrap().mean;
    assert!((0.97..1.03).contains(&ratio(1, 1)) && (0.97..1.03).contains(&ratio(3, 0)), "{:?}", advice.words());
    assert!(ratio(3, 1) > 1.5, "{}", ratio(3, 1));
    assert!(result(3, 1).value.mean >= 0.95 * result(1, 0).value.mean, "{}", result(3, 1).value.mean);
    let said = advice.words().join("\n");
    assert!(said.contains("SNOOP does not repair uploads: "), "{said}");
    assert!(said.contains("SNOOP@customer does not repair downloads: "), "{said}");
}

/// Uploads over a hop of 20 ms are best repaired at the customer's side; a split connection at the base station only
/// shortens the round trip.
#[test]
fn the_customers_side_is_advised_for_uploads() {
    let advice = advice(&[("links.radio.delay", "20 ms")], &[Needs::Box], &[Use::Upload]);
    assert_eq!(advice.best().map(|best| best.cure.at), Some(Some(Side::Customer)), "{:?}", advice.words());
    let gain = |side| advice.best_at(side).map_or(1.0, |cured| cured.gain);
    assert!(gain(Side::BaseStation) < 0.9 * gain(Side::Customer), "{:?}", advice.words());
    assert!(advice.conditions.iter().any(|it| it.contains("between link radio and farm")), "{:?}", advice.conditions);
}

/// The user says on which side a device may stand. A transfer from the customer's host is an upload under any name.
#[test]
fn a_device_stands_where_the_user_allows_it() {
    let farm = Scenario::builtin("farm-radio").unwrap();
    let upload = farm.with_overrides(&[("flows.download.from", "farm"), ("flows.download.to", "server")]).unwrap();
    let sides = |scenario: &Scenario, places, usage| {
        let plan = Plan::at(scenario, &[Needs::Box], places, &[usage], 1, 1).unwrap();
        plan.cures().iter().filter_map(|cure| cure.at).map(Side::name).collect::<Vec<_>>()
    };
    let (base, customer) = (["base-station"; 2], ["customer"; 2]);
    assert_eq!(sides(&farm, None, Use::Bulk), base);
    assert_eq!(sides(&farm, Some(Places::At(Side::Customer)), Use::Bulk), customer);
    assert_eq!(sides(&farm, Some(Places::At(Side::BaseStation)), Use::Upload), base);
    for (scenario, usage) in [(&farm, Use::Upload), (&upload, Use::Bulk), (&upload, Use::Upload)] {
        assert_eq!(sides(scenario, None, usage), [base, customer].concat());
    }
    // Data of the upload leaves the customer's host, whether the scenario's first transfer is an upload or not.
    for scenario in [&farm, &upload] {
        let plan = Plan::new(scenario, &[Needs::Box], &[Use::Upload], 1, 1).unwrap();
        let network = &plan.tasks()[0].network;
        assert_eq!(network.nodes[network.flows[0].from.0].name, "farm");
    }
    assert_eq!(Places::by_name("roof"), Err("give one of base-station, customer, both".to_owned()));
}

/// A customer's host with several links has no place for one device: the request fails, and by default the advice says
/// so.
#[test]
fn a_place_that_cannot_be_simulated_is_named() {
    let moving = Scenario::builtin("moving-host").unwrap();
    let plan = |places| Plan::at(&moving, &[Needs::Box], places, &[Use::Upload], 1, 1);
    let said = plan(Some(Places::Both)).unwrap_err().to_string();
    assert!(said.contains("has several links"), "{said}");
    let plan = plan(None).unwrap();
    let conditions = plan.conditions();
    assert!(
        conditions.iter().any(|it| it.starts_with("no device at the customer's side was simulated")),
        "{conditions:?}"
    );
}
