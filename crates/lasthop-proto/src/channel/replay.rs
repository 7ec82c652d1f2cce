//! Replay of a recorded loss trace, frame by frame, restarting at its end.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Fate;

/// Maximum number of frames in a list.
pub const MOST_FRAMES: usize = 16 << 20;

/// Error in a list of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadList {
    /// A byte other than `0` and `1` in a line, counted from 1.
    Other {
        /// Number of the line.
        line: usize,
        /// Byte found.
        byte: u8,
    },
    /// More than [`MOST_FRAMES`].
    Long,
    /// No frame.
    Empty,
}

impl fmt::Display for BadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { line, byte } => write!(f, "has '{}' in line {line}", byte.escape_ascii()),
            Self::Long => write!(f, "has more than {MOST_FRAMES} frames"),
            Self::Empty => f.write_str("has no frames"),
        }
    }
}

impl core::error::Error for BadList {}

/// Reads a list of frames: `0` for one that arrives, `1` for one that is lost, separated by white space, line breaks
/// and commas, with comments from `#` to the end of a line.
///
/// # Errors
///
/// Returns [`BadList`] for the first error.
pub fn read_list(text: &[u8]) -> Result<Vec<bool>, BadList> {
    let mut frames = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        for &byte in line.split(|byte| *byte == b'#').next().unwrap_or_default() {
            match byte {
                b'0' | b'1' => frames.push(byte == b'1'),
                b',' => {}
                byte if byte.is_ascii_whitespace() => {}
                byte => return Err(BadList::Other { line: number + 1, byte }),
            }
        }
        if frames.len() > MOST_FRAMES {
            return Err(BadList::Long);
        }
    }
    if frames.is_empty() { Err(BadList::Empty) } else { Ok(frames) }
}

/// A position in a trace.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Arc<Vec<bool>>,
    next: usize,
}

impl Replay {
    pub(super) fn new(trace: Arc<Vec<bool>>) -> Self {
        Self { trace, next: 0 }
    }

    /// Judges a frame. An empty trace loses nothing.
    #[inline]
    pub(super) fn judge(&mut self) -> Fate {
        let lost = self.trace.get(self.next).copied().unwrap_or(false);
        self.next += 1;
        if self.next >= self.trace.len() {
            self.next = 0;
        }
        Fate::lost_if(lost)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn lists_in_whatever_lines() {
        assert_eq!(read_list(b"# a link\r\n0 0\t1\r\n0,1 # 11"), Ok(Vec::from([false, false, true, false, true])));
        assert_eq!(read_list(b"0\n1x"), Err(BadList::Other { line: 2, byte: b'x' }));
        assert_eq!(read_list("0 \u{2000}".as_bytes()), Err(BadList::Other { line: 1, byte: 0xe2 }));
        assert_eq!(read_list(b" # 01\n"), Err(BadList::Empty));
        let mut long = vec![b'1'; MOST_FRAMES];
        assert_eq!(read_list(&long).map(|frames| frames.len()), Ok(MOST_FRAMES));
        long.push(b'0');
        assert_eq!(read_list(&long), Err(BadList::Long));
    }
}
