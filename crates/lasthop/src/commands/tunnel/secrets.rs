//! Files of keys: written for their owner alone, read with care.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use lasthop_tunnel::Entropy;

use crate::error::Error;

/// A key and a line break take 45 bytes.
const LARGEST: u64 = 4_096;

/// Randomness from the operating system.
pub fn entropy() -> Result<Entropy, Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| Error::Randomness(error.into()))?;
    Ok(Entropy::new(seed))
}

/// Writes a secret to a new file that only its owner may read.
pub fn write(path: &Path, secret: &str) -> Result<(), Error> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::KeyExists { path: path.to_owned() },
        _ => Error::File { path: path.to_owned(), error },
    })?;
    file.write_all(format!("{secret}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(Error::file(path))
}

/// The text of a file with a secret; or what is wrong with the file.
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
