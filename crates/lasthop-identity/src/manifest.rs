//! Dependencies in a crate's manifest, for the digest of the sources and for the tests of the structure.

/// Returns the workspace's crates among the dependencies in a manifest, without those for tests.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut counts = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if counts && line.starts_with("lasthop-") {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}
