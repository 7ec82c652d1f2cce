//! Identity of the sources that results depend on, and fingerprints that include it.
//!
//! Two builds of the same version may give different numbers. Work that is continued later, or elsewhere, compares
//! [`SOURCES`].
#![forbid(unsafe_code)]

mod fingerprint;
#[cfg(test)]
#[path = "sources.rs"]
mod sources;

pub use crate::fingerprint::Fingerprint;

/// Digest of all sources that results depend on, in 16 hexadecimal digits: equal for the same sources on any machine,
/// from a git checkout and from a source archive, and different after any change, committed or not.
pub const SOURCES: &str = env!("LASTHOP_SOURCES");

/// Version and [`SOURCES`]: `0.1.0 (sources 0123456789abcdef)`. `lasthop --version` prints it if the commit is unknown.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (sources ", env!("LASTHOP_SOURCES"), ")");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::sources::{digest, paths};

    /// Creates a workspace of two crates that results depend on and one that they do not, writing the files in this
    /// order.
    fn workspace(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("lasthop-identity-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const FILES: [(&str, &str); 8] = [
        ("Cargo.lock", "version = 4\n"),
        ("scenarios/one.toml", "rate = 1\n"),
        (
            "crates/lasthop-study/Cargo.toml",
            "[dependencies]\nlasthop-sim.workspace = true\n[dev-dependencies]\nlasthop-x = 1\n",
        ),
        ("crates/lasthop-study/src/lib.rs", "mod a;\n"),
        ("crates/lasthop-study/src/a.rs", "fn a() {}\n"),
        ("crates/lasthop-sim/Cargo.toml", "[package]\nname = \"lasthop-sim\"\n"),
        ("crates/lasthop-sim/src/lib.rs", "fn sim() {}\n"),
        ("crates/lasthop-other/src/lib.rs", "fn other() {}\n"),
    ];

    fn of(root: &Path) -> String {
        digest(root, &paths(root).unwrap()).unwrap()
    }

    #[test]
    fn the_same_sources_have_one_digest_wherever_they_are() {
        let mut files = FILES.to_vec();
        let here = workspace("here", &files);
        files.reverse();
        let there = workspace("there", &files);
        assert_eq!(of(&here), of(&there));
        fs::write(there.join("crates/lasthop-other/src/lib.rs"), "fn another() {}\n").unwrap();
        fs::write(there.join("crates/lasthop-study/src/.a.rs.swp"), "an editor's").unwrap();
        fs::write(there.join("scenarios/one.toml"), "rate = 1\r\n").unwrap();
        assert_eq!(of(&here), of(&there));
        for root in [here, there] {
            fs::remove_dir_all(root).unwrap();
        }
    }

    #[test]
    fn any_change_to_a_source_changes_the_digest() {
        let root = workspace("changed", &FILES);
        let before = of(&root);
        for (path, text) in &FILES[..7] {
            fs::write(root.join(path), format!("{text}# more\n")).unwrap();
            assert_ne!(of(&root), before, "{path}");
            fs::write(root.join(path), text).unwrap();
        }
        assert_eq!(of(&root), before);
        fs::rename(root.join("crates/lasthop-study/src/a.rs"), root.join("crates/lasthop-study/src/b.rs")).unwrap();
        assert_ne!(of(&root), before);
        fs::remove_dir_all(root).unwrap();
    }

    /// The digest includes mechanisms, simulator, scenarios and studies, but not the daemons and this crate.
    #[test]
    fn the_crates_that_make_results_count() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let paths = paths(&root).unwrap();
        for part in
            ["proto/src", "quic/src", "sim/src", "sim/data", "scenario/src", "study/src", "study/data", "report/src"]
        {
            assert!(paths.contains(&format!("crates/lasthop-{part}")), "{part}: {paths:?}");
        }
        for part in ["gateway", "tunneld", "serve", "identity"] {
            assert!(!paths.iter().any(|path| path.contains(part)), "{part}: {paths:?}");
        }
        assert_eq!(digest(&root, &paths).unwrap(), super::SOURCES);
    }
}
