//! Checks that no other crate reads IP or TCP headers by hand: hand parsers differ in what they accept.

use std::fs;
use std::path::{Path, PathBuf};

/// Text that a parser of IP or TCP headers contains, and its purpose.
const SIGNS: [(&str, &str); 16] = [
    (">> 4", "the version, or TCP's data offset"),
    ("& 0xf0", "the version, or TCP's data offset"),
    ("& 15)", "the length of an IPv4 header"),
    ("& 0xf)", "the length of an IPv4 header"),
    ("& 0x0f)", "the length of an IPv4 header"),
    ("& 0x1fff", "the fragment offset"),
    ("[16..20]", "IPv4's destination"),
    ("(16..20)", "IPv4's destination"),
    ("[12..16]", "IPv4's source"),
    ("(12..16)", "IPv4's source"),
    ("[8..24]", "IPv6's source"),
    ("(8..24)", "IPv6's source"),
    ("[24..40]", "IPv6's destination"),
    ("(24..40)", "IPv6's destination"),
    ("HeaderSlice", "another parser"),
    ("SlicedPacket", "another parser"),
];

/// Lines that contain a sign for another reason: the end of the file's path, the text, and the reason.
const OTHERS: [(&str, &str, &str); 9] = [
    ("gateway/src/split/opening.rs", "subtype >> 4 == JOIN", "an option of Multipath TCP"),
    ("sys/src/packet_socket/frame.rs", "bytes[12..16].copy_from_slice(&tag);", "a VLAN tag"),
    ("proto/src/pep/snoop_properties.rs", "any::<u64>().prop_map(|n| n >> 4)", "a duration"),
    ("proto/src/pep/snoop_tests.rs", "(12..16).for_each", "flows"),
    ("proto/src/pep/reconstruct_tests.rs", "(24..40).for_each", "segments"),
    ("report/tests/captures.rs", "", "checks written captures by an independent parser"),
    ("fuzz/src/hostile/world.rs", "", "a script of the fuzzer"),
    ("fuzz/src/hostile/world/strangers.rs", "", "a script of the fuzzer"),
    ("fuzz/src/hostile/shrink.rs", "", "a script of the fuzzer"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && name != "lasthop-wire" {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// Returns the lines of a file that read a header by hand, each with the sign's purpose.
fn readers(path: &str, text: &str) -> Vec<String> {
    let is_other = |line: &str| OTHERS.iter().any(|(file, content, _)| path.ends_with(file) && line.contains(content));
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        // A longer number begins alike: `>> 40`.
        let has = |sign: &str| {
            line.match_indices(sign).any(|(at, _)| {
                let next = line[at + sign.len()..].chars().next();
                !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
                    || !sign.ends_with(char::is_alphanumeric)
            })
        };
        let sign = SIGNS.iter().find(|(sign, _)| !line.starts_with("//") && has(sign) && !is_other(line));
        found.extend(sign.map(|(_, purpose)| format!("{path}:{}: {purpose}: {line}", number + 1)));
    }
    found
}

#[test]
fn no_other_crate_reads_headers_by_hand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "fuzz"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 500, "{} files", files.len());
    let (mut found, mut unused) = (Vec::new(), Vec::from(OTHERS));
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(&root).unwrap().to_string_lossy();
        found.extend(readers(&path, &text));
        unused.retain(|(file, content, _)| !path.ends_with(file) || !text.contains(content));
    }
    assert!(found.is_empty(), "read headers by the views of lasthop-wire: {found:#?}");
    assert!(unused.is_empty(), "exceptions without a line: {unused:#?}");
}

/// The hand parsers that there were.
#[test]
fn hand_parsers_are_found() {
    for line in [
        "match packet.first()? >> 4 {",
        "let tcp = usize::from(packet[0] & 0xf) * 4;",
        "let header_len = usize::from(first & 15) * 4;",
        "let later = u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1fff != 0;",
        "4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?).into()),",
        "let to: [u8; 16] = packet[24..40].try_into().unwrap();",
        "[first, class, ..] if first >> 4 == 6 => class >> 4 & 3,",
        "let ip = Ipv4HeaderSlice::from_slice(bytes).ok()?;",
    ] {
        assert_eq!(readers("crates/x/src/x.rs", line).len(), 1, "{line}");
    }
    for line in ["state >> 40", "// bytes[0] >> 4", "& 0x1fff_ffff"] {
        assert_eq!(readers("crates/x/src/x.rs", line), [""; 0], "{line}");
    }
}
