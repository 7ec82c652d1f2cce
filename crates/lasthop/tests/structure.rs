//! Tests of the structure that docs/ARCHITECTURE.md describes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the crates of the workspace that `name` depends on, without those of tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
    let mut counts = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        }
        let dependency = line.split(['.', ' ', '=']).next().unwrap();
        if counts && dependency.starts_with("lasthop-") {
            found.insert(dependency.to_owned());
        }
    }
    found
}

/// Returns the crates of the workspace that `name` links: its dependencies, and theirs.
fn linked_by(name: &str) -> BTreeSet<String> {
    let (mut linked, mut todo) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = todo.pop() {
        todo.extend(dependencies(&name).into_iter().filter(|name| linked.insert(name.clone())));
    }
    linked
}

/// The table of crates in docs/ARCHITECTURE.md has each crate's dependencies, which are further down.
#[test]
fn the_table_of_crates_is_right() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `lasthop")).map(cells).collect();
    let name = |row: &[String]| row[1].trim_matches('`').to_owned();
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let mut there: Vec<String> =
        fs::read_dir(root().join("crates")).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, there);
    for (at, row) in rows.iter().enumerate() {
        let uses = row[3].split(", ").filter(|used| *used != "–").map(|used| format!("lasthop-{used}"));
        let uses: BTreeSet<String> = uses.collect();
        assert_eq!(uses, dependencies(&names[at]), "{}", names[at]);
        assert!(uses.iter().all(|used| names[at + 1..].contains(used)), "{}: {uses:?}", names[at]);
    }
}

/// Gateway and tunnel run on routers, so they contain neither the simulator nor its QUIC.
#[test]
fn daemons_do_not_link_the_simulator() {
    for daemon in ["lasthop-daemon", "lasthop-gateway", "lasthop-tunnel", "lasthop-tunneld", "lasthop-probe"] {
        let linked = linked_by(daemon);
        assert!(linked.contains("lasthop-proto"), "{daemon}: {linked:?}");
        for simulator in ["lasthop-sim", "lasthop-scenario", "lasthop-quic", "lasthop-study"] {
            assert!(!linked.contains(simulator), "{daemon} links {simulator}");
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the number of lines of code: without comments, blank lines and the tests at the end.
fn code_lines(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).map(str::trim);
    code.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn no_source_file_has_more_than_500_lines_of_code() {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut all);
    }
    assert!(all.len() > 500, "{}", all.len());
    let long = |path: &&PathBuf| !path.to_string_lossy().contains("tests") && code_lines(path) > 500;
    assert_eq!(all.iter().filter(long).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}
