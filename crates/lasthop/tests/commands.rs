//! Each command works on a small scenario, with output as documented in docs/output.md.

use crate::common;

use common::{Bench, keys};

const STUDIED: [&str; 16] = [
    "E2E",
    "E2E-NEWRENO",
    "E2E-SMART",
    "E2E-IETF-SACK",
    "E2E-ELN",
    "E2E-ELN-RXMT",
    "LL",
    "LL-TCP-AWARE",
    "LL-SMART",
    "LL-SMART-TCP-AWARE",
    "SPLIT",
    "SPLIT-SMART",
    "Reno/Raw",
    "SACK/Raw",
    "Reno/SR",
    "SACK/SR",
];

const TODAY: [&str; 5] = ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3", "SNOOP", "SPLIT-BBR"];

const ONE_SIDED: [&str; 1] = ["QUIC-SNOOP"];
const TWO_ENDED: [&str; 5] = ["LINK-ARQ", "LINK-FEC", "LINK-HYBRID", "LINK-MULTI", "AIRMAIL"];

const DISCUSSED: [&str; 1] = ["SPLIT-SRP"];

const MEASURES: [&str; 22] = [
    "throughput",
    "rtt_p50",
    "rtt_p95",
    "rtt_p99",
    "queue_delay_p50",
    "queue_delay_p95",
    "queue_delay_p99",
    "internet_goodput",
    "radio_goodput",
    "radio_loss",
    "frames_lost",
    "queue_drops",
    "timeouts",
    "relay_timeouts",
    "recoveries",
    "source_retransmissions",
    "local_retransmissions",
    "segments_lost",
    "repaired_locally",
    "repaired_twice",
    "dupacks_suppressed",
    "incomplete",
];

const TRACE_COLUMNS: &str =
    "time,point,flow,event,reason,from,seq,len,ack,window,sack,flags,cwnd,ssthresh,options,link";

#[test]
fn schemes_lists_them_all() {
    let bench = Bench::new();
    let names =
        |text: &str| text.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>();
    let all = [&STUDIED[..], &TODAY, &ONE_SIDED, &TWO_ENDED, &DISCUSSED].concat();
    assert_eq!(names(&bench.stdout("schemes")), all);
    let json = bench.json("schemes --json");
    let schemes = json.as_array().unwrap();
    assert!(schemes.iter().all(|scheme| keys(scheme) == ["name", "family", "summary"]));
    assert_eq!(schemes.iter().map(|scheme| scheme["name"].as_str().unwrap()).collect::<Vec<_>>(), all);
    let families =
        [("today", &TODAY[..]), ("one-sided", &ONE_SIDED), ("two-ended", &TWO_ENDED), ("discussed", &DISCUSSED)];
    for (family, members) in families {
        let is_member = |scheme: &serde_json::Value| members.contains(&scheme["name"].as_str().unwrap());
        assert!(schemes.iter().all(|scheme| (scheme["family"] == family) == is_member(scheme)), "{family}");
    }
}

#[test]
fn run_reports_every_measure() {
    let bench = Bench::new();
    let text = bench.stdout("run tiny.toml --scheme LL --runs 3 --seed 5");
    assert!(text.starts_with("Tiny\nLL, 3 runs from seed 5\n"), "{text}");
    assert!(MEASURES.iter().all(|measure| text.contains(measure)), "{text}");
    let json = bench.json("run tiny.toml --scheme LL --runs 3 --seed 5 --json");
    assert_eq!(keys(&json), ["scenario", "scheme", "seed", "runs", "measures", "flows", "links", "remarks"]);
    assert_eq!(
        (&json["scenario"], &json["scheme"], &json["seed"], &json["runs"]),
        (&"Tiny".into(), &"LL".into(), &5.into(), &3.into())
    );
    assert_eq!(keys(&json["measures"]), MEASURES);
    for measure in MEASURES {
        let measure = &json["measures"][measure];
        assert_eq!(keys(measure), ["unit", "mean", "ci95", "runs"]);
        assert!(measure["mean"].is_f64() && measure["ci95"].is_f64() && measure["runs"] == 3);
    }
    let throughput = json["measures"]["throughput"]["mean"].as_f64().unwrap();
    assert!((0.1..2.0).contains(&throughput), "{throughput}");
    assert_eq!(json["measures"]["incomplete"]["mean"], 0.0);
}

/// Each flow and each direction of each link has its own numbers, and their sums are the flat metrics.
#[test]
fn flows_and_links_have_their_own_numbers() {
    let bench = Bench::new();
    let arguments = "run tiny.toml --scheme E2E --runs 2 --set flows.download.count=2 --set flows.download.size=200KiB";
    let json = bench.json(&format!("{arguments} --json"));
    let mean = |of: &serde_json::Value, name: &str| of["measures"][name]["mean"].as_f64().unwrap();
    let flows = json["flows"].as_array().unwrap();
    assert_eq!(
        flows.iter().map(|flow| flow["flow"].as_str().unwrap()).collect::<Vec<_>>(),
        ["download#1", "download#2"]
    );
    for flow in flows {
        assert_eq!(keys(flow), ["flow", "kind", "from", "to", "measures", "tcp_info"]);
        assert_eq!(
            (&flow["kind"], &flow["from"], &flow["to"]),
            (&"transfer".into(), &"server".into(), &"phone".into())
        );
        assert_eq!(mean(flow, "received"), 204_800.0);
        // The path is 7 ms long each way.
        assert!(mean(flow, "rtt_p50") >= 14.0 && mean(flow, "rtt_p95") >= mean(flow, "rtt_p50"), "{flow}");
        let (goodput, sent) = (mean(flow, "goodput"), mean(flow, "sent"));
        assert!(goodput <= 100.0 && (100.0 * 204_800.0 / sent - goodput).abs() < 1.0, "{flow}");
        let rate = mean(flow, "received") * 8e-6 / mean(flow, "duration");
        assert!((rate / mean(flow, "throughput") - 1.0).abs() < 0.1, "{flow}");
    }
    for name in ["timeouts", "source_retransmissions", "segments_lost"] {
        let sum: f64 = flows.iter().map(|flow| mean(flow, name)).sum();
        assert!((sum - mean(&json, name)).abs() < 1e-9, "{name}");
    }
    assert!((0.5..=1.0).contains(&mean(&json, "fairness")), "two transfers: Jain's index");
    let links = json["links"].as_array().unwrap();
    let ways: Vec<_> = links
        .iter()
        .map(|link| [&link["link"], &link["from"], &link["to"]].map(|text| text.as_str().unwrap()))
        .collect();
    let expected = [
        ["internet", "server", "tower"],
        ["internet", "tower", "server"],
        ["radio", "tower", "phone"],
        ["radio", "phone", "tower"],
    ];
    assert_eq!(ways, expected);
    let lost: f64 = links.iter().map(|link| mean(link, "channel_drops")).sum();
    assert!(lost > 0.0 && (lost - mean(&json, "frames_lost")).abs() < 1e-9);
    let used = mean(&links[2], "utilisation");
    let bits = mean(&links[2], "bytes") * 8.0;
    assert!(used > 5.0 && used <= 100.0 && bits > 3.2e6, "{used} {bits}");
    let text = bench.stdout(arguments);
    assert!(text.contains("download#2") && text.contains("radio: tower to phone"), "{text}");
}

/// Drops of a short queue at the host's own link are counted there.
#[test]
fn drops_at_a_hosts_own_link_are_counted_there() {
    let bench = Bench::new();
    let small = "--set 'links.internet.queue=2 packets' --set 'links.internet.rate=1 Mbps'";
    let json = bench.json(&format!("compare tiny.toml --schemes E2E --runs 1 --json {small}"));
    let links = json["schemes"][0]["links"].as_array().unwrap();
    let drops = |at: usize| links[at]["measures"]["queue_full_drops"]["mean"].as_f64().unwrap();
    assert!(links[0]["from"] == "server" && drops(0) > 0.0 && drops(2) == 0.0, "{links:?}");
    assert_eq!(json["schemes"][0]["measures"]["queue_drops"]["mean"].as_f64().unwrap(), (0..4).map(drops).sum::<f64>());
}

/// `--csv` and `--out` have all metrics, with a row per scheme.
#[test]
fn compare_writes_rows() {
    let bench = Bench::new();
    let compare = "compare tiny.toml --schemes E2E,LL,Reno/Raw --runs 2";
    let csv = bench.stdout(&format!("{compare} --csv"));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("scheme,same_as,runs,throughput,throughput_ci95,rtt_p50,rtt_p50_ci95,"),
        "{}",
        lines[0]
    );
    assert!(lines.len() == 4 && lines[1].starts_with("E2E,,2,") && lines[3].starts_with("Reno/Raw,E2E,2,"), "{csv}");
    bench.stdout(&format!("{compare} --out rows.csv"));
    assert_eq!(bench.text("rows.csv"), csv);
    let again = bench.run(&format!("{compare} --out rows.csv"));
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("--force"));
    bench.stdout(&format!("{compare} --out rows.parquet"));
    assert_eq!(bench.bytes("rows.parquet")[..4], *b"PAR1");
    let table = bench.stdout(compare);
    let head = table.lines().nth(3).unwrap();
    for heading in ["scheme", "Mbps", "ratio", "rtt p50 ms", "rtt p95 ms", "queue drops", "source rtx"] {
        assert!(head.contains(heading), "{heading}: {head}");
    }
    assert!(table.lines().nth(4).unwrap().contains(" 1.00 "), "{table}");
}

/// A series has the run in rows; an existing file is not replaced.
#[test]
fn run_writes_a_series() {
    let bench = Bench::new();
    let run = "run tiny.toml --runs 1 --series series.csv";
    bench.stdout(&format!("{run} --interval '50 ms'"));
    let csv = bench.text("series.csv");
    let names =
        "time,download_throughput,download_rtt,internet_down_queue,internet_up_queue,radio_down_queue,radio_up_queue";
    assert_eq!(csv.lines().next(), Some(names));
    let times: Vec<f64> = csv.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(times.len() > 5 && times[0] == 0.05 && times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    for (arguments, part) in [(run, "--force"), (&*format!("{run} --force --interval '0 ms'"), "--interval")] {
        let refused = bench.run(arguments);
        assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(part), "{arguments}");
    }
}

/// A file that has the name of a ready-made scenario does not replace it; the remark says how to name the file.
#[test]
fn a_file_does_not_replace_a_ready_made_scenario() {
    let bench = Bench::new();
    bench.put("wavelan-lan", common::TINY);
    bench.put("my-link", common::TINY);
    let output = bench.run("explain wavelan-lan");
    assert!(String::from_utf8_lossy(&output.stdout).contains("wireless"), "the ready-made one");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ready-made") && said.contains("./wavelan-lan"), "{said}");
    assert!(bench.stdout("explain ./wavelan-lan").contains("tower"));
    assert!(bench.stdout("explain my-link").contains("tower"), "no ready-made scenario has this name");
}

#[test]
fn one_run_has_no_interval() {
    let json = Bench::new().json("run tiny.toml --runs 1 --json");
    assert!(json["measures"]["throughput"]["ci95"].is_null());
}

#[test]
fn every_scheme_delivers_everything() {
    let bench = Bench::new();
    for (ends, expected) in [("", &STUDIED[..]), ("--set tcp.preset=linux-6.18", &TODAY)] {
        let json = bench.json(&format!("compare tiny.toml --runs 4 --json {ends}"));
        let schemes = json["schemes"].as_array().unwrap();
        assert_eq!(schemes.iter().map(|scheme| scheme["scheme"].as_str().unwrap()).collect::<Vec<_>>(), expected);
        for scheme in schemes {
            assert_eq!(scheme["measures"]["incomplete"]["mean"], 0.0, "{scheme}");
        }
    }
}

/// Two devices repair the hop for any endpoints: the source retransmits less, and the hop's own frames are in the
/// trace.
#[test]
fn two_ended_links_repair_the_hop() {
    let bench = Bench::new();
    let lossy = "--set links.radio.errors.frame_loss=10%";
    let json =
        bench.json(&format!("compare tiny.toml --schemes E2E-CUBIC,LINK-ARQ,LINK-HYBRID --runs 4 --json {lossy}"));
    let measure = |scheme: usize, name: &str| json["schemes"][scheme]["measures"][name]["mean"].as_f64().unwrap();
    for repaired in [1, 2] {
        assert_eq!(measure(repaired, "incomplete"), 0.0);
        assert!(measure(repaired, "throughput") > measure(0, "throughput"), "{json}");
        assert!(measure(repaired, "source_retransmissions") < measure(0, "source_retransmissions"), "{json}");
        assert!(measure(repaired, "local_retransmissions") > 0.0, "{json}");
    }
    let csv = bench.stdout(&format!("trace tiny.toml --scheme LINK-ARQ --csv {lossy}"));
    assert!(csv.contains(" symbol ") && csv.contains(" feedback"), "{}", &csv[..1000]);
}

/// Modern endpoints have schemes of their own; every command remarks on a scenario that sets what the scheme is named
/// after.
#[test]
fn modern_schemes_run_everywhere() {
    let bench = Bench::new();
    let fixed = "--set tcp.congestion=reno --set limit=20s --runs 2";
    let remark = "E2E-BBR: modified: tcp.congestion is set";
    let text = bench.stdout(&format!("compare tiny.toml --schemes E2E-BBR,SNOOP {fixed}"));
    assert!(text.contains(remark) && !text.contains("SNOOP: not"), "{text}");
    assert!(bench.stdout(&format!("run tiny.toml --scheme E2E-BBR {fixed}")).contains("tcp.congestion is set"));
    let explained = bench.stdout("explain tiny.toml --scheme E2E-BBR --set tcp.congestion=reno");
    assert!(explained.lines().any(|line| line == format!("# {remark}")), "{explained}");
    assert!(explained.contains("\npreset = \"linux-6.18\""), "{explained}");

    // Each is a run of its own, and the output of `explain` under a scheme is the same run again.
    bench.put("under.toml", &bench.stdout("explain tiny.toml --scheme SPLIT-BBR"));
    let split = |file: &str| bench.json(&format!("run {file} --scheme SPLIT-BBR --runs 2 --json"))["measures"].clone();
    assert_eq!(split("tiny.toml"), split("under.toml"));
    let schemes = TODAY.join(",");
    let rows = bench.json(&format!(
        "sweep tiny.toml --schemes {schemes} --vary links.radio.rate=2Mbps --set flows.download.size=1MiB --runs 2 --json"
    ));
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["scheme"].as_str().unwrap()).collect::<Vec<_>>(), TODAY);
    // Schemes that keep the hop busy have the same throughput, but by other means.
    let measured: Vec<_> = rows
        .iter()
        .map(|row| {
            ["throughput", "source_retransmissions", "local_retransmissions"].map(|key| row[key].as_f64().unwrap())
        })
        .collect();
    for (at, one) in measured.iter().enumerate() {
        assert!(one[0] > 1.0 && measured.iter().skip(at + 1).all(|other| other != one), "{measured:?}");
    }
}

#[test]
fn compare_takes_the_schemes_named() {
    let bench = Bench::new();
    let text = bench.stdout("compare tiny.toml --scheme LL,SPLIT --scheme E2E --runs 2");
    let rows: Vec<_> = text.lines().skip(4).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["LL", "SPLIT", "E2E"], "{text}");
    let json = bench.json("compare tiny.toml --scheme LL,SPLIT --runs 2 --json");
    assert_eq!(keys(&json), ["scenario", "seed", "runs", "schemes", "remarks"]);
    assert_eq!(
        keys(&json["schemes"][0]),
        ["scheme", "ratio", "measures", "flows", "links", "runs", "same_as", "remark"]
    );
    assert_eq!(keys(&json["schemes"][0]["measures"]), MEASURES);
}

/// A run in `compare` equals the run of the same number and seed in `run`.
#[test]
fn compare_and_run_agree() {
    let bench = Bench::new();
    let compared = bench.json("compare tiny.toml --scheme LL,E2E --runs 3 --seed 9 --json");
    let run = bench.json("run tiny.toml --scheme E2E --runs 3 --seed 9 --json");
    assert_eq!(compared["schemes"][1]["measures"], run["measures"]);
}

#[test]
fn values_can_be_set() {
    let bench = Bench::new();
    let throughput = |arguments: &str| {
        let json = bench.json(&format!("run tiny.toml --runs 1 --json {arguments}"));
        json["measures"]["throughput"]["mean"].as_f64().unwrap()
    };
    let none = "--set links.radio.errors={model=\"none\"}";
    assert!(throughput(&format!("{none} --set 'links.radio.rate=200 kbps'")) < 0.2);
    assert!(throughput(none) > 0.5);
    assert_eq!(bench.json("run tiny.toml --set seed=77 --set runs=1 --json")["seed"], 77);
}

#[test]
fn ready_made_scenarios_run_by_name() {
    let bench = Bench::new();
    for name in ["wavelan-lan", "wavelan-lan-8k", "wavelan-wan", "peer-transfer", "satellite"] {
        let json = bench.json(&format!("run {name} --scheme LL-TCP-AWARE --runs 1 --json"));
        assert_eq!(json["measures"]["incomplete"]["mean"], 0.0, "{name}");
    }
}

#[test]
fn explain_prints_a_scenario_that_runs_alike() {
    let bench = Bench::new();
    let text = bench.stdout("explain tiny.toml --set 'links.radio.rate=1 Mbps'");
    bench.put("explained.toml", &text);
    assert_eq!(
        bench.stdout("run explained.toml --json"),
        bench.stdout("run tiny.toml --json --set 'links.radio.rate=1 Mbps'")
    );
    let json = bench.json("explain tiny.toml --json");
    assert_eq!(keys(&json), ["title", "file", "scenario"]);
    assert!(json["scenario"].as_str().unwrap().contains("frame_loss"));
}

/// On Linux any bytes are a valid name.
#[test]
#[cfg(target_os = "linux")]
fn a_file_whose_name_is_no_text_is_run_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    let name = std::ffi::OsStr::from_bytes(b"t\xff.toml");
    std::fs::write(bench.path().join(name), common::TINY).unwrap();
    let mut command = bench.command("run --json");
    let output = command.arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), bench.stdout("run tiny.toml --json"));
}

#[test]
fn trace_in_its_three_forms() {
    let bench = Bench::new();
    let csv = bench.stdout("trace tiny.toml --csv");
    assert_eq!(csv.lines().next(), Some(TRACE_COLUMNS));
    let records = csv.lines().count() - 1;
    let points: std::collections::BTreeSet<_> =
        csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(points.into_iter().collect::<Vec<_>>(), ["phone", "server", "tower:internet", "tower:radio"]);
    let json = bench.stdout("trace tiny.toml --json");
    assert_eq!(json.lines().count(), records);
    for line in json.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(keys(&record).join(","), TRACE_COLUMNS);
    }
    let text = bench.stdout("trace tiny.toml");
    assert!(text.lines().count() >= records && text.contains("[S]"), "{text}");
    // Another run number with the same seed gives another run.
    assert_ne!(csv, bench.stdout("trace tiny.toml --csv --run 1"));
}

#[test]
fn trace_writes_pcapng_and_says_nothing_unless_asked() {
    let bench = Bench::new();
    // Standard output is empty.
    assert_eq!(bench.stdout("trace tiny.toml --pcapng sub/tiny.pcapng"), "");
    // Section header block.
    assert_eq!(bench.bytes("sub/tiny.pcapng")[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bench.stdout("trace tiny.toml --csv --pcapng other.pcapng").starts_with(TRACE_COLUMNS));
    assert_eq!(bench.bytes("sub/tiny.pcapng"), bench.bytes("other.pcapng"));
    // One capture point gives fewer packets than all of them.
    bench.stdout("trace tiny.toml --pcapng one.pcapng --point phone");
    assert!(bench.bytes("one.pcapng").len() < bench.bytes("other.pcapng").len());
}

#[test]
fn plot_draws_svg_and_png() {
    let bench = Bench::new();
    let text = bench.stdout("plot tiny.toml --scheme E2E,SPLIT --out pictures");
    let names = ["sequence", "window", "throughput", "delay", "queue"];
    let files: Vec<String> =
        names.iter().flat_map(|name| ["svg", "png"].map(|form| format!("pictures/{name}.{form}"))).collect();
    let listed: Vec<&str> = text.lines().collect();
    assert_eq!(listed[..10], files);
    assert_eq!(listed[10..], ["pictures/series.csv"]);
    for (at, name) in names.iter().enumerate() {
        let text = bench.text(&files[2 * at]);
        roxmltree::Document::parse(&text).unwrap();
        assert!(text.contains("E2E") && text.contains("SPLIT"), "{name}");
        assert!(at > 1 || text.contains("SPLIT, base station"), "{name}");
        assert_eq!(bench.bytes(&files[2 * at + 1])[..8], *b"\x89PNG\r\n\x1a\n");
    }
    let csv = bench.text("pictures/series.csv");
    assert!(csv.starts_with("scheme,time,download_throughput,") && csv.contains("\nSPLIT,"), "{csv}");
    let json = bench.json("plot tiny.toml --json --out again");
    assert_eq!(keys(&json), ["files", "remarks"]);
    assert!(json["files"].as_array().unwrap().iter().all(|file| bench.has(file.as_str().unwrap())));
}

#[test]
fn completions_for_every_shell() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bench.stdout(&format!("completions {shell}"));
        assert!(script.contains("reproduce") && script.contains("jobs"), "{shell}");
    }
}

#[test]
fn help_and_version() {
    let bench = Bench::new();
    for command in [
        "schemes",
        "scenarios",
        "run",
        "compare",
        "sweep",
        "trace",
        "plot",
        "reproduce",
        "serve",
        "explain",
        "completions",
    ] {
        assert!(bench.stdout("--help").contains(command));
        assert!(bench.stdout(&format!("{command} --help")).contains("Usage: lasthop"), "{command}");
    }
    assert!(bench.stdout("--version").starts_with("lasthop "));
}

/// Standard error stays empty if nothing is wrong and nothing takes long.
#[test]
fn quiet_when_all_is_well() {
    let bench = Bench::new();
    for arguments in ["run tiny.toml", "compare tiny.toml", "trace tiny.toml", "plot tiny.toml", "explain tiny.toml"] {
        assert_eq!(String::from_utf8(bench.run(arguments).stderr).unwrap(), "", "{arguments}");
    }
}

/// After the arguments there are configuration, files and examples.
#[test]
fn a_manual_page_tells_how_to_use_what_it_lists() {
    let bench = Bench::new();
    let general = bench.stdout("man");
    for part in [".SH OPTIONS", ".SH FILES", ".SH EXAMPLES", "lasthop compare wavelan"] {
        assert!(general.contains(part), "{part}");
    }
    if cfg!(target_os = "linux") {
        let gateway = bench.stdout("man gateway");
        for part in
            [".SH CONFIGURATION", "/etc/lasthop/gateway.toml", "/run/lasthop/gateway.sock", "status \\-\\-watch"]
        {
            assert!(gateway.contains(part), "{part}");
        }
        let tunnel = bench.stdout("man tunnel");
        for part in [".SH CONFIGURATION", "/etc/lasthop/tunnel.toml", "/run/lasthop/tunnel.sock", "keygen /etc"] {
            assert!(tunnel.contains(part), "{part}");
        }
    }
}
