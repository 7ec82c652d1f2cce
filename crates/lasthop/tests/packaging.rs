//! The sources of packages fit the program: paths, units, manual pages, and one version. `make dist dist-test` builds
//! and installs the packages themselves.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Bench;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the values of a unit's key, in order.
fn values<'t>(unit: &'t str, key: &str) -> Vec<&'t str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// Returns the text after `prefix` at the beginning of a line, without quotes.
fn value(text: &str, prefix: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(prefix)).map(|value| value.trim().trim_matches('"').to_owned())
}

/// Returns the version in Cargo.toml, which all others must match.
fn version() -> String {
    let cargo = text("Cargo.toml");
    let section = cargo.split("[workspace.package]").nth(1).unwrap();
    value(section, "version = ").unwrap()
}

/// Returns the names of the pages that the program writes to `pages`.
fn pages(bench: &Bench) -> BTreeSet<String> {
    bench.stdout("man --out pages");
    let folder = fs::read_dir(bench.path().join("pages")).unwrap();
    folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn each_command_has_a_manual_page_and_each_page_that_is_named_is_there() {
    let bench = Bench::new();
    let pages = pages(&bench);
    let help = bench.stdout("--help");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(names.contains(&"gateway") && names.len() > 10, "{help}");
    for name in names.into_iter().filter(|name| !name.is_empty() && *name != "help") {
        assert!(pages.contains(&format!("lasthop-{name}.1")), "no page of {name}");
    }
    for page in &pages {
        let text = bench.text(&format!("pages/{page}"));
        assert!(text.contains(&format!("\"lasthop {}\"", version())), "{page}: not of this version");
        // Roff markup: `lasthop\-gateway\-run(1)`.
        for word in text.replace("\\-", "-").replace("\\fR", "").split_whitespace() {
            let name = word.trim_start_matches("\\fB").split("(1)").next().unwrap();
            if word.contains("(1)") && name.starts_with("lasthop") {
                assert!(pages.contains(&format!("{name}.1")), "{page} names {name}(1), which there is not");
            }
        }
    }
    assert_eq!(bench.text("pages/lasthop-gateway.1"), bench.stdout("man gateway"));
    assert_eq!(bench.text("pages/lasthop-gateway-status.1"), bench.stdout("man gateway status"));
    let output = bench.run("man gateway stat");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error: man gateway stat: no such command\n");
}

/// Units start the installed program, with the installed configuration and as the manual page says.
#[test]
fn units_name_what_is_installed() {
    let bench = Bench::new();
    let pages = pages(&bench);
    let install = text("packaging/debian/lasthop.install");
    let user = text("packaging/sysusers.d/lasthop.conf");
    let privileges = text("crates/lasthop-sys/src/privileges.rs");
    let name = value(&privileges, "const USER: &str = ").unwrap();
    assert!(user.contains(&format!("\nu {} ", name.trim_end_matches([';', '"']))), "the worker becomes another user");
    for daemon in ["gateway", "tunnel"] {
        let unit = text(&format!("packaging/systemd/lasthop-{daemon}.service"));
        let configuration = format!("/etc/lasthop/{daemon}.toml");
        assert_eq!(values(&unit, "ExecStart"), [format!("/usr/bin/lasthop {daemon} run {configuration}")]);
        assert_eq!(values(&unit, "ExecReload"), [format!("/usr/bin/lasthop {daemon} reload")]);
        assert_eq!(values(&unit, "Documentation"), [format!("man:lasthop-{daemon}(1)")]);
        assert!(pages.contains(&format!("lasthop-{daemon}.1")));
        assert!(install.contains(&format!("{daemon}.toml etc/lasthop\n")), "{configuration} is not installed");
        assert!(root().join(format!("packaging/{daemon}.toml")).exists());
        // The default control sockets of both daemons are in the folder that the service manager creates.
        assert_eq!(values(&unit, "RuntimeDirectory"), ["lasthop"]);
        let page = bench.text(&format!("pages/lasthop-{daemon}.1"));
        for path in [configuration, format!("/run/lasthop/{daemon}.sock")] {
            assert!(page.contains(&path), "the page of {daemon} does not name {path}");
        }
        let init = text(&format!("packaging/openwrt/lasthop/files/lasthop-{daemon}.init"));
        assert!(init.contains(&format!("/usr/bin/lasthop {daemon} run")), "OpenWrt starts something else");
    }
    assert!(install.contains("lasthop usr/bin\n"));
}

/// The version is set in one place; files that repeat it agree.
#[test]
fn there_is_one_version() {
    let bench = Bench::new();
    let version = version();
    let printed = bench.stdout("--version");
    let build = printed.strip_prefix(&format!("lasthop {version} (")).and_then(|rest| rest.strip_suffix(")\n"));
    let build = build.unwrap_or_else(|| panic!("{printed}"));
    let is_hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root()).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_checkout = root().join(".git").exists() && git(&["rev-parse", "--verify", "HEAD"]);
    if let Some(digest) = build.strip_prefix("sources ") {
        assert!(!is_checkout && is_hex(digest, 16), "{printed}");
    } else {
        let commit = build.strip_suffix("-dirty").unwrap_or(build);
        assert!(is_hex(commit, 12), "{printed}");
        assert!(!is_checkout || git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]), "{printed}: no such commit");
    }
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path().join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        assert!(manifest.contains("\nversion.workspace = true\n"), "{}: a version of its own", path.display());
    }
    let python = text("pyproject.toml");
    assert!(python.contains("dynamic = [\"version\"]") && value(&python, "version").is_none(), "pyproject.toml");
    let citation = value(&text("CITATION.cff"), "version:");
    assert!(citation.is_none_or(|other| other == version), "CITATION.cff");
    assert_eq!(value(&text("packaging/openwrt/lasthop/Makefile"), "PKG_VERSION:=").as_deref(), Some(&*version));
    let script = Command::new("bash").arg(root().join("scripts/version.sh")).output().unwrap();
    assert_eq!(String::from_utf8(script.stdout).unwrap(), format!("{version}\n"), "scripts/version.sh");
    // Packages between releases sort before the release in Debian's order, and name their commit.
    let script = Command::new("bash").arg(root().join("scripts/version.sh")).arg("--package").output();
    let package = String::from_utf8(script.unwrap().stdout).unwrap();
    let rest = package.trim_end().strip_prefix(&version).unwrap_or_else(|| panic!("{package}"));
    assert!(rest.is_empty() || rest.starts_with("~git"), "{package}");
}

/// One change per line, under headings in a fixed order; the newest release is the workspace's version, or an earlier
/// one while the next is in development.
#[test]
fn the_changelog_has_one_line_per_change() {
    let headings = ["Results", "Interfaces", "Added", "Fixed"];
    let changelog = text("CHANGELOG.md");
    for line in changelog.lines() {
        assert!(line.chars().count() <= 100, "CHANGELOG.md: over 100 characters: {line}");
    }
    let (preamble, releases) = changelog.split_once("\n## ").unwrap();
    let explains = |line: &str| headings.iter().all(|heading| line.contains(heading));
    assert!(preamble.lines().any(explains), "CHANGELOG.md: no line explains the headings");
    let mut versions = Vec::new();
    for (at, release) in releases.split("\n## ").enumerate() {
        let (title, body) = release.split_once('\n').unwrap();
        if at == 0 {
            assert_eq!(title, "[Unreleased]", "CHANGELOG.md: first section");
        } else {
            let version = release_of(title);
            versions.push(version.unwrap_or_else(|| panic!("CHANGELOG.md: {title}: not [X.Y.Z] - YYYY-MM-DD")));
        }
        // Text before the first heading introduces the release.
        let mut sections = body.split("\n### ");
        let has_entry = sections.next().unwrap().contains("\n- ");
        assert!(!has_entry, "CHANGELOG.md: {title}: an entry without a heading");
        let mut last = None;
        for section in sections {
            let (heading, entries) = section.split_once('\n').unwrap_or((section, ""));
            let place = headings.iter().position(|known| *known == heading);
            assert!(place.is_some(), "CHANGELOG.md: {title}: {heading}: none of {headings:?}");
            assert!(place > last, "CHANGELOG.md: {title}: {heading}: not in the order of {headings:?}");
            last = place;
            for entry in entries.lines().filter(|line| !line.is_empty()) {
                let is_entry = entry.starts_with("- ") && entry.contains(": ") && !entry.ends_with('.');
                assert!(is_entry, "CHANGELOG.md: {title}: not a line `- area: change`: {entry}");
            }
        }
    }
    assert!(versions.is_sorted_by(|one, next| one > next), "CHANGELOG.md: {versions:?}: not the newest first");
    assert!(versions.first() <= numbers(&version()).as_ref(), "CHANGELOG.md: {versions:?}: newer than {}", version());
}

/// Returns the version in the title of a release, `[X.Y.Z] - YYYY-MM-DD`.
fn release_of(title: &str) -> Option<[u32; 3]> {
    let (version, date) = title.strip_prefix('[')?.split_once("] - ")?;
    let is_date = date.len() == 10 && date.splitn(3, '-').map(str::len).eq([4, 2, 2]);
    numbers(version).filter(|_| is_date && date.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()))
}

/// Returns the three numbers of a version.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let numbers: Option<Vec<u32>> = version.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}
