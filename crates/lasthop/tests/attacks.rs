//! A small part of the attack bench (`benches/live/attacks.py`): no byte is corrupt, forged or missing with the gateway
//! that is whole without it, and no connection breaks only with the gateway. Tests that lack root, Python 3.11 or the
//! emulated links are reported as skipped.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::network::{is_skipped, skip};

/// Returns the program for emulated links, which Cargo builds with the workspace's tests.
fn links() -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    // target/PROFILE/deps/attacks-HASH
    let links = tests.parent()?.parent()?.join("examples").join("hop");
    links.exists().then_some(links)
}

fn has_python() -> bool {
    let version = Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status();
    version.is_ok_and(|status| status.success())
}

/// Runs the bench with and without the gateway, on small connections; speed is not checked.
fn nothing_is_worse(attacks: &str, arguments: &str) {
    let test = format!("attacks: {attacks}");
    if is_skipped(&test) {
        return;
    }
    let Some(links) = links() else {
        return skip(&format!("{test}: it takes the example `hop`: cargo build -p lasthop-gateway --examples"));
    };
    if !has_python() {
        return skip(&format!("{test}: it takes Python 3.11"));
    }
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/live/attacks.py");
    let output = Command::new("python3")
        .arg(bench)
        .args(["--lasthop", env!("CARGO_BIN_EXE_lasthop"), "--hop"])
        .arg(links)
        .args(["--attacks", attacks, "--ignore-speed", "--require", "--silence", "15"])
        .args(arguments.split_whitespace())
        .output()
        .expect("python3");
    let (said, table) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{said}{table}");
    assert!(table.contains("ok"), "no gateway was compared:\n{said}{table}");
}

#[test]
#[ignore = "needs root: make root"]
fn damaged_packets_stay_damaged() {
    nothing_is_worse(
        "damage",
        "--families 4 --paths routed --modes snoop --flow-control fast --transfers 60 --at-once 30",
    );
}

#[test]
#[ignore = "needs root: make root"]
fn what_a_receiver_would_refuse_is_not_served_to_it() {
    nothing_is_worse(
        "poison,mixed",
        "--families 6 --paths bridge --modes snoop --flow-control fast --transfers 30 --at-once 15 --rate 40",
    );
}

#[test]
#[ignore = "needs root: make root"]
fn urgent_data_cut_no_stream_short() {
    nothing_is_worse("urgent", "--families 4 --paths routed --modes split --transfers 300");
}

/// Checks the bench's comparison by examples that were computed by hand.
#[test]
fn counts_are_compared_by_an_exact_test() {
    if !has_python() {
        return skip("attacks: it takes Python 3.11");
    }
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/live/chance.py");
    let output = Command::new("python3").args(["-m", "doctest"]).arg(module).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
