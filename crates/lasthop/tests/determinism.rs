//! Tests that a seed gives the same bytes of output: with one thread and with two, in two processes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::Bench;

/// Returns all files below `folder` by relative path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the output and the files of a command with this number of threads.
fn outcome(arguments: &str, jobs: u32) -> BTreeMap<String, Vec<u8>> {
    let bench = Bench::new();
    let output = bench.run(&format!("{arguments} --jobs {jobs}"));
    assert!(output.status.success(), "lasthop {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let mut files = files(bench.path());
    files.insert("standard output".to_owned(), output.stdout);
    files
}

fn same(arguments: &str, written: &[&str]) {
    let first = outcome(arguments, 1);
    for file in written {
        assert!(first.get(*file).is_some_and(|bytes| !bytes.is_empty()), "lasthop {arguments}: no {file}");
    }
    for jobs in [1, 2, 0] {
        let again = outcome(arguments, jobs);
        assert_eq!(first.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
        for (name, bytes) in &first {
            assert!(*bytes == again[name], "lasthop {arguments} --jobs {jobs}: {name} differs");
        }
    }
}

const STDOUT: &str = "standard output";

#[test]
fn run() {
    same("run tiny.toml --runs 20 --seed 3", &[STDOUT]);
    same("run tiny.toml --runs 20 --seed 3 --json", &[STDOUT]);
    same("run wavelan-lan --runs 3 --json", &[STDOUT]);
}

#[test]
fn compare() {
    same("compare tiny.toml --runs 10", &[STDOUT]);
    same("compare tiny.toml --runs 10 --json", &[STDOUT]);
    same("compare tiny.toml --runs 10 --csv", &[STDOUT]);
}

#[test]
fn sweep() {
    let sweep =
        "sweep tiny.toml --vary 'links.radio.rate=1 Mbps,2 Mbps' --vary tcp.mss=700,1000 --scheme E2E,LL --runs 3";
    same(sweep, &[STDOUT]);
    same(&format!("{sweep} --csv"), &[STDOUT]);
    same(&format!("{sweep} --json"), &[STDOUT]);
    same(&format!("{sweep} --out rows.csv"), &["rows.csv"]);
    same(&format!("{sweep} --out rows.parquet"), &["rows.parquet"]);
}

#[test]
fn trace() {
    for scheme in ["E2E", "LL-SMART-TCP-AWARE", "SPLIT"] {
        same(&format!("trace tiny.toml --seed 4 --scheme {scheme}"), &[STDOUT]);
        same(&format!("trace tiny.toml --seed 4 --scheme {scheme} --csv --pcapng t.pcapng"), &[STDOUT, "t.pcapng"]);
        same(&format!("trace tiny.toml --seed 4 --scheme {scheme} --json"), &[STDOUT]);
    }
}

#[test]
fn plot() {
    let files =
        ["out/sequence.svg", "out/sequence.png", "out/window.svg", "out/window.png", "out/delay.svg", "out/series.csv"];
    same("plot tiny.toml --scheme E2E,SPLIT --seed 4", &files);
}

#[test]
fn reproduce() {
    let files = ["out/cells.csv", "out/index.html", "out/figures/figure-3.svg", "out/figures/figure-13.svg", STDOUT];
    same("reproduce balakrishnan1997 --runs 2", &files);
    same("reproduce balakrishnan1997 --table 2 --runs 2 --json", &["out/cells.csv", STDOUT]);
}

#[test]
fn another_seed_is_another_run() {
    for arguments in ["run tiny.toml --runs 5 --json", "trace tiny.toml --csv"] {
        let [one, other] = [1, 2].map(|seed| outcome(&format!("{arguments} --seed {seed}"), 1)[STDOUT].clone());
        assert_ne!(one, other, "{arguments}");
    }
}
