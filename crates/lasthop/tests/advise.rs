//! Tests from a link to the cure and its configuration.

use crate::common::Bench;
use serde_json::Value;

/// Returns the last line of standard error of a call that must fail.
fn refused(bench: &Bench, arguments: &str) -> String {
    let output = bench.run(arguments);
    assert!(!output.status.success(), "{arguments}");
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap_or_default().to_owned()
}

/// Returns the error of a call that must fail before anything is simulated.
fn refused_at_once(bench: &Bench, arguments: &str) -> String {
    let output = bench.run(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

const QUICK: &str = "--for bulk -n 3";

#[test]
fn a_lossy_link_gets_a_cure_with_figures_and_reasons() {
    let bench = Bench::new();
    let said = bench.stdout(&format!("advise farm-radio {QUICK}"));
    for expected in
        ["E2E-CUBIC", "LINK-HYBRID", "Advice: ", "times the result without a cure.", "With a device at each end: "]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let json: Value = serde_json::from_str(&bench.stdout(&format!("advise farm-radio {QUICK} --json"))).unwrap();
    let cures = json["cures"].as_array().unwrap();
    let advised = json["advice"].as_str().unwrap();
    let cured = cures.iter().find(|cure| cure["cure"] == advised).unwrap();
    assert!(cured["gain"].as_f64().unwrap() > 1.5 && cured["helps"] == true, "{json}");
    assert_eq!(cures[0]["uses"][0]["ratio"]["mean"], 1.0);
    // The same seed gives the same advice with any number of threads.
    let [one, two] = ["-j 1", "-j 2"].map(|jobs| bench.stdout(&format!("advise farm-radio {QUICK} --json {jobs}")));
    assert_eq!(one, two);
}

#[test]
fn a_link_without_losses_is_left_alone() {
    let bench = Bench::new();
    let clean = format!("advise farm-radio {QUICK} --set links.radio.errors=none --control sender,box");
    let clean = clean.replace("=none", "={model=\"none\"}");
    let said = bench.stdout(&clean);
    assert!(
        said.contains("No cure is advised: none is certain to gain at least 3 % on this link without harming a use."),
        "{said}"
    );
    let error = refused(&bench, &format!("{clean} --out gateway.toml"));
    assert!(error.contains("--out gateway.toml: no cure helps on this link"), "{error}");
    assert!(!bench.has("gateway.toml"));
}

/// For uploads one device stands at the customer's side, where its configuration is for, or split connections at the
/// base station.
#[test]
fn uploads_get_a_device_at_the_customers_side() {
    let bench = Bench::new();
    let upload = "advise farm-radio --for upload -n 2 --control box --set 'links.radio.delay=20 ms'";
    let said = bench.stdout(&format!("{upload} --out here/ --interface wlan0"));
    for expected in ["SNOOP@customer", "one device at the customer's side", "SNOOP does not repair uploads: "] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(bench.text("here/gateway.toml").contains("# For the customer's router at the end of the hop"));
    let promise: Value = serde_json::from_str(&bench.text("here/gateway.promise.json")).unwrap();
    assert!(promise["advised"].as_str().unwrap().ends_with("@customer"), "{promise}");
    let json: Value = serde_json::from_str(&bench.stdout(&format!("{upload} --place base-station --json"))).unwrap();
    let cures = json["cures"].as_array().unwrap();
    assert!(cures[1..].iter().all(|cure| cure["place"] == "base-station" && cure["cannot"].is_string()), "{json}");
    assert_eq!(json["best_at"]["customer"], Value::Null);
    let error = refused(&bench, "advise farm-radio --place roof");
    assert!(error.contains("give one of base-station, customer, both"), "{error}");
}

#[test]
fn the_winners_configuration_is_written_once() {
    let bench = Bench::new();
    let box_alone = format!("advise farm-radio {QUICK} --control box --out gateway.toml");
    let error = refused(&bench, &box_alone);
    assert!(error.contains("give --interface"), "{error}");
    let error = refused_at_once(&bench, &format!("{box_alone} --interface a/b"));
    assert!(error.contains("--interface: \"a/b\": it is not an interface name"), "{error}");
    assert!(!bench.has("gateway.toml"));
    let said = bench.stdout(&format!("{box_alone} --interface lo"));
    assert!(said.contains("wrote gateway.toml and gateway.promise.json; lasthop gateway check gateway.toml"), "{said}");
    assert!(bench.text("gateway.toml").contains("interface = \"lo\""));
    let promise: Value = serde_json::from_str(&bench.text("gateway.promise.json")).unwrap();
    let advised = promise["advised"].as_str().unwrap();
    let cured = promise["cures"].as_array().unwrap().iter().find(|cure| cure["cure"] == advised).unwrap();
    let factor = &cured["uses"][0]["factor"];
    let [low, mean, high] =
        [&factor["interval"][0], &factor["mean"], &factor["interval"][1]].map(|it| it.as_f64().unwrap());
    assert!(1.0 < low && low < mean && mean < high, "{promise}");
    let error = refused(&bench, &format!("{box_alone} --interface lo"));
    assert!(error.contains("file exists") && error.contains("--force"), "{error}");
    bench.stdout(&format!("advise farm-radio {QUICK} --control sender --out bbr.conf"));
    assert!(bench.text("bbr.conf").contains("net.ipv4.tcp_congestion_control = bbr"));
}

#[test]
fn what_cannot_be_asked_is_refused_in_a_line() {
    let bench = Bench::new();
    assert!(refused(&bench, "advise farm-radio --control roof").contains("give one or more of sender, box, boxes"));
    assert!(refused(&bench, "advise farm-radio --for films").contains("give one or more of bulk, upload, pages, call"));
    // The scenario has no place for a device, and says nothing about senders and receivers.
    let plain = "[hosts.a]\n[hosts.b]\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"\n[flows.f]\nfrom = \"a\"\nto = \"b\"\n";
    bench.put("plain.toml", &format!("{plain}size = \"1 MB\"\n"));
    assert!(refused(&bench, "advise plain.toml").contains("plain.toml: base_station: missing"));
    bench.stdout(&format!("advise plain.toml {QUICK} --control sender"));
    bench.put(
        "silent.toml",
        &format!("{plain}app = \"on-off\"\non = \"1 s\"\noff = \"1 s\"\nrate = \"1 kbps\"\npacket = \"100 B\"\n"),
    );
    assert!(refused(&bench, "advise silent.toml").contains("silent.toml: flows: missing; give a transfer"));
}

/// `atlas-link` lies in the atlas; other links lie outside by a value, or by their kind.
#[test]
fn the_place_of_a_link_in_the_atlas_is_named() {
    let bench = Bench::new();
    let sender = "--control sender --for bulk -n 1";
    let place = |link: &str| {
        let json: Value = serde_json::from_str(&bench.stdout(&format!("advise {link} {sender} --json"))).unwrap();
        json["atlas"].clone()
    };
    let said = bench.stdout(&format!("advise atlas-link {sender}")).replace('\n', " ");
    let inside = place("atlas-link");
    assert_eq!(inside["inside"], true);
    let bins = [("rate", "10 to 30 Mbps"), ("loss", "1 to 3 %")];
    for (dimension, bin) in bins {
        assert_eq!(inside["region"][dimension], bin);
    }
    let (links, atlas) = (&inside["results"]["links"], &inside["atlas_links"]);
    let expected = format!("Atlas: on {links} of its {atlas} links, with rate 10 to 30 Mbps, ");
    assert!(said.contains(&expected), "{said}");
    assert!(links.as_u64().unwrap() >= 10, "{inside}");
    // The region is as many links as the schemes won, and its words name the verdict.
    let won = |at: usize| inside["results"]["schemes"][at]["won"].as_u64().unwrap();
    assert_eq!((0..5).map(won).sum::<u64>(), links.as_u64().unwrap());
    if let Some(cure) = inside["results"]["cure"].as_str() {
        assert!(said.contains(&format!("{cure} won for a download, ")), "{said}");
    }
    let outside = place("atlas-link --set links.hop.rate='1 Gbps' --set links.hop.errors={model=\"none\"}");
    assert_eq!(outside["inside"], false);
    assert!(outside["outside"][0].as_str().unwrap().starts_with("rate 1000 Mbps (the atlas has 0.3 to 300 Mbps)"));
    let wifi = place("home-wifi-1");
    assert!(wifi["outside"][0].as_str().unwrap().starts_with("link wifi is Wi-Fi"), "{wifi}");
    // A farm's radio is half-duplex: similar links, and what differs.
    let farm = place("farm-radio");
    assert_eq!((&farm["inside"], &farm["differences"][0]), (&Value::Bool(true), &"both directions take turns".into()));
}

/// Writes a probe's folder for a link of 4 Mbps with 3 % of independent losses.
fn probed(bench: &Bench) {
    std::fs::create_dir(bench.path().join("found")).unwrap();
    let direction = |trace: &str| {
        format!(
            r#"{{ "rate_bps": {{ "value": 4e6, "interval": [3.9e6, 4.1e6] }}, "queue": {{ "packets": 40, "bytes": 60000,
            "filled": true, "bound": "packets" }}, "trace": "{trace}" }}"#
        )
    };
    let report = format!(
        r#"{{ "lasthop_probe": 1, "one_way_delay_ms": 15, "down": {}, "up": {} }}"#,
        direction("down.csv"),
        direction("up.csv")
    );
    bench.put("found/probe.json", &report);
    let mut state = 1u64;
    let mut table = |lost: u64| {
        let mut text = "sent_s,bytes,lost\n".to_owned();
        for number in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += &format!("{:.3},1000,{}\n", f64::from(number) / 100.0, u8::from((state >> 33) % 100 < lost));
        }
        text
    };
    bench.put("found/down.csv", &table(3));
    bench.put("found/up.csv", &table(0));
}

#[test]
fn a_probes_folder_is_fitted_first() {
    let bench = Bench::new();
    probed(&bench);
    let output = bench.run(&format!("advise found --control sender {QUICK} --json"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("found: 4000 kbps down, 4000 kbps up, delay 15 ms"), "{said}");
    assert!(said.contains("(uniform) down, none up"), "{said}");
    // Equal to the manual steps.
    bench.stdout("fit found --out link.toml");
    let by_hand = bench.stdout(&format!("advise link.toml --control sender {QUICK} --json"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), by_hand);
    // Options can override properties of a measurement, but not of a scenario.
    let error = refused(&bench, &format!("advise link.toml --rate '1 Mbps' {QUICK}"));
    assert!(error.contains("--rate: applies only to measurements"), "{error}");
    let other = bench.run(&format!("advise found --rate '1 Mbps' --control sender {QUICK}"));
    assert!(String::from_utf8(other.stderr).unwrap().contains("found: 1 Mbps, delay 15 ms"));
}

/// A rate that is only a lower bound is labelled as such, in text and in JSON; the user may state the actual rate.
#[test]
fn a_rate_that_is_a_lower_bound_is_said_to_be() {
    let bench = Bench::new();
    probed(&bench);
    let bound = "\"rate_is_lower_bound\": true, \"trace\": \"up.csv\"";
    bench.put("found/probe.json", &bench.text("found/probe.json").replace("\"trace\": \"up.csv\"", bound));
    let remark = "the rate up is a lower bound; give --rate if the actual rate is known";
    let advise = format!("advise found --control sender {QUICK}");
    for command in ["fit found", &advise] {
        let said = bench.stdout(command).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(remark), "{said}");
        assert_eq!(bench.json(&format!("{command} --json"))["remark"], remark);
        assert!(!bench.stdout(&format!("{command} --rate 8Mbps")).contains("lower bound"));
    }
    let found = String::from_utf8(bench.run(&advise).stderr).unwrap();
    assert!(found.contains("4000 kbps down, 4000 kbps or more up, delay"), "{found}");
}

#[test]
fn a_capture_is_fitted_first_and_says_what_it_does_not_tell() {
    let bench = Bench::new();
    let link = bench.text("tiny.toml").replace("size = \"100 KiB\"", "size = \"3 MiB\"");
    let link = link.replace("rate = \"2 Mbps\"", "rate = \"2 Mbps\"\nqueue = \"20 packets\"").replace("3 %", "1 %");
    bench.put("link.toml", &link);
    bench.stdout("trace link.toml --scheme E2E-CUBIC --pcapng hop.pcapng --point tower:radio");
    let output = bench.run(&format!("advise hop.pcapng --control sender {QUICK}"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    bench.stdout("fit hop.pcapng --out found.toml");
    let found = bench.text("found.toml");
    let value = |key: &str| {
        let line = found.lines().rfind(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}: {found}"));
        line.split('"').nth(1).unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let rate = value("rate = ");
    assert!((rate / 2000.0 - 1.0).abs() < 0.05, "{found}");
    // 2 ms over the radio, 5 ms before it.
    let delays: Vec<f64> =
        found.lines().filter_map(|line| line.strip_prefix("delay = \"")?.split(' ').next()?.parse().ok()).collect();
    assert!((delays[0] - 5.0).abs() < 1.0 && (delays[1] - 2.0).abs() < 1.0, "{found}");
    assert!(said.contains(&format!("hop.pcapng: {rate} kbps, delay {} ms", delays[1])), "{said}");
    // Without queueing, no rate shows.
    bench.put("fast.toml", &link.replace("2 Mbps", "1 Gbps").replace("3 MiB", "6 KiB"));
    bench.stdout("trace fast.toml --scheme E2E-CUBIC --pcapng fast.pcapng --point tower:radio");
    let error = refused(&bench, "advise fast.pcapng --for bulk");
    assert!(error.contains("fast.pcapng: the link's rate is unknown; give --rate, e.g. \"10 Mbps\""), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn both_ends_of_a_tunnel_are_written_and_checked() {
    let bench = Bench::new();
    let boxes = format!("advise farm-radio {QUICK} --control boxes");
    bench.stdout(&format!("{boxes} --out open/ --near-key own.key"));
    // If neither end is known, `check` says what to fill in.
    let (missing, _) = checked(&bench, "open/tunnel.toml");
    let endpoint = missing.iter().find(|finding| finding["subject"] == "peer far endpoint").unwrap();
    let detail = endpoint["detail"].as_str().unwrap();
    assert!(detail.contains("far-end.invalid:51900 is a placeholder"), "{detail}");
    assert!(bench.text("open/tunnel.toml").contains("own.key") && !bench.has("open/tunnel.key"));
    let said = bench.stdout(&format!(
        "{boxes} --out set/ --near 127.0.0.1 --far 127.0.0.2:51901 --behind-near 10.1.0.0/24 --behind-far 10.2.0.0/24,fd02::/64"
    ));
    assert!(said.contains("set/tunnel-far.toml") && said.contains("set/tunnel-far.key"), "{said}");
    for file in ["set/tunnel.toml", "set/tunnel-far.toml"] {
        let (missing, found) = checked(&bench, file);
        // Rights and the device depend on this machine.
        let of_files =
            |finding: &&Value| !["CAP_NET_ADMIN", "TUN device"].contains(&finding["subject"].as_str().unwrap());
        assert!(missing.iter().find(of_files).is_none() && found > 4, "{file}: {missing:?}");
    }
    // 95 % of what the radio carries each way.
    assert!(bench.text("set/tunnel.toml").contains("allowed = [\"10.98.76.2\", \"10.2.0.0/24\", \"fd02::/64\"]"));
    assert!(bench.has("set/tunnel.promise.json"));
    let error = refused(&bench, &format!("{boxes} --out set/"));
    assert!(error.contains("set/tunnel.toml: file exists"), "{error}");
    for (flag, value, expected) in [
        ("--behind-far", "10.2.0.1/24", "host bits set"),
        ("--behind-near", "10.1.0.0/44", "\"10.1.0.0/44\" is not valid"),
        ("--near", "a b", "\"a b:51900\""),
        ("--far", "host:99999", "\"host:99999\""),
    ] {
        let error = refused_at_once(&bench, &format!("{boxes} --out other/ {flag} '{value}'"));
        assert!(error.contains(&format!("{flag}: ")) && error.contains(expected), "{error}");
    }
    assert!(!bench.has("other/tunnel.toml"));
    let error = refused(&bench, &format!("{boxes} --out other/ --far-public-key short"));
    assert!(error.contains("a key has 44 characters") && error.contains("`lasthop tunnel keygen`"), "{error}");
}

/// Returns the findings that `tunnel check` reports as missing, and the number of all findings.
#[cfg(target_os = "linux")]
fn checked(bench: &Bench, file: &str) -> (Vec<Value>, usize) {
    let output = bench.run_all(&["tunnel", "check", "--json", file]);
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let all = findings.len();
    (findings.into_iter().filter(|finding| finding["outcome"] == "missing").collect(), all)
}
