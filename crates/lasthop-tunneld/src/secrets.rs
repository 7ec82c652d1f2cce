//! Files of keys, read with care.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A key and a line break take 45 bytes.
const LARGEST: u64 = 4_096;

/// The text of a file with a secret.
///
/// # Errors
///
/// What is wrong with the file.
pub fn read(path: &Path) -> Result<String, String> {
    let fail = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_file() {
        return Err(format!("{}: it is no file", path.display()));
    }
    if mode & 0o077 != 0 {
        return Err(format!("{}: others may use it (mode {mode:03o}); chmod 600 it", path.display()));
    }
    let mut text = String::new();
    match Read::by_ref(&mut file).take(LARGEST).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(fail(error)),
    }
}
