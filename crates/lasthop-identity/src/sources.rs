//! Digest of the sources that results depend on, used by the build script and by this crate's tests.

mod manifest;

use std::collections::BTreeSet;
use std::fs;
use std::hash::Hasher;
use std::path::Path;

use siphasher::sip128::{Hasher128, SipHasher24};

use self::manifest::dependencies;

/// Crate whose results other processes and later runs continue. The digest covers it and all its dependencies in the
/// workspace.
const TOP: &str = "lasthop-study";

/// Parts of a crate that results depend on; pages, templates, examples and tests are not among them.
const PARTS: [&str; 3] = ["Cargo.toml", "src", "data"];

/// Returns the files and folders that results depend on, relative to `root`, in a fixed order: [`TOP`] and its
/// dependencies, the built-in scenarios, and the versions of external crates.
///
/// # Errors
///
/// Returns the name of a file that cannot be read.
pub fn paths(root: &Path) -> Result<Vec<String>, String> {
    let (mut crates, mut todo) = (BTreeSet::new(), vec![TOP.to_owned()]);
    while let Some(name) = todo.pop() {
        let manifest = read(&root.join(format!("crates/{name}/Cargo.toml")))?;
        if crates.insert(name) {
            let used = dependencies(&String::from_utf8_lossy(&manifest));
            todo.extend(used.into_iter().filter(|name| name != "lasthop-identity"));
        }
    }
    let of_crates = crates.iter().flat_map(|name| PARTS.map(|part| format!("crates/{name}/{part}")));
    let paths = of_crates.chain(["scenarios".to_owned(), "Cargo.lock".to_owned()]);
    Ok(paths.filter(|path| root.join(path).exists()).collect())
}

/// Returns 16 hexadecimal digits that depend only on names and contents of all files in `paths`: not on the location of
/// `root`, on times, on the order of directory entries, nor on the line endings of a checkout.
///
/// # Errors
///
/// Returns the name of a file that cannot be read.
pub fn digest(root: &Path, paths: &[String]) -> Result<String, String> {
    let mut files = BTreeSet::new();
    for path in paths {
        collect(root, path.clone(), &mut files)?;
    }
    let mut hasher = SipHasher24::new();
    for path in files {
        let bytes = lines_end_alike(read(&root.join(&path))?);
        for part in [path.as_bytes(), &bytes] {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
    }
    // Half of the hash distinguishes builds as well, and can be read out.
    Ok(format!("{:016x}", hasher.finish128().h1))
}

/// Adds all files in `path`, except those that editors and file managers leave.
fn collect(root: &Path, path: String, files: &mut BTreeSet<String>) -> Result<(), String> {
    let place = root.join(&path);
    if place.is_file() {
        files.insert(path);
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    for entry in fs::read_dir(&place).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if !name.starts_with(['.', '#']) && !name.ends_with('~') {
            collect(root, format!("{path}/{name}"), files)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Replaces the line endings of git on Windows.
fn lines_end_alike(bytes: Vec<u8>) -> Vec<u8> {
    let is_before_end = |at: usize| bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n');
    (0..bytes.len()).filter(|&at| !is_before_end(at)).map(|at| bytes[at]).collect()
}
