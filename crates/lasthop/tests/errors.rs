//! Invalid input gives one clear line that says what is wrong where, and what is expected; never a panic.

use crate::common::{Bench, TINY};

/// Returns the text after `error: ` of a command that must fail with a single line.
fn error(bench: &Bench, arguments: &str) -> String {
    let output = bench.run(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "lasthop {arguments}: {:?} {message}", output.status);
    assert!(output.stdout.is_empty(), "lasthop {arguments}: {}", String::from_utf8_lossy(&output.stdout));
    let errors: Vec<_> = message.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    assert_eq!(errors.len(), 1, "lasthop {arguments}: {message}");
    assert_eq!(message.lines().count(), 1, "lasthop {arguments}: {message}");
    errors[0].to_owned()
}

/// Checks that the error contains all `parts`.
fn refused(bench: &Bench, arguments: &str, parts: &[&str]) {
    let message = error(bench, arguments);
    for part in parts {
        assert!(message.contains(part), "lasthop {arguments}: {message:?} does not say {part:?}");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let bench = Bench::new();
    bench.put("binary.toml", "\u{0}\u{1}");
    std::fs::write(bench.path().join("latin1.toml"), b"title = \"caf\xe9\"\n").unwrap();
    refused(&bench, "run missing.toml", &["missing.toml: cannot be read"]);
    refused(&bench, "run ./", &["./: cannot be read"]);
    refused(&bench, "run binary.toml", &["binary.toml:1: not valid TOML"]);
    refused(&bench, "run latin1.toml", &["latin1.toml:1: ", "not UTF-8"]);
    refused(
        &bench,
        "run wavelan-lna",
        &["there is no ready-made scenario \"wavelan-lna\"", "did you mean \"wavelan-lan\"?"],
    );
    refused(&bench, "run", &["not provided: <SCENARIO>"]);
}

/// Changes of the scenario, and what the message must contain: file and line, key, and what is expected.
#[test]
fn scenarios_that_are_wrong() {
    let bench = Bench::new();
    let cases = [
        ("rate = \"2 Mbps\"", "rate = \"2 Mpbs\"", ["bad.toml:15", "links.radio.rate", "e.g. \"1.5 Mbps\""]),
        ("rate = \"2 Mbps\"", "rate = 2000000", ["bad.toml:15", "links.radio.rate", "unit is missing"]),
        (
            "rate = \"2 Mbps\"",
            "rat = \"2 Mbps\"",
            ["bad.toml:15", "links.radio.rat: unknown key", "did you mean \"rate\"?"],
        ),
        ("rate = \"2 Mbps\"\n", "", ["bad.toml:13", "links.radio.rate: missing", "give a rate"]),
        (
            "\"tower\", \"phone\"",
            "\"tower\", \"fone\"",
            ["bad.toml:14", "links.radio.between", "expected one of: server, phone, tower"],
        ),
        ("3 %", "300 %", ["bad.toml:17", "links.radio.errors.frame_loss", "100 %"]),
        ("\"uniform\"", "\"unifrom\"", ["bad.toml:17", "links.radio.errors.model", "did you mean \"uniform\"?"]),
        ("to = \"phone\"", "to = \"tower\"", ["bad.toml:21", "flows.download.to", "host"]),
        ("size = \"100 KiB\"", "size = \"-1 KiB\"", ["bad.toml:22", "flows.download.size", "give"]),
        ("router = \"tower\"", "router = \"phone\"", ["bad.toml:25", "base_station.router", "give a router"]),
        ("[hosts.phone]", "[hosts.phone", ["bad.toml:5", "not valid TOML", ""]),
        ("runs = 2", "runs = 0", ["bad.toml:2", "runs", "give"]),
    ];
    for (from, to, parts) in cases {
        assert!(TINY.contains(from), "{from}");
        bench.put("bad.toml", &TINY.replace(from, to));
        assert!(parts[0].strip_prefix("bad.toml:").is_some_and(|line| line.parse::<usize>().is_ok()), "{parts:?}");
        for command in ["run", "explain"] {
            refused(&bench, &format!("{command} bad.toml"), &parts);
        }
    }
}

#[test]
fn schemes_that_do_not_fit() {
    let bench = Bench::new();
    refused(&bench, "run tiny.toml --scheme WIRETAP", &["WIRETAP", "LL-TCP-AWARE"]);
    refused(&bench, "run tiny.toml --scheme e2e-newren", &["did you mean E2E-NEWRENO?"]);
    refused(&bench, "compare tiny.toml --scheme E2E,", &["--scheme"]);
    let (bare, _) = TINY.split_once("[base_station]").unwrap();
    bench.put("bare.toml", bare);
    bench.stdout("run bare.toml");
    for arguments in ["run bare.toml --scheme LL", "compare bare.toml", "trace bare.toml --scheme SPLIT"] {
        refused(&bench, arguments, &["bare.toml: base_station: missing", "router and link"]);
    }
}

#[test]
fn values_set_from_outside() {
    let bench = Bench::new();
    for command in ["run", "compare", "trace", "plot", "explain", "sweep --vary tcp.mss=1000"] {
        let command = format!("{command} tiny.toml");
        refused(&bench, &format!("{command} --set tcp.mss"), &["--set tcp.mss", "KEY=VALUE"]);
        refused(
            &bench,
            &format!("{command} --set tcp.msss=1"),
            &["tiny.toml (set by --set)", "tcp.msss", "did you mean \"mss\"?"],
        );
        refused(&bench, &format!("{command} --set tcp.mss=0"), &["tiny.toml", "tcp.mss", "give a number of bytes"]);
    }
    refused(&bench, "run tiny.toml --set links.wifi.rate=1", &["links.wifi"]);
    let rate = |given: &str, parts: &[&str]| {
        refused(&bench, &format!("run tiny.toml --set 'links.radio.rate={given}'"), parts)
    };
    rate("1 MBps", &["counts bytes", "1 MBps is 8 Mbps"]);
    rate("1 kB/s", &["counts bytes", "1 kB/s is 8 kbps"]);
    rate("1 MiB/s", &["1 MiB/s is 8388.608 kbps"]);
    rate("1,5 Mbps", &["it has a comma", "1.5"]);
    rate("2e1 Mbps", &["it has an exponent", "20"]);
    rate("2 mbps", &["did you mean \"Mbps\"?"]);
}

#[test]
fn sweeps_that_cannot_be() {
    let bench = Bench::new();
    refused(&bench, "sweep tiny.toml", &["not provided: --vary <KEY=VALUE,VALUE,...>"]);
    refused(&bench, "sweep tiny.toml --vary tcp.mss", &["--vary", "KEY=VALUE,VALUE"]);
    refused(&bench, "sweep tiny.toml --vary tcp.mss=", &["--vary", "KEY=VALUE,VALUE"]);
    refused(&bench, "sweep tiny.toml --vary tcp.mss=1000,x", &["tiny.toml (set by --vary)", "tcp.mss", "\"x\""]);
    refused(&bench, "sweep tiny.toml --vary scheme=LL,E2E", &["--vary scheme", "--scheme"]);
    refused(&bench, "sweep tiny.toml --vary seed=1,2", &["--vary seed", "--seed"]);
    refused(&bench, "sweep tiny.toml --vary tcp.mss=1000 --out rows.txt", &["rows.txt", ".csv or .parquet"]);
    std::fs::create_dir(bench.path().join("folder.csv")).unwrap();
    refused(&bench, "sweep tiny.toml --vary tcp.mss=1000 --out folder.csv", &["folder.csv", "a folder"]);
    bench.put("file", "");
    refused(&bench, "sweep tiny.toml --vary tcp.mss=1000 --out file/rows.csv", &["file"]);
}

#[test]
fn places_that_cannot_be_written() {
    let bench = Bench::new();
    bench.put("file", "");
    refused(&bench, "trace tiny.toml --pcapng file/x.pcapng", &["file"]);
    refused(
        &bench,
        "trace tiny.toml --pcapng x.pcapng --point nowhere",
        &["--point nowhere", "server, tower:internet"],
    );
    refused(&bench, "plot tiny.toml --out file", &["file"]);
    // The error comes before any run.
    refused(&bench, "reproduce balakrishnan1997 --runs 100000 --out file", &["file"]);
}

#[test]
fn pages_that_cannot_be_served() {
    let bench = Bench::new();
    refused(&bench, "serve missing.toml", &["missing.toml"]);
    refused(&bench, "serve --listen here", &["--listen", "here"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    refused(&bench, &format!("serve --listen {address}"), &["--listen", &address.to_string()]);
}

#[test]
fn arguments_that_are_wrong() {
    let bench = Bench::new();
    refused(&bench, "run tiny.toml --runs 0", &["'0'", "--runs"]);
    refused(&bench, "run tiny.toml --runs many", &["'many'", "--runs"]);
    for command in
        ["run tiny.toml", "compare tiny.toml", "sweep tiny.toml --vary tcp.mss=700", "reproduce balakrishnan1997"]
    {
        refused(&bench, &format!("{command} --seed -1"), &["-1", "expected an integer from 0"]);
        refused(&bench, &format!("{command} --runs -1"), &["-1", "1.."]);
    }
    refused(&bench, "run tiny.toml --jobs x", &["'x'", "--jobs"]);
    refused(&bench, "run tiny.toml --frobnicate", &["--frobnicate"]);
    refused(&bench, "trace tiny.toml --csv --json", &["--csv", "--json"]);
    refused(&bench, "frobnicate", &["frobnicate"]);
    refused(&bench, "completions tcsh", &["tcsh"]);
    refused(
        &bench,
        "reproduce stevens1994",
        &["stevens1994", "[possible values: balakrishnan1997, xylomenos-kokkinakis, discussion1997, "],
    );
    refused(&bench, "reproduce balakrishnan1997 --table 9", &["no table 9", "2, 3, 4, 5"]);
    refused(&bench, "reproduce balakrishnan1997 --figure 12", &["no figure 12", "10, 11, 13"]);
    refused(&bench, "reproduce balakrishnan1997 --table 2 --figure 3", &["--table", "--figure"]);
}

/// Names with terminal control sequences, line breaks or invalid UTF-8, in every argument that takes a name.
#[test]
fn hostile_names_stay_on_one_line() {
    let bench = Bench::new();
    let pieces = [
        "\n",
        "\r",
        "\u{1b}[2J",
        "\u{1b}]0;x\u{7}",
        "\t",
        "\u{85}",
        "\u{2028}",
        "\u{202e}",
        "\u{9b}31m",
        "\n\n",
        "error: ",
        "Usage: ",
        "a",
        "\"",
        "\\",
        "{",
        "[",
        "=",
        ".",
        "/",
        "\u{feff}",
        "\u{7f}",
        "€",
        "-",
        "%",
    ];
    // Constant seed, so that the names are the same each time.
    let mut state = 7_u64;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    for number in 0..150 {
        let name: String = (0..=next(5)).map(|_| pieces[next(pieces.len())]).collect();
        let quoted: String = name.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
        bench.put("key.toml", &format!("\"{quoted}\" = 1\n{TINY}"));
        bench.put("title.toml", &TINY.replace("Tiny", &format!("\u{5c}u001b{quoted}")));
        bench.put("flow.toml", &TINY.replace("to = \"phone\"", &format!("to = \"{quoted}\"")));
        bench.put("text.toml", &format!("{TINY}\n{name}\n]"));
        bench.put("gateway.toml", &format!("\"{quoted}\" = 1\n"));
        let arguments: [&[&str]; 11] = [
            &["run", "key.toml"],
            &["run", "title.toml"],
            &["explain", "flow.toml"],
            &["compare", "text.toml"],
            &["run", &format!("{name}.toml")],
            &["run", "tiny.toml", "--set", &format!("{name}=1")],
            &["run", "tiny.toml", "--set", &format!("tcp.mss=x{name}")],
            &["run", "tiny.toml", "--scheme", &name],
            &["run", "tiny.toml", "--runs", &name],
            &["sweep", "tiny.toml", "--vary", &format!("tcp.{name}=1")],
            &["gateway", "run", "gateway.toml"],
        ];
        for arguments in arguments.into_iter().skip(number % 3).step_by(3) {
            if arguments[0] == "gateway" && cfg!(not(target_os = "linux")) {
                continue;
            }
            let output = bench.run_all(arguments);
            let message = String::from_utf8(output.stderr).unwrap();
            let (text, end) = message.split_at(message.len().saturating_sub(1));
            let steers = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{feff}');
            assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {message:?}");
            assert!(
                text.starts_with("error: ") && end == "\n" && !text.chars().any(steers),
                "{arguments:?}: {message:?}"
            );
        }
    }
}

/// A call without a command prints help instead of an error.
#[test]
fn without_a_command_there_is_help() {
    let bench = Bench::new();
    for arguments in [&[][..], &["gateway"], &["tunnel"]] {
        if !arguments.is_empty() && cfg!(not(target_os = "linux")) {
            continue;
        }
        let output = bench.run_all(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert!(!text.contains("error:") && text.contains("\nUsage: lasthop"), "{text}");
        assert!(text.lines().count() > 5 && text.contains("\n  help "), "{text}");
    }
}

/// A file's name serves as a title, and is printed without control characters.
#[test]
fn the_name_of_a_file_does_not_steer_the_terminal() {
    let bench = Bench::new();
    let (_, untitled) = TINY.split_once('\n').unwrap();
    bench.put("\u{1b}[2J\nx.toml", untitled);
    for command in ["run", "compare", "explain"] {
        let output = bench.run_all(&[command, "\u{1b}[2J\nx.toml"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !text.contains('\u{1b}'), "{text:?}");
        assert!(text.contains("\\u001B[2J\\nx"), "{text:?}");
    }
}

/// A key that no endpoint reads is rejected like an unknown one, wherever it is set; a key that some scheme or some
/// point reads is accepted.
#[test]
fn keys_without_effect_are_refused() {
    let bench = Bench::new();
    let refused = |arguments: &str, option: &str| {
        let output = bench.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        for part in [option, "tcp.growth: \"ns2\" has no effect under E2E", "recovery = \"rack\"", "remove it"] {
            assert!(message.contains(part), "{arguments}: {message}");
        }
    };
    for command in ["run", "compare --scheme E2E", "trace", "plot"] {
        refused(&format!("{command} farm-radio --set tcp.growth=ns2"), "(set by --set)");
    }
    refused("sweep farm-radio --vary tcp.growth=ns2", "(set by --vary)");
    bench.stdout("sweep tiny.toml --runs 1 --vary tcp.recovery=reno,rack --vary tcp.growth=ns2,rfc5681");
    bench.stdout("compare tiny.toml --runs 1 --scheme E2E,E2E-SMART --set tcp.smart_rtt=1s");
}
