//! Tests of `lasthop convert`, from a public trace to a run.

use std::fmt::Write;

use crate::common::Bench;

/// Returns standard error of a call that must fail.
fn refused(bench: &Bench, arguments: &str) -> String {
    let output = bench.run(arguments);
    assert!(!output.status.success(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns opportunities of 12 Mbps for a second, then of 1.2 Mbps for a second.
fn opportunities() -> String {
    let mut text = String::new();
    (1..=1000).for_each(|at| writeln!(text, "{at}").unwrap());
    (1..=100).for_each(|at| writeln!(text, "{}", 1000 + 10 * at).unwrap());
    text
}

const SCENARIO: &str = "hosts = { a = {}, b = {} }\ntcp = { preset = \"linux-6.18\" }\nflows.f = { from = \"a\", to = \"b\", size = \"1 MB\" }\n\
     [links.l]\nbetween = [\"a\", \"b\"]\ndelay = \"20 ms\"\nqueue = \"50 packets\"\ntrace = { file = \"link.csv\" }\n";

#[test]
fn a_public_trace_becomes_a_link() {
    let bench = Bench::new();
    bench.put("x.down", &opportunities());
    bench.put("x.delay", &"30\n".repeat(200));
    let arguments = "convert --from leoreplayer --down x.down --up x.down --delay x.delay --step 1s --out link.csv";
    let output = bench.run(arguments);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.stdout.is_empty() && said.contains("rate_down_mbps: mean 6.6000, 5 % 1.2120, 95 % 11.9880"),
        "{said}"
    );
    assert!(said.contains("2.000 s in 3 rows") && said.contains("order = \"free\""), "{said}");
    // The opportunity at 1000 ms is the first of the second step.
    assert!(
        bench
            .text("link.csv")
            .starts_with("t_s,rate_down_mbps,rate_up_mbps,delay_down_ms,delay_up_ms\n0,11.988,11.988,30,30\n1,1.212,")
    );
    bench.put("s.toml", SCENARIO);
    let rows = bench.stdout("compare s.toml --schemes E2E-CUBIC,E2E-BBR -n 1");
    assert!(rows.contains("E2E-BBR"), "{rows}");
    // Overwriting requires --force.
    assert!(refused(&bench, arguments).contains("--out link.csv: file exists"));
    let json = bench.json(&format!("{arguments} --force --json"));
    assert_eq!((json["statistics"]["rows"].as_u64(), json["files"][0].as_str()), (Some(3), Some("link.csv")));
    assert_eq!(json["statistics"]["columns"][2]["name"].as_str(), Some("delay_down_ms"));
    // And back: as many opportunities and delays.
    bench.stdout("convert --from csv link.csv --to leoreplayer --out y");
    assert_eq!(bench.text("y.down").lines().count(), 1100);
    assert_eq!(bench.text("y.delay"), bench.text("x.delay"));
}

#[test]
fn standard_input_is_a_file() {
    let bench = Bench::new();
    let mut command = bench.command("convert --from mahimahi --up - --step 2s");
    let output = command.write_stdin(opportunities()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "t_s,rate_up_mbps\n0,6.6\n2,6.6\n");
}

#[test]
fn errors_have_one_line_with_the_remedy() {
    let bench = Bench::new();
    bench.put("x", "1\n2\nthree\n");
    bench.put("y.csv", "t_s,loss_up\n0,0.5\n1,0\n");
    for (arguments, expected) in [
        ("convert --from mahimahi --down x", "x: has no whole number of milliseconds in line 3"),
        ("convert --from mahimahi x", "FILE: not with --from mahimahi, which takes --down, --up"),
        ("convert --from lens --down x", "--down: not with --from lens, which takes FILE"),
        ("convert --from lens", "one file for both directions"),
        ("convert --from mahimahi --down none", "none: "),
        ("convert --from mahimahi --down - --up -", "standard input) is given twice"),
        ("convert --from csv y.csv --to mahimahi", "give their name with --out"),
        ("convert --from csv y.csv --to mahimahi --out z", "no column that mahimahi can express; it has loss_up"),
        ("convert --from csv y.csv --json", "--out"),
    ] {
        let error = refused(&bench, arguments);
        assert!(error.contains(expected) && error.trim_end().lines().count() == 1, "{arguments}: {error}");
    }
    assert!(!bench.has("z.down"));
}

/// The example of the documentation works from its own folder, and its schemes differ in what they achieve.
#[test]
fn the_example_of_the_documentation_runs() {
    let bench = Bench::new();
    for name in ["link-trace.toml", "link-trace.csv"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        bench.put(name, &std::fs::read_to_string(path).unwrap());
    }
    let rows =
        bench.json("compare link-trace.toml --schemes E2E-CUBIC,SPLIT-BBR -n 1 --json --set flows.download.size=2MB");
    assert!(rows.to_string().contains("SPLIT-BBR"), "{rows}");
    let explained = bench.stdout("explain link-trace.toml");
    assert!(explained.contains("mean of the trace, rate_down_mbps"), "{explained}");
}
