//! Key files, read with checks of their permissions.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Maximum size of a key file, in bytes; a key and a line break need 45.
const LARGEST: u64 = 4_096;

/// Returns the text of a file with a secret.
///
/// # Errors
///
/// Returns the problem with the file.
pub fn read(path: &Path) -> Result<String, String> {
    let fail = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_file() {
        return Err(format!("{}: not a regular file", path.display()));
    }
    if mode & 0o077 != 0 {
        return Err(format!("{}: accessible to other users (mode {mode:03o}); run chmod 600", path.display()));
    }
    let mut text = String::new();
    match Read::by_ref(&mut file).take(LARGEST).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(fail(error)),
    }
}
