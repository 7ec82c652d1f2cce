//! Key files, readable by their owner only.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use lasthop_tunnel::Entropy;

use crate::error::Error;

/// Returns randomness from the operating system.
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
