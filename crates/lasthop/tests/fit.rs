//! Tests from a loss trace to a scenario that runs.

use std::fmt::Write;

use crate::common::Bench;
use serde_json::Value;

/// Returns standard error of a call that must fail.
fn refused(bench: &Bench, arguments: &str) -> String {
    let output = bench.run(arguments);
    assert!(!output.status.success(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns losses for 4,000 packets with a spacing of 1 ms from a small generator: 1 in 50.
fn table() -> String {
    let mut state = 1u64;
    let mut text = "sent_s,bytes,lost\n".to_owned();
    for number in 0..4000u32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = writeln!(text, "{:.3},1000,{}", f64::from(number) / 1e3, u8::from((state >> 33).is_multiple_of(50)));
    }
    text
}

#[test]
fn a_trace_becomes_a_scenario_that_compare_takes() {
    let bench = Bench::new();
    bench.put("down.csv", &table());
    bench.put("up.txt", &"0001000 # both ways\n".repeat(200));
    let arguments = "fit down.csv --up up.txt --rate 10Mbps --delay 20ms --out link.toml";
    let said = bench.stdout(arguments);
    assert!(said.contains("The model uniform fits the losses.") && said.contains("No model fits"), "{said}");
    let written = bench.text("link.toml");
    assert!(written.contains("rate = \"10 Mbps\"") && written.contains("assumed; --queue sets it"), "{written}");
    bench.stdout("compare link.toml --schemes E2E-CUBIC,SNOOP -n 1 --set flows.download.size=100kB");
    // Overwriting requires --force.
    assert!(refused(&bench, arguments).contains("link.toml"));
    bench.stdout(&format!("{arguments} --force"));
}

#[test]
fn json_has_the_chosen_model_first_and_is_the_same_every_time() {
    let bench = Bench::new();
    bench.put("down.csv", &table());
    assert_eq!(bench.stdout("fit down.csv --json"), bench.stdout("fit down.csv --json"));
    let value = bench.json("fit down.csv --json");
    let chosen = &value["down"]["fit"]["fits"][0];
    let loss = chosen["parameters"][0]["value"].as_f64().unwrap();
    let lost = table().lines().filter(|line| line.ends_with(",1")).count();
    assert_eq!((chosen["family"].as_str(), (loss * 4000.0).round() as usize), (Some("uniform"), lost));
    assert_eq!(value["up"], Value::Null);
}

#[test]
fn what_is_no_trace_is_said_in_one_line() {
    let bench = Bench::new();
    for (text, expected) in [
        ("hello", "trace.txt: line 1: 'h'; expected 0 (received) and 1 (lost)"),
        ("", "trace.txt: no packets"),
        ("sent_s,lost\n1,0\nsoon,1\n", "trace.txt: line 3: sent_s = 'soon': expected non-negative seconds"),
    ] {
        bench.put("trace.txt", text);
        let said = refused(&bench, "fit trace.txt");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
    // An empty file must be reported as not a capture.
    bench.put("empty.pcap", "");
    for command in ["fit", "advise"] {
        let said = refused(&bench, &format!("{command} empty.pcap"));
        assert!(said.contains("empty.pcap: not a capture: expected a pcap or pcapng file"), "{said}");
    }
    std::fs::create_dir(bench.path().join("folder")).unwrap();
    for out in ["", " --out link.toml"] {
        let said = refused(&bench, &format!("fit no-such-file{out}"));
        assert!(said.contains("no-such-file: No such file"), "{said}");
        let said = refused(&bench, &format!("fit folder{out}"));
        assert!(
            said.contains("folder: contains no probe.json; give a folder written by a completed `lasthop probe --out`"),
            "{said}"
        );
    }
    let said = refused(&bench, "advise folder");
    assert!(said.contains("folder: contains no probe.json"), "{said}");
}
