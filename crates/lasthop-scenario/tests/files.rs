//! Tests of the files that a scenario opens.
#![cfg(unix)]

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use lasthop_scenario::{Scenario, reading};
use tempfile::tempdir;

const BASE: &str = include_str!("../../../scenarios/wavelan-lan.toml");

fn replay(path: &Path) -> String {
    format!("{{ model = \"replay\", file = \"{}\" }}", path.display())
}

#[test]
fn a_sealed_scenario_opens_no_file_whatever_is_set() {
    let folder = tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "0100").unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let missing = folder.path().join("missing");
    let base = Scenario::parse("base", BASE).unwrap();
    base.with_overrides(&[("links.wireless.errors", replay(&there))]).expect("not sealed yet");
    let sealed = base.sealed();
    let mut answers = Vec::new();
    for path in [&there, &fifo, &missing, Path::new("/etc/hostname")] {
        let table = replay(path);
        let sets = [
            vec![("links.wireless.errors", table.clone())],
            vec![("links.wireless.errors", format!("\u{feff}{table}"))],
            vec![("links.wireless.errors", format!("\n{table}"))],
            vec![("links.wireless.errors_down", table.clone()), ("links.wireless.errors_up", table.clone())],
            vec![(
                "links.wireless",
                format!(
                    "{{ between = [\"base\", \"mobile\"], rate = \"1 Mbps\", delay = \"1 ms\", errors = {table} }}"
                ),
            )],
            vec![
                ("links.wireless.errors", "{ model = \"replay\" }".to_owned()),
                ("links.wireless.errors.file", path.display().to_string()),
            ],
            vec![
                ("links.wireless.errors.model", "replay".to_owned()),
                ("links.wireless.errors.file", path.display().to_string()),
            ],
        ];
        for set in sets {
            // Also for a scenario that was derived from it.
            for scenario in [&sealed, &sealed.with_overrides(&[("seed", "7")]).unwrap()] {
                let error = scenario.with_overrides(&set).expect_err("a file that the scenario does not name");
                answers.push(error.to_string().replace(&path.display().to_string(), "PATH"));
            }
        }
    }
    // Existing and missing files are rejected with the same message.
    let told = answers.iter().filter(|answer| answer.contains("other files are not opened here")).count();
    assert!(told >= 4 * 2 * 4, "{told} of {answers:?}");
    let of_each_path: Vec<_> = answers.chunks(answers.len() / 4).collect();
    assert!(of_each_path.windows(2).all(|pair| pair[0] == pair[1]), "{of_each_path:?}");
}

#[test]
fn a_sealed_scenario_replays_the_trace_that_its_file_names() {
    let folder = tempdir().unwrap();
    let (trace, file) = (folder.path().join("loss.txt"), folder.path().join("own.toml"));
    std::fs::write(&trace, "0001").unwrap();
    let lossy = BASE.lines().map(|line| match line.trim_start().starts_with("errors") {
        true => "errors = { model = \"replay\", file = \"loss.txt\" }",
        false => line,
    });
    std::fs::write(&file, lossy.collect::<Vec<_>>().join("\n")).unwrap();
    let sealed = Scenario::load(&file).unwrap().sealed();
    // The trace is in memory.
    std::fs::remove_file(&trace).unwrap();
    let other = sealed.with_overrides(&[("links.wireless.delay", "3 ms")]).unwrap();
    assert_ne!(sealed, other);
    let without = other.with_overrides(&[("links.wireless.errors", "{ model = \"none\" }")]).unwrap();
    let again =
        without.with_overrides(&[("links.wireless.errors", "{ model = \"replay\", file = \"loss.txt\" }")]).unwrap();
    assert_eq!(other, again);
}

#[test]
fn only_regular_files_are_read_and_nothing_waits() {
    let folder = tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&fifo, &link).unwrap();
    let base = Scenario::parse("base", BASE).unwrap();
    for path in [fifo.as_path(), &socket, &link, Path::new("/dev/zero"), Path::new("/dev/tty"), folder.path()] {
        let errors = [
            base.with_overrides(&[("links.wireless.errors", replay(path))]).unwrap_err(),
            Scenario::load(path).unwrap_err(),
            reading::load(path, 1 << 20, |_| Ok(())).unwrap_err(),
        ];
        for error in errors.map(|error| error.to_string()) {
            let words = ["it is not a regular file", "is a directory"];
            assert!(words.iter().any(|words| error.contains(words)) && !error.contains('\n'), "{error}");
        }
    }
}
