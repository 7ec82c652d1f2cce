//! Calls: sound or pictures at a constant rate, each packet of use until its deadline.

use lasthop_proto::packet::{Body, Cause, FlowId, Packet, Side};
use lasthop_proto::tcp::config::HeaderAccounting;
use lasthop_proto::time::{Duration, Instant};

use crate::endpoint::index as endpoint;

/// Bytes of IPv4, UDP and RTP header (RFC 3550).
const HEADERS: u16 = 40;

/// What a call sends, and until when it is of use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallConfig {
    /// Between one frame and the next.
    pub interval: Duration,
    /// Bytes of a frame, at least 1.
    pub frame: u32,
    /// Most bytes of a frame in one packet, at least 1. The packets of a frame leave together.
    pub packet: u32,
    /// The receiver plays a packet so long after it was sent; later it is of no use.
    pub deadline: Duration,
    /// Of speech, how its codec does.
    pub codec: Option<Codec>,
}

/// How a codec for speech does (ITU-T G.113).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Codec {
    /// Equipment impairment factor, Ie.
    pub ie: f64,
    /// Packet-loss robustness factor, Bpl.
    pub bpl: f64,
}

impl CallConfig {
    /// Packets of a frame.
    pub const fn packets(&self) -> u32 {
        self.frame.div_ceil(self.packet)
    }

    /// When a call that begins at `start` sends the packet of that number.
    pub fn sent_at(&self, start: Instant, number: u32) -> Instant {
        start + self.interval * u64::from(number / self.packets())
    }

    /// Payload of the packet of that number.
    const fn payload(&self, number: u32) -> u32 {
        let packets = self.packets();
        if number % packets + 1 < packets { self.packet } else { self.frame - (packets - 1) * self.packet }
    }

    /// Packets of a call from `start` on of which the deadline lies before `end`, and frames.
    fn due(&self, start: Instant, end: Instant) -> (u32, u32) {
        if end < start + self.deadline {
            return (0, 0);
        }
        let frames = end.since(start + self.deadline).as_nanos() / self.interval.as_nanos().max(1) + 1;
        let packets = frames.saturating_mul(self.packets().into());
        (u32::try_from(packets).unwrap_or(u32::MAX), u32::try_from(frames).unwrap_or(u32::MAX))
    }
}

/// The end that speaks.
#[derive(Clone, Debug)]
pub struct CallSource {
    config: CallConfig,
    flow: FlowId,
    header_len: u16,
    start: Instant,
    number: u32,
}

impl CallSource {
    /// The source of `flow`, whose headers count as TCP's do on the same flow.
    pub fn new(config: CallConfig, flow: FlowId, start: Instant, headers: HeaderAccounting) -> Self {
        let header_len = if headers == HeaderAccounting::Full { HEADERS } else { 0 };
        Self { config, flow, header_len, start, number: 0 }
    }

    /// When the next packet is due.
    pub fn next_at(&self) -> Instant {
        self.config.sent_at(self.start, self.number)
    }

    /// Index of the endpoint that sends it.
    pub fn endpoint(&self) -> usize {
        endpoint(self.flow, Side::Initiator)
    }

    /// The packet that is due.
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

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Whether it is new.
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

/// The end that listens.
#[derive(Clone, Debug)]
pub struct CallLog {
    config: CallConfig,
    start: Instant,
    arrived: Numbers,
    on_time: Numbers,
    delays: Delays,
}

impl CallLog {
    /// Of a call that begins at `start`.
    pub fn new(config: CallConfig, start: Instant) -> Self {
        let (arrived, on_time) = (Numbers::default(), Numbers::default());
        Self { config, start, arrived, on_time, delays: Delays::default() }
    }

    /// The packet of that number is here; a second time it counts no more.
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

    /// What became of it in a run that ended at `end`.
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

/// What became of a call. Packets and frames count whose deadlines were over when the run ended.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CallReport {
    /// Packets sent.
    pub sent: u64,
    /// Of those, packets that did not arrive.
    pub lost: u64,
    /// And those that did after their deadline.
    pub late: u64,
    /// Runs of packets that were lost or late.
    pub gaps: u64,
    /// Frames sent.
    pub frames: u64,
    /// Of those, frames of which a packet was lost or late.
    pub frames_missed: u64,
    /// From sending to arrival, of all packets that arrived.
    pub delays: Delays,
}

impl CallReport {
    /// The share of packets that were lost or late.
    pub fn missed(&self) -> f64 {
        (self.lost + self.late) as f64 / self.sent.max(1) as f64
    }

    /// How much longer runs of lost and late packets are than they would be were these independent (BurstR of ITU-T G.107), at
    /// least 1.
    pub fn burst_ratio(&self) -> f64 {
        let mean = (self.lost + self.late) as f64 / self.gaps.max(1) as f64;
        (mean * (1.0 - self.missed())).max(1.0)
    }
}

/// Delays, counted in classes that are at most 0.4 % wide, or 1 µs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Delays {
    counts: Vec<u32>,
    total: u64,
    longest: Duration,
}

/// Up to so many microseconds each has a class of its own; from there on each doubling has half as many.
const EXACT: u64 = 512;

impl Delays {
    /// Adds one.
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

    /// Adds those of another.
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

    /// How many.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The longest; zero without any.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// What so many of a thousand do not exceed: the middle of its class; `None` without any.
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
