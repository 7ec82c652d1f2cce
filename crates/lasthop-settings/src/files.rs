//! Reading of files. No other module of this crate opens files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use crate::units::ByteSize;

/// Reads a regular file. Returns an error if it has more than `limit` bytes, or is a pipe, a device or a socket, since
/// reading those might never end.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Checked before opening, since opening a device can have effects, and after it, since the file may have been
    // replaced.
    regular(&std::fs::metadata(path)?)?;
    let file = open(path)?;
    regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let limit = ByteSize(limit);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit}")));
    }
    Ok(bytes)
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Opens without waiting for a writer, in case of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}
