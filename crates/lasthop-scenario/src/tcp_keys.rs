//! Names of a TCP endpoint's keys.

use crate::document::{Data, quote};
use crate::key::Key;
use crate::reader::{Reader, Value};

keys! {
    /// Keys of a TCP endpoint, in the order in which `explain` prints them. The rows lack the presets' values.
    pub(crate) Keys {
        preset;
        given;
        /// maximum payload of a segment
        mss;
        socket_buffer;
        /// socket buffer; of a relay `split_buffer`
        send_buffer;
        /// maximum advertised window
        receive_buffer;
        /// shift offered, 0 to 14 (RFC 7323 §2)
        window_scale;
        /// RFC 7323 §3, also for round-trip samples
        timestamps;
        /// rejects older timestamps (`rfc7323`), except by one tick and on reordered duplicate acknowledgments
        /// (`linux`)
        paws;
        /// on the wire: 40 bytes and options; `ns2`: 40, and 8 per SACK block; `ns2-acks-only`: none on data
        headers;
        /// `reno`, `new-reno`, `smart`, `sack`, `eln`, `eln-rxmt`, `rack` (RACK-TLP)
        recovery;
        /// for `sack`: Fall and Floyd's Sack1, or RFC 6675
        sack_algorithm;
        /// per acknowledgment, 1 to 4; with timestamps at most 3
        sack_blocks;
        /// no reduction by SACK for losses marked as corruption
        sack_eln;
        /// send SMART numbers; `scheme`: if recovery is `smart`, or for a base station that reads them
        smart_acks;
        /// SMART: retransmit a hole again after this; off: by the timer
        smart_rtt;
        /// exact (`fine`), 4.4BSD's global `ticks`, Linux's `jiffies`
        clock;
        /// `ticks`: retransmission timers
        slow_tick;
        /// `ticks`: delayed acknowledgments
        fast_tick;
        /// `jiffies`: 1 s / `HZ`
        jiffy;
        /// `jiffies`: timers of 63 or more ticks expire at every 8th, 64th, … tick
        timer_wheel;
        /// first tick; `random`: per host and run
        tick_phase;
        /// timeout from round-trip samples
        rtt_rule;
        /// of samples; `bsd` with `ticks` uses the slow tick
        rtt_granularity;
        /// before the first sample
        rto_initial;
        /// minimum timeout
        rto_min;
        /// maximum with backoff
        rto_max;
        /// maximum factor
        max_backoff;
        /// consecutive timeouts before an abort
        max_retries;
        /// `every-second` segment; `ns2`: as `TCPSink/DelAck`; `window-update`: when the window can move by two
        /// segments or half the buffer, or at the next fast tick (4.4BSD); [`linux`](models/linux-receiver.md)
        delayed_ack;
        /// `every-second`, `ns2` only
        delayed_ack_timeout;
        /// `linux`: after three close selective acknowledgments one for several; requires `delayed_ack` `linux`
        sack_compression;
        /// report duplicate data (RFC 2883)
        dsack;
        /// `linux`: from 128 KiB to `receive_buffer`, a memory limit with overhead (a smaller one is fixed); requires
        /// `delayed_ack` `linux`
        receive_autotune;
        /// `linux`, with `rack`: two congestion windows (BBR: three), up to `send_buffer`, a memory limit with overhead
        /// ([send-buffer](models/send-buffer.md))
        send_autotune;
        /// acknowledge before the application reads (4.4BSD)
        ack_before_read;
        /// `passive` accepts, `on` offers RFC 3168; `accurate-passive`, `accurate` RFC 9768; `accurate-accept` offers the
        /// first and accepts both ([ecn](models/ecn.md)); default with `prague`: `on`
        ecn;
        /// of RFC 9768, with byte counts: `off`, `minimum`, `full` (each segment with space), `persistent` (despite losses)
        ecn_option;
        /// `minimum`: options per round trip, at least
        ecn_option_beacon;
        /// do without ECN if SYNs that offer it are lost, or the path changes their ECN field
        ecn_fallback;
        /// of the receiver: `rfc3168`; `per-packet`: the echo tells the mark of the newest packet, as
        /// [`prague`](models/prague.md) needs it
        ecn_echo;
        /// `rfc5690`: congestion control of acknowledgments, if both ends have it ([asymmetry](models/asymmetry.md));
        /// requires `delayed_ack` `every-second`
        ack_congestion;
        /// segments
        initial_window;
        /// initial slow-start threshold
        initial_ssthresh;
        /// maximum congestion window
        max_cwnd;
        /// `rack` only: {algorithms}
        congestion;
        /// `cubic`: leave slow start before a loss; also `off`, `linux-6.14` (before 6.15)
        hystart;
        /// `rack`: proportional rate reduction divides by the window (`linux`) or the data in flight
        window_reduction;
        /// `rack`: undo reductions by duplicate SACKs and timestamps (RFC 3708, RFC 4015)
        undo;
        /// `rack`: detect spurious timeouts (RFC 5682)
        frto;
        /// `rack`: tail loss probes (RFC 8985 §7)
        tlp;
        /// `rack`: TCP small queues ([host-queue](models/host-queue.md))
        small_queues;
        /// of the window; `rfc3465`: byte counting; `bsd-lite2`: without the additional mss/8 per acknowledgment (quirk
        /// 1)
        growth;
        /// the inflated window shrinks at each end of recovery, or only after more than three duplicates (quirk 2)
        deflation;
        /// duplicates that start fast retransmit
        dupack_threshold;
        /// new segments on the first two duplicates (RFC 3042)
        limited_transmit;
        /// 4.4BSD's fast path for acknowledgments (quirk 3)
        header_prediction;
        /// effect of a window change on the duplicate count
        impure_duplicates;
        /// second fast retransmit in a window: unguarded (quirk 4); `careful`: after `recover` is acknowledged (RFC
        /// 6582 §3.2); `ns2`: the same, from the first acknowledged data on; `once-per-window`: after all outstanding
        /// data is
        recovery_guard;
        /// segments per acknowledgment in recovery
        recovery_burst;
        /// partial acknowledgments that restart the timer: each, or the first (RFC 6582 §4)
        partial_ack_timer;
        /// window after a partial acknowledgment: less the acknowledged bytes plus one segment (RFC 6582 §3.2), or
        /// `ssthresh`
        partial_deflation;
        /// ELN: duplicates after a retransmission on a mark inflate the window until it is acknowledged
        eln_inflation;
        /// slow start after idling for a timeout
        idle_restart;
        /// small segments wait while data is outstanding (RFC 9293 §3.7.4), or a small segment is (`minshall`, Linux)
        nagle;
        /// of the SYN-ACK: with the first data, or an `own` segment, as of Linux programs that write later
        handshake_ack;
        /// `rack` with pacing or `tso`: segments per burst (Linux `gso_max_segs`)
        send_quantum;
        /// `rack`: `fq` paces every connection, also of congestion controls that do not
        /// ([host-queue](models/host-queue.md))
        qdisc;
        /// `rack`: segmentation offload: bursts leave as super-segments ([offloads](models/offloads.md))
        tso;
        /// receive offload: segments that arrive together are merged; requires `delayed_ack` `linux`
        gro;
        /// with `gro`: wait for another segment; 0 merges those that arrive at the same time
        gro_flush_timeout;
        /// `rack`: a segment partly outside the window waits, or is `cut` (Linux)
        window_edge;
        /// zero-window probe: the next `byte` (RFC 9293 §3.8.6.1), or `empty` (Linux)
        window_probe;
        /// `rack`: PSH on the last segment of a burst and of a write (Linux); with `delayed_ack` `linux` acknowledged
        /// once read
        push;
        /// duration of TIME-WAIT
        time_wait;
    }
}

/// Name of a key of endpoints, except `preset` and `given`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyName(pub &'static str);

impl KeyName {
    /// Returns the keys in a table.
    pub(crate) fn all_in(table: &Reader<'_>) -> impl Iterator<Item = Self> {
        table.items().filter_map(|(key, _)| Self::find(key))
    }

    fn find(name: &str) -> Option<Self> {
        let own = Keys::NAMES.iter().filter(|key| ![Keys::preset, Keys::given].map(Key::name).contains(key));
        own.copied().find(|key| *key == name).map(Self)
    }
}

impl Value for KeyName {
    fn expected() -> String {
        "the name of a key of this table, e.g. \"mss\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(name) => Self::find(name).ok_or_else(|| format!("{} is not one", data.describe())),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(self.0)
    }
}
