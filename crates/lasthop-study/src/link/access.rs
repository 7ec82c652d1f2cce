//! Files of a measurement: on this machine, or in memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use lasthop_fit::read::MOST_PACKETS;
use lasthop_scenario::read_limited;

/// Maximum size of a trace's file, in bytes.
const LARGEST: u64 = 1 << 30;
/// Maximum number of packets of a trace in memory, where several may be read concurrently.
const MOST_PACKETS_IN_MEMORY: usize = 2 << 20;

/// A file in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedFile<'f> {
    /// Name in measurements and messages.
    pub name: String,
    /// Contents.
    pub bytes: &'f [u8],
}

/// Location of files.
#[derive(Clone, Copy, Debug)]
pub enum Files<'f> {
    /// On this machine.
    Disk,
    /// Memory only. No other file is opened, and the maximum number of packets is lower than for files on disk.
    Memory(&'f [NamedFile<'f>]),
}

/// Access to files, with cancellation.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// Location of the files.
    pub files: Files<'a>,
    /// Returns whether to stop. Called often.
    pub stop: &'a dyn Fn() -> bool,
}

impl Access<'static> {
    /// Access to the files of this machine, without cancellation.
    pub const DISK: Self = Self { files: Files::Disk, stop: &|| false };
}

impl<'a> Access<'a> {
    /// Opens a file. Reading fails once `stop` returns true.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist or cannot be opened.
    pub fn open(&self, path: &Path) -> io::Result<impl Read + use<'a>> {
        let source: Box<dyn Read + 'a> = match self.files {
            Files::Disk => Box::new(File::open(path)?),
            Files::Memory(_) => Box::new(self.named(path)?),
        };
        Ok(Until { source, stop: self.stop })
    }

    pub(super) fn is_file(&self, path: &Path) -> bool {
        match self.files {
            Files::Disk => path.is_file(),
            Files::Memory(_) => self.named(path).is_ok(),
        }
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        matches!(self.files, Files::Disk) && path.is_dir()
    }

    /// Returns a text, in UTF-8 or, with a byte-order mark, in UTF-16 as written by PowerShell. Invalid bytes are
    /// replaced.
    pub(super) fn text(&self, path: &Path) -> io::Result<String> {
        let text = |bytes: Vec<u8>| match bytes.as_slice() {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
            _ => String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()),
        };
        match self.files {
            Files::Disk => read_limited(path, LARGEST).map(text),
            Files::Memory(_) => self.named(path).map(|bytes| text(bytes.to_vec())),
        }
    }

    /// Returns the maximum number of packets of a trace.
    pub(super) fn most_packets(&self) -> usize {
        match self.files {
            Files::Disk => MOST_PACKETS,
            Files::Memory(_) => MOST_PACKETS_IN_MEMORY,
        }
    }

    fn named(&self, path: &Path) -> io::Result<&'a [u8]> {
        let files = match self.files {
            Files::Disk => &[],
            Files::Memory(files) => files,
        };
        let file = files.iter().find(|file| Path::new(&file.name) == path);
        file.map(|file| file.bytes).ok_or_else(|| {
            let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
            io::Error::new(io::ErrorKind::NotFound, format!("not among the given files: {}", names.join(", ")))
        })
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// A reader that can be stopped.
struct Until<'a> {
    source: Box<dyn Read + 'a>,
    stop: &'a dyn Fn() -> bool,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() { Err(io::Error::other("cancelled")) } else { self.source.read(buffer) }
    }
}
