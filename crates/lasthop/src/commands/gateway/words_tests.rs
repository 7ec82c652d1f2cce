use serde_json::Value;

use super::*;

fn gain(rule: &Value) -> String {
    let rule: OfRule<Effect> = answers::read(rule).unwrap();
    answers::gain(&compared(&rule, &rule.figures.clone().unwrap()))
}

fn status(answer: &Value, before: Option<&Value>) -> String {
    let [answer, before] = [Some(answer), before].map(|value| value.map(|value| answers::read(value).unwrap()));
    super::status(&answer.unwrap(), before.as_ref())
}

fn report(answer: &Value, promise: Option<&Promise>) -> String {
    super::report(&answers::read(answer).unwrap(), promise)
}

fn arms(mode: &str, ab: f64, treated: (u64, Option<f64>), untreated: (u64, Option<f64>), gain: Value) -> Value {
    json!({
        "name": "roof", "mode": mode, "interface": "wlan0", "ab": ab,
        "treated": { "flows": treated.0, "goodput_bps": treated.1 },
        "untreated": { "flows": untreated.0, "goodput_bps": untreated.1 },
        "gain": gain,
    })
}

#[test]
fn the_gain_is_a_sentence() {
    let sure = json!({ "ratio": 8.260736279746194, "low": 4.5912, "high": 14.862 });
    let rule = arms("snoop", 0.5, (5, Some(13_865_187.66)), (5, Some(1_678_444.0)), sure);
    assert_eq!(
        gain(&rule),
        "13.9 Mbit/s treated (5 connections), 1.7 untreated (5): 8.3 times as fast (4.6-14.9, 95 %)"
    );
    // Both values have the unit of the faster one; an interval that contains 1 proves nothing.
    let doubtful = json!({ "ratio": 1.25, "low": 0.8, "high": 1.96 });
    let rule = arms("snoop", 0.1, (1, Some(1_250_000.0)), (30, Some(999_000.0)), doubtful);
    assert_eq!(
        gain(&rule),
        "1.2 Mbit/s treated (1 connection), 1.0 untreated (30): 1.2 times as fast (0.80-2.0, 95 %; may be chance)"
    );
}

#[test]
fn without_a_comparison_it_says_why() {
    let few = arms("snoop", 0.5, (1, Some(2e6)), (0, None), Value::Null);
    assert_eq!(
        gain(&few),
        "2.0 Mbit/s treated (1 connection), none untreated; needs 1 more treated and 2 more untreated, of at least 100 kB each"
    );
    let one_each = arms("snoop", 0.5, (1, Some(4e6)), (1, Some(1e6)), Value::Null);
    assert!(gain(&one_each).contains(": 4.0 times as fast so far (no interval yet)"), "{}", gain(&one_each));
    let alone = arms("snoop", 0.0, (7, Some(2.5e9)), (0, None), Value::Null);
    assert_eq!(
        gain(&alone),
        "2.5 Gbit/s treated (7 connections); no untreated connections to compare with (`ab` is 0)"
    );
    let watched = arms("observe", 0.0, (0, None), (3, Some(640_000.0)), Value::Null);
    assert_eq!(gain(&watched), "640 kbit/s (3 connections); nothing is treated");
}

#[test]
fn a_promise_stands_beside_what_was_measured() {
    let promise = |factor: Value| {
        let uses = json!([{ "use": "bulk", "unit": "Mbps", "value": 8.0, "interval": null, "factor": factor }]);
        let text = json!({
            "lasthop_promise": 1, "link": "x", "seed": 1, "runs": 10, "advised": "SNOOP",
            "cures": [{ "cure": "SNOOP", "needs": "one device", "uses": uses.clone() }],
        });
        Promise::read(&text.to_string()).unwrap()
    };
    let promised = promise(json!({ "mean": 5.0, "interval": [4.5, 5.5] }));
    let line = |rule: &Value, promise: &Promise| Beside::of_rule(rule, promise).words();
    let sure = json!({ "ratio": 8.26, "low": 4.59, "high": 14.9 });
    let rule = arms("snoop", 0.5, (5, Some(13e6)), (5, Some(1.6e6)), sure);
    assert_eq!(
        line(&rule, &promised),
        "promise: 5.0 times as fast for downloads (4.5-5.5), measured 8.3 (4.6-14.9): kept"
    );
    let less = arms("snoop", 0.5, (5, Some(3e6)), (5, Some(1.6e6)), json!({ "ratio": 2.0, "low": 1.4, "high": 2.9 }));
    assert!(line(&less, &promised).ends_with("measured 2.0 (1.4-2.9): fell short"), "{}", line(&less, &promised));
    let few = arms("snoop", 0.5, (1, None), (0, None), Value::Null);
    assert!(line(&few, &promised).ends_with("measured nothing yet: undecided, more connections are needed"));
    let alone = arms("snoop", 0.0, (5, Some(3e6)), (0, None), Value::Null);
    assert_eq!(line(&alone, &promised), "promise: no untreated connections to compare with (`ab` is 0)");
    let other = arms("split", 0.1, (5, Some(3e6)), (5, Some(1e6)), Value::Null);
    assert!(line(&other, &promised).starts_with("promise: the promise has no factor of SPLIT-BBR for downloads"));
    let answer = json!({ "rules": [rule], "split": null });
    assert!(
        report(&answer, Some(&promised)).contains("\n  promise: 5.0 times")
            && !report(&answer, None).contains("promise")
    );
}

fn answer(uptime: f64, carried: u64, pid: u64) -> Value {
    json!({
        "version": "0.1.0", "uptime_seconds": uptime, "worker": { "pid": pid, "restarts": 0 },
        "firewall": { "in_place": true, "restored": 0, "problem": null }, "flows": 1,
        "limits": { "cache_bytes": 64 << 20, "flows": 65536 }, "cached_bytes": 1_300_000,
        "packets": { "towards_wireless": 120, "towards_wireless_bytes": carried, "overflows": 0 },
        "rules": [], "split": null,
    })
}

#[test]
fn status_has_units_and_rates_and_leaves_out_what_is_well() {
    let (before, now) = (answer(60.0, 1_000_000, 7), answer(64.08, 6_100_000, 7));
    let text = status(&now, Some(&before));
    assert!(text.starts_with("lasthop 0.1.0, up for 1 min 4 s; worker 7, never replaced\nnetfilter rules in place\n"));
    assert!(text.contains("1 connection of at most 65536; 1.2 MiB cached of at most 64.0 MiB\n"), "{text}");
    assert!(text.contains("towards the hop: 120 packets, 5.8 MiB, 10.0 Mbit/s now; 0 sent by the gateway"), "{text}");
    assert!(!text.contains("overflows"), "{text}");
    // The counters of another worker started at zero.
    assert!(!status(&now, Some(&answer(60.0, 1_000_000, 6))).contains(" now;"));
    let mut ill = now;
    ill["packets"]["overflows"] = 3.into();
    ill["firewall"] = json!({ "in_place": false, "restored": 2, "problem": "iptables is gone" });
    ill["worker"] = json!({ "pid": null, "restarts": 1 });
    let text = status(&ill, None);
    assert!(text.contains("3 queue overflows"), "{text}");
    assert!(text.contains("netfilter rules NOT IN PLACE, restored 2 times: iptables is gone"), "{text}");
    assert!(text.contains("NO WORKER: packets pass untreated (replaced 1 time)"), "{text}");
}

#[test]
fn spans_and_sizes() {
    for (seconds, wanted) in
        [(0.2, "0 s"), (59.9, "59 s"), (60.0, "1 min"), (3725.0, "1 h 2 min"), (183_000.0, "2 d 2 h")]
    {
        assert_eq!(span(seconds), wanted);
    }
    for (size, wanted) in [(0.0, "0 B"), (1023.0, "1023 B"), (1536.0, "1.5 KiB"), (1.5e11, "140 GiB")] {
        assert_eq!(bytes(size), wanted);
    }
}
