//! Output of `fit` and `advise` for measurements that show little, or show links unlike their models.

use std::fmt::Write;

use crate::common::Bench;
use serde_json::Value;

/// Returns standard error of a call that must fail.
fn refused(bench: &Bench, arguments: &str) -> String {
    let output = bench.run(arguments);
    assert!(!output.status.success(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns a pseudorandom number (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns whether an echo is lost on a link with bad periods of about three echoes.
fn is_lost(number: u64) -> bool {
    (0..3).any(|back| number >= back && mixed((number - back) / 3).is_multiple_of(40))
}

/// Returns the milliseconds of `delay` in the table of this link.
fn delay_of(scenario: &str, link: &str) -> f64 {
    let table = scenario.split(&format!("[links.{link}]\n")).nth(1).unwrap();
    let line = table.lines().find(|line| line.starts_with("delay = ")).unwrap();
    line.split('"').nth(1).unwrap().strip_suffix(" ms").unwrap().parse().unwrap()
}

/// A capture in front of a short hop behind a long wire: the client answers within a hundredth of the round-trip time,
/// but captured packets are lost behind the capture point.
#[test]
fn a_capture_before_a_short_hop_is_no_capture_at_the_receiver() {
    let bench = Bench::new();
    bench.stdout(
        "trace farm-radio --scheme E2E-CUBIC --set links.radio.delay=50us --pcapng hop.pcapng --point mast:radio",
    );
    let said = bench.stdout("fit hop.pcapng --rate 5Mbps --out link.toml");
    let (hop, wire) = (delay_of(&bench.text("link.toml"), "hop"), delay_of(&bench.text("link.toml"), "wire"));
    assert!(hop < 2.0 && wire > 10.0 * hop, "{hop} {wire} {said}");
    assert!(said.contains("between sender and receiver"), "{said}");
    // The given place is used, and a contradiction is reported.
    let at = bench.stdout("fit hop.pcapng --rate 5Mbps --at receiver --out at.toml");
    let flat = at.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("given by --at; this contradicts") && flat.contains("a capture at the receiver cannot contain"),
        "{at}"
    );
    assert!(refused(&bench, "fit hop.pcapng --at roof").contains("expected sender, gateway or receiver"));
    // A given part of the path leaves the rest to the other part: nothing is counted twice.
    bench.stdout("fit hop.pcapng --rate 5Mbps --wire-delay 5ms --out part.toml");
    let part = bench.text("part.toml");
    let whole = delay_of(&part, "hop") + delay_of(&part, "wire");
    assert!((whole - hop - wire).abs() < 0.1 && (delay_of(&part, "wire") - 5.0).abs() < 1e-6, "{part}");
    let said = refused(&bench, "fit hop.pcapng --rate 5Mbps --wire-delay 400ms --out no.toml");
    assert!(said.contains("--wire-delay 400 ms exceeds") && !bench.has("no.toml"), "{said}");
}

/// A policer drops the excess over its rate; repair does not help against that, whatever the source of the measurement.
#[test]
fn no_cure_is_advised_against_a_policer_in_a_capture() {
    let bench = Bench::new();
    bench.stdout(
        "trace farm-radio --scheme E2E-CUBIC --set links.radio.errors.frame_loss=0 --set links.radio.rate=50Mbps \
         --set links.radio.policer_down={rate=\"5Mbps\",burst=\"60000B\"} --pcapng hop.pcapng --point mast:radio",
    );
    let said = bench.stdout("fit hop.pcapng --rate 50Mbps --out link.toml");
    assert!(said.contains("policer"), "{said}");
    let advice = bench.stdout("advise link.toml --for bulk --runs 2 --json");
    let advice: serde_json::Value = serde_json::from_str(&advice).unwrap();
    assert!(
        advice["no_cure"].as_str().is_some_and(|why| why.contains("a policer limits the direction down")),
        "{advice}"
    );
}

/// OpenWrt's ping is read like Linux's; without times the verdict on losses is unknown, and `--interval` is requested.
#[test]
fn pings_without_times_say_so() {
    let bench = Bench::new();
    let mut busybox = "PING 192.0.2.1 (192.0.2.1): 56 data bytes\n".to_owned();
    let mut linux = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n".to_owned();
    for number in (0..1000).filter(|number| !is_lost(*number)) {
        let _ = writeln!(busybox, "64 bytes from 192.0.2.1: seq={number} ttl=57 time=40.000 ms");
        let sent = number as f64 / 10.0 + 0.04;
        let _ = writeln!(
            linux,
            "[{:.6}] 64 bytes from 192.0.2.1: icmp_seq={} ttl=57 time=40.0 ms",
            1.7e9 + sent,
            number + 1
        );
    }
    bench.put("busybox.txt", &busybox);
    bench.put("linux.txt", &linux);
    let [of_busybox, of_linux] = ["busybox", "linux"].map(|name| bench.json(&format!("fit {name}.txt --json")));
    assert_eq!(of_busybox["down"]["fit"]["lost"], of_linux["down"]["fit"]["lost"]);
    assert_eq!(of_busybox["down"]["fit"]["fits"][0]["family"], "two-state-packet");
    let verdict =
        |json: &Value, aspect: &str| json["down"]["statement"][aspect]["verdict"].as_str().unwrap().to_owned();
    let aspects = |json: &Value| ["rate", "delay", "order", "duplication", "loss"].map(|aspect| verdict(json, aspect));
    assert_eq!(aspects(&of_busybox), ["unknown", "fits", "fits", "fits", "unknown"]);
    assert!(of_busybox["down"]["fit"]["untold"].as_str().unwrap().contains("--interval"));
    // With times, states in time fit as well as states in packets: both are kept.
    let with = bench.json("fit busybox.txt --interval 100ms --rate 10Mbps --delay 20ms --json");
    for json in [&of_linux, &with] {
        let fit = &json["down"]["fit"];
        let kept: Vec<&str> =
            fit["kept"].as_array().unwrap().iter().map(|kept| kept["family"].as_str().unwrap()).collect();
        let chosen = fit["fits"][0]["family"].as_str().unwrap();
        let both = ["two-state", "two-state-packet"];
        assert!(both.iter().all(|family| kept.contains(family) || chosen == *family), "{chosen} {kept:?}");
    }
}

/// Models that a measurement cannot distinguish reach the advice, from the measurement and from the scenario that `fit`
/// wrote.
#[test]
fn advice_covers_all_that_the_measurement_allows() {
    let bench = Bench::new();
    let mut text = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n".to_owned();
    for number in (0..1000).filter(|number| !is_lost(*number)) {
        let _ = writeln!(
            text,
            "[{:.6}] 64 bytes from h: icmp_seq={} ttl=57 time=40.0 ms",
            1.7e9 + number as f64 / 10.0,
            number + 1
        );
    }
    bench.put("ping.txt", &text);
    let known = "--rate 10Mbps --delay 20ms";
    bench.stdout(&format!("fit ping.txt {known} --out link.toml"));
    assert!(bench.text("link.toml").contains("[[measurement.alternatives]]"), "{}", bench.text("link.toml"));
    let quick = "--for bulk --control sender -n 1 --json";
    let direct = bench.json(&format!("advise ping.txt {known} {quick}"));
    let written = bench.json(&format!("advise link.toml {quick}"));
    assert!(!direct["alternatives"].as_array().unwrap().is_empty());
    assert_eq!(direct["alternatives"], written["alternatives"]);
    assert!(
        direct["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it.as_str().unwrap().contains("assumed: queue: 100 packets"))
    );
    let trip = &direct["cures"][0]["uses"][0]["round_trip_ms"];
    assert!(trip["median"].as_f64().unwrap() >= 80.0 && trip["p95"].as_f64() >= trip["median"].as_f64(), "{trip}");
}

/// Writes a probe's folder without losses, with `behaviour` on the downlink.
fn probed(bench: &Bench, behaviour: &str) {
    std::fs::create_dir_all(bench.path().join("found")).unwrap();
    let direction = |trace: &str, behaviour: &str| {
        format!(
            r#"{{ "rate_bps": {{ "value": 1e7, "interval": null }}, "queue": null, "trace": "{trace}", "reordered": 0, "duplicates": 0,
            "loss": {{ "packets": 3000, "lost": 0, "share": {{ "value": 0 }} }}, "behaviour": {behaviour} }}"#
        )
    };
    let report = format!(
        r#"{{ "lasthop_probe": 1, "one_way_delay_ms": 15, "down": {}, "up": {} }}"#,
        direction("down.csv", behaviour),
        direction("up.csv", "{}")
    );
    bench.put("found/probe.json", &report);
    let rows: String = (0..3000).map(|number| format!("{:.3},1000,0\n", f64::from(number) / 1e3)).collect();
    for way in ["down", "up"] {
        bench.put(&format!("found/{way}.csv"), &format!("sent_s,bytes,lost\n{rows}"));
    }
}

/// Reordering that no key models is reported as missing, and the output does not claim that the model fits.
#[test]
fn what_the_scenario_does_not_do_is_said() {
    let bench = Bench::new();
    probed(&bench, r#"{ "reordering": { "share": 0.03, "by_ms_p95": 9 } }"#);
    let said = bench.stdout("fit found --out link.toml");
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("order: does not fit: 3 % of the packets were reordered"), "{said}");
    assert!(flat.contains("loss: fits: nothing was lost") && !flat.contains("does what this link did"), "{said}");
    assert!(bench.text("link.toml").contains("order down: 3 % of the packets"), "{}", bench.text("link.toml"));
    let advised = bench.json("advise link.toml --for bulk --control sender -n 1 --json");
    assert!(advised["conditions"][0].as_str().unwrap().contains("not in the simulation: order down"), "{advised}");
}

/// Damaged output of other programs yields an error of one line.
#[test]
fn damaged_measurements_are_refused_in_one_line() {
    let bench = Bench::new();
    for (name, text, expected) in [
        ("a.txt", "64 bytes from h: icmp_seq=x ttl=57 time=1 ms\n", "a.txt: line 1: icmp_seq: expected 0 to 65535"),
        ("b.json", "{ \"round_trips\": 7 }", "b.json: line 1: expected the JSON of `irtt client -o`"),
        (
            "c.json",
            "{ \"start\": {}, \"intervals\": [] }",
            "c.json: contains no lost_packets; run iperf3 with -u and -J",
        ),
        (
            "d.txt",
            "h : [0], 64 bytes, 1 ms\nk : [1], 64 bytes, 1 ms\n",
            "d.txt: line 2: host k, but earlier lines are of h",
        ),
        ("e.json", "{ \"x\": 1 }", "e.json: not a probe.json"),
    ] {
        bench.put(name, text);
        let said = refused(&bench, &format!("fit {name}"));
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
}

/// PowerShell writes UTF-16.
#[test]
fn powershells_files_are_read() {
    let bench = Bench::new();
    let text = "Pinging h [192.0.2.1] with 32 bytes of data:\r\nReply from 192.0.2.1: bytes=32 time=12ms TTL=57\r\nRequest timed out.\r\n";
    let bytes: Vec<u8> = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    std::fs::write(bench.path().join("ping.txt"), bytes).unwrap();
    let fit = bench.json("fit ping.txt --json");
    assert_eq!((fit["down"]["fit"]["packets"].as_u64(), fit["down"]["fit"]["lost"].as_u64()), (Some(2), Some(1)));
}

/// Writes the folder of a probe of a link whose downlink alternates between 20 and 5 Mbps.
fn moving_probe(bench: &Bench) {
    std::fs::create_dir(bench.path().join("found")).unwrap();
    let mut rates = "t_s,rate_mbps,delay_ms,lost\n".to_owned();
    let mut series = Vec::new();
    for step in 0..30 {
        let rate = [20, 5][step % 2];
        let _ = writeln!(rates, "{}.000000,{rate}.000000,10.000,0.0000", 2 * step);
        series.push(format!(r#"{{ "at_s": {}, "rate_bps": {rate}e6 }}"#, 2 * step));
    }
    bench.put("found/down-rate.csv", &(rates + "60.000000,5.000000,10.000,0.0000\n"));
    let mut losses = "sent_s,bytes,lost,delay_ms,dscp\n".to_owned();
    for packet in 0..4000_u64 {
        let lost = u8::from(mixed(packet).is_multiple_of(50));
        let _ = writeln!(losses, "{:.3},1400,{lost},0,0", packet as f64 * 0.015);
    }
    bench.put("found/down.csv", &losses);
    bench.put("found/up.csv", &losses);
    bench.put("found/trace.csv", "t_s,rate_down_mbps\n0,20\n60,20\n");
    let report = format!(
        r#"{{ "lasthop_probe": 1, "one_way_delay_ms": 10, "down": {{ "rate_bps": {{ "value": 12.5e6, "interval": [5e6, 20e6] }},
        "queue": null, "trace": "down.csv", "behaviour": {{ "varying_rate": {{ "least_bps": 5e6, "most_bps": 20e6, "series": [{}] }} }},
        "moving": {{ "summary": "12 Mbps on average", "family": "markov", "why": "a hidden chain of 2 states", "fits": true,
        "trains": 300, "seconds": 60, "trace": "down-rate.csv", "states": [{{ "rate_bps": 5e6, "mean_s": 2, "next": [0, 1] }},
        {{ "rate_bps": 20e6, "mean_s": 2, "next": [1, 0] }}] }} }},
        "up": {{ "rate_bps": {{ "value": 5e6, "interval": null }}, "queue": null, "trace": "up.csv" }} }}"#,
        series.join(", ")
    );
    bench.put("found/probe.json", &report);
}

/// A link whose rate moves: the scenario has the family and replays the measured rates beside it, in the same way from
/// the folder and from the written file.
#[test]
fn a_rate_that_moves_is_modelled_and_replayed() {
    let bench = Bench::new();
    moving_probe(&bench);
    let said = bench.stdout("fit found --out link.toml");
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("rate: fits: 12 Mbps on average; model markov: a hidden chain of 2 states"), "{said}");
    let text = bench.text("link.toml");
    assert!(
        text.contains("rate_variation_down = { model = \"markov\"") && text.contains("link.down-rate.csv"),
        "{text}"
    );
    assert_eq!(bench.text("link.down-rate.csv"), bench.text("found/down-rate.csv"));
    assert!(bench.has("link.trace.csv"));
    // An existing trace is not overwritten.
    let refusal = refused(&bench, "fit found --out link.toml");
    assert!(refusal.contains("link.toml: file exists"), "{refusal}");
    std::fs::remove_file(bench.path().join("link.toml")).unwrap();
    let refusal = refused(&bench, "fit found --out link.toml");
    assert!(refusal.contains("link.down-rate.csv: file exists") && !bench.has("link.toml"), "{refusal}");
    bench.stdout("fit found --out link.toml --force");
    let quick = "--for bulk --control sender -n 2 --json";
    let direct = bench.json(&format!("advise found {quick}"));
    let others = direct["alternatives"].as_array().unwrap();
    assert!(others.iter().any(|it| it["name"] == "replay of the measured rate down, 300 trains"), "{others:?}");
    assert_eq!(direct["cures"], bench.json(&format!("advise link.toml {quick}"))["cures"]);
}
