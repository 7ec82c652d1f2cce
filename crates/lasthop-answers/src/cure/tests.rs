use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;

/// Returns losses of 4,000 packets with a spacing of 1 ms from a small generator: 1 in 50.
fn losses() -> String {
    let mut state = 1_u64;
    let mut text = "sent_s,bytes,lost\n".to_owned();
    for number in 0..4000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += &format!("{:.3},1000,{}\n", f64::from(number) / 1e3, u8::from((state >> 33).is_multiple_of(50)));
    }
    text
}

fn files(named: &[(&str, &str)]) -> (String, Vec<u8>) {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, text) in named {
        query.append_pair("file", &format!("{name}:{}", text.len()));
    }
    (query.finish(), named.iter().flat_map(|(_, text)| text.bytes()).collect())
}

fn link_of(named: &[(&str, &str)], given: &str) -> Result<Value, String> {
    let (query, body) = files(named);
    link(&format!("{query}{given}"), &body, &|| false).map_err(|refusal| refusal.message)
}

#[test]
fn a_trace_is_a_link_as_soon_as_rate_and_delay_are_said() {
    let trace = losses();
    let bare = link_of(&[("hop.csv", &trace)], "").unwrap();
    assert_eq!((&bare["scenario"], bare["lacks"].as_str()), (&Value::Null, Some("rate and delay are unknown")));
    assert_eq!(bare["fit"]["down"]["fit"]["packets"], 4000);
    // Unknown properties are not in the description of the link.
    let words = |given: &str| link_of(&[("hop.csv", &trace)], given).unwrap()["words"].as_str().unwrap().to_owned();
    assert!(words("").starts_with("losses "), "{}", words(""));
    assert!(words("&delay=7+ms&queue=9+packets").starts_with("delay 7 ms, queue 9 packets, losses "));
    assert!(words("&rate=3+Mbps&delay=7+ms").starts_with("3 Mbps, delay 7 ms, queue 100 packets (assumed), losses "));
    let link = link_of(&[("hop.csv", &trace)], "&rate=10+Mbps&delay=20+ms").unwrap();
    assert_eq!(link["lacking"].as_array().unwrap().len(), 0);
    let scenario = link["scenario"].as_str().unwrap();
    assert!(scenario.contains("model = \"uniform\"") && scenario.contains("\"20 ms\""), "{scenario}");
    assert_eq!(link["told"][0]["models"][0]["chosen"], true);
    // Losses over time, runs of losses, autocorrelation.
    let kinds: Vec<&str> =
        link["pictures"].as_array().unwrap().iter().map(|one| one["figure"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["window", "bars", "lines"]);
    // Both directions, each with its name.
    let both = link_of(&[("down.csv", &trace), ("up.txt", "0001 0000 0100")], "&rate=1+Mbps&delay=1+ms").unwrap();
    assert_eq!(
        (&both["fit"]["up"]["file"], both["fit"]["up"]["times_known"].as_bool()),
        (&json!("up.txt"), Some(false))
    );
}

#[test]
fn what_is_no_measurement_is_refused_in_a_line() {
    let capture = std::str::from_utf8(b"\n\r\r\n and no more").unwrap();
    for (named, given, expected) in [
        (vec![("a.csv", "sent_s,lost\n0.1\n")], "", "a.csv: line 2: 1 cells in a row, but 2 columns"),
        (vec![("a.txt", "hello")], "", "a.txt: line 1: 'h'; expected 0 (received) and 1 (lost)"),
        (vec![("a.pcapng", capture)], "", "a.pcapng: not a capture"),
        (vec![("a.txt", "01")], "&rate=soon", "rate: \"soon\": "),
        (vec![("a.txt", "01")], "&speed=1", "speed: is unknown"),
        (vec![("probe.json", "{}")], "", "probe.json: not a probe.json written by `lasthop probe --out`"),
        (vec![("../a.txt", "01")], "", "expected the name of a file, without a folder"),
        (vec![("a.txt", "01"), ("a.txt", "01")], "", "given twice"),
        (vec![("a", "01"), ("b", "01"), ("c", "01")], "", "give one capture or trace"),
    ] {
        let said = link_of(&named, given).unwrap_err();
        assert!(said.contains(expected) && !said.contains('\n'), "{named:?}: {said}");
    }
    let said = link("file=a.txt:5", b"01", &|| false).unwrap_err().message;
    assert!(said.contains("the body ends early"), "{said}");
    assert!(link("file=a.txt:1", b"01", &|| false).unwrap_err().message.contains("surplus bytes"));
    assert!(link("", b"", &|| false).unwrap_err().message.contains("give 1 to 8"));
}

/// A probe's report names its traces; no other file of this machine is read.
#[test]
fn only_what_came_with_the_request_is_read() {
    let report = r#"{ "lasthop_probe": 1, "server": "x", "one_way_delay_ms": 5.0,
        "down": { "rate_bps": { "value": 1e7, "interval": null }, "queue": null, "trace": "down.csv" },
        "up": { "rate_bps": { "value": 1e6, "interval": null }, "queue": null, "trace": "up.csv" } }"#;
    let trace = losses();
    let whole = link_of(&[("probe.json", report), ("up.csv", &trace), ("down.csv", &trace)], "").unwrap();
    assert_eq!(whole["source"], "probe");
    assert!(whole["words"].as_str().unwrap().starts_with("10000 kbps down, 1000 kbps up, delay 5 ms"), "{whole}");
    let said = link_of(&[("probe.json", report), ("up.csv", &trace)], "").unwrap_err();
    assert_eq!(said, "down.csv: not among the given files: probe.json, up.csv");
    // Measured rates that move are in the scenario, since it may read no file.
    let moving = r#""trace": "down.csv", "behaviour": { "varying_rate": { "least_bps": 2e6, "most_bps": 2e7,
        "series": [{ "at_s": 0, "rate_bps": 2e7 }, { "at_s": 30, "rate_bps": 2e6 }] } }, "moving": { "summary": "", "family": "replay",
        "why": "", "fits": null, "trains": 300, "seconds": 60, "trace": "down-rate.csv" }"#;
    let moving = report.replace(r#""trace": "down.csv""#, moving);
    let whole = link_of(&[("probe.json", &moving), ("up.csv", &trace), ("down.csv", &trace)], "").unwrap();
    let scenario = whole["scenario"].as_str().unwrap();
    assert!(scenario.contains("offset = \"random\" }") && !scenario.contains("file = "), "{scenario}");
    assert!(lasthop_scenario::Scenario::parse_sealed("x", scenario).is_ok());
    let elsewhere = report.replace("down.csv", "/etc/passwd");
    assert!(link_of(&[("probe.json", &elsewhere)], "").unwrap_err().contains("expected the name of a file beside"));
}

#[test]
fn whoever_has_gone_keeps_nothing_computing() {
    let (query, body) = files(&[("hop.csv", &losses())]);
    let asked = AtomicUsize::new(0);
    let gone = || asked.fetch_add(1, Ordering::Relaxed) >= 10;
    assert!(link(&query, &body, &gone).unwrap_err().message.contains("takes too long for a page"));
    assert!(asked.load(Ordering::Relaxed) < 40_000);
}

fn scenario() -> String {
    let link = link_of(&[("hop.csv", &losses())], "&rate=6+Mbps&delay=10+ms").unwrap();
    link["scenario"].as_str().unwrap().to_owned()
}

#[test]
fn an_advice_comes_with_its_progress() {
    let mut lines = Vec::new();
    advise("control=box&for=bulk&runs=2", scenario().as_bytes(), 1, &|| false, |line| lines.push(line)).unwrap();
    // Leaving the link as it is, and two cures on one device, twice each.
    assert_eq!(lines[0]["total"], 6);
    assert_eq!(lines.iter().filter_map(|line| line["done"].as_u64()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    let last = lines.last().unwrap();
    assert_eq!((&last["complete"], last["advice"]["runs"].as_u64()), (&json!(true), Some(2)));
    assert_eq!((last["hop"]["down"].as_u64(), last["hop"]["turns"].as_u64()), (Some(6_000_000), Some(0)));
    assert!(last["words"][0].as_str().unwrap().starts_with("Advice: "), "{last}");
    assert_eq!(last["advice"]["promise"]["lasthop_promise"], 1);
}

/// A page may ask for the customer's side, and for uploads.
#[test]
fn an_advice_is_for_the_requested_place() {
    let mut lines = Vec::new();
    let query = "control=box&place=customer&for=upload&runs=1";
    advise(query, scenario().as_bytes(), 1, &|| false, |line| lines.push(line)).unwrap();
    let last = lines.last().unwrap();
    let cures: Vec<_> = last["advice"]["cures"].as_array().unwrap().iter().map(|cure| cure["cure"].clone()).collect();
    assert_eq!(cures, ["E2E-CUBIC", "SNOOP@customer", "SPLIT-BBR@customer"]);
    assert_eq!(last["hop"], Value::Null);
}

#[test]
fn an_advice_without_runs_is_none_and_a_wrong_question_is_refused() {
    let mut lines = Vec::new();
    advise("runs=50", scenario().as_bytes(), 2, &|| true, |line| lines.push(line)).unwrap();
    let last = lines.last().unwrap();
    assert_eq!((&last["advice"], &last["complete"]), (&Value::Null, &json!(false)));
    let refused = |query: &str, text: &str| advise(query, text.as_bytes(), 1, &|| true, |_| {}).unwrap_err();
    for (query, control) in [
        ("control=roof", "control"),
        ("place=roof", "place"),
        ("for=films", "for"),
        ("runs=51", "runs"),
        ("runs=0", "runs"),
    ] {
        assert_eq!(refused(query, &scenario()).control.as_deref(), Some(control), "{query}");
    }
    assert!(refused("", "hosts = 1").message.starts_with("link.toml"));
    // A value that would make this machine open a file.
    let replay = scenario().replace("model = \"none\"", "model = \"replay\"\nfile = \"/etc/passwd\"");
    let said = refused("", &replay).message;
    assert!(said.contains("other files are not opened here"), "{said}");
}

#[test]
fn a_cure_is_files_and_commands() {
    let text = |query: &str| configuration(query).unwrap()["files"][0]["text"].as_str().unwrap().to_owned();
    assert!(text("cure=SNOOP&interface=wlan0").contains("mode = \"snoop\"\ninterface = \"wlan0\""));
    assert!(text("cure=SPLIT-BBR&interface=wlan0").contains("mode = \"split\""));
    assert!(text("cure=SNOOP@customer&interface=wlan0").contains("# For the customer's router"));
    assert!(text("cure=E2E-BBR").contains("net.ipv4.tcp_congestion_control = bbr"));
    let keys = "near-key=3p7bfXt9wbTTW2HC7OQ1Nz%2BDQ8hbeGdNrfx%2BFG%2BIK08%3D&far-key=HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw%3D";
    let tunnel =
        format!("cure=LINK-HYBRID&{keys}&far=boat.example&behind-far=10.20.0.0/16&down=6000000&up=1000000&turns=0");
    let made = configuration(&tunnel).unwrap();
    let [near, far] = [0, 1].map(|at| made["files"][at]["text"].as_str().unwrap());
    assert!(near.contains("endpoint = \"boat.example:51900\"") && near.contains("rate = \"5700 kbps\""), "{near}");
    assert!(near.contains("\"10.20.0.0/16\"") && far.contains("rate = \"950 kbps\""), "{far}");
    assert!(far.contains("# No endpoint"), "{far}");
    for (query, control) in [
        ("", "cure"),
        ("cure=E2E-CUBIC", "cure"),
        ("cure=SNOOP", "interface"),
        ("cure=SNOOP&interface=a/b", "interface"),
        ("cure=LINK-HYBRID&far=boat.example", "near-key"),
        (&tunnel.replace("far=boat.example&", ""), "far"),
        (&tunnel.replace("far-key=HI", "far-key=!!"), "far-key"),
        (&tunnel.replace("10.20.0.0/16", "everywhere"), "behind-far"),
    ] {
        let refused = configuration(query).unwrap_err();
        assert_eq!(refused.control.as_deref(), Some(control), "{query}: {refused}");
    }
}

const PROMISE: &str = r#"{ "lasthop_promise": 1, "link": "x", "seed": 1, "runs": 3, "advised": "SNOOP", "cures": [
    { "cure": "SNOOP", "needs": "one device", "uses": [
        { "use": "bulk", "unit": "Mbps", "value": 8, "interval": [7.5, 8.5], "factor": { "mean": 2, "interval": [1.8, 2.2] } } ] } ] }"#;

#[test]
fn a_report_is_set_beside_its_promise() {
    let report = r#"{ "rules": [
        { "name": "hop", "mode": "snoop", "ab": 0.1, "gain": { "ratio": 1.9, "low": 1.5, "high": 2.4 },
          "treated": { "flows": 50 }, "untreated": { "flows": 9 } },
        { "name": "other", "mode": "observe", "ab": 0.1 } ] }"#;
    for order in [[("p.json", PROMISE), ("r.json", report)], [("r.json", report), ("p.json", PROMISE)]] {
        let (query, body) = files(&order);
        let proof = prove(&query, &body).unwrap();
        let promise = &proof["report"]["rules"][0]["promise"];
        assert_eq!((promise["verdict"].as_str(), promise["cure"].as_str()), (Some("kept"), Some("SNOOP")));
        assert_eq!(
            proof["parts"][0]["words"],
            "promise: 2.0 times as fast for downloads (1.8-2.2), measured 1.9 (1.5-2.4): kept"
        );
        assert_eq!((&proof["parts"][0]["flows"][0], &proof["parts"][1]["name"]), (&json!(50), &json!("other")));
        assert!(proof["report"]["rules"][1]["promise"]["why_none"].is_string());
    }
    // An end of the two-ended link.
    let peers = r#"{ "peers": [ { "name": "boat", "ab": 0.1, "gain": { "ratio": 1.2, "low": 1.1, "high": 1.3 } } ] }"#;
    let (query, body) = files(&[("p.json", &PROMISE.replace("SNOOP", "LINK-HYBRID")), ("r.json", peers)]);
    assert_eq!(prove(&query, &body).unwrap()["report"]["peers"][0]["promise"]["verdict"], "fell-short");
    for (named, expected) in [
        (vec![("r.json", report)], "the promise is missing"),
        (vec![("p.json", PROMISE)], "expected output of `lasthop gateway report --json`"),
        (vec![("p.json", PROMISE), ("r.json", "[]")], "r.json: expected output of"),
        (vec![("p.json", PROMISE), ("r.json", "{")], "r.json: expected output of"),
        (vec![("p.json", "{ \"lasthop_promise\": 2 }"), ("r.json", report)], "p.json: lasthop_promise = 2"),
    ] {
        let (query, body) = files(&named);
        let said = prove(&query, &body).unwrap_err().message;
        assert!(said.contains(expected), "{said}");
    }
}
