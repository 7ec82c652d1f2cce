//! Computes the digest of all sources that results depend on, and passes it to the crate as `LASTHOP_SOURCES`.
//!
//! Cargo reruns the script if one of these sources changes, which rebuilds their crates and all dependants anyway.

use std::path::Path;

#[path = "src/sources.rs"]
mod sources;

#[expect(clippy::disallowed_methods, reason = "Cargo passes the checkout in the environment")]
fn main() {
    // At run time: the script is not compiled again for another checkout that shares the folder of built files.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it");
    let root = Path::new(&package).join("../..");
    match sources::paths(&root) {
        Ok(paths) => {
            for path in &paths {
                println!("cargo::rerun-if-changed={}", root.join(path).display());
            }
            match sources::digest(&root, &paths) {
                Ok(digest) => println!("cargo::rustc-env=LASTHOP_SOURCES={digest}"),
                Err(error) => println!("cargo::error={error}"),
            }
        }
        Err(error) => println!("cargo::error={error}"),
    }
}
