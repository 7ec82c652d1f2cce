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
