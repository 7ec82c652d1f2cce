//! Messages about skipped tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::Write;

/// Reports a skipped test, also in the file that `make test` collects.
pub fn skip(message: &str) {
    eprintln!("!!! SKIPPED: {message}");
    if let Some(file) = std::env::var_os("LASTHOP_SKIPPED") {
        let mut file = File::options().append(true).create(true).open(file).expect("LASTHOP_SKIPPED is a file");
        writeln!(file, "SKIPPED: {message}").expect("a line of LASTHOP_SKIPPED");
    }
}

/// Returns whether a test that needs root cannot run, and reports it.
pub fn without_root(test: &str) -> bool {
    let is_missing = !rustix::process::geteuid().is_root();
    if is_missing {
        skip(&format!("{test}: it takes root"));
    }
    is_missing
}

/// Returns whether a test that needs root and `thing` cannot run, and reports it.
pub fn is_skipped_without(test: &str, thing: &str, is_there: bool) -> bool {
    let is_missing = !rustix::process::geteuid().is_root() || !is_there;
    if is_missing {
        skip(&format!("{test}: it takes root and {thing}"));
    }
    is_missing
}
