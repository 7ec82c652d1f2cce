//! What a bystander can tell about a connection: losses before it, round trips of both sides, goodput.
//!
//! * A round trip of either side is the time from data that leaves towards it, sent once (Karn's rule), to the
//!   acknowledgment of that data; one packet at a time. Openings count too.
//! * Where timestamps are on, the wired side is also timed by data that echoes the timestamp of an acknowledgment which
//!   passed while more data was under way, so that the sender was not waiting for its application.
//! * Data that never came by is a gap. What fills it within a quarter of the wired round trip was out of order, later it was
//!   lost and sent again.

use lasthop_proto::node::Port;
use lasthop_proto::packet::Flags;
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::View;

/// Gaps remembered of one connection.
const GAPS: usize = 4;

/// Farther apart than this nothing belongs to the same window (RFC 7323 §2.3).
const FAR: u32 = 1 << 30;

/// A pause without anything under way, from this length on, is the application's.
const PAUSE: Duration = Duration::from_secs(1);

/// What counts as out of order before the round trip is known.
const REORDERED: Duration = Duration::from_millis(5);

/// Data that never came by.
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
    /// The end of a packet that is being timed, and when it passed.
    timed: Option<(Seq, Instant)>,
}

/// Who counts what [`Watch`] sees.
pub trait Tally {
    /// Segments missing in what comes from the wired side that came later, as retransmissions do.
    fn lost(&mut self, segments: u64);
    /// Such segments that came so soon that they were out of order.
    fn reordered(&mut self, segments: u64);
    /// Segments from the wired side that had passed before.
    fn resent(&mut self, segments: u64);
    /// A round trip between here and the end at `port`.
    fn round_trip(&mut self, port: Port, time: Duration);
}

/// What was seen of one connection.
#[derive(Clone, Default, Debug)]
pub struct Watch {
    /// By the port that the data comes from.
    streams: [Stream; 2],
    gaps: [Option<Gap>; GAPS],
    /// The timestamp of an acknowledgment that went to the wired side, and when.
    echo: Option<(u32, Instant)>,
    echoed: Option<u32>,
    least_wired: Option<Duration>,
    /// The last acknowledgment of data from the wired side.
    acked: Option<Seq>,
    /// Below this no loss on the hop counts again.
    counted_to: Option<Seq>,
    /// When data or acknowledgments were last seen.
    last: Option<Instant>,
    /// Payload bytes from the wired side acknowledged.
    pub bytes: u64,
    /// The time that it took them, without the application's pauses.
    pub time: Duration,
}

impl Watch {
    /// A packet came in at `port`; segments of `size` payload bytes make it up.
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

    /// A packet is sent again over the hop, which ends its timing.
    pub fn on_repair(&mut self) {
        self.streams[0].timed = None;
    }

    /// Acknowledgments show that a packet is missing behind the hop; says whether for the first time.
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

    /// Data below the highest: it fills a gap, or passed before.
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
            // What lies between two filled parts is rare enough to be forgotten.
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

    /// Data from the wired side: the timestamp that it echoes.
    fn on_echo(&mut self, now: Instant, view: &View, tally: &mut impl Tally) {
        if let (Some((val, sent)), Some(timestamps)) = (self.echo, view.segment.options.timestamps)
            && Seq(timestamps.ecr).ge(Seq(val))
        {
            self.echo = None;
            // A resent packet echoes what came long before it.
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

    /// Data or its acknowledgment: the time since the last counts, unless it was the application's.
    fn on_progress(&mut self, now: Instant) {
        let under_way = self.streams[0].high.zip(self.acked).is_none_or(|(high, acked)| high.gt(acked));
        let span = self.last.map_or(Duration::ZERO, |last| now.since(last));
        if under_way || span < PAUSE {
            self.time = self.time + span;
        }
        self.last = Some(now);
    }

    /// Bytes per second; `None` below `least` bytes.
    pub fn goodput(&self, least: u64) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (self.bytes >= least.max(1) && seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

/// Whether a loss was counted before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// It was not.
    New,
    /// It was.
    Known,
}
