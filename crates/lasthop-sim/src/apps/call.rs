//! Calls: audio or video at a constant rate. Each packet has a deadline.

use lasthop_proto::packet::{Body, Cause, FlowId, Packet, Side};
use lasthop_proto::tcp::config::HeaderAccounting;
use lasthop_proto::time::{Duration, Instant};

use crate::endpoint::index as endpoint;

/// Bytes of IPv4, UDP and RTP header (RFC 3550).
const HEADERS: u16 = 40;

/// Traffic of a call, and the deadline of its packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallConfig {
    /// Interval between frames.
    pub interval: Duration,
    /// Bytes of a frame, at least 1.
    pub frame: u32,
    /// Maximum number of bytes of a frame in one packet, at least 1. The packets of a frame are sent together.
    pub packet: u32,
    /// Time from sending to playout. A packet that arrives later is useless.
    pub deadline: Duration,
    /// Codec parameters, for speech only.
    pub codec: Option<Codec>,
}

/// Loss behaviour of a speech codec (ITU-T G.113).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Codec {
    /// Equipment impairment factor, Ie.
    pub ie: f64,
    /// Packet-loss robustness factor, Bpl.
    pub bpl: f64,
}

impl CallConfig {
    /// Returns the number of packets per frame.
    pub const fn packets(&self) -> u32 {
        self.frame.div_ceil(self.packet)
    }

    /// Returns the time at which a call that begins at `start` sends packet `number`.
    pub fn sent_at(&self, start: Instant, number: u32) -> Instant {
        start + self.interval * u64::from(number / self.packets())
    }

    /// Returns the payload of packet `number`, in bytes.
    const fn payload(&self, number: u32) -> u32 {
        let packets = self.packets();
        if number % packets + 1 < packets { self.packet } else { self.frame - (packets - 1) * self.packet }
    }

    /// Returns the number of packets, and of frames, whose deadline is not after `end`, for a call that begins at
    /// `start`.
    fn due(&self, start: Instant, end: Instant) -> (u32, u32) {
        if end < start + self.deadline {
            return (0, 0);
        }
        let frames = end.since(start + self.deadline).as_nanos() / self.interval.as_nanos().max(1) + 1;
        let packets = frames.saturating_mul(self.packets().into());
        (u32::try_from(packets).unwrap_or(u32::MAX), u32::try_from(frames).unwrap_or(u32::MAX))
    }
}

/// Sending end of a call.
#[derive(Clone, Debug)]
pub struct CallSource {
    config: CallConfig,
    flow: FlowId,
    header_len: u16,
    start: Instant,
    number: u32,
}

impl CallSource {
    /// Creates the source of `flow`. Its headers count as TCP's do on the same flow.
    pub fn new(config: CallConfig, flow: FlowId, start: Instant, headers: HeaderAccounting) -> Self {
        let header_len = if headers == HeaderAccounting::Full { HEADERS } else { 0 };
        Self { config, flow, header_len, start, number: 0 }
    }

    /// Returns the time at which the next packet is due.
    pub fn poll_deadline(&self) -> Instant {
        self.config.sent_at(self.start, self.number)
    }

    /// Returns the index of the sending endpoint.
    pub fn endpoint(&self) -> usize {
        endpoint(self.flow, Side::Initiator)
    }

    /// Returns the packet that is due.
    pub fn take(&mut self) -> Packet {
        let number = self.number;
        self.number = number.saturating_add(1);
        Packet {
            flow: self.flow,
            from: Side::Initiator,
            cause: Cause::Datagram,
            header_len: self.header_len,
            len: self.config.payload(number),
            body: Body::Media { number },
            ..Packet::default()
        }
    }
}

/// Set of small numbers.
#[derive(Clone, Debug, Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Adds a number. Returns whether it is new.
    fn insert(&mut self, number: u32) -> bool {
        let (place, bit) = (number as usize / 64, 1 << (number % 64));
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        let is_new = self.0[place] & bit == 0;
        self.0[place] |= bit;
        is_new
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// Receiving end of a call.
#[derive(Clone, Debug)]
pub struct CallLog {
    config: CallConfig,
    start: Instant,
    arrived: Numbers,
    on_time: Numbers,
    delays: Delays,
}

impl CallLog {
    /// Creates the log of a call that begins at `start`.
    pub fn new(config: CallConfig, start: Instant) -> Self {
        let (arrived, on_time) = (Numbers::default(), Numbers::default());
        Self { config, start, arrived, on_time, delays: Delays::default() }
    }

    /// Records the arrival of packet `number`. Ignores duplicates.
    pub fn take(&mut self, now: Instant, number: u32) {
        if !self.arrived.insert(number) {
            return;
        }
        let delay = now.since(self.config.sent_at(self.start, number));
        self.delays.add(delay);
        if delay <= self.config.deadline {
            self.on_time.insert(number);
        }
    }

    /// Returns the report of the call for a run that ended at `end`.
    pub fn report(&self, end: Instant) -> CallReport {
        let (sent, frames) = self.config.due(self.start, end);
        let mut report = CallReport {
            sent: sent.into(),
            frames: frames.into(),
            delays: self.delays.clone(),
            ..CallReport::default()
        };
        let packets = self.config.packets();
        let (mut gone, mut frame_gone) = (false, false);
        for number in 0..sent {
            let missed = !self.on_time.has(number);
            report.late += u64::from(missed && self.arrived.has(number));
            report.lost += u64::from(missed && !self.arrived.has(number));
            report.gaps += u64::from(missed && !gone);
            (gone, frame_gone) = (missed, missed || frame_gone && number % packets != 0);
            if number % packets + 1 == packets {
                report.frames_missed += u64::from(frame_gone);
            }
        }
        report
    }
}

/// Result of a call. Counts packets and frames whose deadlines had passed when the run ended.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CallReport {
    /// Packets sent.
    pub sent: u64,
    /// Number of packets that did not arrive.
    pub lost: u64,
    /// Number of packets that arrived after their deadline.
    pub late: u64,
    /// Number of bursts of consecutive lost or late packets.
    pub gaps: u64,
    /// Frames sent.
    pub frames: u64,
    /// Number of frames with at least one lost or late packet.
    pub frames_missed: u64,
    /// Delays from sending to arrival, of all packets that arrived.
    pub delays: Delays,
}

impl CallReport {
    /// Returns the share of packets that were lost or late, from 0 to 1.
    pub fn missed(&self) -> f64 {
        (self.lost + self.late) as f64 / self.sent.max(1) as f64
    }

    /// Returns the mean length of bursts of lost and late packets relative to independent losses (BurstR of ITU-T
    /// G.107), at least 1.
    pub fn burst_ratio(&self) -> f64 {
        let mean = (self.lost + self.late) as f64 / self.gaps.max(1) as f64;
        (mean * (1.0 - self.missed())).max(1.0)
    }
}

/// Histogram of delays. A class is at most 0.4 % or 1 µs wide.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Delays {
    counts: Vec<u32>,
    total: u64,
    longest: Duration,
}

/// Number of microseconds below which each has a class of its own. Above, each doubling has half as many classes.
const EXACT: u64 = 512;

impl Delays {
    /// Adds a delay.
    pub fn add(&mut self, delay: Duration) {
        let micros = delay.as_nanos() / 1000;
        let place = match micros {
            0..EXACT => micros,
            _ => {
                let octave = u64::from(micros.ilog2() - EXACT.ilog2());
                EXACT + octave * (EXACT / 2) + (micros >> (octave + 1)) - EXACT / 2
            }
        };
        let place = place as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(1);
        self.total += 1;
        self.longest = self.longest.max(delay);
    }

    /// Adds the delays of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the number of delays.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Returns the maximum delay; zero if there is none.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the quantile at `permille` thousandths, as the middle of its class; `None` if there are no delays.
    pub fn quantile(&self, permille: u32) -> Option<Duration> {
        if self.total == 0 {
            return None;
        }
        let rank = (u128::from(self.total) * u128::from(permille)).div_ceil(1000).max(1) as u64;
        let mut below = 0;
        let place = self.counts.iter().position(|count| {
            below += u64::from(*count);
            below >= rank
        })? as u64;
        let nanos = match place.checked_sub(EXACT) {
            None => place * 1000 + 500,
            Some(above) => {
                let (octave, within) = (above / (EXACT / 2), above % (EXACT / 2));
                ((EXACT / 2 + within) << (octave + 1)) * 1000 + (500 << (octave + 1))
            }
        };
        Some(Duration::from_nanos(nanos).min(self.longest))
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
