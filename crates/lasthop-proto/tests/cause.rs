//! Checks that no mechanism uses the cause of a packet's transmission for a decision: real packets do not carry it.

use std::fs;
use std::path::Path;

/// Lines that pass on a cause for measurement only.
const HANDED_ON: [&str; 2] =
    ["let cause = if why == Why::First { item.cause } else { cause };", "made.cause = Cause::LocalAck;"];

fn judge(folder: &Path, found: &mut Vec<String>, files: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            judge(&path, found, files);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "rig.rs" {
            *files += 1;
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let reads = |line: &&str| line.contains(".cause") && !line.trim().starts_with("//");
            let decides = |line: &&str| !HANDED_ON.contains(&line.trim());
            found.extend(code.lines().filter(reads).filter(decides).map(|line| format!("{}: {line}", path.display())));
        }
    }
}

#[test]
fn no_mechanism_reads_the_cause_of_a_packet() {
    let (mut found, mut files) = (Vec::new(), 0);
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for folder in ["tcp", "pep", "link", "queue", "channel", "delay"] {
        judge(&src.join(folder), &mut found, &mut files);
    }
    assert!(files > 50, "{files} files");
    assert!(found.is_empty(), "{found:#?}");
}
