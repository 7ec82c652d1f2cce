//! What tests say that cannot run here.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::Write;

/// Says loudly that something is not tested, where `make test` collects it too.
pub fn skip(message: &str) {
    eprintln!("!!! SKIPPED: {message}");
    if let Some(file) = std::env::var_os("LASTHOP_SKIPPED") {
        let mut file = File::options().append(true).create(true).open(file).expect("LASTHOP_SKIPPED is a file");
        writeln!(file, "{message}").expect("a line of LASTHOP_SKIPPED");
    }
}

/// Whether a test that takes root cannot run; then says so.
pub fn without_root(test: &str) -> bool {
    let is_missing = !rustix::process::geteuid().is_root();
    if is_missing {
        skip(&format!("{test}: it takes root"));
    }
    is_missing
}

/// Whether a test that takes root and another thing, which is there or not, cannot run; then says so.
pub fn is_skipped_without(test: &str, thing: &str, is_there: bool) -> bool {
    let is_missing = !rustix::process::geteuid().is_root() || !is_there;
    if is_missing {
        skip(&format!("{test}: it takes root and {thing}"));
    }
    is_missing
}
