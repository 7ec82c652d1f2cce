//! Ctrl-C ends a run in its middle, and the results so far are shown.
#![cfg(target_os = "linux")]

use crate::common;

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Bench, TINY};
use rustix::process::{Pid, Signal, kill_process};

/// Maximum wait, longer than anything here takes, to detect a command that does not stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates scenarios with months of work.
fn endless() -> Bench {
    let bench = Bench::new();
    let endless = TINY.replace("100 KiB", "1024 GiB").replace("runs = 2", "runs = 2\nlimit = \"10000 h\"");
    bench.put("endless.toml", &endless);
    let noise = "\n[flows.noise]\nfrom = \"server\"\nto = \"tower\"\napp = \"on-off\"\nrate = \"1 Tbps\"\npacket = \"250 B\"\non = \"1 s\"\noff = \"0 s\"\n";
    let (head, tail) = endless.split_once("[base_station]").unwrap();
    bench.put("noisy.toml", &format!("{head}{noise}\n[base_station]{tail}"));
    bench
}

fn start(bench: &Bench, arguments: &str) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("lasthop"));
    command.args(common::split(arguments)).current_dir(bench.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the process has computed for some time: it then handles signals, and is in a run.
fn wait_until_busy(child: &Child) {
    let deadline = Instant::now() + PATIENCE;
    let stat = format!("/proc/{}/stat", child.id());
    loop {
        let text = fs::read_to_string(&stat).unwrap();
        // The field after the name in parentheses; hundredths of a second of processor time.
        let ticks: u64 = text.rsplit(')').next().unwrap().split_whitespace().nth(11).unwrap().parse().unwrap();
        if ticks >= 30 {
            return;
        }
        assert!(Instant::now() < deadline, "it does not compute: {text}");
        sleep(Duration::from_millis(10));
    }
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Stops a working command; returns its standard output and standard error.
fn stopped(bench: &Bench, arguments: &str) -> (String, String) {
    let mut child = start(bench, arguments);
    // A command whose output is not read blocks.
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).map(|_| text)
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    wait_until_busy(&child);
    interrupt(&child);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("lasthop {arguments} goes on after Ctrl-C");
        }
        sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(1), "lasthop {arguments}");
    (stdout.join().unwrap().unwrap(), stderr.join().unwrap().unwrap())
}

#[test]
fn a_run_shows_how_far_it_came() {
    let bench = endless();
    for scenario in ["endless.toml", "noisy.toml"] {
        let (text, message) = stopped(&bench, &format!("run {scenario} --runs 3"));
        assert!(text.contains("E2E, the first ") && text.contains(" s of run 0 from seed 1"), "{text}");
        assert!(message.ends_with("error: stopped: 0 of 3 runs are done\n"), "{message}");
        let (text, _) = stopped(&bench, &format!("run {scenario} --json"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["runs"], 0);
        assert!(json["cut_at"].as_f64().unwrap() > 0.0, "{text}");
        assert!(json["measures"]["incomplete"]["mean"].as_f64().unwrap() >= 1.0, "{text}");
    }
}

#[test]
fn a_comparison_has_no_numbers_of_what_has_not_run() {
    let bench = endless();
    let (text, _) = stopped(&bench, "compare endless.toml --scheme E2E,LL,SPLIT --jobs 1");
    assert!(!text.contains("NaN") && text.contains("\n0 runs per scheme"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("LL ") || line.starts_with("SPLIT ")).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.contains(" - ")), "{text}");
    assert!(text.contains("E2E: the first "), "{text}");
    let (text, _) = stopped(&bench, "compare endless.toml --scheme E2E,LL --jobs 1 --json");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["runs"], &json["schemes"][1]["runs"]), (&0.into(), &0.into()));
    assert_eq!(json["schemes"][1]["measures"], serde_json::json!({}));
}

#[test]
fn traces_and_plots_keep_what_there_is() {
    let bench = endless();
    let (text, message) = stopped(&bench, "trace endless.toml --csv");
    assert!(text.ends_with('\n') && text.lines().count() > 100);
    assert!(message.starts_with("error: stopped at ") && message.ends_with(" s of simulated time\n"), "{message}");
    let (_, message) = stopped(&bench, "trace endless.toml --pcapng endless.pcapng");
    assert!(message.contains("endless.pcapng: ") && message.contains(" frames of 4 capture points"), "{message}");
    stopped(&bench, "plot endless.toml");
    assert!(bench.has("out/sequence.svg") && bench.has("out/window.png"));
}

#[test]
fn a_study_goes_on_where_it_was_stopped() {
    let bench = Bench::new();
    let study = "reproduce balakrishnan1997 --table 4 --runs 40 --seed 3";
    let (_, message) = stopped(&bench, &format!("{study} --out part --jobs 1"));
    assert!(message.contains(" cells are in part/cells.partial; repeat the command to continue"), "{message}");
    assert!(!bench.has("part/cells.csv"));
    let journal = bench.text("part/cells.partial");
    let kept = journal.lines().count() - 1;
    // As if the process had been killed while writing.
    bench.put("part/cells.partial", &journal[..journal.len() - 3]);
    let output = bench.run(&format!("{study} --out part"));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !bench.has("part/cells.partial"), "{message}");
    assert!(
        kept < 2 || message.contains(&format!("resuming: {} of 6 cells are in part/cells.partial", kept - 1)),
        "{message}"
    );
    bench.stdout(&format!("{study} --out whole"));
    for file in ["cells.csv", "index.html"] {
        assert_eq!(bench.bytes(&format!("part/{file}")), bench.bytes(&format!("whole/{file}")), "{file}");
    }
    // The journal of other runs is ignored.
    bench.put("part/cells.partial", &journal);
    bench.stdout("reproduce balakrishnan1997 --table 4 --runs 2 --seed 3 --out part");
    bench.stdout("reproduce balakrishnan1997 --table 4 --runs 2 --seed 3 --out two");
    assert_eq!(bench.bytes("part/cells.csv"), bench.bytes("two/cells.csv"));
}

/// The study without published values resumes as well, also a part of one of its tables.
#[test]
fn a_part_of_a_table_goes_on_where_it_was_stopped() {
    let bench = Bench::new();
    let study = "reproduce lasthop2026 --table page/farm --runs 12";
    let (_, message) = stopped(&bench, &format!("{study} --out part --jobs 1"));
    assert!(message.contains(" of 14 cells are in part/cells.partial; repeat the command to continue"), "{message}");
    bench.stdout(&format!("{study} --out part"));
    bench.stdout(&format!("{study} --out whole"));
    for file in ["cells.csv", "index.html"] {
        assert_eq!(bench.bytes(&format!("part/{file}")), bench.bytes(&format!("whole/{file}")), "{file}");
    }
}

/// A command that blocks on its output cannot react to the first Ctrl-C.
#[test]
fn the_second_one_kills() {
    let bench = endless();
    let mut child = start(&bench, "trace endless.toml");
    let about = |field: &str| {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        value.trim().to_owned()
    };
    let deadline = Instant::now() + PATIENCE;
    let wait_for = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(Instant::now() < deadline, "it does not wait for its reader");
            sleep(Duration::from_millis(10));
        }
    };
    // SIGINT is caught, and the pipe is full.
    let bit = 1_u64 << (Signal::INT.as_raw() - 1);
    let mask = |field: &str| u64::from_str_radix(&about(field), 16).unwrap();
    wait_for(&|| mask("SigCgt") & bit != 0);
    let waits = || {
        about("State").starts_with('S') && {
            sleep(Duration::from_millis(50));
            about("State").starts_with('S')
        }
    };
    wait_for(&waits);
    interrupt(&child);
    wait_for(&|| mask("ShdPnd") & bit == 0 && waits());
    interrupt(&child);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on after the second Ctrl-C");
        sleep(Duration::from_millis(5));
    };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::INT.as_raw()));
}
