//! Buffers in which written data waits, if the peer's window is narrow (Linux `tcp_sendmsg_locked`). A buffer holds at
//! most half of the widest window that the peer has offered, and segments that leave while the application writes do
//! not cross its end. A full buffer begins to leave at once (`tcp_push_one`), and the data that follows fills it again.
//! Later, buffers are merged (`tcp_grow_skb`). With wider windows, buffers are as large as segmentation offload
//! permits, and their ends do not matter.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::Stream;

/// Maximum size of a buffer: `GSO_LEGACY_MAX_SIZE` without headers (`sk_setup_caps`). Ends of buffers are not modelled
/// if half of the window is as large.
const WIDE: u32 = 65_215;

/// Maximum number of positions with PSH to remember.
const MOST_MARKS: usize = 256;

/// Limits of what leaves while the application writes, in segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quota {
    /// Number of segments that the windows admit.
    pub segments: u32,
    /// Maximum number of segments that leave together.
    pub burst: u32,
}

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
    /// Returns the size of a full buffer, in bytes (`tcp_xmit_size_goal`).
    fn buffer_size(&self) -> u64 {
        let payload = u64::from(self.payload());
        let most = if self.half_window() == 0 { WIDE } else { self.half_window().min(WIDE) };
        (u64::from(most) / payload).max(1) * payload
    }

    /// Returns the amount that may be written until at least `limit` bytes are unsent. Linux compares only before it
    /// begins a buffer, and fills the last one without (`tcp_stream_memory_free`).
    pub fn room_below(&self, limit: u32, quota: Quota) -> u64 {
        let unsent = (1 + self.queued).saturating_sub(self.pos(self.snd_nxt));
        if !self.probes_as_linux() {
            return u64::from(limit).saturating_sub(unsent);
        }
        let leaves = if unsent == 0 { u64::from(quota.segments) * u64::from(self.payload()) } else { 0 };
        (leaves + u64::from(limit).next_multiple_of(self.buffer_size())).saturating_sub(unsent)
    }

    /// Returns whether buffers are modelled, so that a write depends on the segments that leave during it.
    #[inline]
    pub fn has_buffers(&self) -> bool {
        self.probes_as_linux() && (1..WIDE).contains(&self.half_window())
    }

    /// Records that `bytes` are about to be added to the stream, of which `quota` may leave at once; `None` if buffers
    /// are not modelled.
    #[inline]
    pub(super) fn fill_buffers(&mut self, bytes: u64, quota: Option<Quota>) {
        match quota {
            Some(quota) => self.fill_narrow(bytes, quota),
            None => self.buffers = None,
        }
    }

    #[cold]
    fn fill_narrow(&mut self, bytes: u64, quota: Quota) {
        let (size, payload) = (self.buffer_size(), u64::from(self.payload()));
        let (sent, written) = (self.pos(self.snd_nxt), 1 + self.queued);
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
        let mut leaves = if buffers.is_writing { u64::from(quota.segments) * payload } else { 0 };
        let burst = u64::from(quota.burst) * payload;
        let end = written + bytes;
        // End of the last buffer when it is full, and whether it carries PSH.
        let (mut full, mut is_marked) = (buffers.end(written), false);
        while full <= end && buffers.marks.len() < MOST_MARKS {
            let is_forced = full > buffers.pushed + u64::from(self.size.widest / 2);
            if is_forced {
                is_marked = true;
                buffers.pushed = full;
            }
            let step = if is_forced { leaves } else { leaves.min(burst) };
            if (1..size).contains(&step) {
                leaves -= step;
                full += step;
                buffers.start = full - size;
                continue;
            }
            leaves -= step.min(size);
            if is_marked {
                buffers.marks.push_back(full);
                is_marked = false;
            }
            full += size;
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

    /// Returns whether a buffer with PSH ends at `pos`.
    #[inline]
    pub fn is_marked(&self, pos: u64) -> bool {
        self.buffers.as_deref().is_some_and(|buffers| buffers.marks.binary_search(&pos).is_ok())
    }
}
