//! Linux 6.18's auto-tuned receive buffer: the offered window starts small and is raised with each good segment up to
//! the buffer's capacity, and the buffer grows to twice the data that the application takes in a round trip.

use crate::tcp::config::AUTOTUNE_START;
use crate::time::{Duration, Instant};

/// Maximum space of the first round trip, in segments (`TCP_INIT_CWND`).
const INITIAL_SEGMENTS: u32 = 10;
/// Initial share of data in a buffer, of 256.
const FIRST_RATIO: u32 = 128;

/// State of the buffer. Buffers count memory as in Linux; windows count data.
#[derive(Clone, Debug)]
pub(super) struct Autotune {
    /// Maximum memory in use (`sk_rcvbuf`).
    buffer: u32,
    /// Limit of the buffer's growth (`tcp_rmem[2]`).
    most: u32,
    /// Share of data in the buffer, of 256.
    ratio: u32,
    /// Window that the buffer could hold.
    clamp: u32,
    /// Maximum window offered (`rcv_ssthresh`).
    threshold: u32,
    /// Data that the application took in the best round trip so far, in bytes.
    space: u32,
    /// Stream position of the application at the start of this round trip.
    taken: u64,
    since: Instant,
    /// Maximum segment size announced to the peer.
    announced: u32,
}

/// Location of the stream's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holdings {
    /// Bytes that the application has taken since the start.
    pub taken: u64,
    /// In-order bytes that the application has not taken.
    pub unread: u64,
    /// Memory that the untaken and the out-of-order data occupy.
    pub memory: u64,
    /// Distance from the next expected byte to the end of the highest run, gaps included.
    pub span: u32,
}

impl Autotune {
    /// Returns a buffer that grows to `most` bytes of memory, for segments of at most `announced` bytes.
    pub fn new(most: u32, announced: u32) -> Self {
        let buffer = AUTOTUNE_START.min(most);
        let clamp = data(buffer, FIRST_RATIO);
        Self {
            buffer,
            most,
            ratio: FIRST_RATIO,
            clamp,
            threshold: whole(clamp, announced),
            space: 1,
            taken: 0,
            since: Instant::ZERO,
            announced,
        }
    }

    /// Records that a SYN is answered, with segments of `segment` bytes of payload: offers whole ones
    /// (`tcp_openreq_init_rwin`).
    pub fn answer_syn(&mut self, segment: u32) {
        self.threshold = whole(self.clamp, segment);
    }

    /// Records that the handshake is complete (`tcp_init_buffer_space`). Timestamps take `options` bytes of each
    /// segment, which from now on counts without them (`tcp_rcv_state_process`, `tcp_rcv_synsent_state_process`).
    pub fn start(&mut self, now: Instant, options: u32) {
        self.since = now;
        self.announced -= options.min(self.announced);
        // Space for a segment is reserved until one has shown its overhead.
        let whole = self.clamp;
        if whole > self.announced.saturating_mul(2) {
            self.clamp = (whole - self.announced).max(self.announced * 2);
        }
        self.threshold = self.threshold.min(self.clamp);
        self.space = self.threshold.min(self.announced.saturating_mul(INITIAL_SEGMENTS)).max(1);
    }

    /// Returns the amount of data that still fits into the buffer (`tcp_space`).
    fn room(&self, holdings: Holdings) -> u32 {
        data(u64::from(self.buffer).saturating_sub(holdings.memory) as u32, self.ratio)
    }

    /// Returns the window to offer (`__tcp_select_window`), for received segments of `mss` bytes and a field that
    /// counts in `unit` bytes, and whether the buffer is more than half full.
    pub fn window(&self, holdings: Holdings, mss: u32, unit: u32) -> (u32, Fill) {
        let whole = self.clamp.min(data(self.buffer, self.ratio));
        let mut room = self.room(holdings);
        let mut fill = Fill::Fine;
        if room < whole / 2 {
            fill = Fill::Half;
            // A window that is already small is not rounded up.
            room -= room % unit;
            if room < data(self.buffer, self.ratio) / 16 || room < mss.min(whole) {
                return (0, fill);
            }
        }
        room = room.min(self.threshold);
        (room, fill)
    }

    /// Updates the share of data in memory from a segment of `len` bytes, longer than any before
    /// (`tcp_measure_rcv_mss`). The window offered last, `offered`, is offered again if the buffer turns out to hold it
    /// (`tcp_set_window_clamp`).
    pub fn learn_overhead(&mut self, len: u32, offered: u32) {
        let ratio = (u64::from(len) << 8) / u64::from(memory(len));
        let ratio = ratio.clamp(1, 255) as u32;
        if ratio != self.ratio {
            self.ratio = ratio;
            let before = core::mem::replace(&mut self.clamp, data(self.buffer, ratio));
            if self.clamp < before {
                self.threshold = self.threshold.min(self.clamp);
            } else if self.clamp > before {
                self.threshold = self.threshold.max(offered.min(self.clamp));
            }
            self.space = self.space.min(self.clamp).max(1);
        }
    }

    /// Grows the window by data of `len` bytes in segments of `size` bytes, and returns whether it grew
    /// (`tcp_grow_window`). `mss` is the received segment size.
    pub fn grow(&mut self, holdings: Holdings, (len, size): (u32, u32), mss: u32) -> Growth {
        let room = self.clamp.min(self.room(holdings)).saturating_sub(self.threshold);
        if room == 0 {
            return Growth::None;
        }
        let taken = if size < len { memory(size).saturating_mul(len.div_ceil(size.max(1))) } else { memory(len) };
        let incr = if data(taken, self.ratio) <= len { 2 * self.announced } else { self.small_growth(len, taken, mss) };
        if incr == 0 {
            return Growth::None;
        }
        self.threshold += room.min(incr.max(len.saturating_mul(2)));
        Growth::Grown
    }

    /// Returns the growth by a segment with much overhead (`__tcp_grow_window`): none, unless the window is small.
    fn small_growth(&self, len: u32, taken: u32, mss: u32) -> u32 {
        let mut memory = data(taken, self.ratio) / 2;
        let mut window = data(self.most, self.ratio) / 2;
        while self.threshold <= window {
            if memory <= len {
                return 2 * mss;
            }
            memory /= 2;
            window /= 2;
        }
        0
    }

    /// Records that the application has taken data; `round_trip` is the receiver's estimate (`tcp_rcv_space_adjust`).
    pub fn on_read(&mut self, now: Instant, holdings: Holdings, round_trip: Option<Duration>) {
        let Some(round_trip) = round_trip else { return };
        if now.since(self.since) < round_trip {
            return;
        }
        let copied = (holdings.taken - self.taken).saturating_sub(holdings.unread).min(u64::from(u32::MAX)) as u32;
        if copied > self.space {
            self.grow_buffer(copied, holdings);
        }
        self.taken = holdings.taken;
        self.since = now;
    }

    /// Records out-of-order data: this data takes space that the next round trip needs as well (6.16 and later).
    pub fn on_out_of_order(&mut self, holdings: Holdings) {
        self.grow_buffer(self.space, holdings);
    }

    /// Grows the buffer to twice the data taken in a round trip, since that is a round trip old, plus twice the growth,
    /// since a sender may double its rate (`tcp_rcvbuf_grow`).
    fn grow_buffer(&mut self, space: u32, holdings: Holdings) {
        let before = u64::from(self.space.max(1));
        self.space = space.max(1);
        let mut window = u64::from(space) * 2;
        window += window * 2 * u64::from(space).saturating_sub(before) / before;
        window += u64::from(holdings.span);
        let buffer = (window << 8) / u64::from(self.ratio);
        let buffer = buffer.min(u64::from(self.most)) as u32;
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = data(buffer, self.ratio);
        }
    }

    /// Returns the maximum window offered at present.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Returns the maximum window that the buffer could hold.
    pub fn clamp(&self) -> u32 {
        self.clamp
    }
}

/// Fill level of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fill {
    /// At most half.
    Fine,
    /// More than half.
    Half,
}

/// Effect of a segment on the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// The window grew.
    Grown,
    /// None.
    None,
}

/// Returns the size of the whole segments that fit into `window` bytes, in bytes.
const fn whole(window: u32, segment: u32) -> u32 {
    if segment == 0 || segment > window { window } else { window - window % segment }
}

/// Returns the data that fits into `memory` bytes if `ratio` of 256 is data (`tcp_win_from_space`).
const fn data(memory: u32, ratio: u32) -> u32 {
    ((memory as u64 * ratio as u64) >> 8) as u32
}

/// Returns the memory of a packet with `len` bytes of payload (`truesize`) if it arrives in one piece: headers,
/// headroom and Linux's bookkeeping behind it, rounded up to a power of two like its allocator does, and 256 bytes for
/// the descriptor.
pub(super) fn memory(len: u32) -> u32 {
    const HEADERS: u32 = 66;
    const ROOM: u32 = 64;
    const SHARED: u32 = 320;
    const DESCRIPTION: u32 = 256;
    (len.min(1 << 24) + HEADERS + ROOM + SHARED).next_power_of_two() + DESCRIPTION
}

/// The receiver's own estimate of the round trip (`tcp_rcv_rtt_update`), in units of an eighth of a microsecond.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct RoundTrip {
    estimate: u64,
    /// End of a window's worth of data, and its start time.
    window: Option<(crate::seq::Seq, Instant)>,
    /// Echo of the last sample.
    echo: u32,
}

impl RoundTrip {
    /// Returns the estimate.
    pub fn get(&self) -> Option<Duration> {
        (self.estimate > 0).then(|| Duration::from_nanos(self.estimate * 125))
    }

    /// Takes a sample from a full segment that echoes the timestamp `echo`, which left `age` ago. Clocks tick in
    /// milliseconds. An estimate increases only while the application keeps up, since otherwise the peer waits for the
    /// window.
    pub fn on_echo(&mut self, echo: u32, age: Duration, unread: u64) {
        if echo == self.echo {
            return;
        }
        self.echo = echo;
        let micros = (age.as_nanos() / 1_000_000).max(1) * 1000;
        let sample = micros * 8;
        if self.estimate == 0 || sample < self.estimate {
            self.estimate = sample;
        } else if unread == 0 {
            self.estimate = self.estimate - self.estimate / 8 + micros;
        }
    }

    /// Takes a sample from data up to `rcv_nxt`, with `window` bytes open: filling a window takes at least a round
    /// trip.
    pub fn on_data(&mut self, now: Instant, rcv_nxt: crate::seq::Seq, window: u32) {
        if let Some((end, began)) = self.window {
            if rcv_nxt.lt(end) {
                return;
            }
            let sample = (now.since(began).as_nanos() / 1000).max(1) * 8;
            if self.estimate == 0 || sample < self.estimate {
                self.estimate = sample;
            }
        }
        self.window = Some((rcv_nxt + window, now));
    }
}
