//! Contents of a file, decompressed.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use crate::ConvertError;

/// Maximum size of a file's contents.
pub const MOST_BYTES: u64 = 256 << 20;

/// A file's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Name for messages.
    pub name: String,
    /// Contents, not compressed.
    pub bytes: Vec<u8>,
}

impl Input {
    /// Creates the contents of a file from its bytes, which may be compressed by gzip.
    ///
    /// # Errors
    ///
    /// Returns [`ConvertError`] if it is too large, or cannot be decompressed.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, ConvertError> {
        let bad = |what: String| ConvertError::File { file: name.to_owned(), what };
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Ok(Self { name: name.to_owned(), bytes });
        }
        let mut plain = Vec::new();
        let read = MultiGzDecoder::new(&bytes[..]).take(MOST_BYTES + 1).read_to_end(&mut plain);
        read.map_err(|error| bad(format!("cannot be decompressed (gzip): {error}; compress it again")))?;
        if plain.len() as u64 > MOST_BYTES {
            return Err(bad(format!("has more than {} MiB when decompressed; split it", MOST_BYTES >> 20)));
        }
        Ok(Self { name: name.to_owned(), bytes: plain })
    }

    /// Returns its lines with their numbers, without line breaks. A line break at the end begins no further line.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        (1..).zip(lines)
    }
}

/// Parses a whole number of milliseconds.
pub(crate) fn whole(field: &[u8]) -> Option<u32> {
    let digits = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(field).ok().filter(|_| digits).and_then(|text| text.parse().ok())
}
