//! Sets the configuration option `live`: the commands that touch real packets, which require Linux and the feature `live`.
//!
//! Passes the text of `lasthop --version` to the crate as `LASTHOP_VERSION` if the commit is known: `0.1.0
//! (1a2b3c4d5e6f)`, or `0.1.0 (1a2b3c4d5e6f-dirty)` if the sources differ from the commit.
//!
//! The commit comes from git or, in a source archive, from a file that `git archive` completes. Building requires
//! neither. Cargo reruns the script after a commit or checkout, and if the sources of a crate change. The commit is not
//! in `lasthop-identity`, since all crates would then be rebuilt after each commit.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// File in which `git archive` replaces a placeholder by the commit (see .gitattributes).
const ARCHIVED: &str = "packaging/commit";

/// Parts of a crate that are compiled into the program; the others are tests, examples and the like.
const PARTS: [&str; 7] = ["Cargo.toml", "build.rs", "src", "assets", "data", "templates", "web"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(live)");
    if env::var_os("CARGO_FEATURE_LIVE").is_some() && env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cfg=live");
    }
    watch(&root, ARCHIVED);
    if let Some(commit) = commit_of_checkout(&root).or_else(|| commit_of_archive(&root)) {
        println!("cargo::rustc-env=LASTHOP_VERSION={} ({commit})", env!("CARGO_PKG_VERSION"));
    }
}

/// Returns 12 digits of the commit that is checked out, with `-dirty` if the sources differ from it.
fn commit_of_checkout(root: &Path) -> Option<String> {
    // Without a .git of its own, the folder may be within another project's repository.
    if !root.join(".git").exists() {
        return None;
    }
    let commit = git(root, &["rev-parse", "--verify", "HEAD"])?;
    // There is no branch if the commit itself is checked out.
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD".to_owned(), "logs/HEAD".to_owned()].into_iter().chain(branch) {
        // In a worktree, .git is a file, and these files are in other folders.
        if let Some(path) = git(root, &["rev-parse", "--git-path", &name]) {
            watch(root, &path);
        }
    }
    let sources = sources(root);
    for path in &sources {
        watch(root, path);
    }
    let status = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"];
    let arguments: Vec<&str> = status.into_iter().chain(sources.iter().map(String::as_str)).collect();
    let dirty = if git(root, &arguments)?.is_empty() { "" } else { "-dirty" };
    Some(format!("{}{dirty}", commit.get(..12)?))
}

/// Returns 12 digits of the commit that `git archive` wrote into the source archive.
fn commit_of_archive(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(ARCHIVED)).ok()?;
    let commit = text.get(..12)?;
    commit.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| commit.to_owned())
}

/// Returns the files and folders that are compiled into the program, relative to `root`.
fn sources(root: &Path) -> Vec<String> {
    let mut paths = ["Cargo.toml", "Cargo.lock", "scenarios"].map(str::to_owned).to_vec();
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        paths.extend(PARTS.map(|part| format!("crates/{name}/{part}")));
    }
    paths
}

/// Makes Cargo rerun the script if this file or folder changes.
fn watch(root: &Path, path: &str) {
    let path = root.join(path);
    // Cargo would rerun the script at every build for a file that does not exist.
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Returns the output of a git command, or nothing if git is missing or fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
