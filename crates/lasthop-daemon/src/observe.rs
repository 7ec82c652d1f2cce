//! Passive measurement of a connection: losses before the observer, round-trip times of both sides, goodput.
//!
//! * The round-trip time of a side is the time from data towards it, sent once (Karn's rule), to the acknowledgment of
//!   that data; one packet at a time. Handshakes count too.
//! * With timestamps, the wired side is also timed by data that echoes the timestamp of an acknowledgment which passed
//!   while more data was in flight, so that the sender did not wait for its application.
//! * Data that has not passed is a gap. If it arrives within a quarter of the wired round-trip time, it was reordered;
//!   later, it was lost and retransmitted.

use lasthop_proto::node::Port;
use lasthop_proto::packet::Flags;
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::View;

/// Maximum number of gaps to remember per connection.
const GAPS: usize = 4;

/// Distance beyond which sequence numbers do not belong to the same window (RFC 7323 §2.3).
const FAR: u32 = 1 << 30;

/// Minimum length of a pause without data in flight that is attributed to the application.
const PAUSE: Duration = Duration::from_secs(1);

/// Time within which data counts as reordered while the round-trip time is unknown.
const REORDERED: Duration = Duration::from_millis(5);

/// Data that has not passed.
#[derive(Clone, Copy, Debug)]
struct Gap {
    left: Seq,
    right: Seq,
    since: Instant,
}

/// One direction of a connection.
#[derive(Clone, Copy, Default, Debug)]
struct Stream {
    /// One past the highest byte seen.
    high: Option<Seq>,
    /// End of the packet that is being timed, and the time at which it passed.
    timed: Option<(Seq, Instant)>,
}

/// Receiver of [`Watch`]'s events.
pub trait Tally {
    /// Counts segments missing from the wired side that arrived so late that they must be retransmissions.
    fn lost(&mut self, segments: u64);
    /// Counts segments missing from the wired side that arrived so soon that they were reordered.
    fn reordered(&mut self, segments: u64);
    /// Counts segments from the wired side that had passed before.
    fn resent(&mut self, segments: u64);
    /// Records a round-trip time between here and the end at `port`.
    fn round_trip(&mut self, port: Port, time: Duration);
}

/// Measurement of one connection.
#[derive(Clone, Default, Debug)]
pub struct Watch {
    /// Directions, by the port at which their data arrives.
    streams: [Stream; 2],
    gaps: [Option<Gap>; GAPS],
    /// Timestamp of an acknowledgment towards the wired side, and the time at which it passed.
    echo: Option<(u32, Instant)>,
    echoed: Option<u32>,
    least_wired: Option<Duration>,
    /// Last acknowledgment of data from the wired side.
    acked: Option<Seq>,
    /// Sequence number below which losses on the hop do not count again.
    counted_to: Option<Seq>,
    /// Time of the last data or acknowledgment.
    last: Option<Instant>,
    /// Acknowledged payload bytes from the wired side.
    pub bytes: u64,
    /// Time for these bytes, without pauses of the application.
    pub time: Duration,
}

impl Watch {
    /// Records a packet that arrived at `port` and consists of segments of `size` payload bytes.
    pub fn on_packet(&mut self, now: Instant, port: Port, view: &View, size: u32, tally: &mut impl Tally) {
        let flags = view.segment.flags;
        if flags.has(Flags::RST) {
            return;
        }
        let seq_len = view.payload_len as u32 + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        if port == Port::WIRED && view.payload_len > 0 {
            self.on_echo(now, view, tally);
            self.on_progress(now);
        }
        if seq_len > 0 {
            self.on_data(now, port, view, seq_len, size, tally);
        }
        if flags.has(Flags::ACK) {
            self.on_ack(now, port, view, tally);
        }
    }

    /// Records a local retransmission over the hop, which ends the timing.
    pub fn on_repair(&mut self) {
        self.streams[0].timed = None;
    }

    /// Records that acknowledgments show a loss on the hop. Returns whether it is new.
    pub fn on_loss(&mut self, seq: Seq, end: Seq) -> Loss {
        if self.counted_to.is_none_or(|counted| seq.ge(counted) || counted.since(seq) > FAR) {
            self.counted_to = Some(end);
            Loss::New
        } else {
            Loss::Known
        }
    }

    fn on_data(&mut self, now: Instant, port: Port, view: &View, seq_len: u32, size: u32, tally: &mut impl Tally) {
        let (seq, end) = (view.segment.seq, view.segment.seq + seq_len);
        let stream = &mut self.streams[usize::from(port.0 & 1)];
        let near = |high: &Seq| seq.since(*high) < FAR && high.since(seq) < FAR;
        let Some(high) = stream.high.filter(near) else {
            (stream.high, stream.timed) = (Some(end), Some((end, now)));
            if port == Port::WIRED {
                self.acked = Some(seq + u32::from(view.segment.flags.has(Flags::SYN)));
            }
            return;
        };
        if end.gt(high) {
            stream.high = Some(end);
            if stream.timed.is_none() {
                stream.timed = Some((end, now));
            }
        } else {
            stream.timed = None;
        }
        if port != Port::WIRED {
            return;
        }
        if seq.gt(high) {
            self.gaps.rotate_right(1);
            self.gaps[0] = Some(Gap { left: high, right: seq, since: now });
        } else if end.le(high) && view.payload_len > 0 {
            self.on_old_data(now, seq, end, size, tally);
        }
    }

    /// Handles data below the highest number: it fills a gap, or has passed before.
    fn on_old_data(&mut self, now: Instant, seq: Seq, end: Seq, size: u32, tally: &mut impl Tally) {
        let segments = |bytes: u32| u64::from(bytes.div_ceil(size.max(1)));
        let patience = self.least_wired.map_or(REORDERED, |rtt| rtt / 4);
        let mut filled = 0;
        for place in &mut self.gaps {
            let Some(gap) = place.as_mut() else { continue };
            let (left, right) = (gap.left.max(seq), gap.right.min(end));
            if !left.lt(right) {
                continue;
            }
            filled += right.since(left);
            let late = now.since(gap.since) >= patience;
            let count = segments(right.since(left));
            if late {
                tally.lost(count)
            } else {
                tally.reordered(count)
            }
            // A gap filled in its middle is rare enough to be dropped as a whole.
            match (left == gap.left, right == gap.right) {
                (true, true) | (false, false) => *place = None,
                (true, false) => gap.left = right,
                (false, true) => gap.right = left,
            }
        }
        if filled == 0 {
            tally.resent(segments(end.since(seq)));
        }
    }

    fn on_ack(&mut self, now: Instant, port: Port, view: &View, tally: &mut impl Tally) {
        let ack = view.segment.ack;
        let (from, to) = (usize::from(port.0 & 1), usize::from(port.0 & 1) ^ 1);
        if let Some((end, sent)) = self.streams[to].timed
            && ack.ge(end)
        {
            self.streams[to].timed = None;
            let rtt = now.since(sent);
            tally.round_trip(port, rtt);
            if from == 0 {
                self.on_wired_rtt(rtt);
            }
        }
        if port != Port::WIRELESS {
            return;
        }
        let Some(high) = self.streams[0].high.filter(|high| ack.le(*high)) else { return };
        if let Some(acked) = self.acked.filter(|acked| ack.since(*acked) < FAR && acked.since(ack) < FAR) {
            if ack.gt(acked) {
                self.on_progress(now);
                self.bytes += u64::from(ack.since(acked));
                self.acked = Some(ack);
            }
        } else {
            self.acked = Some(ack);
        }
        if let Some(timestamps) = view.segment.options.timestamps
            && self.echo.is_none()
            && high.gt(ack)
            && self.echoed.is_none_or(|echoed| Seq(timestamps.val).gt(Seq(echoed)))
        {
            (self.echo, self.echoed) = (Some((timestamps.val, now)), Some(timestamps.val));
        }
    }

    /// Handles the timestamp echoed by data from the wired side.
    fn on_echo(&mut self, now: Instant, view: &View, tally: &mut impl Tally) {
        if let (Some((val, sent)), Some(timestamps)) = (self.echo, view.segment.options.timestamps)
            && Seq(timestamps.ecr).ge(Seq(val))
        {
            self.echo = None;
            // A retransmission echoes an older timestamp.
            if self.streams[0].high.is_none_or(|high| view.segment.seq.ge(high)) {
                let rtt = now.since(sent);
                tally.round_trip(Port::WIRED, rtt);
                self.on_wired_rtt(rtt);
            }
        }
    }

    fn on_wired_rtt(&mut self, rtt: Duration) {
        self.least_wired = Some(self.least_wired.map_or(rtt, |least| least.min(rtt)));
    }

    /// Adds the time since the last data or acknowledgment, unless it was a pause of the application.
    fn on_progress(&mut self, now: Instant) {
        let under_way = self.streams[0].high.zip(self.acked).is_none_or(|(high, acked)| high.gt(acked));
        let span = self.last.map_or(Duration::ZERO, |last| now.since(last));
        if under_way || span < PAUSE {
            self.time = self.time + span;
        }
        self.last = Some(now);
    }

    /// Returns the goodput in bytes per second; `None` below `least` bytes.
    pub fn goodput(&self, least: u64) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (self.bytes >= least.max(1) && seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

/// Novelty of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The loss was not counted before.
    New,
    /// The loss was counted before.
    Known,
}
