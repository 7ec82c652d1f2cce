//! Linux 6.18's auto-tuned send buffer: it holds two windows of segments, three with BBR, with their worst-case memory
//! (`tcp_sndbuf_expand`), and never shrinks.

use super::config::{SendAutotune, Switch, TcpConfig};

/// Initial memory, in bytes (`tcp_wmem[1]`).
const START: u32 = 16_384;
/// Minimum number of segments per window (`TCP_INIT_CWND`).
const LEAST_SEGMENTS: u32 = 10;

/// Required capacity of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// Number of congestion windows.
    pub windows: u32,
    /// Segments in each.
    pub segments: u32,
}

/// State of the buffer. Its size counts memory; only the data in it is counted, since segments wait in large packets.
#[derive(Clone, Debug)]
pub struct SendBuffer {
    /// Maximum memory in use (`sk_sndbuf`).
    size: u32,
    /// Limit of the buffer's growth (`tcp_wmem[2]`).
    most: u32,
    /// Stream position up to which the application has written.
    written: u64,
    /// True if the application found the buffer full, and waits (`SOCK_NOSPACE`).
    is_awaited: bool,
}

impl SendBuffer {
    /// Returns an empty buffer, if `config` enables it. Only the modern sender counts its window in segments, as Linux does.
    pub fn new(config: &TcpConfig) -> Option<Self> {
        let tunes = config.sender.modern().is_some_and(|modern| modern.send_autotune == SendAutotune::Linux);
        tunes.then(|| Self {
            size: START.min(config.common.send_buffer),
            most: config.common.send_buffer,
            written: 1,
            is_awaited: true,
        })
    }

    /// Returns the stream position up to which the application has written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Expands the buffer to hold the required number of segments, each of which takes `memory` bytes.
    pub fn expand(&mut self, need: Need, memory: u32) {
        let wanted = need.segments.max(LEAST_SEGMENTS).saturating_mul(need.windows).saturating_mul(memory);
        self.size = self.size.max(wanted.min(self.most));
    }

    /// Returns whether an application waits for capacity.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Lets the application write up to position `end` of the stream: whole segments, until the buffer is full. An
    /// application that waits for capacity continues when a third of the buffer is free (`sk_stream_write_space`).
    /// Returns whether it wrote anything.
    pub fn fill(&mut self, una_pos: u64, end: u64, mss: u32) -> bool {
        let held = self.written.saturating_sub(una_pos);
        let free = u64::from(self.size).saturating_sub(held);
        if self.written >= end || self.is_awaited && (free == 0 || free < held / 2) {
            return false;
        }
        let most = self.written.max(una_pos) + free.next_multiple_of(u64::from(mss.max(1)));
        self.is_awaited = most < end;
        self.written = end.min(most);
        free > 0
    }
}

/// Returns the worst-case memory of a segment with `mss` bytes of payload (`tcp_sndbuf_expand`): the maximum segment
/// that the peer accepts, space for headers (`MAX_TCP_HEADER` of a kernel without radio drivers) and Linux's
/// bookkeeping behind it, rounded up to a power of two like its allocator does, and 256 bytes for the descriptor.
pub fn segment_memory(mss: u32, timestamps: Switch) -> u32 {
    const HEADERS: u32 = 256;
    const SHARED: u32 = 320;
    const DESCRIPTION: u32 = 256;
    let options = if timestamps.is_on() { 12 } else { 0 };
    (mss.min(1 << 24) + options + HEADERS + SHARED).next_power_of_two() + DESCRIPTION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Preset;

    const MEMORY: u32 = 2304;

    fn buffer() -> SendBuffer {
        let config = TcpConfig::preset(Preset::Linux618)
            .with(|c| c.sender.modern_mut().unwrap().send_autotune = SendAutotune::Linux);
        SendBuffer::new(&config).unwrap()
    }

    /// `SO_SNDBUF` and `ss -m` on a kernel 6.18 with segments of 1,448 bytes: 46,080 bytes after the handshake, 69,120
    /// with BBR; 69,120 at a window of 15 segments, 92,160 at one of 20.
    #[test]
    fn it_holds_two_windows_and_three_under_bbr() {
        assert_eq!(segment_memory(1448, Switch::On), MEMORY);
        for (windows, segments, size) in
            [(2, 10, 46_080), (3, 10, 69_120), (2, 15, 69_120), (2, 20, 92_160), (2, 4, 46_080)]
        {
            let mut buffer = buffer();
            buffer.expand(Need { windows, segments }, MEMORY);
            assert_eq!(buffer.size, size, "{windows} windows of {segments}");
        }
    }

    #[test]
    fn it_never_shrinks_and_ends_at_what_it_may_grow_to() {
        let mut buffer = buffer();
        for (segments, size) in [(100, 460_800), (10, 460_800), (2000, 4 << 20), (u32::MAX, 4 << 20)] {
            buffer.expand(Need { windows: 2, segments }, MEMORY);
            assert_eq!(buffer.size, size);
        }
    }

    /// 46,080 bytes are 31.8 segments: the 32nd starts while there is capacity. A third is free when 15,360 bytes are
    /// acknowledged, of a queue that is as full as the buffer: 46,336 bytes minus 11 segments leave 30,408.
    #[test]
    fn the_application_writes_whole_segments_once_a_third_is_free() {
        let mut buffer = buffer();
        buffer.expand(Need { windows: 2, segments: 10 }, MEMORY);
        let (mss, end) = (1448, 1_000_001);
        assert!(buffer.fill(1, end, mss));
        assert_eq!(buffer.written(), 1 + 32 * 1448);
        let mut una = 1;
        for _ in 0..10 {
            una += 1448;
            assert!(!buffer.fill(una, end, mss), "{una}");
        }
        assert!(buffer.fill(una + 1448, end, mss));
        assert_eq!(buffer.written(), 1 + (11 + 32) * 1448);
        // The stream ends with a partial segment.
        assert!(buffer.fill(1 + 43 * 1448, 1 + 43 * 1448 + 100, mss));
        assert_eq!(buffer.written(), 1 + 43 * 1448 + 100);
        assert!(!buffer.fill(1 + 43 * 1448 + 100, 1 + 43 * 1448 + 100, mss));
    }

    /// 40,000 bytes leave capacity for 6,080, five segments, although less than a third is free.
    #[test]
    fn who_does_not_wait_writes_into_what_room_there_is() {
        let mut buffer = buffer();
        buffer.expand(Need { windows: 2, segments: 10 }, MEMORY);
        assert!(buffer.fill(1, 40_001, 1448));
        assert!(!buffer.is_awaited());
        assert!(buffer.fill(1, 60_001, 1448));
        assert_eq!((buffer.written(), buffer.is_awaited()), (40_001 + 5 * 1448, true));
        assert!(!buffer.fill(1 + 1448, 60_001, 1448));
    }
}
