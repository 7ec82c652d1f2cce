//! Tests of `lasthop conform`.

use std::path::Path;

use serde_json::Value;

use crate::common::Bench;

/// Script that a receiver passes which acknowledges data.
const RECEIVES: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,nop,nop,sackOK>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
+0 < P. 1:1001(1000) ack 1 win 1000
+0 > . 1:1(0) ack 1001
";

fn own_scripts() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lasthop-conform/scripts");
    folder.canonicalize().unwrap().display().to_string()
}

#[test]
fn each_result_is_told_apart() {
    let bench = Bench::new();
    bench.put("good/receives.pkt", RECEIVES);
    bench.put("bad/receives.pkt", &RECEIVES.replace("ack 1001", "ack 1002"));
    bench.put("bad/needs.pkt", &RECEIVES.replace("SO_REUSEADDR", "SO_ZEROCOPY"));
    bench.put("bad/broken.pkt", "0 socket(\n");
    let output = bench.run("conform good bad --json");
    assert_eq!(output.status.code(), Some(1), "a script failed");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total =
        ["passed", "failed", "not_applicable", "invalid"].map(|result| value["total"][result].as_u64().unwrap());
    assert_eq!(total, [1, 1, 1, 1], "{value}");
    let failed = value["scripts"].as_array().unwrap().iter().find(|script| script["result"] == "failed").unwrap();
    let [expected, got] = ["expected", "got"].map(|key| failed[key].as_str().unwrap());
    assert_eq!(failed["line"], 10);
    assert!(expected.contains("ack 1002") && got.contains("ack 1001"), "{failed}");
    let listed = bench.run("conform good bad --list failed");
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("receives.pkt:10") && text.contains("ack 1002"), "{text}");
}

#[test]
fn a_folder_that_passes_has_status_zero() {
    let bench = Bench::new();
    bench.put("good/receives.pkt", RECEIVES);
    let table = bench.stdout("conform good");
    let numbers: Vec<&str> = table.lines().last().unwrap().split_whitespace().skip(1).collect();
    assert_eq!(numbers, ["1", "0", "0", "0"], "{table}");
    let refused = bench.run("conform nowhere");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && message.starts_with("error: ") && message.contains("nowhere"), "{message}");
    let none = bench.run("conform");
    assert!(!none.status.success());
}

/// The classic presets lack most rules of Linux, so the scripts tell presets apart.
#[test]
fn presets_differ() {
    let bench = Bench::new();
    let scripts = own_scripts();
    let passed = |preset: &str| {
        let output = bench.run(&format!("conform '{scripts}' --preset {preset} --json"));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["total"]["passed"].as_u64().unwrap()
    };
    let [linux, rfc] = ["linux-6.18", "rfc"].map(passed);
    assert!(linux > 40 && rfc < linux / 2, "{linux}, {rfc}");
}
