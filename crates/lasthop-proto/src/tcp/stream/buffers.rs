//! Buffers in which written data waits, if the peer's window is narrow (Linux `tcp_sendmsg_locked`). A buffer holds at
//! most half of the widest window that the peer has offered, and segments that leave while the application writes do
//! not cross its end. Later, buffers are merged (`tcp_grow_skb`). With wider windows, buffers are as large as
//! segmentation offload permits, and their ends do not matter.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::Stream;
use crate::tcp::config::WindowProbe;

/// Half of a window from which on ends of buffers are not modelled.
const WIDE: u32 = 16_384;

/// Maximum number of positions with PSH to remember.
const MOST_MARKS: usize = 256;

/// Buffers of data that was not sent when it was written.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    /// Position at which a buffer starts; others follow.
    start: u64,
    size: u64,
    /// True until the segments have left that the last write permits.
    is_writing: bool,
    /// Position up to which data was pushed (`pushed_seq`).
    pushed: u64,
    /// Ends of buffers that carry PSH because more than half of the window was written since the last (`forced_push`).
    marks: VecDeque<u64>,
}

impl Buffers {
    /// Returns the end of the buffer that contains `pos`.
    fn end(&self, pos: u64) -> u64 {
        pos + self.size - pos.saturating_sub(self.start) % self.size
    }
}

impl Stream {
    /// Records that `bytes` are about to be added to the stream.
    #[inline]
    pub(super) fn fill_buffers(&mut self, bytes: u64) {
        if self.config.common.window_probe == WindowProbe::Empty && (1..WIDE).contains(&self.half_window()) {
            self.fill_narrow(bytes);
        } else {
            self.buffers = None;
        }
    }

    #[cold]
    fn fill_narrow(&mut self, bytes: u64) {
        let (half, payload) = (u64::from(self.half_window()), u64::from(self.payload()));
        let (sent, written) = (self.pos(self.snd_nxt), 1 + self.queued);
        let size = (half / payload).max(1) * payload;
        let mut buffers = match self.buffers.take() {
            Some(buffers) => buffers,
            None => {
                let marks = VecDeque::new();
                Box::new(Buffers { start: written, size, is_writing: true, pushed: written, marks })
            }
        };
        // Data is added to the last buffer, unless all of it has left or it is full.
        let last = written - (written - buffers.start.min(written)) % buffers.size;
        if sent > last || size != buffers.size {
            (buffers.start, buffers.size) = (last.max(sent).min(written), size);
        }
        buffers.is_writing = sent >= written;
        buffers.marks.clear();
        let end = written + bytes;
        let mut at = buffers.end(written);
        while at <= end && buffers.marks.len() < MOST_MARKS {
            if at > buffers.pushed + u64::from(self.size.widest / 2) {
                buffers.marks.push_back(at);
                buffers.pushed = at;
            }
            at += size;
        }
        buffers.pushed = end;
        self.buffers = Some(buffers);
    }

    /// Records that the segments have left that the last write permits.
    #[inline]
    pub(super) fn merge_buffers(&mut self) {
        if let Some(buffers) = &mut self.buffers {
            buffers.is_writing = false;
        }
    }

    /// Returns the buffers, while segments do not cross their ends.
    #[inline]
    fn separate_buffers(&self) -> Option<&Buffers> {
        self.buffers.as_deref().filter(|buffers| buffers.is_writing)
    }

    /// Returns `len` bytes at `pos`, or those before the end of the buffer.
    #[inline]
    pub(super) fn within_buffer(&self, pos: u64, len: u32) -> u32 {
        match self.separate_buffers() {
            None => len,
            Some(buffers) => (buffers.end(pos) - pos).min(len.into()) as u32,
        }
    }

    /// Returns whether a buffer ends at `pos`.
    #[inline]
    pub fn is_buffer_end(&self, pos: u64) -> bool {
        self.separate_buffers().is_some_and(|buffers| pos > buffers.start && buffers.end(pos) == pos + buffers.size)
    }

    /// Returns whether data that ends at `pos` carries PSH because a buffer with PSH ends there.
    #[inline]
    pub fn is_marked(&self, pos: u64) -> bool {
        self.separate_buffers().is_some_and(|buffers| buffers.marks.contains(&pos))
    }
}
