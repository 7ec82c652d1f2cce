//! Remarks and layout of tables.

use crate::common;

use common::{Bench, TINY};

/// Returns the output of a command on a terminal with this number of columns.
#[cfg(target_os = "linux")]
fn on_terminal(bench: &Bench, columns: u16, arguments: &str, environment: &[(&str, &str)]) -> String {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    use std::process::{Command, Stdio};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};

    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let noctty = OpenptFlags::NOCTTY.bits() as i32;
    let path = OsStr::from_bytes(name.to_bytes());
    let terminal = File::options().read(true).write(true).custom_flags(noctty).open(path).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("lasthop"));
    command.args(common::split(arguments)).current_dir(bench.path()).env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(environment.iter().copied()).stdout(terminal).stderr(Stdio::null()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Closes this process's copy of the slave, so that the child's is the last one.
    drop(command);
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    let mut master = File::from(master);
    // Reading from a terminal whose slave is closed is an error.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
    }
    assert!(child.wait().unwrap().success(), "{arguments}");
    String::from_utf8(text).unwrap().replace('\r', "")
}

#[test]
#[cfg(target_os = "linux")]
fn a_table_fits_the_terminal_and_has_colours_there_only() {
    let bench = Bench::new();
    let compare = "compare tiny.toml --schemes E2E,SPLIT,Reno/Raw --runs 2";
    let piped = bench.stdout(compare);
    assert!(!piped.contains('\u{1b}'));
    let plain = on_terminal(&bench, 200, compare, &[("NO_COLOR", "1")]);
    assert_eq!(plain, piped);
    assert_eq!(on_terminal(&bench, 200, compare, &[("TERM", "dumb")]), piped);
    let coloured = on_terminal(&bench, 200, compare, &[]);
    assert!(coloured.contains("\u{1b}[1mTiny\u{1b}[0m"), "{coloured:?}");
    assert_eq!(coloured.replace("\u{1b}[1m", "").replace("\u{1b}[2m", "").replace("\u{1b}[0m", ""), piped);
    for columns in [40, 60, 80, 90] {
        let text = on_terminal(&bench, columns, compare, &[("NO_COLOR", "1")]);
        let table = text.lines().skip(3);
        let broken: Vec<&str> = table.filter(|line| line.chars().count() > usize::from(columns)).collect();
        assert!(broken.is_empty(), "{columns}: {broken:?}");
        assert!(text.contains("same as E2E") && text.contains("relay timeouts"), "{text}");
    }
}

/// Only output for programs, and single words, may be wider than the terminal. Piped output does not depend on it.
#[test]
#[cfg(target_os = "linux")]
fn nothing_for_people_is_wider_than_the_terminal() {
    let bench = Bench::new();
    let plain = [("NO_COLOR", "1")];
    for command in [
        "compare tiny.toml --schemes E2E,SPLIT,Reno/Raw --runs 2",
        "compare tiny.toml --schemes E2E --set tcp.recovery=sack --set limit=100ms --runs 2",
        "run tiny.toml --runs 2 --set tcp.recovery=sack",
        "schemes",
        "scenarios",
        "reproduce balakrishnan1997 --table 2 --runs 1 --out out",
    ] {
        let piped = bench.stdout(command);
        assert!(!piped.contains('\u{1b}'), "{command}");
        assert_eq!(on_terminal(&bench, 2000, command, &plain), piped, "{command}");
        for columns in [40, 80] {
            let text = on_terminal(&bench, columns, command, &plain);
            let broken = text.lines().filter(|line| line.chars().count() > usize::from(columns));
            let broken: Vec<&str> = broken.filter(|line| line.split_whitespace().count() > 1).collect();
            assert!(broken.is_empty(), "{command}: {columns}: {broken:?}");
        }
    }
}

#[test]
fn schemes_that_are_the_same_run_say_so() {
    let bench = Bench::new();
    bench.put("sack.toml", &format!("{TINY}\n[tcp]\nrecovery = \"sack\"\n"));
    let text = bench.stdout("compare sack.toml --schemes E2E,E2E-IETF-SACK,LL,SACK/Raw --runs 2");
    let rows: Vec<&str> = text.lines().skip(4).take(4).collect();
    assert_eq!(rows[0], "E2E                  same as E2E-IETF-SACK: tcp.recovery is set");
    assert!(rows[1].starts_with("E2E-IETF-SACK ") && !rows[1].contains("same"), "{text}");
    assert!(rows[2].starts_with("LL ") && !rows[2].contains("same"), "{text}");
    assert_eq!(rows[3], "SACK/Raw             same as E2E-IETF-SACK");
    let json = bench.json("compare sack.toml --schemes E2E,E2E-IETF-SACK --runs 2 --json");
    let [e2e, sack] = [&json["schemes"][0], &json["schemes"][1]];
    assert_eq!((e2e["same_as"].as_str(), sack["same_as"].as_str()), (Some("E2E-IETF-SACK"), None));
    assert_eq!(e2e["measures"], sack["measures"]);
    assert_eq!(e2e["measures"], bench.json("run sack.toml --scheme E2E --runs 2 --json")["measures"]);
    // The remark also appears if the scheme is the only one.
    let alone = bench.stdout("run sack.toml --scheme E2E-NEWRENO");
    assert!(alone.contains("E2E-NEWRENO: modified: tcp.recovery is set"), "{alone}");
    assert!(!bench.stdout("run sack.toml --scheme LL").contains("modified: "));
    bench.stdout("plot sack.toml --schemes E2E,E2E-NEWRENO,E2E-IETF-SACK,SACK/Raw --out same");
    assert!(bench.text("same/sequence.svg").contains("E2E-IETF-SACK = E2E = E2E-NEWRENO and 1 more"));
}

#[test]
fn columns_come_where_they_have_something_to_say() {
    let bench = Bench::new();
    let heading = |text: &str| text.lines().nth(3).unwrap().to_owned();
    let plain = bench.stdout("compare tiny.toml --schemes E2E,LL --runs 2");
    assert!(!["relay", "unfinished", "starved", "runs"].iter().any(|word| heading(&plain).contains(word)), "{plain}");
    let split = bench.stdout("compare tiny.toml --schemes E2E,SPLIT --runs 2");
    assert!(heading(&split).contains("relay timeouts"), "{split}");
    let short = bench.stdout("compare tiny.toml --schemes E2E,LL --runs 2 --set 'limit=300 ms'");
    assert!(heading(&short).contains("unfinished") && short.contains("limit 0.3 s): E2E 2 of 2, LL 2 of 2"), "{short}");
    let two = "--set flows.download.count=2 --set 'flows.download.spacing=499999 us' --set 'limit=500 ms'";
    let starved = bench.stdout(&format!("compare tiny.toml --schemes E2E --runs 2 {two}"));
    assert!(heading(&starved).contains("starved"), "{starved}");
    assert!(
        starved.contains("transfers that delivered no data: E2E 2 of 4; Mbps is the mean over the others"),
        "{starved}"
    );
    let json = bench.json(&format!("run tiny.toml {two} --json"));
    assert_eq!(json["measures"]["starved"]["mean"], 1.0);
}

#[test]
fn nothing_that_arrives_is_no_negative_zero() {
    let bench = Bench::new();
    let nothing = "tiny.toml --runs 2 --set 'limit=1 ms'";
    assert!(!bench.stdout(&format!("compare {nothing}")).contains("-0.0"));
    assert!(!bench.stdout(&format!("run {nothing}")).contains("-0.0"));
    assert!(!bench.stdout(&format!("run {nothing} --json")).contains("-0"));
    assert!(!bench.stdout(&format!("sweep {nothing} --vary tcp.mss=1000")).contains("-0"));
}

#[test]
fn ready_made_scenarios_are_listed() {
    let bench = Bench::new();
    let text = bench.stdout("scenarios");
    let names: Vec<&str> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    let json = bench.json("scenarios --json");
    let json: Vec<&str> = json.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, json);
    assert!(names.contains(&"wavelan-lan") && names.contains(&"satellite"));
    for name in names {
        bench.stdout(&format!("explain {name}"));
    }
}

#[test]
fn schemes_are_found_in_small_letters() {
    let bench = Bench::new();
    assert_eq!(
        bench.stdout("run tiny.toml --scheme ll-tcp-aware"),
        bench.stdout("run tiny.toml --scheme LL-TCP-AWARE")
    );
}
