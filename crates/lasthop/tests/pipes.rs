//! A reader that closes the output early (`lasthop trace ... | head`) is not an error.

use crate::common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use common::Bench;

fn lasthop(bench: &Bench, arguments: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("lasthop"));
    command.args(common::split(arguments)).current_dir(bench.path()).stderr(Stdio::piped());
    command
}

#[test]
fn a_reader_that_leaves_after_one_line() {
    let bench = Bench::new();
    for form in ["", "--csv", "--json"] {
        // More than the capacity of a pipe.
        let mut child = lasthop(&bench, &format!("trace wavelan-lan {form}")).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        assert!(child.wait().unwrap().success() && message.is_empty(), "trace {form}: {message}");
    }
}

#[test]
fn a_reader_that_is_gone_from_the_start() {
    let bench = Bench::new();
    let sweep = "sweep tiny.toml --vary tcp.mss=700,1000";
    for arguments in [
        "schemes",
        "schemes --json",
        "run tiny.toml",
        "run tiny.toml --json",
        "compare tiny.toml",
        "compare tiny.toml --json",
        sweep,
        &format!("{sweep} --json"),
        &format!("{sweep} --json --out rows.csv"),
        "trace tiny.toml --csv",
        "plot tiny.toml",
        "plot tiny.toml --json",
        "reproduce balakrishnan1997 --figure 4 --runs 1",
        "reproduce balakrishnan1997 --figure 4 --runs 1 --json",
        "explain tiny.toml",
        "explain tiny.toml --json",
        "completions bash",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = lasthop(&bench, arguments).stdout(writer).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        let harmless = message.is_empty() || message.ends_with(" points to rows.csv\n");
        assert!(output.status.success() && harmless, "lasthop {arguments}: {:?} {message}", output.status);
    }
    // Output files are complete nevertheless.
    assert!(bench.has("rows.csv") && bench.has("out/sequence.png") && bench.has("out/cells.csv"));
}

#[test]
fn nobody_listens_to_errors() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = lasthop(&bench, "run missing.toml").stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
