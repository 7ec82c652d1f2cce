//! Bytes of a capture file, decompressed if it is in gzip format.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::CaptureError;

/// Maximum length of a record or block, as in Wireshark.
const MOST: u32 = 16 * 1024 * 1024;

type Source<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

enum Inner<R: Read> {
    Plain(Source<R>),
    Gzip(Box<BufReader<MultiGzDecoder<Source<R>>>>),
}

impl<R: Read> Read for Inner<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(source) => source.read(buffer),
        }
    }
}

/// A file that is read from start to end in bounded memory.
pub(super) struct Bytes<R: Read> {
    inner: Inner<R>,
}

/// Result of a read: all of the requested bytes, some, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Got {
    All,
    /// No bytes, because the file ended before the read.
    Nothing,
    /// Some of the bytes, because the file ended during the read.
    Part,
}

impl<R: Read> Bytes<R> {
    /// Starts to read; gzip is recognised by its first bytes.
    pub(super) fn new(mut source: R) -> Result<Self, CaptureError> {
        let mut begin = Vec::new();
        (&mut source).take(8).read_to_end(&mut begin).map_err(CaptureError::Io)?;
        let is_gzip = begin.starts_with(&super::GZIP);
        if let Some(error) = foreign(&begin) {
            return Err(error);
        }
        let source = BufReader::with_capacity(1 << 16, Cursor::new(begin).chain(source));
        let inner = if is_gzip {
            Inner::Gzip(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(source))))
        } else {
            Inner::Plain(source)
        };
        Ok(Self { inner })
    }

    /// Appends the next `len` bytes to `to`. A false length takes no more memory than the file has bytes.
    pub(super) fn take(&mut self, len: u32, to: &mut Vec<u8>) -> Result<Got, CaptureError> {
        debug_assert!(len <= MOST, "callers check lengths");
        let before = to.len();
        let read = (&mut self.inner).take(u64::from(len)).read_to_end(to);
        let got = to.len() - before;
        match read {
            _ if got == len as usize => Ok(Got::All),
            Ok(_) if got == 0 => Ok(Got::Nothing),
            Ok(_) => Ok(Got::Part),
            // A gzip file that is truncated or damaged.
            Err(error) if matches!(self.inner, Inner::Gzip(_)) && is_data(&error) => Ok(Got::Part),
            Err(error) => Err(CaptureError::Io(error)),
        }
    }

    /// Same as [`Bytes::take`], for a record or block with the length that a file gives; `None` if it exceeds the
    /// maximum.
    pub(super) fn take_said(&mut self, len: u32, to: &mut Vec<u8>) -> Option<Result<Got, CaptureError>> {
        (len <= MOST).then(|| self.take(len, to))
    }
}

fn is_data(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}

/// Returns an error with the remedy for captures in other formats or with other compression.
fn foreign(begin: &[u8]) -> Option<CaptureError> {
    const COMPRESSED: [(&[u8], &str, &str); 4] = [
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -d"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz", "xz -d"),
        (b"BZh", "bzip2", "bzip2 -d"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4 -d"),
    ];
    const OTHER: [(&[u8], &str); 5] = [
        (b"snoop\0\0\0", "snoop"),
        (b"GMBU", "Network Monitor"),
        (b"RTSS", "Network Monitor"),
        (b"TRSNIFF ", "Sniffer"),
        (&[0xac, 0x01, 0x00, 0x1c], "IxVeriWave"),
    ];
    let compressed = COMPRESSED.iter().find(|(magic, ..)| begin.starts_with(magic));
    if let Some(&(_, with, tool)) = compressed {
        return Some(CaptureError::Compressed { with, tool });
    }
    OTHER.iter().find(|(magic, _)| begin.starts_with(magic)).map(|&(_, form)| CaptureError::Form { form })
}
