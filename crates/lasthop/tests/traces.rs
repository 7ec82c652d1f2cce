//! Tests of `lasthop trace`: selection of records, and output files.

use crate::common::{Bench, TINY};

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn a_part_of_the_run() {
    let bench = Bench::new();
    let all = bench.stdout("trace tiny.toml");
    let all = lines(&all);
    assert_eq!(lines(&bench.stdout("trace tiny.toml --limit 7")), all[..7]);
    let time = |line: &str| line.split_whitespace().next().unwrap().parse::<f64>().unwrap();
    let part = bench.stdout("trace tiny.toml --from '100 ms' --to '0.2 s'");
    let expected: Vec<&str> = all.iter().copied().filter(|line| (0.1..=0.2).contains(&time(line))).collect();
    assert!(!expected.is_empty() && expected.len() < all.len());
    assert_eq!(lines(&part), expected);
    assert_eq!(lines(&bench.stdout("trace tiny.toml --from '100 ms' --limit 3")), expected[..3]);
    let csv = bench.stdout("trace tiny.toml --csv --limit 3");
    assert_eq!(lines(&csv), lines(&bench.stdout("trace tiny.toml --csv"))[..4]);
    assert_eq!(bench.stdout("trace tiny.toml --limit 0"), "");
    let point = bench.stdout("trace tiny.toml --point tower:radio");
    let expected: Vec<&str> = all.iter().copied().filter(|line| line.contains("  tower:radio  ")).collect();
    assert_eq!(lines(&point), expected);
    let refused = bench.run("trace tiny.toml --from 3");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("the unit is missing") && message.contains("\"1.5 s\""), "{message}");
}

/// The whole trace would not fit into memory.
#[test]
fn the_first_lines_of_a_run_without_end() {
    let bench = Bench::new();
    bench.put("endless.toml", &TINY.replace("100 KiB", "1024 GiB").replace("runs = 2", "limit = \"10000 h\""));
    assert_eq!(bench.stdout("trace endless.toml --limit 50").lines().count(), 50);
    bench.stdout("trace endless.toml --limit 50 --pcapng few.pcapng");
    assert!(bench.bytes("few.pcapng").len() < 20_000);
}

#[test]
fn a_capture_says_what_it_is_and_replaces_captures_only() {
    let bench = Bench::new();
    let write = |arguments: &str| {
        let output = bench.run(&format!("trace tiny.toml --pcapng {arguments}"));
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (fine, message) = write("run.pcapng");
    assert!(
        fine && message.starts_with("run.pcapng: ") && message.contains(" frames of 4 capture points, 0."),
        "{message}"
    );
    assert!(write("run.pcapng --point phone").1.contains("frames of 1 capture point,"));
    bench.put("notes.pcapng", "mine");
    let (fine, message) = write("notes.pcapng");
    assert!(
        !fine
            && message.contains("notes.pcapng: file exists and is not a capture written by lasthop")
            && message.contains("--force"),
        "{message}"
    );
    assert_eq!(bench.text("notes.pcapng"), "mine");
    assert!(write("notes.pcapng --force").0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_one_error() {
    let bench = Bench::new();
    let full = bench.run("trace tiny.toml --pcapng /dev/full");
    let message = String::from_utf8(full.stderr).unwrap();
    assert_eq!(message, "error: /dev/full: No space left on device (os error 28)\n");
    let out = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("lasthop"));
    let output = command.args(["trace", "tiny.toml"]).current_dir(bench.path()).stdout(out).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("No space left on device") && message.lines().count() == 1, "{message}");
}

/// Each connection of a session counts from its own first sequence number.
#[test]
fn sequence_numbers_of_sessions_count_from_zero() {
    let bench = Bench::new();
    let text = bench.stdout("trace multilayer-web-lan --limit 20000");
    let mut connections = 0;
    for line in text.lines() {
        if line.contains("[S]") && line.contains(" sent ") {
            assert!(line.contains("seq 0:1,"), "{line}");
            connections += 1;
        }
        let numbers = line.split([' ', ':', ',']).filter_map(|word| word.parse::<u64>().ok());
        // Pages are far smaller, and raw sequence numbers far larger.
        assert!(!line.contains(" seq ") || numbers.max().unwrap() < 10_000_000, "{line}");
    }
    assert!(connections > 10, "{connections}");
    bench.stdout("plot multilayer-web-lan --set 'limit=60 s' --out web");
    let svg = bench.text("web/sequence.svg");
    assert!(svg.contains("reply-1") && svg.contains("one connection after another"), "{svg}");
    let other = bench.run("plot multilayer-web-lan --flow nothing");
    let message = String::from_utf8(other.stderr).unwrap();
    assert!(message.contains("--flow nothing: no such flow") && message.contains("request-1"), "{message}");
}

/// The lines of connections' states are added, and change nothing else.
#[test]
fn states_of_connections() {
    let bench = Bench::new();
    let all = bench.stdout("trace tiny.toml --tcp-info '50 ms'");
    let (states, others): (Vec<&str>, Vec<&str>) = all.lines().partition(|line| line.contains("  tcp-info "));
    assert_eq!(others, lines(&bench.stdout("trace tiny.toml")));
    // At each multiple of 50 ms, and at the end, when all 100 KiB, the SYN and the FIN are acknowledged.
    let time = |line: &str| line.split_whitespace().next().unwrap().parse::<f64>().unwrap();
    let (last, before) = states.split_last().unwrap();
    let expected: Vec<f64> = (1..).map(|sample| f64::from(sample) * 0.05).take(before.len()).collect();
    assert!(before.len() > 5 && before.iter().zip(&expected).all(|(line, at)| (time(line) - at).abs() < 1e-9), "{all}");
    assert!(last.contains(" unacked=0 ") && last.contains(" bytes_acked=102402 "), "{last}");
    assert!(states[0].contains("  server  ") && states[0].contains(" state=established "), "{}", states[0]);
    // The selection applies to them too, and CSV and JSON have them in the column of options.
    assert!(!bench.stdout("trace tiny.toml --tcp-info '50 ms' --point phone").contains("tcp-info"));
    assert_eq!(bench.stdout("trace tiny.toml --tcp-info '50 ms' --limit 40").lines().count(), 40);
    let csv = bench.stdout("trace tiny.toml --tcp-info '50 ms' --csv");
    let row = csv.lines().find(|line| line.contains(",tcp-info,")).unwrap();
    assert!(row.starts_with("0.050000000,server,download,tcp-info,,,,,,,,,,,state=established "), "{row}");
    let json = bench.stdout("trace tiny.toml --tcp-info '50 ms' --json");
    let record = json.lines().find(|line| line.contains("tcp-info")).unwrap();
    let record: serde_json::Value = serde_json::from_str(record).unwrap();
    assert_eq!((&record["point"], &record["flow"]), (&"server".into(), &"download".into()));
    let refused = bench.run("trace tiny.toml --tcp-info '0 s'");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && message.contains("interval"), "{message}");
}

/// A transfer that completed has all its bytes acknowledged, whatever the control; a flow without TCP has no state.
#[test]
fn the_last_state_of_each_flow_is_in_json() {
    let bench = Bench::new();
    let call = "\n[flows.call]\nfrom = \"server\"\nto = \"phone\"\napp = \"call\"\n";
    bench.put("both.toml", &format!("{TINY}{call}"));
    let value: serde_json::Value = serde_json::from_str(&bench.stdout("run both.toml --json --runs 1")).unwrap();
    let flow =
        |name: &str| value["flows"].as_array().unwrap().iter().find(|flow| flow["flow"] == name).unwrap().clone();
    let info = &flow("download")["tcp_info"];
    assert_eq!(
        (&info["bytes_acked"], &info["unacked"], &info["notsent_bytes"]),
        (&102_402.into(), &0.into(), &0.into())
    );
    // The classic sender keeps no scoreboard.
    assert!(info["state"].is_string() && info["rtt"].as_u64() > Some(14_000), "{info}");
    assert!(["ca_state", "lost", "total_retrans", "delivered"].iter().all(|field| info[field].is_null()), "{info}");
    assert!(flow("call").get("tcp_info").is_none());
    let linux = bench.stdout("run tiny.toml --json --runs 1 --set tcp.preset=linux-6.18");
    let value: serde_json::Value = serde_json::from_str(&linux).unwrap();
    let (info, measures) = (&value["flows"][0]["tcp_info"], &value["flows"][0]["measures"]);
    assert_eq!(info["total_retrans"].as_f64(), measures["source_retransmissions"]["mean"].as_f64());
    assert!(info["total_retrans"].as_u64() > Some(0) && info["min_rtt"].as_u64() >= Some(14_000), "{info}");
    assert_eq!(info["ca_state"], "open");
}
